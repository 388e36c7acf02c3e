"""How often the 95 % intervals contain the truth, over many simulated runs of many worlds."""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
import zlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.coverage_worlds import (
    Run,
    World,
    few_patients_worlds,
    listed_worlds,
    other_worlds,
    true_figures,
)
from krisis.metrics import default_benchmark_metrics
from krisis.metrics.base import EvaluationResult
from krisis.metrics.scoring import score_all
from krisis.statistics.bootstrap import BootstrapOptions
from krisis.statistics.intervals import Interval

# A method takes a run and a seed and gives, by metric, the printed value and its interval.
Method = Callable[[Run, int], Mapping[str, tuple[float, Interval]]]


@dataclass(frozen=True)
class Cell:
    """One metric in one world."""

    world: str
    metric: str
    truth: float
    n_runs: int
    n_defined: int
    existence: float
    coverage: float
    missed_below: float
    missed_above: float
    inside: float
    width: float
    relative_width: float
    effective_errors: float

    @property
    def too_low(self) -> bool:
        """Tell whether the interval covers too rarely, is missing, or lies beside its value."""
        return self.coverage < 0.92 or self.existence < 1 or self.inside < 1

    @property
    def too_high(self) -> bool:
        """Tell whether it covers too often although errors abound."""
        return self.coverage > 0.985 and self.effective_errors >= 5


SETS = {"listed": listed_worlds, "other": other_worlds, "few": few_patients_worlds}
METRICS = {
    "accuracy": "accuracy",
    "balanced_accuracy": "balanced_accuracy",
    "answer_rate": "answer_rate",
    "selective_accuracy": "selective_accuracy",
    "brier_score": "brier",
    "expected_calibration_error": "ece",
    "aurc": "aurc",
    "augrc": "augrc",
    "risk_at_80_coverage": "risk_at_80",
}


def by_product(
    run: Run, seed: int, *, metric: str | None = None
) -> dict[str, tuple[float, Interval]]:
    """Score a run with the default metrics, or one of them, and their intervals."""
    columns = (run.prediction, run.truth, run.abstained, run.confidence, run.patient)
    rows = [
        EvaluationResult(prediction, truth, abstained, confidence, cluster_id=str(patient))
        for prediction, truth, abstained, confidence, patient in zip(
            *(column.tolist() for column in columns), strict=True
        )
    ]
    metrics = [
        one
        for one in default_benchmark_metrics()
        if one.key in METRICS and metric in (None, METRICS[one.key])
    ]
    scores = score_all(metrics, rows, intervals=BootstrapOptions(n_resamples=500, seed=seed))
    return {
        METRICS[score.key]: (score.value, score.interval or Interval.undefined("missing"))
        for score in scores.values()
    }


def cells(
    world: World, method: Method, *, n_runs: int, known: Mapping[str, float] | None = None
) -> list[Cell]:
    """Return the coverage of every metric in one world, of all whose truth is ``known``."""
    truth = true_figures(world) if known is None else known
    rng = np.random.default_rng(zlib.crc32(world.name.encode()))
    ends: dict[str, list[tuple[float, float, float]]] = {}
    rows, errors = 0.0, 0.0
    for number in range(n_runs):
        run = world.draw(rng)
        rows += run.truth.size
        errors += float(np.sum(~run.abstained & (run.prediction != run.truth)))
        for name, (value, interval) in method(run, number).items():
            if not math.isnan(value):
                ends.setdefault(name, []).append((value, interval.low, interval.high))
    k = rows / n_runs / np.mean([world.sizes(rng).size for _ in range(20)])
    effective = errors / n_runs / (1 + (k - 1) * world.icc)
    found = []
    for name, values in ends.items():
        # Left out: what has no true value, hardly ever one, or one that is fixed by the design.
        within = 0 < truth[name] < 1 or known is not None
        if not within or len(values) < 0.5 * n_runs:
            continue
        found.append(_cell((world.name, name, truth[name]), np.array(values), n_runs, effective))
    return found


def _cell(label: tuple[str, str, float], ends: np.ndarray, n_runs: int, effective: float) -> Cell:
    truth = label[2]
    value, low, high = ends.T
    exists = ~np.isnan(low) & ~np.isnan(high)
    slack = 1e-9
    with np.errstate(invalid="ignore"):
        below, above = truth < low - slack, truth > high + slack
        inside = (low <= value + slack) & (value <= high + slack)
    spread = np.quantile(value, 0.975) - np.quantile(value, 0.025)
    width = float(np.mean((high - low)[exists])) if exists.any() else math.nan
    return Cell(
        *label,
        n_runs=n_runs,
        n_defined=len(value),
        existence=float(exists.mean()),
        coverage=float((exists & ~below & ~above).mean()),
        missed_below=float(below.mean()),
        missed_above=float(above.mean()),
        inside=float(inside.mean()),
        width=width,
        relative_width=width / spread if spread > 0 else math.inf,
        effective_errors=effective,
    )


def table(found: Iterable[Cell]) -> str:
    """Return the cells as Markdown, worst coverage first."""
    titles = ("world", "metric", "truth", "coverage %", "truth below / above %", "width", "errors")
    lines = [f"| {' | '.join(titles)} |", "|---|---|---|---|---|---|---|"]
    lines += [
        f"| {cell.world} | {cell.metric} | {cell.truth:.4f} | {100 * cell.coverage:.1f} | "
        f"{100 * cell.missed_below:.1f} / {100 * cell.missed_above:.1f} | "
        f"{cell.relative_width:.2f} | {cell.effective_errors:.1f} |"
        for cell in sorted(found, key=lambda cell: (cell.coverage, cell.world))
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--match", default="", help="only worlds whose name contains this")
    parser.add_argument("--set", choices=[*SETS, "all"], default="all")
    parser.add_argument("--metric", choices=list(METRICS.values()), help="only this metric")
    parser.add_argument("--output", type=Path)
    asked = parser.parse_args()
    worlds = [world for name, of in SETS.items() if asked.set in (name, "all") for world in of()]
    method = partial(by_product, metric=asked.metric)
    found: list[Cell] = []
    for world in worlds:
        if asked.match not in world.name:
            continue
        start = time.perf_counter()
        fresh = cells(world, method, n_runs=asked.runs)
        found += fresh
        worst = min(fresh, key=lambda c: c.coverage)
        print(
            f"{world.name}: worst {worst.metric} {100 * worst.coverage:.1f} % "
            f"({time.perf_counter() - start:.0f} s)",
            file=sys.stderr,
            flush=True,
        )
        if asked.output:
            asked.output.write_text(json.dumps([asdict(c) for c in found], indent=1))
    print(table(found))
    print(
        f"{len(found)} cells, {sum(c.too_low for c in found)} too low, "
        f"{sum(c.too_high for c in found)} too high"
    )


if __name__ == "__main__":
    main()

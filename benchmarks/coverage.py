"""How often the 95 % intervals contain the truth, over many simulated runs of many worlds."""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from statistics import median

import numpy as np

from benchmarks.coverage_worlds import (
    Run,
    World,
    few_patients_worlds,
    listed_worlds,
    other_worlds,
    true_figures,
)
from krisis.metrics.base import EvaluationResult
from krisis.metrics.scoring import metrics_from_names, score_all
from krisis.statistics.bootstrap import BootstrapOptions
from krisis.statistics.intervals import Interval

# A method takes a run and a seed and gives, by metric, the printed value and its interval.
Method = Callable[[Run, int], Mapping[str, tuple[float, Interval]]]


PROMISED = 0.92
BEGIN, END = "<!-- tables of benchmarks.coverage -->", "<!-- end of the tables -->"


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
    def standard_error(self) -> float:
        """The standard error of a coverage as promised."""
        return math.sqrt(PROMISED * (1 - PROMISED) / self.n_defined)

    @property
    def too_low(self) -> bool:
        """Tell whether the interval covers too rarely, is missing, or lies beside its value."""
        return self.coverage < PROMISED or self.existence < 1 or self.inside < 1

    @property
    def too_high(self) -> bool:
        """Tell whether it covers too often although errors abound."""
        return self.coverage > 0.985 and self.effective_errors >= 5


HEADINGS = {
    "listed": "independent rows, 15 or 40 patients",
    "other": "other worlds",
    "few": "six patients with 50 rows",
}
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
        for one in metrics_from_names(["default", "selective"])
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


def page_tables(found: Iterable[Cell]) -> str:
    """Return a table for the page on intervals, metric by set of worlds, and the sum of it."""
    now = {(cell.world, cell.metric): cell for cell in found}
    sets = {HEADINGS[kind]: {world.name for world in of()} for kind, of in SETS.items()}
    lines = [f"| metric | {' | '.join(sets)} |", "|---" * (1 + len(sets)) + "|"]
    for name in (name for name in METRICS.values() if name != "answer_rate"):
        of_metric = [cell for cell in now.values() if cell.metric == name]
        shown = [_shown([c for c in of_metric if c.world in some]) for some in sets.values()]
        lines.append(f"| {name} | {' | '.join(shown)} |")
    runs = {cell.n_runs for cell in now.values()}
    low = [cell for cell in now.values() if cell.coverage < PROMISED]
    far = [cell for cell in low if cell.coverage < PROMISED - 2 * cell.standard_error]
    absent = sum(cell.existence < 1 or cell.inside < 1 for cell in now.values())
    lines += [
        "",
        f"{len(now)} cells of {' or '.join(f'{n:,}' for n in sorted(runs))} runs; in {absent} of "
        f"them an interval was missing or did not contain its value. {len(low)} are below 92 %"
        + (f" ({_named(low)})" if low else "")
        + f"; below it by more than two standard errors: {_named(far) or 'none'}.",
    ]
    return "\n".join(lines)


def _shown(found: Sequence[Cell]) -> str:
    """Return the lowest and the median coverage of some worlds, and the median width."""
    if not found:
        return "–"
    coverage = [100 * cell.coverage for cell in found]
    width = median(cell.relative_width for cell in found)
    return f"{min(coverage):.1f}, {median(coverage):.1f} ({width:.1f}×)"


def _named(found: Iterable[Cell]) -> str:
    return "; ".join(f"{c.metric} in “{c.world}” {100 * c.coverage:.1f}" for c in found)


def _read(paths: Iterable[Path]) -> list[Cell]:
    return [Cell(**cell) for path in paths for cell in json.loads(path.read_text())]


def _write_tables(page: Path, tables: str) -> None:
    """Put the tables between their marks on a page."""
    before, _, rest = page.read_text().partition(BEGIN)
    after = rest.partition(END)[2]
    page.write_text(f"{before}{BEGIN}\n\n{tables}\n\n{END}{after}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=400)
    parser.add_argument("--match", default="", help="only worlds whose name contains this")
    parser.add_argument("--set", choices=[*SETS, "all"], default="all")
    parser.add_argument("--metric", choices=list(METRICS.values()), help="only this metric")
    parser.add_argument("--output", type=Path)
    parser.add_argument("--of", type=Path, nargs="+", help="show these outputs; draw nothing")
    parser.add_argument("--page", type=Path, help="write the tables into this page")
    asked = parser.parse_args()
    if asked.of:
        tables = page_tables(_read(asked.of))
        print(tables)
        if asked.page:
            _write_tables(asked.page, tables)
        return
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

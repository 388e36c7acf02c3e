"""How often the intervals of the clinical calibration metrics contain the truth."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.coverage import Cell, cells, table
from benchmarks.coverage_worlds import SIX_LEVELS, Run, World, equal
from krisis.metrics import clinical_calibration_metrics
from krisis.metrics.base import BaseMetric, EvaluationResult, Rows
from krisis.metrics.scoring import score_all
from krisis.statistics.bootstrap import BootstrapOptions
from krisis.statistics.intervals import Interval

N_TRUTH = 400_000


def rows_of(run: Run) -> Rows:
    """Return a simulated run as rows."""
    columns = (run.prediction, run.truth, run.abstained, run.confidence, run.patient)
    return Rows(
        EvaluationResult(prediction, truth, abstained, confidence, cluster_id=str(patient))
        for prediction, truth, abstained, confidence, patient in zip(
            *(column.tolist() for column in columns), strict=True
        )
    )


def by_product(metrics: list[BaseMetric], run: Run, seed: int) -> dict[str, tuple[float, Interval]]:
    """Score a run with metrics of the bundle and their intervals."""
    options = BootstrapOptions(n_resamples=200, seed=seed)
    scores = score_all(metrics, rows_of(run), intervals=options)
    return {
        score.key: (score.value, score.interval or Interval.undefined("missing"))
        for score in scores.values()
    }


def truth_of(world: World, metrics: list[BaseMetric]) -> dict[str, float]:
    """Return the metrics of a run so long that chance plays hardly a part."""
    rng = np.random.default_rng(2024)
    sizes = np.ones(N_TRUTH, dtype=np.int64)
    rows = rows_of(replace(world, icc=0.0).draw(rng, sizes))
    return {metric.key: metric(rows).value for metric in metrics}


def worlds() -> Iterator[tuple[World, str]]:
    """Yield worlds with the outcome that is judged in them."""
    for n in (30, 60, 100, 300):
        yield World(f"{n} rows, 10 % errors", equal(n, 1), 0.1), "correct"
        yield World(f"{n} calibrated rows", equal(n, 1), shift=0.0, levels=None), "correct"
    yield World("100 rows, 3 % errors", equal(100, 1), 0.03), "correct"
    yield World("300 rows, 3 % errors", equal(300, 1), 0.03), "correct"
    three = ((0.7, 0.9, 0.95), (0.1, 0.3, 0.6))
    yield World("100 rows, three levels, 8 %", equal(100, 1), 0.08, levels=three), "correct"
    many = (tuple(np.linspace(0.5, 0.98, 25).tolist()), (0.04,) * 25)
    for n in (60, 100, 300):
        yield World(f"{n} rows, 25 levels, 10 %", equal(n, 1), 0.1, levels=many), "correct"
    yield World("100 overconfident by 0.1", equal(100, 1), shift=0.1, levels=None), "correct"
    for patients, icc in ((15, 0.4), (40, 0.1), (40, 0.4)):
        name = f"{patients} × 8, ICC {icc}, 20 % errors"
        yield World(name, equal(patients, 8), 0.2, icc), "correct"
    name = "20 × 6 distinct, ICC 0.3, 15 %"
    yield World(name, equal(20, 6), 0.15, 0.3, levels=None), "correct"
    for n in (60, 300):
        yield World(f"{n} rows, P(positive)", equal(n, 1), 0.2, levels=SIX_LEVELS), "positive"
    name = "30 × 4, ICC 0.3, P(positive)"
    yield World(name, equal(30, 4), 0.2, 0.3, levels=None), "positive"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--match", default="", help="only worlds whose name contains this")
    parser.add_argument("--part", default="0/1", help="K/N: every N-th world from the K-th")
    parser.add_argument("--output", type=Path)
    asked = parser.parse_args()
    first, every = map(int, asked.part.split("/"))
    found: list[Cell] = []
    for world, of in list(worlds())[first::every]:
        if asked.match not in world.name:
            continue
        start = time.perf_counter()
        method = partial(by_product, metrics := clinical_calibration_metrics(of))
        found += cells(world, method, n_runs=asked.runs, known=truth_of(world, metrics))
        print(world.name, f"{time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)
        if asked.output:
            asked.output.write_text(json.dumps([asdict(cell) for cell in found], indent=1))
    print(table(found))


if __name__ == "__main__":
    main()

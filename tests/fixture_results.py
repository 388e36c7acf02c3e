"""Typed results of every verb on invented runs: what documents are held by."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from tests.invented_runs import ANSWERS, invented_rows, result_of, rows_of_every_outcome

import krisis
from krisis.costs import Costs
from krisis.metrics.base import MetricScores, Rows
from krisis.metrics.selective_prediction import risk_coverage_curve
from krisis.results.result import BenchmarkResult
from krisis.verbs.compare.grid_page import GridResult, TaskRuns


@cache
def run(name: str, *, n: int = 160, seed: int = 0, skill: float = 1.0) -> BenchmarkResult:
    """Return an invented run under the name of a model."""
    return result_of(invented_rows(n, seed=seed, skill=skill), name)


@cache
def lossy(name: str) -> BenchmarkResult:
    """Return a run with replies that are no answers and calls that were lost."""
    return result_of(rows_of_every_outcome(skill=0.9), name)


@cache
def weak() -> BenchmarkResult:
    """Return a run that answers other cases, less often rightly."""
    return result_of(_other_choices(invented_rows(160, skill=0.4)), "eager")


def _other_choices(rows: Rows) -> Rows:
    """Return rows whose abstentions are those of another model: most cases are answered."""
    found = []
    for i, row in enumerate(rows):
        if row.abstained and i % 3:
            row.abstained, row.prediction = (
                False,
                row.ground_truth if i % 2 else 1 - row.ground_truth,
            )  # type: ignore[operator]
        found.append(row)
    return Rows(found, ANSWERS)


@cache
def sure(name: str = "sure", *, start: int = 0, wrong: int = 17) -> BenchmarkResult:
    """Return a run of 300 patients of two sexes that is wrong in every so manieth answer."""
    n = 300
    rows = {
        "y": [i % 2 for i in range(n)],
        "p": [(i % 2) if i % wrong else 1 - i % 2 for i in range(n)],
        "c": [0.5 + (i % 50) / 100 if i % wrong else 0.5 + (i % 9) / 100 for i in range(n)],
        "sex": ["female" if i % 3 else "male" for i in range(n)],
        "id": [f"case {start + i}" for i in range(n)],
    }
    columns = {"truth": "y", "prediction": "p", "confidence": "c", "id": "id", "groups": ["sex"]}
    return krisis.score(rows, **columns, model=name)  # type: ignore[arg-type]


def _compare(*runs: BenchmarkResult, **options: Any) -> Any:
    return krisis.compare(*runs, permutations=199, **options)


def _selective(*runs: BenchmarkResult) -> Any:
    return krisis.selective(*runs, confidence="default", resamples=50)


def _decide(**options: Any) -> Any:
    costs = Costs({0: {1: 1.0}, 1: {0: 5.0}}, price=0.5)
    return krisis.decide(run("careful"), costs=costs, max_not_evaluated=0.1, **options)


def _verified(wrong: int, by: tuple[str, ...] = ()) -> Any:
    certificate = krisis.certify(sure(), risk=0.1, by=by, price=0.9)
    return krisis.verify(certificate, sure(start=1000, wrong=wrong))


def _grid() -> GridResult:
    """Return the runs of two tasks, one of them compared, and a cell that failed."""
    runs = {one.backend_name: one for one in (run("careful"), weak(), lossy("lossy"))}
    cells = [(f"{name} · ckd detection", "finished", f"20260102T_{name}") for name in runs]
    return GridResult(
        name="20260102T030405Z_grid_3fa94c",
        cells=[*cells, ("careful · ckd staging", "failed: no key", "")],
        tasks=[
            TaskRuns("ckd · detection", runs, _compare(*runs.values())),
            TaskRuns("ckd · staging", {"lossy": runs["lossy"]}, None, "one run has ended"),
        ],
    )


# Name of a result, by verb and kind, to the result, which is made once.
RESULTS: dict[str, Callable[[], Any]] = {
    "compare": lambda: _compare(run("careful"), weak()),
    "compare.tested": lambda: _compare(
        run("careful"), weak(), metrics=["accuracy", "aurc"], primary="accuracy", margin=0.05
    ),
    "grid": _grid,
    "compare.three": lambda: _compare(run("careful"), weak(), lossy("lossy")),
    "selective": lambda: _selective(run("careful")),
    "selective.two": lambda: _selective(run("careful"), run("eager", skill=0.5)),
    "certify": lambda: krisis.certify(sure(), risk=0.1),
    "certify.none": lambda: krisis.certify(run("careful"), risk=0.05, max_not_evaluated=0.1),
    "certify.groups": lambda: krisis.certify(sure(), risk=0.1, by=["sex"]),
    "certify.crc": lambda: krisis.certify(sure(), risk=0.1, method="crc"),
    "verify.held": lambda: _verified(29),
    "verify.broken": lambda: _verified(3),
    "verify.groups": lambda: _verified(3, ("sex",)),
    "plan.estimate": lambda: krisis.plan(
        "estimate", expected=0.9, half_width=0.03, simulations=200
    ),
    "plan.n": lambda: krisis.plan(
        "estimate", expected=0.9, half_width=0.0452, n=200, simulations=200
    ),
    "plan.compare": lambda: krisis.plan("compare", difference=0.1, discordance=0.2, simulations=50),
    "plan.non-inferior": lambda: krisis.plan(
        "non-inferior", margin=0.1, discordance=0.2, simulations=50
    ),
    "plan.certify": lambda: krisis.plan(
        "certify", risk=0.1, expected_risk=0.02, pilots=[sure()], simulations=50
    ),
    "check": lambda: krisis.check(
        run("careful"),
        require=["accuracy >= 0.5", "lower(accuracy) >= 0.9", "lower(no_answer_rate) <= 1"],
        against=weak(),
        no_worse=["accuracy by 0.03"],
        max_not_evaluated=0.1,
    ),
    "decide": _decide,
    "decide.moved": lambda: _decide(prevalence="0.1", reader_accuracy=0.9),
    "decide.reader": lambda: krisis.decide(
        run("careful"), reader=run("reader", skill=1.1), max_not_evaluated=0.1
    ),
    "decide.curve": lambda: krisis.decide(run("careful"), curve=True, max_not_evaluated=0.1),
    "scores": lambda: MetricScores(run("careful").metric_scores),
    "curve": lambda: risk_coverage_curve([0.0, 1.0, 0.0], [0.9, 0.8, 0.7], 4),
    "audit": lambda: krisis.audit(run("careful"), by=["sex", "age:40:60", "ckd_stage"]),
    "audit.against": lambda: krisis.audit(run("careful"), against=[run("careful")]),
}
# Verbs that nothing else rests on bring theirs along, and leave with them: verb to result.
OF_VERBS: dict[str, str] = {}
for place in sorted((Path(__file__).parent / "verbs").glob("*/typed_results.py")):
    brought = import_module(f"tests.verbs.{place.parent.name}.typed_results").RESULTS
    RESULTS |= brought
    OF_VERBS[place.parent.name] = next(iter(brought))
RESULTS = {name: cache(make) for name, make in RESULTS.items()}

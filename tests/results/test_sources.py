"""Real and synthetic patients are never only reported together."""

from __future__ import annotations

import math
from dataclasses import asdict

from tests.documents import said, tables

from krisis import BenchmarkResult, EvaluationResult
from krisis.metrics import usual_metrics
from krisis.pages.numbers import Estimate
from krisis.results.base import Attrition, RunFacts, scores_by_source
from krisis.results.report import format_report


def row(prediction, truth, **metadata):
    return EvaluationResult(prediction, truth, metadata=metadata)


REAL = [row(1, 1, synthetic=False), row(0, 1, synthetic=False)]
SYNTHETIC = [row(1, 1, synthetic=True), row(0, 0, synthetic=True), row(1, 1, synthetic=True)]


def test_scores_are_computed_for_each_source():
    found = scores_by_source(usual_metrics(), [*REAL, *SYNTHETIC])
    assert (found["real"]["accuracy"].value, found["real"]["accuracy"].n_evaluated) == (0.5, 2)
    synthetic = found["synthetic"]["accuracy"]
    assert (synthetic.value, synthetic.n_evaluated) == (1.0, 3)
    assert math.isnan(found["real"]["deferral_alignment"].value)
    assert found["real"]["deferral_alignment"].n_evaluated == 0


def test_one_source_needs_no_second_table():
    metrics = usual_metrics()
    assert scores_by_source(metrics, REAL) == {}
    assert scores_by_source(metrics, SYNTHETIC) == {}
    assert scores_by_source(metrics, [row(1, 1)]) == {}


def test_the_report_prints_both_also_from_metrics_alone():
    found = scores_by_source(usual_metrics(), [*REAL, *SYNTHETIC])
    facts = RunFacts(scores_by_source=found, attrition=Attrition(5, 5, 5))
    result = BenchmarkResult([], {}, {}, "", facts=facts)
    again = BenchmarkResult(
        [], {}, {}, "", {**result.extras, "attrition": asdict(Attrition(5, 5, 5))}
    )
    assert said(again.document()) == said(result.document())
    assert format_report(again) == format_report(result)
    found = [
        [cell.value if isinstance(cell, Estimate) else cell for cell in cells]
        for table in tables(result.document())
        for cells in table.rows
        if cells[0] == "Accuracy"
    ]
    assert found == [["Accuracy", 0.5, 2], ["Accuracy", 1.0, 3]]


def test_a_source_that_is_not_stated_is_one_of_its_own():
    found = scores_by_source(usual_metrics(), [*REAL, row(1, 1), row(1, 1)])
    counts = {source: scores["accuracy"].n_evaluated for source, scores in found.items()}
    assert counts == {"real": 2, "unstated": 2}

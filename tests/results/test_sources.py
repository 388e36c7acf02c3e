"""Real and synthetic patients are never only reported together."""

from __future__ import annotations

from krisis import BenchmarkResult, EvaluationResult
from krisis.metrics import default_benchmark_metrics
from krisis.results.report import format_report
from krisis.results.sources import KEY, scores_by_source


def row(prediction, truth, **metadata):
    return EvaluationResult(prediction, truth, metadata=metadata)


REAL = [row(1, 1, synthetic=False), row(0, 1, synthetic=False)]
SYNTHETIC = [row(1, 1, synthetic=True), row(0, 0, synthetic=True), row(1, 1, synthetic=True)]


def test_scores_are_computed_for_each_source():
    found = scores_by_source(default_benchmark_metrics(), [*REAL, *SYNTHETIC])[KEY]
    assert found["real"]["Accuracy"] == {"value": 0.5, "n_evaluated": 2}
    assert found["synthetic"]["Accuracy"] == {"value": 1.0, "n_evaluated": 3}
    assert found["real"]["Deferral Alignment"] == {"value": None, "n_evaluated": 0}


def test_one_source_needs_no_second_table():
    metrics = default_benchmark_metrics()
    assert scores_by_source(metrics, REAL) == {}
    assert scores_by_source(metrics, SYNTHETIC) == {}
    assert scores_by_source(metrics, [row(1, 1)]) == {}


def test_the_report_prints_both_also_from_metrics_alone():
    extras = scores_by_source(default_benchmark_metrics(), [*REAL, *SYNTHETIC])
    names = ("n_loaded", "n_sent", "n_answered", "n_abstained", "n_failed")
    attrition = dict(zip(names, (5, 5, 5, 0, 0), strict=True))
    report = format_report(BenchmarkResult([], {}, {}, "", {**extras, "attrition": attrition}))
    assert "read them apart" in report
    line = next(line for line in report.splitlines() if line.startswith("Accuracy"))
    assert "0.5000 (n 2)" in line
    assert "1.0000 (n 3)" in line

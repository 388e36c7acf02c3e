"""Every metric of a run has the interval that it declares."""

from __future__ import annotations

import math

import numpy as np
import pytest

from krisis.metrics import (
    Accuracy,
    BalancedAccuracy,
    BaseMetric,
    BootstrapOptions,
    BrierScore,
    EvaluationResult,
    ExpectedCalibrationError,
    MetricScore,
    SelectiveAccuracy,
    default_benchmark_metrics,
    score_all,
)
from krisis.metrics import intervals as module
from krisis.metrics.base import table_of
from krisis.metrics.calibration import null_error
from krisis.metrics.intervals import mean_of_rows
from krisis.statistics.bootstrap import draw_clusters
from krisis.statistics.intervals import wilson

OPTIONS = BootstrapOptions(n_resamples=400, seed=3)


def make_rows(n, *, per_patient=1, seed=0, abstain=0.1):
    rng = np.random.default_rng(seed)
    rows = []
    for i in range(n):
        confidence = float(rng.uniform(0.5, 1))
        truth = int(rng.random() < 0.5)
        right = rng.random() < confidence - 0.1
        rows.append(
            EvaluationResult(
                truth if right else 1 - truth,
                truth,
                bool(rng.random() < abstain),
                confidence,
                cluster_id=f"p{i // per_patient}",
                metadata={"should_abstain": bool(rng.random() < 0.3)},
            )
        )
    return rows


@pytest.mark.parametrize("per_patient", [1, 4])
def test_every_default_metric_has_an_interval_around_its_value(per_patient):
    rows = make_rows(240, per_patient=per_patient)
    scores = score_all(default_benchmark_metrics(), rows, intervals=OPTIONS)
    methods = {name: score.interval.method for name, score in scores.items()}
    share = "wilson" if per_patient == 1 else "cluster_wilson"
    assert methods == {
        "Accuracy": share,
        "Balanced Accuracy": share,
        "Expected Calibration Error": "test_inversion",
        "Brier Score": "expanded_percentile",
        "Answer Rate (Coverage)": share,
        "Selective Accuracy (answered only)": share,
        "Abstention Rate": share,
        "Deferral Alignment": share,
        "AURC": "expanded_percentile",
        "AUGRC": "expanded_percentile",
        "Risk at 80 % coverage": "expanded_percentile",
    }
    for name, score in scores.items():
        if name != "Expected Calibration Error":
            assert 0 <= score.interval.low < score.value < score.interval.high <= 1, name


def test_without_options_no_interval_is_computed():
    assert all(s.interval is None for s in score_all([Accuracy()], make_rows(9)).values())


def test_one_row_per_patient_gives_wilson():
    rows = make_rows(50, abstain=0)
    score = score_all([Accuracy()], rows, intervals=OPTIONS)["Accuracy"]
    assert score.interval == wilson(score.details["n_correct"], 50)


def test_patients_with_many_alike_rows_widen_every_share():
    once = make_rows(60)
    tenfold = [row for row in once for _ in range(10)]
    for metric in (Accuracy(), SelectiveAccuracy(), BalancedAccuracy(), BrierScore()):
        narrow, wide = (
            score_all([metric], rows, intervals=OPTIONS)[metric.name].interval
            for rows in (once, tenfold)
        )
        # The same information ten times over is no more information.
        assert wide.high - wide.low >= 0.95 * (narrow.high - narrow.low), metric.name


def test_undefined_scores_have_no_interval_but_a_reason():
    rows = [EvaluationResult(None, 1, abstained=True, cluster_id=str(i)) for i in range(5)]
    for score in score_all(default_benchmark_metrics(), rows, intervals=OPTIONS).values():
        if math.isnan(score.value):
            assert score.interval is None or score.interval.reason == "the_figure_is_undefined"


def test_a_run_of_failures_only_is_scored_without_a_crash():
    rows = [EvaluationResult(None, 1, error="timeout")] * 3
    scores = score_all(default_benchmark_metrics(), rows, intervals=OPTIONS)
    assert all(math.isnan(score.value) for score in scores.values())


def test_ece_and_brier_replicates_are_those_of_the_resampled_rows():
    rows = make_rows(60, per_patient=3)
    patients = [rows[i : i + 3] for i in range(0, 60, 3)]
    drawn = np.concatenate([block.copy() for block in draw_clusters(20, OPTIONS)])[:40]
    counts = np.stack([np.bincount(row, minlength=20) for row in drawn], axis=1).astype(float)
    for metric in (ExpectedCalibrationError(), BrierScore()):
        plan = metric.uncertainty(rows)
        expected = [metric([r for p in row for r in patients[p]]).value for row in drawn]
        found = plan.statistic(counts)
        values = np.abs(found["gaps"]).sum(axis=0) if "gaps" in found else found["mean"]
        np.testing.assert_allclose(values, expected, atol=1e-12)


def test_pooling_many_patients_keeps_the_width(monkeypatch):
    rows = make_rows(6000)
    metrics = [BrierScore(), ExpectedCalibrationError()]
    options = BootstrapOptions(n_resamples=1500)
    pooled = score_all(metrics, rows, intervals=options)
    monkeypatch.setattr(module, "MOST_UNITS", 10**9)
    whole = score_all(metrics, rows, intervals=options)
    for name in pooled:
        widths = [s[name].interval.high - s[name].interval.low for s in (pooled, whole)]
        assert widths[0] == pytest.approx(widths[1], rel=0.15), name


def test_a_metric_of_ones_own_gets_an_interval_from_its_row_values():
    class MeanConfidence(BaseMetric):
        name = "Mean Confidence"

        def compute(self, results):
            columns = table_of(results)
            return MetricScore(self.name, float(columns.confidence.mean()))

        def uncertainty(self, results):
            columns = table_of(results)
            everyone = np.ones(columns.n_scored, dtype=bool)
            return mean_of_rows(columns, columns.confidence, everyone)

    class Plain(BaseMetric):
        name = "Plain"

        def compute(self, results):
            return MetricScore(self.name, 1.0)

    scores = score_all([MeanConfidence(), Plain()], make_rows(80), intervals=OPTIONS)
    interval = scores["Mean Confidence"].interval
    assert interval.low < scores["Mean Confidence"].value < interval.high
    assert scores["Plain"].interval is None


def test_the_null_value_is_the_mean_error_of_a_calibrated_model():
    rng = np.random.default_rng(0)
    confidence = rng.uniform(0.5, 1, 90)
    values = []
    for _ in range(3000):
        right = rng.random(90) < confidence
        index = np.minimum((confidence * 15).astype(int), 14)
        values.append(np.abs(np.bincount(index, right - confidence)).sum() / 90)
    rows = [EvaluationResult(1, 1, confidence=float(c)) for c in confidence]
    null = ExpectedCalibrationError()(rows).details["null_value"]
    assert null == pytest.approx(np.mean(values), rel=0.02)


@pytest.mark.parametrize(
    ("count", "mean", "expected"),
    [(1, 0.9, 0.18), (1, 1.0, 0.0), (2, 0.5, 0.25), (4, 0.5, 0.1875), (3, 0.0, 0.0)],
)
def test_the_null_value_by_hand(count, mean, expected):
    bins = [{"count": count, "mean_confidence": mean}]
    assert null_error(bins) == pytest.approx(expected, abs=1e-12)

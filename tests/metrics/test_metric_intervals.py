"""Every metric of a run has the interval that it declares."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats
from tests.invented_runs import ANSWERS

from krisis.metrics import (
    AURC,
    Accuracy,
    BalancedAccuracy,
    BaseMetric,
    BootstrapOptions,
    BrierScore,
    EvaluationResult,
    ExpectedCalibrationError,
    MetricScore,
    SelectiveAccuracy,
    score_all,
)
from krisis.metrics import table as table_module
from krisis.metrics.base import Rows
from krisis.metrics.calibration import null_error
from krisis.metrics.forms import Mean, Share
from krisis.metrics.scoring import metrics_from_names

METRICS = metrics_from_names(["default", "selective", "classification"])
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
def test_every_usual_metric_has_an_interval_around_its_value(per_patient):
    rows = Rows(make_rows(240, per_patient=per_patient), ANSWERS)
    scores = score_all(METRICS, rows, intervals=OPTIONS)
    methods = {name: score.interval.method for name, score in scores.items()}
    share = "mid_p" if per_patient == 1 else "clustered_mid_p"
    assert methods == {
        "Accuracy": share,
        "Balanced Accuracy": "mover",
        "Expected Calibration Error": "test_inversion",
        "Brier Score": "patient_bootstrap",
        "Answer Rate (Coverage)": share,
        "Selective Accuracy (answered only)": share,
        "Abstention Rate": share,
        "Deferral Alignment": share,
        "AURC": "patient_bootstrap",
        "AUGRC": "patient_bootstrap",
        "Risk at 80 % coverage": "patient_bootstrap",
        "Disease Sensitivity": share,
        "Disease Specificity": share,
        "Disease PPV": share,
        "Disease NPV": share,
    }
    for name, score in scores.items():
        assert 0 <= score.interval.low < score.value < score.interval.high <= 1, name
    error = scores["Expected Calibration Error"]
    assert error.interval.low <= error.details["debiased"] <= error.interval.high
    assert error.details["debiased"] <= error.value


@pytest.mark.parametrize("n_wrong", [0, 1, 2])
@pytest.mark.parametrize("per_patient", [1, 8])
def test_an_interval_exists_with_width_and_holds_its_value_however_few_errors(per_patient, n_wrong):
    rows = [
        EvaluationResult(
            int(i >= n_wrong),
            1 if i % 2 else "1",
            confidence=(0.6, 0.7, 0.8, 0.9)[i % 4],
            cluster_id=f"p{i // per_patient}",
            metadata={"should_abstain": False},
        )
        for i in range(48)
    ]
    rows[-1].ground_truth, rows[-1].prediction = 0, 0
    scores = score_all(METRICS, Rows(rows, ANSWERS), intervals=OPTIONS)
    for score in scores.values():
        interval = score.interval
        assert interval.low <= score.value <= interval.high, score.name
        assert interval.high - interval.low > 1e-6, score.name


def test_without_options_no_interval_is_computed():
    assert all(s.interval is None for s in score_all([Accuracy()], make_rows(9)).values())


def test_one_row_per_patient_gives_the_mid_p_interval_of_the_binomial():
    rows = make_rows(50, abstain=0)
    score = score_all([Accuracy()], rows, intervals=OPTIONS)["Accuracy"]
    hits = score.details["n_correct"]
    for end, tail in ((score.interval.low, 0.975), (score.interval.high, 0.025)):
        below = stats.binom.cdf(hits - 1, 50, end) + 0.5 * stats.binom.pmf(hits, 50, end)
        assert below == pytest.approx(tail, abs=1e-9)


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
    for score in score_all(METRICS, rows, intervals=OPTIONS).values():
        if math.isnan(score.value):
            assert score.interval is None or score.interval.reason == "the_figure_is_undefined"


def test_a_run_of_failures_only_is_scored_without_a_crash():
    rows = [EvaluationResult(None, 1, error="timeout")] * 3
    scores = score_all(METRICS, rows, intervals=OPTIONS)
    assert all(math.isnan(score.value) for score in scores.values())


def test_pooling_many_patients_keeps_the_width(monkeypatch):
    rows = make_rows(6000)
    metrics = [BrierScore(), ExpectedCalibrationError()]
    options = BootstrapOptions(n_resamples=1500)
    pooled = score_all(metrics, rows, intervals=options)
    monkeypatch.setattr(table_module, "MOST_UNITS", 10**9)
    whole = score_all(metrics, rows, intervals=options)
    for name in pooled:
        widths = [s[name].interval.high - s[name].interval.low for s in (pooled, whole)]
        assert widths[0] == pytest.approx(widths[1], rel=0.15), name


class MeanConfidence(BaseMetric):
    name = "Mean Confidence"

    def form(self, table):
        return Mean(table.confidence, among=table.everyone, low=0.0, high=1.0)


def test_a_mean_of_ones_own_gets_an_interval_from_its_row_values():
    score = score_all([MeanConfidence()], make_rows(80), intervals=OPTIONS)["Mean Confidence"]
    assert score.interval.low < score.value < score.interval.high
    assert score.key == "mean_confidence"


def test_a_bounded_mean_of_equal_values_keeps_a_width_and_an_unbounded_one_says_why_not():
    class Unbounded(MeanConfidence):
        name = "Unbounded"

        def form(self, table):
            return Mean(table.confidence, among=table.everyone)

    rows = [EvaluationResult(1, 1, confidence=0.5, cluster_id=str(i)) for i in range(20)]
    scores = score_all([MeanConfidence(), Unbounded()], rows, intervals=OPTIONS)
    bounded, free = scores["Mean Confidence"].interval, scores["Unbounded"].interval
    # 20 rows of ½ and one of 0 below and of 1 above, with a weight of 2.8 or more at the tails.
    assert bounded.low < 10 / 22.8
    assert bounded.low > 10 / 25
    assert bounded.high == pytest.approx(1 - bounded.low)
    assert free.reason == "every_resample_gives_the_same_value"


def test_a_metric_with_compute_alone_is_scored_again_on_fewer_resamples():
    class Agreement(BaseMetric):
        name, direction = "Agreement", "higher"

        def compute(self, results):
            same = [row.prediction == row.ground_truth for row in results]
            return MetricScore(self.name, sum(same) / len(same), n_evaluated=len(same))

    rows = make_rows(60, per_patient=2, abstain=0)
    score = score_all([Agreement()], rows, intervals=OPTIONS)["Agreement"]
    assert score.interval.low < score.value < score.interval.high
    assert score.details["n_resamples"] == 200
    assert (score.direction, score.key) == ("higher", "agreement")


def test_the_interval_of_a_rescored_metric_holds_a_value_that_no_resample_reaches():
    class Variety(BaseMetric):
        name, direction = "Variety", "higher"

        def compute(self, results):
            share = len({row.cluster_id for row in results}) / len(results)
            return MetricScore(self.name, share, n_evaluated=len(results))

    score = score_all([Variety()], make_rows(60), intervals=OPTIONS)["Variety"]
    assert score.value == 1.0
    assert score.interval.low < score.interval.high == 1.0


def test_repeats_of_one_case_count_as_one_case():
    class Right(BaseMetric):
        name = "Right"

        def form(self, table):
            return Share(table.correct, among=table.everyone)

    def widths(repeated):
        rows = [
            EvaluationResult(
                1, 1, record_id=f"r{i // 4 if repeated else i}", cluster_id=f"p{i // 4}"
            )
            for i in range(80)
        ]
        interval = score_all([Right()], rows, intervals=OPTIONS)["Right"].interval
        return interval.high - interval.low

    assert widths(True) > 1.2 * widths(False)


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


def test_the_brier_score_of_answers_partly_without_a_confidence_still_has_its_interval() -> None:
    rows = [
        EvaluationResult(int(i % 5 > 0), 1, False, None if i < 3 else 0.8, record_id=f"{i}")
        for i in range(40)
    ]
    score = score_all([BrierScore()], rows, intervals=OPTIONS)["Brier Score"]
    assert score.n_evaluated == 37
    assert score.interval is not None
    assert score.interval.low < score.value < score.interval.high


def test_areas_with_distances_as_losses_have_intervals_in_their_units() -> None:
    generator = np.random.default_rng(7)
    rows = [
        EvaluationResult(
            int(np.clip(truth + generator.integers(-1, 2), 0, 3)),
            truth,
            False,
            float(generator.random()),
            record_id=f"{i}",
        )
        for i, truth in enumerate(generator.integers(0, 4, 80).tolist())
    ]
    score = score_all([AURC(loss="abs")], rows, intervals=OPTIONS)["aurc"]
    assert score.interval is not None
    assert 0 <= score.interval.low < score.value < score.interval.high <= 3

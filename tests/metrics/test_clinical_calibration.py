"""Calibration as clinicians report it: by hand, against independent libraries, and its laws."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import statsmodels.api as sm
from scipy import special

from krisis.errors import InvalidValue, UnknownName
from krisis.metrics import (
    BootstrapOptions,
    EvaluationResult,
    clinical_calibration_metrics,
    score_all,
)
from krisis.metrics.base import Rows
from krisis.metrics.clinical_calibration import (
    CalibrationInTheLarge,
    CalibrationSlope,
    ObservedExpectedRatio,
)
from krisis.metrics.level_form import Recalibration
from krisis.metrics.scoring import metrics_from_names
from krisis.metrics.table import Answers
from krisis.results.result import BenchmarkResult
from krisis.statistics.intervals import Interval
from krisis.statistics.recalibration import profile_interval
from krisis.verbs.compare.pairs import CompareOptions, compare_runs


def invented(n: int, seed: int = 0, *, digits: int | None = None, per_patient: int = 1) -> Rows:
    """Rows of a detector whose probabilities of class 1 are too extreme."""
    rng = np.random.default_rng(seed)
    p = rng.uniform(0.02, 0.98, n)
    truth = rng.random(n) < 0.25 + 0.5 * p
    answer = p >= 0.5
    confidence = np.where(answer, p, 1 - p)
    confidence = confidence if digits is None else np.round(confidence, digits)
    return Rows(
        EvaluationResult(
            int(a),
            int(t),
            confidence=float(c),
            record_id=f"r{i}",
            cluster_id=f"p{i // per_patient}",
            metadata={"ckd_stage": i % 3},
        )
        for i, (a, t, c) in enumerate(zip(answer, truth, confidence, strict=True))
    )


def columns(rows: Rows, of: str) -> tuple[np.ndarray, np.ndarray]:
    """Return probability and outcome, as a reader of the docs would work them out."""
    if of == "correct":
        return (
            np.array([row.confidence for row in rows]),
            np.array([float(row.prediction == row.ground_truth) for row in rows]),
        )
    return (
        np.array([row.confidence if row.prediction == 1 else 1 - row.confidence for row in rows]),
        np.array([float(row.ground_truth == 1) for row in rows]),
    )


@pytest.mark.parametrize("of", ["correct", "positive"])
@pytest.mark.parametrize("digits", [None, 1])
def test_intercept_and_slope_equal_statsmodels(of: str, digits: int | None) -> None:
    rows = invented(300, digits=digits)  # with one digit some confidences are 1
    p, y = columns(rows, of)
    p = np.clip(p, 1e-6, 1 - 1e-6)
    logit = np.log(p / (1 - p))
    family = sm.families.Binomial()
    large = sm.GLM(y, np.ones((y.size, 1)), family=family, offset=logit).fit(tol=1e-14)
    slope = sm.GLM(y, sm.add_constant(logit), family=family).fit(tol=1e-14)
    found = CalibrationInTheLarge(of)(rows), CalibrationSlope(of)(rows)
    assert found[0].value == pytest.approx(float(large.params[0]), abs=1e-8)
    assert found[1].value == pytest.approx(float(slope.params[1]), abs=1e-8)
    n_clipped = int(np.sum((p == 1e-6) | (p == 1 - 1e-6)))
    assert (n_clipped > 0) == (digits == 1)
    assert [score.details["n_clipped"] for score in found] == [n_clipped, n_clipped]
    assert ("another clip gives another value" in found[1].details.get("note", "")) == (digits == 1)


def test_the_clip_is_part_of_the_name_and_of_the_number() -> None:
    rows = invented(300, digits=1)
    narrow, wide = CalibrationSlope(), CalibrationSlope(clip=0.005)
    assert wide.identifier == "calibration_slope[clip=0.005]"
    assert wide(rows).value > narrow(rows).value > 0


def told(*pairs: tuple[float, int, int]) -> list[EvaluationResult]:
    """Rows as (confidence, rows, right ones)."""
    return [
        EvaluationResult(1, int(i < right), confidence=c) for c, n, right in pairs for i in range(n)
    ]


def test_observed_over_expected_counts_answered_rows_with_a_confidence() -> None:
    rows = [
        *told((0.8, 5, 3)),
        EvaluationResult(1, 1),
        EvaluationResult(1, 1, abstained=True, confidence=0.9),
        EvaluationResult(1, 1, confidence=0.9, error="timeout"),
    ]
    score = ObservedExpectedRatio()(rows)
    assert score.value == pytest.approx(3 / 4)
    assert (score.n_evaluated, score.n_abstained) == (5, 1)
    assert score.details["n_observed"] == 3
    assert score.details["n_expected"] == pytest.approx(4.0)


@pytest.mark.parametrize(
    ("metric", "rows", "reason"),
    [
        (CalibrationInTheLarge(), told((0.9, 5, 5)), "all_outcomes_are_equal"),
        (CalibrationSlope(), told((0.9, 5, 0), (0.8, 2, 0)), "all_outcomes_are_equal"),
        (CalibrationSlope(), told((0.9, 5, 2)), "all_probabilities_are_equal"),
        (CalibrationSlope(), told((0.9, 5, 5), (0.8, 3, 0)), "probability_separates_the_outcomes"),
        # Overlap in a single level, at the edge of both: the slope still has no end.
        (CalibrationSlope(), told((0.9, 5, 5), (0.8, 3, 1)), "probability_separates_the_outcomes"),
        (CalibrationSlope(), told((0.9, 5, 0), (0.8, 3, 3)), "probability_separates_the_outcomes"),
        (CalibrationSlope(), told((1.0, 3, 2), (1 - 1e-9, 3, 1)), "all_probabilities_are_equal"),
        (ObservedExpectedRatio(), told((0.0, 4, 1)), "no_outcome_is_expected"),
        (ObservedExpectedRatio(), told((1e-310, 4, 1)), "no_outcome_is_expected"),
        (ObservedExpectedRatio(), [EvaluationResult(1, 1)], "no_rows_with_confidence"),
        (
            ObservedExpectedRatio("positive"),
            Rows([EvaluationResult(1, 1, confidence=0.7)], Answers((0, 1, 2), positive=1)),
            "task_has_not_two_answers_with_a_positive_one",
        ),
        (
            ObservedExpectedRatio("positive"),
            [EvaluationResult("up", "up", confidence=0.7)],
            "task_has_not_two_answers_with_a_positive_one",
        ),
        (
            ObservedExpectedRatio("positive"),
            Rows([EvaluationResult(3, 1, confidence=0.7)], Answers((0, 1), positive=1)),
            "non_binary_labels_or_predictions",
        ),
    ],
)
def test_what_has_no_finite_value_is_undefined_with_its_reason(
    metric: CalibrationSlope, rows: list[EvaluationResult], reason: str
) -> None:
    score = metric(rows)
    assert math.isnan(score.value)
    assert score.details["reason"] == reason


def test_the_positive_answer_is_that_of_the_task() -> None:
    """Where 0, or a word, is positive, the probability of that answer is meant."""
    plain = invented(60)
    words = {1: "ill", 0: "well"}
    turned = [
        EvaluationResult(1 - r.prediction, 1 - r.ground_truth, confidence=r.confidence)
        for r in plain
    ]
    named = [
        EvaluationResult(words[r.prediction], words[r.ground_truth], confidence=r.confidence)
        for r in plain
    ]
    expected = CalibrationSlope("positive")(plain).value
    assert CalibrationSlope("positive")(Rows(turned, Answers((0, 1), positive=0))).value == expected
    task = Answers(("ill", "well"), positive="ill")
    assert CalibrationSlope("positive")(Rows(named, task)).value == expected


def test_nine_tenths_against_the_positive_answer_are_one_tenth_for_it() -> None:
    """1 − 0.9 is a hair below 0.1: as two levels, they would separate the outcomes."""
    rows = [EvaluationResult(0, 0, confidence=0.9), EvaluationResult(1, 1, confidence=0.1)]
    assert CalibrationSlope("positive")(rows).details["reason"] == "all_probabilities_are_equal"


@pytest.mark.parametrize(
    ("wrong", "error", "words"),
    [
        ({"of": "class1"}, UnknownName, "unknown outcome 'class1'"),
        ({"clip": 0.5}, InvalidValue, "clip must be between 1e-15 and 0.5, not 0.5"),
        ({"clip": 1}, InvalidValue, "clip must be between"),
    ],
)
def test_a_wrong_parameter_is_refused(
    wrong: dict[str, object], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        CalibrationSlope(**wrong)  # type: ignore[arg-type]


def test_a_bundle_is_one_word_and_takes_parameters() -> None:
    names = ["accuracy", "clinical_calibration", "clinical_calibration[of=positive]"]
    found = metrics_from_names(names)
    assert len(found) == 7
    assert found[0].key == "accuracy"
    assert [m.identifier for m in found[1:4]] == [
        m.identifier for m in clinical_calibration_metrics()
    ]
    assert all(m.identifier.endswith("[of=positive]") for m in found[4:])
    with pytest.raises(InvalidValue, match=r"the bundle .* cannot be made"):
        metrics_from_names(["clinical_calibration[n=1]"])
    with pytest.raises(UnknownName, match="did you mean 'clinical_calibration'"):
        metrics_from_names(["clinical_calibratoin"])


def every_metric() -> list:
    return [*clinical_calibration_metrics(), *clinical_calibration_metrics("positive")]


OPTIONS = BootstrapOptions(n_resamples=60)


@pytest.mark.parametrize("rows", [invented(90, digits=2, per_patient=3)], ids=len)
def test_every_interval_exists_holds_its_value_and_repeats(rows: Rows) -> None:
    scores, again = (score_all(every_metric(), rows, intervals=OPTIONS) for _ in range(2))
    for label, score in scores.items():
        interval = score.interval
        assert interval is not None, label
        assert interval.low <= score.value <= interval.high, label
        assert interval.low < interval.high, label
        assert again[label].interval == interval


def test_no_error_seen_leaves_no_interval_without_width() -> None:
    rows = told((0.9, 30, 30), (0.8, 10, 10))
    scores = score_all(clinical_calibration_metrics(), rows, intervals=OPTIONS)
    defined = {score.key: score.interval for score in scores.values() if score.interval}
    assert list(defined) == ["observed_expected_ratio"]  # intercept and slope do not exist
    assert all(interval.low < interval.high for interval in defined.values())


def test_patients_widen_the_intervals_of_their_rows() -> None:
    """The same rows of 15 patients in place of 90 say less, about every figure."""
    alone, together = invented(90, digits=2), invented(90, digits=2, per_patient=6)
    metrics = clinical_calibration_metrics()
    widths = [
        [
            s.interval.high - s.interval.low
            for s in score_all(metrics, rows, intervals=OPTIONS).values()
        ]
        for rows in (alone, together)
    ]
    assert all(narrow < wide for narrow, wide in zip(*widths, strict=True))


def test_certainty_that_nothing_contradicted_does_not_bound_the_slope_from_below() -> None:
    rows = told((0.7, 20, 12), (0.9, 20, 17), (1.0, 20, 20))
    contradicted = [*rows, EvaluationResult(1, 0, confidence=1.0)]
    low = [
        score_all([CalibrationSlope()], these, intervals=OPTIONS)["calibration_slope"].interval.low
        for these in (rows, contradicted)
    ]
    assert low[0] == pytest.approx(low[1], rel=1e-9)
    assert low[0] < CalibrationSlope()(contradicted).value


def slope_interval(rows: list[EvaluationResult]) -> Interval:
    found = score_all([CalibrationSlope()], rows, intervals=OPTIONS)["calibration_slope"].interval
    assert found is not None
    return found


def profile_of(rows: list[EvaluationResult]) -> tuple[float, float]:
    """Return the limits of the likelihood alone, certainty taken at its word."""
    table = Rows(rows).table
    form = CalibrationSlope().form(table)
    assert isinstance(form, Recalibration)
    found = profile_interval(
        special.logit(form.outcomes.level),
        form.outcomes.answers(table),
        slope=True,
        options=OPTIONS,
        prior_icc=0.5,
    )
    return found.low, found.high


def test_one_patient_who_contradicts_certainty_does_not_bound_the_slope_from_above() -> None:
    others = told((0.7, 20, 12), (0.9, 20, 17))
    sure, once = told((1.0, 20, 20)), told((1.0, 20, 19))
    # The upper limit is that of the same rows without the contradiction; the lower one is not.
    limits = slope_interval(others + once)
    assert limits.high == pytest.approx(slope_interval(others + sure).high, rel=1e-9)
    assert limits.low < 0.1 < CalibrationSlope()(others + sure).value
    # Two rows of one patient are one contradiction, two patients are two.
    wrong = [EvaluationResult(1, 0, confidence=1.0, cluster_id=name) for name in "abb"]
    right = [replace(row, ground_truth=1) for row in wrong]
    for rows, without in (
        (wrong[1:], right[1:]),
        (wrong[:2], [right[0], wrong[1]]),
        # The patient with most such rows is the one who is left aside.
        (wrong, [wrong[0], *right[1:]]),
    ):
        _, high = profile_of(others + sure + without)
        assert slope_interval(others + sure + rows).high == pytest.approx(high, rel=1e-9)


def test_certainty_of_a_negative_is_bounded_like_that_of_a_positive() -> None:
    """Confidence 0 in an answer is certainty that it is wrong: the same rows turned round."""
    rows = told((0.3, 20, 8), (0.1, 20, 3), (0.0, 20, 1))
    mirrored = told((0.7, 20, 12), (0.9, 20, 17), (1.0, 20, 19))
    found, expected = slope_interval(rows), slope_interval(mirrored)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high), rel=1e-6)


def test_a_slope_that_only_one_patient_makes_finite_has_no_upper_limit() -> None:
    rows = told((0.6, 4, 0), (0.7, 6, 6), (1.0, 10, 9))
    assert slope_interval(rows).high == math.inf
    assert math.isfinite(CalibrationSlope()(rows).value)


def test_influences_are_the_derivatives_by_the_weights_of_patients() -> None:
    rows = invented(60, digits=2, per_patient=2)
    table, step = rows.table, 1e-5
    n = table.patients.n
    for metric in every_metric():
        weighted = metric.form(table).on(table.patients)
        found = weighted.influences(np.ones((n, 1)))
        each = step * np.eye(n)
        slope = (weighted.values(1 + each) - weighted.values(1 - each)) / (2 * step)
        assert found[:, 0] == pytest.approx(slope, abs=1e-6), metric.label


def test_a_breakdown_is_the_figure_of_the_rows_of_each_group() -> None:
    rows = invented(120, digits=2, per_patient=2)
    for metric in every_metric():
        score = metric(rows)
        part = Rows([row for row in rows if row.metadata["ckd_stage"] == 1], rows.answers)
        assert score.breakdown["stage_1"] == pytest.approx(metric(part).value, abs=1e-12), (
            metric.label
        )


def test_two_runs_are_compared_by_every_figure_that_is_named() -> None:
    """A run with its confidences turned down differs in the level, not in the order."""
    rows = invented(150, digits=2)
    modest = Rows(
        EvaluationResult(
            r.prediction,
            r.ground_truth,
            confidence=0.5 + (r.confidence - 0.5) / 4,
            record_id=r.record_id,
            cluster_id=r.cluster_id,
        )
        for r in rows
    )
    metrics = clinical_calibration_metrics()
    runs = {
        name: BenchmarkResult(these, score_all(metrics, these), {"suite": "toy"}, name)
        for name, these in (("sure", rows), ("modest", modest))
    }
    asked = CompareOptions(tuple(m.identifier for m in metrics), 99, 1)
    (pair,) = compare_runs(runs, asked).pairs
    found = pair.deltas
    assert len(found) == len(metrics)
    assert found["observed_expected_ratio"].p_value < 0.05

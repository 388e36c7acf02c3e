"""Expected calibration error and Brier score, by hand and against scikit-learn."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import brier_score_loss

from krisis.metrics import (
    BrierScore,
    CalibrationSlope,
    EvaluationResult,
    ExpectedCalibrationError,
)
from krisis.metrics.base import Rows
from krisis.metrics.table import Answers

ROWS = [
    EvaluationResult(1, 1, confidence=0.95),
    EvaluationResult(1, 0, confidence=0.91),
    EvaluationResult(0, 0, confidence=0.55),
    EvaluationResult(0, 1, abstained=True, confidence=0.99),
    EvaluationResult(None, 1, confidence=0.99),
    EvaluationResult(1, 1),
]


def test_calibration_error_weighs_the_gap_of_each_bin_by_its_rows() -> None:
    score = ExpectedCalibrationError(n_bins=10)(ROWS)
    # bin 9: two rows, accuracy 1/2, mean confidence .93; bin 5: one row, accuracy 1, confidence .55
    assert score.value == pytest.approx(2 / 3 * 0.43 + 1 / 3 * 0.45, abs=1e-15)
    assert score.n_evaluated == 3
    assert score.n_abstained == 1
    assert score.breakdown == {"bin_5_gap": pytest.approx(0.45), "bin_9_gap": pytest.approx(0.43)}


def test_every_bin_is_in_the_details_and_empty_ones_are_undefined() -> None:
    bins = ExpectedCalibrationError(n_bins=10)(ROWS).details["bins"]
    assert [b["bin"] for b in bins] == list(range(10))
    assert bins[9] == {
        "bin": 9,
        "low": 0.9,
        "high": 1.0,
        "count": 2,
        "accuracy": 0.5,
        "mean_confidence": pytest.approx(0.93),
        "gap": pytest.approx(0.43),
    }
    assert bins[0]["count"] == 0
    assert math.isnan(bins[0]["accuracy"])


@pytest.mark.parametrize(
    ("confidence", "expected"), [(0.0, 0), (1 / 15, 1), (0.999, 14), (1.0, 14)]
)
def test_a_confidence_falls_in_the_bin_of_its_floor(confidence: float, expected: int) -> None:
    score = ExpectedCalibrationError()([EvaluationResult(1, 1, confidence=confidence)])
    assert list(score.breakdown) == [f"bin_{expected}_gap"]


def test_calibration_without_confidence_is_undefined() -> None:
    for metric in (ExpectedCalibrationError(), BrierScore()):
        score = metric([EvaluationResult(1, 1), EvaluationResult(1, 1, True, 0.5)])
        assert math.isnan(score.value)
        assert score.details["reason"] == "no_rows_with_confidence"
        assert score.n_abstained == 1


@pytest.mark.parametrize("n_bins", [0, -1, 1.5, True, "15"])
def test_a_bad_number_of_bins_is_refused(n_bins: object) -> None:
    with pytest.raises(ValueError, match="n_bins must be a whole number"):
        ExpectedCalibrationError(n_bins)  # type: ignore[arg-type]


def test_brier_score_turns_confidence_into_the_probability_of_class_one() -> None:
    score = BrierScore()(ROWS)
    assert score.value == pytest.approx((0.05**2 + 0.91**2 + 0.45**2) / 3, abs=1e-15)
    assert score.n_evaluated == 3


def test_numeric_texts_are_binary_labels() -> None:
    assert BrierScore()([EvaluationResult("1", "1", confidence=0.5)]).value == 0.25


@pytest.mark.parametrize(("prediction", "truth"), [(2, 1), (1, 2), ("stable", 1), (1, "stable")])
def test_brier_score_of_other_labels_is_undefined(prediction: object, truth: object) -> None:
    rows = [EvaluationResult(1, 1, confidence=0.5)]
    rows.append(EvaluationResult(prediction, truth, confidence=0.5))  # type: ignore[arg-type]
    score = BrierScore()(rows)
    assert math.isnan(score.value)
    assert score.details["reason"] == "non_binary_labels_or_predictions"


def test_the_brier_score_is_not_decided_by_which_labels_happened_to_be_drawn() -> None:
    """Any label outside 0 and 1 counts, usable or not; a task that is known decides alone."""
    rows = [EvaluationResult(1, 1, confidence=0.5), EvaluationResult(3, 3)]
    reason = "non_binary_labels_or_predictions"
    assert BrierScore()(rows).details["reason"] == reason
    only = [EvaluationResult(1, 1, confidence=0.5), EvaluationResult(0, 0, confidence=0.5)]
    assert BrierScore()(only).value == 0.25
    staging = Rows(only, Answers(allowed=(0, 1, 2, 3), ordered=True))
    assert BrierScore()(staging).details["reason"] == reason
    detection = Rows(only, Answers(allowed=(0, 1)))
    assert BrierScore()(detection).value == 0.25
    stray = Rows([*only, EvaluationResult(2, 1, confidence=0.5)], Answers(allowed=(0, 1)))
    assert BrierScore()(stray).details["reason"] == reason


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1), st.floats(0, 1)), min_size=1))
def test_brier_score_equals_scikit_learn(cases: list[tuple[int, int, float]]) -> None:
    rows = [EvaluationResult(answer, truth, confidence=c) for truth, answer, c in cases]
    probability = [c if answer == 1 else 1 - c for _, answer, c in cases]
    expected = brier_score_loss([truth for truth, _, _ in cases], probability, pos_label=1)
    assert BrierScore()(rows).value == pytest.approx(expected, abs=1e-12)


@given(st.lists(st.tuples(st.booleans(), st.floats(0, 1)), min_size=1), st.integers(1, 30))
def test_calibration_error_equals_a_plain_loop(
    cases: list[tuple[bool, float]], n_bins: int
) -> None:
    bins: dict[int, list[tuple[bool, float]]] = {}
    for correct, confidence in cases:
        bins.setdefault(min(int(confidence * n_bins), n_bins - 1), []).append((correct, confidence))
    expected = sum(
        abs(sum(c for c, _ in members) - math.fsum(p for _, p in members)) / len(cases)
        for members in bins.values()
    )
    rows = [EvaluationResult(int(correct), 1, confidence=c) for correct, c in cases]
    score = ExpectedCalibrationError(n_bins)(rows)
    assert score.value == pytest.approx(expected, abs=1e-12)


def test_a_third_label_of_a_row_without_an_answer_does_not_undo_the_brier_score() -> None:
    rows = [EvaluationResult(1, 1, confidence=0.8), EvaluationResult(None, 2, True)]
    assert BrierScore()(Rows(rows, Answers((0, 1)))).value == pytest.approx(0.04)
    rows.append(EvaluationResult(2, 1, confidence=0.8))
    assert math.isnan(BrierScore()(Rows(rows, Answers((0, 1)))).value)


def test_a_prediction_such_as_1_5_is_a_wrong_answer_with_a_confidence():
    rows = [
        EvaluationResult(1, 1, confidence=0.8),
        EvaluationResult(1.5, 1, confidence=0.8),  # type: ignore[arg-type]
        EvaluationResult(math.nan, 1, confidence=0.8),  # type: ignore[arg-type]
        EvaluationResult(None, 1, confidence=0.8),
    ]
    score = ExpectedCalibrationError()(rows)
    assert (score.value, score.n_evaluated) == (pytest.approx(0.3), 2)
    assert BrierScore()(rows).details["reason"] == "non_binary_labels_or_predictions"
    assert math.isnan(CalibrationSlope(of="positive")(rows).value)

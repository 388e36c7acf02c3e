"""Accuracy and balanced accuracy, by hand and against scikit-learn."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import recall_score

from krisis.metrics import Accuracy, BalancedAccuracy, EvaluationResult

ROWS = [
    EvaluationResult(1, 1, metadata={"ckd_stage": 1}),
    EvaluationResult(0, 1, metadata={"ckd_stage": 2}),
    EvaluationResult("1", 1, metadata={"ckd_stage": 2.0}),
    EvaluationResult(0, 0, abstained=True, metadata={"ckd_stage": "3a"}),
    EvaluationResult(0, 0),
]


def test_accuracy_counts_an_abstention_as_not_correct_even_with_the_right_prediction() -> None:
    score = Accuracy()(ROWS)
    assert score.value == 3 / 5
    assert (score.n_evaluated, score.n_abstained) == (5, 1)
    assert score.details == {
        "n_correct": 3,
        "n_incorrect": 2,
        "treat_abstention_as_neutral": False,
    }


def test_neutral_abstention_leaves_the_denominator() -> None:
    score = Accuracy(treat_abstention_as_neutral=True)(ROWS)
    assert score.value == 3 / 4
    assert (score.n_evaluated, score.n_abstained) == (4, 1)
    assert score.details["n_incorrect"] == 1


def test_accuracy_is_broken_down_by_stage_whatever_the_stage_looks_like() -> None:
    assert Accuracy()(ROWS).breakdown == {
        "stage_1": 1.0,
        "stage_2": 0.5,
        "stage_3a": 0.0,
        "unknown_stage": 1.0,
    }


def test_the_breakdown_column_is_a_choice() -> None:
    rows = [
        EvaluationResult(1, 1, metadata={"sex": "F"}),
        EvaluationResult(0, 1, metadata={"sex": "M"}),
        EvaluationResult(0, 1, metadata={"sex": ["odd"]}),
        EvaluationResult(0, 1, metadata={"sex": math.nan}),
    ]
    assert Accuracy(group_by="sex")(rows).breakdown == {
        "sex_F": 1.0,
        "sex_M": 0.0,
        "sex_['odd']": 0.0,
        "unknown_sex": 0.0,
    }


def test_failed_rows_are_in_no_denominator() -> None:
    rows = [*ROWS, EvaluationResult(None, 1, error="timeout: no answer")]
    assert Accuracy()(rows).value == Accuracy()(ROWS).value
    assert Accuracy()(rows).n_evaluated == 5
    only_failed = Accuracy()([rows[-1]])
    assert math.isnan(only_failed.value)
    assert only_failed.details["reason"] == "no_scored_rows"


def test_neutral_accuracy_of_abstentions_alone_is_undefined() -> None:
    score = Accuracy(treat_abstention_as_neutral=True)([EvaluationResult(1, 1, True)])
    assert math.isnan(score.value)
    assert score.details["reason"] == "no_non_abstained_predictions"
    assert score.n_abstained == 1


def test_balanced_accuracy_is_the_mean_recall_of_the_classes_in_the_truth() -> None:
    score = BalancedAccuracy()(ROWS)
    assert score.value == pytest.approx((2 / 3 + 1 / 2) / 2, abs=1e-15)
    assert score.details["per_class_recall"] == {"0": 0.5, "1": 2 / 3}
    assert score.n_evaluated == 5


def test_balanced_accuracy_counts_unknown_and_missing_predictions_as_errors() -> None:
    rows = [
        EvaluationResult("stable", "Stable"),
        EvaluationResult("banana", "worsening"),
        EvaluationResult(None, "worsening"),
        EvaluationResult(" WORSENING ", "worsening"),
    ]
    assert BalancedAccuracy()(rows).value == pytest.approx((1 + 1 / 3) / 2)


def test_balanced_accuracy_needs_two_classes() -> None:
    score = BalancedAccuracy()([EvaluationResult(1, 1), EvaluationResult(0, 1)])
    assert math.isnan(score.value)
    assert score.details["reason"] == "needs_at_least_two_classes_in_ground_truth"


def test_balanced_accuracy_of_more_classes_than_a_task_can_have_is_undefined() -> None:
    """Its interval compares every class with every other one."""
    rows = [EvaluationResult(f"class {n}", f"class {n}") for n in range(1001)]
    score = BalancedAccuracy()(rows)
    assert math.isnan(score.value)
    assert score.details["reason"] == "more_than_1000_classes"
    assert BalancedAccuracy()(rows[:1000]).value == 1.0


def test_spellings_of_one_stage_are_one_group() -> None:
    rows = [EvaluationResult(i, 1, metadata={"ckd_stage": s}) for i, s in enumerate([3, "3", " 3"])]
    assert Accuracy()(rows).breakdown == {"stage_3": 1 / 3}


@given(
    st.lists(
        st.tuples(st.integers(0, 3), st.sampled_from([0, 1, 2, 3, 9]), st.booleans()), min_size=2
    )
)
def test_balanced_accuracy_equals_macro_recall_of_scikit_learn(
    cases: list[tuple[int, int, bool]],
) -> None:
    truths = [truth for truth, _, _ in cases]
    if len(set(truths)) < 2:
        return
    rows = [EvaluationResult(answer, truth, abstained) for truth, answer, abstained in cases]
    answers = [-1 if abstained else answer for _, answer, abstained in cases]
    classes = sorted(set(truths))
    expected = recall_score(truths, answers, labels=classes, average="macro", zero_division=0)
    assert BalancedAccuracy()(rows).value == pytest.approx(expected, abs=1e-12)

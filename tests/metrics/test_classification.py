"""Sensitivity, specificity and predictive values of the disease, and the confusion of answers."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics as oracle

from krisis.metrics import (
    BaseMetric,
    BootstrapOptions,
    DiseaseNPV,
    DiseasePPV,
    DiseaseSensitivity,
    DiseaseSpecificity,
    EvaluationResult,
    default_classification_metrics,
    score_all,
    usual_metrics,
)
from krisis.metrics.base import Rows
from krisis.metrics.disease import MOST_ANSWERS, NO_POSITIVE, confusion_matrix
from krisis.metrics.scoring import metrics_from_names
from krisis.metrics.table import Answers

ABSTAIN = "abstain"
BINARY = (0, 1)
COURSES = ("stable", "worsening", "improving")


def rows_of(pairs, answers=BINARY, positive=1):
    """Return rows of (truth, answer) pairs."""
    rows = [
        EvaluationResult(None if answer == ABSTAIN else answer, truth, answer == ABSTAIN)
        for truth, answer in pairs
    ]
    return Rows(rows, Answers(tuple(answers), positive=positive))


# 10 with the disease: 6 found, 2 missed, 2 abstained; 8 without: 4 cleared, 1 alarm, 3 abstained.
TWO_BY_TWO = [
    *[(1, 1)] * 6,
    *[(1, 0)] * 2,
    *[(1, ABSTAIN)] * 2,
    *[(0, 0)] * 4,
    *[(0, 1)],
    *[(0, ABSTAIN)] * 3,
]


@pytest.mark.parametrize(
    ("metric", "value", "n", "end_to_end"),
    [
        (DiseaseSensitivity(), 6 / 8, 8, 6 / 10),
        (DiseaseSpecificity(), 4 / 5, 5, 4 / 8),
        (DiseasePPV(), 6 / 7, 7, None),
        (DiseaseNPV(), 4 / 6, 6, None),
        (DiseaseSensitivity(count_abstentions=True), 6 / 10, 10, 6 / 10),
        (DiseaseSpecificity(count_abstentions=True), 4 / 8, 8, 4 / 8),
    ],
)
def test_two_answers_by_hand(metric, value, n, end_to_end):
    score = metric(rows_of(TWO_BY_TWO))
    assert (score.value, score.n_evaluated, score.n_abstained) == (value, n, 5)
    assert score.details.get("end_to_end") == end_to_end
    assert score.details["positive"] == 1


def test_the_counts_beside_a_figure_are_its_denominators():
    details = DiseaseSensitivity()(rows_of(TWO_BY_TWO)).details
    counts = {name: details[name] for name in ("n_right", "n_wrong", "n_abstained", "n_cases")}
    assert counts == {"n_right": 6, "n_wrong": 2, "n_abstained": 2, "n_cases": 10}


def test_three_answers_are_the_positive_one_against_the_rest():
    pairs = [
        *[("worsening", "worsening")] * 3,
        ("worsening", "stable"),
        # Another wrong answer is still not a false alarm.
        *[("stable", "improving")] * 2,
        ("stable", " Stable"),
        ("improving", "worsening"),
        ("improving", ABSTAIN),
        ("stable", None),
    ]
    rows = rows_of(pairs, COURSES, "worsening")
    scores = score_all(default_classification_metrics(), rows)
    values = [(score.value, score.n_evaluated) for score in scores.values()]
    assert values == [(3 / 4, 4), (3 / 5, 5), (3 / 4, 4), (3 / 4, 4)]
    assert scores["disease_sensitivity"].details["confusion_matrix"] == {
        "labels": list(COURSES),
        "counts": [[1, 0, 2], [1, 3, 0], [0, 1, 0]],
        "no_answer": [1, 0, 0],
        "abstained": [0, 0, 1],
        "not_evaluated": [0, 0, 0],
    }


def test_an_answer_that_the_task_does_not_know_is_an_error_on_both_sides():
    rows = rows_of([(1, 7), (1, 1), (0, 7), (0, 0)])
    assert [m(rows).value for m in (DiseaseSensitivity(), DiseaseSpecificity())] == [0.5, 0.5]
    assert confusion_matrix(rows.table)["labels"] == [0, 1, 7]


def test_without_a_positive_answer_there_is_the_matrix_alone():
    rows = rows_of(TWO_BY_TWO, positive=None)
    scores = score_all(default_classification_metrics(), rows)
    assert all(math.isnan(score.value) for score in scores.values())
    assert {score.details["reason"] for score in scores.values()} == {NO_POSITIVE}
    matrix = scores["disease_sensitivity"].details["confusion_matrix"]
    assert matrix["counts"] == [[4, 1], [2, 6]]


@pytest.mark.parametrize(
    ("pairs", "reasons"),
    [
        ([(0, 0)], ["no_case_has_the_positive_answer", "", "the_positive_answer_was_never_given"]),
        ([(1, 1)], ["", "every_case_has_the_positive_answer", ""]),
        ([(1, ABSTAIN), (0, 0)], ["every_such_case_was_abstained_from", ""]),
    ],
)
def test_an_undefined_figure_says_why(pairs, reasons):
    scores = score_all(default_classification_metrics(), rows_of(pairs)).values()
    found = [score.details.get("reason", "") for score in scores]
    assert found[: len(reasons)] == reasons
    assert [math.isnan(score.value) for score in scores] == [bool(reason) for reason in found]


def test_very_many_labels_have_no_matrix():
    rows = Rows([EvaluationResult(i, i) for i in range(MOST_ANSWERS + 1)])
    assert confusion_matrix(rows.table) == {}


pairs_of = st.lists(
    st.tuples(st.sampled_from(COURSES), st.sampled_from([*COURSES, ABSTAIN])),
    min_size=1,
    max_size=40,
)


@given(pairs=pairs_of, seed=st.integers(0, 9))
def test_scikit_learn_agrees_whatever_the_order(pairs, seed):
    pairs = random.Random(seed).sample([*pairs, ("stable", "stable")], len(pairs) + 1)
    scores = score_all(default_classification_metrics(), rows_of(pairs, COURSES, "worsening"))
    answered = [(truth, answer) for truth, answer in pairs if answer != ABSTAIN]
    truth = np.array([truth == "worsening" for truth, _ in answered], dtype=bool)
    given_ = np.array([answer == "worsening" for _, answer in answered], dtype=bool)
    expected = [
        oracle.recall_score(truth, given_, zero_division=math.nan),
        oracle.recall_score(~truth, ~given_, zero_division=math.nan),
        oracle.precision_score(truth, given_, zero_division=math.nan),
        oracle.precision_score(~truth, ~given_, zero_division=math.nan),
    ]
    found = [score.value for score in scores.values()]
    assert found == pytest.approx(expected, nan_ok=True)
    matrix = oracle.confusion_matrix(*zip(*answered, strict=True), labels=list(COURSES))
    counts = scores["disease_sensitivity"].details["confusion_matrix"]["counts"]
    assert counts == matrix.tolist()


@given(st.lists(st.tuples(st.sampled_from(BINARY), st.sampled_from([0, 1, None, ABSTAIN]))))
def test_the_other_answer_as_the_positive_one_swaps_the_two_sides(pairs):
    one, other = rows_of(pairs, positive=1), rows_of(pairs, positive=0)
    swapped = ((DiseaseSensitivity, DiseaseSpecificity), (DiseasePPV, DiseaseNPV))
    for first, second in swapped:
        left, right = first().compute(one), second().compute(other)
        assert left.value == pytest.approx(right.value, nan_ok=True)
        assert left.n_evaluated == right.n_evaluated


@given(pairs=pairs_of)
def test_intervals_hold_their_value(pairs):
    rows = rows_of(pairs, COURSES, "worsening")
    scores = score_all(default_classification_metrics(), rows, intervals=BootstrapOptions())
    for score in scores.values():
        if not math.isnan(score.value):
            assert score.interval.low <= score.value <= score.interval.high
            assert score.interval.low < score.interval.high


def test_they_are_scored_and_compared_only_where_named():
    named = metrics_from_names(["classification"])
    assert [one.key for one in named] == [one.key for one in default_classification_metrics()]
    unasked = [metric.key for metric in usual_metrics() if not metric.compared_by_default]
    assert unasked == ["no_answer_rate"]
    assert not any(metric.compared_by_default for metric in named)
    assert BaseMetric.compared_by_default

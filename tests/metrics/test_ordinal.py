"""Weighted kappa and absolute error by hand, with scikit-learn as oracle."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score, mean_absolute_error

from krisis.metrics import (
    BootstrapOptions,
    EvaluationResult,
    MeanAbsoluteError,
    QuadraticWeightedKappa,
    score_all,
)
from krisis.metrics.base import Rows
from krisis.metrics.ordinal import Agreement, correlation, weighted_kappa
from krisis.metrics.paired import Exchanges, paired_differences
from krisis.metrics.table import Answers, Units

SCALE = Answers((0, 1, 2, 3), ordered=True, groups={"item": "item"})
FEW = BootstrapOptions(n_resamples=400)


def rows_of(answers, truths, *, per_patient=1, items=("A",), task=SCALE):
    return Rows(
        [
            EvaluationResult(
                a,
                t,
                a is None,
                cluster_id=f"P{index // per_patient}",
                metadata={"item": items[index % len(items)]},
            )
            for index, (a, t) in enumerate(zip(answers, truths, strict=True))
        ],
        task,
    )


def test_kappa_and_error_by_hand():
    """Answers 0 1 3, truths 0 2 2: Σ(a−t)² = 2; expected 10 + 8 − 2·4·4/3 = 22/3; 1 − 6/22."""
    rows = rows_of([0, 1, 3, None], [0, 2, 2, 3])
    kappa, error = QuadraticWeightedKappa()(rows), MeanAbsoluteError()(rows)
    assert kappa.value == pytest.approx(8 / 11)
    assert error.value == pytest.approx(2 / 3)
    assert (kappa.n_evaluated, error.n_evaluated, kappa.n_abstained) == (3, 3, 1)


answers = st.lists(
    st.tuples(st.none() | st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=40
)


@given(pairs=answers)
def test_both_agree_with_scikit_learn(pairs):
    given_, truths = zip(*pairs, strict=True)
    rows = rows_of(given_, truths)
    kappa, error = QuadraticWeightedKappa().compute(rows), MeanAbsoluteError().compute(rows)
    kept = [(a, t) for a, t in pairs if a is not None]
    if not kept:
        assert kappa.details["reason"] == error.details["reason"]
        assert kappa.details["reason"] == "no_answer_with_a_place_on_the_scale"
        return
    left, right = zip(*kept, strict=True)
    assert error.value == pytest.approx(mean_absolute_error(right, left))
    if len(set(right)) == 1:
        assert kappa.details["reason"] == "needs_at_least_two_classes_in_ground_truth"
        return
    expected = cohen_kappa_score(left, right, labels=[0, 1, 2, 3], weights="quadratic")
    assert kappa.value == pytest.approx(expected, abs=1e-12)


def test_a_constant_answer_has_no_agreement_beyond_chance_and_a_perfect_one_all():
    truths = [0, 1, 2, 3] * 5
    assert QuadraticWeightedKappa()(rows_of([0] * 20, truths)).value == 0
    assert QuadraticWeightedKappa()(rows_of(truths, truths)).value == 1


def test_places_are_distances_even_where_a_class_is_missing():
    """With truths 0 and 3 alone, an answer of 3 to 0 costs 9; indices of classes would say 1."""
    rows = rows_of([0, 3, 3], [0, 3, 0])
    assert QuadraticWeightedKappa()(rows).value == pytest.approx(1 - 9 / (18 + 9 - 2 * 6 * 3 / 3))
    assert MeanAbsoluteError()(rows).value == 1


def test_words_have_the_place_that_the_task_gives_them_and_none_without_an_order():
    stages = Answers(("g1", "g2", "g3a"), ordered=True)
    rows = rows_of(["G1", "G3a", "unknown"], ["G1", "G1", "G3a"], task=stages)
    score = MeanAbsoluteError()(rows)
    assert score.value == 1.0
    assert score.details["n_answers_off_the_scale"] == 1
    unordered = rows_of(["G1"], ["G2"], task=Answers(("g1", "g2")))
    assert QuadraticWeightedKappa()(unordered).details["reason"] == "labels_have_no_order"


def test_both_are_broken_down_by_item_and_undefined_items_are_left_out():
    rows = rows_of([0, 1, 2, 1, 3, 0], [0, 0, 2, 0, 3, 0], items=("A", "B"))
    kappa = QuadraticWeightedKappa()(rows)
    assert kappa.breakdown == {"item_A": 1.0}  # B has only the truth 0
    assert MeanAbsoluteError()(rows).breakdown == {
        "item_A": 0.0,
        "item_B": pytest.approx(2 / 3),
    }


@pytest.mark.parametrize("metric", [QuadraticWeightedKappa(), MeanAbsoluteError()])
@pytest.mark.parametrize("wrong", [0, 3, 20])
def test_an_interval_has_width_and_holds_the_value(metric, wrong):
    truths = [0, 1, 2, 3] * 20
    answers = [3 - t if i < wrong else t for i, t in enumerate(truths)]
    score = score_all([metric], rows_of(answers, truths, per_patient=8), intervals=FEW)[metric.key]
    assert score.interval.low <= score.value <= score.interval.high
    assert score.interval.high - score.interval.low > 0.005


def test_one_patient_says_nothing_of_the_next():
    rows = rows_of([0, 1], [0, 1], per_patient=2)
    interval = score_all([QuadraticWeightedKappa()], rows, intervals=FEW)[
        "quadratic_weighted_kappa"
    ].interval
    assert (interval.low, interval.high, interval.method) == (-1, 1, "whole_range")


def test_the_interval_widens_where_the_errors_are_those_of_few_patients():
    truths = [0, 1, 2, 3] * 40
    answers = [3 - t if i < 24 else t for i, t in enumerate(truths)]
    alone, together = (
        score_all(
            [QuadraticWeightedKappa()], rows_of(answers, truths, per_patient=n), intervals=FEW
        )["quadratic_weighted_kappa"].interval
        for n in (1, 8)
    )
    assert together.high - together.low > 1.3 * (alone.high - alone.low)


def test_runs_are_compared_by_kappa():
    truths = [0, 1, 2, 3] * 30
    right, wrong = rows_of(truths, truths, per_patient=4), rows_of([0] * 120, truths, per_patient=4)
    found, _ = paired_differences(
        wrong.table,
        right.table,
        {"kappa": QuadraticWeightedKappa().form, "mae": MeanAbsoluteError().form},
        exchanges=Exchanges(n=199),
    )
    assert found["kappa"].delta == pytest.approx(1)
    assert found["mae"].delta == pytest.approx(-1.5)
    assert found["kappa"].p_value < 0.01
    same, _ = paired_differences(
        right.table,
        right.table,
        {"kappa": QuadraticWeightedKappa().form},
        exchanges=Exchanges(n=99),
    )
    assert same["kappa"].interval.low < 0 < same["kappa"].interval.high


@given(st.lists(st.tuples(st.integers(0, 24), st.integers(0, 24)), min_size=3, max_size=30))
def test_the_correlation_agrees_with_numpy(pairs):
    left, right = np.array(pairs, dtype=float).T
    form = Agreement(
        left, right, among=np.ones(left.size, bool), ends=(0, 24), coefficient=correlation
    )
    if np.ptp(left) == 0 or np.ptp(right) == 0:
        assert math.isnan(form.value())
        return
    assert form.value() == pytest.approx(np.corrcoef(left, right)[0, 1], abs=1e-9)
    halves = form.on(Units(np.arange(left.size), left.size)).values(np.full((left.size, 1), 0.5))
    assert halves[0] == pytest.approx(form.value(), abs=1e-9)


@pytest.mark.parametrize("coefficient", [weighted_kappa, correlation])
def test_an_influence_is_how_far_a_patient_moves_the_value(coefficient):
    rng = np.random.default_rng(2)
    truth, patient = rng.integers(0, 4, 80), np.arange(80) // 8
    answer = np.clip(truth + rng.integers(-1, 2, 80), 0, 3).astype(float)
    form = Agreement(
        answer, truth, among=rng.random(80) < 0.8, ends=(0, 3), coefficient=coefficient
    )
    weighted, even = form.on(Units(patient, 10)), np.ones((10, 1))
    influence = weighted.influences(even)[:, 0]
    for unit in range(10):
        heavier = even + 0.01 * (np.arange(10) == unit)[:, None]
        moved = (weighted.values(heavier) - weighted.values(even))[0] / 0.01
        assert moved == pytest.approx(influence[unit], abs=1e-3)
    assert influence.sum() == pytest.approx(0, abs=1e-9)


def test_nothing_among_them_has_no_slope_and_no_value():
    empty = Agreement(
        np.zeros(2), np.zeros(2), among=np.zeros(2, bool), ends=(0, 1), coefficient=correlation
    )
    assert (empty.slope, empty.n_evaluated) == (0.0, 0)
    assert math.isnan(empty.value())


def test_no_error_among_sixty_leaves_room_for_one():
    truths = [0, 1] * 30
    rows = rows_of(truths, truths, task=Answers((0, 1), positive=1))
    key = "quadratic_weighted_kappa"
    interval = score_all([QuadraticWeightedKappa()], rows, intervals=FEW)[key].interval
    # One answer at the wrong end, of a weight w whose 97.5 % quantile is 2.79: κ = 1 − 2w/(60 + w).
    assert interval.low == pytest.approx(1 - 2 * 2.79 / 62.79, abs=0.015)
    assert interval.high == 1


@pytest.mark.slow
def test_the_interval_holds_the_kappa_of_good_models():
    """Answers right in 96.75 %: the truth is 0.935; held in 87 % where only seen errors count."""
    rng, held = np.random.default_rng(3), 0
    for _ in range(300):
        truths = rng.integers(0, 2, 60)
        answers = np.where(rng.random(60) < 0.9675, truths, 1 - truths)
        rows = rows_of(answers.tolist(), truths.tolist(), task=Answers((0, 1), positive=1))
        score = score_all([QuadraticWeightedKappa()], rows, intervals=FEW)
        interval = score["quadratic_weighted_kappa"].interval
        held += interval.low <= 0.935 <= interval.high
    assert held >= 280

"""The risk–coverage curve: the worked example, exact identities, laws, a naive oracle."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from krisis.errors import UserError
from krisis.metrics import EvaluationResult
from krisis.metrics.curve_form import CurvePlan, area_key, curve_of
from krisis.metrics.selective_prediction import optimal_curve, risk_coverage_curve
from krisis.metrics.table import Table

GRID = [i / 10 for i in range(1, 11)]


def naive_points(losses, confidence, n_items):
    """The definition, item by item, in exact fractions where the input allows."""
    points = []
    for level in sorted(set(confidence), reverse=True):
        accepted = [loss for loss, c in zip(losses, confidence, strict=True) if c >= level]
        points.append(
            (
                len(accepted) / n_items,
                math.fsum(accepted) / len(accepted),
                math.fsum(accepted) / n_items,
            )
        )
    return points


def naive_area(points, column, first, limit=None):
    xs = [0.0] + [p[0] for p in points]
    ys = [first] + [p[column] for p in points]
    end = xs[-1] if limit is None else min(limit, xs[-1])
    area = 0.0
    for x0, x1, y0, y1 in zip(xs, xs[1:], ys, ys[1:], strict=False):
        if x0 >= end:
            break
        stop = min(x1, end)
        y_stop = y0 + (y1 - y0) * (stop - x0) / (x1 - x0)
        area += (stop - x0) * (y0 + y_stop) / 2
    return area


def naive_aurc(losses, confidence, n_items, limit=None):
    points = naive_points(losses, confidence, n_items)
    return naive_area(points, 1, points[0][1], limit)


def naive_augrc(losses, confidence, n_items, limit=None):
    return naive_area(naive_points(losses, confidence, n_items), 2, 0.0, limit)


@st.composite
def predicted_items(draw, min_size=1, levels=None):
    n = draw(st.integers(min_size, 40))
    losses = draw(st.lists(st.sampled_from([0.0, 1 / 3, 2 / 3, 1.0]), min_size=n, max_size=n))
    value = st.floats(0, 1, allow_subnormal=False) if levels is None else st.integers(0, levels)
    confidence = draw(st.lists(value, min_size=n, max_size=n))
    return np.array(losses), np.array(confidence, dtype=float), n + draw(st.integers(0, 20))


def test_the_worked_example():
    curve = risk_coverage_curve([0, 2, 0], [2, 2, 1], 4)
    assert curve.coverage.tolist() == [0.5, 0.75]
    assert curve.selective_risk.tolist() == [1.0, 2 / 3]
    assert curve.generalized_risk.tolist() == [0.5, 0.5]
    assert curve.threshold.tolist() == [2.0, 1.0]
    assert curve.cmax == 0.75
    assert curve.aurc() == pytest.approx(Fraction(17, 24), abs=1e-15)
    assert curve.augrc() == 0.25
    assert curve.risk_at(0.6) == (2 / 3, 0.75)
    assert curve.aurc(0.6) == pytest.approx(Fraction(89, 150), abs=1e-15)
    assert curve.augrc(0.6) == pytest.approx(Fraction(7, 40), abs=1e-15)


@given(predicted_items(), st.floats(0.01, 1))
def test_areas_agree_with_the_naive_definition(items, limit):
    losses, confidence, n_items = items
    curve = risk_coverage_curve(losses, confidence, n_items)
    assert curve.aurc() == pytest.approx(naive_aurc(*items), abs=1e-12)
    assert curve.augrc() == pytest.approx(naive_augrc(*items), abs=1e-12)
    assert curve.aurc(limit) == pytest.approx(naive_aurc(*items, limit), abs=1e-12)
    assert curve.augrc(limit) == pytest.approx(naive_augrc(*items, limit), abs=1e-12)


@given(predicted_items(levels=4), st.randoms())
def test_the_order_of_the_rows_does_not_matter(items, random):
    losses, confidence, n_items = items
    order = list(range(losses.size))
    random.shuffle(order)
    one = risk_coverage_curve(losses, confidence, n_items)
    other = risk_coverage_curve(losses[order], confidence[order], n_items)
    np.testing.assert_array_equal(one.coverage, other.coverage)
    np.testing.assert_allclose(one.selective_risk, other.selective_risk, atol=1e-14)
    assert one.aurc() == pytest.approx(other.aurc(), abs=1e-14)


@given(predicted_items(levels=4))
def test_equal_confidences_are_one_working_point(items):
    losses, confidence, n_items = items
    curve = risk_coverage_curve(losses, confidence, n_items)
    assert curve.threshold.tolist() == sorted(set(confidence.tolist()), reverse=True)
    assert curve.n_accepted[-1] == losses.size


@given(predicted_items())
def test_the_optimal_ranking_is_best_among_untied_ones(items):
    losses, _, n_items = items
    untied = np.random.default_rng(losses.size).permutation(losses.size).astype(float)
    curve, best = risk_coverage_curve(losses, untied, n_items), optimal_curve(losses, n_items)
    assert best.aurc() <= curve.aurc() + 1e-12
    assert best.augrc() <= curve.augrc() + 1e-12
    assert best.cmax == curve.cmax


def test_a_perfect_ranking_with_ties_can_beat_the_optimal_area():
    losses, confidence = [0.0, 1.0, 1.0], [1.0, 0.0, 0.0]
    curve, best = risk_coverage_curve(losses, confidence, 3), optimal_curve(losses, 3)
    assert curve.aurc() < best.aurc()


@given(predicted_items(levels=9))
def test_a_strictly_rising_map_of_confidence_leaves_the_curve_alone(items):
    losses, confidence, n_items = items
    curve = risk_coverage_curve(losses, confidence, n_items)
    mapped = risk_coverage_curve(losses, np.exp(confidence / 3) - 7, n_items)
    assert curve.aurc() == pytest.approx(mapped.aurc(), abs=1e-14)
    np.testing.assert_array_equal(curve.n_accepted, mapped.n_accepted)


@given(predicted_items())
def test_abstentions_scale_the_areas_exactly(items):
    losses, confidence, n_items = items
    curve = risk_coverage_curve(losses, confidence, n_items)
    answered = risk_coverage_curve(losses, confidence, losses.size)
    assert curve.aurc() == pytest.approx(curve.cmax * answered.aurc(), abs=1e-12)
    assert curve.augrc() == pytest.approx(curve.cmax**2 * answered.augrc(), abs=1e-12)
    assert curve.aurc_normalized == pytest.approx(answered.aurc(), abs=1e-12)
    assert curve.augrc_normalized == pytest.approx(answered.augrc(), abs=1e-12)


@given(st.lists(st.booleans(), min_size=2, max_size=60).filter(lambda v: len(set(v)) == 2))
def test_augrc_of_errors_is_a_function_of_auroc_and_accuracy(correct):
    right = np.array(correct)
    confidence = np.random.default_rng(right.size).permutation(right.size).astype(float)
    pairs = confidence[right][:, None] > confidence[~right][None, :]
    auroc, accuracy = pairs.mean(), right.mean()
    expected = (1 - auroc) * accuracy * (1 - accuracy) + (1 - accuracy) ** 2 / 2
    curve = risk_coverage_curve((~right).astype(float), confidence, right.size)
    assert curve.augrc() == pytest.approx(expected, abs=1e-12)


@given(predicted_items(), st.sampled_from(GRID))
def test_risk_at_a_coverage_is_that_of_the_first_point_which_reaches_it(items, coverage):
    losses, confidence, n_items = items
    points = naive_points(losses, confidence, n_items)
    expected = next(((risk, c) for c, risk, _ in points if c >= coverage), None)
    found = risk_coverage_curve(losses, confidence, n_items).risk_at(coverage)
    assert (found is None) == (expected is None)
    if expected and found:
        assert found == pytest.approx(expected, abs=1e-12)


def test_a_point_that_covers_exactly_enough_is_taken():
    # Two of four items cover a half; one of them is wrong.
    curve = risk_coverage_curve(np.array([0.0, 1, 0, 1]), np.array([0.9, 0.8, 0.7, 0.6]), 4)
    assert curve.risk_at(0.5) == pytest.approx((0.5, 0.5))
    assert curve.risk_at(0.51) == pytest.approx((1 / 3, 0.75))


def naive_lower_hull(points):
    hull = []
    for p in points:
        while len(hull) > 1:
            (x0, y0), (x1, y1) = hull[-2:]
            if (x1 - x0) * (p[1] - y0) - (y1 - y0) * (p[0] - x0) > 0:
                break
            hull.pop()
        hull.append(p)
    return hull


@given(predicted_items(min_size=3))
def test_the_achievable_curve_is_the_lower_convex_hull(items):
    losses, confidence, n_items = items
    curve = risk_coverage_curve(losses, confidence, n_items)
    hull = naive_lower_hull(list(zip(curve.coverage, curve.selective_risk, strict=True)))
    xs, ys = np.array(hull).T
    expected = naive_area([(x, y, y) for x, y in hull], 1, hull[0][1])
    assert curve.achievable().aurc() == pytest.approx(expected, abs=1e-12)
    assert np.all(np.interp(curve.coverage, xs, ys) <= curve.selective_risk + 1e-12)


@given(predicted_items(min_size=3))
def test_the_generalized_hull_lies_below_the_curve_and_starts_at_the_origin(items):
    losses, confidence, n_items = items
    curve = risk_coverage_curve(losses, confidence, n_items)
    points = [(0.0, 0.0), *zip(curve.coverage, curve.generalized_risk, strict=True)]
    xs, ys = np.array(naive_lower_hull(points)).T
    assert curve.augrc_achievable() == pytest.approx(np.trapezoid(ys, xs), abs=1e-12)
    assert curve.augrc_achievable() <= curve.augrc() + 1e-12


def test_many_items_of_few_levels_are_one_working_point_a_level():
    rng = np.random.default_rng(8)
    level, losses = rng.integers(0, 6, 20_000), rng.integers(0, 4, 20_000) / 3
    curve = risk_coverage_curve(losses, level / 5, 30_000)
    assert curve.threshold.tolist() == [1.0, 0.8, 0.6, 0.4, 0.2, 0.0]
    assert curve.n_accepted.tolist() == np.cumsum(np.bincount(level)[::-1]).tolist()
    np.testing.assert_allclose(
        curve.loss_accepted, np.cumsum(np.bincount(level, losses)[::-1]), rtol=1e-12
    )


def test_nothing_predicted_is_undefined_and_never_zero():
    for n_items in (0, 5):
        curve = risk_coverage_curve([], [], n_items)
        areas = (
            curve.aurc(),
            curve.augrc(),
            curve.aurc(0.5),
            curve.aurc_normalized,
            curve.augrc_normalized,
            curve.augrc_achievable(),
            curve.achievable().aurc(),
            optimal_curve([], n_items).aurc(),
        )
        assert all(math.isnan(area) for area in areas)
        assert curve.risk_at(0.1) is None
    assert risk_coverage_curve([], [], 5).cmax == 0.0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0.0], [math.nan], 1), r"confidence\[0\] is nan"),
        (([0.0, math.inf], [1, 2], 2), r"losses\[1\] is inf"),
        (([0.0], [1, 2], 3), "1 losses came with 2 confidences"),
        (([0.0, 1.0], [1, 2], 1), "n_items is 1 but 2 items are predicted"),
        (([[0.0]], [[1]], 1), "must be one list"),
    ],
)
def test_items_that_have_no_curve_are_refused(arguments, message):
    with pytest.raises(UserError, match=message):
        risk_coverage_curve(*arguments)


@pytest.mark.parametrize("coverage", [0.0, -0.1, 1.01, math.nan])
def test_a_coverage_outside_the_unit_interval_is_refused(coverage):
    curve = risk_coverage_curve([0.0], [1.0], 1)
    for question in (curve.aurc, curve.augrc, curve.risk_at):
        with pytest.raises(UserError, match="must be above 0"):
            question(coverage)


def test_many_items_with_many_levels_are_sorted_into_the_same_curve():
    rng = np.random.default_rng(3)
    losses, confidence = rng.integers(0, 2, 5000), rng.random(5000)
    order = np.argsort(-confidence)
    curve = risk_coverage_curve(losses, confidence, 6000)
    assert np.array_equal(curve.threshold, confidence[order])
    assert curve.generalized_risk == pytest.approx(np.cumsum(losses[order]) / 6000)


def test_without_items_no_coverage_is_the_highest():
    assert math.isnan(risk_coverage_curve([], [], 0).cmax)


def test_areas_are_cut_at_every_coverage_that_is_asked_for():
    rows = [EvaluationResult(i % 2, 1, confidence=0.5 + i / 20) for i in range(8)]
    table, plan = Table(rows), CurvePlan(cuts=(0.25, 0.75))
    curve = curve_of(table, plan.loss)
    for cut in plan.cuts:
        assert plan.value(area_key("aurc", cut), table) == curve.aurc(cut)
        assert plan.value(area_key("augrc", cut), table) == curve.augrc(cut)

"""The patient bootstrap with one pseudo-answer: weights, limits, and a slow oracle of its draws."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from krisis.metrics.curve_form import CurvePlan, resampled_intervals
from krisis.metrics.risk_coverage import risk_coverage_curve
from krisis.metrics.weighted_curve import CurveItems, CurveStatistic, PseudoAnswers
from krisis.statistics.bootstrap import BootstrapOptions, resample_counts
from krisis.statistics.pseudo_answer import (
    FigureRange,
    Lots,
    bootstrap_interval,
    error_weight,
)

FIGURES = ("aurc", "augrc", "aurc_normalized", "augrc_normalized", "eaurc", "augrc_until_0.5")
PLAN = CurvePlan("error", (0.8,), (0.5,))


def items(seed: int, *, n_units: int = 12, levels: int = 5, error: float = 0.3) -> CurveItems:
    rng = np.random.default_rng(seed)
    size = rng.integers(1, 5, n_units)
    unit = np.repeat(np.arange(n_units), size)
    answered = rng.random(unit.size) < 0.9
    answered[0] = True
    confidence = rng.integers(0, levels, unit.size) / levels
    loss = (rng.random(unit.size) < error).astype(float)
    return CurveItems(loss[answered], confidence[answered], unit[answered], size.astype(np.float64))


def slow_figures(one: CurveItems, counts, extra: tuple[float, float, float]) -> dict[str, float]:
    """The figures of one resample, its rows written out, the pseudo-answer four times over.

    Writing every row four times makes weights of a quarter whole, and changes no area but those
    of the optimal ranking, which are left out.
    """
    confidence, loss, weight = extra
    times = (4 * counts[one.clusters]).astype(int)
    n = int(4 * (one.items_per_cluster @ counts) + 4 * weight)
    losses = np.append(np.repeat(one.losses, times), np.full(int(4 * weight), loss))
    ranked = np.append(np.repeat(one.confidence, times), np.full(int(4 * weight), confidence))
    curve = risk_coverage_curve(losses, ranked, n)
    exactly = curve.risk_exactly_at(0.8)
    return {
        "aurc": curve.aurc(),
        "augrc": curve.augrc(),
        "aurc_normalized": curve.aurc_normalized,
        "augrc_normalized": curve.augrc_normalized,
        "augrc_until_0.5": curve.augrc(0.5),
        "risk_at_0.80": math.nan if exactly is None else exactly,
    }


@pytest.mark.parametrize(("seed", "levels"), [(0, 5), (1, 1), (2, 10_000)])
def test_every_resample_has_its_pseudo_answer(seed, levels):
    one = items(seed, levels=levels)
    options = BootstrapOptions(n_resamples=30, seed=seed)
    (counts,) = resample_counts(12, options)
    place = Lots.drawn(one.losses.size, options).answer
    statistic = CurveStatistic(one, (0.8,), (0.5,), exact=True)
    for weight, loss in ((0.5, 0.0), (1.75, 1.0)):
        found = statistic(counts, PseudoAnswers(place, np.full(30, weight), loss))
        for b in range(30):
            slow = slow_figures(one, counts[:, b], (one.confidence[place[b]], loss, weight))
            for name, value in slow.items():
                assert found[name][b] == pytest.approx(value, nan_ok=True, abs=1e-12), name


def test_the_optimal_area_knows_the_pseudo_answer():
    """Nine right answers and one wrong: the best ranking has the wrong one last."""
    one = CurveItems(np.zeros(9), np.arange(9.0), np.arange(9), np.ones(9))
    statistic = CurveStatistic(one, optimal=True)
    found = statistic(np.ones((9, 1)), PseudoAnswers(np.zeros(1, dtype=int), np.ones(1), 1.0))
    best = risk_coverage_curve([0.0] * 9 + [1.0], -np.arange(10.0), 10)
    assert found["aurc_optimal"][0] == pytest.approx(best.aurc())
    assert found["augrc_optimal"][0] == pytest.approx(best.augrc())


def test_the_limits_are_expanded_percentiles_of_the_two_kinds_of_draws():
    one = items(3)
    options = BootstrapOptions(n_resamples=400, seed=5)
    statistic = PLAN.statistic(one, optimal=True)
    (counts,) = resample_counts(12, options)
    lots = Lots.drawn(one.losses.size, options)
    below = statistic(counts, PseudoAnswers(lots.answer, np.full(400, 0.5), 0.0))
    fixed = statistic(counts, PseudoAnswers(lots.answer, np.full(400, 2.0), 1.0))
    drawn = statistic(counts, PseudoAnswers(lots.answer, 2.0 * lots.factor, 1.0))
    exact = {name: float(v[0]) for name, v in statistic(np.ones((12, 1))).items()}
    values = {name: exact[name] for name in FIGURES}
    found = resampled_intervals(one, values, PLAN, options=options, largest=1.0, weight=2.0)
    tail = stats.norm.cdf(math.sqrt(12 / 11) * stats.t.ppf(0.025, 11))
    for name in FIGURES:
        above = fixed if "aurc" in name else drawn
        low, high = np.quantile(below[name], tail), np.quantile(above[name], 1 - tail)
        assert found[name].low == pytest.approx(min(low, exact[name])), name
        assert found[name].high == pytest.approx(max(high, exact[name])), name
        assert found[name].method == "patient_bootstrap"


def test_rows_of_one_patient_weigh_the_pseudo_answer():
    def weight(wrong, rows, prior_icc=0.5):
        columns = (np.array(column, dtype=float) for column in (wrong, rows))
        return error_weight(*columns, prior_icc=prior_icc, level=0.95)

    assert weight([0] * 40, [1] * 40) == 1.0
    assert weight([0] * 10, [8] * 10) == 4.5  # nothing seen: 1 + (8 − 1)/2
    assert weight([0] * 10, [8] * 10, prior_icc=1.0) == 8.0
    assert weight([8, 0, 8, 0] * 5, [8] * 20) > 6  # errors that come together
    assert weight([1] * 40, [8] * 40) < 2  # and apart
    assert weight([0, 0], [0, 0]) == 1.0


def test_the_factors_have_the_mean_1_and_the_variance_a_half():
    factor = Lots.drawn(5, BootstrapOptions(n_resamples=40_000)).factor
    assert factor.mean() == pytest.approx(1, abs=0.02)
    assert factor.var() == pytest.approx(0.5, abs=0.02)


def test_no_error_among_sixty_answers_is_no_certainty():
    one = CurveItems(np.zeros(60), np.linspace(0.5, 1, 60), np.arange(60), np.ones(60))
    options = BootstrapOptions(n_resamples=2000)
    found = resampled_intervals(
        one, {"aurc": 0.0, "augrc": 0.0}, PLAN, options=options, largest=1.0, weight=1.0
    )
    assert found["aurc"].low == found["augrc"].low == 0.0
    assert 0.02 < found["aurc"].high < 0.12
    assert 1 / 61 < found["augrc"].high < 2.5 / 61


def test_a_resample_that_never_covers_enough_has_the_risk_of_all_answers():
    one = CurveItems(np.array([0.0, 1.0] * 20), np.ones(40), np.arange(40), np.ones(50))
    found = resampled_intervals(
        one, {"risk_at_0.80": 0.5}, PLAN, options=BootstrapOptions(300), largest=1.0, weight=1.0
    )
    assert found["risk_at_0.80"].low < 0.45
    assert found["risk_at_0.80"].high > 0.55


def test_what_cannot_be_resampled_has_its_whole_range_or_a_reason():
    values = np.array([0.2, 0.3])
    whole = FigureRange(value=0.25, low=0.0, high=1.0)
    found = bootstrap_interval(values, values, whole, n_units=1, level=0.95)
    assert (found.low, found.high, found.method) == (0.0, 1.0, "whole_range")
    free = FigureRange(value=0.25)
    found = bootstrap_interval(values, values, free, n_units=1, level=0.95)
    assert found.reason == "needs_at_least_two_clusters"
    nothing = np.full(2, math.nan)
    found = bootstrap_interval(nothing, values, free, n_units=5, level=0.95)
    assert found.reason == "fewer_than_two_valid_resamples"
    undefined = FigureRange(value=math.nan)
    found = bootstrap_interval(values, values, undefined, n_units=5, level=0.95)
    assert found.reason == "the_figure_is_undefined"
    empty = CurveItems(np.empty(0), np.empty(0), np.empty(0, dtype=int), np.ones(3))
    one = resampled_intervals(
        empty, {"aurc": math.nan}, PLAN, options=BootstrapOptions(50), largest=1.0, weight=1.0
    )
    assert one["aurc"].reason == "no_answered_rows"


def test_replicates_beside_the_value_are_widened_to_contain_it():
    values = np.linspace(0.4, 0.6, 101)
    for value, ends in ((0.9, (0.4, 0.9)), (0.1, (0.1, 0.6))):
        figure = FigureRange(value=value, low=0.0, high=1.0)
        found = bootstrap_interval(values, values, figure, n_units=50, level=0.95)
        assert (found.low, found.high) == pytest.approx(ends, abs=0.01)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 8), st.sampled_from([0.0, 0.1, 1.0]))
def test_the_interval_exists_holds_the_value_and_stays_in_range(seed, n_units, error):
    one = items(seed, n_units=n_units, error=error)
    statistic = PLAN.statistic(one, optimal=True)
    exact = {name: float(v[0]) for name, v in statistic(np.ones((n_units, 1))).items()}
    values = {name: exact[name] for name in FIGURES}
    options = BootstrapOptions(n_resamples=60, seed=1)
    found = resampled_intervals(one, values, PLAN, options=options, largest=1.0, weight=1.5)
    for name, interval in found.items():
        assert interval.low <= exact[name] <= interval.high, name
        assert -1.0 <= interval.low <= interval.high <= 1.0, name
    again = resampled_intervals(one, values, PLAN, options=options, largest=1.0, weight=1.5)
    assert again == found

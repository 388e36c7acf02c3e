"""Paired differences: hand values, and that p-value and interval are one inference."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from krisis.errors import InvalidValue
from krisis.metrics import Accuracy
from krisis.metrics.base import EvaluationResult, Rows
from krisis.metrics.paired import Exchanges, PairedDifference, paired_differences
from krisis.statistics.intervals import Interval
from krisis.statistics.paired import (
    margin_verdict,
    non_inferior,
    paired_inference,
    studentised,
    swap_masks,
    unseen_disagreement,
)


def compared_shares(left, right, rows, exchanges: Exchanges | None = None) -> PairedDifference:
    """Compare accuracies, given the right answers of every patient among its rows in either run."""
    tables = [
        Rows(
            EvaluationResult(int(j < n_right), 1, record_id=f"{i}-{j}", cluster_id=f"p{i}")
            for i, (n_right, n_rows) in enumerate(zip(run, rows, strict=True))
            for j in range(int(n_rows))
        ).table
        for run in (left, right)
    ]
    found, _ = paired_differences(
        tables[0], tables[1], {"accuracy": Accuracy().form}, exchanges=exchanges or Exchanges(3999)
    )
    return found["accuracy"]


def discordant(left_only: int, right_only: int, n_cases: int = 200) -> PairedDifference:
    left, right = np.ones(n_cases), np.ones(n_cases)
    right[:left_only] = 0
    left[left_only : left_only + right_only] = 0
    return compared_shares(left, right, np.ones(n_cases))


@pytest.mark.parametrize(
    ("pairs", "delta", "low", "high", "p_value"),
    [
        ((0, 0), 0.0, -0.0190, 0.0190, 1.0),
        ((5, 0), -0.025, -0.0500, 0.0, 0.0625),
        ((0, 5), 0.025, 0.0, 0.0500, 0.0625),
        ((6, 0), -0.03, -0.0538, -0.0062, 0.03125),
        ((10, 3), -0.035, -0.0703, 0.0003, 0.0923),  # 2 · P(X ≤ 3) of 13 tosses
    ],
)
def test_200_cases_give_the_values_worked_out_by_hand(pairs, delta, low, high, p_value):
    found = discordant(*pairs)
    assert found.delta == pytest.approx(delta)
    ends = (found.interval.low, found.interval.high)
    assert ends == pytest.approx((low, high), abs=6e-5)
    # 13 pairs that differ are exchanged 3,999 times: three standard errors.
    assert found.p_value == pytest.approx(p_value, abs=0.014 if sum(pairs) > 10 else 0.002)
    assert found.p_adjusted == found.p_value


def test_five_of_200_all_one_way_leave_0_inside_and_p_above_a_twentieth():
    found = discordant(5, 0)
    assert found.interval.low <= 0 <= found.interval.high
    assert found.p_value == pytest.approx(1 / 16)


def test_ten_to_three_by_hand():
    # Δ = −7/200; Σ(d − Δ)² = 13 − 49/200; C/(C−1)·that/200² = se².
    error = math.sqrt(200 / 199 * (13 - 49 / 200)) / 200
    found = discordant(10, 3)
    half = (found.interval.high - found.interval.low) / 2
    assert half == pytest.approx(error * stats.t.ppf(0.975, 199))


def test_patients_on_whom_nobody_disagrees_are_worth_their_assumed_correlation():
    right = np.full(15, 8.0)
    found = compared_shares(right, right, right)
    ends = (found.interval.low, found.interval.high)
    assert ends == pytest.approx((-0.138, 0.138), abs=5e-4)
    assert found.p_value == 1.0
    # f = z/(120/4.5 + z²), times Student's quantile of 14 degrees of freedom.
    z = stats.norm.ppf(0.975)
    half = z / (120 / 4.5 + z * z) * stats.t.ppf(0.975, 14)
    assert found.interval.high == pytest.approx(half)


def test_the_floor_of_agreeing_runs_knows_the_level():
    found = compared_shares(np.ones(200), np.ones(200), np.ones(200), Exchanges(99, 0, 0.99))
    z = stats.norm.ppf(0.995)
    assert found.interval.high == pytest.approx(z / (200 + z * z) * stats.t.ppf(0.995, 199))


def test_the_floor_scales_with_slope_and_answer_share():
    ones = np.ones(200)
    floor = unseen_disagreement(0 * ones, ones)
    z = stats.norm.ppf(0.975)
    assert floor == pytest.approx(z / (200 + z * z))
    half = unseen_disagreement(0 * ones, ones, slope=-0.5, answer_share=0.8)
    assert half == pytest.approx(floor * 0.5 / 0.8)


def slow_paired_share(apart, rows):
    """All exchanges, one after the other, straight from the definition."""
    n, n_patients = rows.sum(), len(rows)
    floor = unseen_disagreement(np.abs(apart), rows)

    def test_statistic(signs):
        d = np.array(signs) * apart
        delta = d.sum() / n
        z = [(d_i - delta * t_i) / n for d_i, t_i in zip(d, rows, strict=True)]
        error = max(math.sqrt(n_patients / (n_patients - 1) * sum(v * v for v in z)), floor)
        return delta, error, abs(delta) / error

    delta, error, t = test_statistic(np.ones(n_patients))
    every = [test_statistic(s)[2] for s in itertools.product((1, -1), repeat=n_patients)]
    p = np.mean([v >= t - 1e-9 for v in every])
    return delta, error, max(p, 2 * stats.t.sf(t, n_patients - 1))


def test_the_paired_share_agrees_with_trying_every_exchange():
    rng = np.random.default_rng(5)
    for _ in range(20):
        rows = rng.integers(1, 5, 7).astype(float)
        left, right = rng.binomial(rows.astype(int), 0.6), rng.binomial(rows.astype(int), 0.8)
        found = compared_shares(left, right, rows)
        delta, error, p = slow_paired_share((right - left).astype(float), rows)
        assert found.delta == pytest.approx(delta)
        assert found.p_value == pytest.approx(p)
        # The interval is Δ ± κ·se with κ at least Student's quantile.
        half = max(found.interval.high - delta, delta - found.interval.low)
        assert half >= error * stats.t.ppf(0.975, 6) * (1 - 1e-9) or half >= 1


def test_few_patients_exchange_in_every_way_once():
    masks = np.concatenate(list(swap_masks(4, 99, seed=0)), axis=1)
    assert masks.shape == (4, 7)
    patterns = {tuple(column) for column in masks.T.tolist()}
    with_mirrors = patterns | {tuple(not swapped for swapped in p) for p in patterns}
    assert len(with_mirrors) == 14  # all but "nobody" and "everybody"


def test_drawn_exchanges_are_fair_and_repeat_with_their_seed():
    first, second = (np.concatenate(list(swap_masks(70, 4000, seed=9)), axis=1) for _ in range(2))
    assert first.shape == (70, 4000)
    assert np.array_equal(first, second)
    assert abs(first.mean() - 0.5) < 0.01
    assert np.abs(np.corrcoef(first)[np.triu_indices(70, 1)]).max() < 0.08
    other = np.concatenate(list(swap_masks(70, 4000, seed=10)), axis=1)
    assert not np.array_equal(first, other)


def test_blocks_change_no_exchange(monkeypatch):
    whole = np.concatenate(list(swap_masks(70, 50, seed=1)), axis=1)
    monkeypatch.setattr("krisis.statistics.paired._CELLS_PER_BLOCK", 70 * 7)
    assert np.array_equal(np.concatenate(list(swap_masks(70, 50, seed=1)), axis=1), whole)


def test_the_kth_largest_exchange_widens_the_interval():
    permuted = np.arange(1.0, 100.0)[None, :] / 10  # 99 exchanges: 9.9, 9.8, …
    found = paired_inference([0.5], [0.1], permuted, degrees_of_freedom=50, level=0.95)
    assert found.multiplier[0] == pytest.approx(9.5)  # the ⌊0.05·100⌋ = 5th largest
    assert found.p_value[0] == pytest.approx((1 + 50) / 100)  # 5.0 to 9.9 reach t = 5
    assert (found.low[0], found.high[0]) == pytest.approx((-0.45, 1.0))  # 1.45 cannot be


def test_students_quantile_holds_where_the_exchanges_are_all_small():
    found = paired_inference([0.5], [0.1], np.zeros((1, 999)), degrees_of_freedom=3)
    assert found.multiplier[0] == pytest.approx(stats.t.ppf(0.975, 3))
    assert found.p_value[0] == pytest.approx(2 * stats.t.sf(5, 3))


def test_an_undefined_metric_is_nan_and_no_rival_of_the_others():
    permuted = np.vstack([np.linspace(0, 3, 999), np.full(999, 50.0)])
    found = paired_inference([0.3, math.nan], [0.1, 0.1], permuted, degrees_of_freedom=100)
    alone = paired_inference([0.3], [0.1], permuted[:1], degrees_of_freedom=100)
    assert found.adjusted_p_value[0] == alone.p_value[0]
    for name in ("difference", "p_value", "adjusted_p_value", "multiplier", "low", "high"):
        assert math.isnan(getattr(found, name)[1])
    assert not found.interval(1).defined
    assert found.interval(0) == Interval(found.low[0], found.high[0], 0.95, "permutation_t")


def test_exchanges_on_which_a_metric_is_undefined_speak_against_its_difference():
    permuted = np.zeros((2, 999))
    permuted[0, :100] = math.nan
    found = paired_inference([0.8, 1.0], [0.1, 0.1], permuted, degrees_of_freedom=500)
    assert found.p_value[0] == pytest.approx(101 / 1000)
    assert (found.low[0], found.high[0]) == (-1.0, 1.0)
    # … but not against that of another metric.
    assert found.p_value[1] == pytest.approx(1 / 1000)
    assert found.adjusted_p_value[1] == pytest.approx(1 / 1000)


@pytest.mark.parametrize("n_comparisons", [1, 3])
def test_the_adjusted_p_values_and_joint_intervals_are_those_of_the_largest_statistic(
    n_comparisons,
):
    rng = np.random.default_rng(2)
    seen = set()
    for _ in range(60):
        shared = rng.normal(size=199)
        permuted = np.abs(0.8 * shared + 0.6 * rng.normal(size=(4, 199)))
        observed = np.abs(rng.normal(1.5, 1.2, 4))
        found = paired_inference(
            observed,
            np.ones(4),
            permuted,
            degrees_of_freedom=1e6,
            largest=100.0,
            joint=True,
            n_comparisons=n_comparisons,
        )
        for m in range(4):
            n_reaching = sum(permuted[:, b].max() >= observed[m] for b in range(199))
            slow = n_comparisons * max(found.p_value[m], (1 + n_reaching) / 200)
            assert found.adjusted_p_value[m] == pytest.approx(min(1.0, slow))
            # One level: 0 is outside the interval exactly where the adjusted p is at most 0.05.
            shown = not found.low[m] <= 0 <= found.high[m]
            assert shown == (found.adjusted_p_value[m] <= 0.05)
            seen.add(shown)
        alone = paired_inference(observed, np.ones(4), permuted, degrees_of_freedom=1e6)
        assert (found.multiplier >= alone.multiplier).all()
    assert seen == {True, False}


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.01, 0.2, "better"),
        (-0.2, -0.01, "worse"),
        (-0.04, 0.04, "equivalent"),
        (-0.04, 0.06, "non-inferior"),
        (-0.06, 0.04, "cannot tell"),
        (math.nan, math.nan, "cannot tell"),
    ],
)
def test_a_margin_has_five_verdicts(low, high, expected):
    assert margin_verdict(Interval(low, high), 0.05, "higher") == expected
    assert margin_verdict(Interval(-high, -low), 0.05, "lower") == expected


def test_a_metric_without_standard_error_is_decided_by_its_exchanges_alone():
    rng = np.random.default_rng(0)
    differences = np.append(rng.normal(0, 0.02, 998), math.nan)
    scale = math.sqrt(np.nanmean(differences**2))
    permuted = studentised(differences, scale)
    found = paired_inference([0.06], [scale], permuted, degrees_of_freedom=math.nan)
    n_reaching = (np.abs(differences) >= 0.06).sum() + 1  # one exchange was undefined
    assert found.p_value[0] == pytest.approx((1 + n_reaching) / 1000)
    limit = np.sort(np.append(np.abs(differences[:-1]), math.inf))[-50]
    assert found.low[0] == pytest.approx(0.06 - limit)


def test_no_standard_error_and_no_difference_is_no_evidence():
    assert studentised([0.0, 0.2], [0.0, 0.0]).tolist() == [0.0, math.inf]


figures = st.floats(-1, 1, allow_nan=False)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.integers(-3, 3), min_size=1, max_size=14),
    st.integers(0, 10),
    st.sampled_from([0.8, 0.9, 0.95, 0.99]),
)
def test_p_is_at_most_alpha_exactly_where_0_lies_outside(apart, n_equal, level):
    apart = np.array(apart + [0] * n_equal, dtype=float)
    rows = np.full(apart.size, 3.0)
    left, right = np.maximum(-apart, 0), np.maximum(apart, 0)
    found = compared_shares(left, right, rows, Exchanges(199, 3, level))
    low, high = found.interval.low, found.interval.high
    assert (found.p_value <= round(1 - level, 12)) == (low > 0 or high < 0)
    assert low <= found.delta <= high
    assert low < high


@settings(max_examples=300, deadline=None)
@given(
    st.lists(figures, min_size=1, max_size=5),
    st.integers(1, 60),
    st.integers(0, 2**32 - 1),
    st.sampled_from([0, 1, 7, 200, math.nan]),
    st.booleans(),
)
def test_p_and_interval_agree_on_any_numbers(delta, n_exchanges, seed, degrees, tie):
    rng = np.random.default_rng(seed)
    delta = np.array(delta)
    error = rng.choice([0.0, 0.01, 0.3], delta.size)
    observed = studentised(delta, error)
    permuted = rng.exponential(1.5, (delta.size, n_exchanges))
    if tie:  # sums in another order: the same statistic up to its last digits
        permuted[:, ::2] = observed[:, None] * (1 + rng.choice([-1e-13, 0, 1e-13]))
    permuted[rng.random(permuted.shape) < 0.05] = math.nan
    found = paired_inference(delta, error, permuted, degrees_of_freedom=degrees, level=0.9)
    outside = (found.low > 0) | (found.high < 0)
    assert ((found.p_value <= 0.1) == outside).all()


@pytest.mark.parametrize(
    ("low", "high", "direction", "expected"),
    [
        (-0.04, 0.10, "higher", True),
        (-0.06, 0.00, "higher", False),
        (-0.10, 0.04, "lower", True),
        (0.00, 0.06, "lower", False),
        (-0.30, 0.04, "lower", True),
        (-0.04, 0.30, "higher", True),
    ],
)
def test_non_inferiority_looks_at_the_end_on_which_right_is_worse(low, high, direction, expected):
    assert non_inferior(Interval(low, high), 0.05, direction) is expected


def test_equal_and_perfect_runs_are_decided():
    found = discordant(0, 0)
    assert non_inferior(found.interval, 0.05, "higher") is True
    assert non_inferior(found.interval, 0.01, "higher") is False
    assert non_inferior(Interval.undefined("no_rows"), 0.05, "higher") is None


def test_non_inferiority_refuses_what_has_no_meaning():
    with pytest.raises(InvalidValue, match="direction"):
        non_inferior(Interval(0, 1), 0.05, "neither")  # type: ignore[arg-type]
    with pytest.raises(InvalidValue, match="margin"):
        non_inferior(Interval(0, 1), 0.0, "higher")
    with pytest.raises(ValueError, match="broadcast"):
        paired_inference([0.1] * 3, [0.1] * 3, np.zeros((2, 9)), degrees_of_freedom=3)
    with pytest.raises(InvalidValue):
        next(swap_masks(0, 5, seed=1))

"""The tests of a risk are exact where they say so, valid everywhere, and agree with others'."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from krisis.statistics.risk_tests import (
    allowed_errors,
    betting_p,
    binomial_p,
    exact_interval,
    fewest_rows,
    first_alike,
    hoeffding_bentkus_p,
    inverted_interval,
)

RISKS = st.sampled_from([0.01, 0.05, 0.1, 0.15, 0.3, 0.5, 0.9])
LEVELS = st.sampled_from([0.01, 0.03, 0.05, 0.07, 0.1, 0.25, 0.5, 0.81, 0.95])


def test_the_fewest_rows_are_counted_and_not_rounded() -> None:
    # 0.9²⁸ = 0.0523 and 0.9²⁹ = 0.0471; 0.85²⁹ = 0.0090
    assert fewest_rows(0.1, 0.05) == 29
    assert fewest_rows(0.15, 0.1) == 15
    # (1 − risk)ⁿ meets the level exactly, where a rounded logarithm may ask for one row more.
    assert [fewest_rows(0.1, 0.9**1), fewest_rows(0.1, 0.81), fewest_rows(0.2, 0.512)] == [1, 2, 3]
    assert fewest_rows(1e-6, 0.1) == 2302584


@given(n=st.integers(0, 300), risk=RISKS, level=LEVELS)
def test_allowed_errors_are_those_of_the_binomial_distribution(
    n: int, risk: float, level: float
) -> None:
    k = int(allowed_errors(n, risk, level))
    assert k < 0 or stats.binom.cdf(k, n, risk) <= level * (1 + 1e-9)
    assert stats.binom.cdf(k + 1, n, risk) > level * (1 - 1e-9)
    if k >= 0:
        first = first_alike(n, risk, level)
        assert first <= n
        assert int(allowed_errors(first, risk, level)) == k
        assert int(allowed_errors(first - 1, risk, level)) == k - 1


@pytest.mark.parametrize("large", [[], [10**6]])
def test_allowed_errors_by_hand_alone_and_beside_a_large_study(large: list[int]) -> None:
    # 0.9²⁸ = 0.0523, 0.9²⁹ = 0.0471; P(Bin(45) ≤ 1) = 0.0524, P(Bin(46) ≤ 1) = 0.0480
    found = allowed_errors([0, 1, 28, 29, 45, 46, 200, *large], 0.1, 0.05)
    assert found[:7].tolist() == [-1, -1, -1, 0, 0, 1, 12]
    # A level that is met exactly is enough: 0.5² = 0.25, P(Bin(5) ≤ 1) = 6/32
    assert allowed_errors([1, 2, 3, *large], 0.5, 0.25)[:3].tolist() == [-1, 0, 0]
    assert allowed_errors([4, 5, *large], 0.5, 0.1875)[:2].tolist() == [0, 1]
    # No study is so small that more errors than rows are allowed.
    assert allowed_errors([1, 2, *large], 0.9, 0.95)[:2].tolist() == [0, 1]


def test_the_fewest_rows_that_allow_as_many_errors() -> None:
    found = [first_alike(n, 0.1, 0.05) for n in (1, 28, 29, 45, 46, 47)]
    assert found == [1, 1, 29, 29, 46, 46]
    assert [first_alike(n, 0.5, 0.25) for n in (1, 2, 3)] == [1, 2, 2]


@given(n=st.integers(1, 400), risk=RISKS, share=st.floats(0, 1))
def test_the_binomial_p_value_is_the_exact_tail(n: int, risk: float, share: float) -> None:
    k = round(n * share)
    assert float(binomial_p(k, n, risk)) == pytest.approx(stats.binom.cdf(k, n, risk), rel=1e-9)


@given(n=st.integers(1, 300), k=st.integers(0, 300), risk=RISKS)
@settings(max_examples=60)
def test_hoeffding_bentkus_agrees_with_mapie(n: int, k: int, risk: float) -> None:
    from mapie.risk_control.methods import compute_hoeffding_bentkus_p_value

    k = min(k, n)
    if math.ceil(n * (k / n)) != k:
        return  # MAPIE rounds n·(k/n) up there
    theirs = compute_hoeffding_bentkus_p_value(np.array([k / n]), n, risk)
    assert hoeffding_bentkus_p(float(k), n, risk) == pytest.approx(
        min(1.0, float(np.ravel(theirs)[0])), rel=1e-6, abs=1e-12
    )


def test_a_sum_of_losses_that_is_whole_but_for_rounding_counts_as_whole() -> None:
    total = sum([0.1] * 30)  # 3.0000000000000004 or 2.9999999999999996
    assert total != 3.0
    assert hoeffding_bentkus_p(total, 60, 0.2) == pytest.approx(hoeffding_bentkus_p(3.0, 60, 0.2))


def test_two_bets_by_hand() -> None:
    # most_rows 2, risk 0.2, level 0.1: cap 0.99/0.8 = 1.2375; first variance 2·0.16/2 = 0.16.
    # λ₁ = √(2·2.302585/(2·0.16)) = 3.79 → 1.2375; surplus₁ = (0 − 0.2·2)/2 = −0.2 → 1.2475
    # surplus₂ = (1 − 0.2·2)/2 = 0.3 → factor 1 − 1.2375·0.3 = 0.62875; the maximum is after 1.
    p = betting_p(np.array([0.0, 1.0]), np.array([2.0, 2.0]), 0.2, most_rows=2, level=0.1)
    assert p == pytest.approx(1 / 1.2475)


def test_no_patient_shows_nothing_and_one_patient_something() -> None:
    none = np.zeros(0)
    assert betting_p(none, none, 0.2, most_rows=1, level=0.1) == 1.0
    # The first bet is at its cap of 0.99/0.8: a capital of 1 + 1.2375·0.2
    one = betting_p(np.zeros(1), np.ones(1), 0.2, most_rows=1, level=0.1)
    assert one == pytest.approx(1 / 1.2475)


def test_the_bet_follows_the_variance_seen_so_far() -> None:
    # 100 patients, most_rows 2, risk 0.2; the first two lose nothing, the rest accept no row.
    # x₁ = −0.2, mean −0.1, so v₁ = (0.16 + 0.1²)/2 = 0.085, and x₂ = −0.1.
    losses, rows = np.zeros(100), np.zeros(100)
    rows[:2] = 2.0, 1.0
    bets = [math.sqrt(2 * math.log(10) / (100 * variance)) for variance in (0.16, 0.085)]
    capital = (1 + bets[0] * 0.2) * (1 + bets[1] * 0.1)
    p = betting_p(losses, rows, 0.2, most_rows=2, level=0.1)
    assert p == pytest.approx(1 / capital)


@pytest.mark.parametrize(("risk", "size"), [(0.15, 8), (0.05, 4), (0.4, 3)])
def test_a_bet_on_a_true_hypothesis_rarely_wins(risk: float, size: int) -> None:
    generator = np.random.default_rng(3)
    n_runs, n_won = 600, 0
    for _ in range(n_runs):
        wrong = np.repeat(generator.random((120, 1)) < risk, size, axis=1)  # ICC 1
        accepted = generator.random((120, size)) < 0.6
        sums = (wrong & accepted).sum(1).astype(float), accepted.sum(1).astype(float)
        n_won += betting_p(*sums, risk, most_rows=size, level=0.1) <= 0.1
    assert n_won / n_runs <= 0.1 + 2 * math.sqrt(0.1 * 0.9 / n_runs)


@given(n=st.integers(1, 200), share=st.floats(0, 1), level=st.sampled_from([0.9, 0.95, 0.99]))
def test_the_exact_interval_is_that_of_scipy(n: int, share: float, level: float) -> None:
    k = round(n * share)
    theirs = stats.binomtest(k, n).proportion_ci(level, "exact")
    ours = exact_interval(k, n, level)
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=1e-9)


@pytest.mark.parametrize("k", [0, 1, 19, 20])
def test_the_exact_interval_near_its_ends_is_that_of_scipy(k: int) -> None:
    theirs = stats.binomtest(k, 20).proportion_ci(0.95, "exact")
    ours = exact_interval(k, 20)
    assert (ours.low, ours.high) == pytest.approx((theirs.low, theirs.high), abs=1e-9)


def test_an_interval_by_inversion_holds_the_exact_one_within_a_step() -> None:
    k, n = 7, 60
    ours = inverted_interval(
        lambda r: float(binomial_p(k, n, r)), lambda r: float(binomial_p(n - k, n, 1 - r)), 0.9, "t"
    )
    exact = exact_interval(k, n, 0.9)
    assert ours.low <= exact.low <= ours.low + 0.004
    assert ours.high - 0.004 <= exact.high <= ours.high

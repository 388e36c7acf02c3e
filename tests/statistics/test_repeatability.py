"""Variance shares, the exact sign test and the trend within calls, by hand and by an oracle."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from krisis.statistics.repeatability import share_between, sign_flip_p, trend_within, within_sd


def test_the_share_between_cases_by_hand() -> None:
    # Means 1, 4; grand mean 2.5: MSB = 2(1.5² + 1.5²)/1 = 9, MSW = (2 + 2)/2 = 2, n₀ = 2.
    cases = [[0.0, 2.0], [3.0, 5.0]]
    assert share_between(cases) == pytest.approx((9 - 2) / (9 + 2))
    assert within_sd(cases) == pytest.approx([math.sqrt(2)] * 2)
    # Means 1, 5 with 2 and 3 values: n₀ = (5 − 13/5)/1 = 2.4, grand mean 3.4.
    uneven = [[0.0, 2.0], [4.0, 5.0, 6.0]]
    between, within = 2 * 2.4**2 + 3 * 1.6**2, (2 + 2) / 3
    assert share_between(uneven) == pytest.approx((between - within) / (between + 1.4 * within))


def test_the_share_between_cases_equals_the_anova_of_scipy() -> None:
    generator = np.random.default_rng(5)
    cases = [list(generator.normal(mean, 1, 4)) for mean in generator.normal(0, 2, 30)]
    f = stats.f_oneway(*cases).statistic  # F = MSB/MSW, so ICC = (F − 1)/(F + n − 1)
    assert share_between(cases) == pytest.approx((f - 1) / (f + 3), rel=1e-12)


@pytest.mark.parametrize("cases", [[], [[1.0, 2.0]], [[1.0], [2.0]], [[3.0, 3.0], [3.0, 3.0]]])
def test_without_variance_or_repeats_there_is_no_share(cases: list[list[float]]) -> None:
    assert math.isnan(share_between(cases))


@given(st.integers(0, 30), st.integers(0, 30))
def test_one_row_per_patient_gives_mcnemars_exact_test(better: int, worse: int) -> None:
    p = sign_flip_p([1] * better + [-1] * worse + [0] * 5)
    n = better + worse
    assert p == pytest.approx(stats.binomtest(better, n).pvalue if n else 1.0)


def test_patients_with_several_rows_change_sign_as_a_whole() -> None:
    # Up to a common sign the sums of 2, 1, 1 are 4, 2, 2 and 0.
    assert sign_flip_p([2, 1, 1]) == pytest.approx(1 / 4)
    assert sign_flip_p([2, 1, -1]) == pytest.approx(3 / 4)


def test_a_trend_is_found_and_its_slope_is_that_of_least_squares() -> None:
    place = np.tile(np.arange(4), 40)
    block = np.repeat(np.arange(40), 4)
    generator = np.random.default_rng(0)
    outcome = (generator.random(160) < 0.2 + 0.2 * place).astype(float)
    slope, p = trend_within(outcome, place, block)
    assert slope == pytest.approx(stats.linregress(place, outcome).slope)  # every block is whole
    assert p == 1 / 1000
    assert all(map(math.isnan, trend_within([1.0, 0.0], [0, 0], [0, 1])))


def test_tests_without_an_effect_alarm_as_often_as_they_say() -> None:
    generator = np.random.default_rng(1)
    place, block = np.tile(np.arange(5), 8), np.repeat(np.arange(8), 5)
    n, trends, signs = 300, 0, 0
    for seed in range(n):
        hard = np.repeat(generator.random(8), 5)  # calls differ, places do not
        outcome = (generator.random(40) < hard).astype(float)
        trends += trend_within(outcome, place, block, n_draws=99, seed=seed)[1] <= 0.05
        sums = generator.integers(-3, 4, 14)  # patients of three rows, either sign
        signs += sign_flip_p(sums, n_flips=199, seed=seed) <= 0.05
    most = stats.binom.ppf(0.999, n, 0.05)
    assert trends <= most, trends
    assert signs <= most, signs

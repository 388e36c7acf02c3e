"""Gaps of groups are tested by exchanging patients."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats
from statsmodels.stats.multitest import multipletests

from krisis.statistics.group_gaps import (
    doubled_risk_power,
    gap_interval,
    gap_tests,
    holm,
    rise_test,
    student_interval,
)
from krisis.statistics.intervals import Interval
from krisis.statistics.shares import share_interval

DRAWS = 20_000


def one_row_each(errors: list[int], sizes: list[int]) -> tuple[np.ndarray, np.ndarray]:
    """Return sums and rows (patients × groups) of patients with one row each."""
    group = np.repeat(np.arange(len(sizes)), sizes)
    rows = (group[:, None] == np.arange(len(sizes))).astype(float)
    wrong = np.concatenate([np.arange(n) < k for k, n in zip(errors, sizes, strict=True)])
    return rows * wrong[:, None], rows


def test_one_row_per_patient_is_fishers_exact_test() -> None:
    errors, sizes = [12, 9, 2], [40, 60, 30]
    found = gap_tests(*one_row_each(errors, sizes), n_draws=DRAWS, seed=1)
    for g in range(3):
        rest = [sum(errors) - errors[g], sum(sizes) - sizes[g]]
        table = [[errors[g], sizes[g] - errors[g]], [rest[0], rest[1] - rest[0]]]
        assert found.gap[g] == pytest.approx(errors[g] / sizes[g] - rest[0] / rest[1])
        exact = stats.fisher_exact(table, alternative="greater").pvalue
        assert found.p_higher[g] == pytest.approx(exact, abs=4 * math.sqrt(exact / DRAWS))


def test_large_patients_of_one_group_are_not_taken_for_many() -> None:
    # 20 patients with 20 rows each, of which one is wrong throughout; 76 with one row, 13 wrong.
    site = np.concatenate([np.full(20, 20.0), np.zeros(76)])
    rows = np.stack([site, (site == 0) * 1.0], axis=1)
    wrong = np.isin(np.arange(96), [0, *range(20, 33)])
    found = gap_tests(rows * wrong[:, None], rows, n_draws=999, seed=1)
    assert found.gap[1] == pytest.approx(13 / 76 - 1 / 20)
    # By independent limits: at this confidence those of both sides reach a gap of 0.
    p = float(found.p_higher[1])
    limits = [
        share_interval(rows[mine, g] * wrong[mine], rows[mine, g], level=1 - 2 * p)
        for g, mine in ((1, site == 0), (0, site > 0))
    ]
    assert gap_interval((13 / 76, 1 / 20), tuple(limits), 0.0).low == pytest.approx(0, abs=0.003)
    assert 0.01 < p < 0.1
    assert found.p_higher[0] > 0.9
    # Where all patients have as many rows, exchange alone decides.
    same = gap_tests(*one_row_each([12, 9], [40, 60]), n_draws=999, seed=1)
    assert (
        gap_tests(
            *(3 * a for a in one_row_each([12, 9], [40, 60])), n_draws=999, seed=1
        ).p_higher.tolist()
        == same.p_higher.tolist()
    )


def test_patients_without_rows_change_nothing_and_whole_patients_are_exchanged() -> None:
    sums, rows = one_row_each([2, 0], [2, 2])
    found = gap_tests(sums, rows, n_draws=DRAWS, seed=1)
    assert found.gap.tolist() == [1.0, -1.0]
    assert found.p_higher == pytest.approx([1 / 6, 1.0], abs=0.01)  # one of six ways to choose two
    idle = [np.vstack([a, np.zeros((30, 2))]) for a in (sums, rows)]
    assert gap_tests(*idle, n_draws=DRAWS, seed=1).p_higher.tolist() == found.p_higher.tolist()
    # Four rows each, all alike: a patient is one unit and not four.
    many = gap_tests(4 * sums, 4 * rows, n_draws=DRAWS, seed=1)
    assert many.p_higher.tolist() == found.p_higher.tolist()


def test_rows_of_several_groups_are_exchanged_within_a_patient() -> None:
    rng = np.random.default_rng(0)
    level = rng.random((60, 1)) * 5  # patients differ far more than their two rows do
    sums = np.clip(level + np.array([0.3, 0.0]) + rng.normal(0, 0.1, (60, 2)), 0, None)
    found = gap_tests(sums, np.ones((60, 2)), n_draws=999, seed=1)
    assert found.p_higher[0] == pytest.approx(1 / 1000)
    paired = stats.ttest_rel(sums[:, 0], sums[:, 1], alternative="greater")
    assert found.gap[0] == pytest.approx((sums[:, 0] - sums[:, 1]).mean())
    assert paired.pvalue < found.p_higher[0]
    # A few patients bring the whole spread: flips alone would give 2⁻⁶, Student's t does not.
    few = np.zeros((60, 2))
    few[:6, 0] = 1
    tested = gap_tests(few, np.ones((60, 2)), n_draws=DRAWS, seed=1)
    assert tested.p_higher[0] == pytest.approx(1 / 2**6, abs=0.004)


def test_a_group_without_rows_or_with_all_rows_is_undefined() -> None:
    sums, rows = one_row_each([3, 1], [6, 6])
    found = gap_tests(
        np.pad(sums, [(0, 0), (0, 1)]), np.pad(rows, [(0, 0), (0, 1)]), n_draws=99, seed=1
    )
    assert math.isnan(found.gap[2])
    assert math.isnan(found.p_higher[2])
    alone = gap_tests(sums.sum(axis=1)[:, None], rows.sum(axis=1)[:, None], n_draws=99, seed=1)
    assert np.isnan([alone.gap, alone.p_higher, alone.p_different]).all()


def test_holm_is_that_of_statsmodels() -> None:
    p = [0.001, 0.4, 0.011, 0.011, 0.02, 0.9, 0.004]
    assert holm([*p, math.nan])[:-1] == pytest.approx(multipletests(p, method="holm")[1], abs=1e-12)


def test_power_is_that_of_fishers_test_enumerated() -> None:
    n, m, risk, level = 9, 14, 0.2, 0.1
    power = 0.0
    for x in range(n + 1):
        for y in range(m + 1):
            p = stats.fisher_exact([[x, n - x], [y, m - y]], alternative="greater").pvalue
            mass = stats.binom.pmf(x, n, 2 * risk) * stats.binom.pmf(y, m, risk)
            power += mass * (p <= level)
    assert doubled_risk_power((n, m), risk, level=level) == pytest.approx(power, abs=1e-9)
    assert math.isnan(doubled_risk_power((n, m), 0.0, level=level))
    assert math.isnan(doubled_risk_power((n, m), 0.6, level=level))


def test_a_rise_is_the_area_between_the_curve_and_the_whole_risk() -> None:
    loss, score = np.array([1.0, 0, 0, 1, 0]), np.array([0.9, 0.7, 0.7, 0.6, 0.1])
    figure, p = rise_test(loss, score, np.arange(5), n_draws=DRAWS, seed=1)
    u = stats.mannwhitneyu(score[loss == 1], score[loss == 0]).statistic / 6
    assert figure == pytest.approx(0.4 * 0.6 * (u - 0.5))
    assert 0 < p < 1
    falls, p_falls = rise_test(1 - loss, score, np.arange(5), n_draws=DRAWS, seed=1)
    assert falls == pytest.approx(-figure)
    assert p_falls > 0.5
    assert np.isnan(rise_test(loss[:1], score[:1], np.arange(1), n_draws=9, seed=1)).all()


def test_a_rise_is_found_by_exchanging_the_scores_of_whole_patients() -> None:
    loss, score = np.repeat([1.0, 0.0], 40), np.linspace(1, 0, 80)
    alone = rise_test(loss, score, np.arange(80), n_draws=999, seed=1)
    assert alone[1] == 1 / 1000
    two = rise_test(loss, score, np.arange(80) // 40, n_draws=999, seed=1)
    assert two[0] == alone[0]
    assert two[1] > 0.4  # two patients can only be exchanged in two ways


def test_intervals_of_gaps_and_means() -> None:
    parts = Interval(0.1, 0.4), Interval(0.05, 0.2)
    found = gap_interval((0.2, 0.1), parts, 0.0)
    assert (found.low, found.high) == pytest.approx(
        (0.1 - math.hypot(0.1, 0.1), 0.1 + math.hypot(0.2, 0.05))
    )
    narrow = gap_interval((0.2, 0.1), parts, 1.0)
    assert (narrow.low, narrow.high) == pytest.approx((0.1, 0.25))
    assert not gap_interval((0.2, 0.1), (parts[0], Interval.undefined("none")), 0.0).defined
    x = np.array([0.2, -0.1, 0.4, 0.3])
    mean = student_interval(x, np.ones(4), 0.9)
    expected = stats.t.interval(0.9, 3, loc=x.mean(), scale=stats.sem(x))
    assert (mean.low, mean.high) == pytest.approx(expected)

"""Intervals of shares: hand values, slow oracles, and the laws they keep on any data."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, optimize, special

from krisis.errors import InvalidValue
from krisis.statistics.mid_p import mid_p_cdf, mid_p_quantile
from krisis.statistics.shares import (
    ShareDistribution,
    mean_of_shares_interval,
    share_interval,
)


def accuracy(errors: list[int], n_patients: int, n_rows: int = 8):
    wrong = np.zeros(n_patients)
    wrong[: len(errors)] = errors
    found = share_interval(n_rows - wrong, np.full(n_patients, float(n_rows)))
    return round(found.low, 4), round(found.high, 4)


@pytest.mark.parametrize(
    ("errors", "n_patients", "expected"),
    [
        ([], 15, (0.8789, 1.0)),
        ([1], 15, (0.8778, 1.0)),
        ([1, 1], 15, (0.8738, 0.9998)),
        ([8], 15, (0.7378, 0.9951)),
        ([8, 1], 15, (0.7208, 0.9935)),
        ([], 40, (0.9564, 1.0)),
        ([1], 40, (0.9556, 1.0)),
        ([8], 40, (0.9002, 0.9978)),
    ],
)
def test_patients_with_eight_rows_have_the_limits_worked_out_by_hand(errors, n_patients, expected):
    assert accuracy(errors, n_patients) == expected


@pytest.mark.parametrize(
    ("errors", "n_rows", "expected"),
    [
        (0, 44, (0.0, 0.0658)),
        (1, 44, (0.0011, 0.1070)),
        (5, 100, (0.0185, 0.1073)),
        (20, 100, (0.1302, 0.2869)),
    ],
)
def test_independent_rows_have_the_mid_p_limits(errors, n_rows, expected):
    found = share_interval(np.arange(n_rows) < errors, np.ones(n_rows))
    assert (round(found.low, 4), round(found.high, 4)) == expected
    assert found.method == "mid_p"


@pytest.mark.parametrize("n_rows", [1, 7, 44, 1000])
def test_no_error_in_n_rows_gives_one_minus_the_nth_root_of_a_twentieth(n_rows):
    found = share_interval(np.zeros(n_rows), np.ones(n_rows))
    assert found.low == 0.0
    assert found.high == pytest.approx(1 - 0.05 ** (1 / n_rows), rel=1e-12)


def test_one_patient_with_several_rows_has_an_interval():
    found = share_interval([3], [8])
    # One patient says nothing of the design effect, so D₀ = 1 + 7/2 and Student's factor of 4
    # degrees of freedom remain: n* = 8/(4.5 τ²).
    student = special.stdtrit(4, 0.975) / special.ndtri(0.975)
    rows = 8 / (4.5 * student**2)
    assert found.low == pytest.approx(1 - mid_p_quantile(0.975, 5 / 8 * rows, rows), abs=1e-12)
    assert found.method == "clustered_mid_p"


def test_the_design_effect_is_the_one_worked_out_by_hand():
    # x = 8, 0, 0 of 8 rows each: p = 1/3, Σ(x − pt)² = 64·(4/9 + 1/9 + 1/9) = 128/3,
    # D̂ = 3/2·(128/3)/(24·2/9) = 12, one telling patient, D₀ = 4.5: D = (12 + 2·4.5)/3.
    found = ShareDistribution.of([8, 0, 0], [8, 8, 8])
    assert found.design_effect == pytest.approx(7.0)
    student = special.stdtrit(2 + 4, 0.975) / special.ndtri(0.975)
    assert found.student_factor == pytest.approx(student)
    assert found.effective_rows == pytest.approx(24 / (7.0 * student**2))
    assert found.effective_hits == pytest.approx(found.effective_rows / 3)
    assert found.correlation == 1.0


def test_patients_of_unequal_size_count_as_the_equal_ones_that_weigh_as_much():
    # t = 1, 1, 2: (Σt)²/Σt² = 16/6 patients, weights 1/(1 − t/4) = 4/3, 4/3, 2.
    # x = 0, 1, 1, p = ½: Σw(x − t/2)² = 4/3·¼ + 4/3·¼ + 0 = 2/3; N p(1−p) = 1; D̂ = max(1, 2/3).
    found = ShareDistribution.of([0, 1, 1], [1, 1, 2])
    telling = 16 / 6 - 1  # fewer than the two patients with hits, and than the two with misses
    assert found.design_effect == pytest.approx((telling * 1 + 2 * 1.25) / (telling + 2))
    degrees = 16 / 6 - 1 + 4
    assert found.student_factor == pytest.approx(
        special.stdtrit(degrees, 0.975) / special.ndtri(0.975)
    )


def test_rows_that_repeat_one_case_count_once():
    repeated = ShareDistribution.of([0] * 10, [5] * 10, prior_icc=1.0)
    student = repeated.student_factor**2
    assert repeated.effective_rows == pytest.approx(10 / student)


def test_patients_without_rows_change_nothing():
    with_empty = share_interval([1, 0, 0, 2], [3, 0, 4, 2])
    assert with_empty == share_interval([1, 0, 2], [3, 4, 2])
    assert not share_interval([0, 0], [0, 0]).defined
    assert share_interval([], []).reason == "no_rows"

    # Else the one patient with rows would be divided by the rows of nobody.
    assert share_interval([3, 0], [4, 0]) == share_interval([3], [4])
    assert ShareDistribution.of([3, 0, 1], [4, 0, 2]).n_patients == 2


@pytest.mark.parametrize(
    ("hits", "rows", "said"),
    [
        ([2], [1], "between 0 and its number of rows"),
        ([-1], [1], "between 0 and its number of rows"),
        ([math.nan], [1], "between 0 and its number of rows"),
        ([1, 1], [1], "two lists of one length"),
        ([[1, 0]], [[1, 1]], "two lists of one length"),
    ],
)
def test_hits_must_be_rows(hits, rows, said):
    with pytest.raises(InvalidValue, match=said):
        share_interval(hits, rows)


def test_rows_of_one_patient_are_correlated_and_single_rows_are_not():
    assert ShareDistribution.of([1, 0, 1], [1, 1, 1]).correlation == 0
    assert ShareDistribution.of([2, 0, 2, 0], [2, 2, 2, 2]).correlation == 1


@pytest.mark.parametrize("value", [-0.1, 1.5])
def test_a_correlation_lies_between_0_and_1(value):
    with pytest.raises(InvalidValue, match="prior_icc"):
        share_interval([1, 1], [2, 2], prior_icc=value)


@pytest.mark.parametrize(("hits", "rows"), [(0.3, 7.7), (2.0, 9.0), (11.25, 300.0), (0.9, 1.0)])
def test_the_distribution_is_the_mean_of_two_beta_integrals(hits, rows):
    def below(q: float, a: float, b: float) -> float:
        scale = special.beta(a, b)
        density = lambda x: x ** (a - 1) * (1 - x) ** (b - 1) / scale  # noqa: E731
        return integrate.quad(density, 0, q, limit=200, points=[min(q, a / (a + b))])[0]

    for share in (0.01, 0.2, 0.7):
        slow = (below(share, hits, rows - hits + 1) + below(share, hits + 1, rows - hits)) / 2
        assert float(mid_p_cdf(share, hits, rows)) == pytest.approx(slow, abs=1e-7)


@pytest.mark.parametrize(
    ("hits", "rows"), [(0.0, 3.2), (1e-3, 12.0), (0.3, 0.9), (5.0, 100.0), (30.0, 30.0), (3.0, 1e6)]
)
def test_the_quantile_agrees_with_a_bisection_and_rises(hits, rows):
    probability = np.concatenate([(np.arange(500) + 0.5) / 500, [1e-6, 1 - 1e-6]])
    found = mid_p_quantile(probability, hits, rows)
    assert (np.diff(found[:500]) >= -1e-11 * found[:499] - 1e-290).all()
    for p, q in list(zip(probability, found, strict=True))[::37]:
        ends = [float(mid_p_cdf(end, hits, rows)) - p for end in (1e-300, 1.0)]
        if ends[0] >= 0:
            assert q <= 1e-290
        elif ends[1] <= 0:
            assert q == 1.0
        else:
            slow = optimize.brentq(
                lambda x, p=p: float(mid_p_cdf(x, hits, rows)) - p, 1e-300, 1.0, xtol=1e-14
            )
            assert q == pytest.approx(slow, abs=1e-10)


def test_balanced_accuracy_squares_and_adds_the_distances():
    # Two classes, every row its own patient: no patient counts in both, so r is the identity.
    hits = np.zeros((2, 60))
    rows = np.zeros((2, 60))
    rows[0, :40] = rows[1, 40:] = 1
    hits[0, :36], hits[1, 40:57] = 1, 1
    found = mean_of_shares_interval(hits, rows)
    ends = [share_interval(x, t) for x, t in zip(hits, rows, strict=True)]
    shares = np.array([0.9, 0.85])
    low = shares.mean() - math.hypot(*(shares - [e.low for e in ends])) / 2
    high = shares.mean() + math.hypot(*([e.high for e in ends] - shares)) / 2
    assert (found.low, found.high) == pytest.approx((low, high))
    assert found.method == "mover"


def test_classes_that_rise_and_fall_with_the_same_patients_are_as_uncertain_as_one():
    hits = np.array([[4.0, 0, 4, 1], [4.0, 0, 4, 1]])
    rows = np.full((2, 4), 4.0)
    alone = share_interval(hits[0], rows[0])
    found = mean_of_shares_interval(hits, rows)
    assert (found.low, found.high) == pytest.approx((alone.low, alone.high))


def test_classes_that_compensate_each_other_count_as_unrelated():
    hits = np.array([[4.0, 0, 4, 0], [0.0, 4, 0, 4]])
    rows = np.full((2, 4), 4.0)
    alone = share_interval(hits[0], rows[0])
    found = mean_of_shares_interval(hits, rows)
    assert found.high - 0.5 == pytest.approx((alone.high - 0.5) / math.sqrt(2))


def test_a_class_without_rows_is_no_class():
    hits, rows = np.array([[3.0, 1], [0, 0]]), np.array([[4.0, 4], [0, 0]])
    found, alone = mean_of_shares_interval(hits, rows), share_interval([3, 1], [4, 4])
    assert (found.low, found.high) == pytest.approx((alone.low, alone.high))
    assert not mean_of_shares_interval(np.zeros((2, 3)), np.zeros((2, 3))).defined


patients = st.lists(
    st.integers(1, 12).flatmap(lambda t: st.tuples(st.integers(0, t), st.just(t))),
    min_size=1,
    max_size=30,
)


@settings(max_examples=60, deadline=None)
@given(patients, st.sampled_from([0.5, 0.8, 0.95, 0.99]), st.sampled_from([0.0, 0.5, 1.0]))
def test_the_interval_exists_holds_the_share_and_stays_in_range(data, level, prior_icc):
    hits, rows = np.array(data, dtype=float).T
    found = share_interval(hits, rows, level=level, prior_icc=prior_icc)
    assert 0 <= found.low <= hits.sum() / rows.sum() <= found.high <= 1
    assert found.low < found.high
    turned = share_interval(rows - hits, rows, level=level, prior_icc=prior_icc)
    assert (turned.low, turned.high) == pytest.approx((1 - found.high, 1 - found.low), abs=1e-9)


@settings(max_examples=60, deadline=None)
@given(patients, st.randoms(use_true_random=False))
def test_the_order_of_the_patients_is_no_matter(data, random):
    shuffled = list(data)
    random.shuffle(shuffled)
    one, other = (share_interval(*np.array(d, dtype=float).T) for d in (data, shuffled))
    assert (one.low, one.high) == pytest.approx((other.low, other.high), abs=1e-12)


def test_the_assumed_effect_weighs_as_two_patients_unless_another_weight_is_given():
    hits, rows = np.array([8.0, 0.0, 0.0]), np.full(3, 8.0)
    two, one = (ShareDistribution.of(hits, rows, prior_patients=w) for w in (2, 1))
    assert one.design_effect == pytest.approx((12 + 4.5) / 2)
    assert share_interval(hits, rows).high == pytest.approx(float(two.quantile(0.975)))


def test_few_hits_that_fell_apart_leave_more_of_the_assumed_correlation():
    # Three errors in three of 15 × 8: p = 1/40, Σ(x − pt)² = 3·0.8² + 12·0.2² = 2.4,
    # 15/14·2.4/(120·p(1−p)) = 0.88 < 1, so D̂ = 1; w = 2·(2½ − 3/40) = 4.85.
    found = ShareDistribution.of([1] * 3 + [0] * 12, [8] * 15)
    assert found.design_effect == pytest.approx((3 * 1 + 4.85 * 4.5) / (3 + 4.85))
    # Of the hits (p = 39/40) nothing is rare: w = 2, and three patients with misses.
    hits = ShareDistribution.of([7] * 3 + [8] * 12, [8] * 15)
    assert hits.design_effect == pytest.approx((3 * 1 + 2 * 4.5) / (3 + 2))

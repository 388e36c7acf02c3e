from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import linalg, stats

from krisis.errors import InvalidValue
from krisis.statistics.row_mean import (
    PatientRows,
    RatioOfMeans,
    lower_with_one_more,
    row_mean,
    upper_with_one_more,
    with_one_more,
)


def by_matrices(x, patients) -> tuple[float, float, float]:
    """Mean, CR2 variance and degrees of freedom from the matrices of their definition."""
    x, names = np.asarray(x, dtype=float), np.asarray(patients)
    n = x.size
    design = np.ones((n, 1))
    inverse = np.linalg.inv(design.T @ design)
    residual_maker = np.eye(n) - design @ inverse @ design.T
    mean = float((inverse @ design.T @ x)[0])
    residual = residual_maker @ x
    variance, columns = 0.0, []
    for name in np.unique(names):
        at = names == name
        own = residual_maker[np.ix_(at, at)]
        adjusted = linalg.fractional_matrix_power(own, -0.5).real
        influence = inverse @ design[at].T @ adjusted
        variance += (influence @ residual[at]).item() ** 2
        columns.append((influence @ residual_maker[at]).ravel())
    products = np.array(columns) @ np.array(columns).T
    return mean, variance, float(np.trace(products) ** 2 / (products**2).sum())


@st.composite
def samples(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    sizes = draw(st.lists(st.integers(1, 6), min_size=2, max_size=12))
    code = np.repeat(np.arange(len(sizes)), sizes)
    x = draw(st.lists(st.integers(-40, 40), min_size=code.size, max_size=code.size))
    return np.array(x) / 8, code


@given(samples())
@settings(max_examples=60, deadline=None)
def test_the_closed_form_is_that_of_the_matrices(sample):
    found = row_mean(*sample)
    mean, variance, degrees = by_matrices(*sample)
    assert found.value == pytest.approx(mean)
    assert found.standard_error == pytest.approx(math.sqrt(variance), abs=1e-9)
    assert found.patients.degrees == pytest.approx(degrees)


def test_one_row_per_patient_is_students_interval():
    found = row_mean([1, 2, 3], [7, 8, 9])
    assert (found.value, found.patients.degrees) == pytest.approx((2, 2))
    half = stats.t.ppf(0.975, 2) / math.sqrt(3)
    assert found.interval() == found.interval(0.95)
    assert (found.interval().low, found.interval().high) == pytest.approx((2 - half, 2 + half))
    assert found.lower(0.8) == pytest.approx(2 - stats.t.ppf(0.9, 2) / math.sqrt(3))


def test_two_patients_with_two_rows_and_one_by_hand():
    # r = ±2/3, a = 3 and 3/2: V = (3·4/9 + 3/2·4/9)/9 = 2/9; ν = 1/(20/36 + 81/36 − 65/36) = 1.
    found = row_mean([1, 1, 0], ["a", "a", "b"])
    assert found.standard_error == pytest.approx(math.sqrt(2) / 3)
    assert found.patients.degrees == pytest.approx(1)
    assert found.upper() == pytest.approx(2 / 3 + stats.t.ppf(0.975, 1) * math.sqrt(2) / 3)


def test_patients_of_equal_size_have_one_degree_less_than_they_are():
    found = row_mean(np.arange(24) % 5, np.repeat(np.arange(6), 4))
    assert found.patients.degrees == pytest.approx(5)
    means = (np.arange(24) % 5).reshape(6, 4).mean(axis=1)
    assert found.standard_error == pytest.approx(means.std(ddof=1) / math.sqrt(6))


def test_one_large_patient_leaves_few_degrees():
    code = np.concatenate([np.zeros(100, int), np.arange(1, 21)])
    assert row_mean(np.zeros(120), code).patients.degrees < 2


def test_a_patient_in_thought_is_one_more_of_average_size():
    # .1 four times and −1: mean −.12, Σ of squares .968, divided by 5·4.
    found = with_one_more([0.1] * 4, range(4), -1.0)
    assert (found.value, found.standard_error) == pytest.approx((-0.12, 0.22))
    assert found.patients.degrees == pytest.approx(4)
    low = -0.12 - stats.t.ppf(0.975, 4) * 0.22
    assert lower_with_one_more([0.1] * 4, range(4), -1.0) == pytest.approx(low)
    high = -0.12 + stats.t.ppf(0.9, 4) * 0.22
    assert upper_with_one_more([0.1] * 4, range(4), -1.0, 0.8) == pytest.approx(high)


def test_a_patient_in_thought_is_a_real_one_with_those_rows():
    x, code = [1.0, 0.5, 0.0, 0.25, 1.0, 1.0], [0, 0, 1, 1, 2, 2]
    real = row_mean([*x, -0.5, -0.5], [*code, 3, 3])
    thought = with_one_more(x, code, -0.5)
    assert thought.interval() == real.interval()
    one_row = with_one_more(x, code, -0.5, size=1)
    assert one_row.interval() == row_mean([*x, -0.5], [*code, 3]).interval()


def test_one_patient_has_no_limits():
    found = row_mean([0.2, 0.4], ["a", "a"])
    assert found.value == pytest.approx(0.3)
    assert found.patients.degrees == 0
    assert found.interval().reason == "needs_at_least_two_clusters"
    assert (found.lower(), found.upper()) == (-math.inf, math.inf)
    assert RatioOfMeans.of([1.0, 1.0], [1.0, 2.0], ["a", "a"]).lower() == -math.inf


def test_rows_that_do_not_fit_their_patients_are_refused():
    with pytest.raises(InvalidValue, match=r"\(3,\) values do not fit \(2,\) rows"):
        row_mean([1, 2, 3], ["a", "b"])
    with pytest.raises(InvalidValue, match="one list of rows"):
        PatientRows.of([])
    with pytest.raises(InvalidValue, match=r"not of shape \(1, 2\)"):
        PatientRows.of([[1, 2]])


@given(samples(), st.randoms(use_true_random=False))
@settings(max_examples=60, deadline=None)
def test_order_and_names_of_patients_change_nothing(sample, random):
    x, code = sample
    order = list(range(x.size))
    random.shuffle(order)
    names = [f"p{number}" for number in range(code.max() + 1)]
    random.shuffle(names)
    moved = row_mean(x[order], np.array(names)[code[order]])
    found = row_mean(x, code)
    assert moved.lower() == pytest.approx(found.lower(), abs=1e-9)
    assert moved.patients.degrees == pytest.approx(found.patients.degrees)


@given(samples(), st.integers(-20, 20), st.sampled_from([0.25, 2.0, 16.0]))
@settings(max_examples=60, deadline=None)
def test_shift_and_scale_move_the_limits_along(sample, shift, scale):
    x, code = sample
    found, moved = row_mean(x, code), row_mean(scale * x + shift, code)
    assert moved.lower() == pytest.approx(scale * found.lower() + shift, abs=1e-8)
    assert moved.upper() == pytest.approx(scale * found.upper() + shift, abs=1e-8)
    turned = row_mean(-x, code)
    assert turned.lower() == pytest.approx(-found.upper(), abs=1e-9)


@given(samples(), st.floats(0, 20))
@settings(max_examples=60, deadline=None)
def test_the_worse_the_patient_in_thought_the_lower_the_limit(sample, fall):
    x, _ = sample
    mean, code = float(x.mean()), np.arange(x.size)
    lower = lower_with_one_more(x, code, mean - fall)
    assert lower_with_one_more(x, code, mean - fall - 1) < lower


def clear(base: np.ndarray, code: np.ndarray) -> bool:
    return row_mean(base, code).lower() > 1e-6


@given(samples(), st.data())
@settings(max_examples=100, deadline=None)
def test_the_limits_of_a_ratio_are_where_the_difference_leaves_nothing(sample, data):
    x, code = sample
    more = data.draw(st.lists(st.integers(0, 8), min_size=x.size, max_size=x.size))
    base = 6 + np.array(more) / 8
    assume(clear(base, code))
    ratio = RatioOfMeans.of(x, base, code)
    low, high = ratio.lower(), ratio.upper()
    assert low - 1e-9 <= ratio.value <= high + 1e-9
    step = 1e-4 * (1 + abs(low) + abs(high))
    assert row_mean(x - (low - step) * base, code).lower() > 0
    assert row_mean(x - (low + step) * base, code).lower() <= step
    assert row_mean(x - (high + step) * base, code).upper() < 0
    assert row_mean(x - (high - step) * base, code).upper() >= -step
    less = ratio.with_one_more(-1.0).lower()
    if math.isfinite(less):
        assert lower_with_one_more(x - less * base, code, -1.0) == pytest.approx(0, abs=1e-6)


def test_a_ratio_over_a_base_that_may_be_nothing_has_no_limits():
    ratio = RatioOfMeans.of([1.0, 2.0, 1.5], [1.0, -1.0, 0.5], [0, 1, 2])
    assert (ratio.lower(), ratio.upper()) == (-math.inf, math.inf)
    assert ratio.value == pytest.approx(9)


# --- Coverage ---------------------------------------------------------------------------------


def misses(n_patients: int, sizes: str, n_runs: int, seed: int) -> tuple[float, float]:
    """Share of runs whose truth, a rate of 20 % shared within patients, is below or above."""
    draw = np.random.default_rng(seed)
    below = above = 0
    for _ in range(n_runs):
        rows = np.ones(n_patients, int) if sizes == "one" else 1 + draw.poisson(7, n_patients)
        code = np.repeat(np.arange(n_patients), rows)
        chance = draw.beta(1.0, 4.0, n_patients)
        found = row_mean(draw.random(code.size) < chance[code], code)
        below += found.lower() > 0.2
        above += found.upper() < 0.2
    return below / n_runs, above / n_runs


def test_the_limits_cover_in_a_few_runs():
    assert sum(misses(60, "many", 150, 1)) <= 0.12


@pytest.mark.slow
@pytest.mark.parametrize("sizes", ["one", "many"])
@pytest.mark.parametrize("n_patients", [20, 60, 200, 1000])
def test_the_limits_cover(n_patients, sizes):
    below, above = misses(n_patients, sizes, 2000, n_patients)
    print(f"{n_patients} patients, {sizes}: {100 * below:.1f} % below, {100 * above:.1f} % above")
    # Of 20 rows a fifth is four: their skewness is felt, and 20 is the fewest that get a word.
    assert below + above <= (0.1 if n_patients == 20 else 0.075)

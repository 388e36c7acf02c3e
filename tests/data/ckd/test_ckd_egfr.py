"""The equation, its inverse, the categories and the measurement error."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from krisis.data.ckd.egfr import (
    MICROMOL_PER_MG_DL,
    category_probabilities,
    ckd_epi_2021,
    creatinine_for,
    stage,
)

creatinine = st.floats(0.2, 20.0)
age = st.floats(18.0, 95.0)


@pytest.mark.parametrize(
    ("creatinine_mg_dl", "age_years", "female", "expected"),
    [
        (1.2, 55, False, 71),
        (200 / MICROMOL_PER_MG_DL, 70, False, 30),
        (200 / MICROMOL_PER_MG_DL, 70, True, 23),
        (100 / MICROMOL_PER_MG_DL, 70, False, 70),
        (100 / MICROMOL_PER_MG_DL, 70, True, 52),
    ],
)
def test_published_check_values(creatinine_mg_dl, age_years, female, expected):
    assert round(float(ckd_epi_2021(creatinine_mg_dl, age_years, female=female))) == expected


@pytest.mark.parametrize(
    ("creatinine_mg_dl", "age_years", "female", "expected"),
    [
        (1.0, 50, True, 68.633),
        (1.0, 50, False, 91.691),
        (0.7, 20, True, 126.896),
        (0.9, 20, False, 125.392),
        (0.6, 30, True, 123.758),
        (5.0, 60, False, 12.490),
        (1.5, 65, True, 38.434),
    ],
)
def test_regression_values_to_three_decimals(creatinine_mg_dl, age_years, female, expected):
    value = float(ckd_epi_2021(creatinine_mg_dl, age_years, female=female))
    assert value == pytest.approx(expected, abs=5e-4)


@given(creatinine, age, st.booleans())
def test_the_inverse_returns_the_creatinine(value, years, female):
    gfr = ckd_epi_2021(value, years, female=female)
    assert float(creatinine_for(gfr, years, female=female)) == pytest.approx(value, rel=1e-9)


@given(creatinine, creatinine, age, st.booleans())
def test_more_creatinine_never_means_more_filtration(one, other, years, female):
    low, high = sorted((one, other))
    estimates = ckd_epi_2021(np.array([low, high]), years, female=female)
    assert estimates[0] >= estimates[1]


def test_categories_include_their_lower_limit():
    limits = [14.99, 15, 29.99, 30, 44.99, 45, 59.99, 60, 89.99, 90]
    assert [stage(value, split_stage_3=True) for value in limits] == [
        "G5", "G4", "G4", "G3b", "G3b", "G3a", "G3a", "G2", "G2", "G1",
    ]  # fmt: skip
    assert [stage(value) for value in limits] == [5, 4, 4, 3, 3, 3, 3, 2, 2, 1]


@pytest.mark.parametrize(
    ("limit", "chance"), [(90, 0.30), (60, 0.21), (45, 0.15), (30, 0.06), (15, 0.002)]
)
def test_three_units_above_a_limit_mean_different_things_at_different_limits(limit, chance):
    years = 75  # old enough for every limit to lie above the knee of the equation
    value = float(creatinine_for(limit + 3.0, years, female=False))
    probabilities = category_probabilities(value, [years], [False])
    if limit == 90:  # at 75 years, 90 lies below the knee: use an age at which it does not
        years = 20
        value = float(creatinine_for(limit + 3.0, years, female=False))
        probabilities = category_probabilities(value, [years], [False])
    here = int(np.searchsorted((15, 30, 45, 60, 90), limit + 3.0, side="right"))
    assert 1 - probabilities[here] == pytest.approx(chance, abs=0.006)


@given(creatinine, age, st.booleans())
def test_category_probabilities_are_a_distribution_that_favours_the_measured_category(
    value, years, female
):
    probabilities = category_probabilities(value, [years], [female])
    assert probabilities.min() >= 0
    assert probabilities.sum() == pytest.approx(1)
    measured = float(ckd_epi_2021(value, years, female=female))
    here = int(np.searchsorted((15, 30, 45, 60, 90), measured, side="right"))
    assert probabilities[here] >= 0.49


def test_the_probability_agrees_with_a_simulation_across_the_knee():
    generator = np.random.default_rng(3)
    value, years = 0.88, 40.0
    set_points = value * np.exp(generator.normal(0, np.hypot(0.05, 0.011), 400_000))
    simulated = float((ckd_epi_2021(set_points, years, female=False) >= 90).mean())
    assert category_probabilities(value, [years], [False])[5] == pytest.approx(simulated, abs=2e-3)

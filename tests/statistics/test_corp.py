"""Isotonic recalibration and the band in which that of a calibrated model lies."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from sklearn.isotonic import IsotonicRegression

from krisis.statistics import corp
from krisis.statistics.bootstrap import BootstrapOptions
from krisis.statistics.calibrated_bins import BinnedAnswers
from krisis.statistics.corp import isotonic_band, recalibrated


def answers(level: np.ndarray, place: np.ndarray, unit: np.ndarray | None = None) -> BinnedAnswers:
    right = np.arange(place.size) % 3 > 0
    return BinnedAnswers(
        level[place], right, place, np.arange(place.size) if unit is None else unit
    )


@pytest.mark.parametrize("n_columns", [3, 60])
def test_both_ways_to_the_isotonic_fit_equal_scikit_learn(n_columns: int) -> None:
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 5, (12, n_columns)).astype(float)
    hits = rng.binomial(rows.astype(int), 0.6).astype(float)
    found = recalibrated(rows, hits)
    for column in range(n_columns):
        held = rows[:, column] > 0
        expected = IsotonicRegression().fit_transform(
            np.flatnonzero(held),
            hits[held, column] / rows[held, column],
            sample_weight=rows[held, column],
        )
        assert found[held, column] == pytest.approx(expected, abs=1e-12)
        assert np.isnan(found[~held, column]).all()


def test_the_band_of_one_level_is_that_of_its_binomial_count() -> None:
    one = answers(np.array([0.8]), np.zeros(40, dtype=np.int64))
    low, high = isotonic_band(one, options=BootstrapOptions(n_resamples=2000))
    assert low == pytest.approx(stats.binom.ppf(0.025, 40, 0.8) / 40, abs=0.03)
    assert high == pytest.approx(stats.binom.ppf(0.975, 40, 0.8) / 40, abs=0.03)


def test_the_band_holds_calibrated_curves_and_widens_with_alike_rows() -> None:
    rng = np.random.default_rng(1)
    level = np.array([0.5, 0.6, 0.7, 0.8, 0.9])
    place = rng.integers(0, 5, 200)
    low, high = isotonic_band(answers(level, place), options=BootstrapOptions(n_resamples=400))
    number = np.bincount(place)[:, None]
    hits = rng.binomial(number, level[:, None], (5, 300)).astype(float)
    fit = recalibrated(np.repeat(number, 300, axis=1).astype(float), hits)
    inside = (fit >= low[:, None]) & (fit <= high[:, None])
    assert inside.mean(axis=1) == pytest.approx(0.95, abs=0.04)
    alike = answers(level, place, np.arange(200) // 8)
    wider = isotonic_band(alike, options=BootstrapOptions(n_resamples=400), prior_icc=1.0)
    assert (wider[1] - wider[0]).mean() > (high - low).mean()


@pytest.mark.parametrize("correlation", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("accuracy", [0.5, 0.95])
def test_the_correlation_of_copied_uniforms_is_the_one_asked_for(correlation, accuracy):
    unit = np.repeat(np.arange(2000), 2)
    uniform = corp._uniforms(np.random.default_rng(0), unit, 100, correlation)
    right = (uniform < accuracy).reshape(2000, 2, 100)
    first, second = right[:, 0].ravel(), right[:, 1].ravel()
    assert right.mean() == pytest.approx(accuracy, abs=0.005)
    assert np.corrcoef(first, second)[0, 1] == pytest.approx(correlation, abs=0.02)

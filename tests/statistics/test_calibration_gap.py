"""The calibration error by patient: slow oracles, the copying model, bands and laws."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from krisis.errors import InvalidValue
from krisis.statistics import calibrated_bins, calibration_gap
from krisis.statistics.bootstrap import BootstrapOptions
from krisis.statistics.calibrated_bins import (
    BinnedAnswers,
    consistency_band,
    null_gap,
    residual_correlation,
)
from krisis.statistics.calibration_gap import (
    calibration_gap_interval,
)
from krisis.statistics.shares import share_interval


def answers(confidence, right, *, unit=None, n_bins: int = 10) -> BinnedAnswers:
    confidence = np.asarray(confidence, dtype=float)
    unit = np.arange(confidence.size) if unit is None else np.asarray(unit)
    index = np.minimum((confidence * n_bins).astype(int), n_bins - 1)
    return BinnedAnswers(confidence, np.asarray(right, dtype=bool), index, unit)


def alike(rng, accuracy, unit, correlation):
    """Outcomes of which rows of one patient share their uniform with the given correlation."""
    shared = rng.random(unit.max() + 1)[unit]
    copied = rng.random(unit.size) < math.sqrt(correlation)
    return np.where(copied, shared, rng.random(unit.size)) < accuracy


def sample(seed: int, n_patients: int, n_rows: int, *, correlation=0.3, bias=0.0) -> BinnedAnswers:
    rng = np.random.default_rng(seed)
    unit = np.repeat(np.arange(n_patients), n_rows)
    confidence = rng.integers(5, 11, unit.size) / 10
    right = alike(rng, np.clip(confidence - bias, 0, 1), unit, correlation)
    return answers(confidence, right, unit=unit)


def error(right, confidence, index) -> float:
    """The plain definition, bin by bin."""
    total = 0.0
    for b in set(index):
        at = index == b
        total += at.sum() * abs(right[at].mean() - confidence[at].mean())
    return total / right.size


def slow_inversion(data: BinnedAnswers, *, correlation: float, n_draws: int, grid) -> list[float]:
    """Draw every row for every candidate, and look where T₀ stops to surprise."""
    rng = np.random.default_rng(99)
    observed = error(data.right, data.confidence, data.bin)
    used = sorted(set(data.bin.tolist()))
    at = [data.bin == b for b in used]
    mean = [data.confidence[rows].mean() for rows in at]
    gap = [data.right[rows].mean() - c for rows, c in zip(at, mean, strict=True)]
    shape = (data.right.size, n_draws)
    shared = rng.random((data.unit.max() + 1, n_draws))[data.unit]
    uniform = np.where(rng.random(shape) < math.sqrt(correlation), shared, rng.random(shape))
    share, value = [], []
    for t in grid:
        accuracy = [
            min(1.0, max(0.0, c + t * g / observed)) for c, g in zip(mean, gap, strict=True)
        ]
        redrawn = np.zeros(n_draws)
        for rows, c, a in zip(at, mean, accuracy, strict=True):
            redrawn += rows.mean() * np.abs((uniform[rows] < a).mean(axis=0) - c)
        same = np.isclose(redrawn, observed, rtol=0, atol=1e-12)
        share.append(np.mean((redrawn > observed) & ~same) + same.mean() / 2)
        value.append(sum(r.mean() * abs(a - c) for r, a, c in zip(at, accuracy, mean, strict=True)))
    return [float(np.interp(p, np.maximum.accumulate(share), value)) for p in (0.025, 0.5, 0.975)]


@pytest.mark.parametrize(
    ("n_patients", "n_rows", "most_cells"), [(120, 1, 1000), (40, 5, 1000), (40, 5, 10)]
)
def test_the_limits_are_those_of_drawing_every_row_for_every_candidate(
    n_patients, n_rows, most_cells, monkeypatch
):
    monkeypatch.setattr(calibrated_bins, "_MOST_CELLS", most_cells)
    data = sample(4, n_patients, n_rows, bias=0.25)
    errors = data.errors(prior_icc=0.5, level=0.95)
    found = calibration_gap_interval(data, options=BootstrapOptions(n_resamples=4000))
    slow = slow_inversion(
        data, correlation=errors.correlation, n_draws=4000, grid=np.linspace(0, 0.6, 61)
    )
    assert found.interval.low == pytest.approx(slow[0], abs=0.015)
    assert found.debiased == pytest.approx(slow[1], abs=0.01)
    mean = data.confidence.mean()
    farthest = max(abs(1 - errors.quantile([0.025, 0.975]) - mean))
    assert found.interval.high == pytest.approx(max(slow[2], farthest), abs=0.015)
    assert found.interval.method == "test_inversion"


def test_six_patients_with_fifty_rows_and_few_errors_have_a_lower_limit():
    """Six patients of 50 rows: no bin is worth only the one or two rows that 300/D leave it."""
    rng = np.random.default_rng(1)
    unit = np.repeat(np.arange(6), 50)
    confidence = rng.choice(
        [0.5, 0.6, 0.7, 0.8, 0.9, 1.0], 300, p=[0.05, 0.1, 0.15, 0.25, 0.3, 0.15]
    )
    right = np.ones(300, dtype=bool)
    right[[3, 60, 130, 135]] = False
    found = calibration_gap_interval(answers(confidence, right, unit=unit)).interval
    assert found.low > 0.08
    assert found.high < 0.25


def test_rows_of_one_patient_count_for_fewer():
    """The same answers of 20 patients with 8 rows, alike within them, and of 160 patients."""
    together = sample(6, 20, 8, bias=0.1, correlation=0.8)
    apart = BinnedAnswers(together.confidence, together.right, together.bin, np.arange(160))
    widths = [
        one.high - one.low
        for one in (calibration_gap_interval(d).interval for d in (together, apart))
    ]
    assert widths[0] > 1.3 * widths[1]
    # The lower limit hangs on the bins alone, the upper one on accuracy as well.
    together = sample(4, 40, 5, bias=0.25, correlation=0.8)
    apart = BinnedAnswers(together.confidence, together.right, together.bin, np.arange(200))
    low, high = (calibration_gap_interval(d).interval.low for d in (together, apart))
    assert low < high - 0.02


def test_no_gap_and_no_error_is_no_certainty():
    data = answers(np.ones(44), np.ones(44))
    found = calibration_gap_interval(data)
    assert (found.interval.low, found.debiased) == (0.0, 0.0)
    assert found.interval.high == pytest.approx(1 - 0.05 ** (1 / 44))


def test_a_confident_model_without_errors_may_be_as_wrong_as_accuracy_allows():
    data = answers(np.full(44, 0.99), np.ones(44))
    found = calibration_gap_interval(data)
    assert found.interval.high >= 0.99 - 0.05 ** (1 / 44) - 1e-9
    assert found.interval.low <= 0.01


def test_accuracy_and_mean_confidence_are_uncertain_apart():
    # Confidences 0.7 and 0.9, 20 each: se = √(40/39·Σ(c − 0.8)²)/40 = 0.1/√39.
    data = answers([0.7] * 20 + [0.9] * 20, [1] * 40)
    errors = data.errors(prior_icc=0.5, level=0.95)
    whole = calibration_gap._error_of_the_whole(data, errors, 0.95)
    spread = stats.t.ppf(0.975, 39) * 0.1 / math.sqrt(39)
    below = math.hypot(1 - 0.05 ** (1 / 40), spread)
    assert whole == pytest.approx(max(abs(0.2 - below), 0.2 + spread))
    # Six errors: the lower limit of accuracy is the farther one.
    data = answers([0.9] * 20 + [1.0] * 20, [0] * 6 + [1] * 34)
    accuracy = share_interval([0] * 6 + [1] * 34, [1] * 40)
    spread /= 2
    errors = data.errors(prior_icc=0.5, level=0.95)
    whole = calibration_gap._error_of_the_whole(data, errors, 0.95)
    assert whole == pytest.approx(0.1 + math.hypot(0.85 - accuracy.low, spread))


def test_ties_with_the_observed_error_count_half():
    redrawn = np.array([[0.1, 0.2, 0.3, 0.4], [0.2, 0.2, 0.2, 0.1]])
    assert calibration_gap._share_beyond(redrawn, 0.2).tolist() == [0.625, 0.375]


def test_quantiles_of_the_mid_distribution():
    # Half of the values at 0 and half at 1: the mid-distribution has ¼ at 0 and ¾ at 1.
    values = np.array([0.0, 1.0, 0.0, 1.0])
    assert calibrated_bins._mid_quantiles(values, 0.375) == (0.25, 0.75)
    assert calibrated_bins._mid_quantiles(values, 0.1) == (0.0, 1.0)


def test_redrawn_errors_equal_to_the_observed_one_count_by_half():
    """Two right answers at ½: the error ½ is seen again with probability a² + (1 − a)², never more.

    Half of that reaches one half at a = 1 only, so that the unbiased value is ½ itself.
    """
    found = calibration_gap_interval(answers([0.5, 0.5], [True, True]))
    assert found.debiased == pytest.approx(0.5)
    assert (found.interval.low, found.interval.high) == pytest.approx((0.0, 0.5))


def test_without_rows_there_is_nothing():
    found = calibration_gap_interval(answers([], []))
    assert not found.interval.defined
    assert math.isnan(found.debiased)
    low, high = consistency_band(answers([], []))
    assert low.size == high.size == 0


def test_the_debiased_value_is_nearer_to_the_truth_than_the_plain_one():
    plain, debiased = [], []
    for seed in range(60):
        data = sample(seed, 50, 1, correlation=0.0, bias=0.08)
        plain.append(error(data.right, data.confidence, data.bin))
        options = BootstrapOptions(n_resamples=300, seed=seed)
        debiased.append(calibration_gap_interval(data, options=options).debiased)
    truth = 0.08
    assert np.mean(plain) - truth > 0.03
    assert abs(np.mean(debiased) - truth) < 0.025


def test_the_null_value_of_independent_rows_is_the_mean_absolute_deviation():
    data = answers([0.72] * 30 + [0.95] * 12, np.ones(42))
    parts = [
        stats.binom(n, p).expect(lambda k, n=n, p=p: abs(k - n * p))
        for n, p in ((30, 0.72), (12, 0.95))
    ]
    assert null_gap(data) == pytest.approx(sum(parts) / 42)


def test_the_null_value_of_patients_who_answer_alike_counts_patients():
    # Six patients of eight rows with one outcome each: E|hits/n − p| of six independent rows.
    unit = np.repeat(np.arange(60), 8)
    rng = np.random.default_rng(1)
    right = alike(rng, 0.7, unit, 1.0)
    data = answers(np.full(480, 0.7), right, unit=unit)
    assert residual_correlation(data) == pytest.approx(1.0, abs=0.05)
    expected = stats.binom(60, 0.7).expect(lambda k: abs(k / 60 - 0.7))
    assert null_gap(data) == pytest.approx(expected, rel=0.03)


def test_the_null_value_agrees_with_a_simulation_of_patients():
    unit = np.repeat(np.arange(200), 5)
    rng = np.random.default_rng(3)
    confidence = rng.integers(5, 11, unit.size) / 10
    errors = []
    for _ in range(300):
        right = alike(rng, confidence, unit, 0.4)
        errors.append(error(right, confidence, np.minimum((confidence * 10).astype(int), 9)))
    data = answers(confidence, alike(rng, confidence, unit, 0.4), unit=unit)
    assert null_gap(data) == pytest.approx(np.mean(errors), rel=0.12)


@pytest.mark.parametrize("correlation", [0.0, 0.3, 0.7])
def test_the_residual_correlation_is_found_whatever_the_confidences_share(correlation):
    unit = np.repeat(np.arange(800), 6)
    rng = np.random.default_rng(5)
    confidence = (rng.integers(5, 10, 800) / 10)[unit]  # one confidence per patient
    data = answers(confidence, alike(rng, confidence, unit, correlation), unit=unit)
    assert residual_correlation(data) == pytest.approx(correlation, abs=0.05)
    shifted = answers(confidence, alike(rng, confidence - 0.2, unit, correlation), unit=unit)
    assert residual_correlation(shifted) == pytest.approx(correlation, abs=0.07)


def test_rows_of_their_own_patients_are_uncorrelated():
    assert residual_correlation(answers([0.5, 0.7], [1, 0])) == 0.0


def test_patients_without_variation_keep_the_assumed_correlation():
    unit = np.repeat(np.arange(10), 4)
    assert residual_correlation(answers(np.ones(40), np.ones(40), unit=unit)) == 0.5


@pytest.mark.parametrize(
    ("n_patients", "n_rows", "correlation"),
    [(400, 1, 0.0), (80, 8, 0.5), (80, 8, 0.0), (200, 4, 0.9)],
)
def test_bands_leave_about_one_bin_in_twenty_of_a_calibrated_model_outside(
    n_patients, n_rows, correlation
):
    rng = np.random.default_rng(7)
    unit = np.repeat(np.arange(n_patients), n_rows)
    outside = []
    for seed in range(60):
        confidence = rng.choice([0.55, 0.65, 0.75, 0.85, 0.95], n_patients)[unit]
        data = answers(confidence, alike(rng, confidence, unit, correlation), unit=unit)
        options = BootstrapOptions(n_resamples=400, seed=seed)
        low, high = consistency_band(data, options=options)
        for b in set(data.bin):
            accuracy = data.right[data.bin == b].mean()
            outside.append(not low[b] <= accuracy <= high[b])
    assert 0.02 <= np.mean(outside) <= 0.085  # 300 bins: 0.05 ± 0.025


def test_an_empty_bin_has_no_band_and_that_of_independent_rows_is_binomial():
    data = answers([0.55] * 300 + [0.95] * 300, np.ones(600))
    low, high = consistency_band(data, options=BootstrapOptions(n_resamples=8000))
    assert np.isnan(low[[0, 1, 2, 3, 4, 6, 7, 8]]).all()
    exact = stats.binom(300, 0.55).ppf([0.025, 0.975]) / 300
    assert (low[5], high[5]) == pytest.approx(exact, abs=0.005)


def test_the_band_of_many_patients_is_a_normal_one(monkeypatch):
    data = sample(3, 150, 4, correlation=0.5)
    options = BootstrapOptions(n_resamples=8000)
    exact = consistency_band(data, options=options)
    monkeypatch.setattr(calibrated_bins, "_MOST_CELLS", 100)
    for ends, smooth in zip(exact, consistency_band(data, options=options), strict=True):
        assert smooth[5:9] == pytest.approx(ends[5:9], abs=0.012)


def test_columns_must_fit():
    with pytest.raises(InvalidValue, match="one length"):
        BinnedAnswers(np.ones(2), np.ones(3, bool), np.zeros(2, int), np.arange(2))


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 20),
    st.integers(1, 6),
    st.sampled_from([0.0, 0.1, 0.4]),
    st.sampled_from([0.0, 1.0]),
)
def test_the_interval_exists_and_holds_both_values(seed, n_patients, n_rows, bias, correlation):
    data = sample(seed, n_patients, n_rows, bias=bias, correlation=correlation)
    options = BootstrapOptions(n_resamples=100, seed=1)
    found = calibration_gap_interval(data, options=options)
    plain = error(data.right, data.confidence, data.bin)
    assert 0 <= found.interval.low <= plain + 1e-12
    assert plain <= found.interval.high + 1e-12
    assert found.interval.low <= found.debiased <= found.interval.high <= 1
    assert found.interval.low < found.interval.high
    assert 0 <= found.null <= 1
    assert calibration_gap_interval(data, options=options) == found
    order = np.random.default_rng(seed).permutation(data.right.size)
    shuffled = BinnedAnswers(
        *(getattr(data, n)[order] for n in ("confidence", "right", "bin", "unit"))
    )
    again = calibration_gap_interval(shuffled, options=options)
    assert again.interval.high == pytest.approx(found.interval.high, abs=1e-9)
    assert again.debiased == pytest.approx(found.debiased, abs=1e-9)

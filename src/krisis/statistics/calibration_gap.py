"""Interval of the calibration error by test inversion on the counts of its bins."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from krisis.statistics.bootstrap import BootstrapOptions
from krisis.statistics.calibrated_bins import BinnedAnswers, Bins, null_gap
from krisis.statistics.intervals import Interval
from krisis.statistics.shares import PRIOR_ICC, ShareDistribution, share_interval

FloatArray = NDArray[np.float64]

METHOD = "test_inversion"
N_REDRAWS = 1000

_N_CANDIDATES = 8  # on either side of the observed error
_FARTHEST = 5.0  # standard deviations of the error beyond the observed one


def mean_gap(share: FloatArray, gap: FloatArray) -> FloatArray:
    """Return Σ w|gap| over the bins (bins × anything), the expected calibration error."""
    size: FloatArray = np.tensordot(share, np.abs(gap), axes=1)
    return size


class CalibrationGap(NamedTuple):
    """Interval of the calibration error, the median-unbiased value inside it, the null value."""

    interval: Interval
    debiased: float
    null: float


def calibration_gap_interval(
    answers: BinnedAnswers,
    *,
    options: BootstrapOptions | None = None,
    prior_icc: float = PRIOR_ICC,
) -> CalibrationGap:
    """Return every calibration error under which the observed one would not surprise.

    The observed error T₀ = Σ w_b |g_b|, with g_b the accuracy less the mean confidence c_b of bin
    b, is biased upwards by noise: resampling adds that noise once more, so that bootstrap
    percentiles do not cover. Instead, a candidate error t sets the accuracies of the bins to
    a_b = c_b + t·g_b/T₀; under it the hits of a bin are binomial with n_b/D rows, D being the
    design effect of the errors with Student's factor. The candidate is kept unless fewer than α/2
    of the errors redrawn are beyond T₀ on one side. Noise thus comes from the candidate, also where
    no error was seen. The candidate under which half of the redrawn errors exceed T₀ is median
    unbiased.

    With the accuracies of the bins as they are, T₀ also varies with the confidences of the patients
    who were drawn: row i brings u_i = sign(g_b)(a_b − c_i), whose mean is T₀. Student's interval of
    that mean by patient is squared and added to the distances of the limits (MOVER, Zou and Donner
    2008).

    The upper limit is at least as far as accuracy may be from the mean confidence (calibration in
    the large), for no binned error is less than that of the whole.

    Reference: Carpenter, Test inversion bootstrap confidence intervals, Journal of the Royal
    Statistical Society B 61 (1999) 159–172.
    """
    drawn = options or BootstrapOptions(n_resamples=N_REDRAWS)
    if answers.confidence.size == 0:
        nothing = Interval.undefined("no_rows", level=drawn.level, method=METHOD)
        return CalibrationGap(nothing, math.nan, math.nan)
    bins = answers.sums()
    share = bins.number / bins.n_answers
    errors = answers.errors(prior_icc=prior_icc, level=drawn.level)
    observed = float(mean_gap(share, bins.gap))
    low, debiased, high = 0.0, 0.0, 0.0
    if bins.gap.any():
        accuracy = _candidates(bins, errors)
        sizes = _redrawn(bins, accuracy, errors, options=drawn)
        error = mean_gap(share, accuracy - bins.confidence[:, None])
        tail = (1 - drawn.level) / 2
        low, debiased, high = _inverted(error, _share_beyond(sizes, observed), tail)
    # Which confidences the patients have is chance too, besides which answers are right.
    spread = _confidence_noise(answers, bins, level=drawn.level)
    low = observed - math.hypot(observed - min(low, observed), spread)
    high = observed + math.hypot(max(high, observed) - observed, spread)
    whole = _error_of_the_whole(answers, bins, level=drawn.level, prior_icc=prior_icc)
    high = min(1.0, max(high, observed, whole))
    interval = Interval(max(low, 0.0), high, drawn.level, METHOD)
    return CalibrationGap(interval, debiased, null_gap(answers, prior_icc=prior_icc))


def _confidence_noise(answers: BinnedAnswers, bins: Bins, *, level: float) -> float:
    """Return t·se of the mean of u by patient; 0 with one patient."""
    accuracy, sign = bins.hits / bins.number, np.sign(bins.gap)
    u = sign[bins.place] * (accuracy[bins.place] - answers.confidence)
    return _half_width(answers, u - float(u.mean()), level=level)


def _half_width(answers: BinnedAnswers, deviation: FloatArray, *, level: float) -> float:
    """Return t·√(C/(C−1) Σ s²)/n, s being the sums of deviations from a mean by patient."""
    sums = answers.per_unit(deviation)
    n_patients = int(np.count_nonzero(answers.per_unit()))
    if n_patients < 2:
        return 0.0
    student = float(special.stdtrit(n_patients - 1, 0.5 + level / 2))
    variance = n_patients / (n_patients - 1) * float(sums @ sums)
    return student * math.sqrt(variance) / deviation.size


def _candidates(bins: Bins, errors: ShareDistribution) -> FloatArray:
    """Return accuracies (bins × candidates): none off, near the observed error, and far beyond it.

    The steps are finer around the observed error the more answers there are.
    """
    share, c, gap = bins.number / bins.n_answers, bins.confidence, bins.gap
    observed = float(share @ np.abs(gap))
    variance = np.maximum(c * (1 - c), 0.25 / bins.number) / bins.number * errors.design_effect
    reach = _FARTHEST * math.sqrt(float(share**2 @ variance))
    least = max(0.0, observed - reach)
    t = np.concatenate(
        [
            np.zeros(int(least > 0)),
            np.linspace(least, observed, _N_CANDIDATES),
            np.linspace(observed, observed + reach, _N_CANDIDATES + 1)[1:],
        ]
    )
    accuracy = np.clip(c[:, None] + gap[:, None] / observed * t, 0.0, 1.0)
    growing = np.append(True, np.diff(mean_gap(share, accuracy - c[:, None])) > 1e-12)
    kept: FloatArray = accuracy[:, growing]
    return kept


def _redrawn(
    bins: Bins,
    accuracy: FloatArray,
    errors: ShareDistribution,
    *,
    options: BootstrapOptions,
) -> FloatArray:
    """Return the errors (candidates × draws) of binomial hits under every candidate.

    A bin is worth n_b/(Dτ²) rows, rounded by lot to a whole number. Every candidate has the same
    stream of random numbers, so that the share beyond T₀ hardly jumps between neighbours.
    """
    share = bins.number / bins.n_answers
    worth = bins.number * errors.effective_rows / errors.n_rows
    shape = (worth.size, options.n_resamples)
    lot = np.random.default_rng([options.seed, 2]).random(shape)
    rows = np.maximum(np.floor(worth[:, None] + lot), 1.0).astype(np.int64)
    sizes = np.empty((accuracy.shape[1], options.n_resamples))
    # Rounded, so that sums in another order of rows draw the same hits.
    for k, a in enumerate(np.round(accuracy.T, 12)):
        generator = np.random.default_rng([options.seed, 3])
        hits = generator.binomial(rows, a[:, None])
        sizes[k] = mean_gap(share, hits / rows - bins.confidence[:, None])
    return sizes


def _share_beyond(redrawn: FloatArray, observed: float) -> FloatArray:
    """Return, per candidate, the share of redrawn errors above the observed one, ties by half."""
    same = np.abs(redrawn - observed) <= 1e-12
    share: FloatArray = ((redrawn > observed) & ~same).mean(axis=1) + same.mean(axis=1) / 2
    return share


def _inverted(error: FloatArray, beyond: FloatArray, tail: float) -> tuple[float, float, float]:
    """Return the errors at which the observed one has tail, half and 1 − tail of them beyond it."""
    rising = np.maximum.accumulate(beyond)

    def reaching(share: float) -> float:
        k = int(np.searchsorted(rising, share, side="left"))
        if k == 0:
            return float(error[0])
        if k == rising.size:
            return float(error[-1])
        part = (share - rising[k - 1]) / (rising[k] - rising[k - 1])
        return float(error[k - 1] + part * (error[k] - error[k - 1]))

    return reaching(tail), reaching(0.5), reaching(1 - tail)


def _error_of_the_whole(
    answers: BinnedAnswers, bins: Bins, *, level: float, prior_icc: float
) -> float:
    """Return how far accuracy may be from the mean confidence, both being uncertain.

    The distances of the limits of accuracy and of the mean confidence are squared and added
    (Zou and Donner 2008), as if the two had nothing to do with each other.
    """
    rows = answers.per_unit()
    right = answers.per_unit(answers.right.astype(np.float64))
    accuracy = share_interval(right, rows, level=level, prior_icc=prior_icc)
    mean = float(answers.confidence.mean())
    spread = _half_width(answers, answers.confidence - mean, level=level)
    gap = float(right.sum()) / bins.n_answers - mean
    below = math.hypot(mean + gap - accuracy.low, spread)
    above = math.hypot(accuracy.high - mean - gap, spread)
    return max(abs(gap - below), abs(gap + above))

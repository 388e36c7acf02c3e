"""Interval of the calibration error by test inversion on the counts of its bins."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from krisis.statistics.bootstrap import BootstrapOptions
from krisis.statistics.calibrated_bins import BinnedAnswers, Bins, null_gap, redrawn_shares
from krisis.statistics.intervals import Interval
from krisis.statistics.shares import PRIOR_ICC, ShareDistribution

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
    a_b = c_b + t·g_b/T₀; under it the hits of a bin are binomial, rows of one patient being alike
    as often as the design effect of the errors, with Student's factor, asks for. The candidate is
    kept unless fewer than α/2 of the errors redrawn are beyond T₀ on one side. Noise thus comes
    from the candidate, also where no error was seen. The candidate under which half of the redrawn
    errors exceed T₀ is median unbiased.

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
        redrawn = redrawn_shares(answers, bins, accuracy, errors.correlation, options=drawn)
        sizes = mean_gap(share, redrawn - bins.confidence[:, None, None])
        error = mean_gap(share, accuracy - bins.confidence[:, None])
        tail = (1 - drawn.level) / 2
        low, debiased, high = _inverted(error, _share_beyond(sizes, observed), tail)
    # Which confidences the patients have is chance too, besides which answers are right.
    spread = _confidence_noise(answers, bins, errors, drawn.level)
    low = observed - math.hypot(observed - min(low, observed), spread)
    high = observed + math.hypot(max(high, observed) - observed, spread)
    whole = _error_of_the_whole(answers, errors, drawn.level)
    high = min(1.0, max(high, observed, whole))
    interval = Interval(max(low, 0.0), high, drawn.level, METHOD)
    return CalibrationGap(interval, debiased, null_gap(answers, prior_icc=prior_icc))


def _confidence_noise(
    answers: BinnedAnswers, bins: Bins, errors: ShareDistribution, level: float
) -> float:
    """Return t·se of the mean of u by patient; 0 with one patient."""
    accuracy, sign = bins.hits / bins.number, np.sign(bins.gap)
    u = sign[bins.place] * (accuracy[bins.place] - answers.confidence)
    return _half_width(answers, u - float(u.mean()), errors, level)


def _half_width(
    answers: BinnedAnswers, deviation: FloatArray, errors: ShareDistribution, level: float
) -> float:
    """Return t·√(C/(C−1) Σ s²)/n, s being the sums of deviations from a mean by patient.

    Where patients have several rows, t is that of the share of errors.
    """
    sums, n_patients = answers.per_unit(deviation), errors.n_patients
    if n_patients < 2:
        return 0.0
    student = float(special.stdtrit(n_patients - 1, 0.5 + level / 2))
    if errors.mean_patient_rows > 1:
        student = errors.student_factor * float(special.ndtri(0.5 + level / 2))
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


def _error_of_the_whole(answers: BinnedAnswers, errors: ShareDistribution, level: float) -> float:
    """Return how far accuracy may be from the mean confidence, both being uncertain.

    The distances of the limits of accuracy and of the mean confidence are squared and added
    (Zou and Donner 2008), as if the two had nothing to do with each other.
    """
    mean = float(answers.confidence.mean())
    spread = _half_width(answers, answers.confidence - mean, errors, level)
    fewest, most = errors.quantile([(1 - level) / 2, (1 + level) / 2]).tolist()
    gap = 1 - errors.share - mean
    below = math.hypot(most - errors.share, spread)
    above = math.hypot(errors.share - fewest, spread)
    return max(abs(gap - below), abs(gap + above))

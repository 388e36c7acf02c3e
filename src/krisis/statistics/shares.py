"""Shares of rows when patients bring several rows each: confidence distribution and intervals."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from krisis.errors import InvalidValue
from krisis.statistics.intervals import Interval, check_level
from krisis.statistics.mid_p import mid_p_quantile

FloatArray = NDArray[np.float64]

_PRIOR_DEGREES = 4.0  # of freedom, which the assumed design effect brings along


PRIOR_ICC = 0.5
"""Correlation between rows of one patient that is assumed as long as the data say nothing."""

PRIOR_PATIENTS = 2.0
"""Weight of the design effect that follows from it, in patients.

With one, intervals of 20 × 5 rows, ICC 0.8, 10 % errors, cover in 90.2 % of runs; with two in
92.6 %, and in each of 576 worlds in 92.5 % at least.
"""


@dataclass(frozen=True, slots=True)
class ShareDistribution:
    """What the hits of patients say about a share, as one confidence distribution.

    ``effective_rows`` is the number of independent rows that the data are worth, Student's
    quantile included, and ``effective_hits`` the hits among them; both are real numbers.
    """

    share: float
    n_rows: float
    n_patients: int
    mean_patient_rows: float
    design_effect: float
    student_factor: float

    @classmethod
    def of(
        cls,
        hits: ArrayLike,
        rows: ArrayLike,
        *,
        prior_icc: float = PRIOR_ICC,
        level: float = 0.95,
        prior_patients: float = PRIOR_PATIENTS,
    ) -> ShareDistribution:
        """Build from the hits and the rows of every patient; patients without rows are ignored.

        The design effect is Kish's ratio of the variance between patients to the binomial one,
        D̂ = [C/(C−1) Σ(x_i − p t_i)²/N²] / [p(1−p)/N], at least 1, shrunk towards
        D₀ = 1 + (k̄−1)·prior_icc by as few patients as tell hits from misses:
        D = (ν D̂ + w D₀)/(ν + w), where w is ``prior_patients``, times 2½ − 3p for a share p below ½
        whose D̂ is less than assumed. Seeing no error therefore leaves the assumed correlation.

        Reference: Kish, Survey Sampling (1965), for the design effect; Korn and Graubard, Survey
        Methodology 24 (1998) 193–201, for the effective sample size.
        """
        x, t = _checked(hits, rows)
        if not 0 <= prior_icc <= 1:
            raise InvalidValue(f"prior_icc must be between 0 and 1, not {prior_icc!r}")
        upper = 0.5 + check_level(level) / 2
        n_rows = float(t.sum())
        mean_patient_rows = float(t @ t) / n_rows
        effect = student = 1.0
        if mean_patient_rows > 1:
            effect = _design_effect(x, t, 1 + (mean_patient_rows - 1) * prior_icc, prior_patients)
            degrees = n_rows / mean_patient_rows - 1 + _PRIOR_DEGREES
            student = float(special.stdtrit(degrees, upper) / special.ndtri(upper))
        return cls(
            share=float(x.sum()) / n_rows,
            n_rows=n_rows,
            n_patients=t.size,
            mean_patient_rows=mean_patient_rows,
            design_effect=effect,
            student_factor=student,
        )

    @property
    def effective_rows(self) -> float:
        """N/(D τ²)."""
        return self.n_rows / (self.design_effect * self.student_factor**2)

    @property
    def effective_hits(self) -> float:
        """The share of the effective rows."""
        return self.share * self.effective_rows

    @property
    def correlation(self) -> float:
        """The correlation between rows of one patient that this effective size amounts to."""
        if self.mean_patient_rows <= 1:
            return 0.0
        excess = self.design_effect * self.student_factor**2 - 1
        return float(np.clip(excess / (self.mean_patient_rows - 1), 0.0, 1.0))

    def quantile(self, probability: ArrayLike) -> FloatArray:
        """Return H⁻¹: the share below which the truth lies with this confidence."""
        return mid_p_quantile(probability, self.effective_hits, self.effective_rows)


def _design_effect(x: FloatArray, t: FloatArray, assumed: float, weight: float) -> float:
    """Return D of the hits and rows of patients, some of whom have several rows."""
    n_rows = float(t.sum())
    p = float(x.sum()) / n_rows
    if t.size == 1 or p in (0, 1):
        return assumed
    # 1/(1 − t/N) undoes what a patient's pull on the share takes off its own deviation; for
    # patients of equal size it is C/(C−1).
    deviation = x - p * t
    between = float(deviation / (1 - t / n_rows) @ deviation)
    seen = max(1.0, between / (n_rows * p * (1 - p)))
    # As many patients of equal size would weigh the rows as evenly.
    n_equal = n_rows**2 / float(t @ t)
    telling = min(float(np.sum(x > 0)), float(np.sum(x < t)), n_equal - 1)
    if seen < assumed:  # that few hits fell apart says little of how they fall together
        weight *= 1 + max(1.5 - 3 * p, 0.0)
    return (telling * seen + weight * assumed) / (telling + weight)


def _checked(hits: ArrayLike, rows: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Return the hits and the rows of the patients who have rows."""
    x, t = np.asarray(hits, dtype=np.float64), np.asarray(rows, dtype=np.float64)
    if x.shape != t.shape or x.ndim != 1:
        raise InvalidValue(f"hits {x.shape} and rows {t.shape} must be two lists of one length")
    if x.size and not (x.min() >= 0 and (x <= t).all()):
        raise InvalidValue("the hits of a patient must be between 0 and its number of rows")
    if x.size and t.min() == 0:
        x, t = x[t > 0], t[t > 0]
    if t.size == 0:
        raise InvalidValue("a share needs at least one row")
    return x, t


def share_interval(
    hits: ArrayLike,
    rows: ArrayLike,
    *,
    level: float = 0.95,
    prior_icc: float = PRIOR_ICC,
) -> Interval:
    """Return the interval of a share from the hits and the rows of every patient.

    Mid-P Clopper–Pearson on the effective sample size of `ShareDistribution`; the lower limit is 1
    minus the upper one of the misses. Without a row there is no interval; with one there always is.

    >>> interval = share_interval([0] * 44, [1] * 44)
    >>> interval.low, round(interval.high, 4), interval.method
    (0.0, 0.0658, 'mid_p')
    """
    if np.sum(rows) == 0:
        return Interval.undefined("no_rows", level=check_level(level), method="mid_p")
    x, t = _checked(hits, rows)
    of_hits, of_misses = (
        ShareDistribution.of(one, t, prior_icc=prior_icc, level=level) for one in (x, t - x)
    )
    method = "mid_p" if of_hits.mean_patient_rows == 1 else "clustered_mid_p"
    share, upper = of_hits.share, 0.5 + level / 2
    low, high = 1 - float(of_misses.quantile(upper)), float(of_hits.quantile(upper))
    return Interval(max(0.0, min(low, share)), min(1.0, max(high, share)), level, method)


def mean_of_shares_interval(
    hits: ArrayLike,
    rows: ArrayLike,
    *,
    level: float = 0.95,
    prior_icc: float = PRIOR_ICC,
) -> Interval:
    """Return the interval of the mean of several shares, such as the recalls of the classes.

    ``hits`` and ``rows`` are shares × patients; a share without rows is ignored. The distances of
    the limits of the single shares are squared and added, with the correlation r that patients
    who count in several shares bring: limit = mean(p) ∓ √(dᵀ r d)/K.

    Reference: Zou and Donner, Construction of confidence limits about effect measures: a general
    approach, Statistics in Medicine 27 (2008) 1693–1702.
    """
    x, t = np.atleast_2d(np.asarray(hits, np.float64)), np.atleast_2d(np.asarray(rows, np.float64))
    if x.shape != t.shape:
        raise InvalidValue(f"hits {x.shape} and rows {t.shape} must have one shape")
    filled = t.sum(axis=1) > 0
    if not filled.any():
        return Interval.undefined("no_rows", level=check_level(level), method="mover")
    x, t = x[filled], t[filled]
    each = np.full(len(x), 1 / len(x))
    found = combination_interval(x, t, each, level=level, prior_icc=prior_icc)
    return found.clipped(0.0, 1.0)


def combination_interval(
    hits: FloatArray,
    rows: FloatArray,
    coefficients: ArrayLike,
    *,
    level: float = 0.95,
    prior_icc: float = PRIOR_ICC,
) -> Interval:
    """Return the interval of Σ c·p over several shares p (shares × patients), all with rows.

    The distances d of the limits of the single shares, taken upwards or downwards as the sign of
    c says, are squared and added: Σ c·p ∓ √(dᵀ r d), where correlations r that would narrow the
    interval count as 0.

    Reference: Zou and Donner, as for `mean_of_shares_interval`.
    """
    n_rows, c = rows.sum(axis=1), np.asarray(coefficients, dtype=np.float64)
    share = hits.sum(axis=1) / n_rows
    single = [
        share_interval(*pair, level=level, prior_icc=prior_icc)
        for pair in zip(hits, rows, strict=True)
    ]
    influence = (hits - share[:, None] * rows) / n_rows[:, None]
    limits = np.array([(interval.low, interval.high) for interval in single])
    return Interval(*mover_limits(share, limits, influence, c), level, "mover")


def mover_limits(
    share: FloatArray, limits: FloatArray, influence: FloatArray, coefficients: FloatArray
) -> tuple[float, float]:
    """Return the limits of Σ c·p from the limits (shares × 2) and influences of the shares p."""
    c = coefficients
    to_low, to_high = c * (share - limits[:, 0]), c * (limits[:, 1] - share)
    correlation = _correlation(np.sign(c)[:, None] * influence)
    below, above = np.where(c > 0, to_low, -to_high), np.where(c > 0, to_high, -to_low)
    value = float(c @ share)
    low, high = (float(np.sqrt(d @ correlation @ d)) for d in (below, above))
    return value - low, value + high


def ratio_interval(
    hits: FloatArray,
    rows: FloatArray,
    *,
    level: float = 0.95,
    prior_icc: float = PRIOR_ICC,
) -> Interval:
    """Return the interval of the ratio of two shares (2 × patients), both with rows.

    With p, q the shares and d, e the distances to their limits, R is a limit where p − R q is as
    far from 0 as √(d² + R² e² − 2 r R d e); a correlation r that would narrow the interval counts
    as 0. Where the base may be 0, the upper limit is infinite.

    Reference: Donner and Zou, Closed-form confidence intervals for functions of the normal mean
    and standard deviation, Statistical Methods in Medical Research 21 (2012) 347–359.
    """
    n_rows = rows.sum(axis=1)
    p, q = (hits.sum(axis=1) / n_rows).tolist()
    top, base = (
        share_interval(*pair, level=level, prior_icc=prior_icc)
        for pair in zip(hits, rows, strict=True)
    )
    influence = (hits - np.array([[p], [q]]) * rows) / n_rows[:, None]
    r = -float(_correlation(np.array([[1.0], [-1.0]]) * influence)[0, 1])
    low = _ratio_limit(p, q, r, p - top.low, base.high - q, sign=-1.0)
    high = _ratio_limit(p, q, r, top.high - p, q - base.low, sign=1.0)
    return Interval(low, high, level, "mover")


def _ratio_limit(p: float, q: float, r: float, d: float, e: float, *, sign: float) -> float:
    """Return the lower (−) or upper (+) root R of (q² − e²)R² − 2(pq − r d e)R + p² − d² = 0."""
    square, middle, rest = q * q - e * e, p * q - r * d * e, p * p - d * d
    root = math.sqrt(max(middle * middle - square * rest, 0.0))
    if sign > 0:
        # q − e is the lower limit of the base: at 0 nothing bounds the ratio.
        return (middle + root) / square if square > 1e-15 else math.inf
    return max(0.0, rest / (middle + root)) if middle + root > 0 else 0.0


def _correlation(influence: FloatArray) -> FloatArray:
    """Return the correlations about 0 of the shares' influences (shares × patients), if positive.

    Shares that no patient moves are correlated with nothing but themselves.
    """
    products = influence @ influence.T
    scale = np.sqrt(np.diag(products))
    scale = np.where(scale > 0, scale, 1.0)
    correlation: FloatArray = np.clip(products / np.outer(scale, scale), 0.0, 1.0)
    np.fill_diagonal(correlation, 1.0)
    return correlation

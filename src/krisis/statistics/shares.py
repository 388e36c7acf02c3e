"""Shares of rows when patients bring several rows each: confidence distribution and intervals."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from krisis.errors import InvalidValue
from krisis.statistics.intervals import Interval, check_level
from krisis.statistics.mid_p import mid_p_quantile
from krisis.statistics.share_design import ShareDesign

FloatArray = NDArray[np.float64]

PRIOR_ICC = 0.5
"""Correlation between rows of one patient that is assumed as long as the data say nothing."""


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
    ) -> ShareDistribution:
        """Build from the hits and the rows of every patient; patients without rows are ignored.

        The design effect is Kish's ratio of the variance between patients to the binomial one,
        D̂ = [C/(C−1) Σ(x_i − p t_i)²/N²] / [p(1−p)/N], at least 1, shrunk towards
        D₀ = 1 + (k̄−1)·prior_icc by as few patients as tell hits from misses:
        D = (ν D̂ + w D₀)/(ν + w), where w is 1, and 1 + 3(½ − p) for a share p below ½ whose D̂ is
        less than assumed. Seeing no error therefore leaves the assumed correlation.

        Reference: Kish, Survey Sampling (1965), for the design effect; Korn and Graubard, Survey
        Methodology 24 (1998) 193–201, for the effective sample size.
        """
        x, t = _checked(hits, rows)
        design = ShareDesign.of(t, prior_icc=prior_icc, level=level)
        return cls(
            share=float(x.sum()) / design.n_rows,
            n_rows=design.n_rows,
            n_patients=design.rows.size,
            mean_patient_rows=design.mean_patient_rows,
            design_effect=design.design_effect_of(x),
            student_factor=design.student_factor,
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


def _checked(hits: ArrayLike, rows: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Return the hits and the rows of the patients who have rows."""
    x, t = np.asarray(hits, dtype=np.float64), np.asarray(rows, dtype=np.float64)
    if x.shape != t.shape or x.ndim != 1:
        raise InvalidValue(f"hits {x.shape} and rows {t.shape} must be two lists of one length")
    if x.size and not (x.min() >= 0 and (x <= t).all()):
        raise InvalidValue("the hits of a patient must lie between 0 and its number of rows")
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

    Mid-P Clopper–Pearson on the effective sample size of `ShareDistribution`. Up to 10,000
    rows the limits are monotone: in the same patients one more hit lowers neither of them. Without
    a row there is no interval; with one there always is.

    >>> interval = share_interval([0] * 44, [1] * 44)
    >>> interval.low, round(interval.high, 4), interval.method
    (0.0, 0.0658, 'mid_p')
    """
    if np.sum(rows) == 0:
        return Interval.undefined("no_rows", level=check_level(level), method="mid_p")
    x, t = _checked(hits, rows)
    design = ShareDesign.of(t, prior_icc=prior_icc, level=level)
    method = "mid_p" if design.independent else "clustered_mid_p"
    share = float(x.sum()) / design.n_rows
    low, high = design.limits(x)
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
    n_rows = t.sum(axis=1)
    share = x.sum(axis=1) / n_rows
    single = [
        share_interval(*pair, level=level, prior_icc=prior_icc) for pair in zip(x, t, strict=True)
    ]
    correlation = _correlation((x - share[:, None] * t) / n_rows[:, None])
    below = share - np.array([interval.low for interval in single])
    above = np.array([interval.high for interval in single]) - share
    low, high = (
        float(np.sqrt(distance @ correlation @ distance)) / share.size
        for distance in (below, above)
    )
    mean = float(share.mean())
    return Interval(max(0.0, mean - low), min(1.0, mean + high), level, "mover")


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

"""Shares of rows when patients bring several rows each: confidence distribution and intervals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from krisis.errors import InvalidValue
from krisis.statistics.intervals import Interval, check_level
from krisis.statistics.mid_p import highest_mid_p_quantile, mid_p_cdf, mid_p_quantile

FloatArray = NDArray[np.float64]

PRIOR_ICC = 0.5
"""Correlation between rows of one patient that is assumed as long as the data say nothing."""

# Weight of the assumed design effect, in patients, and the degrees of freedom it brings along.
_PRIOR_PATIENTS = 1.0
_PRIOR_DEGREES = 4.0
# Beyond this many patients with hits, taking hits away never raised the upper limit.
_MOST_CLOSED = 1000


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
        design = _Design.of(t, prior_icc=prior_icc, level=level)
        sums = design.sums(x)
        return cls(
            share=float(sums.hits[0]) / design.n_rows,
            n_rows=design.n_rows,
            n_patients=design.rows.size,
            mean_patient_rows=design.mean_patient_rows,
            design_effect=float(design.design_effect(sums)[0]),
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

    def cdf(self, share: ArrayLike) -> FloatArray:
        """Return H: the confidence that the truth lies at or below a share."""
        return mid_p_cdf(share, self.effective_hits, self.effective_rows)


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


@dataclass(frozen=True, slots=True, eq=False)
class _Sums:
    """Of one or several arrangements of hits over the same patients: all that a limit needs."""

    hits: FloatArray
    squares: FloatArray
    products: FloatArray
    n_with_hits: FloatArray
    n_with_misses: FloatArray

    def joined(self, others: Sequence[_Sums]) -> _Sums:
        """Return these arrangements followed by others."""
        parts = (self, *others)
        return _Sums(
            *(np.concatenate([getattr(p, name) for p in parts]) for name in self.__slots__)
        )


@dataclass(frozen=True, slots=True, eq=False)
class _Design:
    """The patients with rows, and what stays the same however the hits fall."""

    rows: FloatArray
    n_rows: float
    mean_patient_rows: float
    prior_icc: float
    level: float
    weight: FloatArray
    weighted_rows: float

    @classmethod
    def of(cls, rows: FloatArray, *, prior_icc: float, level: float) -> _Design:
        if not 0 <= prior_icc <= 1:
            raise InvalidValue(f"prior_icc must lie between 0 and 1, not {prior_icc!r}")
        n_rows = float(rows.sum())
        mean_patient_rows = float(rows @ rows) / n_rows
        # 1/(1 − t/N) undoes what a patient's pull on the share takes off its own deviation; for
        # patients of equal size it is C/(C−1).
        weight, weighted = rows, n_rows
        if rows.size > 1 and mean_patient_rows > 1:
            weight = 1 / (1 - rows / n_rows)
            weighted = float(weight * rows @ rows)
        return cls(rows, n_rows, mean_patient_rows, prior_icc, check_level(level), weight, weighted)

    @property
    def independent(self) -> bool:
        return self.mean_patient_rows == 1

    @property
    def n_equal_patients(self) -> float:
        """How many patients of equal size would weigh the rows as evenly: (Σt)²/Σt²."""
        return self.n_rows / self.mean_patient_rows

    @property
    def student_factor(self) -> float:
        if self.independent:
            return 1.0
        degrees = self.n_equal_patients - 1 + _PRIOR_DEGREES
        upper = 0.5 + self.level / 2
        return float(special.stdtrit(degrees, upper) / special.ndtri(upper))

    def sums(self, x: FloatArray) -> _Sums:
        total = np.array([float(x.sum())])
        if self.independent:
            return _Sums(total, total, total, total, self.n_rows - total)
        parts = (
            float(self.weight * x @ x),
            float(self.weight * x @ self.rows),
            float(np.count_nonzero(x > 0)),
            float(np.count_nonzero(x < self.rows)),
        )
        return _Sums(total, *(np.array([part]) for part in parts))

    def design_effect(self, sums: _Sums) -> FloatArray:
        if self.independent:
            return np.ones_like(sums.hits)
        assumed = 1 + (self.mean_patient_rows - 1) * self.prior_icc
        p = sums.hits / self.n_rows
        mixed = (p > 0) & (p < 1) & (self.rows.size > 1)
        # Σw(x − p t)² = Σwx² − 2p Σwxt + p² Σwt²
        between = sums.squares - 2 * p * sums.products + p**2 * self.weighted_rows
        binomial = self.n_rows * np.where(mixed, p * (1 - p), 1.0)
        seen = np.maximum(1.0, between / binomial)
        telling = np.minimum(sums.n_with_hits, sums.n_with_misses)
        telling = np.where(mixed, np.minimum(telling, self.n_equal_patients - 1), 0.0)
        # That few hits fell apart says little of how they fall together.
        rare = np.where(seen < assumed, np.maximum(1.5 - 3 * p, 0.0), 0.0)
        weight = _PRIOR_PATIENTS * (1 + rare)
        return (telling * seen + weight * assumed) / (telling + weight)

    def limits(self, x: FloatArray) -> tuple[float, float]:
        """Return both limits of the share of x; the lower one is 1 − the upper one of the misses.

        They are closed so that one more hit lowers neither of them.
        """
        hits = self.sums(x)
        if self.independent:
            n_misses = self.n_rows - hits.hits
            return 1 - self._upper(replace(hits, hits=n_misses)), self._upper(hits)
        left = self.rows - x
        misses = self.sums(left)
        hits = hits.joined(self._fewer_hits(x, hits))
        return 1 - self._upper(misses.joined(self._fewer_hits(left, misses))), self._upper(hits)

    def _upper(self, sums: _Sums) -> float:
        """Return the highest upper limit of several arrangements."""
        effective = self.n_rows / (self.design_effect(sums) * self.student_factor**2)
        return highest_mid_p_quantile(
            0.5 + self.level / 2, sums.hits / self.n_rows * effective, effective
        )

    def _fewer_hits(self, x: FloatArray, sums: _Sums) -> list[_Sums]:
        """Return arrangements with fewer hits: a limit must not fall below that of any of them.

        Only the j patients with most hits keep theirs (ordered by hits, and by hits beyond their
        share); one patient loses one hit, or all of them.
        """
        with_hits = np.flatnonzero(x > 0)
        if not 0 < with_hits.size <= _MOST_CLOSED:
            return []
        x, t, w = x[with_hits], self.rows[with_hits], self.weight[with_hits]
        p = float(sums.hits[0]) / self.n_rows
        orders = (np.lexsort((t, -x)), np.lexsort((t, p * t - x)))
        kept = [_leading(x[o], t[o], w[o], n_patients=self.rows.size) for o in orders]
        return [*kept, *(_without(sums, x, t, w, lost) for lost in (np.minimum(x, 1.0), x))]


def _leading(x: FloatArray, t: FloatArray, w: FloatArray, *, n_patients: int) -> _Sums:
    """Return the sums when only the first 0, 1, … patients keep their hits."""

    def first(values: FloatArray) -> FloatArray:
        return np.concatenate([[0.0], np.cumsum(values)[:-1]])

    number = np.arange(x.size, dtype=np.float64)
    complete = first((x == t).astype(np.float64))
    return _Sums(first(x), first(w * x * x), first(w * x * t), number, n_patients - complete)


def _without(sums: _Sums, x: FloatArray, t: FloatArray, w: FloatArray, lost: FloatArray) -> _Sums:
    """Return the sums when each patient in turn loses hits."""
    left = x - lost
    return _Sums(
        sums.hits - lost,
        sums.squares - w * (x * x - left * left),
        sums.products - w * lost * t,
        sums.n_with_hits - (left == 0),
        sums.n_with_misses + (x == t),
    )


def share_interval(
    hits: ArrayLike,
    rows: ArrayLike,
    *,
    level: float = 0.95,
    prior_icc: float = PRIOR_ICC,
) -> Interval:
    """Return the interval of a share from the hits and the rows of every patient.

    Mid-P Clopper–Pearson on the effective sample size of `ShareDistribution`. The limits are
    monotone: in the same patients one more hit lowers neither of them. Without a row there is no
    interval; with one there always is.

    >>> interval = share_interval([0] * 44, [1] * 44)
    >>> interval.low, round(interval.high, 4), interval.method
    (0.0, 0.0658, 'mid_p')
    """
    if np.sum(rows) == 0:
        return Interval.undefined("no_rows", level=check_level(level), method="mid_p")
    x, t = _checked(hits, rows)
    design = _Design.of(t, prior_icc=prior_icc, level=level)
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

"""How well scores rank positives above negatives: AUROC, average precision and their interval."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from krisis.statistics.intervals import Interval, check_level
from krisis.statistics.mid_p import mid_p_quantile

FloatArray = NDArray[np.float64]

METHOD = "ranked_mid_p"
# Weight of the assumed design effect, in patients, and the degrees of freedom it brings along.
_PRIOR_PATIENTS = _PRIOR_DEGREES = 4.0


@dataclass(frozen=True, slots=True, eq=False)
class Ranked:
    """A figure of a ranking, one per column, and how far a row of a level moves it.

    ``of_positive`` and ``of_negative`` are levels × columns: the influence of one such row.
    """

    value: FloatArray
    of_positive: FloatArray
    of_negative: FloatArray


# Takes the positives and the negatives of every level (levels × columns, highest score first).
Figure = Callable[[FloatArray, FloatArray], Ranked]


def auroc(positives: FloatArray, negatives: FloatArray) -> Ranked:
    """Return the chance that a positive is ranked above a negative; a tie counts half.

    With V the share of the other side that a row is ranked rightly against, the influence of one
    row is (V − A)/n of its side.

    Reference: DeLong, DeLong and Clarke-Pearson, Biometrics 44 (1988) 837–845.

    >>> one = np.array([[1.0], [0.0], [1.0]])
    >>> auroc(one, 1 - one).value.tolist()
    [0.5]
    """
    n_positive, n_negative = positives.sum(axis=0), negatives.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        below = n_negative - np.cumsum(negatives, axis=0)
        above = np.cumsum(positives, axis=0) - positives
        over_negatives = (below + negatives / 2) / n_negative
        under_positives = (above + positives / 2) / n_positive
        value = (positives * over_negatives).sum(axis=0) / n_positive
        return Ranked(
            value, (over_negatives - value) / n_positive, (under_positives - value) / n_negative
        )


def average_precision(positives: FloatArray, negatives: FloatArray) -> Ranked:
    """Return the mean, over the positives, of the precision at their own level; ties are one level.

    This is Σ (R_l − R_{l−1}) P_l with recall R and precision P at level l. A row of level k moves
    the precision of every level l ≥ k: by FP/(TP + FP)² if it is positive, −TP/(TP + FP)² if not.

    >>> one = np.array([[1.0], [0.0], [1.0]])
    >>> average_precision(one, 1 - one).value.round(4).tolist()
    [0.8333]
    """
    n_positive = positives.sum(axis=0)
    found, raised = np.cumsum(positives, axis=0), np.cumsum(negatives, axis=0)
    called = found + raised
    called = np.where(called > 0, called, 1.0)  # no row so far, so that nothing is divided
    precision = found / called
    with np.errstate(invalid="ignore", divide="ignore"):
        gained = positives / n_positive
        value = (gained * precision).sum(axis=0)
        return Ranked(
            value,
            (precision - value) / n_positive + _from_here_on(gained * raised / called**2),
            -_from_here_on(gained * found / called**2),
        )


def _from_here_on(levels: FloatArray) -> FloatArray:
    added: FloatArray = np.cumsum(levels[::-1], axis=0)[::-1]
    return added


@dataclass(frozen=True, slots=True, eq=False)
class RankedPatients:
    """What the patients say about a ranking.

    Influences and rows are of every patient, on the side of the positives and of the negatives;
    ``n_telling`` is how many patients are ranked neither rightly nor wrongly throughout, on the
    side that has fewer of them.
    """

    influence_positive: FloatArray
    influence_negative: FloatArray
    rows_positive: FloatArray
    rows_negative: FloatArray
    n_telling: int

    def variance(self) -> float:
        """Return the variance for patients with several rows; DeLong's where they have one.

        Reference: Obuchowski, Nonparametric analysis of clustered ROC curve data, Biometrics 53
        (1997) 567–578.
        """
        a, b = self.influence_positive, self.influence_negative
        on_both = int(np.count_nonzero((self.rows_positive > 0) | (self.rows_negative > 0)))
        own = _corrected(self.n_positive) * (a @ a) + _corrected(self.n_negative) * (b @ b)
        return max(float(own + 2 * _corrected(on_both) * (a @ b)), 0.0)

    @property
    def n_positive(self) -> int:
        """Count the patients with positive rows."""
        return int(np.count_nonzero(self.rows_positive))

    @property
    def n_negative(self) -> int:
        """Count the patients with negative rows."""
        return int(np.count_nonzero(self.rows_negative))


def _corrected(n: float) -> float:
    return n / (n - 1) if n > 1 else 1.0


def auroc_interval(
    value: float, patients: RankedPatients, *, level: float, prior_icc: float
) -> Interval:
    """Return the interval of an AUROC, as of a share of so many rows as its variance amounts to.

    Rows of their own are worth A(1 − A)/V of them, V the variance A(1 − A)/(mn) · {1 + (N* − 1)
    [(1 − A)/(2 − A) + A/(1 + A)]} with N* = (m + n)/2.

    Reference: Newcombe, Confidence intervals for an effect size measure based on the
    Mann–Whitney statistic, part 2, Statistics in Medicine 25 (2006) 559–573.
    """
    m, n = float(patients.rows_positive.sum()), float(patients.rows_negative.sum())
    shape = (1 - value) / (2 - value) + value / (1 + value)
    worth = m * n / (1 + ((m + n) / 2 - 1) * shape)
    rows = patients.rows_positive + patients.rows_negative
    return _interval(value, patients, worth, rows, level=level, prior_icc=prior_icc)


def average_precision_interval(
    value: float, patients: RankedPatients, *, level: float, prior_icc: float
) -> Interval:
    """Return the interval of an average precision, as of a share of the positives.

    Reference: Boyd, Eng and Page, Area under the precision-recall curve: point estimates and
    confidence intervals, ECML PKDD 2013, for the binomial of the positives.
    """
    rows = patients.rows_positive
    worth = float(rows.sum())
    return _interval(value, patients, worth, rows, level=level, prior_icc=prior_icc)


def _interval(
    value: float,
    patients: RankedPatients,
    worth: float,
    rows: FloatArray,
    *,
    level: float,
    prior_icc: float,
) -> Interval:
    """Return mid-P limits on worth/(D τ²) rows.

    D, the variance seen over that of so many rows, is shrunk by the patients that tell anything
    towards D₀ = 1 + (k̄ − 1)·prior_icc: D = (ν D̂ + 4 D₀)/(ν + 4). A perfect ranking tells nothing
    of its variance, and leaves D₀. τ is Student's quantile over the normal one.
    """
    upper = 0.5 + check_level(level) / 2
    assumed = 1 + (float(rows @ rows) / float(rows.sum()) - 1) * prior_icc
    effect, spread = assumed, value * (1 - value)
    if spread > 0:
        seen = patients.variance() * worth / spread
        telling = patients.n_telling
        effect = (telling * seen + _PRIOR_PATIENTS * assumed) / (telling + _PRIOR_PATIENTS)
    degrees = min(patients.n_positive, patients.n_negative) - 1 + _PRIOR_DEGREES
    student = float(special.stdtrit(degrees, upper) / special.ndtri(upper))
    effective = worth / (effect * student**2)
    low, high = mid_p_quantile([1 - upper, upper], value * effective, effective).tolist()
    if math.isnan(low) or math.isnan(high):
        return Interval.undefined("the_limits_cannot_be_computed", level=level, method=METHOD)
    return Interval(min(low, value), max(high, value), level, METHOD)

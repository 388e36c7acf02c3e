"""How well scores rank positives above negatives: AUROC, average precision and their interval."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from krisis.statistics.intervals import Interval, check_level
from krisis.statistics.mid_p import mid_p_quantile

FloatArray = NDArray[np.float64]

METHOD = "ranked_mid_p"
# Weight of the assumed design effect, in patients, and the degrees of freedom it brings along; as
# for shares.
_PRIOR_PATIENTS = 1.0
_PRIOR_DEGREES = 4.0


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
        # Divided last, so that rounding lifts no ranking above 1 and leaves a perfect one at 1.
        value = (positives * precision).sum(axis=0) / n_positive
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

    Influences and rows are of every patient, on the side of the positives and of the negatives.
    """

    influence_positive: FloatArray
    influence_negative: FloatArray
    rows_positive: FloatArray
    rows_negative: FloatArray

    def variance(self) -> float:
        """Return the variance for patients with several rows; DeLong's where they have one.

        With several rows it is at least the leave-one-patient-out variance Σ (u_i/(1 − h_i))², u_i
        the influence of a patient and h_i his share of the rows: with 15 patients or fewer the
        plain one is too small (AUPRC held the truth in 92.0 % of 1,000 runs, so in 93 %).

        References: Obuchowski, Nonparametric analysis of clustered ROC curve data, Biometrics 53
        (1997) 567–578; Bell and McCaffrey, Bias reduction in standard errors for linear regression
        with multi-stage samples, Survey Methodology 28 (2002) 169–181.
        """
        a, b = self.influence_positive, self.influence_negative
        on_both = int(np.count_nonzero((self.rows_positive > 0) | (self.rows_negative > 0)))
        own = _corrected(self.n_positive) * (a @ a) + _corrected(self.n_negative) * (b @ b)
        found = max(float(own + 2 * _corrected(on_both) * (a @ b)), 0.0)
        rows = self.rows_positive + self.rows_negative
        if rows.max() <= 1 or on_both < 2:
            return found
        without = (a + b) / (1 - rows / rows.sum())
        return max(found, float(without @ without))

    def n_informative(self) -> float:
        """Return how many patients carry the variance, (Σu²)²/Σu⁴ with u the influences.

        All of them where they pull alike, about as many as err where few do, and 0 where nobody
        pulls.
        """
        u = self.influence_positive + self.influence_negative
        largest = float(np.abs(u).max())
        if not largest:
            return 0.0
        squared = np.square(u / largest)
        return float(squared.sum() ** 2 / (squared @ squared))

    def assumed_effect(self, prior_icc: float) -> float:
        """Return D₀, the mean of 1 + (k̄ − 1)·prior_icc of both sides, the rarer weighing more.

        A side of m rows has a part of about 1/m in the variance of a ranking, so that its weight is
        the rows of the other side.
        """
        m, n = float(self.rows_positive.sum()), float(self.rows_negative.sum())
        of_positive, of_negative = (
            1 + (float(rows @ rows) / float(rows.sum()) - 1) * prior_icc
            for rows in (self.rows_positive, self.rows_negative)
        )
        return (n * of_positive + m * of_negative) / (m + n)

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
    """Return the interval of an AUROC, by patient.

    An AUROC is a share of A(1 − A)/V rows, V being Newcombe's variance
    A(1 − A)/(mn) · {1 + (N* − 1)[(1 − A)/(2 − A) + A/(1 + A)]} with N* = (m + n)/2. It does not
    vanish where few positives happen to be ranked alike, as DeLong's does, so that it is the least
    that is assumed.

    Reference: Newcombe, Confidence intervals for an effect size measure based on the Mann–Whitney
    statistic, part 2, Statistics in Medicine 25 (2006) 559–573.
    """
    m, n = float(patients.rows_positive.sum()), float(patients.rows_negative.sum())
    shape = (1 - value) / (2 - value) + value / (1 + value)
    worth = m * n / (1 + ((m + n) / 2 - 1) * shape)
    rows = patients.rows_positive + patients.rows_negative
    return _worth_interval(
        value, worth, patients, rows=rows, least_effect=1.0, level=level, prior_icc=prior_icc
    )


def average_precision_interval(
    value: float, patients: RankedPatients, *, level: float, prior_icc: float
) -> Interval:
    """Return the interval of an average precision, by patient: as if a share of the positives.

    Its variance may be less than that of such a share: near 1 it is about half of it.

    Reference: Boyd, Eng and Page, Area under the precision-recall curve: point estimates and
    confidence intervals, ECML PKDD 2013, for the binomial of the positives.
    """
    rows = patients.rows_positive
    worth = float(rows.sum())
    return _worth_interval(
        value, worth, patients, rows=rows, least_effect=0.0, level=level, prior_icc=prior_icc
    )


def _worth_interval(
    value: float,
    worth: float,
    patients: RankedPatients,
    *,
    rows: FloatArray,
    least_effect: float,
    level: float,
    prior_icc: float,
) -> Interval:
    """Return mid-P limits on worth/(D τ²) rows, as for a share.

    The design effect D is the ratio of the variance by patient to A(1 − A)/worth, drawn towards
    the assumed D₀ by as few patients as carry the variance: D = (ν D̂ + D₀)/(ν + 1) with
    ν = `n_informative` − 1. τ is by how much Student's quantile is wider than the normal one, for
    as many patients of equal size as weigh ``rows`` as evenly, (Σt)²/Σt².

    Reference: Korn and Graubard, Survey Methodology 24 (1998) 193–201, for the effective size.
    """
    informative = max(patients.n_informative() - 1, 0.0)
    weighed = _PRIOR_PATIENTS * patients.assumed_effect(prior_icc)
    if informative and 0 < value < 1:
        seen = patients.variance() * worth / (value * (1 - value))
        weighed += informative * max(seen, least_effect)
    effect = weighed / (_PRIOR_PATIENTS + informative)
    upper = 0.5 + check_level(level) / 2
    n_equal = float(rows.sum()) ** 2 / float(rows @ rows)
    student = float(special.stdtrit(n_equal - 1 + _PRIOR_DEGREES, upper) / special.ndtri(upper))
    effective = worth / (effect * student**2)
    low, high = mid_p_quantile([1 - upper, upper], value * effective, effective).tolist()
    return Interval(min(low, value), max(high, value), level, METHOD)

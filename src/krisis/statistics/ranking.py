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

METHOD, METHOD_WITHOUT_VARIANCE = "delong", "ranked_mid_p"


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
    """Return DeLong's interval of an AUROC, by patient.

    A ranking that shows no variance is a share of the rows that it is worth: A(1 − A)/V of them,
    V the variance A(1 − A)/(mn) · {1 + (N* − 1)[(1 − A)/(2 − A) + A/(1 + A)]} with N* = (m + n)/2.

    References: DeLong, DeLong and Clarke-Pearson (1988), with Obuchowski's variance (1997); for
    rankings without variance Newcombe, Confidence intervals for an effect size measure based on
    the Mann–Whitney statistic, part 2, Statistics in Medicine 25 (2006) 559–573.
    """
    m, n = float(patients.rows_positive.sum()), float(patients.rows_negative.sum())
    shape = (1 - value) / (2 - value) + value / (1 + value)
    worth = m * n / (1 + ((m + n) / 2 - 1) * shape)
    rows = patients.rows_positive + patients.rows_negative
    fewest = min(patients.n_positive, patients.n_negative)
    if fewest < 2 or not patients.variance():
        return _worth_interval(value, worth, rows, level=level, prior_icc=prior_icc)
    return _logit_interval(value, patients.variance(), fewest - 1, level=level)


def average_precision_interval(
    value: float, patients: RankedPatients, *, level: float, prior_icc: float
) -> Interval:
    """Return the interval of an average precision, by patient, as that of an AUROC.

    One that shows no variance is a share of the positives.

    Reference: Boyd, Eng and Page, Area under the precision-recall curve: point estimates and
    confidence intervals, ECML PKDD 2013, for the logit and for the binomial of the positives.
    """
    rows = patients.rows_positive
    if patients.n_positive < 2 or not patients.variance():
        return _worth_interval(value, float(rows.sum()), rows, level=level, prior_icc=prior_icc)
    return _logit_interval(value, patients.variance(), patients.n_positive - 1, level=level)


def _logit_interval(value: float, variance: float, degrees: float, *, level: float) -> Interval:
    """Return expit(logit A ± t·√V/(A(1 − A))), which stays between 0 and 1."""
    t = float(special.stdtrit(degrees, 0.5 + check_level(level) / 2))
    half = t * math.sqrt(variance) / (value * (1 - value))
    low, high = special.expit(special.logit(value) + np.array([-half, half])).tolist()
    return Interval(low, high, level, METHOD)


def _worth_interval(
    value: float, worth: float, rows: FloatArray, *, level: float, prior_icc: float
) -> Interval:
    """Return mid-P limits on worth/D rows, D = 1 + (k̄ − 1)·prior_icc: nothing was seen of it."""
    upper = 0.5 + check_level(level) / 2
    effect = 1 + (float(rows @ rows) / float(rows.sum()) - 1) * prior_icc
    effective = worth / effect
    low, high = mid_p_quantile([1 - upper, upper], value * effective, effective).tolist()
    return Interval(min(low, value), max(high, value), level, METHOD_WITHOUT_VARIANCE)

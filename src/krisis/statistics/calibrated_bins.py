"""Answers in bins of confidence, and what a perfectly calibrated model would show in them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse, special

from krisis.errors import InvalidValue
from krisis.statistics.bootstrap import BootstrapOptions
from krisis.statistics.intervals import check_level
from krisis.statistics.shares import PRIOR_ICC, ShareDistribution

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

# Beyond this many cells of patients and bins their hits are as good as normal.
_MOST_CELLS = 1000
_N_REDRAWS = 1000


@dataclass(frozen=True, slots=True, eq=False)
class BinnedAnswers:
    """Answered rows with confidence, whether they were right, their bin and their patient.

    Bins and patients are numbered from 0; a number may be missing.
    """

    confidence: FloatArray
    right: BoolArray
    bin: IntArray
    unit: IntArray

    def __post_init__(self) -> None:
        columns = (self.confidence, self.right, self.bin, self.unit)
        if len({column.shape for column in columns}) != 1 or self.confidence.ndim != 1:
            raise InvalidValue(
                f"binned answers need columns of one length, not {[c.shape for c in columns]}"
            )

    def sums(self) -> Bins:
        """Return what the filled bins hold."""
        count = np.bincount(self.bin)
        filled = np.flatnonzero(count)
        place = self.bin if filled.size == count.size else (np.cumsum(count > 0) - 1)[self.bin]
        number = count[filled].astype(np.float64)
        hits = np.bincount(place[self.right], minlength=filled.size).astype(np.float64)
        mass = np.bincount(place, weights=self.confidence, minlength=filled.size)
        return Bins(place, number, hits, np.clip(mass / number, 0.0, 1.0))

    def with_row(self, place: int, right: bool) -> BinnedAnswers:
        """Return the answers with one more of another patient, in a bin that holds some."""
        confidence = self.confidence[self.bin == place].mean()
        return BinnedAnswers(
            np.append(self.confidence, confidence),
            np.append(self.right, right),
            np.append(self.bin, place),
            np.append(self.unit, self.unit.max() + 1),
        )

    def per_unit(self, weights: FloatArray | None = None) -> FloatArray:
        """Return the answers, or the sum of weights, of every patient."""
        return np.bincount(self.unit, weights=weights).astype(np.float64)

    def errors(self, *, prior_icc: float, level: float) -> ShareDistribution:
        """Return what the answers say about the share of wrong ones."""
        wrong = self.per_unit((~self.right).astype(np.float64))
        return ShareDistribution.of(
            wrong, self.per_unit(), prior_icc=prior_icc, level=level, prior_patients=1
        )


@dataclass(frozen=True, slots=True, eq=False)
class Bins:
    """The filled bins: place of every row among them, answers, hits and mean confidence."""

    place: IntArray
    number: FloatArray
    hits: FloatArray
    confidence: FloatArray

    @property
    def n_answers(self) -> float:
        """The answers of all bins."""
        return float(self.number.sum())

    @property
    def gap(self) -> FloatArray:
        """Accuracy − mean confidence of every bin."""
        return self.hits / self.number - self.confidence


def groups_of(rows: FloatArray, most: int) -> IntArray:
    """Return the group of every level: neighbours that hold about as many rows together."""
    middle = np.cumsum(rows) - rows / 2
    group = np.floor(middle / rows.sum() * most).astype(np.int64)
    return np.unique(group, return_inverse=True)[1]


def null_gap(answers: BinnedAnswers, *, prior_icc: float = PRIOR_ICC) -> float:
    """Return the mean calibration error that a perfectly calibrated model would show here.

    The hits of bin b are then binomial, and E|hits − n p| has De Moivre's closed form,
    2 ν C(n, ν) p^ν (1−p)^(n−ν+1) with ν = ⌊np⌋ + 1; rows of one patient in a bin make it worth
    fewer rows, n/D_b.

    Reference: Diaconis and Zabell, Closed form summation for classical distributions, Statistical
    Science 6 (1991) 284–302.
    """
    bins = answers.sums()
    deviation = bins.number * _mean_deviation(_effective_number(answers, bins, prior_icc), bins)
    return float(deviation.sum()) / bins.n_answers


def _mean_deviation(effective: FloatArray, bins: Bins) -> FloatArray:
    """Return E|hits/n − p| of every bin, between whole numbers n on a straight line in 1/√n."""
    below = np.maximum(np.floor(effective), 1.0)
    above = below + 1
    parts = [de_moivre(n, bins.confidence) for n in (below, above)]
    steps = [1 / np.sqrt(n) for n in (below, np.maximum(effective, 1.0), above)]
    share = (steps[0] - steps[1]) / (steps[0] - steps[2])
    return (1 - share) * parts[0] + share * parts[1]


def de_moivre(n: FloatArray, p: FloatArray) -> FloatArray:
    """Return E|hits/n − p| of n independent rows that are right with probability p."""
    middle = np.minimum(np.floor(n * p) + 1, n)
    chosen = special.gammaln(n + 1) - special.gammaln(middle + 1) - special.gammaln(n - middle + 1)
    log_share = chosen + special.xlogy(middle, p) + special.xlog1py(n - middle + 1, -p)
    found: FloatArray = 2 * middle * np.exp(log_share) / n
    return found


def _effective_number(answers: BinnedAnswers, bins: Bins, prior_icc: float) -> FloatArray:
    """Return how many independent rows every bin is worth, n/(1 + (k̄ − 1)ρ)."""
    correlation = residual_correlation(answers, prior_icc=prior_icc)
    if correlation == 0:
        return bins.number
    cells = PatientCells.of(answers, bins)
    together = np.bincount(cells.place, weights=cells.number**2)
    return bins.number / (1 + (together / bins.number - 1) * correlation)


@dataclass(frozen=True, slots=True, eq=False)
class PatientCells:
    """The rows that a patient has in a bin: patient, place of the bin and number of each."""

    unit: IntArray
    place: IntArray
    number: FloatArray

    @classmethod
    def of(cls, answers: BinnedAnswers, bins: Bins) -> PatientCells:
        """Count the rows, by bin and then by patient."""
        n_units = int(answers.unit.max()) + 1
        cells = bins.place * n_units
        cells += answers.unit
        cells.sort()
        starts = np.flatnonzero(np.append(True, cells[1:] != cells[:-1]))
        number = np.diff(starts, append=cells.size).astype(np.float64)
        place, unit = np.divmod(cells[starts], n_units)
        return cls(unit, place, number)

    def pairs(self) -> FloatArray:
        """Return Σ n_b·n_b' over patients (bins × bins): pairs of rows of one patient."""
        rows = sparse.csr_array((self.number, (self.unit, self.place)))
        counted: FloatArray = (rows.T @ rows).toarray()
        return counted


def residual_correlation(answers: BinnedAnswers, *, prior_icc: float = PRIOR_ICC) -> float:
    """Return the correlation of rows of one patient that their confidences do not explain.

    Residuals e = right − confidence, less their mean; ρ̂ is the sum of their products over pairs
    of rows of one patient, divided by what it were at correlation 1. It is shrunk like the design
    effect of a share.
    """
    rows = answers.per_unit()
    rows = rows[rows > 0]
    mean_rows = float(rows @ rows) / float(rows.sum())
    if mean_rows == 1:
        return 0.0
    distance = answers.right - answers.confidence
    shift = float(distance.mean())
    expected = np.clip(answers.confidence + shift, 0.0, 1.0)
    scale = np.sqrt(expected * (1 - expected))
    products, possible = (_pairs(answers, column) for column in (distance - shift, scale))
    n_equal = float(rows.sum()) / mean_rows
    assumed = 1 + (mean_rows - 1) * prior_icc
    seen, telling = assumed, 0.0
    if possible > 0 and n_equal > 1:
        # The mean was fitted: each patient's residual is short of what it takes off itself.
        seen = max(1.0, 1 + (mean_rows - 1) * products / possible * n_equal / (n_equal - 1))
        right = answers.per_unit(answers.right.astype(np.float64))
        all_rows = answers.per_unit()
        n_mixed = min(np.count_nonzero(right > 0), np.count_nonzero(right < all_rows))
        telling = min(float(n_mixed), n_equal - 1)
    effect = (telling * seen + assumed) / (telling + 1)
    return float(np.clip((effect - 1) / (mean_rows - 1), 0.0, 1.0))


def _pairs(answers: BinnedAnswers, values: FloatArray) -> float:
    """Return the sum of products over ordered pairs of different rows of one patient."""
    together = answers.per_unit(values)
    return float(together @ together) - float(values @ values)


def redrawn_shares(
    answers: BinnedAnswers,
    bins: Bins,
    accuracy: FloatArray,
    correlation: float,
    *,
    options: BootstrapOptions,
) -> FloatArray:
    """Return shares of hits (bins × candidates × draws) redrawn under candidate accuracies.

    With probability √ρ a row takes the uniform of its patient in place of one of its own, and it is
    right if that is below the accuracy of its bin: two rows of one patient share their uniform with
    probability ρ. Every candidate has the same random numbers, so that neighbours differ little.
    """
    shares = np.zeros((*accuracy.shape, options.n_resamples))
    own = np.broadcast_to(
        bins.number.astype(np.int64)[:, None], (bins.number.size, options.n_resamples)
    )
    # Rounded, so that sums in another order of rows draw the same hits.
    accuracy = np.round(accuracy, 12)
    if correlation > 0:
        cells = PatientCells.of(answers, bins)
        if cells.number.size > _MOST_CELLS:
            return _normal_shares(bins, accuracy, correlation, cells.pairs(), options)
        shares, n_copied = _copied_hits(cells, accuracy, correlation, options)
        own = own - n_copied
    for k, a in enumerate(accuracy.T):
        shares[:, k] += np.random.default_rng([options.seed, 3]).binomial(own, a[:, None])
    shares /= bins.number[:, None, None]
    return shares


def _copied_hits(
    cells: PatientCells, accuracy: FloatArray, correlation: float, options: BootstrapOptions
) -> tuple[FloatArray, IntArray]:
    """Return the hits (bins × candidates × draws) and the number of rows that copy a patient."""
    generator = np.random.default_rng([options.seed, 2])
    n_draws, n_steps = options.n_resamples, accuracy.shape[1] + 1
    shared = generator.random((int(cells.unit.max()) + 1, n_draws))
    rows = cells.number.astype(np.int64)[:, None]
    copying = generator.binomial(rows, math.sqrt(correlation), (rows.size, n_draws))
    hits = np.empty((*accuracy.shape, n_draws))
    number = np.empty((accuracy.shape[0], n_draws), dtype=np.int64)
    for b, limits in enumerate(accuracy):
        here = cells.place == b
        rising = limits if limits[-1] >= limits[0] else limits[::-1]
        # A uniform is below all accuracies from the first that is above it.
        first = np.searchsorted(rising, shared[cells.unit[here]], side="right")
        first += np.arange(n_draws) * n_steps
        added = np.bincount(first.ravel(), copying[here].ravel(), n_draws * n_steps)
        below = np.cumsum(added.reshape(n_draws, n_steps), axis=1)[:, :-1].T
        hits[b] = below if rising is limits else below[::-1]
        number[b] = copying[here].sum(axis=0)
    return hits, number


def _normal_shares(
    bins: Bins,
    accuracy: FloatArray,
    correlation: float,
    pairs: FloatArray,
    options: BootstrapOptions,
) -> FloatArray:
    """Return the same of many patients, whose hits are as good as normal.

    Two rows that share a uniform are both right with probability min(a, a').
    """
    number = bins.number[:, None]
    generator = np.random.default_rng([options.seed, 2])
    normal = generator.standard_normal((number.size, options.n_resamples))
    shares = np.empty((*accuracy.shape, options.n_resamples))
    for k, a in enumerate(accuracy.T):
        covariance = correlation * pairs * (np.minimum.outer(a, a) - np.outer(a, a))
        covariance += np.diag((1 - correlation) * bins.number * a * (1 - a))
        value, vector = np.linalg.eigh(covariance)
        root = vector * np.sqrt(np.maximum(value, 0.0)) @ vector.T
        shares[:, k] = np.clip(a[:, None] + root @ normal / number, 0.0, 1.0)
    return shares


def consistency_band(
    answers: BinnedAnswers,
    *,
    options: BootstrapOptions | None = None,
    prior_icc: float = PRIOR_ICC,
) -> tuple[FloatArray, FloatArray]:
    """Return where the accuracy of every bin lies if the model is perfectly calibrated.

    One value per bin, from 0 to the highest number; NaN where a bin is empty. Hits are redrawn at
    the mean confidence of the bin, rows of one patient alike as often as `residual_correlation`
    asks for; the ends are quantiles of the mid-distribution, so that about 1 − level of all bins
    of calibrated models lie outside, however few answers a bin has.

    Reference: Bröcker and Smith, Increasing the reliability of reliability diagrams, Weather and
    Forecasting 22 (2007) 651–661.
    """
    drawn = options or BootstrapOptions(n_resamples=_N_REDRAWS)
    n_bins = int(answers.bin.max(initial=-1)) + 1
    low, high = np.full((2, n_bins), np.nan)
    if answers.confidence.size == 0:
        return low, high
    bins = answers.sums()
    filled = np.unique(answers.bin)
    correlation = residual_correlation(answers, prior_icc=prior_icc)
    tail = (1 - check_level(drawn.level)) / 2
    shares = redrawn_shares(answers, bins, bins.confidence[:, None], correlation, options=drawn)
    ends = [_mid_quantiles(share, tail) for share in shares[:, 0]]
    low[filled], high[filled] = np.transpose(ends)
    return low, high


def _mid_quantiles(values: FloatArray, tail: float) -> tuple[float, float]:
    """Return the quantiles of the distribution in which every value counts half at itself."""
    level, number = np.unique(values, return_counts=True)
    middle = (np.cumsum(number) - number / 2) / values.size
    low, high = np.interp([tail, 1 - tail], middle, level)
    return float(low), float(high)

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

# Beyond this many patients in a bin its hits are as good as normal.
_MOST_REDRAWN = 500
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
        return ShareDistribution.of(wrong, self.per_unit(), prior_icc=prior_icc, level=level)


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
    generator = np.random.default_rng([drawn.seed, 3])
    tail = (1 - check_level(drawn.level)) / 2
    for place, number in enumerate(filled):
        unit = answers.unit[bins.place == place]
        accuracy = float(bins.confidence[place])
        sizes = np.unique(unit, return_counts=True)[1]
        ends = _bin_band(sizes, accuracy, correlation, (generator, drawn.n_resamples, tail))
        low[number], high[number] = ends
    return low, high


def _bin_band(
    sizes: IntArray,
    accuracy: float,
    correlation: float,
    draw: tuple[np.random.Generator, int, float],
) -> tuple[float, float]:
    generator, n_draws, tail = draw
    total = float(sizes.sum())
    if sizes.size > _MOST_REDRAWN:
        effect = 1 + (float(sizes @ sizes) / total - 1) * correlation
        half = special.ndtri(1 - tail) * math.sqrt(accuracy * (1 - accuracy) * effect / total)
        return max(0.0, accuracy - half), min(1.0, accuracy + half)
    shape = (sizes.size, n_draws)
    alike = generator.binomial(sizes[:, None], math.sqrt(correlation), shape)
    hits = (generator.random(shape) < accuracy) * alike
    hits += generator.binomial(sizes[:, None] - alike, accuracy)
    return _mid_quantiles(hits.sum(axis=0) / total, tail)


def _mid_quantiles(values: FloatArray, tail: float) -> tuple[float, float]:
    """Return the quantiles of the distribution in which every value counts half at itself."""
    level, number = np.unique(values, return_counts=True)
    middle = (np.cumsum(number) - number / 2) / values.size
    low, high = np.interp([tail, 1 - tail], middle, level)
    return float(low), float(high)

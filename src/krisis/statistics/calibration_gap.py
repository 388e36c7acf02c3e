"""Interval of the calibration error by test inversion, and the unbiased value inside it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import special

from krisis.statistics.bootstrap import BootstrapOptions, pooled_units, resample_counts
from krisis.statistics.calibrated_bins import BinnedAnswers, Bins, null_gap
from krisis.statistics.intervals import Interval
from krisis.statistics.shares import PRIOR_ICC, ShareDistribution, share_interval

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

METHOD = "test_inversion"
N_REDRAWS = 1000

_N_CANDIDATES = 8  # on either side of the observed error
_FARTHEST = 5.0  # standard deviations of the error beyond the observed one
# Beyond this many answers the hits of bins are drawn as normal, with the covariance of patients.
_MOST_REDRAWN = 2000
_CELLS_PER_BLOCK = 1_000_000
# More answers are added up as they come: bringing them in order would take the memory of a table.
_MOST_ORDERED = 1_000_000


class CalibrationGap(NamedTuple):
    """Interval of the calibration error, the median-unbiased value inside it, the null value."""

    interval: Interval
    debiased: float
    null: float


@dataclass(frozen=True, slots=True, eq=False)
class Redrawn:
    """Outcomes redrawn under candidates, and patients resampled with their confidences.

    ``accuracy`` is bins × candidates, ``hits`` bins × candidates × draws; ``number`` and
    ``confidence`` are the resampled answers and sums of confidence, bins × draws.
    """

    bins: Bins
    accuracy: FloatArray
    hits: FloatArray
    number: FloatArray
    confidence: FloatArray


class GapMeasure:
    """The calibration error Σ w|accuracy − confidence|.

    ``dense`` candidates lie around the observed size, however many rows there are.
    """

    dense: ClassVar[bool] = False

    def size(self, bins: Bins, accuracy: FloatArray) -> FloatArray:
        """Return the size for accuracies (bins × anything)."""
        return bins.error(accuracy)

    def redrawn(self, drawn: Redrawn) -> FloatArray:
        """Return the sizes (candidates × draws) of redrawn outcomes.

        Outcomes and confidences vary apart: the gap of a bin is that of the redrawn outcomes plus
        what resampling changes in accuracy and confidence, hits + a(n' − n) − Σ'c.
        """
        more = drawn.number - drawn.bins.number[:, None]
        gap = drawn.hits + drawn.accuracy[:, :, None] * more[:, None, :]
        gap -= drawn.confidence[:, None, :]
        total: FloatArray = np.abs(gap).sum(axis=0) / drawn.number.sum(axis=0)
        return total


class RootMeanSquare(GapMeasure):
    """√ Σ w (accuracy − confidence)²."""

    dense = True

    def size(self, bins: Bins, accuracy: FloatArray) -> FloatArray:
        """Return the size for accuracies (bins × anything)."""
        square = np.square(accuracy.reshape(bins.number.size, -1) - bins.confidence[:, None])
        root: FloatArray = np.sqrt(bins.number @ square / bins.n_answers)
        return root.reshape(accuracy.shape[1:])

    def redrawn(self, drawn: Redrawn) -> FloatArray:
        """Return the sizes of redrawn outcomes over resampled confidences."""
        bins = drawn.bins
        gap = drawn.hits / bins.number[:, None, None] - bins.confidence[:, None, None]
        square = np.einsum("bd,bcd->cd", drawn.number, np.square(gap))
        root: FloatArray = np.sqrt(square / drawn.number.sum(axis=0))
        return root


def calibration_gap_interval(
    answers: BinnedAnswers,
    *,
    options: BootstrapOptions | None = None,
    prior_icc: float = PRIOR_ICC,
    measure: GapMeasure | None = None,
) -> CalibrationGap:
    """Return every calibration error under which the observed one would not surprise.

    The observed error T₀ = Σ w|accuracy − confidence| is biased upwards. A candidate error t moves
    the accuracies of the bins along the observed gaps, a = c + t·gap/T₀; under it the outcomes of
    all rows are redrawn, rows of one patient alike as often as their correlation asks for, and
    patients are resampled with their confidences; the candidate stays unless fewer than α/2 of the
    redrawn errors lie beyond T₀ on one side. The noise thus comes from the candidate: where no
    error was seen there still is some. The value under which half of the redrawn errors exceed T₀
    is median unbiased. The interval also reaches as far as accuracy may lie from the mean
    confidence, for no binned error is less than that of the whole. The root mean square of the
    gaps has its interval the same way.

    Reference: Carpenter, Test inversion bootstrap confidence intervals, Journal of the Royal
    Statistical Society B 61 (1999) 159–172.
    """
    drawn = options or BootstrapOptions(n_resamples=N_REDRAWS)
    if answers.confidence.size == 0:
        nothing = Interval.undefined("no_rows", level=drawn.level, method=METHOD)
        return CalibrationGap(nothing, math.nan, math.nan)
    bins = answers.sums()
    errors = answers.errors(prior_icc=prior_icc, level=drawn.level)
    chosen = measure or GapMeasure()
    seen = bins.hits / bins.number
    observed = float(chosen.size(bins, seen))
    low, debiased, high = 0.0, 0.0, 0.0
    if np.any(seen != bins.confidence):
        accuracy = _candidates(bins, errors, chosen)
        redraw = _redrawn if answers.confidence.size <= _MOST_REDRAWN else _normal
        resampled = _Confidences.of(answers, bins, drawn)
        sizes = redraw(
            resampled, bins, accuracy, chosen, correlation=errors.correlation, seed=drawn.seed
        )
        beyond = _share_beyond(sizes, observed)
        tail = (1 - drawn.level) / 2
        low, debiased, high = _inverted(chosen.size(bins, accuracy), beyond, tail)
    whole = _error_of_the_whole(answers, bins, level=drawn.level, prior_icc=prior_icc)
    high = min(1.0, max(high, observed, whole))
    interval = Interval(min(low, observed), high, drawn.level, METHOD)
    return CalibrationGap(interval, debiased, null_gap(answers, prior_icc=prior_icc))


def _candidates(bins: Bins, errors: ShareDistribution, measure: GapMeasure) -> FloatArray:
    """Return the accuracies (bins × candidates) from the size 0 to far beyond the observed one."""
    share, c = bins.number / bins.n_answers, bins.confidence
    gap = bins.hits / bins.number - c
    observed = float(share @ np.abs(gap))
    variance = np.maximum(c * (1 - c), 0.25 / bins.number) / bins.number * errors.design_effect
    farthest = observed + _FARTHEST * math.sqrt(float(share**2 @ variance))
    least = max(0.0, 2 * observed - farthest) if measure.dense else 0.0
    t = np.concatenate(
        [
            np.zeros(int(least > 0)),
            np.linspace(least, observed, _N_CANDIDATES),
            np.linspace(observed, farthest, _N_CANDIDATES + 1)[1:],
        ]
    )
    accuracy = np.clip(c[:, None] + gap[:, None] / observed * t, 0.0, 1.0)
    error = measure.size(bins, accuracy)
    growing: BoolArray = np.concatenate([[True], np.diff(error) > 1e-12])
    kept: FloatArray = accuracy[:, growing]
    return kept


@dataclass(frozen=True, slots=True, eq=False)
class _Confidences:
    """Answers and sums of confidence of every bin (bins × draws) when patients are resampled.

    ``unit`` numbers the patient of every row and ``place`` is its bin; rows are ordered by bin and
    patient unless they are very many.
    """

    unit: IntArray
    place: IntArray
    number: FloatArray
    confidence: FloatArray

    @classmethod
    def of(cls, answers: BinnedAnswers, bins: Bins, options: BootstrapOptions) -> _Confidences:
        unit, place, confidence = answers.unit, bins.place, answers.confidence
        if confidence.size <= _MOST_ORDERED:
            order = np.lexsort((unit, place))
            unit, place, confidence = unit[order], place[order], confidence[order]
        present = np.bincount(unit) > 0
        if not present.all():
            unit = (np.cumsum(present) - 1)[unit]
        pool = pooled_units(int(np.count_nonzero(present)))
        n_pools = int(pool.max()) + 1
        shape = (bins.number.size, n_pools)
        cell = pool[unit]
        cell += place * n_pools
        number = np.bincount(cell, minlength=shape[0] * shape[1]).reshape(shape)
        mass = np.bincount(cell, confidence, shape[0] * shape[1]).reshape(shape)
        sums = [np.vstack([number, mass]) @ counts for counts in resample_counts(n_pools, options)]
        drawn = np.concatenate(sums, axis=1)
        return cls(unit, place, drawn[: shape[0]], drawn[shape[0] :])

    def redrawn(self, hits: FloatArray, accuracy: FloatArray, bins: Bins, draws: slice) -> Redrawn:
        """Return redrawn hits (bins × candidates × draws) with the confidences of their draws."""
        return Redrawn(bins, accuracy, hits, self.number[:, draws], self.confidence[:, draws])


def _redrawn(
    resampled: _Confidences,
    bins: Bins,
    accuracy: FloatArray,
    measure: GapMeasure,
    *,
    correlation: float,
    seed: int,
) -> FloatArray:
    """Return redrawn errors (candidates × draws), from the same uniforms for all candidates.

    A row is right if its uniform is below the accuracy of its bin, and with probability √ρ that
    uniform is its patient's: two rows of one patient then share it with probability ρ, which is
    their correlation whatever the accuracy.
    """
    generator = np.random.default_rng([seed, 2])
    ends = np.cumsum(bins.number).astype(np.int64)
    n_draws = resampled.number.shape[1]
    block = max(1, _CELLS_PER_BLOCK // resampled.unit.size)
    found = []
    for start in range(0, n_draws, block):
        draws = slice(start, min(start + block, n_draws))
        uniform = uniforms(generator, resampled.unit, draws.stop - start, correlation)
        hits = np.empty((*accuracy.shape, draws.stop - start))
        for b, (first, last) in enumerate(zip([0, *ends[:-1]], ends, strict=True)):
            hits[b] = _counts_below(uniform[first:last], accuracy[b])
        found.append(measure.redrawn(resampled.redrawn(hits, accuracy, bins, draws)))
    return np.concatenate(found, axis=1)


def _counts_below(uniform: FloatArray, limits: FloatArray) -> FloatArray:
    """Return how many uniforms of each column lie below each of the rising or falling limits."""
    rising = limits if limits[-1] >= limits[0] else limits[::-1]
    n_draws, n_steps = uniform.shape[1], limits.size + 1
    reached = np.searchsorted(rising, uniform, side="right") + np.arange(n_draws) * n_steps
    number = np.bincount(reached.ravel(), minlength=n_draws * n_steps).reshape(n_draws, n_steps)
    below: FloatArray = np.cumsum(number, axis=1)[:, :-1].T.astype(np.float64)
    return below if rising is limits else below[::-1]


def uniforms(
    generator: np.random.Generator, unit: IntArray, n_draws: int, correlation: float
) -> FloatArray:
    """Return uniforms (rows × draws), some of them those of the patient."""
    own = generator.random((unit.size, n_draws))
    if correlation <= 0:
        return own
    shared = generator.random((int(unit.max()) + 1, n_draws))
    copied = generator.random((unit.size, n_draws)) < math.sqrt(correlation)
    return np.where(copied, shared[unit], own)


def _normal(
    resampled: _Confidences,
    bins: Bins,
    accuracy: FloatArray,
    measure: GapMeasure,
    *,
    correlation: float,
    seed: int,
) -> FloatArray:
    """Return the same from normal hits with the covariance that redrawing every row would have.

    Two rows of one patient share their uniform with probability ρ and are then both right with
    probability min(a, a'): cov = ρ(min(a, a') − a a')·pairs, besides a(1−a) of each row alone.
    """
    n_bins, n_draws = resampled.number.shape
    pairs = _pairs(resampled, n_bins) if correlation > 0 else np.zeros((n_bins, n_bins))
    noise = np.random.default_rng([seed, 2]).standard_normal((n_bins, n_draws))
    hits = np.empty((*accuracy.shape, n_draws))
    for k, a in enumerate(accuracy.T):
        shared = np.minimum.outer(a, a) - np.outer(a, a)
        covariance = correlation * shared * pairs + np.diag(bins.number * a * (1 - a))
        value, vector = np.linalg.eigh(covariance)
        root = vector * np.sqrt(np.maximum(value, 0.0)) @ vector.T
        drawn = (bins.number * a)[:, None] + root @ noise
        hits[:, k] = np.clip(drawn, 0.0, bins.number[:, None])
    return measure.redrawn(resampled.redrawn(hits, accuracy, bins, slice(None)))


def _pairs(rows: _Confidences, n_bins: int) -> FloatArray:
    """Return how many pairs of different rows of one patient lie in each pair of bins."""
    cell = rows.unit * n_bins
    cell += rows.place
    cell.sort()
    pairs = -np.diag(np.bincount(rows.place, minlength=n_bins).astype(np.float64))
    width = max(1, _CELLS_PER_BLOCK // n_bins) * n_bins
    for first in range(0, int(cell[-1]) + 1, width):
        inside = slice(*np.searchsorted(cell, [first, first + width]))
        number = np.bincount(cell[inside] - first, minlength=width).reshape(-1, n_bins)
        pairs += number.T.astype(np.float64) @ number
    return pairs


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
    """Return how far accuracy may lie from the mean confidence, both being uncertain.

    The distances of the limits of accuracy and of the mean confidence are squared and added
    (Zou and Donner 2008), as if the two had nothing to do with each other.
    """
    rows = answers.per_unit()
    right = answers.per_unit(answers.right.astype(np.float64))
    accuracy = share_interval(right, rows, level=level, prior_icc=prior_icc)
    mean = float(answers.confidence.mean())
    beyond = answers.per_unit(answers.confidence - mean) / bins.n_answers
    n_patients = int(np.count_nonzero(rows))
    spread = 0.0
    if n_patients > 1:
        student = float(special.stdtrit(n_patients - 1, 0.5 + level / 2))
        spread = student * math.sqrt(n_patients / (n_patients - 1) * float(beyond @ beyond))
    gap = float(right.sum()) / bins.n_answers - mean
    below = math.hypot(mean + gap - accuracy.low, spread)
    above = math.hypot(accuracy.high - mean - gap, spread)
    return max(abs(gap - below), abs(gap + above))

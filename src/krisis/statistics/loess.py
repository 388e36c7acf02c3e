"""Local quadratic regression of outcomes on probabilities, as R's `loess` fits it directly."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from krisis.statistics.calibrated_bins import Bins, groups_of
from krisis.statistics.calibration_gap import GapMeasure, Redrawn

FloatArray = NDArray[np.float64]
Summary = Literal["mean"] | float

SPAN = 0.75
# Smoothing costs levels × levels: beyond this many they are grouped by rank and the curve
# interpolated, which moves it by less than 1e-5.
_MOST_SMOOTHED = 1000
# A sum of squares of a polynomial below this share of the weights is rounding.
_ROUNDING = 1e-24


def local_kernel(x: FloatArray, rows: FloatArray, at: int) -> FloatArray:
    """Return the weight of every row of each level in the value at one level (levels × columns).

    ``x`` are the different probabilities in rising order, ``rows`` (levels × columns) says how many
    rows each has. Of N rows the ⌊0.75 N⌋ nearest count, by (1 − (distance/farthest)³)³; a parabola
    is fitted to them by least squares, in polynomials that are orthogonal under these weights.
    Where fewer than three levels have weight, the parabola is a line or a constant: the fit then
    goes through the means of the levels. NaN where fewer than two rows count.

    Reference: Cleveland and Grosse, Computational methods for local regression, Statistics and
    Computing 1 (1991) 47–62.
    """
    offset = x - x[at]
    distance = np.abs(offset)
    order = np.argsort(distance, kind="stable")
    within = np.cumsum(rows[order], axis=0)
    needed = np.floor(SPAN * within[-1] + 1e-5)
    farthest = distance[order][np.argmax(within >= needed, axis=0)]
    # Where the nearest rows all have one probability, no other row counts.
    alone = np.broadcast_to((distance == 0)[:, None], rows.shape)
    with np.errstate(invalid="ignore", divide="ignore"):
        d = np.where(farthest > 0, offset[:, None] / farthest, 0.0)
        tricube = np.where(farthest > 0, np.clip(1 - np.abs(d) ** 3, 0.0, None) ** 3, alone)
        kernel = tricube * _value_at(at, d, rows * tricube)
    return np.where(needed >= 2, kernel, np.nan)


def _value_at(at: int, d: FloatArray, weight: FloatArray) -> FloatArray:
    """Return Σ p(d) p(d_at) / Σ w p² over the orthogonal polynomials p of degree 0, 1 and 2."""
    total = weight.sum(axis=0)
    before, polynomial = np.zeros_like(d), np.ones_like(d)
    square_before, square = np.ones_like(total), total
    found: FloatArray = polynomial / total
    determined = np.ones_like(total, dtype=np.bool_)
    for degree in (1, 2):
        shift = (weight * d * polynomial**2).sum(axis=0) / square
        carried = square / square_before if degree > 1 else 0.0
        before, polynomial = polynomial, (d - shift) * polynomial - carried * before
        square_before, square = square, (weight * polynomial**2).sum(axis=0)
        determined = determined & (square > _ROUNDING * total)
        polynomial = np.where(determined, polynomial, 0.0)
        square = np.where(determined, square, 1.0)
        found = found + polynomial * polynomial[at] / square
    return found


def smoother(x: FloatArray, rows: FloatArray) -> FloatArray:
    """Return the matrix that turns the hits of every level into the fitted value at every level."""
    return np.array([local_kernel(x, rows[:, None], at)[:, 0] for at in range(x.size)])


def loess(x: FloatArray, rows: FloatArray, hits: FloatArray) -> FloatArray:
    """Return the fitted value at every level (levels × columns) of hits among rows."""
    return np.array([(local_kernel(x, rows, at) * hits).sum(axis=0) for at in range(x.size)])


def smoothed(level: FloatArray, rows: FloatArray, hits: FloatArray) -> FloatArray:
    """Return the curve at every level; of very many levels between groups of them."""
    if level.size <= _MOST_SMOOTHED:
        return loess(level, rows, hits)
    group = groups_of(rows.sum(axis=1), _MOST_SMOOTHED)
    starts = np.flatnonzero(np.diff(group, prepend=-1))
    total = rows.sum(axis=1)
    x = np.add.reduceat(level * total, starts) / np.add.reduceat(total, starts)
    curve = loess(x, np.add.reduceat(rows, starts), np.add.reduceat(hits, starts))
    return np.array([np.interp(level, x, column) for column in curve.T]).T


def summarised(gap: FloatArray, rows: FloatArray, summary: Summary) -> FloatArray:
    """Return the mean of |gap| over rows (levels × columns), or its quantile as R's type 7."""
    size = np.abs(gap)
    n = rows.sum(axis=0)
    if summary == "mean":
        mean: FloatArray = (rows * size).sum(axis=0) / np.where(n > 0, n, math.nan)
        return mean
    order = np.argsort(np.where(rows > 0, size, np.inf), axis=0, kind="stable")
    sorted_size = np.take_along_axis(size, order, axis=0)
    reached = np.cumsum(np.take_along_axis(rows, order, axis=0), axis=0)
    position = (n - 1) * summary
    first, last = (
        np.take_along_axis(sorted_size, np.argmax(reached > at, axis=0)[None], axis=0)[0]
        for at in (np.floor(position), np.ceil(position))
    )
    found: FloatArray = first + (position - np.floor(position)) * (last - first)
    return np.where(n > 0, found, math.nan)


class SmoothedMeasure(GapMeasure):
    """A summary of the distances between curve and diagonal."""

    def __init__(self, summary: Summary) -> None:
        self.summary = summary
        self._matrix: FloatArray | None = None

    def _smooth(self, bins: Bins, accuracy: FloatArray) -> FloatArray:
        if self._matrix is None:
            self._matrix = smoother(bins.confidence, bins.number) * bins.number
        flat: FloatArray = self._matrix @ accuracy.reshape(bins.number.size, -1)
        return flat

    def end(self, bins: Bins) -> FloatArray:
        """Return the curve: single outcomes would be no accuracies."""
        return np.clip(self._smooth(bins, bins.hits / bins.number)[:, 0], 0.0, 1.0)

    def size(self, bins: Bins, accuracy: FloatArray) -> FloatArray:
        """Return the summary of the distances between curve and diagonal."""
        gap = self._smooth(bins, accuracy) - bins.confidence[:, None]
        rows = np.broadcast_to(bins.number[:, None], gap.shape)
        return summarised(gap, rows, self.summary).reshape(accuracy.shape[1:])

    def redrawn(self, drawn: Redrawn) -> FloatArray:
        """Return the sizes of redrawn curves over resampled confidences."""
        bins, shape = drawn.bins, drawn.hits.shape
        accuracy = drawn.hits / bins.number[:, None, None]
        gap = self._smooth(bins, accuracy) - bins.confidence[:, None]
        rows = np.broadcast_to(drawn.number[:, None, :], shape).reshape(gap.shape)
        return summarised(gap, rows, self.summary).reshape(shape[1:])

    def least(self, whole: float) -> float:
        """Return the distance of the whole for a mean; quantiles may be smaller."""
        return whole if self.summary == "mean" else 0.0

"""Local quadratic regression of outcomes on probabilities, as R's `loess` fits it directly."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from krisis.statistics.calibrated_bins import groups_of

FloatArray = NDArray[np.float64]
Summary = Literal["mean"] | float

SPAN = 0.75
# Smoothing costs levels × levels: beyond this many they are grouped by rank and the curve
# interpolated, which moves its mean distance by less than 1e-4.
_MOST_SMOOTHED = 1000
# A sum of squares of a polynomial below this share of the weights is rounding.
_ROUNDING = 1e-24
# Probabilities nearer than this are one.
_SAME = 1e-12
_CELLS_PER_BLOCK = 50_000


def kernels(x: FloatArray, rows: FloatArray, at: slice) -> FloatArray:
    """Return the weight of a row of each level in the value at some levels (at × columns × levels).

    ``x`` are the different probabilities in rising order, ``rows`` (columns × levels) says how many
    rows each has. Of N rows the ⌊0.75 N⌋ nearest count, by (1 − (distance/farthest)³)³; a parabola
    is fitted to them by least squares, in polynomials that are orthogonal under these weights.
    Where fewer than three levels have weight, the parabola is a line or a constant: the fit then
    goes through the means of the levels. NaN where fewer than two rows count.

    Reference: Cleveland and Grosse, Computational methods for local regression, Statistics and
    Computing 1 (1991) 47–62.
    """
    offset = x - x[at, None]
    distance = np.abs(offset)
    order = np.argsort(distance, axis=1, kind="stable")
    within = np.cumsum(rows[:, order], axis=2).swapaxes(0, 1)
    needed = np.floor(SPAN * within[:, :, -1:] + 1e-5)
    place = np.argmax(within >= needed, axis=2)
    farthest = np.take_along_axis(np.take_along_axis(distance, order, 1), place, 1)[:, :, None]
    # Where the nearest rows all have one probability, no other row counts.
    wide = farthest > _SAME
    # What lies beyond the farthest has no weight, wherever it is put.
    d = np.clip(offset[:, None, :] / np.where(wide, farthest, 1.0), -1.0, 1.0)
    beyond = np.maximum(1 - np.abs(d) * d * d, 0.0)
    tricube = np.where(wide, beyond * beyond * beyond, (distance <= _SAME)[:, None, :])
    with np.errstate(invalid="ignore", divide="ignore"):
        kernel: FloatArray = tricube * _values_at(at, d, rows * tricube)
    return np.where(needed >= 2, kernel, np.nan)


def _values_at(at: slice, d: FloatArray, weight: FloatArray) -> FloatArray:
    """Return Σ p(d) p(0) / Σ w p² over the orthogonal polynomials p of degree 0, 1 and 2."""
    total = weight.sum(axis=2, keepdims=True)
    own = np.arange(d.shape[2])[at, None, None]
    before, polynomial = np.zeros_like(d), np.ones_like(d)
    square_before, square = np.ones_like(total), total
    found: FloatArray = polynomial / total
    determined = np.ones_like(total, dtype=np.bool_)
    for degree in (1, 2):
        weighted = weight * polynomial * polynomial
        shift = (weighted * d).sum(axis=2, keepdims=True) / square
        carried = square / square_before if degree > 1 else 0.0
        before, polynomial = polynomial, (d - shift) * polynomial - carried * before
        norm = (weight * polynomial * polynomial).sum(axis=2, keepdims=True)
        determined = determined & (norm > _ROUNDING * total)
        square_before, square = square, np.where(determined, norm, 1.0)
        polynomial = np.where(determined, polynomial, 0.0)
        here = np.take_along_axis(polynomial, np.broadcast_to(own, (*d.shape[:2], 1)), axis=2)
        found = found + polynomial * (here / square)
    return found


def _parts(n_levels: int, n_columns: int) -> Iterator[slice]:
    size = max(1, _CELLS_PER_BLOCK // (n_levels * n_columns))
    yield from (slice(start, start + size) for start in range(0, n_levels, size))


def loess(x: FloatArray, rows: FloatArray, hits: FloatArray) -> FloatArray:
    """Return the fitted value at every level (levels × columns) of hits among rows."""
    n, h = np.ascontiguousarray(rows.T), np.ascontiguousarray(hits.T)
    parts = [(kernels(x, n, at) * h).sum(axis=2) for at in _parts(x.size, n.shape[0])]
    return np.concatenate(parts)


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

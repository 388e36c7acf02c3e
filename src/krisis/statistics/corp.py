"""CORP: the Brier score as miscalibration − discrimination + uncertainty, by isotonic fit."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from krisis.statistics.bootstrap import BootstrapOptions
from krisis.statistics.calibrated_bins import BinnedAnswers, residual_correlation
from krisis.statistics.intervals import check_level
from krisis.statistics.shares import PRIOR_ICC

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

_FEW_LEVELS = 50


class Decomposition(NamedTuple):
    """Parts of the Brier score, one value per column: Brier = MCB − DSC + UNC."""

    miscalibration: FloatArray
    discrimination: FloatArray
    uncertainty: FloatArray


def recalibrated(rows: FloatArray, hits: FloatArray) -> FloatArray:
    """Return the isotonic share of hits of every level (levels × columns), levels rising.

    Pooling adjacent violators; NaN where a column has no row at a level. For few levels and many
    columns, max over i ≤ j of min over k ≥ j of the share in the levels i to k, which is the same.
    """
    if rows.shape[0] <= _FEW_LEVELS and rows.shape[1] > _FEW_LEVELS:
        return _largest_of_least(rows, hits)
    found = np.full(hits.shape, math.nan)
    for column, (n, h) in enumerate(zip(rows.T, hits.T, strict=True)):
        held = n > 0
        if held.any():
            found[held, column] = scipy.optimize.isotonic_regression(
                h[held] / n[held], weights=n[held]
            ).x
    return found


def _largest_of_least(rows: FloatArray, hits: FloatArray) -> FloatArray:
    found = np.full(hits.shape, -math.inf)
    for first in range(rows.shape[0]):
        n = np.cumsum(rows[first:], axis=0)
        share = np.where(n > 0, np.cumsum(hits[first:], axis=0) / np.maximum(n, 1e-300), math.inf)
        least = np.minimum.accumulate(share[::-1], axis=0)[::-1]
        np.maximum(found[first:], least, out=found[first:])
    return np.where(rows > 0, found, math.nan)


def decomposition(level: FloatArray, rows: FloatArray, hits: FloatArray) -> Decomposition:
    """Return the parts of the Brier score for columns of rows and hits (levels × columns).

    With p the stated and q the isotonic probability, MCB = mean (p − y)² − mean (q − y)²,
    DSC = mean (ȳ − y)² − mean (q − y)² = mean (q − ȳ)² and UNC = ȳ(1 − ȳ).

    Reference: Dimitriadis, Gneiting and Jordan, Stable reliability diagrams for probabilistic
    classifiers, PNAS 118 (2021) e2016191118.
    """
    fit = np.nan_to_num(recalibrated(rows, hits))
    n = rows.sum(axis=0)
    p = level[:, None]
    with np.errstate(invalid="ignore", divide="ignore"):
        share = hits.sum(axis=0) / n
        stated = (rows * p * p - 2 * p * hits).sum(axis=0)
        fitted = (rows * fit * fit - 2 * fit * hits).sum(axis=0)
        miscalibration = np.maximum((stated - fitted) / n, 0.0)
        discrimination = (rows * np.square(fit - share)).sum(axis=0) / n
    return Decomposition(miscalibration, discrimination, share * (1 - share))


def isotonic_band(
    answers: BinnedAnswers,
    *,
    options: BootstrapOptions | None = None,
    prior_icc: float = PRIOR_ICC,
) -> tuple[FloatArray, FloatArray]:
    """Return where the isotonic share of every level lies if the model is perfectly calibrated.

    Outcomes are redrawn at the stated probabilities, rows of one patient alike as often as
    `residual_correlation` asks for, and fitted again; the ends are quantiles level by level.
    The bins of ``answers`` are levels in rising order.
    """
    drawn = options or BootstrapOptions(n_resamples=1000)
    bins = answers.sums()
    order = np.argsort(bins.place, kind="stable")
    unit = np.unique(answers.unit[order], return_inverse=True)[1]
    starts = np.concatenate([[0], np.cumsum(bins.number)[:-1]]).astype(np.int64)
    chance = np.repeat(bins.confidence, bins.number.astype(np.int64))[:, None]
    correlation = residual_correlation(answers, prior_icc=prior_icc)
    generator = np.random.default_rng([drawn.seed, 4])
    block = max(1, 1_000_000 // unit.size)
    fits = []
    for start in range(0, drawn.n_resamples, block):
        n_draws = min(block, drawn.n_resamples - start)
        right = _uniforms(generator, unit, n_draws, correlation) < chance
        hits = np.add.reduceat(right.astype(np.float64), starts, axis=0)
        fits.append(recalibrated(np.repeat(bins.number[:, None], n_draws, axis=1), hits))
    tail = (1 - check_level(drawn.level)) / 2
    low, high = np.quantile(np.concatenate(fits, axis=1), [tail, 1 - tail], axis=1)
    return low, high


def _uniforms(
    generator: np.random.Generator, unit: IntArray, n_draws: int, correlation: float
) -> FloatArray:
    """Return uniforms (rows × draws), some of them those of the patient.

    With probability √ρ the uniform of a row is that of its patient: two rows of one patient then
    share it with probability ρ, which is the correlation of their outcomes.
    """
    own = generator.random((unit.size, n_draws))
    if correlation <= 0:
        return own
    shared = generator.random((int(unit.max()) + 1, n_draws))
    copied = generator.random((unit.size, n_draws)) < math.sqrt(correlation)
    return np.where(copied, shared[unit], own)

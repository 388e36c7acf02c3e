"""Agreement of several labels per case: Krippendorff's α, with an interval by patient."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from krisis.statistics.bootstrap import BootstrapOptions, cluster_bootstrap, pooled_units
from krisis.statistics.intervals import Interval

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


def coincidences(ratings: IntArray, n_values: int) -> FloatArray:
    """Return how often values meet within each case (cases × values × values).

    ``ratings`` are codes (cases × raters), −1 where one is missing; a case with fewer than two
    ratings meets nothing. Each ordered pair of a case with m ratings counts 1/(m − 1).
    """
    counts = (ratings[:, :, None] == np.arange(n_values)).sum(axis=1).astype(np.float64)
    m = counts.sum(axis=1)
    pairs = counts[:, :, None] * counts[:, None, :]
    pairs[:, np.arange(n_values), np.arange(n_values)] -= counts
    found: FloatArray = pairs / np.where(m > 1, m - 1, 1)[:, None, None]
    return found


def alpha(together: FloatArray, *, ordered: bool) -> FloatArray:
    """Return Krippendorff's α of coincidence matrices (k × values × values).

    α = 1 − (n − 1) Σ o_cd δ²_cd / Σ n_c n_d δ²_cd. For unordered values δ² is 1 where they differ;
    for ordered ones δ_cd = Σ n_g over c ≤ g ≤ d, less (n_c + n_d)/2. NaN where all values are one.

    Reference: Krippendorff, Computing Krippendorff's alpha-reliability (2011).

    >>> pairs = coincidences(np.array([[0, 0], [1, 1], [0, 1], [1, 1]]), 2).sum(axis=0)
    >>> round(float(alpha(pairs[None], ordered=False)[0]), 4)
    0.5333
    """
    n_c = together.sum(axis=2)
    n = n_c.sum(axis=1)
    if ordered:
        upto = np.cumsum(n_c, axis=1) - n_c / 2  # the middle of every value on the joint scale
        distance = np.square(upto[:, :, None] - upto[:, None, :])
    else:
        distance = np.broadcast_to(1 - np.eye(n_c.shape[1]), together.shape)
    seen = (together * distance).sum(axis=(1, 2))
    expected = np.einsum("kc,kd,kcd->k", n_c, n_c, distance)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(expected > 0, 1 - (n - 1) * seen / expected, math.nan)


def krippendorff_alpha(
    ratings: IntArray,
    n_values: int,
    patient: IntArray,
    *,
    ordered: bool,
    options: BootstrapOptions,
) -> tuple[float, Interval]:
    """Return α of codes (cases × raters) and its interval from resampled patients."""
    _, unit = np.unique(patient, return_inverse=True)
    pool = pooled_units(int(unit.max()) + 1)[unit]
    met = coincidences(ratings, n_values).reshape(ratings.shape[0], -1)
    by_pool = np.zeros((int(pool.max()) + 1, n_values**2))
    np.add.at(by_pool, pool, met)

    def statistic(counts: FloatArray) -> dict[str, FloatArray]:
        drawn = (by_pool.T @ counts).T.reshape(-1, n_values, n_values)
        return {"alpha": alpha(drawn, ordered=ordered)}

    found = cluster_bootstrap(statistic, by_pool.shape[0], options=options)
    return found.estimates["alpha"], found.interval("alpha")

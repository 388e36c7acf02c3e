"""Tests for two runs on the same patients: exact McNemar, sign-flip permutation, Holm."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from krisis.errors import InvalidValue

FloatArray = NDArray[np.float64]

# 2^16 sign patterns are enumerated in milliseconds; beyond that they are drawn.
_ENUMERABLE_CLUSTERS = 16
_FLIPS_PER_BLOCK = 4_000_000


@dataclass(frozen=True, slots=True)
class McNemar:
    """The discordant pairs of two runs and their exact two-sided p-value."""

    n_left_only: int
    n_right_only: int
    p_value: float


def mcnemar_exact(left: ArrayLike, right: ArrayLike) -> McNemar:
    """Test whether two runs are right equally often on the same independent rows.

    ``left`` and ``right`` say for every row whether that run was right. With no discordant pair
    the p-value is 1. Rows of one patient are not independent: use `sign_flip_test` with clusters.

    Reference: McNemar, Note on the sampling error of the difference between correlated proportions
    or percentages, Psychometrika 12 (1947) 153–157.

    >>> mcnemar_exact([True, True, True, False], [False, False, False, False])
    McNemar(n_left_only=3, n_right_only=0, p_value=0.25)
    """
    first, second = np.asarray(left, dtype=np.bool_), np.asarray(right, dtype=np.bool_)
    if first.shape != second.shape:
        raise InvalidValue(
            f"the two runs have {first.size} and {second.size} rows; compare the rows of both"
        )
    n_left = int(np.count_nonzero(first & ~second))
    n_right = int(np.count_nonzero(second & ~first))
    n_discordant = n_left + n_right
    tail = float(special.bdtr(min(n_left, n_right), n_discordant, 0.5)) if n_discordant else 1.0
    return McNemar(n_left, n_right, min(1.0, 2 * tail))


@dataclass(frozen=True, slots=True)
class SignFlip:
    """The mean difference of two runs, its two-sided p-value and how many flips it rests on."""

    mean_difference: float
    p_value: float
    n_flips: int
    exact: bool
    n_clusters: int


def sign_flip_test(
    differences: ArrayLike,
    *,
    clusters: ArrayLike | None = None,
    n_flips: int = 10_000,
    seed: int = 42,
) -> SignFlip:
    """Test a mean paired difference by exchanging the two runs, one whole patient at a time.

    Up to 16 clusters that differ, every pattern of signs is tried (exact); beyond that
    ``n_flips`` are drawn and the observed pattern counts as one of them, so that the p-value is
    never 0.

    Reference: Phipson and Smyth, Permutation p-values should never be zero, Statistical
    Applications in Genetics and Molecular Biology 9 (2010) 39.

    >>> sign_flip_test([1.0, 1.0, 1.0]).p_value
    0.25
    """
    values = np.asarray(differences, dtype=np.float64)
    if values.ndim != 1 or not np.isfinite(values).all():
        raise InvalidValue("differences must be one list of finite numbers; drop undefined pairs")
    if n_flips < 1:
        raise InvalidValue(f"n_flips must be 1 or more, not {n_flips!r}")
    sums = _cluster_sums(values, clusters)
    if values.size == 0:
        return SignFlip(math.nan, math.nan, 0, True, 0)
    moving = sums[sums != 0]
    mean = float(values.mean())
    if moving.size <= _ENUMERABLE_CLUSTERS:
        as_extreme = _exact_share(moving)
        return SignFlip(mean, as_extreme, 2**moving.size, True, sums.size)
    p_value = _drawn_share(moving, n_flips, seed)
    return SignFlip(mean, p_value, n_flips, False, sums.size)


def _cluster_sums(values: FloatArray, clusters: ArrayLike | None) -> FloatArray:
    if clusters is None:
        return values
    names = np.asarray(clusters)
    if names.shape != values.shape:
        raise InvalidValue(f"{values.size} differences came with {names.size} clusters; give both")
    _, codes = np.unique(names, return_inverse=True)
    return np.bincount(codes, weights=values).astype(np.float64)


def _extreme(sums: FloatArray, observed: float) -> int:
    # A tolerance, because the same sum in another order differs in its last bits.
    return int(np.count_nonzero(np.abs(sums) >= observed * (1 - 1e-12)))


def _exact_share(moving: FloatArray) -> float:
    sums = np.zeros(1)
    for value in moving:
        sums = np.concatenate([sums - value, sums + value])
    return _extreme(sums, abs(float(moving.sum()))) / sums.size


def _drawn_share(moving: FloatArray, n_flips: int, seed: int) -> float:
    generator = np.random.default_rng(seed)
    observed = abs(float(moving.sum()))
    block = max(1, _FLIPS_PER_BLOCK // moving.size)
    n_extreme = 0
    for start in range(0, n_flips, block):
        signs = generator.integers(0, 2, size=(min(block, n_flips - start), moving.size))
        n_extreme += _extreme((2 * signs - 1) @ moving, observed)
    return (n_extreme + 1) / (n_flips + 1)


def holm(p_values: Mapping[str, float]) -> dict[str, float]:
    """Return p-values adjusted for the number of tests made; NaN stays NaN and is not counted.

    Reference: Holm, A simple sequentially rejective multiple test procedure, Scandinavian Journal
    of Statistics 6 (1979) 65–70.

    >>> holm({"a": 0.01, "b": 0.04, "c": 0.03})
    {'a': 0.03, 'b': 0.06, 'c': 0.06}
    """
    tested = sorted((p, name) for name, p in p_values.items() if not math.isnan(p))
    adjusted: dict[str, float] = {}
    running = 0.0
    for rank, (p, name) in enumerate(tested):
        if not 0 <= p <= 1:
            raise InvalidValue(f"the p-value of {name!r} must lie between 0 and 1, not {p!r}")
        running = max(running, min(1.0, (len(tested) - rank) * p))
        adjusted[name] = running
    return {name: adjusted.get(name, math.nan) for name in p_values}

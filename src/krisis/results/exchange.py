"""The paired permutation test: exchange two runs patient by patient and look how far they drift."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from krisis.metrics.base import Rows
from krisis.metrics.columns import FloatArray, IntArray
from krisis.results.weighted_scores import WeightedScores

_CELLS_PER_BLOCK = 4_000_000
_WIDEST_BLOCK = 2048


@dataclass(frozen=True, slots=True)
class Permutations:
    """How many exchanges are drawn, from which seed, and whether areas are wanted as well."""

    n_permutations: int = 10_000
    seed: int = 42
    curves: bool = True


def exchange_test(left: Rows, right: Rows, unit: IntArray, drawn: Permutations) -> dict[str, float]:
    """Return the two-sided p-value of every metric's difference.

    If the two runs were alike, swapping their answers for any patient would change nothing but
    chance. Each permutation swaps about half of the patients, all rows of a patient together, and
    scores both sides again; for a mean this is the sign-flip test. The observed assignment counts
    as one permutation, so p is never 0 (Phipson and Smyth, Permutation p-values should never be
    zero, Statistical Applications in Genetics and Molecular Biology 9, 2010). A permutation on
    which a metric is undefined counts against a difference.
    """
    n_units = int(unit.max()) + 1
    both = Rows([*left, *right])
    units = np.concatenate([unit, unit + n_units])
    scores = WeightedScores(both.columns, units, 2 * n_units, curves=drawn.curves)
    observed = _difference(scores, np.ones((n_units, 1)))
    n_extreme = dict.fromkeys(observed, 0)
    for kept in _assignments(n_units, drawn):
        for key, values in _difference(scores, kept).items():
            # A tolerance, because the same sum in another order differs in its last bits.
            reached = np.abs(values) >= abs(float(observed[key][0])) * (1 - 1e-9) - 1e-12
            n_extreme[key] += int(np.count_nonzero(reached | np.isnan(values)))
    return {
        key: float("nan") if np.isnan(observed[key][0]) else (n + 1) / (drawn.n_permutations + 1)
        for key, n in n_extreme.items()
    }


def _assignments(n_units: int, drawn: Permutations) -> Iterator[FloatArray]:
    generator = np.random.default_rng(drawn.seed)
    block = max(1, min(_WIDEST_BLOCK, _CELLS_PER_BLOCK // (2 * n_units)))
    for start in range(0, drawn.n_permutations, block):
        width = min(block, drawn.n_permutations - start)
        yield generator.integers(0, 2, size=(n_units, width)).astype(np.float64)


def _difference(scores: WeightedScores, kept: FloatArray) -> dict[str, FloatArray]:
    swapped = 1.0 - kept
    before = scores(np.concatenate([kept, swapped]))
    after = scores(np.concatenate([swapped, kept]))
    return {key: after[key] - before[key] for key in before}

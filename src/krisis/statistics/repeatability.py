"""How much repeated measurements of one case differ: variance shares, sign and trend tests."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from krisis.errors import InvalidValue
from krisis.statistics.paired import swap_masks


@dataclass(frozen=True, slots=True)
class Consistency:
    """The commonest answer (None is an abstention), its share, and the spread of the scores."""

    mode: int | str | None
    modal_confidence: float
    score_std: float | None


def consistency_of(samples: Sequence[int | str | None]) -> Consistency:
    """Return mode, share of the mode and population standard deviation of the numeric samples.

    Abstentions are answers like others; a tie goes to the abstention, then to the smaller score,
    then to the first word in the alphabet.
    Without a numeric sample the spread is None.

    >>> consistency_of([2, 2, None, 3])
    Consistency(mode=2, modal_confidence=0.5, score_std=0.4714045207910317)
    """
    if not samples:
        raise InvalidValue("consistency needs at least one sample; draw some first")
    counts = Counter(samples)
    most = max(counts.values())
    mode = min((answer for answer, count in counts.items() if count == most), key=_order)
    scores = [float(answer) for answer in samples if isinstance(answer, int)]
    spread = None
    if scores:
        mean = math.fsum(scores) / len(scores)
        spread = math.sqrt(math.fsum((score - mean) ** 2 for score in scores) / len(scores))
    return Consistency(mode, most / len(samples), spread)


def _order(answer: int | str | None) -> tuple[int, float, str]:
    if answer is None:
        return 0, 0.0, ""
    return (2, 0.0, answer) if isinstance(answer, str) else (1, float(answer), "")


FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

# The same sum in another order differs in its last digits: so near is equal.
_SAME = 1e-9


def within_sd(cases: Sequence[Sequence[float]]) -> FloatArray:
    """Return the standard deviation within every case of two values or more (n − 1)."""
    return np.array([np.std(values, ddof=1) for values in cases], dtype=np.float64)


def share_between(cases: Sequence[Sequence[float]]) -> float:
    """Return the share of variance that lies between cases; NaN where nothing varies.

    The intraclass correlation of the one-way random effects model, ICC(1) =
    (MSB − MSW)/(MSB + (n₀ − 1)·MSW), with n₀ = (N − Σn²/N)/(k − 1) for cases of different sizes,
    and 0 where it would be negative.

    Reference: Shrout and Fleiss, Psychological Bulletin 86 (1979) 420–428; Donner, International
    Statistical Review 54 (1986) 67–82, for n₀.

    >>> share_between([[1.0, 1.0], [0.0, 0.0]]), share_between([[0.0, 1.0], [0.0, 1.0]])
    (1.0, 0.0)
    """
    sizes = np.array([len(values) for values in cases], dtype=np.float64)
    n, k = float(sizes.sum()), len(cases)
    if k < 2 or n <= k:
        return math.nan
    means = np.array([np.mean(values) for values in cases])
    grand = float(sizes @ means) / n
    between = float(sizes @ (means - grand) ** 2) / (k - 1)
    within = sum(float(((np.asarray(v) - m) ** 2).sum()) for v, m in zip(cases, means, strict=True))
    within /= n - k
    n_0 = (n - float(sizes @ sizes) / n) / (k - 1)
    total = between + (n_0 - 1) * within
    return max(0.0, (between - within) / total) if total > _SAME**2 else math.nan


def sign_flip_p(differences: ArrayLike, *, n_flips: int = 9999, seed: int = 42) -> float:
    """Return the two-sided p of the differences of patients, if each could have either sign.

    Where no patient's difference exceeds 1, as with one row per patient, it is McNemar's exact
    test: twice the binomial tail of the rarer sign, at most 1. Else patients change sign at
    random, or all ways of it are tried where they are few.

    >>> sign_flip_p([1, 1, 1, 1, 1, 0, 0])
    0.0625
    """
    moved = np.asarray(differences, dtype=np.float64)
    moved = moved[moved != 0]
    if not moved.size:
        return 1.0
    if (np.abs(moved) == 1).all():
        fewer = min(int((moved > 0).sum()), int((moved < 0).sum()))
        return min(1.0, 2 * float(special.bdtr(fewer, moved.size, 0.5)))
    observed = abs(float(moved.sum())) * (1 - _SAME)
    n_reaching = n_tried = 0
    for masks in swap_masks(moved.size, n_flips, seed=seed):
        sums = np.abs(moved @ np.where(masks, -1.0, 1.0))
        n_reaching, n_tried = n_reaching + int((sums >= observed).sum()), n_tried + sums.size
    return (1 + n_reaching) / (1 + n_tried)


def trend_within(
    outcome: ArrayLike, place: ArrayLike, block: ArrayLike, *, n_draws: int = 999, seed: int = 42
) -> tuple[float, float]:
    """Return the change of an outcome per place, within blocks, and its two-sided p.

    slope = Σ(place − mean)(outcome − mean)/Σ(place − mean)², means within each block; p is the
    share of ``n_draws`` random orders within blocks whose slope is as far from 0, the observed
    order counted among them. NaN where no block holds two places.
    """
    y, x = np.asarray(outcome, dtype=np.float64), np.asarray(place, dtype=np.float64)
    _, codes = np.unique(np.asarray(block), return_inverse=True)
    order = np.argsort(codes, kind="stable")
    y, x, codes = y[order], x[order], codes[order]
    counts = np.bincount(codes)
    x = x - (np.bincount(codes, x) / counts)[codes]
    y = y - (np.bincount(codes, y) / counts)[codes]
    spread = float(x @ x)
    if spread == 0:
        return math.nan, math.nan
    observed = float(x @ y)
    generator = np.random.default_rng(seed)
    n_reaching = 0
    for _ in range(n_draws):
        drawn = np.lexsort((generator.random(y.size), codes))
        n_reaching += abs(float(x @ y[drawn])) >= abs(observed) - _SAME
    return observed / spread, (1 + n_reaching) / (1 + n_draws)

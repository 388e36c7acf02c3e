"""Tests of the hypothesis that a risk exceeds a bound, valid for any number of patients."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Context, Decimal
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from krisis.statistics.intervals import Interval

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

# Sums of losses that are whole but for rounding are counted as whole.
_ROUNDING = 1e-9
# The largest bet, as a share of the one that could lose everything.
_LARGEST_BET = 0.99
# Limits that are found by trying values are given to 1/500.
_N_STEPS = 500
# One quantile costs as much as so many entries of the table of sizes.
_SIZES_PER_CASE = 4


def binomial_p(errors: ArrayLike, n: ArrayLike, risk: float) -> FloatArray:
    """Return P(Bin(n, risk) ≤ errors), the exact p-value against a risk of at least ``risk``.

    >>> round(float(binomial_p(0, 29, 0.15)), 4)
    0.009
    """
    tail: FloatArray = special.bdtr(
        np.asarray(errors, np.float64), np.asarray(n, np.int64), float(risk)
    )
    return tail


@lru_cache
def fewest_rows(risk: float, level: float) -> int:
    """Return the smallest n with (1 − risk)ⁿ ≤ level: so many rows without an error are enough.

    Counted in whole numbers with 60 digits, as a rounded logarithm is off by one at times.

    >>> fewest_rows(0.1, 0.05), fewest_rows(0.15, 0.1), fewest_rows(0.5, 0.25)
    (29, 15, 2)
    """
    context = Context(prec=60)
    right, target = 1 - Decimal(repr(float(risk))), Decimal(repr(float(level)))
    n = max(1, math.floor(math.log(level) / math.log1p(-risk)) - 1)
    while context.power(right, n) > target:
        n += 1
    return n


@lru_cache(maxsize=256)
def _rows_for_errors(n_kinds: int, risk: float, level: float) -> IntArray:
    """Return, for k = 0, 1, …, the smallest n with P(Bin(n, risk) ≤ k) ≤ level."""
    k = np.arange(n_kinds)
    near = special.bdtrin(k.astype(np.float64), level, risk)
    n: IntArray = np.maximum(np.ceil(np.nan_to_num(near, nan=1.0)).astype(np.int64), k + 1)
    while (under := binomial_p(k, n, risk) > level).any():
        n = n + under
    while (over := (n > k + 1) & (binomial_p(k, n - 1, risk) <= level)).any():
        n = n - over
    n.setflags(write=False)
    return n


def _rows_up_to(n: int, risk: float, level: float) -> IntArray:
    """Return the sizes at which one more error is allowed, those up to n among them."""
    n_kinds = 16
    while (found := _rows_for_errors(n_kinds, risk, level))[-1] <= n:
        n_kinds *= 2
    return found


def allowed_errors(n: ArrayLike, risk: float, level: float) -> IntArray:
    """Return a(n, level): the largest k with P(Bin(n, risk) ≤ k) ≤ level, −1 where there is none.

    >>> allowed_errors([28, 29, 46, 200], 0.1, 0.05).tolist()
    [-1, 0, 1, 12]
    """
    rows = np.asarray(n, dtype=np.int64)
    if rows.size * _SIZES_PER_CASE < rows.max(initial=0) * risk:
        return _allowed_in_each(rows, risk, level)
    sizes = _rows_up_to(int(rows.max(initial=0)), risk, level)
    return np.searchsorted(sizes, rows, side="right") - 1


def _allowed_in_each(n: IntArray, risk: float, level: float) -> IntArray:
    """Return the same from the quantile of each n: quicker for few large ones."""
    near = np.nan_to_num(special.bdtrik(level, n.astype(np.float64), risk), nan=0.0)
    k: IntArray = np.clip(np.floor(near).astype(np.int64), 0, n)
    while (over := (k >= 0) & (binomial_p(k, n, risk) > level)).any():
        k = k - over
    while (under := (k < n) & (binomial_p(k + 1, n, risk) <= level)).any():
        k = k + under
    return k


def first_alike(n: int, risk: float, level: float) -> int:
    """Return J(n, level): the fewest rows that allow as many errors as n rows do."""
    k = int(allowed_errors(n, risk, level))
    low, high = k, n  # with k rows or fewer, k errors are no surprise
    while k >= 0 and high - low > 1:
        middle = (low + high) // 2
        passed = float(binomial_p(k, middle, risk)) <= level
        low, high = (low, middle) if passed else (middle, high)
    return 1 if k < 0 else high


def hoeffding_bentkus_p(loss_sum: float, n: int, risk: float) -> float:
    """Return the Hoeffding–Bentkus p-value for the sum of n losses in [0, 1].

    min(exp(−n·kl(min(r, risk), risk)), e·P(Bin(n, risk) ≤ ⌈loss_sum⌉)) with r = loss_sum/n.

    Reference: Bates et al., Distribution-free, risk-controlling prediction sets, Journal of the
    ACM 68 (2021), section 3.

    >>> round(hoeffding_bentkus_p(0.0, 29, 0.15), 4)
    0.009
    """
    if n == 0:
        return 1.0
    mean = min(loss_sum / n, risk)
    divergence = special.rel_entr(mean, risk) + special.rel_entr(1 - mean, 1 - risk)
    bentkus = math.e * float(binomial_p(min(n, math.ceil(loss_sum - _ROUNDING)), n, risk))
    return min(1.0, math.exp(-n * float(divergence)), bentkus)


def betting_p(
    losses: FloatArray, rows: FloatArray, risk: float, *, most_rows: int, level: float
) -> float:
    """Return the p-value of a bet on patient sums against a risk per row of at least ``risk``.

    ``losses`` and ``rows`` are the sum of losses and the accepted rows of every patient, in the
    order in which the bets are placed. x_i = risk + (losses_i − risk·rows_i)/most_rows lies in
    [0, 1] and has a mean of at least ``risk`` under the hypothesis, so that the capital
    Π(1 − λ_i(x_i − risk)) exceeds 1/p with a probability of at most p. The bets are
    λ_i = √(2 log(1/level)/(n·v_{i−1})), at most 0.99/(1 − risk), with the running variance v that
    starts at 2·risk(1 − risk)/most_rows about a running mean that starts at ``risk``.

    Reference: Waudby-Smith and Ramdas, Estimating means of bounded random variables by betting,
    JRSS B 86 (2024) 1–27.
    """
    n = losses.size
    if n == 0:
        return 1.0
    surplus = (losses - risk * rows) / most_rows
    place = np.arange(1, n + 1)
    mean = np.cumsum(surplus) / (place + 1)
    spread = np.cumsum(np.square(surplus - mean))
    first = 2 * risk * (1 - risk) / most_rows
    variance = (first + np.concatenate([[0.0], spread[:-1]])) / place
    bet = np.sqrt(2 * math.log(1 / level) / (n * variance))
    bet = np.minimum(bet, _LARGEST_BET / (1 - risk))
    capital = np.cumsum(np.log1p(-bet * surplus))
    return float(min(1.0, math.exp(-max(0.0, float(capital.max())))))


def exact_interval(hits: float, n: int, level: float = 0.95) -> Interval:
    """Return the Clopper–Pearson interval of a share of independent rows.

    >>> interval = exact_interval(0, 29, level=0.9)
    >>> interval.low, round(interval.high, 4)
    (0.0, 0.0981)
    """
    if n == 0:
        return Interval.undefined("no_rows", level=level, method="clopper_pearson")
    tail = (1 - level) / 2
    low = float(special.betaincinv(hits, n - hits + 1, tail)) if hits > 0 else 0.0
    high = float(special.betaincinv(hits + 1, n - hits, 1 - tail)) if hits < n else 1.0
    return Interval(low, high, level, "clopper_pearson")


def inverted_interval(
    upper_p: Callable[[float], float], lower_p: Callable[[float], float], level: float, method: str
) -> Interval:
    """Return the values that two one-sided tests leave, rounded outwards to a step of a grid.

    ``upper_p(r)`` is the p-value against a risk of at least r, ``lower_p(r)`` the one against a
    risk of at most r, as that of the complement.
    """
    tail = (1 - level) / 2
    grid = np.arange(1, _N_STEPS) / _N_STEPS
    kept_high = [r for r in grid if upper_p(float(r)) > tail]
    kept_low = [r for r in grid if lower_p(float(r)) > tail]
    high = min(1.0, max(kept_high, default=0.0) + 1 / _N_STEPS)
    low = max(0.0, min(kept_low, default=1.0) - 1 / _N_STEPS)
    return Interval(float(low), float(high), level, method)

"""The mid-P confidence distribution of a binomial share; sizes may be any positive numbers."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

FloatArray = NDArray[np.float64]

_MOST_STEPS = 80


def mid_p_cdf(share: ArrayLike, hits: ArrayLike, rows: ArrayLike) -> FloatArray:
    """Return the mid-P confidence distribution of a binomial share; sizes may be real numbers.

    H(q) = ½[I_q(e, n−e+1) + I_q(e+1, n−e)], which is I_q(e+1, n−e) plus half the probability of
    exactly e hits.

    Reference: Lancaster, Significance tests in discrete distributions, JASA 56 (1961) 223–234.

    >>> float(mid_p_cdf(0.0658, 0, 44).round(3))
    0.975
    """
    q, e, n = np.broadcast_arrays(*(np.asarray(a, dtype=np.float64) for a in (share, hits, rows)))
    below, _ = _distribution(q, e, n, _log_choices(e, n))
    return below


def _log_choices(e: FloatArray, n: FloatArray) -> FloatArray:
    chosen: FloatArray = (
        special.gammaln(n + 1) - special.gammaln(e + 1) - special.gammaln(n - e + 1)
    )
    return chosen


def _distribution(
    q: FloatArray, e: FloatArray, n: FloatArray, log_choices: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """Return H(q) and the probability of exactly e hits."""
    exactly = np.exp(log_choices + special.xlogy(e, q) + special.xlog1py(n - e, -q))
    beyond = special.betainc(e + 1, np.where(e < n, n - e, 1.0), q)
    return np.where(e < n, beyond, 0.0) + exactly / 2, exactly


def mid_p_quantile(probability: ArrayLike, hits: ArrayLike, rows: ArrayLike) -> FloatArray:
    """Return the share at which the mid-P confidence distribution reaches a probability.

    >>> mid_p_quantile([0.025, 0.975], 5, 100).round(4).tolist()
    [0.0185, 0.1073]
    """
    arrays = (np.asarray(a, dtype=np.float64) for a in (probability, hits, rows))
    p, e, n = np.broadcast_arrays(*arrays)
    # H is the mean of two distributions, so its quantile lies between theirs.
    low = special.betaincinv(np.where(e > 0, e, 1.0), n - e + 1, p)
    high = special.betaincinv(e + 1, np.where(e < n, n - e, 1.0), p)
    low, high = np.where(e > 0, low, 0.0), np.where(e < n, high, 1.0)
    # At e = 0 the distribution starts with ½ at 0, at e = n it ends with ½ at 1.
    fixed = ((e == 0) & (p <= 0.5)) | ((e == n) & (p >= 0.5)) | (low >= high)
    found: FloatArray = np.where((e == 0) & (p <= 0.5), 0.0, np.where(e == n, 1.0, low))
    todo = ~fixed
    if todo.any():
        found[todo] = _solve(p[todo], e[todo], n[todo], low[todo], high[todo])
    return found


def _solve(
    p: FloatArray, e: FloatArray, n: FloatArray, low: FloatArray, high: FloatArray
) -> FloatArray:
    """Find H(q) = p by Newton's steps in logit q, halving the bracket where a step leaves it."""
    low, high = (special.logit(np.clip(end, 1e-300, 1 - 1e-16)) for end in (low, high))
    log_choices = _log_choices(e, n)
    u = (low + high) / 2
    for _ in range(_MOST_STEPS):
        q = special.expit(u)
        reached, exactly = _distribution(q, e, n, log_choices)
        miss = reached - p
        low, high = np.where(miss < 0, u, low), np.where(miss > 0, u, high)
        # dH/du = ½ P(exactly e) [e(1−q) + (n−e)q]
        slope = exactly * (e * (1 - q) + (n - e) * q) / 2
        with np.errstate(divide="ignore", invalid="ignore"):
            following = u - miss / slope
        inside = (following >= low) & (following <= high)
        following = np.where(inside, following, (low + high) / 2)
        # Newton's error is squared by each step, so that the last one need not be confirmed.
        settled = (inside & (np.abs(following - u) <= 1e-7)) | (
            high - low <= 1e-12 * (1 + np.abs(u))
        )
        u = following
        if settled.all():
            break
    found: FloatArray = special.expit(u)
    return found

"""Intervals of the shares that charts show."""

from __future__ import annotations

import math


def wilson(n_hits: int, n_rows: int) -> tuple[float, float]:
    """Return the 95 % Wilson interval of a share; of no rows, NaN.

    >>> [round(bound, 3) for bound in wilson(8, 10)]
    [0.49, 0.943]
    """
    if n_rows == 0:
        return math.nan, math.nan
    from scipy.stats import binomtest

    interval = binomtest(n_hits, n_rows).proportion_ci(0.95, method="wilson")
    return float(interval.low), float(interval.high)

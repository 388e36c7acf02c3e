"""Interval of a sum of absolute gaps, such as the calibration error, which is biased upwards."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from krisis.statistics.intervals import ROUNDING, Interval, check_level, expanded_tail

FloatArray = NDArray[np.float64]

METHOD = "test_inversion"
_N_CANDIDATES = 81


def absolute_sum_interval(
    gaps: FloatArray, replicates: FloatArray, *, n_clusters: int, level: float = 0.95
) -> Interval:
    """Return every value of Σ|gap| under which the observed sum would not surprise.

    ``gaps`` are the observed gaps and ``replicates`` (gaps × resamples) their bootstrap values. A
    candidate value is spread over the gaps as the observed sum is; to it the deviations of the
    resamples are added, and the candidate stays when the observed sum lies between the tail
    quantiles of the sums. Percentiles of the resampled sums fail here: each adds noise to every
    gap before its sign is dropped, and so lies above the observed sum, itself above the truth.

    Reference: Carpenter, Test inversion bootstrap confidence intervals, Journal of the Royal
    Statistical Society B 61 (1999) 159–172.
    """
    tail = (1 - check_level(level)) / 2
    observed = float(np.abs(gaps).sum())
    valid = replicates[:, ~np.isnan(replicates).any(axis=0)]
    reason = _obstacle(observed, valid, n_clusters)
    if reason:
        return Interval.undefined(reason, level=level, method=METHOD)
    # Few clusters: their resamples vary too little, and the tails are those of Student.
    noise = (valid - gaps[:, None]) * math.sqrt(n_clusters / (n_clusters - 1))
    wide = expanded_tail(tail, n_clusters)
    farthest = observed + 6 * float(np.abs(valid).sum(axis=0).std())
    candidates = np.linspace(0.0, farthest, _N_CANDIDATES)
    direction = gaps / observed
    edges = np.array(
        [
            np.quantile(np.abs(c * direction[:, None] + noise).sum(axis=0), [wide, 1 - wide])
            for c in candidates
        ]
    )
    low = _first_reaching(observed, candidates, edges[:, 1])
    high = _first_reaching(observed, candidates, edges[:, 0])
    return Interval(low, high, level, METHOD)


def _obstacle(observed: float, valid: FloatArray, n_clusters: int) -> str:
    if math.isnan(observed):
        return "the_figure_is_undefined"
    if n_clusters < 2:
        return "needs_at_least_two_clusters"
    if valid.shape[1] < 2:
        return "fewer_than_two_valid_resamples"
    if observed == 0:
        return "every_gap_is_zero"
    if (np.ptp(valid, axis=1) <= ROUNDING * np.abs(valid).max()).all():
        return "every_resample_gives_the_same_value"
    return ""


def _first_reaching(target: float, candidates: FloatArray, edge: FloatArray) -> float:
    """Return where a rising edge reaches the target, between two candidates by a straight line."""
    reached = np.flatnonzero(edge >= target)
    if reached.size == 0:
        return float(candidates[-1])
    k = int(reached[0])
    if k == 0:
        return 0.0
    part = (target - edge[k - 1]) / (edge[k] - edge[k - 1])
    return float(candidates[k - 1] + part * (candidates[k] - candidates[k - 1]))

"""Agreement beyond chance between people who judged the same cases, with intervals by patient.

References: Cohen, A coefficient of agreement for nominal scales, Educational and Psychological
Measurement 20 (1960) 37–46; Krippendorff, Content Analysis, chapter 12 (2018), by the package
`krippendorff`.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from krisis.errors import MissingExtra
from krisis.statistics.bootstrap import BootstrapOptions, cluster_bootstrap, pooled_units
from krisis.statistics.intervals import Interval

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
_N_RESAMPLES = 1000


def krippendorff_alpha(
    counts: IntArray, patient: IntArray, *, ordered: bool, seed: int = 42
) -> tuple[float, Interval]:
    """Return Krippendorff's α of how often each row was given each label (rows × labels)."""
    try:
        import krippendorff
    except ImportError:
        raise MissingExtra.named("agreement", "Krippendorff's α") from None
    pool = _pools(patient)

    def alpha(times: IntArray) -> float:
        drawn = np.repeat(counts, times, axis=0)
        if np.count_nonzero(drawn.sum(axis=0)) < 2:
            return math.nan  # one value only
        return float(
            krippendorff.alpha(
                value_counts=drawn, level_of_measurement="ordinal" if ordered else "nominal"
            )
        )

    def statistic(drawn: FloatArray) -> dict[str, FloatArray]:
        return {"alpha": np.array([alpha(column[pool]) for column in drawn.T.astype(np.int64)])}

    return _bootstrapped("alpha", statistic, int(pool.max()) + 1, seed)


def cohen_kappa(
    left: IntArray, right: IntArray, n_labels: int, patient: IntArray, *, seed: int = 42
) -> tuple[float, Interval]:
    """Return Cohen's κ of two readers, κ = (p_o − p_e)/(1 − p_e), without weights.

    p_o is the share of rows with one answer, p_e that expected by their answers' frequencies.

    >>> left, right = np.array([0, 0, 1, 1]), np.array([0, 0, 1, 0])
    >>> cohen_kappa(left, right, 2, np.arange(4))[0]
    0.5
    """
    pool = _pools(patient)
    n_pools = int(pool.max()) + 1
    together = np.zeros((n_pools, n_labels, n_labels))
    np.add.at(together, (pool, left, right), 1.0)

    def statistic(drawn: FloatArray) -> dict[str, FloatArray]:
        table = np.tensordot(drawn.T, together, axes=1)  # resamples × labels × labels
        n = table.sum(axis=(1, 2))
        seen = np.trace(table, axis1=1, axis2=2) / n
        chance = (table.sum(axis=2) * table.sum(axis=1)).sum(axis=1) / n**2
        # Both always gave one and the same answer: agreement beyond chance has no meaning.
        room = np.where(chance < 1, 1 - chance, np.nan)
        return {"kappa": (seen - chance) / room}

    return _bootstrapped("kappa", statistic, n_pools, seed)


def _pools(patient: IntArray) -> IntArray:
    """Return the resampled unit of every row."""
    _, unit = np.unique(patient, return_inverse=True)
    pools: IntArray = pooled_units(int(unit.max()) + 1)[unit]
    return pools


def _bootstrapped(name: str, statistic: object, n_pools: int, seed: int) -> tuple[float, Interval]:
    options = BootstrapOptions(n_resamples=_N_RESAMPLES, seed=seed)
    found = cluster_bootstrap(statistic, n_pools, options=options)  # type: ignore[arg-type]
    return found.estimates[name], found.interval(name)

"""Cluster bootstrap: patients are drawn with replacement, once, for every figure and every run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from krisis.errors import InvalidValue
from krisis.statistics.intervals import Interval, ReplicateMethod, Replicates, check_level

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

# A statistic takes a matrix of multiplicities (clusters × resamples) and returns, for every
# figure, one value per resample. Ones give the estimate.
Statistic = Callable[[FloatArray], Mapping[str, FloatArray]]
Progress = Callable[[int], None]

MOST_POOLS = 1000

# The widest block keeps its rows in the second-level cache; the product bounds the memory.
_WIDEST_BLOCK = 5000
_CELLS_PER_BLOCK = 6_500_000
_CELLS_PER_DRAW = 250_000


@dataclass(frozen=True, slots=True)
class BootstrapOptions:
    """How clusters are drawn: ``rng="legacy"`` repeats the draws of published intervals."""

    n_resamples: int = 10_000
    seed: int = 42
    rng: Literal["default", "legacy"] = "default"
    level: float = 0.95

    def __post_init__(self) -> None:
        if isinstance(self.n_resamples, bool) or self.n_resamples < 0:
            raise InvalidValue(f"n_resamples must be 0 or more, not {self.n_resamples!r}")
        if not 0 <= self.seed < 2**32:
            raise InvalidValue(f"seed must be between 0 and 2**32 - 1, not {self.seed!r}")
        if self.rng not in ("default", "legacy"):
            raise InvalidValue(f"rng must be 'default' or 'legacy', not {self.rng!r}")
        check_level(self.level)


def draw_clusters(n_clusters: int, options: BootstrapOptions) -> Iterator[IntArray]:
    """Yield blocks of drawn cluster numbers (resamples × clusters); blocking changes no draw."""
    block = max(1, _CELLS_PER_DRAW // n_clusters)
    generator = np.random.default_rng(options.seed)
    legacy = np.random.RandomState(options.seed)
    for start in range(0, options.n_resamples, block):
        size = (min(block, options.n_resamples - start), n_clusters)
        if options.rng == "legacy":
            yield legacy.randint(0, n_clusters, size=size)
        else:
            yield generator.integers(0, n_clusters, size=size)


def resample_counts(n_clusters: int, options: BootstrapOptions) -> Iterator[FloatArray]:
    """Yield blocks of multiplicities (clusters × resamples)."""
    widest = max(1, min(_WIDEST_BLOCK, _CELLS_PER_BLOCK // n_clusters))
    draws = draw_clusters(n_clusters, options)
    pending: list[FloatArray] = []
    n_pending = 0
    for drawn in draws:
        pending.append(_multiplicities(drawn, n_clusters))
        n_pending += drawn.shape[0]
        if n_pending >= widest:
            yield np.concatenate(pending, axis=1)
            pending, n_pending = [], 0
    if pending:
        yield np.concatenate(pending, axis=1)


def pooled_units(n_units: int) -> IntArray:
    """Return the pool of every unit: itself, or beyond 1,000 units one of 1,000 by lot.

    Pooling at random keeps the variance between resamples and bounds their cost.
    """
    if n_units <= MOST_POOLS:
        return np.arange(n_units)
    return np.random.default_rng(0).permutation(n_units) % MOST_POOLS


def _multiplicities(drawn: IntArray, n_clusters: int) -> FloatArray:
    n_drawn = drawn.shape[0]
    drawn += np.arange(0, n_drawn * n_clusters, n_clusters)[:, None]
    count = np.bincount(drawn.ravel(), minlength=n_drawn * n_clusters)
    return count.reshape(n_drawn, n_clusters).T.astype(np.float64, order="C")


@dataclass(eq=False)
class Bootstrap:
    """The replicates of every figure of one statistic."""

    statistic: Statistic
    n_clusters: int
    options: BootstrapOptions
    replicates: dict[str, FloatArray]

    @cached_property
    def estimates(self) -> dict[str, float]:
        """The figures on the clusters as they are."""
        values = self.statistic(np.ones((self.n_clusters, 1)))
        return {name: float(value[0]) for name, value in values.items()}

    def drop_rate(self, name: str) -> float:
        """Return the share of resamples on which the figure is undefined."""
        return float(np.isnan(self.replicates[name]).mean())

    def interval(self, name: str, method: ReplicateMethod = "expanded_percentile") -> Interval:
        """Return the interval of one figure."""
        replicates = Replicates(self.estimates[name], self.replicates[name], self.n_clusters)
        return replicates.interval(method, level=self.options.level)


def cluster_bootstrap(
    statistic: Statistic,
    n_clusters: int,
    *,
    options: BootstrapOptions | None = None,
    progress: Progress | None = None,
) -> Bootstrap:
    """Resample clusters with replacement, all their rows kept, and collect every figure.

    ``progress`` is told the number of resamples done since the last call.

    >>> losses = np.array([0.0, 1.0, 0.0, 2.0])
    >>> mean = lambda counts: {"mean": losses @ counts / counts.sum(axis=0)}
    >>> result = cluster_bootstrap(mean, 4, options=BootstrapOptions(n_resamples=2000))
    >>> result.estimates["mean"], result.drop_rate("mean")
    (0.75, 0.0)
    """
    if n_clusters < 1:
        raise InvalidValue("the bootstrap was given no clusters; score at least one row first")
    chosen = options or BootstrapOptions()
    blocks: dict[str, list[FloatArray]] = {}
    for counts in resample_counts(n_clusters, chosen):
        for name, values in statistic(counts).items():
            blocks.setdefault(name, []).append(values)
        if progress:
            progress(counts.shape[1])
    replicates = {name: np.concatenate(parts) for name, parts in blocks.items()}
    return Bootstrap(statistic, n_clusters, chosen, replicates)

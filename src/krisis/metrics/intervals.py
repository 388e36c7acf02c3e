"""Intervals of metrics: what a metric offers, and one shared draw of patients for all of them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from krisis.metrics.columns import BoolArray, Columns, FloatArray, IntArray
from krisis.statistics.absolute_sum import absolute_sum_interval
from krisis.statistics.bootstrap import BootstrapOptions, Statistic, resample_counts
from krisis.statistics.intervals import (
    ClusteredShare,
    Interval,
    ReplicateMethod,
    Replicates,
    residuals,
)

if TYPE_CHECKING:
    from krisis.metrics.base import BaseMetric, EvaluationResult, MetricScore

# Beyond this many patients they are pooled at random, which keeps the variance and bounds the cost.
MOST_UNITS = 1000
_POOLING_SEED = 0


@dataclass(frozen=True, slots=True, eq=False)
class Resampled:
    """A figure whose interval comes from resampling patients.

    ``statistic`` takes multiplicities of the units of `units_of`; metrics that share one object
    share its work.
    """

    statistic: Statistic
    figure: str
    method: ReplicateMethod = "expanded_percentile"
    low: float = 0.0
    high: float = 1.0


@dataclass(frozen=True, slots=True, eq=False)
class ResampledGaps:
    """A sum of absolute gaps; ``statistic`` returns them as ``gaps``, one row per gap."""

    statistic: Statistic
    gaps: FloatArray


Uncertainty = ClusteredShare | Resampled | ResampledGaps


def units_of(columns: Columns) -> tuple[IntArray, int]:
    """Return the resampled unit of every row and the number of units: the patients, or pools."""
    return columns.shared("resampled_units", lambda: _pooled(columns.cluster))


def _pooled(cluster: IntArray) -> tuple[IntArray, int]:
    n_clusters = int(cluster.max(initial=-1)) + 1
    if n_clusters <= MOST_UNITS:
        return cluster, n_clusters
    pool = np.random.default_rng(_POOLING_SEED).permutation(n_clusters) % MOST_UNITS
    return pool[cluster], MOST_UNITS


def share_of(columns: Columns, hits: BoolArray, kept: BoolArray) -> ClusteredShare:
    """Return the share of kept rows that are hits, ready for an interval that knows of patients."""
    return ClusteredShare.of(_per_cluster(columns, hits & kept), _per_cluster(columns, kept))


def _per_cluster(columns: Columns, rows: BoolArray) -> FloatArray:
    n_clusters = int(columns.cluster.max(initial=-1)) + 1
    counted = np.bincount(columns.cluster, weights=rows, minlength=n_clusters)
    return counted.astype(np.float64)


def mean_recall(columns: Columns) -> ClusteredShare:
    """Return the mean over classes of the share answered correctly, with its influences."""
    classes = [code for code in range(len(columns.labels)) if (columns.truth == code).any()]
    influence = np.zeros(int(columns.cluster.max(initial=-1)) + 1)
    shares, inverse_rows, inverse_clusters = [], 0.0, 0.0
    for code in classes:
        rows = columns.truth == code
        hits, totals = _per_cluster(columns, rows & columns.correct), _per_cluster(columns, rows)
        share = ClusteredShare.of(hits, totals)
        influence += residuals(hits, totals, share.share) / (totals.sum() * len(classes))
        shares.append(share.share)
        inverse_rows += 1 / share.n_effective
        inverse_clusters += 1 / share.n_effective_clusters
    if not classes:
        return ClusteredShare(math.nan, influence, 0.0, 0.0)
    squared = len(classes) ** 2
    return ClusteredShare(
        math.fsum(shares) / len(classes),
        influence,
        squared / inverse_rows,
        squared / inverse_clusters,
    )


def mean_of_rows(columns: Columns, values: FloatArray, kept: BoolArray) -> Resampled:
    """Return the mean of a value over the kept rows as a resampled figure.

    For a metric of your own whose value is such a mean: ``values`` has one number per kept row.
    """
    unit, n_units = units_of(columns)
    sums = np.bincount(unit[kept], weights=values, minlength=n_units)
    rows = np.bincount(unit[kept], minlength=n_units).astype(np.float64)

    def mean(counts: FloatArray) -> dict[str, FloatArray]:
        with np.errstate(invalid="ignore"):
            return {"mean": (sums @ counts) / (rows @ counts)}

    return Resampled(mean, "mean", low=-math.inf, high=math.inf)


def add_intervals(
    scores: Mapping[str, MetricScore],
    metrics: Sequence[BaseMetric],
    *,
    results: Sequence[EvaluationResult],
    columns: Columns,
    options: BootstrapOptions,
) -> None:
    """Give every score the interval that its metric declares; all resampled ones share a draw."""
    resampled: dict[str, Resampled | ResampledGaps] = {}
    for metric in metrics:
        score = scores[metric.name]
        uncertainty = None if columns.n_scored == 0 else metric.uncertainty(results)
        if uncertainty is None:
            continue
        if math.isnan(score.value):
            score.interval = Interval.undefined("the_figure_is_undefined", level=options.level)
        elif isinstance(uncertainty, ClusteredShare):
            score.interval = uncertainty.interval(level=options.level)
        else:
            resampled[metric.name] = uncertainty
    n_units = units_of(columns)[1]
    replicates = _replicates(list(resampled.values()), n_units, options)
    for name, plan in resampled.items():
        found = replicates[id(plan.statistic)]
        scores[name].interval = _interval(plan, scores[name].value, found, (n_units, options.level))


def _interval(
    plan: Resampled | ResampledGaps,
    value: float,
    replicates: Mapping[str, FloatArray],
    size: tuple[int, float],
) -> Interval:
    n_units, level = size
    if isinstance(plan, ResampledGaps):
        interval = absolute_sum_interval(
            plan.gaps, replicates["gaps"], n_clusters=n_units, level=level
        )
        return interval.clipped(0.0, 1.0)
    values = Replicates(value, replicates[plan.figure], n_units)
    return values.interval(plan.method, level=level).clipped(plan.low, plan.high)


def _replicates(
    plans: Sequence[Resampled | ResampledGaps], n_units: int, options: BootstrapOptions
) -> dict[int, dict[str, FloatArray]]:
    """Return the replicates of every statistic, by its identity; each is computed once."""
    if not plans:
        return {}
    statistics = {id(plan.statistic): plan.statistic for plan in plans}
    parts: dict[int, dict[str, list[FloatArray]]] = {key: {} for key in statistics}
    for counts in resample_counts(n_units, options):
        for identity, statistic in statistics.items():
            for figure, values in statistic(counts).items():
                parts[identity].setdefault(figure, []).append(values)
    return {
        identity: {figure: np.concatenate(values, axis=-1) for figure, values in found.items()}
        for identity, found in parts.items()
    }

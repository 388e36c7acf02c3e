"""A metric that can only be computed from rows, made a form by scoring weighted rows again."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from krisis.metrics.forms import Form, Uncertainty, Weighted
from krisis.metrics.table import FloatArray, IntArray, Table, Units
from krisis.statistics.bootstrap import BootstrapOptions, resample_counts
from krisis.statistics.intervals import Replicates

if TYPE_CHECKING:
    from krisis.metrics.base import EvaluationResult

# Scoring rows again is slow: fewer resamples than other metrics get.
N_RESCORED = 200


class Rescored(Form):
    """A metric that can only be computed from rows: scored again under whole-number weights."""

    low, high, slope = -math.inf, math.inf, 0.0

    def __init__(
        self,
        table: Table,
        compute: Callable[[Sequence[EvaluationResult]], float],
        *,
        n_evaluated: int,
    ) -> None:
        self._table, self._compute, self._n_evaluated = table, compute, n_evaluated

    @property
    def n_evaluated(self) -> int:
        """Count the rows that the metric says it rests on."""
        return self._n_evaluated

    def value(self) -> float:
        """Compute the metric on all rows."""
        return self._compute(self._table.rows)

    def on(self, units: Units) -> Weighted:
        """Keep the rows with their units."""
        return _WeightedRows(self._table.rows, units, self._compute)

    def uncertainty(self, table: Table, options: BootstrapOptions) -> Uncertainty:
        """Return percentiles over fewer resamples than other metrics get."""
        pools = table.pools
        chosen = replace(options, n_resamples=min(options.n_resamples, N_RESCORED))
        weighted = self.on(pools)
        values = np.concatenate(
            [weighted.values(counts) for counts in resample_counts(pools.n, chosen)]
        )
        found = Replicates(self.value(), values, pools.n).interval(
            "expanded_percentile", level=options.level
        )
        if found.defined:
            low, high = min(found.low, self.value()), max(found.high, self.value())
            found = replace(found, low=low, high=high)
        return Uncertainty(found, {"n_resamples": chosen.n_resamples})


class _WeightedRows(Weighted):
    def __init__(
        self,
        rows: Sequence[EvaluationResult],
        units: Units,
        compute: Callable[[Sequence[EvaluationResult]], float],
    ) -> None:
        self._rows, self._code, self._compute = rows, units.code, compute

    def values(self, weights: FloatArray) -> FloatArray:
        times = weights.astype(np.int64)[self._code]
        return np.array([self._value(column) for column in times.T], dtype=np.float64)

    def _value(self, times: IntArray) -> float:
        drawn: list[int] = np.repeat(np.arange(times.size), times).tolist()
        return self._compute([self._rows[index] for index in drawn]) if drawn else math.nan

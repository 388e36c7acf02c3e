"""Fill values that were not measured, from training patients alone and never from a label."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from krisis.data.ckd.egfr import Array
from krisis.data.ckd.schema import FEATURES, Value, usable

ImputeMethod = Literal["none", "median", "nearest"]
METHODS = ("none", "median", "nearest")
N_NEIGHBOURS = 5


@dataclass(frozen=True, slots=True)
class Imputer:
    """Values learnt from training patients: the middle of each column, and the patients."""

    method: ImputeMethod
    middles: dict[str, Value]
    table: Array
    scale: Array

    @classmethod
    def fit(cls, training: Sequence[Mapping[str, Value]], method: ImputeMethod) -> Imputer:
        """Learn from training patients; implausible values are left out."""
        rows = [{name: usable(row, name) for name in FEATURES} for row in training]
        middles = {name: _middle(name, [row[name] for row in rows]) for name in FEATURES}
        table = np.array([_numbers(row) for row in rows], dtype=float).reshape(-1, len(FEATURES))
        spread = np.array([np.std(column[~np.isnan(column)]) if (~np.isnan(column)).any() else 1.0
                           for column in table.T])  # fmt: skip
        return cls(method, middles, table, np.where(spread > 0, spread, 1.0))

    def fill(self, values: Mapping[str, Value]) -> tuple[dict[str, Value], list[str]]:
        """Return the values without gaps, and the names of those that were filled."""
        gaps = [name for name in FEATURES if name in values and values[name] is None]
        near = self._nearest(values) if self.method == "nearest" and gaps else None
        filled = dict(values)
        for name in gaps:
            filled[name] = self._estimate(name, near)
        return filled, gaps

    def _nearest(self, values: Mapping[str, Value]) -> Array:
        own = np.array(_numbers({name: usable(values, name) for name in FEATURES}), dtype=float)
        apart = ((self.table - own) / self.scale) ** 2
        n_shared = (~np.isnan(apart)).sum(axis=1)
        distance = np.where(
            n_shared > 0, np.nansum(apart, axis=1) / np.maximum(n_shared, 1), np.inf
        )
        return np.argsort(distance, kind="stable")

    def _estimate(self, name: str, near: Array | None) -> Value:
        if near is None:
            return self.middles[name]
        column = self.table[near, list(FEATURES).index(name)]
        donors = column[~np.isnan(column)][:N_NEIGHBOURS]
        return _middle(name, donors.tolist()) if len(donors) else self.middles[name]


def _numbers(row: Mapping[str, Value]) -> list[float]:
    return [np.nan if row[name] is None else float(row[name] or 0.0) for name in FEATURES]


def _middle(name: str, values: Sequence[Value]) -> Value:
    """Return the median of a measurement, the most frequent value of a code."""
    known = [value for value in values if value is not None]
    if not known:
        return None
    if FEATURES[name].codes:
        counts = Counter(int(value) for value in known)
        return min(counts, key=lambda value: (-counts[value], value))
    middle = round(float(np.median(known)), 3)
    return middle if FEATURES[name].decimals else int(middle)

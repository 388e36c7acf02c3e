"""Fill values that were not measured, from training patients alone and never from a label."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from krisis.data.ckd.schema import FEATURES, Value, usable

ImputeMethod = Literal["none", "median"]
METHODS = ("none", "median")


@dataclass(frozen=True, slots=True)
class Imputer:
    """What training patients have: the median of a measurement, the commonest value of a code."""

    middles: dict[str, Value]

    @classmethod
    def fit(cls, training: Sequence[Mapping[str, Value]]) -> Imputer:
        """Learn from training patients; implausible values are left out."""
        return cls(
            {name: _middle(name, [usable(row, name) for row in training]) for name in FEATURES}
        )

    def fill(self, values: Mapping[str, Value]) -> tuple[dict[str, Value], list[str]]:
        """Return the values without gaps, and the names of those that were filled."""
        gaps = [name for name in FEATURES if name in values and values[name] is None]
        return {**values, **{name: self.middles[name] for name in gaps}}, gaps


def _middle(name: str, values: Sequence[Value]) -> Value:
    known = [value for value in values if value is not None]
    if not known:
        return None
    if FEATURES[name].codes:
        counts = Counter(int(value) for value in known)
        return min(counts, key=lambda value: (-counts[value], value))
    middle = round(float(np.median(known)), 3)
    return middle if FEATURES[name].decimals or not middle.is_integer() else int(middle)

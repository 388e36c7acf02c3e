"""Confidence intervals: what one is, and those from the replicates of a bootstrap."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy import special

from krisis.errors import InvalidValue, UnknownName

FloatArray = NDArray[np.float64]

ROUNDING = 1e-12
"""Share of the largest value below which replicates differ by their rounding alone."""

ReplicateMethod = Literal["percentile", "expanded_percentile"]
REPLICATE_METHODS: tuple[ReplicateMethod, ...] = (
    "percentile",
    "expanded_percentile",
)


@dataclass(frozen=True, slots=True)
class Interval:
    """A confidence interval and how it was obtained; ``reason`` says why it is undefined."""

    low: float
    high: float
    level: float = 0.95
    method: str = ""
    reason: str = ""

    @classmethod
    def undefined(cls, reason: str, *, level: float = 0.95, method: str = "") -> Interval:
        """Return an interval without ends, with its reason."""
        return cls(math.nan, math.nan, level, method, reason)

    @property
    def defined(self) -> bool:
        """Tell whether the interval has ends."""
        return not (math.isnan(self.low) or math.isnan(self.high))

    def clipped(self, low: float, high: float) -> Interval:
        """Return the part of the interval that the figure can reach at all."""
        if not self.defined:
            return self
        return replace(self, low=min(max(self.low, low), high), high=min(max(self.high, low), high))


DEFAULT_LEVEL = 0.95


def levels_of(intervals: Iterable[Interval | None]) -> list[float]:
    """Return the different levels of the intervals that have ends, in rising order."""
    return sorted({one.level for one in intervals if one is not None and one.defined})


def common_level(intervals: Iterable[Interval | None]) -> float:
    """Return the level for more intervals of the same kind: the highest of these, or 0.95."""
    return max(levels_of(intervals), default=DEFAULT_LEVEL)


def level_name(levels: Iterable[float]) -> str:
    """Write levels as every heading and sentence does.

    >>> level_name([0.95]), level_name([0.8, 0.95]), level_name([])
    ('95 %', '80 or 95 %', '')
    """
    shown = [f"{100 * level:g}" for level in sorted(set(levels))]
    return f"{' or '.join(shown)} %" if shown else ""


def interval_heading(intervals: Iterable[Interval | None]) -> str:
    """Return the heading of a column of intervals: it names the level that they have.

    >>> interval_heading([Interval(0, 1, 0.8), None]), interval_heading([])
    ('80 % interval', 'interval')
    """
    return f"{level_name(levels_of(intervals))} interval".strip()


def check_level(level: float) -> float:
    """Return a confidence level that lies strictly between 0 and 1."""
    if not 0.0 < level < 1.0:
        raise InvalidValue(f"the confidence level must be between 0 and 1, not {level!r}")
    return level


@dataclass(frozen=True, slots=True)
class Replicates:
    """The bootstrap values of one figure: what it is, and what it was in every resample."""

    estimate: float
    values: FloatArray
    n_clusters: int

    def interval(self, method: ReplicateMethod, *, level: float = 0.95) -> Interval:
        """Return the percentiles of the resamples, plain or expanded; undefined ones are left out.

        References: Efron and Tibshirani, An Introduction to the Bootstrap (1993), for percentiles;
        Hesterberg, What teachers should know about the bootstrap, The American Statistician 69
        (2015) 371–386, for the expanded ones.
        """
        if method not in REPLICATE_METHODS:
            raise UnknownName.among("interval method", method, REPLICATE_METHODS)
        tail = (1 - check_level(level)) / 2
        valid = self.values[~np.isnan(self.values)]
        reason = self._obstacle(method, valid)
        if reason:
            return Interval.undefined(reason, level=level, method=method)
        wide = tail if method == "percentile" else expanded_tail(tail, self.n_clusters)
        low, high = np.quantile(valid, (wide, 1 - wide)).tolist()
        return Interval(low, high, level, method)

    def _obstacle(self, method: ReplicateMethod, valid: FloatArray) -> str:
        if math.isnan(self.estimate):
            return "the_figure_is_undefined"
        if self.n_clusters < 2:
            return "needs_at_least_two_clusters"
        if valid.size < 2:
            return "fewer_than_two_valid_resamples"
        # Plain percentiles are kept as they are published, collapsed or not.
        # Sums of the same numbers in another order differ in the last digits.
        same = np.ptp(valid) <= ROUNDING * np.abs(valid).max()
        return "every_resample_gives_the_same_value" if method != "percentile" and same else ""


def expanded_tail(tail: float, n_clusters: int) -> float:
    """Return Φ(√(C/(C−1))·t_{C−1}(tail)), the tail of expanded percentiles for C clusters.

    Resamples vary too little by (C−1)/C, and the spread is itself estimated, which is what
    Student's quantile allows for (Hesterberg 2015).
    """
    scale = math.sqrt(n_clusters / (n_clusters - 1))
    return float(special.ndtr(scale * special.stdtrit(n_clusters - 1, tail)))

"""The interval of a difference between two scores whose rows are not at hand."""

from __future__ import annotations

import math

from krisis.metrics.base import MetricScore
from krisis.statistics.intervals import Interval


def unpaired_interval(left: MetricScore, right: MetricScore) -> Interval | None:
    """Combine the intervals of two scores as if the runs had nothing in common.

    Right minus left by squaring and adding the two half-widths on the side that matters. Runs on
    the same cases usually agree on most of them, so the truth is narrower: match the rows to see.

    Reference: Zou and Donner, Construction of confidence limits about effect measures: a general
    approach, Statistics in Medicine 27 (2008) 1693–1702.
    """
    first, second = left.interval, right.interval
    if first is None or second is None or math.isnan(first.low) or math.isnan(second.low):
        return None
    delta = right.value - left.value
    below = math.hypot(right.value - second.low, first.high - left.value)
    above = math.hypot(second.high - right.value, left.value - first.low)
    return Interval(delta - below, delta + above, first.level, "unpaired")

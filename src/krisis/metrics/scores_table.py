"""Scores as the table that a notebook shows."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from krisis.display import format_interval, format_value, html_line, html_table
from krisis.metrics.explanations import explained, method_lines, methods_of
from krisis.statistics.intervals import interval_heading, level_name, levels_of

if TYPE_CHECKING:
    from krisis.metrics.base import MetricScore

Name = Callable[["MetricScore"], str]


def scores_html(
    scores: Mapping[str, MetricScore], *, name: Name = lambda score: score.name, caption: str = ""
) -> str:
    """Return a line per score: value or reason, interval with its method, and the rows behind it.

    What the methods are follows, each once.

    Where the levels of the intervals differ, each interval names its own.
    """
    intervals = [score.interval for score in scores.values()]
    mixed = len(levels_of(intervals)) > 1
    lines = [
        (
            name(score),
            _value(score),
            _interval(score, with_level=mixed),
            _method(score),
            f"{score.n_evaluated:,}",
        )
        for score in scores.values()
    ]
    heads = ("Metric", "Value", interval_heading(intervals), "Method", "n")
    meant = map(html_line, method_lines(methods_of(scores.values())))
    return "".join([html_table(heads, lines, caption=caption), *meant])


def _value(score: MetricScore) -> str:
    reason = explained(str(score.details.get("reason", "no reason was given")))
    return f"undefined: {reason}" if math.isnan(score.value) else format_value(score.value)


def _interval(score: MetricScore, *, with_level: bool) -> str:
    bounds, interval = format_interval(score.interval), score.interval
    if interval is None or math.isnan(score.value):
        return ""
    if not bounds:
        return f"none: {explained(interval.reason)}" if interval.reason else ""
    return f"{bounds} ({level_name([interval.level])})" if with_level else bounds


def _method(score: MetricScore) -> str:
    return score.interval.method if score.interval and format_interval(score.interval) else ""

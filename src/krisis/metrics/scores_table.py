"""Scores as the table that a notebook shows."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from krisis.display import format_interval, format_value, html_line, html_table
from krisis.metrics.explanations import explained, method_lines, methods_of

if TYPE_CHECKING:
    from krisis.metrics.base import MetricScore

Name = Callable[["MetricScore"], str]


def scores_html(
    scores: Mapping[str, MetricScore], *, name: Name = lambda score: score.name, caption: str = ""
) -> str:
    """Return a line per score: value or reason, interval with its method, and the rows behind it.

    What the methods are follows, each once.

    An interval of another level than 95 % says so itself.
    """
    lines = [
        (name(score), _value(score), _interval(score), _method(score), f"{score.n_evaluated:,}")
        for score in scores.values()
    ]
    heads = ("Metric", "Value", "95 % interval", "Method", "n")
    meant = map(html_line, method_lines(methods_of(scores.values())))
    return "".join([html_table(heads, lines, caption=caption), *meant])


def _value(score: MetricScore) -> str:
    reason = explained(str(score.details.get("reason", "no reason was given")))
    return f"undefined: {reason}" if math.isnan(score.value) else format_value(score.value)


def _interval(score: MetricScore) -> str:
    bounds, interval = format_interval(score.interval), score.interval
    if interval is None or math.isnan(score.value):
        return ""
    if not bounds:
        return f"none: {explained(interval.reason)}" if interval.reason else ""
    return bounds if interval.level == 0.95 else f"{bounds} ({100 * interval.level:g} %)"


def _method(score: MetricScore) -> str:
    return score.interval.method if score.interval and format_interval(score.interval) else ""

"""Scoring what was stored: the metrics of a run by their names and parameters, on its rows."""

from __future__ import annotations

from krisis import registry
from krisis.errors import UserError
from krisis.metrics.base import BaseMetric, MetricScore


def metric_of(score: MetricScore) -> BaseMetric | None:
    """Return the metric behind a stored score, with its parameters; None if it is not installed.

    Only registered classes are looked up: a file may not choose what is imported.
    """
    plugins = registry.table("metrics").keys() - registry.BUILT_IN["metrics"].keys()
    for name in (score.key, *sorted(plugins)):
        try:
            kind = registry.find("metrics", name)
            if kind.key == score.key:
                made: BaseMetric = kind(**score.parameters)
                return made
        except (UserError, TypeError, AttributeError):
            continue
    return None

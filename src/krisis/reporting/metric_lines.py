"""The metric table of a page: value, interval, direction and yardsticks, line by line."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from krisis import registry
from krisis.metrics.base import MetricScore
from krisis.reporting.reference_policies import ReferenceScores

_ARROWS = {"higher": ("↑", "higher is better"), "lower": ("↓", "lower is better")}
_WIDTH, _MARGIN = 120.0, 4.0


@dataclass(frozen=True, slots=True)
class Glyph:
    """Where the value, its interval and the yardsticks lie on a strip from 0 to 1."""

    value: float
    low: float | None
    high: float | None
    yardsticks: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class MetricLine:
    """One metric as a page shows it."""

    name: str
    value: float
    reason: str
    interval: str
    method: str
    n_evaluated: int
    arrow: str
    direction_words: str
    glyph: Glyph | None
    yardstick_values: tuple[float, ...]
    note: str


def metric_lines(
    scores: Mapping[str, MetricScore], yardsticks: Sequence[ReferenceScores]
) -> list[MetricLine]:
    """Return the lines of the table in the order of the scores."""
    directions = metric_directions()
    return [
        _line(score, directions.get(score.name, "neither"), _values(score.name, yardsticks))
        for score in scores.values()
    ]


def metric_directions() -> dict[str, str]:
    """Return which way is better for every registered metric, by its label."""
    found = (registry.find("metrics", key) for key in registry.names("metrics"))
    return {metric.name: metric.direction for metric in found}


def _values(name: str, yardsticks: Sequence[ReferenceScores]) -> tuple[float, ...]:
    absent = MetricScore(name, math.nan)
    return tuple(yardstick.scores.get(name, absent).value for yardstick in yardsticks)


def _line(score: MetricScore, direction: str, others: tuple[float, ...]) -> MetricLine:
    arrow, words = _ARROWS.get(direction, ("", "neither way is better by itself"))
    interval = score.interval
    known = interval is not None and not math.isnan(interval.low)
    undefined = math.isnan(score.value)
    return MetricLine(
        name=score.name,
        value=score.value,
        reason=str(score.details.get("reason", "")).replace("_", " ") if undefined else "",
        interval=f"{interval.low:.4f} to {interval.high:.4f}" if known and interval else "",
        method=interval.method.replace("_", " ") if known and interval else "",
        n_evaluated=score.n_evaluated,
        arrow=arrow,
        direction_words=words,
        glyph=None if undefined else _glyph(score, others),
        yardstick_values=others,
        note=_note(score),
    )


def _glyph(score: MetricScore, others: tuple[float, ...]) -> Glyph | None:
    if not 0 <= score.value <= 1:
        return None
    interval = score.interval
    known = interval is not None and not math.isnan(interval.low)
    return Glyph(
        _place(score.value),
        _place(interval.low) if known and interval else None,
        _place(interval.high) if known and interval else None,
        tuple(_place(value) for value in others if 0 <= value <= 1),
    )


def _place(value: float) -> float:
    return round(_MARGIN + _WIDTH * min(max(value, 0.0), 1.0), 1)


def _note(score: MetricScore) -> str:
    null_value = score.details.get("null_value")
    if isinstance(null_value, float) and not math.isnan(null_value):
        return (
            f"a perfectly calibrated model with these rows would show {null_value:.4f} by chance "
            "alone; read the error against that, not against zero"
        )
    return ""

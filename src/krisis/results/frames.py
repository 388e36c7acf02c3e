"""Rows and scores as pandas frames, for those who have pandas."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from krisis.errors import MissingExtra
from krisis.json_values import JsonMapping, JsonObject
from krisis.metrics.base import MetricScore

if TYPE_CHECKING:
    import pandas as pd


def frame_of(lines: Sequence[JsonMapping], caller: str) -> pd.DataFrame:
    """Return lines of named values as a frame, or say how to install pandas."""
    try:
        import pandas as pd
    except ImportError:
        raise MissingExtra.named("frames", caller) from None
    return pd.DataFrame(lines)


def rows_frame(rows: Iterable[JsonMapping]) -> pd.DataFrame:
    """Return rows as a frame, what is nested in them under names such as ``metadata.stage``."""
    flat = [
        {
            **{name: value for name, value in row.items() if not isinstance(value, dict)},
            **{f"metadata.{key}": value for key, value in row["metadata"].items()},
            **{f"signals.{key}": value for key, value in row["signals"].items()},
        }
        for row in rows
    ]
    return frame_of(flat, "to_frame()")


def score_lines(scores: Mapping[str, MetricScore], source: str) -> list[JsonObject]:
    """Return a line per score; ends that are not known are NaN, with the reason."""
    return [_score_line(score, source) for score in scores.values()]


def _score_line(score: MetricScore, source: str) -> JsonObject:
    interval = score.interval
    reason = score.details.get("reason", "") if math.isnan(score.value) else ""
    return {
        "key": score.identifier,
        "name": score.name,
        "source": source,
        "value": score.value,
        "low": interval.low if interval else math.nan,
        "high": interval.high if interval else math.nan,
        "level": interval.level if interval else math.nan,
        "method": interval.method if interval else "",
        "n_evaluated": score.n_evaluated,
        "n_abstained": score.n_abstained,
        "direction": score.direction,
        "reason": str(reason or (interval.reason if interval else "")),
    }

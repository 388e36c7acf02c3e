"""Runs as items, made from columns for the tests of confidence."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from krisis.metrics.base import EvaluationResult
from krisis.metrics.items import STATED, RunItems, Source
from krisis.metrics.table import Answers, Table


def made_items(
    *,
    participants: Sequence[object],
    participant: np.ndarray,
    item_names: Sequence[str],
    truth: np.ndarray,
    prediction: np.ndarray,
    signals: Sequence[Mapping[str, Any]],
    scale: float,
    source: Source,
) -> RunItems:
    """Return items with scores from 0 to ``scale``, or with words that have no order (NaN)."""
    ordered = not math.isnan(scale)

    def label(score: float) -> int | str:
        return int(score) if ordered else f"word {int(score)}"

    rows = [
        EvaluationResult(
            None if math.isnan(p) else label(p),
            label(t),
            math.isnan(p),
            _confidence(given.get(STATED)),
            metadata={"item": item},
            cluster_id=str(participants[int(who)]),
            signals=dict(given),
        )
        for who, item, t, p, given in zip(
            participant, item_names, truth, prediction, signals, strict=True
        )
    ]
    answers = Answers(tuple(range(int(scale) + 1)), ordered=True) if ordered else Answers()
    return RunItems(Table(rows, answers), source, "llm", words=("participant", "item"))


def _confidence(stated: object) -> float | None:
    known = isinstance(stated, float | int) and 0 <= stated <= 1
    return float(stated) if known else None  # type: ignore[arg-type]

"""Figures in words: the headline of a run and the way that pages write numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from krisis.metrics.base import MetricScore
from krisis.results.base import Attrition


def number(value: Any) -> str:
    """Write a figure for a table: four decimals, thousands apart, undefined as a dash.

    >>> number(0.5), number(12345), number(math.nan), number(None)
    ('0.5000', '12,345', '–', '–')
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, float):
        return f"{value:.4f}" if abs(value) < 1000 else f"{value:,.1f}"
    if isinstance(value, list | tuple):
        return ", ".join(map(str, value))
    return str(value)


def percent(value: float | None) -> str:
    """Write a share as a percentage.

    >>> percent(0.756), percent(None)
    ('75.6 %', '–')
    """
    if value is None or math.isnan(value):
        return "–"
    return f"{value * 100:.1f} %"


def headline(scores: Mapping[str, MetricScore], attrition: Attrition) -> str:
    """Say in one sentence how often the model answered, how rightly, and whether it deferred."""
    n_scored = attrition.n_answered + attrition.n_abstained
    n_answered = attrition.n_answered
    if not n_scored:
        return "No row could be scored."
    parts = [f"Answered {n_answered:,} of {n_scored:,} cases ({percent(n_answered / n_scored)})"]
    selective = scores.get("selective_accuracy")
    if selective is not None and not math.isnan(selective.value):
        parts.append(f"right on {percent(selective.value)} of those")
    deferral = scores.get("deferral_alignment")
    if deferral is not None and not math.isnan(deferral.value):
        confusion = deferral.details.get("confusion", {})
        met = int(confusion.get("defer_when_needed", 0))
        n_due = met + int(confusion.get("answer_when_should_defer", 0))
        if n_due:
            parts.append(f"deferred {met:,} of the {n_due:,} cases that asked for it")
    return ", ".join(parts) + "."

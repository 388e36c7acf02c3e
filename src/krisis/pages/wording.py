"""How pages write figures and text: numbers, the headline of a run, a model's own words."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Mapping
from decimal import ROUND_FLOOR, Decimal
from typing import TYPE_CHECKING

from krisis.display import HIDDEN
from krisis.json_values import JsonValue
from krisis.metrics.base import MetricScore
from krisis.pages.numbers import of_a_chart
from krisis.results.base import Attrition

if TYPE_CHECKING:
    from markupsafe import Markup


def number(value: JsonValue) -> str:
    """Write a figure for a table, as `of_a_chart` does; a list with commas.

    >>> number([1, 2]), number(0.5)
    ('1, 2', '0.5000')
    """
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else of_a_chart(value)


def percent(value: float | None) -> str:
    """Write a share as a percentage.

    >>> percent(0.756), percent(None)
    ('75.6 %', '–')
    """
    if value is None or math.isnan(value):
        return "–"
    return f"{value * 100:.1f} %"


def percent_beside(value: float | None, limit: float | None) -> str:
    """Write a share beside the limit it is compared with: rounded, but never across the limit.

    >>> percent_beside(0.05018, 0.05), percent_beside(0.0481, 0.05), percent_beside(0.5998, 0.6)
    ('5.02 %', '4.8 %', '59.98 %')
    """
    if value is None or math.isnan(value):
        return "–"
    exact, bound = Decimal(repr(value)) * 100, Decimal(repr(limit or 0.0)) * 100
    for n_decimals in range(1, 20):
        shown = round(exact, n_decimals)
        if limit is None or (shown < bound, shown > bound) == (exact < bound, exact > bound):
            return f"{shown} %"
    return f"{exact:f} %"


def threshold_beside(threshold: float, below: float) -> str:
    """Write a threshold in as few digits as accept the same answers; ``below`` is the next score.

    >>> threshold_beside(0.87123, 0.85), threshold_beside(0.8712, 0.871), threshold_beside(0.9, 0.8)
    ('0.87', '0.8712', '0.90')
    """
    exact = Decimal(repr(threshold))
    for n_decimals in range(2, 20):
        shown = exact.quantize(Decimal(1).scaleb(-n_decimals), rounding=ROUND_FLOOR)
        if below < float(shown) <= threshold:
            return f"{shown:f}"
    return repr(threshold)


def headline(scores: Mapping[str, MetricScore], attrition: Attrition) -> str:
    """Say in one sentence how often the model answered, how rightly, and whether it deferred."""
    n_scored = attrition.n_evaluated
    n_answered = attrition.n_answered
    if not n_scored:
        return "No row could be scored."
    parts = [f"Answered {n_answered:,} of {n_scored:,} cases ({percent(n_answered / n_scored)})"]
    if attrition.n_no_answer:
        parts.append(f"gave no allowed answer to {attrition.n_no_answer:,}")
    selective = scores.get("selective_accuracy")
    if selective is not None and not math.isnan(selective.value):
        parts.append(f"right on {percent(selective.value)} of those")
    deferral = scores.get("deferral_alignment")
    if deferral is not None and not math.isnan(deferral.value):
        confusion = deferral.details.get("confusion", {})
        met = int(confusion.get("defer_when_needed", 0))
        unmet = ("answer_when_should_defer", "no_answer_when_should_defer")
        n_due = met + sum(int(confusion.get(cell, 0)) for cell in unmet)
        if n_due:
            parts.append(f"deferred {met:,} of the {n_due:,} cases that asked for it")
    return ", ".join(parts) + "."


def visible(text: object) -> Markup:
    """Return text as escaped HTML in which hidden characters show as their code points."""
    from markupsafe import Markup, escape

    raw = str(text)
    pieces: list[Markup] = []
    end = 0
    for match in HIDDEN.finditer(raw):
        name = unicodedata.name(match.group(), "control character").lower()
        code = f"{ord(match.group()):04X}"
        mark = Markup('<span class="hidden-character" title="{}">U+{}</span>').format(name, code)
        pieces += [escape(raw[end : match.start()]), mark]
        end = match.end()
    return Markup("").join([*pieces, escape(raw[end:])])

"""How pages write figures and text: numbers, the headline of a run, a model's own words."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from krisis.metrics.base import MetricScore
from krisis.results.base import Attrition

if TYPE_CHECKING:
    from markupsafe import Markup


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


# Controls, zero-width and direction-changing characters, soft hyphens, tags, lone surrogates.
_HIDDEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\xad\u061c\u115f\u1160\u180e\u200b-\u200f\u2028-\u202e"
    "\u2060-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb\ufffe\uffff\ud800-\udfff\U000e0000-\U000e007f]"
)


def spelled_out(text: str) -> str:
    """Return text in which hidden characters stand as their code points.

    >>> spelled_out("zero\\u200bwidth")
    'zero[U+200B]width'
    """
    return _HIDDEN.sub(lambda match: f"[U+{ord(match.group()):04X}]", text)


def visible(text: object) -> Markup:
    """Return text as escaped HTML in which hidden characters show as their code points."""
    from markupsafe import Markup, escape

    raw = str(text)
    pieces: list[Markup] = []
    end = 0
    for match in _HIDDEN.finditer(raw):
        name = unicodedata.name(match.group(), "control character").lower()
        code = f"{ord(match.group()):04X}"
        mark = Markup('<span class="hidden-character" title="{}">U+{}</span>').format(name, code)
        pieces += [escape(raw[end : match.start()]), mark]
        end = match.end()
    return Markup("").join([*pieces, escape(raw[end:])])

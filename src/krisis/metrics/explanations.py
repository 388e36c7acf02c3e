"""What the names of interval methods and the reasons of missing figures mean, in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from krisis.texts import stated_in

if TYPE_CHECKING:
    from krisis.metrics.base import MetricScore

_STATED = stated_in(__package__, "explanations.toml")
# Name of a method, and code of a reason, as results store them, to what they mean.
METHODS: Mapping[str, str] = _STATED["methods"]
REASONS: Mapping[str, str] = _STATED["reasons"]


def reason_words(reason: str) -> str:
    """Return a reason in words; a sentence that is no code stays as it is.

    >>> reason_words("coverage_is_never_reached"), reason_words("it was not measured")
    ('fewer cases were answered than this share', 'it was not measured')
    """
    return REASONS.get(reason) or (reason if " " in reason else reason.replace("_", " "))


def explained(reason: str) -> str:
    """Return a reason by its code, under which docs and programs know it, with what it means.

    >>> explained("no_rows"), explained("it was not measured")
    ('no_rows (there are no rows)', 'it was not measured')
    """
    return f"{reason} ({REASONS[reason]})" if reason in REASONS else reason


def method_lines(methods: Iterable[str]) -> list[str]:
    """Say what every method is, each once, in the order of first use.

    >>> method_lines(["percentile", "percentile", "my_own"])
    ['percentile: percentiles of the resampled patients']
    """
    return [f"{name}: {METHODS[name]}" for name in dict.fromkeys(methods) if name in METHODS]


def methods_of(scores: Iterable[MetricScore]) -> list[str]:
    """Return the methods of the intervals that scores have."""
    return [one.interval.method for one in scores if one.interval and one.interval.defined]

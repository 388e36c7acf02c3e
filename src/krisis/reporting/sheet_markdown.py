"""A sheet as Markdown in which nothing that a model or a user wrote is read as Markdown or HTML."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence

from krisis import __version__
from krisis.display import format_value
from krisis.json_values import JsonMapping
from krisis.pages.markdown import escaped
from krisis.reporting.sheet import DISCLAIMER, GUIDELINE, Item, Sheet
from krisis.reporting.sheet_flow import flow_text, mermaid
from krisis.reporting.sheet_run import Fact
from krisis.statistics.intervals import level_name


def sheet_markdown(sheet: Sheet) -> str:
    """Return the whole sheet as one Markdown page."""
    return "\n".join(_lines(sheet)) + "\n"


def _lines(sheet: Sheet) -> Iterator[str]:
    yield f"# Reporting sheet: {escaped(sheet.title)}"
    yield from ("", DISCLAIMER, "", f"Guideline: {GUIDELINE}.", "")
    yield from (f"Run: {escaped(sheet.file)}, read by krisis {__version__}.", "")
    for warning in sheet.warnings:
        yield from (f"**Note:** {escaped(warning)}", "")
    yield (
        f"Of {len(sheet.items)} items, {sheet.count('filled')} are filled from the run, "
        f"{sheet.count('author must fill')} must be filled by the author, and "
        f"{sheet.count('not applicable')} do not apply."
    )
    yield from ("", "## Items", "")
    yield from _table(
        ("item", "what it asks", "status", "content", "source"), map(_row, sheet.items)
    )
    yield from ("", "## Flow of records", "")
    yield (
        f"Parts add up to their whole; a {escaped(sheet.person)} with several rows may be in "
        "several parts. Evaluated is answered and abstained together."
    )
    yield ""
    yield from ("```mermaid", mermaid(sheet.flow, sheet.person), "```", "")
    yield from ("```text", flow_text(sheet.flow, sheet.person), "```", "")
    yield from ("## Model card", "")
    yield from _facts(sheet.model_card)
    yield from ("", "### Metrics", "")
    if sheet.scores:
        levels = [score["level"] for score in sheet.scores if _has_ends(score)]
        head = ("metric", "value", f"{level_name(levels)} interval", "method", "n", "source")
        yield from _table(head, map(_score, sheet.scores))
    else:
        yield "No record was answered, so there is nothing to score."
    yield from ("", "## Data sheet", "")
    yield from _facts(sheet.data_sheet)


def _row(item: Item) -> Sequence[str]:
    facts = "<br>".join(f"{escaped(fact.name)}: {escaped(fact.value)}" for fact in item.facts)
    if item.status == "filled":
        content = facts
    elif item.status == "not applicable":
        content = escaped(item.words)
    else:
        content = item.words + (f"<br>The run says: {facts}" if facts else "")
    named = f"{item.number} {item.section}"
    return named, item.asks, f"**{item.status}**", content, escaped(item.source)


def _has_ends(score: JsonMapping) -> bool:
    return score["low"] is not None and not math.isnan(score["low"])


def _score(score: JsonMapping) -> Sequence[str]:
    value, low = score["value"], score["low"]
    if math.isnan(value):
        return (
            escaped(score["name"]),
            escaped(f"undefined: {score['undefined']}"),
            "",
            "",
            str(score["n"]),
            escaped(score["source"]),
        )
    why = f"none: {score['no_interval']}" if score["no_interval"] else ""
    ends = f"{low:.4f} to {score['high']:.4f}" if _has_ends(score) else why
    return (
        escaped(score["name"]),
        format_value(value),
        escaped(ends),
        escaped(score["method"]),
        str(score["n"]),
        escaped(score["source"]),
    )


def _facts(facts: Sequence[Fact]) -> Iterator[str]:
    lines = ((escaped(one.name), escaped(one.value), escaped(one.source)) for one in facts)
    return _table(("what", "value", "source"), lines)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    yield f"| {' | '.join(head)} |"
    yield "|" + "---|" * len(head)
    for row in rows:
        yield f"| {' | '.join(row)} |"

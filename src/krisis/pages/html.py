"""Documents as HTML: the fragment that reports, the viewer and notebooks show.

There is no inline style and no script, so that the strictest content policy admits it; classes
name what things are, and the style sheet of the report colours them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from krisis.display import escaped
from krisis.metrics.partition import DUE, SAFE, Cells, Partition
from krisis.pages.document import (
    BEST,
    Chart,
    Content,
    Document,
    Facts,
    Section,
    Sentences,
    Table,
    Verdict,
    VerdictLine,
)
from krisis.pages.figure import Figure
from krisis.pages.numbers import Estimate, count, level, share

# Kind of cases and what became of them → the address of these cases, or nothing.
Address = Callable[[str, str], str]


def html_fragment(document: Document) -> str:
    """Return a document as HTML: the answer first, folded sections closed.

    >>> html_fragment(Document(title="<b>", lead=["2 cases"]))
    '<p>2 cases</p><h1>&lt;b&gt;</h1>'
    """
    lead = "".join(map(_paragraph, document.lead))
    return f"{lead}<h1>{escaped(document.title)}</h1>{body_html(document)}"


def body_html(document: Document) -> str:
    """Return the verdict and the sections, for a page that has the title and the lead itself."""
    verdict = "" if document.verdict is None else verdict_html(document.verdict)
    return verdict + "".join(map(_section, document.sections))


def _paragraph(text: str) -> str:
    return f"<p>{escaped(text)}</p>"


def verdict_html(verdict: Verdict) -> str:
    """Return the box that every page of a run begins with."""
    lines = "".join(map(_verdict_line, verdict.lines))
    about = f"Verdict on the {verdict.about}" if verdict.about else ""
    title = f'<p class="bar-title">{escaped(about)}</p>' if about else ""
    label = escaped(about or "Verdict")
    note = ""
    if verdict.level is not None:
        note = f'<p class="note">Intervals of the verdict: {level(verdict.level)}.</p>'
    body = f"{title}<dl>{lines}</dl>{note}"
    return f'<section class="verdict" aria-label="{label}">{body}</section>'


def _verdict_line(line: VerdictLine) -> str:
    name = (line.answer or "figure").replace(" ", "-")
    answer = f'<dd class="reply">{escaped(line.answer)}</dd>' if line.answer else ""
    body = f"<dt>{escaped(line.question)}</dt>{answer}<dd>{escaped(line.sentence())}</dd>"
    return f'<div class="verdict-line is-{name}">{body}</div>'


def _section(section: Section) -> str:
    body = "".join(map(_part, section.parts))
    title = escaped(section.title)
    if section.folded:
        return f"<details><summary>{title}</summary>{body}</details>"
    return f"<section><h2>{title}</h2>{body}</section>"


def _part(part: Content) -> str:
    if isinstance(part, Sentences):
        return "".join(map(_paragraph, part.lines))
    if isinstance(part, Facts):
        pairs = (f"<dt>{escaped(name)}</dt><dd>{escaped(value)}</dd>" for name, value in part.pairs)
        return f'<dl class="facts">{"".join(pairs)}</dl>'
    if isinstance(part, Chart):
        return chart_html(part.draw())
    return table_html(part)


def chart_html(figure: Figure) -> str:
    """Return a picture with how to read it."""
    caption = f"<figcaption>{escaped(figure.reading)}</figcaption>" if figure.reading else ""
    return f"<figure>{figure.inline_svg}{caption}</figure>"


def table_html(table: Table) -> str:
    """Return a table in a frame that scrolls where it is wider than the page."""

    def cell(text: str, name: str, *, number: bool, words: str = "", best: bool = False) -> str:
        names = " ".join(["figure"] * number + ["best"] * best)
        kind = f' class="{names}"' if names else ""
        title = f' title="{escaped(words)}"' if words else ""
        shown = f"<strong>{escaped(text)}</strong>" if best else escaped(text)
        return f"<{name}{kind}{title}>{shown}</{name}>"

    head = "".join(
        cell(heading, "th", number=one.is_number, words=one.long_heading)
        for one, heading in zip(table.columns, table.headings(), strict=True)
    )
    lines = "".join(
        "<tr>"
        + "".join(
            cell(text, "td", number=column.is_number, best=(at, place) in table.best)
            for place, (column, text) in enumerate(zip(table.columns, row, strict=True))
        )
        + "</tr>"
        for at, row in enumerate(table.written())
    )
    caption = f"<caption>{escaped(table.title)}</caption>" if table.title else ""
    body = f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table>"
    note = _paragraph(f"Bold: {BEST}.") if table.best else ""
    note += _paragraph(table.note) if table.note else ""
    return f'<div class="table-frame" tabindex="0" role="group">{body}</div>{note}'


# --- The bar of cases ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Bar:
    """What became of one kind of cases, and the words for it."""

    kind: str
    words: tuple[str, str, str, str]  # right, wrong, deferred, no answer


_BARS = (
    _Bar(SAFE, ("right", "wrong", "needless deferral", "no answer")),
    _Bar(DUE, ("right all the same", "wrong", "deferred", "no answer")),
    _Bar("", ("right", "wrong", "deferred", "no answer")),
)
_TONES = ("correct", "wrong", "abstained", "no-answer")
_WIDTH, _HEIGHT = 1000, 24


def partition_html(partition: Partition, address: Address | None = None) -> str:
    """Draw the cases as one bar per kind, on one scale, each part a link to its cases."""
    kinds = (partition.safe, partition.due, partition.unlabelled)
    longest = max(cells.n for cells in kinds)
    rows = [
        _bar(bar, cells, longest, address)
        for bar, cells in zip(_BARS, kinds, strict=True)
        if cells.n
    ]
    missing = ""
    if partition.not_evaluated:
        n = _linked(count(partition.not_evaluated), "", "not-evaluated", address)
        missing = f'<p class="note">not evaluated <strong>{n}</strong></p>'
    return f'<div class="partition">{"".join(rows)}{missing}</div>'


def _bar(bar: _Bar, cells: Cells, longest: int, address: Address | None) -> str:
    counts = (cells.right, cells.wrong, cells.abstained, cells.no_answer)
    order = (2, 0, 1, 3) if bar.kind == DUE else (0, 1, 2, 3)  # what was due comes first
    start, parts, legend = 0.0, [], []
    for place in order:
        n, tone, words = counts[place], _TONES[place], bar.words[place]
        if not n and tone == "no-answer":
            continue
        width = _WIDTH * n / longest
        parts.append(
            f'<rect x="{start:.2f}" y="0" width="{width:.2f}" height="{_HEIGHT}" '
            f'class="fill-{tone}"/>'
        )
        start += width
        of = share(Estimate(n / cells.n))
        legend.append(
            f'<li><span class="swatch is-{tone}"></span>{escaped(words)} '
            f"<strong>{_linked(count(n), bar.kind, tone, address)}</strong> "
            f'<span class="muted">({of})</span></li>'
        )
    said = ", ".join(f"{counts[place]} {bar.words[place]}" for place in order)
    title = f"{bar.kind or 'all'}: {count(cells.n)} cases"
    return (
        f'<div class="attrition"><p class="bar-title">{escaped(title)}</p>'
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" preserveAspectRatio="none" role="img" '
        f'aria-label="{escaped(said)}">{"".join(parts)}</svg>'
        f'<ul class="legend">{"".join(legend)}</ul></div>'
    )


def _linked(text: str, kind: str, tone: str, address: Address | None) -> str:
    place = address(kind, tone) if address is not None else ""
    return f'<a href="{escaped(place)}">{escaped(text)}</a>' if place else escaped(text)

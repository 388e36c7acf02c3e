"""Documents as HTML: the fragment that reports, the viewer and notebooks show.

There is no inline style and no script, so that the strictest content policy admits it; classes
name what things are, and the style sheet of the report colours them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from krisis.display import escaped
from krisis.metrics.partition import DUE, SAFE, Cells, Partition
from krisis.pages.document import (
    BEST,
    Cell,
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
from krisis.pages.strip import Strip

# Kind of cases and what became of them → the address of these cases, or nothing.
Address = Callable[[str, str], str]
# The cases behind a cell of a table, as `Table.cases` names them → the address of their list.
CaseAddress = Callable[[object], str]
MOST_COLUMNS, MOST_TURNED = 8, 6  # columns that fit a page, and rows that fit as columns


def html_fragment(document: Document) -> str:
    """Return a document as HTML: the answer first, folded sections closed.

    >>> html_fragment(Document(title="<b>", lead=["2 cases"]))
    '<p>2 cases</p><h1>&lt;b&gt;</h1>'
    """
    lead = "".join(map(_paragraph, document.lead))
    return f"{lead}<h1>{escaped(document.title)}</h1>{body_html(document)}"


def body_html(document: Document, cases: CaseAddress | None = None) -> str:
    """Return the verdict and the sections, for a page that has the title and the lead itself."""
    verdict = "" if document.verdict is None else verdict_html(document.verdict)
    return verdict + "".join(_section(one, cases) for one in document.sections)


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


def _section(section: Section, cases: CaseAddress | None) -> str:
    body = "".join(_part(part, cases) for part in section.parts)
    title = escaped(section.title)
    if section.folded:
        return f"<details><summary>{title}</summary>{body}</details>"
    return f"<section><h2>{title}</h2>{body}</section>"


def _part(part: Content, cases: CaseAddress | None) -> str:
    if isinstance(part, Sentences):
        return "".join(map(_paragraph, part.lines))
    if isinstance(part, Facts):
        pairs = (f"<dt>{escaped(name)}</dt><dd>{escaped(value)}</dd>" for name, value in part.pairs)
        return f'<dl class="facts">{"".join(pairs)}</dl>'
    if isinstance(part, Chart):
        return chart_html(part.draw())
    return table_html(part, cases)


def chart_html(figure: Figure) -> str:
    """Return a picture with how to read it."""
    caption = f"<figcaption>{escaped(figure.reading)}</figcaption>" if figure.reading else ""
    return f"<figure>{figure.inline_svg}{caption}</figure>"


def table_html(table: Table, cases: CaseAddress | None = None) -> str:
    """Return a table in a frame that scrolls where it is wider than the page.

    A table of many columns and few rows is turned, so that it fits a page.
    """
    head = [
        _tagged("th", escaped(heading), number=one.is_number, title=one.long_heading, scope="col")
        for one, heading in zip(table.columns, table.headings(), strict=True)
    ]
    lines = [
        [_table_cell(table, at, place, text, cases) for place, text in enumerate(row)]
        for at, row in enumerate(table.written())
    ]
    dense = len(head) > MOST_COLUMNS
    if dense and len(lines) <= MOST_TURNED:
        first, *names = (list(column) for column in zip(head, *lines, strict=True))
        head = [first[0], *(one.replace('scope="row"', 'scope="col"') for one in first[1:])]
        lines = [[one.replace('scope="col"', 'scope="row"'), *rest] for one, *rest in names]
        dense = False
    note = ""
    if table.compared is not None:
        head.append('<th scope="col"><span class="visually-hidden">Drawing</span></th>')
        for row, line in zip(table.rows, lines, strict=True):
            known = (_estimate(row[place]) for place in table.compared)
            line.append(f"<td>{Strip.dumbbell(*known)}</td>")
        first_name, second_name = (table.columns[place].heading for place in table.compared)
        note += _note(f"Drawn from 0 to 1: {first_name} hollow, {second_name} filled.")
    note += _note(f"Bold: {BEST}.") if table.best else ""
    note += _note(table.note) if table.note else ""
    caption = f"<caption>{escaped(table.title)}</caption>" if table.title else ""
    rows = "".join(f"<tr>{''.join(line)}</tr>" for line in lines)
    kind = ' class="dense"' if dense else ""
    body = f"<thead><tr>{''.join(head)}</tr></thead><tbody>{rows}</tbody>"
    label = escaped(table.title or table.columns[0].heading)
    frame = f'<div class="table-frame" tabindex="0" role="group" aria-label="{label}">'
    return f"{frame}<table{kind}>{caption}{body}</table></div>{note}"


def _table_cell(table: Table, at: int, place: int, text: str, cases: CaseAddress | None) -> str:
    """Return a cell: the first of a row is its heading, the best is bold, and some have a link."""
    number = table.columns[place].is_number
    value, bracket, interval = text.partition(" (") if number else (text, "", "")
    shown = escaped(value)
    if bracket:  # an interval may go under its figure
        shown += f' <span class="nowrap">({escaped(interval)}</span>'
    behind = table.cases.get((at, place))
    if cases is not None and behind is not None:
        shown = f'<a href="{escaped(cases(behind))}">{shown}</a>'
    best = (at, place) in table.best
    shown = f"<strong>{shown}</strong>" if best else shown
    if place == 0:
        return _tagged("th", shown, number=number, best=best, scope="row")
    return _tagged("td", shown, number=number, best=best)


def _tagged(
    name: str, shown: str, *, number: bool, best: bool = False, title: str = "", scope: str = ""
) -> str:
    kinds = " ".join(["figure"] * number + ["best"] * best)
    named = {"scope": scope, "class": kinds, "title": title}
    attributes = "".join(f' {key}="{escaped(words)}"' for key, words in named.items() if words)
    return f"<{name}{attributes}>{shown}</{name}>"


def _note(text: str) -> str:
    return f'<p class="note">{escaped(text)}</p>'


def _estimate(cell: Cell) -> Estimate:
    if isinstance(cell, Estimate):
        return cell
    return Estimate(float(cell) if isinstance(cell, int | float) else math.nan)


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

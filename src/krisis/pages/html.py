"""Documents as HTML: the fragment that reports, the viewer and notebooks show.

There is no inline style and no script, so that the strictest content policy admits it; classes
name what things are, and the style sheet of the report colours them.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from krisis.display import escaped
from krisis.errors import ChartFailed, MissingExtra
from krisis.json_values import JsonMapping
from krisis.metrics.partition import DUE, SAFE, Partition, VerdictCounts
from krisis.pages.cases import ChartFile, RowFilter
from krisis.pages.document import (
    BEST,
    CaseBars,
    Cell,
    Chart,
    Content,
    Document,
    Facts,
    Finding,
    Listing,
    Section,
    Sentences,
    Table,
    Verdict,
)
from krisis.pages.figure import Figure
from krisis.pages.numbers import Estimate, count, level, share, stored
from krisis.pages.strip import Strip

# The cases behind a number, or a chart as a file, → its address (`krisis.pages.cases`).
CaseAddress = Callable[[object], str]
MOST_COLUMNS, MOST_TURNED = 8, 6  # columns that fit a page, and rows that fit as columns
MOST_CHART_ROWS = 400
FILES = ("svg", "png")  # that a chart is offered as
_FEW_SECTIONS = 4  # that need no list of contents


def html_fragment(document: Document) -> str:
    """Return a document as HTML: the answer first, folded sections closed.

    >>> html_fragment(Document(title="<b>", lead=["2 cases"]))
    '<p class="muted">2 cases</p><h1>&lt;b&gt;</h1>'
    """
    return opening_html(document) + sections_html(document)


def opening_html(document: Document) -> str:
    """Return what became of the cases, before any figure; the title and the verdict."""
    kind = 'class="warning" role="status"' if document.urgent else 'class="muted"'
    lead = "".join(f"<p {kind}>{escaped(line)}</p>" for line in document.lead)
    verdict = "" if document.verdict is None else verdict_html(document.verdict)
    return f"{lead}<h1>{escaped(document.title)}</h1>{verdict}"


def body_html(document: Document, cases: CaseAddress | None = None) -> str:
    """Return the verdict and the sections, for a page that has the title and the lead itself."""
    verdict = "" if document.verdict is None else verdict_html(document.verdict)
    return verdict + sections_html(document, cases)


def sections_html(document: Document, cases: CaseAddress | None = None) -> str:
    """Return the sections; folded ones are closed."""
    return "".join(_section(one, cases) for one in document.sections)


def contents_html(document: Document) -> str:
    """Return links to the sections of a page that has many; a notebook has none."""
    if len(document.sections) <= _FEW_SECTIONS:
        return ""
    entries = "".join(
        f'<li><a href="#{escaped(one.key)}">{escaped(one.title)}</a></li>'
        for one in document.sections
    )
    return f'<nav class="contents" aria-label="Contents"><ul>{entries}</ul></nav>'


def _paragraph(text: str) -> str:
    return f"<p>{escaped(text)}</p>"


def verdict_html(verdict: Verdict) -> str:
    """Return the box that every page of a run begins with."""
    lines = "".join(map(_verdict_line, verdict.lines))
    about = f"Verdict on the {verdict.about}" if verdict.about else ""
    title = f'<p class="bar-title">{escaped(about)}</p>' if about else ""
    label = escaped(about or "Verdict")
    said = [] if verdict.level is None else [f"Intervals of the verdict: {level(verdict.level)}."]
    said += [verdict.note] if verdict.note else []
    note = f'<p class="note">{escaped(" ".join(said))}</p>' if said else ""
    body = f"{title}<dl>{lines}</dl>{note}"
    return f'<section class="verdict" aria-label="{label}">{body}</section>'


def _verdict_line(line: Finding) -> str:
    name = (line.answer or "figure").replace(" ", "-")
    answer = f'<dd class="reply">{escaped(line.answer)}</dd>' if line.answer else ""
    body = f"<dt>{escaped(line.question)}</dt>{answer}<dd>{_tied(line.sentence())}</dd>"
    return f'<div class="verdict-line is-{name}">{body}</div>'


def _tied(text: str) -> str:
    """Return words in which a figure and its per cent sign stay on one line."""
    return escaped(text).replace(" %", "\u00a0%")


def _section(section: Section, cases: CaseAddress | None) -> str:
    body, charts = "", ""
    for part in section.parts:
        if isinstance(part, Chart):
            charts += _chart(part, cases)
            continue
        body += f'<div class="charts">{charts}</div>' * bool(charts) + _part(part, cases)
        charts = ""
    body += f'<div class="charts">{charts}</div>' * bool(charts)
    key, title = escaped(section.key), escaped(section.title)
    if section.folded:
        return f'<details class="section" id="{key}"><summary>{title}</summary>{body}</details>'
    return f'<section id="{key}"><h2>{title}</h2>{body}</section>'


def _part(part: Content, cases: CaseAddress | None) -> str:
    if isinstance(part, Listing):
        text = escaped("\n".join(part.lines))
        return f'<h3>{escaped(part.title)}</h3><pre tabindex="0" dir="auto">{text}</pre>'
    if isinstance(part, Sentences):
        return "".join(map(_paragraph, part.lines))
    if isinstance(part, Facts):
        pairs = (f"<dt>{escaped(name)}</dt><dd>{escaped(value)}</dd>" for name, value in part.pairs)
        return f'<dl class="facts">{"".join(pairs)}</dl>'
    if isinstance(part, CaseBars):
        return partition_html(part.partition, cases)
    assert isinstance(part, Table)
    return table_html(part, cases)


def _chart(chart: Chart, cases: CaseAddress | None) -> str:
    try:
        return chart_html(chart.draw(), cases, key=chart.key, wide=chart.wide)
    except MissingExtra as error:  # a notebook shows the rest
        return f'<p class="note">{escaped(error)}</p>'


def chart_html(
    figure: Figure, cases: CaseAddress | None = None, *, key: str = "", wide: bool = False
) -> str:
    """Return a picture under its finding, with how to read it and the numbers it shows."""
    title = escaped(figure.title)
    caption = f"<figcaption><h3>{title}</h3>{_paragraph(figure.reading)}</figcaption>"
    try:
        if cases is not None and figure.cases is not None:
            drawing = figure.linked_svg(lambda row: _behind(figure, row, _counted(row), cases))
        else:
            drawing = figure.inline_svg
    except ChartFailed as error:  # the numbers and the rest of the page are shown
        drawing = f'<p class="note">{escaped(error)}</p>'
    frame = f'<div class="chart-frame" tabindex="0" role="group" aria-label="Chart: {title}">'
    numbers = _chart_numbers(figure, cases) if figure.table else ""
    kind = ' class="wide"' if wide else ""
    name = escaped(figure.name.replace(" ", "-"))
    drawn = f"{frame}{drawing}</div>{_files(key, title, cases)}"
    return f'<figure{kind} id="figure-{name}">{caption}{drawn}{numbers}</figure>'


def _files(key: str, title: str, cases: CaseAddress | None) -> str:
    """Return the links to a chart as a file, where a server answers."""
    if cases is None or not key:
        return ""
    links = (
        f'<a href="{escaped(cases(ChartFile(key, suffix)))}" download '
        f'aria-label="Download as {suffix.upper()}: {title}">{suffix.upper()}</a>'
        for suffix in FILES
    )
    return f'<p class="downloads screen-only">Download {" ".join(links)}</p>'


def _counted(row: JsonMapping) -> str:
    """Return the column whose number a mark is drawn for."""
    return next((name for name in ("n", "coverage") if name in row), "")


def _behind(figure: Figure, row: JsonMapping, column: str, cases: CaseAddress | None) -> str:
    """Return the address of the cases behind a number of a chart; nothing has none."""
    if cases is None or figure.cases is None or not row.get(column):
        return ""
    wanted = figure.cases(row, column)
    return cases(wanted) if wanted is not None else ""


def _chart_numbers(figure: Figure, cases: CaseAddress | None) -> str:
    """Return the numbers of a chart as a table, folded."""

    def cell(row: JsonMapping, column: str) -> str:
        place = _behind(figure, row, column, cases)
        return f"<td>{_linked(stored(row.get(column)), place)}</td>"

    names = list(dict.fromkeys(name for row in figure.table for name in row))
    head = "".join(f'<th scope="col">{escaped(name.replace("_", " "))}</th>' for name in names)
    shown = figure.table[:MOST_CHART_ROWS]
    lines = "".join(f"<tr>{''.join(cell(row, name) for name in names)}</tr>" for row in shown)
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table>"
    more = ""
    if len(figure.table) > len(shown):
        total = f"{count(len(shown))} of {count(len(figure.table))} lines"
        more = f'<p class="note">The first {total}; the CSV of --figures holds them all.</p>'
    frame = _framed(table, "Numbers of the chart")
    return f"<details><summary>The numbers of this chart</summary>{frame}{more}</details>"


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
    kind = "dense" if len(head) > MOST_COLUMNS else ""
    if kind and len(lines) <= MOST_TURNED:
        first, *names = (list(column) for column in zip(head, *lines, strict=True))
        head = [first[0], *(one.replace('scope="row"', 'scope="col"') for one in first[1:])]
        lines = [[one.replace('scope="col"', 'scope="row"'), *rest] for one, *rest in names]
        kind = "turned"
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
    named = f' class="{kind}"' if kind else ""
    body = f"<thead><tr>{''.join(head)}</tr></thead><tbody>{rows}</tbody>"
    label = escaped(table.title or table.columns[0].heading)
    frame = f'<div class="table-frame" tabindex="0" role="group" aria-label="{label}">'
    return f"{frame}<table{named}>{caption}{body}</table></div>{note}"


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


def _framed(table: str, label: str) -> str:
    named = f'role="group" aria-label="{escaped(label)}"'
    return f'<div class="table-frame" tabindex="0" {named}>{table}</div>'


def _linked(text: str, address: str) -> str:
    return f'<a href="{escaped(address)}">{escaped(text)}</a>' if address else escaped(text)


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
_TONES = {
    "correct": RowFilter(correct="yes"),
    "wrong": RowFilter(correct="no"),
    "abstained": RowFilter(outcome="abstained"),
    "no-answer": RowFilter(outcome="no_answer"),
}
_DUE = {SAFE: "no", DUE: "yes", "": ""}
_WIDTH, _HEIGHT = 1000, 24


def partition_html(partition: Partition, cases: CaseAddress | None = None) -> str:
    """Draw the cases as one bar per kind, on one scale, each part a link to its cases."""
    kinds = (partition.safe, partition.due, partition.unlabelled)
    longest = max(cells.n for cells in kinds)
    rows = [
        _bar(bar, cells, longest, cases) for bar, cells in zip(_BARS, kinds, strict=True) if cells.n
    ]
    missing = ""
    if partition.not_evaluated:
        lost = cases(RowFilter(outcome="not_evaluated")) if cases else ""
        n = _linked(count(partition.not_evaluated), lost)
        missing = f'<p class="note">not evaluated <strong>{n}</strong></p>'
    return f'<div class="partition">{"".join(rows)}{missing}</div>'


def _bar(bar: _Bar, cells: VerdictCounts, longest: int, cases: CaseAddress | None) -> str:
    counts = (cells.right, cells.wrong, cells.abstained, cells.no_answer)
    order = (2, 0, 1, 3) if bar.kind == DUE else (0, 1, 2, 3)  # what was due comes first
    start, parts, legend = 0.0, [], []
    for place in order:
        n, words = counts[place], bar.words[place]
        tone, wanted = list(_TONES.items())[place]
        if not n and tone == "no-answer":
            continue
        width = _WIDTH * n / longest
        parts.append(
            f'<rect x="{start:.2f}" y="0" width="{width:.2f}" height="{_HEIGHT}" '
            f'class="fill-{tone}"/>'
        )
        start += width
        of = share(Estimate(n / cells.n))
        address = cases(replace(wanted, due=_DUE[bar.kind])) if cases else ""
        legend.append(
            f'<li><span class="swatch is-{tone}"></span>{escaped(words)} '
            f"<strong>{_linked(count(n), address)}</strong> "
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

"""A table of numbers with their intervals, made once and written as CSV, Markdown or LaTeX."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from krisis.errors import UnknownName
from krisis.pages.wording import escaped
from krisis.reporting.latex import latex_text
from krisis.results.export import Cell as PlainCell
from krisis.results.export import csv_line, guarded
from krisis.statistics.intervals import Interval

UNDEFINED = "–"
# Letters that fit a line of a page at the size of a table, and that a first column may take.
_LINE, _FIRST = 95, 28
_HEADING = 16  # longer headings are broken between words
_GAP = 2  # letters that the space between two columns takes
_EXACT = 12  # decimals in which sums and differences of shares are exact
_PAGE = 52  # lines of tables on a page, with room for caption and notes


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number with its interval; an undefined one, or one without interval, says why.

    ``decimals`` is how many are shown; files for programs have all of them.
    """

    value: float
    interval: Interval | None = None
    reason: str = ""
    decimals: int = 3
    signed: bool = False

    def __str__(self) -> str:
        if math.isnan(self.value):
            return UNDEFINED
        ends = self.interval
        if ends is None or not ends.defined:
            return self._shown(self.value)
        return f"{self._shown(self.value)} [{self._shown(ends.low)}, {self._shown(ends.high)}]"

    def _shown(self, value: float) -> str:
        # Equal numbers differ in their last bits by how they were computed; all end in one text.
        text = f"{round(value, _EXACT):{'+' if self.signed else ''},.{self.decimals}f}"
        zero = not any(digit in text for digit in "123456789")
        return text.lstrip("+-") if zero else text.replace("-", "−")

    def record(self) -> dict[str, PlainCell]:
        """Return every part in a column of its own; what is not known is empty."""
        ends = self.interval
        known = ends is not None and ends.defined
        return {
            "value": _number(self.value),
            "low": ends.low if ends is not None and known else None,
            "high": ends.high if ends is not None and known else None,
            "level": ends.level if ends is not None and known else None,
            "method": (ends.method or None) if ends is not None and known else None,
            "reason": self.reason or (ends.reason if ends is not None else "") or None,
        }


Cell = str | int | Estimate


@dataclass(frozen=True, slots=True)
class EstimateTable:
    """One table: ``lines`` as readers see them, ``records`` with one line per number.

    All tables of one command have the same columns in their records.
    """

    caption: str
    headings: Sequence[str]
    lines: Sequence[Sequence[Cell]]
    records: Sequence[Mapping[str, PlainCell]]
    notes: Sequence[str] = field(default_factory=list)


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value


def written(tables: Sequence[EstimateTable], kind: str) -> str:
    """Return tables as text of a kind: csv, markdown or latex."""
    writers = {"csv": _csv, "markdown": _markdown, "latex": _latex}
    if kind not in writers:
        raise UnknownName.among("format", kind, list(writers))
    return writers[kind](tables)


def _csv(tables: Sequence[EstimateTable]) -> str:
    records = [record for table in tables for record in table.records]
    names = list(dict.fromkeys(name for record in records for name in record))
    lines = (guarded([record.get(name) for name in names]) for record in records)
    return csv_line(names) + "".join(map(csv_line, lines))


def _markdown(tables: Sequence[EstimateTable]) -> str:
    return "\n".join(line for table in tables for line in _markdown_lines(table))


def _markdown_lines(table: EstimateTable) -> Iterator[str]:
    right = _right_columns(table)
    yield from (f"**{escaped(table.caption)}**", "")
    yield _pipes(map(escaped, table.headings))
    yield _pipes("---:" if place in right else "---" for place in range(len(table.headings)))
    yield from (_pipes(map(_markdown_cell, line)) for line in table.lines)
    yield ""
    yield from (f"- {escaped(note)}" for note in table.notes)
    yield from [""] * bool(table.notes)


def _markdown_cell(cell: Cell) -> str:
    return escaped(cell) if isinstance(cell, str) else _text(cell)


def _pipes(cells: Iterator[str] | map[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _right_columns(table: EstimateTable) -> set[int]:
    """Return the places of the columns that hold numbers alone."""
    columns = enumerate(zip(*table.lines, strict=True))
    return {
        place
        for place, cells in columns
        if place and not any(isinstance(c, str) and c != UNDEFINED for c in cells)
    }


def _text(cell: Cell) -> str:
    return f"{cell:,}" if isinstance(cell, int) else str(cell)


def _latex(tables: Sequence[EstimateTable]) -> str:
    needs = r"% Needs \usepackage{booktabs} and \usepackage{array}."
    return "\n".join([needs, *(line for table in tables for line in _latex_lines(table))]) + "\n"


def _latex_lines(table: EstimateTable) -> Iterator[str]:
    panels = _panels(table)
    n_lines = sum(2 if _is_broad(line) else 1 for line in table.lines) + 4
    at_once = max(1, _PAGE // n_lines)
    for start in range(0, len(panels), at_once):
        yield from (r"\begin{table}[htbp]", r"\centering", r"\footnotesize")
        yield r"\setlength{\tabcolsep}{4pt}"
        again = " (continued)" if start else ""
        yield f"\\caption{{{latex_text(table.caption + again)}}}"
        for number, places in enumerate(panels[start : start + at_once]):
            yield from [r"\par\medskip"] * bool(number)
            yield from _tabular(table, places)
        if table.notes and start + at_once >= len(panels):
            notes = r" \\ ".join(map(latex_text, table.notes))
            yield r"\par\smallskip"
            yield f"\\parbox{{\\linewidth}}{{\\scriptsize\\raggedright {notes}}}"
        yield r"\end{table}"


def _is_broad(line: Sequence[Cell]) -> bool:
    return len(_text(line[0])) > _FIRST


def _tabular(table: EstimateTable, places: Sequence[int]) -> Iterator[str]:
    right = _right_columns(table)
    columns = "".join("r" if place in right else "l" for place in places[1:])
    broad = any(_is_broad(line) for line in table.lines)
    first = r">{\raggedright\arraybackslash}p{0.3\linewidth}" if broad else "l"
    yield f"\\begin{{tabular}}{{@{{}}{first}{columns}@{{}}}}"
    yield r"\toprule"
    yield _ampersands(_heading(table.headings[place], place in right) for place in places)
    yield r"\midrule"
    for line in table.lines:
        cells = [latex_text(_text(line[place])) for place in places]
        yield _ampersands([_breakable(cells[0]) if broad else cells[0], *cells[1:]])
    yield from (r"\bottomrule", r"\end{tabular}")


def _ampersands(cells: Sequence[str] | Iterator[str]) -> str:
    return f"{' & '.join(cells)} \\\\"


def _heading(text: str, right: bool) -> str:
    lines = list(map(latex_text, _broken(text)))
    side, stacked = "r" if right else "l", r" \\ ".join(lines)
    return stacked if len(lines) == 1 else f"\\shortstack[{side}]{{{stacked}}}"


def _broken(text: str) -> list[str]:
    return textwrap.wrap(text, _HEADING, break_long_words=False, break_on_hyphens=False) or [""]


def _breakable(text: str) -> str:
    """Let a long name be broken after a slash, hyphen, underscore or colon."""
    for sign in ("/", "{-}", r"\_", ":"):
        text = text.replace(sign, sign + r"\allowbreak{}")
    return text


def _panels(table: EstimateTable) -> list[list[int]]:
    """Divide the columns so that each part fits a page; the first column is in every one."""
    first = _width(table, 0)
    panels, used = [[0]], first
    for place in range(1, len(table.headings)):
        width = _width(table, place) + _GAP
        if used + width > _LINE and len(panels[-1]) > 1:
            panels.append([0])
            used = first
        panels[-1].append(place)
        used += width
    return panels


def _width(table: EstimateTable, place: int) -> int:
    widest = max((len(_text(line[place])) for line in table.lines), default=0)
    widest = max([widest, *map(len, _broken(table.headings[place]))])
    return min(widest, _FIRST) if place == 0 else widest

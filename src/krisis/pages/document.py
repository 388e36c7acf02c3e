"""A document: everything that a result has to say, once, for every medium.

A document is the verdict, where there is one, then sections of sentences, typed tables and charts.
Nothing in it is formatted: the renderers ask `numbers` how a cell of a kind is written.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Literal, TypeVar

from krisis.json_values import JsonObject, plain
from krisis.pages import numbers
from krisis.pages.numbers import Estimate
from krisis.statistics.intervals import level_name

if TYPE_CHECKING:
    from krisis.metrics.partition import Partition
    from krisis.pages.figure import Figure

Kind = Literal[
    "name", "count", "share", "difference", "points", "figure", "change", "threshold", "p"
]
Reply = Literal["yes", "partly", "no", "cannot tell"]
Cell = str | int | float | Estimate | None
Item = TypeVar("Item")
BEST = "best, or not shown to differ from the best"  # what marked cells are

_WRITERS = {
    "share": numbers.share,
    "difference": numbers.difference,
    "points": numbers.points,
    "change": numbers.change,
}


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: how its cells are written, a short heading and a long one."""

    kind: Kind
    heading: str
    long_heading: str = ""

    def write(self, cell: Cell, *, interval: bool = True, decimals: int = 0) -> str:
        """Write a cell as its kind is written.

        >>> Column("share", "Answered").write(Estimate(0.5, 0.4, 0.6))
        '50 % (40–60)'
        """
        if cell is None:
            return ""
        if isinstance(cell, str):  # also the reason why a figure is not there
            return cell
        if self.kind == "count" or (self.kind == "figure" and isinstance(cell, int)):
            assert isinstance(cell, int)
            return numbers.count(cell)
        if self.kind == "p":
            assert isinstance(cell, float)
            return numbers.p_value(cell)
        known = cell if isinstance(cell, Estimate) else Estimate(float(cell))
        if self.kind == "threshold":
            return numbers.threshold(known.value)
        write = _WRITERS.get(self.kind, numbers.figure)
        return write(known, interval=interval, decimals=decimals)

    def decimals(self, cells: Iterable[Cell]) -> int:
        """Return how many decimals all cells of the column are written with.

        Figures of a column are as precise as the one that needs it most.
        """
        if self.kind in ("name", "count", "p", "threshold"):
            return 0
        known = [
            cell if isinstance(cell, Estimate) else Estimate(float(cell))
            for cell in cells
            if cell is not None and not isinstance(cell, str)
        ]
        return max((numbers.least_decimals(self.kind, one) for one in known), default=0)

    @property
    def is_number(self) -> bool:
        """Tell whether cells are aligned as numbers."""
        return self.kind != "name"


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows of typed cells; ``note`` is what a reader must know of the whole table.

    ``name`` names the table and ``keys`` its rows for programs, such as metrics by their
    identifiers; ``best`` are the cells, by row and column, that win their row or column; ``cases``
    say which cases are behind a cell (`krisis.pages.cases`). Of two ``compared`` columns a page
    also draws the figures of each row.
    """

    columns: Sequence[Column]
    rows: Sequence[Sequence[Cell]]
    title: str = ""
    note: str = ""
    name: str = ""
    keys: Sequence[str] = ()
    best: Collection[tuple[int, int]] = ()
    cases: Mapping[tuple[int, int], object] = field(default_factory=dict)
    compared: tuple[int, int] | None = None

    @classmethod
    def of(
        cls,
        items: Iterable[Item],
        cells: Mapping[Column, Callable[[Item], Cell]],
        *,
        title: str = "",
        note: str = "",
        keys: Sequence[str] = (),
    ) -> Table:
        """Return a row for every item: each column with what finds its cell.

        >>> Table.of([3, 4], {Column("count", "n"): lambda n: n}).rows
        [[3], [4]]
        """
        rows = [[cell(item) for cell in cells.values()] for item in items]
        return Table(columns=list(cells), rows=rows, title=title, note=note, keys=keys)

    def headings(self) -> list[str]:
        """Return the headings; a column with intervals names the level that they have.

        >>> Table(columns=[Column("share", "right")], rows=[[Estimate(0.5, 0.4, 0.6)]]).headings()
        ['right (95 % interval)']
        """
        return [
            f"{column.heading} ({level} interval)"
            if (level := self._level(place))
            else column.heading
            for place, column in enumerate(self.columns)
        ]

    def _level(self, place: int) -> str:
        cells = (row[place] for row in self.rows)
        return level_name(
            cell.level for cell in cells if isinstance(cell, Estimate) and cell.has_interval
        )

    def written(self) -> list[list[str]]:
        """Return every cell as text, row by row."""
        decimals = [
            column.decimals(row[place] for row in self.rows)
            for place, column in enumerate(self.columns)
        ]
        return [
            [
                column.write(cell, decimals=digits)
                for column, cell, digits in zip(self.columns, row, decimals, strict=True)
            ]
            for row in self.rows
        ]


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseBars(Table):
    """What became of the cases: a bar per kind where pictures can be shown, else the table."""

    partition: Partition


@dataclass(frozen=True, slots=True)
class Sentences:
    """Sentences that belong together."""

    lines: Sequence[str]


@dataclass(frozen=True, slots=True)
class Listing(Sentences):
    """Text that keeps its lines, such as a prompt, under a title."""

    title: str = ""


@dataclass(frozen=True, slots=True)
class Facts:
    """Names with what is known of each, such as the settings of a run; ``keys`` for programs."""

    pairs: Sequence[tuple[str, str]]
    keys: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A picture, for the media that can show one; ``draw`` is a chart builder given its runs.

    Drawing waits until a medium asks for it, because a terminal never does. A ``wide`` one takes
    the whole width of a page.
    """

    key: str
    draw: Callable[[], Figure]
    wide: bool = False


Content = Sentences | Table | Facts | Chart


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A part of a document under a heading; a folded one is opened by those who want it.

    ``only_on_pages`` marks what is too wide or too long for a terminal.
    """

    key: str
    title: str
    parts: Sequence[Content]
    folded: bool = False
    only_on_pages: bool = False

    @classmethod
    def of_sentences(cls, key: str, title: str, lines: Iterable[str]) -> Section:
        """Return a section of sentences alone, such as what a result assumes."""
        return cls(key=key, title=title, parts=[Sentences(list(lines))])


_NO_FIGURE = Estimate(math.nan)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stated:
    """A figure inside its sentence: ``{}`` is where it is written, ``{limit}`` where its bound is.

    ``brief`` says that the shortest form of the verdict shows it too. Counts are words.
    """

    words: str
    estimate: Estimate = _NO_FIGURE
    kind: Kind = "share"
    brief: bool = True

    def __str__(self) -> str:
        found = self.words.replace("{}", Column(self.kind, "").write(self.estimate))
        bound = self.estimate.bound
        return found if bound is None else found.replace("{limit}", _limit(bound, self.kind))


def _limit(bound: float, kind: Kind) -> str:
    """Write a limit that was set and not measured."""
    if kind == "share":
        return f"{numbers.given(round(100 * bound, 9))} %"
    return numbers.given(round(100 * bound if kind == "points" else bound, 9))


@dataclass(frozen=True, slots=True)
class Finding:
    """One question and its answer, with the figures, limits and comparators that it rests on.

    ``answer`` is None where the line only states figures; ``reason`` says why an answer is what it
    is, ``condition`` when it holds; a ``provisional`` one may change while a run goes on.
    """

    key: str
    question: str
    answer: Reply | None
    figures: Sequence[Stated] = ()
    compared: Sequence[Stated] = ()
    reason: str = ""
    condition: str = ""
    provisional: bool = False

    def sentence(self) -> str:
        """Return the figures and what they were compared with, as every medium shows them."""
        return _sentence(self.figures, self.compared, self._because)

    def brief(self) -> str:
        """Return the figures of the shortest form; what is no question then needs no reason."""
        figures, compared = ([one for one in g if one.brief] for g in (self.figures, self.compared))
        is_plain = self.answer is None and figures and not self.provisional
        return _sentence(figures, compared, "" if is_plain else self._because)

    @property
    def _because(self) -> str:
        return "; ".join(filter(None, (self.condition, self.reason)))


def _sentence(figures: Sequence[Stated], compared: Sequence[Stated], reason: str) -> str:
    said, against = ("; ".join(map(str, group)) for group in (figures, compared))
    text = f"{said} ({against})" if said and against else said or against
    return f"{text}: {reason}" if text and reason else text or reason


@dataclass(frozen=True, slots=True)
class Verdict:
    """The lines that a head of department reads first.

    ``about`` names the patients where they are not all of the run: real and synthetic patients
    are never judged together. ``level`` is that of the intervals, None where there are none;
    ``note`` says what a reader must know of all words.
    """

    lines: Sequence[Finding]
    about: str = ""
    level: float | None = 0.95
    note: str = ""

    def to_dict(self) -> JsonObject:
        """Return the lines by their keys, with full precision and without sentences."""
        found: JsonObject = {
            line.key: {
                "question": line.question,
                "answer": line.answer,
                "reason": line.reason,
                "condition": line.condition,
                "provisional": line.provisional,
                "figures": [asdict(one) for one in line.figures],
                "compared": [asdict(one) for one in line.compared],
            }
            for line in self.lines
        }
        return dict(plain(found))

    def table(self) -> Table:
        """Return the lines as a table, for media that have nothing else."""
        headings = ("question", "answer", "finding")
        return Table(
            columns=[Column("name", heading) for heading in headings],
            rows=[[one.question, one.answer or "", one.sentence()] for one in self.lines],
            keys=[one.key for one in self.lines],
            note=" ".join(filter(None, (self._intervals, self.note))),
        )

    @property
    def _intervals(self) -> str:
        return f"Intervals: {numbers.level(self.level)}." if self.level else ""

    def section(self) -> Section:
        """Return the section that the table of the verdict is in."""
        title = f"Verdict on the {self.about}" if self.about else "Verdict"
        return Section(key="verdict", title=title, parts=[self.table()])

    def line(self, key: str) -> Finding:
        """Return one line by its key."""
        return next(line for line in self.lines if line.key == key)


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """All there is to show of a result, the answer first.

    ``lead`` are the sentences above everything, such as what became of the cases; it is ``urgent``
    where they tell of something that went wrong. ``first`` are the keys of sections that a short
    form shows too, all unless they are named; ``commands`` is what one would type next.
    """

    title: str
    lead: Sequence[str] = ()
    urgent: bool = False
    verdict: Verdict | None = None
    sections: Sequence[Section] = ()
    first: Sequence[str] | None = None
    commands: Sequence[str] = ()

    def tables(self) -> Iterator[tuple[Section, Table]]:
        """Yield every table with the section that it is in, the verdict first."""
        if self.verdict is not None:
            yield self.verdict.section(), self.verdict.table()
        for section in self.sections:
            yield from ((section, part) for part in section.parts if isinstance(part, Table))

    def sentences(self) -> list[str]:
        """Return the lead, the verdict and every sentence, for a page with figures of its own."""
        lines = list(self.lead)
        for one in self.verdict.lines if self.verdict is not None else ():
            answer = f" {one.answer}:" if one.answer else ""
            lines.append(f"{one.question}{answer} {one.sentence()}")
        for section in self.sections:
            parts = (part for part in section.parts if isinstance(part, Sentences))
            lines += [line for part in parts for line in part.lines]
        return lines

    def section(self, key: str) -> Section:
        """Return one section by its key."""
        return next(one for one in self.sections if one.key == key)

    def charts(self) -> Iterator[Chart]:
        """Yield every chart in order."""
        for section in self.sections:
            yield from (part for part in section.parts if isinstance(part, Chart))

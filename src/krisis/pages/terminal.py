"""Documents on a terminal: 80 columns, the verdict first, everything else on request."""

from __future__ import annotations

import io
import re
import textwrap

from rich.console import Console
from rich.padding import Padding
from rich.table import Table as Grid
from rich.text import Text

from krisis.display import spelled_out
from krisis.pages.document import (
    BEST,
    Chart,
    Document,
    Facts,
    Reply,
    Section,
    Sentences,
    Table,
    Verdict,
)
from krisis.pages.numbers import level

WIDTH = 80
# In place of a space at which no line may break; rich breaks at U+00A0 too.
_TIED = "\ue000"
_LEVEL = re.compile(r"\([^()]* % interval\)$")  # at the end of a heading
_WIDEST_NUMBER = 30  # no figure with its interval is wider; words in its place are wrapped
_WIDEST_NAME = 36  # longer names of rows are wrapped where a table has many columns
_COMMAND = re.compile(r"(?<=type: ).+$")  # at the end of a sentence, to be copied
_COLOURS: dict[Reply | None, str] = {
    "yes": "bold green",
    "partly": "bold yellow",
    "no": "bold red",
    "cannot tell": "bold",
    None: "",
}


def terminal_text(document: Document, *, verbose: bool = True, colour: bool = False) -> str:
    """Return a document as text: the verdict and what to type next, and all else if ``verbose``.

    >>> terminal_text(Document(title="ckd detection", lead=["2 cases"]))
    '2 cases\\nckd detection'
    """
    console = Console(
        file=io.StringIO(),
        width=WIDTH,
        highlight=False,
        markup=False,
        force_terminal=colour,
        color_system="standard" if colour else None,
        legacy_windows=False,
    )
    _print_document(console, document, verbose=verbose)
    file = console.file
    assert isinstance(file, io.StringIO)
    lines = (line.rstrip() for line in file.getvalue().replace(_TIED, " ").splitlines())
    return "\n".join(lines).strip("\n")


def _print_document(console: Console, document: Document, *, verbose: bool) -> None:
    for line in document.lead:  # what became of the cases comes before anything else
        _print_words(console, line)
    title = document.title
    if document.verdict is not None and document.verdict.level is not None:
        title = f"{title} · {level(document.verdict.level)} intervals"
    console.print(_safe(title, "bold"))
    if document.verdict is not None:
        if document.verdict.about:
            console.print(_safe(f"Verdict on the {document.verdict.about}:"))
        console.print(_verdict(document.verdict, verbose=verbose))
        if document.verdict.note:
            _print_words(console, document.verdict.note)
    for section in document.sections:
        if not section.only_on_pages and (
            verbose or document.first is None or section.key in document.first
        ):
            console.print()
            if not _heads_itself(section):
                console.print(_safe(section.title, "bold"))
            shown = [part for part in section.parts if not isinstance(part, Chart)]
            for place, part in enumerate(shown):
                if place:
                    console.print()
                _print_part(console, part)
    if document.commands:
        if verbose or document.first is None:  # the first screen is one
            console.print()
        # What is printed already needs no command.
        left = [one for one in document.commands if not (verbose and one.endswith("--verbose"))]
        for command in left:
            # A command to copy is never broken.
            console.print(_safe(command), soft_wrap=True)


def _heads_itself(section: Section) -> bool:
    """Tell whether a section begins with a table whose first heading is the title."""
    first = section.parts[0] if section.parts else None
    return isinstance(first, Table) and first.columns[0].heading == section.title


def _print_words(console: Console, text: str) -> None:
    """Print a sentence in lines; a path or a command to copy is never broken."""
    words = textwrap.wrap(str(_safe(text)), WIDTH, break_long_words=False, break_on_hyphens=False)
    for line in words:
        console.print(Text(line), soft_wrap=True)


def _safe(text: str, style: str = "") -> Text:
    """Return text that cannot steer the terminal or begin a line; signs stay with their figures."""
    text = " ".join(text.split())
    tied = _COMMAND.sub(
        lambda found: found[0].replace(" ", _TIED),
        text.replace(" % interval", f"{_TIED}%{_TIED}interval").replace(" %", f"{_TIED}%"),
    )
    return Text(spelled_out(tied), style=style)


def _verdict(verdict: Verdict, *, verbose: bool) -> Grid:
    grid = Grid.grid(padding=(0, 2, 0, 0))
    grid.add_column(width=24)
    grid.add_column(width=11)
    grid.add_column()
    for line in verdict.lines:
        said = line.sentence() if verbose else line.brief()
        answer = Text(line.answer or "", style=_COLOURS[line.answer])
        grid.add_row(_safe(line.question), answer, _safe(said))
    return grid


def _print_part(console: Console, part: Sentences | Facts | Table) -> None:
    if isinstance(part, Sentences):
        for line in part.lines:
            _print_words(console, line)
    elif isinstance(part, Facts):
        console.print(Padding(_facts(part), (0, 0, 0, 2)))
    else:
        _print_table(console, part)


def _facts(facts: Facts) -> Grid:
    grid = Grid.grid(padding=(0, 2, 0, 0))
    grid.add_column(max_width=30)
    grid.add_column(overflow="fold")
    for name, value in facts.pairs:
        grid.add_row(_safe(name), _safe(value))
    return grid


def _print_table(console: Console, table: Table) -> None:
    if table.title:
        console.print(_safe(table.title))
    headings = table.headings()
    written = [
        [f"*{cell}" if (at, place) in table.best else cell for place, cell in enumerate(row)]
        for at, row in enumerate(table.written())
    ]
    narrowest = _narrowest(table, written)
    for number, places in enumerate(_that_fit(table, narrowest)):
        if number:
            console.print()
        widest = [max(len(headings[p]), *(len(row[p]) for row in written), 0) + 2 for p in places]
        tight = sum(widest) - 2 > WIDTH
        grid = Grid(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="")
        for place in places:
            column = table.columns[place]
            # A figure is never broken or cut: where room is short, headings and words are wrapped.
            fixed = tight and column.is_number and narrowest[place] <= _WIDEST_NUMBER
            longest = max((len(row[place]) for row in written), default=0)
            grid.add_column(
                _safe(_LEVEL.sub(lambda found: found[0].replace(" ", _TIED), headings[place])),
                justify="right" if column.is_number else "left",
                overflow="fold",
                no_wrap=place == 0 and len(table.columns) > 3 and longest <= _WIDEST_NAME,
                width=narrowest[place] - 2 if fixed else None,
            )
        for row in written:
            grid.add_row(*(_safe(row[place]) for place in places))
        console.print(grid)
    if table.best:
        _print_words(console, f"* {BEST}")
    if table.note:
        _print_words(console, table.note)


def _narrowest(table: Table, written: list[list[str]]) -> list[int]:
    """Return the width of every column with its gap, where headings are wrapped between words."""
    found = [
        max(map(len, (*_words(heading), *(row[place] for row in written))), default=0) + 2
        for place, heading in enumerate(table.headings())
    ]
    return [min(found[0], _WIDEST_NAME + 2), *found[1:]]


def _that_fit(table: Table, narrowest: list[int]) -> list[list[int]]:
    """Return the columns in parts that fit the terminal, each with the first; most are one part."""
    if not all(one.is_number for one in table.columns[1:]):
        return [list(range(len(narrowest)))]  # words can be wrapped
    parts: list[list[int]] = [[0]]
    for place in range(1, len(narrowest)):
        width = narrowest[0] + sum(narrowest[one] for one in parts[-1][1:]) + narrowest[place]
        if width - 2 > WIDTH and len(parts[-1]) > 1:
            parts.append([0])
        parts[-1].append(place)
    return parts


def _words(heading: str) -> list[str]:
    """Return the parts of a heading that are not broken; the level is one."""
    return [*_LEVEL.sub("", heading).split(), *(found[0] for found in _LEVEL.finditer(heading))]

"""What a document says, for tests: its sentences, its facts and its typed cells."""

from __future__ import annotations

from collections.abc import Iterator

from krisis.pages.document import Cell, Chart, Content, Document, Facts, Sentences, Table
from krisis.pages.numbers import Estimate


def parts(document: Document) -> Iterator[Content]:
    """Return everything in the sections, in order."""
    for section in document.sections:
        yield from section.parts


def tables(document: Document) -> list[Table]:
    """Return every table."""
    return [part for part in parts(document) if isinstance(part, Table)]


def facts(document: Document) -> dict[str, str]:
    """Return the facts of how it was made, by key where they have one, else by name."""
    found: dict[str, str] = {}
    for part in parts(document):
        if isinstance(part, Facts):
            found |= dict(part.pairs) if not part.keys else {}
            found |= dict(zip(part.keys, (said for _, said in part.pairs), strict=False))
    return found


def line_of(document: Document, name: str) -> dict[str, Cell]:
    """Return the first row of that name: its cells by the headings of their columns."""
    for table in tables(document):
        for cells in table.rows:
            if cells[0] == name:
                return dict(zip(table.headings(), cells, strict=True))
    raise AssertionError(f"no row is called {name!r}")


def has_row(document: Document, name: str) -> bool:
    """Tell whether any table has a row of that name."""
    return any(cells[0] == name for table in tables(document) for cells in table.rows)


def said(document: Document) -> str:
    """Return every sentence, name and cell as written, unwrapped, a line each."""
    lines = [*document.lead, document.title]
    lines += [line.sentence() for line in document.verdict.lines] if document.verdict else []
    for section in document.sections:
        lines.append(section.title)
        for part in section.parts:
            if isinstance(part, Sentences):
                lines += part.lines
            elif isinstance(part, Chart):
                continue
            elif isinstance(part, Facts):
                lines += [f"{name}  {value}" for name, value in part.pairs]
            elif not isinstance(part, Chart):
                lines += [part.title, "  ".join(part.headings())]
                lines += ["  ".join(cells) for cells in part.written()]
                lines.append(part.note)
    return "\n".join(lines)


def values(document: Document) -> list[float]:
    """Return every number of the cells and of the verdict, in full precision."""
    found: list[float] = []

    def add(cell: object) -> None:
        if isinstance(cell, Estimate):
            found.extend((cell.value, cell.low, cell.high))
        elif isinstance(cell, int | float) and not isinstance(cell, bool):
            found.append(float(cell))

    for table in tables(document):
        for cells in table.rows:
            for cell in cells:
                add(cell)
    for line in document.verdict.lines if document.verdict else ():
        for stated in (*line.figures, *line.compared):
            add(stated.estimate)
    return found


def unwrapped(text: str) -> str:
    """Return what a terminal printed without its line breaks and alignment."""
    return " ".join(text.split())

"""The numbers of a document as CSV: one line each, with every digit."""

from __future__ import annotations

import math

from krisis.csv_lines import TableCell, csv_line, guarded
from krisis.pages.document import Cell, Document
from krisis.pages.numbers import Estimate

COLUMNS = ("document", "section", "table", "key", "row", "column", "value", "low", "high", "level")


def csv_text(document: Document) -> str:
    """Return every cell of every table; what is no number, or why there is none, is ``text``.

    >>> print(csv_text(Document(title="ckd")))
    document,section,table,key,row,column,value,low,high,level,text
    """
    lines = [csv_line([*COLUMNS, "text"])]
    for section, table in document.tables():
        for place, row in enumerate(table.rows):
            key = table.keys[place] if table.keys else None
            name = table.columns[0].write(row[0])
            named = [document.title, section.key, table.title or None, key, name]
            lines += [
                csv_line(guarded([*named, column.heading, *_parts(cell)]))
                for column, cell in zip(table.columns[1:], row[1:], strict=True)
                if cell is not None and cell != ""
            ]
    return "".join(lines).rstrip("\n")


def _parts(cell: Cell) -> list[TableCell]:
    if isinstance(cell, str):
        return [None, None, None, None, cell]
    if not isinstance(cell, Estimate):
        known = cell is not None and not math.isnan(cell)
        return [cell if known else None, None, None, None, None if known else "undefined"]
    value = None if math.isnan(cell.value) else cell.value
    ends = [cell.low, cell.high, cell.level] if cell.has_interval else [None, None, None]
    return [value, *ends, None if value is not None else "undefined"]

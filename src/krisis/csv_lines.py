"""A line of CSV that no spreadsheet computes."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence

TableCell = str | int | float | None


# What a spreadsheet would compute in place of showing it.
FORMULA = re.compile(r"[=@\t\r]|[+-](?![\d.,]*\Z)(?=.*[^\s+-])", re.DOTALL)


def guarded(line: Sequence[TableCell]) -> list[TableCell]:
    """Put an apostrophe in front of texts that a spreadsheet would compute."""
    return [f"'{c}" if isinstance(c, str) and FORMULA.match(c) else c for c in line]


def csv_line(cells: Sequence[TableCell]) -> str:
    """Return one line of CSV; what is not known is empty."""
    out = io.StringIO(newline="")
    csv.writer(out, lineterminator="\n").writerow(cells)
    return out.getvalue()

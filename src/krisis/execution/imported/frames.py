"""Tables in memory as rows: pandas, polars, Arrow, or a mapping of columns; none is imported."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from decimal import Decimal

from krisis.errors import InvalidValue
from krisis.json_values import JsonObject, JsonValue


def rows_of_frame(frame: object) -> list[JsonObject]:
    """Return the rows of a table as mappings of plain Python values; a missing value is None.

    >>> rows_of_frame({"y": [0, 1], "c": [0.5, float("nan")]})
    [{'y': 0, 'c': 0.5}, {'y': 1, 'c': None}]
    """
    columns = _columns(frame)
    lengths = {name: len(cells) for name, cells in columns.items()}
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"{name} {n:,}" for name, n in lengths.items())
        raise InvalidValue(f"the columns differ in length ({shown}); give one value per row")
    names = list(columns)
    return [
        dict(zip(names, map(plain_cell, row), strict=True))
        for row in zip(*columns.values(), strict=True)
    ]


def _columns(frame: object) -> dict[str, list[object]]:
    """Return the columns of a table as lists, by the methods that its kind has."""
    if isinstance(frame, Mapping):
        if not all(isinstance(cells, Iterable) for cells in frame.values()):
            raise InvalidValue("a mapping of columns needs a list or an array for every column")
        return {str(name): _listed(cells) for name, cells in frame.items()}
    found: object = None
    if hasattr(frame, "to_pydict"):  # Arrow
        found = frame.to_pydict()
    elif hasattr(frame, "to_dict") and hasattr(frame, "columns"):  # polars, pandas
        kind = type(frame).__module__.partition(".")[0]
        found = frame.to_dict(as_series=False) if kind == "polars" else frame.to_dict("list")
    if not isinstance(found, Mapping):
        raise InvalidValue(
            f"a {type(frame).__name__} is no table; give a pandas, polars or Arrow frame, a "
            "mapping of columns, or a file"
        )
    return {str(name): list(cells) for name, cells in found.items()}


def _listed(cells: Iterable[object]) -> list[object]:
    return cells.tolist() if hasattr(cells, "tolist") else list(cells)


def plain_cell(cell: object) -> JsonValue:
    """Return a value as JSON has it: NumPy scalars as numbers, NaN and other gaps as None."""
    if cell is None or type(cell).__name__ in ("NAType", "NaTType"):
        return None
    if hasattr(cell, "item") and getattr(cell, "shape", None) == ():
        cell = cell.item()
    if isinstance(cell, Decimal):
        cell = float(cell)
    if isinstance(cell, float) and math.isnan(cell):
        return None
    return cell if isinstance(cell, bool | int | float | str) else str(cell)

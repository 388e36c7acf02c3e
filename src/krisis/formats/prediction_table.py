"""Predictions in a table, of whatever format or in memory, by the columns that the user names."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from pathlib import Path

from krisis.errors import InvalidFile, InvalidValue, UnknownName
from krisis.formats.base import (
    COLUMNS,
    CannotTake,
    ImportOptions,
    NotTaken,
    Reading,
    SourceRow,
    as_number,
    as_truth,
    class_in,
    without_keys,
)
from krisis.json_values import JsonMapping, JsonObject, JsonValue

Line = tuple[int, JsonObject | str]  # the number of a line with its values, or what is wrong


def read_frame(frame: object, options: ImportOptions) -> Reading:
    """Read a table in memory: a pandas, polars or Arrow frame, or a mapping of columns."""
    return reading_of(enumerate(rows_of_frame(frame), start=1), Path("the table"), options)


def _require_columns(options: ImportOptions) -> None:
    for name in ("truth", "prediction"):
        if not getattr(options, name):
            raise InvalidValue(f"--{name} is missing; name the column that holds it")


def reading_of(numbered: Iterable[Line], path: Path, options: ImportOptions) -> Reading:
    """Take the columns that the options name; further numeric columns become signals."""
    _require_columns(options)
    lines = list(numbered)
    if not lines:
        raise InvalidFile(f"{path} has no rows; is it the right file?")
    if options.reader and options.model:
        raise InvalidValue(
            f"--reader {options.reader} and --model {options.model} both name who "
            "answered; give one of them"
        )
    columns = list(dict.fromkeys(c for _, row in lines if isinstance(row, dict) for c in row))
    used = {name: str(getattr(options, name)) for name in COLUMNS if getattr(options, name)}
    for column in (*used.values(), *options.group):
        if column not in columns:
            raise UnknownName.among(f"column of {path.name}:", column, columns)
    taken_for = {"id": "number of the row"}
    taken_for |= {COLUMNS[name]: f"column {column}" for name, column in used.items()}
    taken_for |= {f"group {column}": f"column {column}" for column in options.group}
    others = [column for column in columns if column not in (*used.values(), *options.group)]
    signals = [column for column in others if _is_numeric(lines, column)]
    unused = [column for column in others if column not in signals]
    notes = [f"columns that were not used: {', '.join(unused)[:300]}"] if unused else []
    if signals:
        notes.append(f"numeric columns kept as signals: {', '.join(signals)[:300]}")
    found = Reading([], taken_for, path.stem, "predictions", "imported", notes)
    if options.reader:
        n_rows, lines = len(lines), [line for line in lines if _was_read(line, options)]
        if not lines:
            raise InvalidFile(f"{path}: {options.reader} has no answer in {options.prediction}")
        found.model = f"reader/{options.reader}"
        found.read = f"{len(lines):,} of {n_rows:,}"
    found.rows = [_asking(line, options, signals) for line in lines]
    return found


def _is_numeric(lines: Sequence[Line], column: str) -> bool:
    """Tell whether a column holds numbers and nothing else, so that it can be a confidence."""
    cells = [row.get(column) for _, row in lines if isinstance(row, dict)]
    given = [cell for cell in cells if cell is not None and str(cell).strip()]
    return bool(given) and all(as_number(cell) is not None for cell in given)


def _was_read(line: Line, options: ImportOptions) -> bool:
    """Say whether a reader read a row: one without an answer is not part of their run."""
    values = line[1]
    if isinstance(values, str):
        return True  # a broken line is listed as such
    answer = values.get(options.prediction)
    abstained = as_truth(values.get(options.abstained)) if options.abstained else False
    return bool(abstained) or (answer is not None and bool(str(answer).strip()))


def _asking(line: Line, options: ImportOptions, signals: Sequence[str]) -> SourceRow | NotTaken:
    number, values = line
    place = f"line {number}"
    if isinstance(values, str):
        return NotTaken(place, "", values)
    name = values.get(options.id) if options.id else f"row-{number}"
    try:
        failure = _failure(values, options.error)
        return SourceRow(
            place=place,
            record_id=name,
            repeat=_repeat(values, options.repeat),
            truth=values.get(options.truth),
            answer=values.get(options.prediction),
            abstained=_flag(values, options.abstained, may_be_empty=bool(failure)),
            confidence=values.get(options.confidence) if options.confidence else None,
            values=values,
            signals=_numbers(values, signals),
            **failure,
        )
    except CannotTake as why:
        return NotTaken(place, str(name or "")[:100], str(why))


def _numbers(values: JsonMapping, columns: Sequence[str]) -> JsonObject:
    found = {column: as_number(values.get(column)) for column in columns}
    return {column: value for column, value in found.items() if value is not None}


def _repeat(values: JsonMapping, column: str) -> int:
    if not column:
        return 0
    text = str(values.get(column)).strip().removesuffix(".0")
    if not (text.isascii() and text.isdigit() and 1 <= int(text[:7]) <= 100_000):
        raise CannotTake(f"{column} must count the askings of a record from 1")
    return int(text) - 1


def _flag(values: JsonMapping, column: str, *, may_be_empty: bool) -> bool:
    given = values.get(column) if column else False
    if may_be_empty and (given is None or not str(given).strip()):
        return False  # a failure says nothing of abstaining
    truth = as_truth(given)
    if truth is None:
        raise CannotTake(f"{column} is neither true nor false")
    return truth


def _failure(values: JsonMapping, column: str) -> JsonObject:
    """Return what a column says of a failure: true, false, or why in words."""
    given = values.get(column) if column else None
    if given is None or not str(given).strip() or as_truth(given) is False:
        return {}
    if as_truth(given):
        return {"error": f"{column} says that it failed"}
    words = without_keys(str(given))
    return {"error": words, "failure_class": class_in(words)}


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

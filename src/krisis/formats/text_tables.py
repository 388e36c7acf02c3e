"""CSV and JSON Lines: tables of predictions are read, the rows of a run are written."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from krisis.errors import InvalidFile
from krisis.formats.base import LONGEST_TEXT, OF_TABLES, ImportOptions, Reading
from krisis.formats.prediction_table import Line, reading_of
from krisis.formats.tidy_table import TidyTable, count_guarded, csv_parts, jsonl_parts
from krisis.json_values import JsonMapping, write_text
from krisis.results.base import BenchmarkResult


class CSV:
    """Comma-separated values; with tabs or semicolons where the first line has them."""

    options, suffix = OF_TABLES, ".csv"

    def recognises(self, path: Path, _: JsonMapping) -> bool:
        """Tell by the name of the file."""
        return path.suffix.lower() in (".csv", ".tsv", ".tab")

    def read(self, path: Path, options: ImportOptions) -> Reading:
        """Read predictions by the columns that are named."""
        return reading_of(_csv_lines(path), path, options)

    def write(self, table: TidyTable, _: BenchmarkResult, path: Path) -> str:
        """Write rows; what a spreadsheet would compute is guarded, and counted."""
        write_text(path, csv_parts(table), overwrite=True)
        if not (n_guarded := count_guarded(table)):
            return ""
        return (
            f"{n_guarded} texts that a spreadsheet would compute begin with an apostrophe; "
            "jsonl and parquet have them as they are"
        )


class JSONLines:
    """One JSON object per line."""

    options, suffix = OF_TABLES, ".jsonl"

    def recognises(self, path: Path, _: JsonMapping) -> bool:
        """Tell by the name of the file."""
        return path.suffix.lower() in (".jsonl", ".ndjson")

    def read(self, path: Path, options: ImportOptions) -> Reading:
        """Read predictions by the keys that are named."""
        return reading_of(_json_lines(path), path, options)

    def write(self, table: TidyTable, _: BenchmarkResult, path: Path) -> str:
        """Write rows."""
        write_text(path, jsonl_parts(table), overwrite=True)
        return ""


def _text(path: Path) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidFile(
            f"{path} is not text in UTF-8 (byte {error.start}); save it as UTF-8"
        ) from None
    except OSError as error:
        raise InvalidFile(f"{path} cannot be read: {error.strerror}") from None


def _csv_lines(path: Path) -> Iterator[Line]:
    text = _text(path)
    first = re.sub('"[^"]*"', "", text.partition("\n")[0])
    delimiter = "\t" if path.suffix.lower() in (".tsv", ".tab") else max(",;\t", key=first.count)
    before = csv.field_size_limit(LONGEST_TEXT)
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    try:
        head = next(reader, [])
        _check_head(path, head)
        for row in reader:
            if len(row) == len(head):
                yield reader.line_num, dict(zip(head, row, strict=True))
            elif row:
                yield reader.line_num, f"it has {len(row)} cells and the first line {len(head)}"
    except csv.Error as error:
        raise InvalidFile(
            f"{path}, line {reader.line_num}: {error}; fix the quoting or export it again"
        ) from None
    finally:
        csv.field_size_limit(before)


def _check_head(path: Path, head: Sequence[str]) -> None:
    twice = [name for name in head if head.count(name) > 1]
    if twice:
        raise InvalidFile(f"{path} has the column {twice[0]!r} twice; rename one of them")


def _json_lines(path: Path) -> Iterator[Line]:
    for number, line in enumerate(_text(path).split("\n"), start=1):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            yield number, "it is not complete JSON"
        else:
            yield number, row if isinstance(row, dict) else "it is not a JSON object"

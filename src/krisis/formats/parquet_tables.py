"""Parquet: the rows of a run are written and loaded again, tables of predictions are read."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

from krisis.csv_lines import TableCell
from krisis.errors import InvalidFile, MissingExtra
from krisis.formats.base import OF_TABLES, ImportOptions, Reading
from krisis.formats.parquet import FACTS, load_parquet
from krisis.formats.prediction_table import Line, reading_of
from krisis.formats.tidy_table import YES_NO, TidyTable
from krisis.json_values import JsonMapping, dumps, open_private
from krisis.results.base import BenchmarkResult

if TYPE_CHECKING:
    import duckdb

# A few bytes of Parquet can stand for any number of equal rows; a million take about a minute.
MOST_ROWS = 1_000_000
MOST_BYTES = 1_000_000_000  # of their values, which a few bytes can stand for as well
_LINES_AT_ONCE = 10_000  # row by row DuckDB takes minutes for a hundred thousand
_SQL_TYPES: Mapping[str, str] = {"text": "VARCHAR", "integer": "BIGINT", "number": "DOUBLE"}


class Parquet:
    """Tables in Parquet; one that krisis exported says of what run its rows are."""

    options, suffix = OF_TABLES, ".parquet"

    def recognises(self, path: Path, _: JsonMapping) -> bool:
        """Tell by the name of the file."""
        return path.suffix.lower() in (".parquet", ".pq")

    def load(self, path: Path, _: JsonMapping, mode: str | None) -> BenchmarkResult:
        """Return the rows of one run; a mode is looked for in what the file says of it."""
        return load_parquet(path)

    def read(self, path: Path, options: ImportOptions) -> Reading:
        """Read predictions by the columns that are named."""
        return reading_of(_parquet_lines(path), path, options)

    def write(self, table: TidyTable, result: BenchmarkResult, path: Path) -> str:
        """Write rows, and what is known of the run."""
        write_parquet(table, path, result)
        return ""


def _parquet_lines(path: Path) -> Iterator[Line]:
    try:
        import duckdb
    except ImportError:
        raise MissingExtra.named("tables", "reading Parquet") from None
    with duckdb.connect(":memory:") as base:
        try:
            _refuse_size(path, base)
            found = base.execute("select * from read_parquet(?)", [str(path)])
            names = [column[0] for column in found.description or ()]
            rows = found.fetchall()
        except duckdb.Error as error:
            reason = str(error).splitlines()[0]
            raise InvalidFile(f"{path} cannot be read as Parquet: {reason}") from None
    for number, row in enumerate(rows, start=1):
        values = [float(cell) if isinstance(cell, Decimal) else cell for cell in row]
        yield number, dict(zip(names, values, strict=True))


def _refuse_size(path: Path, base: duckdb.DuckDBPyConnection) -> None:
    """Refuse what is too large for memory; it is counted without being kept."""
    ((n_rows,),) = base.execute("select count(*) from read_parquet(?)", [str(path)]).fetchall()
    if n_rows > MOST_ROWS:
        raise InvalidFile(
            f"{path} has {n_rows:,} rows, and krisis imports Parquet files of at most "
            f"{MOST_ROWS:,}; split it, or import a sample of its rows"
        )
    (sizes,) = base.execute(  # an empty cell takes memory, too
        "select sum(8 + coalesce(strlen(columns(*)::varchar), 0)) from read_parquet(?)", [str(path)]
    ).fetchall()
    if (n_bytes := sum(size or 0 for size in sizes)) > MOST_BYTES:
        raise InvalidFile(
            f"the values of {path} take {-(-n_bytes // 10**6):,} MB when they are unpacked, and "
            f"krisis imports at most {MOST_BYTES // 10**6:,} MB; omit columns that are not needed, "
            "or import a sample of its rows"
        )


def write_parquet(table: TidyTable, path: Path, result: BenchmarkResult) -> None:
    """Write the table as Parquet, whole or not at all, over an older file if there is one."""
    try:
        import duckdb
    except ImportError:
        raise MissingExtra.named("tables", "writing Parquet") from None
    types = [_SQL_TYPES[column.type] for column in table.columns]
    columns = ", ".join(f'"{n}" {kind}' for n, kind in zip(table.names, types, strict=True))
    with duckdb.connect(":memory:") as base:
        base.execute(f"create table rows ({columns})")
        lists = ", ".join(f"unnest(?::{kind}[])" for kind in types)
        for start in range(0, len(table.lines), _LINES_AT_ONCE):
            cells = zip(*table.lines[start : start + _LINES_AT_ONCE], strict=True)
            values = [[_as(k, c) for c in column] for k, column in zip(types, cells, strict=True)]
            base.execute(f"insert into rows select {lists}", values)
        half = path.with_name(f".{path.name}.half")
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            place, told = (_quoted(text) for text in (str(half), _facts(table, result)))
            half.unlink(missing_ok=True)
            os.close(open_private(str(half), os.O_WRONLY | os.O_CREAT | os.O_EXCL))
            how = f"format parquet, use_tmp_file false, kv_metadata {{{FACTS}: {told}}}"
            base.execute(f"copy rows to {place} ({how})")
            half.replace(path)
        except (duckdb.Error, OSError) as error:
            half.unlink(missing_ok=True)
            raise InvalidFile(f"{path} cannot be written: {error}") from None


def _facts(table: TidyTable, result: BenchmarkResult) -> str:
    """Return what is known of the run, and where each column of the rows comes from."""
    columns = {one.name: [*one.source, one.values == YES_NO] for one in table.columns if one.source}
    about = {**result.to_dict(include_results=False), "metric_scores": {}}
    return dumps({"result": about, "columns": columns}, indent=None)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _as(kind: str, cell: TableCell) -> TableCell:
    if kind != "VARCHAR" or cell is None:
        return cell
    return str(cell).encode("utf-8", "replace").decode()  # half of a surrogate pair is no text

"""Rows into DuckDB, and the lock: after loading, no expression can reach a file or a setting.

Parquet stays in its files, which alone remain readable; everything else is copied into memory.
"""

# SQL is put together from checked expressions, quoted names and constants of krisis.
# ruff: noqa: S608
from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, time
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from krisis.data.fhir.records import create_table, fhir_table
from krisis.data.fhir.resources import fhir_files
from krisis.data.table.databases import FILE, LOADED, load_database, lock, new_connection
from krisis.data.table.declaration import Declaration, FeatureSpec
from krisis.data.table.expressions import quoted, sql_text
from krisis.data.table.files import Reading, existing, inside, paths_of, reading_of, unreadable
from krisis.errors import InvalidFile
from krisis.json_values import JsonValue

if TYPE_CHECKING:
    import duckdb

# The relation that every expression is evaluated on, and its number of a row, from 1.
TABLE, ROW = "records", "krisis_row"
NUMBERS = (
    *("TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "FLOAT", "DOUBLE"),
    *("UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT"),
)
_PLAIN = {float, int, str, type(None)}
# So many of the values of a column that are numbers make the others slips of the pen.
SHARE_OF_NUMBERS = 0.9
_READ_AT_ONCE = 8


def is_number(kind: str) -> bool:
    """Say whether a type of DuckDB is one of numbers."""
    return kind in NUMBERS or kind.startswith("DECIMAL")


def plain_value(value: JsonValue) -> JsonValue:
    """Return a cell as records hold it: whole numbers, numbers, text, lists and mappings."""
    if type(value) in _PLAIN:
        return value
    if isinstance(value, list | tuple):
        return [plain_value(item) for item in value]
    if isinstance(value, dict):
        return {str(key): plain_value(item) for key, item in value.items()}
    if isinstance(value, bool | Decimal):
        return int(value) if value == int(value) else float(value)
    if isinstance(value, date | time):
        return value.isoformat()
    return value if isinstance(value, int | float | str) else str(value)


class Source:
    """The rows of a suite behind a locked connection, as the relation ``records``.

    ``columns`` are the names and types of the user's columns, with missing codes already taken
    out. ``krisis_row`` numbers the rows from 1 in the order of the files.
    """

    def __init__(
        self, connection: duckdb.DuckDBPyConnection, name: str, readings: Sequence[Reading]
    ) -> None:
        self.connection = connection
        self.name = name
        self.readings = list(readings)
        self.columns: dict[str, str] = {}
        self.row_number = "rowid + 1"
        self.cleaned = ""
        self.notes: Mapping[str, int] = {}

    def query(self, sql: str, values: Sequence[object] = ()) -> list[tuple[JsonValue, ...]]:
        """Run one of krisis's own queries and return its rows."""
        return self.connection.execute(sql, list(values)).fetchall()

    def picked(self, rows: str) -> str:
        """Return the relation of the rows whose numbers a query gives.

        It is as ``records``, but missing codes are taken out of these rows only.
        """
        number = self.row_number
        return (
            f"(select {number} as {ROW}, {self.cleaned} from {LOADED} where {number} in ({rows}))"
        )

    def keep(self, table: str, names: Sequence[str], rows: str, beside: str) -> None:
        """Make a table of columns of the rows whose numbers a query gives, and of another query.

        Few columns are read at a time: the memory of a read is then used again by the next, where
        all at once would spend as long on asking for memory as on reading.
        """
        columns, joined = [ROW, *map(quoted, names)], []
        for start in range(0, len(columns), _READ_AT_ONCE):
            joined.append(f"{table}_{start}")
            self.connection.execute(
                f"create or replace table {joined[-1]} as select "
                f"{', '.join(columns[start : start + _READ_AT_ONCE])} from {self.picked(rows)} "
                f"order by {ROW}"
            )
        joined.append(f"({beside} order by {ROW})")
        self.connection.execute(
            f"create or replace table {table} as from {' positional join '.join(joined)}"
        )

    @cached_property
    def n_rows(self) -> int:
        """Return the number of rows."""
        known = [reading.n_rows for reading in self.readings]
        if None not in known:
            return sum(n_rows or 0 for n_rows in known)
        return int(self.query(f"select count(*) from {LOADED}")[0][0])

    @cached_property
    def sha256(self) -> str:
        """Return the hash of the bytes of all files, in their order."""
        digest = hashlib.sha256()
        for reading in self.readings:
            with reading.path.open("rb") as file:
                while block := file.read(1 << 22):
                    digest.update(block)
        return digest.hexdigest()

    def place(self, row: int) -> str:
        """Name the file and the row in it, and the line where each row has one of its own."""
        for reading in self.readings:
            if reading.form == "fhir":  # a row comes from many resources
                break
            n_rows = self._rows_of(reading)
            if row <= n_rows:
                return f"{reading.path} row {row}{_line(reading, row, n_rows)}"
            row -= n_rows
        return f"{self.name} row {row}"

    def infinite(self, row: int, name: str) -> InvalidFile:
        """Say where a value is infinite."""
        return InvalidFile(
            f"{self.place(row)}, column {name}: the value is infinite; give a number, or leave the "
            "cell empty"
        )

    def _rows_of(self, reading: Reading) -> int:
        if reading.n_rows is None and len(self.readings) == 1:
            reading.n_rows = self.n_rows
        if reading.n_rows is None:
            number = self.readings.index(reading)
            found = self.query(f"select count(*) from {LOADED} where {FILE} = {number}")
            reading.n_rows = int(found[0][0])
        return reading.n_rows


def _line(reading: Reading, row: int, n_rows: int) -> str:
    """Return the line of a row, where no value spans several lines."""
    if reading.form not in ("csv", "tsv", "lines"):
        return ""
    text = reading.path.read_bytes()
    n_lines = text.count(b"\n") + (not text.endswith(b"\n"))
    n_header = int(reading.form != "lines")
    return f" (line {row + n_header})" if n_lines == n_rows + n_header else ""


def open_source(declaration: Declaration, folder: Path, data_path: Path | None = None) -> Source:
    """Load what the file names below its folder, and lock the connection.

    ``data_path`` is what the user names instead: the file, or the folder of files or resources.
    """
    connection = new_connection()
    given = declaration.source
    if data_path is not None:
        name = "." if data_path.is_dir() else data_path.name
        folder = data_path if data_path.is_dir() else data_path.parent
        if given.fhir is not None or not data_path.is_dir():
            given = given.replaced(name)
    if given.database is not None and given.query is not None:
        database = existing(inside(folder, folder / given.database))
        readings = [Reading(database, "database", "")]
        source = Source(connection, str(readings[0].path), readings)
        load_database(connection, readings[0].path, given.query)
    elif given.fhir is not None:
        place = inside(folder, folder / given.fhir)
        for file in fhir_files(place):
            inside(folder, file)
        source = Source(connection, str(place), [Reading(f, "fhir", "") for f in fhir_files(place)])
        _load_fhir(source, declaration, place)
    else:
        readings = [
            reading_of(connection, path, _ids(declaration))
            for name in given.files
            for path in paths_of(folder, name)
        ]
        source = Source(connection, ", ".join(str(one.path) for one in readings), readings)
        _load_files(source)
    finish(source, declaration)
    return source


def _load_fhir(source: Source, declaration: Declaration, place: Path) -> None:
    given = declaration.source
    index_date = given.index_date.path if given.index_date else None
    table = fhir_table(place, declaration.paths, per=given.per, index_date=index_date)
    create_table(source.connection, table, LOADED, f"0 as {FILE}")
    source.notes = table.notes
    lock(source.connection)


def finish(source: Source, declaration: Declaration) -> None:
    """Put missing codes out of the columns, then refuse empty tables and mixed columns."""
    described = source.query(f"describe {LOADED}")
    own = ROW if source.row_number == ROW else FILE
    loaded = {str(row[0]): str(row[1]) for row in described if row[0] != own}
    for name in loaded:
        if name.lower().startswith("krisis_") or name.lower() == "rowid":
            raise InvalidFile(f"{source.name} has the column {name!r}, a name of krisis; rename it")
    if not source.query(f"select 1 from {LOADED} limit 1"):
        what = "the query returns" if source.readings[0].form == "database" else "it has"
        raise InvalidFile(f"{source.name} holds no rows: {what} columns only; give rows")
    is_text_file = source.readings[0].form in ("csv", "tsv")
    expressions, kinds = [], {}
    ids = _ids(declaration)
    for name, kind in loaded.items():
        typed = is_text_file and name not in ids
        spec = declaration.feature(name)
        expression, kinds[name] = _cleaned(source, name, kind, spec, is_text_file=typed)
        expressions.append(f"{expression} as {quoted(name)}")
    source.cleaned = ", ".join(expressions)
    source.connection.execute(
        f"create view {TABLE} as select {source.row_number} as {ROW}, {source.cleaned} "
        f"from {LOADED}"
    )
    source.columns = kinds


def _cleaned(
    source: Source, name: str, kind: str, spec: FeatureSpec, *, is_text_file: bool
) -> tuple[str, str]:
    """Return the expression of a column without its missing codes, and its type."""
    column, shown = _retyped(_without_codes(quoted(name), kind, spec), kind, spec)
    if kind == "JSON":
        _refuse_mixed_json(source, name)
    if kind != "VARCHAR":
        return column, shown
    if is_text_file:
        column = f"nullif({column}, '')"
    if spec.text or spec.values or not (is_text_file or spec.is_number):
        return column, kind  # a typed source calls its texts texts
    found = source.query(
        f"select count(v), count(try_cast(v as double)), "
        f"count(*) filter (try_cast(v as bigint) is null and v is not null) "
        f"from (select {column} as v from {LOADED})"
    )[0]
    n_given, n_numbers, n_not_whole = (int(cell) for cell in found)
    _refuse_mixed(source, name, column, spec, n_given=n_given, n_numbers=n_numbers)
    if n_given and n_numbers == n_given:
        kind = "DOUBLE" if n_not_whole else "BIGINT"
        return f"({column})::{kind}", kind
    return column, kind


def _without_codes(column: str, kind: str, spec: FeatureSpec) -> str:
    """Return a column without the codes that mean: not measured."""
    if not spec.missing:
        return column
    codes = ", ".join(map(sql_text, spec.missing))
    numbers = ", ".join(_numbers(spec.missing)) or "null"
    same = f"trim({column}::varchar) in ({codes}) or try_cast({column} as double) in ({numbers})"
    if is_number(kind):
        same = f"{column} in ({numbers})"
    return f"case when {same} then null else {column} end"


def _retyped(column: str, kind: str, spec: FeatureSpec) -> tuple[str, str]:
    """Return a column as it is shown: no NaN, times in UTC, and lists of text as lines."""
    if kind in ("FLOAT", "DOUBLE"):
        return f"case when isnan({column}) then null else {column} end", kind
    if kind == "TIMESTAMP WITH TIME ZONE":
        return f"({column})::timestamp", "TIMESTAMP"
    if spec.text and kind != "VARCHAR":
        as_lines = f"array_to_string({column}, chr(10))" if kind == "VARCHAR[]" else column
        return f"({as_lines})::varchar", "VARCHAR"
    return column, kind


def _refuse_mixed_json(source: Source, name: str) -> None:
    """Refuse a column of JSON whose values are numbers here and texts there."""
    kinds = source.query(
        f"select case when k in ('BIGINT', 'UBIGINT', 'DOUBLE') then 'number' else lower(k) end, "
        f"count(*), min(r) from (select json_type({quoted(name)}) as k, {source.row_number} as r "
        f"from {LOADED}) where k not in ('NULL', 'ARRAY', 'OBJECT') group by 1 order by 2"
    )
    if len(kinds) > 1:
        (kind, _, row), (other, n_rows, _) = kinds[0], kinds[-1]
        raise InvalidFile(
            f"{source.place(row)}, column {name}: the value is a {kind}, and {n_rows} others are "
            f"a {other}; give all of one kind"
        )


def _refuse_mixed(
    source: Source, name: str, column: str, spec: FeatureSpec, *, n_given: int, n_numbers: int
) -> None:
    n_words = n_given - n_numbers
    promised = spec.is_number and n_words
    if n_words:
        _refuse_commas(source, name, column, n_words)
    if not promised and not (n_words and n_numbers >= SHARE_OF_NUMBERS * n_given):
        return
    row, value = source.query(
        f"select {source.row_number}, {column} from {LOADED} "
        f"where {column} is not null and try_cast({column} as double) is null order by 1 limit 1"
    )[0]
    why = "the column has a unit or a range" if promised else f"{n_numbers} of {n_given} values are"
    raise InvalidFile(
        f"{source.place(row)}, column {name}: {value!r} is not a number, and {why}; correct it, "
        f"list it under features.{name}.missing, or name the codes under features.{name}.values"
    )


def _refuse_commas(source: Source, name: str, column: str, n_words: int) -> None:
    """Refuse numbers with a decimal comma, which would pass for categories."""
    with_comma = f"regexp_full_match(trim({column}), '[+-]?[0-9]+,[0-9]+')"
    n_commas, row, value = source.query(
        f"select count(*), min({source.row_number}), arg_min({column}, {source.row_number}) "
        f"from {LOADED} where {with_comma}"
    )[0]
    if n_commas >= SHARE_OF_NUMBERS * n_words:
        raise InvalidFile(
            f"{source.place(row)}, column {name}: {value!r} has a comma where a number has a "
            f"decimal point; write points, or text: true under features.{name} if it is no number"
        )


def _numbers(codes: Sequence[JsonValue]) -> Iterator[str]:
    """Return the codes that are numbers, in quotes or not."""
    for code in codes:
        try:
            number = float(code)
        except ValueError:
            continue
        if math.isfinite(number):
            yield repr(number)


def _ids(declaration: Declaration) -> list[str]:
    """Return the columns that are read as written: 007 is no number."""
    return [name for name in (declaration.record_id, declaration.cluster) if name]


def _load_files(source: Source) -> None:
    import duckdb

    first = source.readings[0]
    for reading in source.readings[1:]:
        if set(reading.columns) != set(first.columns):
            differ = min(set(reading.columns) ^ set(first.columns))
            has, lacks = (reading, first) if differ in reading.columns else (first, reading)
            raise InvalidFile(
                f"{lacks.path} lacks the column {differ!r}, which {has.path} has; give files of "
                "the same columns"
            )
    forms = {reading.form for reading in source.readings}
    try:
        if forms == {"parquet"}:
            _view_parquet(source)
        else:
            _copy(source)
    except duckdb.Error as error:
        culprit = next((r for r in source.readings if str(r.path.resolve()) in str(error)), first)
        raise unreadable(culprit, error) from None


def _view_parquet(source: Source) -> None:
    parts, before = [], 0
    source.row_number = ROW
    for reading in source.readings:
        place = sql_text(reading.path.resolve())
        found = source.query(f"select num_rows from parquet_file_metadata({place})")
        reading.n_rows = int(found[0][0])
        parts.append(
            f"select file_row_number + {before + 1} as {ROW}, * exclude (file_row_number) "
            f"from {reading.call}"
        )
        before += reading.n_rows
    source.connection.execute(f"create view {LOADED} as {' union all by name '.join(parts)}")
    lock(source.connection, [reading.path.resolve() for reading in source.readings])


def _copy(source: Source) -> None:
    parts = [
        f"select {number} as {FILE}, * "
        f"{'exclude (file_row_number) ' if reading.form == 'parquet' else ''}from {reading.call}"
        for number, reading in enumerate(source.readings)
    ]
    source.connection.execute(f"create table {LOADED} as {' union all by name '.join(parts)}")
    lock(source.connection)

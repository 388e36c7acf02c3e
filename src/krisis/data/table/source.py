"""Rows into DuckDB, and the lock: after loading, no expression can reach a file or a setting.

Parquet stays in its files, which alone remain readable; everything else is copied into memory.
"""

# SQL is put together from checked expressions, quoted names and constants of krisis.
# ruff: noqa: S608
from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
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
from krisis.data.table.formats import (
    ABOVE,
    BELOW,
    DateOrder,
    NumberFormat,
    is_code,
    is_dotted_date,
    is_grouped,
    looks_like_date,
    parsed_date,
)
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
# A column of at most this many different texts holds categories, whose case is no difference.
_MOST_CATEGORIES = 50


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
        # Columns that cannot be read as they should be; refused where a task uses them.
        self.faults: dict[str, InvalidFile] = {}
        # Spellings of a category that were read as the most frequent one, in a sentence each.
        self.merged: list[str] = []

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
        unusual = given.decimal != "." or given.thousands is not None
        readings = [
            reading_of(
                connection,
                path,
                _ids(declaration),
                encoding=given.encoding,
                numbers_as_text=unusual,
            )
            for name in given.files
            for path in paths_of(folder, name)
        ]
        source = Source(connection, ", ".join(str(one.path) for one in readings), readings)
        try:
            _load_files(source)
        finally:
            for reading in readings:
                reading.close()
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
    expressions, kinds = {}, {}
    ids = _ids(declaration)
    for name, kind in loaded.items():
        column = Column(source, declaration, name, kind)
        try:
            found = column.cleaned(is_text=is_text_file and name not in ids)
        except InvalidFile as error:
            source.faults[name] = error
            found = quoted(name), kind
        expressions[name], kinds[name] = found
    named = [n for n in declaration.used_columns if kinds.get(n) == "VARCHAR" and n not in ids]
    texts = [n for n in named if declaration.feature(n).text]
    _merge_cases(source, expressions, [n for n in named if n not in texts])
    source.cleaned = ", ".join(f"{sql} as {quoted(name)}" for name, sql in expressions.items())
    source.connection.execute(
        f"create view {TABLE} as select {source.row_number} as {ROW}, {source.cleaned} "
        f"from {LOADED}"
    )
    source.columns = kinds


def _merge_cases(source: Source, expressions: dict[str, str], names: Sequence[str]) -> None:
    """Read values that differ by case or surrounding space as the most frequent of them."""
    if not names:
        return
    plain = "lower(trim(v))"
    for name in names:
        column = expressions[name]
        n_values, n_different = source.query(
            f"select count(distinct v), count(distinct {plain}) from "
            f"(select {column} as v from {LOADED})"
        )[0]
        if n_values == n_different or n_different > _MOST_CATEGORIES:
            continue
        rows = source.query(
            f"select {plain}, v, count(*) from (select {column} as v from {LOADED}) "
            "where v is not null group by 1, 2 order by 1, 3 desc, 2"
        )
        usual: dict[str, str] = {}
        whens = []
        for key, value, n_rows in rows:
            kept = usual.setdefault(key, value)
            if value != kept:
                whens.append(f"when {sql_text(value)} then {sql_text(kept)}")
                source.merged.append(f"{name}: {value!r} ({n_rows} rows) is read as {kept!r}")
        expressions[name] = f"case {column} {' '.join(whens)} else {column} end"


@dataclass(frozen=True, slots=True)
class Column:
    """A loaded column, to be read as the file describes it."""

    source: Source
    declaration: Declaration
    name: str
    kind: str

    @property
    def spec(self) -> FeatureSpec:
        """What the file says about the column."""
        return self.declaration.feature(self.name)

    @property
    def format(self) -> NumberFormat:
        """How the numbers of the column are written."""
        return self.declaration.number_format(self.name)

    def cleaned(self, *, is_text: bool) -> tuple[str, str]:
        """Return the expression of the column without its missing codes, and its type.

        ``is_text`` tells that the source knows no types, so that numbers and dates are written out.
        """
        spec, source, column, kind = self.spec, self.source, quoted(self.name), self.kind
        if kind == "JSON" and self._is_scalar_json():
            # SQLite keeps numbers and words in one column.
            column, kind, is_text = f"json_extract_string({column}, '$')", "VARCHAR", True
        codes = [*spec.missing, *self.declaration.source.missing]
        column, shown = _retyped(_without_codes(column, kind, codes), kind, spec)
        if kind != "VARCHAR":
            return column, shown
        if is_text:
            column = f"nullif({column}, '')"
        # A typed source calls its texts texts; a unit or a code such as NA says: these are numbers.
        if spec.text or spec.values or not (is_text or spec.is_number or codes):
            return column, kind
        form = self.format
        if form.dropped("v") != "false":
            column = f"case when {form.dropped(column)} then null else {column} end"
        number = f"try_cast({column} as double)"
        if form != NumberFormat():
            number = form.number(column)
        n_given, n_numbers, n_broken, n_dates, n_codes = (
            int(cell)
            for cell in source.query(
                f"select count(v), count(n), count(*) filter (n <> floor(n)), "
                f"count(*) filter ({looks_like_date('v')}), count(*) filter ({is_code('v')}) "
                f"from (select {column} as v, {number} as n from {LOADED})"
            )[0]
        )
        if n_codes and not spec.is_number:
            return column, kind
        if n_given and n_dates == n_given and n_numbers < n_given and not spec.is_number:
            return self._dated(column, n_given)
        if n_numbers < n_given:
            self._refuse_mixed(column, number, n_given=n_given, n_numbers=n_numbers)
        if n_given and n_numbers == n_given:
            kind = "DOUBLE" if n_broken else "BIGINT"
            return f"({number})::{kind}", kind
        return column, kind

    def _is_scalar_json(self) -> bool:
        nested = self.source.query(
            f"select 1 from {LOADED} where json_type({quoted(self.name)}) in ('ARRAY', 'OBJECT') "
            "limit 1"
        )
        return not nested

    def _dated(self, column: str, n_given: int) -> tuple[str, str]:
        """Return a column of dates as times, where their order is stated or beyond doubt."""
        orders: list[DateOrder] = ["day first", "month first"]
        if self.declaration.source.dates is not None:
            orders = [self.declaration.source.dates]
        read = {order: parsed_date(column, order) for order in orders}
        cells = ", ".join(f"count({sql})" for sql in read.values())
        dotted, *counts = self.source.query(
            f"select bool_and({is_dotted_date(column)}), {cells} from {LOADED} "
            f"where {column} is not null"
        )[0]
        fits = [o for o, n in zip(orders, counts, strict=True) if n == n_given]
        if not fits:
            return column, "VARCHAR"
        if len(fits) == 2 and not dotted:
            first, second = read.values()
            row, value = self.source.query(
                f"select min({self.source.row_number}), arg_min({column}, "
                f"{self.source.row_number}) from {LOADED} where {first} <> {second}"
            )[0]
            if row is not None:
                raise InvalidFile(
                    f"{self.source.place(row)}, column {self.name}: {value!r} may be day first or "
                    "month first; write dates: day first, or dates: month first, under source"
                )
        has_clock = self.source.query(
            f"select 1 from {LOADED} where {read[fits[0]]} <> {read[fits[0]]}::date limit 1"
        )
        kind = "TIMESTAMP" if has_clock else "DATE"
        return f"({read[fits[0]]})::{kind}", kind

    def _refuse_mixed(self, column: str, number: str, *, n_given: int, n_numbers: int) -> None:
        """Refuse texts among numbers, and say which line of the file would read them."""
        name, source, form = self.name, self.source, self.format
        self._refuse_other_format(column, n_given)
        n_words = n_given - n_numbers
        is_mixed = n_numbers if self.kind == "JSON" else n_numbers >= SHARE_OF_NUMBERS * n_given
        if not (self.spec.is_number or is_mixed):
            return
        row, value = source.query(
            f"select r, v from (select {source.row_number} as r, {column} as v, {number} as n "
            f"from {LOADED}) where v is not null and n is null order by 1 limit 1"
        )[0]
        why = (
            "the column has a unit or a range"
            if self.spec.is_number
            else f"{n_numbers} of {n_given} values are"
        )
        cure = (
            f"correct it, list it under features.{name}.missing, or name the codes under "
            f"features.{name}.values"
        )
        for key, sign in (("below_detection: half", BELOW), ("above_detection: bound", ABOVE)):
            words = f"select count(*) from {LOADED} where {form.is_bound(column, sign)}"
            if source.query(f"select {form.is_bound(sql_text(value), sign)}")[0][0]:
                n_bounds = source.query(words)[0][0]
                what = f"is a limit of detection ({n_bounds} of {n_words} such values)"
                raise InvalidFile(
                    f"{source.place(row)}, column {name}: {value!r} {what}; say how to read it: "
                    f"{key} (or bound, or missing) under features.{name}"
                )
        raise InvalidFile(
            f"{source.place(row)}, column {name}: {value!r} is not a number, and {why}; {cure}"
        )

    def _refuse_other_format(self, column: str, n_given: int) -> None:
        """Refuse numbers with another decimal sign, or in groups, which would pass for texts."""
        other = NumberFormat(",", "." if self.format.decimal == "." else None)
        if self.format.decimal == ",":
            other = NumberFormat(".", ",")
        read = other.number(column)
        own, number = self.format.number(column), self.source.row_number
        n_own, n_other, n_grouped, row, value = self.source.query(
            f"select count(o), count(n), count(*) filter ({is_grouped('v', other.decimal)}), "
            "min(r) filter (n is not null and o is null), "
            "arg_min(v, r) filter (n is not null and o is null) from "
            f"(select {number} as r, {column} as v, {own} as o, {read} as n from {LOADED})"
        )[0]
        if row is None or n_other < SHARE_OF_NUMBERS * n_given or n_other <= n_own:
            return
        # 250,000 in every row is in groups of three digits; its sign is no decimal sign.
        key = "thousands" if n_grouped == n_other - n_own else "decimal"
        raise InvalidFile(
            f"{self.source.place(row)}, column {self.name}: {value!r} is a number with "
            f'{key}: "{other.decimal}"; write that under source or features.{self.name}, or '
            "text: true if it is no number"
        )


def _without_codes(column: str, kind: str, missing: Sequence[JsonValue]) -> str:
    """Return a column without the codes that mean: not measured."""
    if not missing:
        return column
    codes = ", ".join(map(sql_text, missing))
    numbers = ", ".join(_numbers(missing)) or "null"
    same = f"trim({column}::varchar) in ({codes}) or try_cast({column} as double) in ({numbers})"
    if is_number(kind):
        same = f"{column} in ({numbers})"
    elif kind not in ("VARCHAR", "JSON"):
        same = f"{column}::varchar in ({codes})"
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

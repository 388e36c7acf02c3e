"""Connections of DuckDB, their lock, and the rows of a query on a database file.

After the lock no expression and no query can reach a file, an extension or a setting.
"""

# SQL is put together from checked queries, quoted names and constants of krisis.
# ruff: noqa: S608
from __future__ import annotations

import json
import sqlite3
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from contextlib import closing
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

from krisis.data.table.expressions import check_query, duckdb_says, sql_text
from krisis.data.table.files import literal
from krisis.errors import InvalidFile, MissingExtra
from krisis.json_values import JsonValue, plain
from krisis.sqlite_edge import address

if TYPE_CHECKING:
    import duckdb

# The table of copied rows, and its column with the number of the file.
LOADED, FILE = "krisis_loaded", "krisis_file"


def new_connection() -> duckdb.DuckDBPyConnection:
    """Return a connection in memory that looks nothing up elsewhere."""
    try:
        import duckdb
    except ImportError:
        raise MissingExtra.named("tables", "the suite 'table'") from None
    connection = duckdb.connect(":memory:")
    for setting in (
        "python_enable_replacements = false",  # else an unknown name is looked up in Python
        "enable_progress_bar = false",  # it would be printed among the output
        "autoinstall_known_extensions = false",
        "autoload_known_extensions = false",
        "TimeZone = 'UTC'",
        "parquet_metadata_cache = true",  # the same file is read by many queries
        "preserve_insertion_order = true",
    ):
        connection.execute(f"set {setting}")
    return connection


def lock(connection: duckdb.DuckDBPyConnection, readable: Sequence[Path] = ()) -> None:
    """Close the file system, but for these files, and every setting for good."""
    if readable:
        # As they are, and as they are written where no letter may be taken for a pattern.
        named = {name for path in readable for name in (str(path), literal(path))}
        paths = ", ".join(map(sql_text, sorted(named)))
        connection.execute(f"set allowed_paths = [{paths}]")
    connection.execute("set enable_external_access = false")
    connection.execute("set lock_configuration = true")


def load_database(connection: duckdb.DuckDBPyConnection, path: Path, query: str) -> None:
    """Copy the rows of a query on a database of DuckDB or SQLite, and lock the connection."""
    import duckdb

    with path.open("rb") as file:
        is_sqlite = file.read(16).startswith(b"SQLite format 3")
    if is_sqlite:
        _load_sqlite(connection, path, query)
        return
    try:
        connection.execute(f"attach {sql_text(path.resolve())} as given (read_only)")
    except duckdb.Error as error:
        raise InvalidFile(
            f"{path} is no database of DuckDB or SQLite: {duckdb_says(error)}"
        ) from None
    connection.execute("use given")
    lock(connection)
    check_query(connection, query)
    try:
        interruptible(
            connection,
            f"create table memory.main.{LOADED} as "
            f"select 0 as {FILE}, * from ({query.rstrip().rstrip(';')}\n)",
        )
    except duckdb.Error as error:
        raise InvalidFile(f"source.query on {path} cannot be run: {duckdb_says(error)}") from None
    connection.execute("use memory")
    connection.execute("detach given")


def interruptible(connection: duckdb.DuckDBPyConnection, sql: str) -> None:
    """Run SQL that may never end, so that Ctrl-C ends it.

    DuckDB looks up between blocks of rows only, which one costly function can keep it from; nobody
    waits for a daemon thread.
    """
    done: Future[object] = Future()

    def run() -> None:
        try:
            done.set_result(connection.execute(sql))
        except BaseException as error:
            done.set_exception(error)

    try:
        Thread(target=run, daemon=True).start()
        done.result()
    except KeyboardInterrupt:
        connection.interrupt()
        wait([done], timeout=1)
        raise


# What a query on SQLite may do: read tables and call functions that stay inside the database.
_SQLITE_MAY = {sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_RECURSIVE}
_SQLITE_NEVER = {
    "load_extension",
    "readfile",
    "writefile",
    "edit",
    "fts3_tokenizer",
    "random",
    "randomblob",
}


def _may(action: int, first: str | None, second: str | None, *_: str | None) -> int:
    if action == sqlite3.SQLITE_FUNCTION and (second or "").lower() not in _SQLITE_NEVER:
        return sqlite3.SQLITE_OK
    if action not in _SQLITE_MAY or (first or "").lower().startswith(("sqlite_", "pragma_")):
        return sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_OK


def _load_sqlite(connection: duckdb.DuckDBPyConnection, path: Path, query: str) -> None:
    """Copy the rows of a query: DuckDB's own reader of SQLite would have to be downloaded."""
    with tempfile.NamedTemporaryFile(suffix=".jsonl", delete=False) as file:
        copied = Path(file.name)
    try:
        with copied.open("w", encoding="utf-8", newline="\n") as lines:
            for row in _sqlite_rows(path, query):
                lines.write(json.dumps(plain(row)) + "\n")
        if not copied.stat().st_size:
            raise InvalidFile(f"{path} holds no rows: the query returns none; give rows")
        call = f"read_json({sql_text(copied)}, format = 'newline_delimited', sample_size = -1)"
        connection.execute(f"create table {LOADED} as select 0 as {FILE}, * from {call}")
    except sqlite3.Error as error:
        raise InvalidFile(
            f"source.query on {path} cannot be run: {error}; write one SELECT over its tables"
        ) from None
    finally:
        copied.unlink()
    lock(connection)


def _sqlite_rows(path: Path, query: str) -> Iterator[Mapping[str, JsonValue]]:
    with closing(sqlite3.connect(address(path, "ro"), uri=True)) as connection:
        connection.set_authorizer(_may)
        connection.set_progress_handler(lambda: 0, 1_000_000)  # so that Ctrl-C is heard
        cursor = connection.execute(query)
        if cursor.description is None:
            raise sqlite3.ProgrammingError("it is no SELECT")
        names = [str(column[0]) for column in cursor.description]
        for number, name in enumerate(names):
            if name.lower() in [other.lower() for other in names[:number]]:
                raise sqlite3.DataError(f"two columns are called {name!r}, rename one by AS")
        for row in cursor:
            if any(isinstance(value, bytes) for value in row):
                raise sqlite3.DataError("a column holds bytes, which cannot be shown")
            yield dict(zip(names, row, strict=True))

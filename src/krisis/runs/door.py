"""The one door between SQLite and a run file, which may be a stranger's.

No other module opens a run file with SQLite. What SQLite does of its own accord when it opens a
file cannot be forbidden by a setting: it replays the log beside the file, and after it has applied
a rollback journal it deletes the file that the journal names as its super-journal. Hence:

- `is_own` looks at the id and the settings of a run without touching any file beside it, and asks
  `krisis.runs.trust` whether this user made it.
- A stranger's file is read in place only if nothing is beside it, otherwise in a private copy
  (`krisis.runs.read.open_run`); a rollback journal that came with it is never applied.
- One's own file is recovered only if its journal names no other file (`krisis.sqlite_edge`), which
  also guards against a stranger's file with the id of a run of one's own.
- `check_schema` allows nothing in a file but data, and `BoundedConnection` ends a statement that
  takes more steps than a file of its size can need.
"""

from __future__ import annotations

import json
import os
import re
import sqlite3
from collections.abc import Sequence
from contextlib import closing, suppress
from functools import cache
from pathlib import Path

from krisis.display import cut
from krisis.errors import InvalidFile, KrisisError
from krisis.runs import trust
from krisis.runs.schema import SINCE_MINOR, Value, ddl, read_only
from krisis.sqlite_edge import address, journal_of, untouched_address

# Steps of SQLite's virtual machine that one statement may take. Of a run of 100,000 rows the look
# through its structure takes most: 0.3 a byte of the file.
_STEPS, _STEPS_PER_BYTE = 2_000_000, 10
_STEPS_AT_ONCE = 10_000
# SQLite parses all definitions of a file before it executes the first statement, some of them in
# time that grows with the square of their length, and takes seven steps for each of them.
_MOST_COLUMNS, _MOST_LETTERS_OF_DEFINITION = 200, 5_000
_STEPS_OF_DEFINITIONS = 1_000
# Names and types, and a number as the key of a table: nothing that SQLite computes or indexes.
_COLUMN = r"\w+(?: (?:TEXT|INTEGER|REAL|BLOB|NUMERIC))?"
_ADDED_COLUMNS = re.compile(rf"(?:, {_COLUMN})*\)", re.ASCII)
_PLAIN_TABLE = re.compile(
    rf"CREATE TABLE \w+ ?\((?:\w+ INTEGER PRIMARY KEY|{_COLUMN})(?:, ?{_COLUMN})*\)", re.ASCII
)
_TABLE = re.compile(r"CREATE TABLE (\w+) ?\(", re.ASCII)
_KINDS = {
    "VIEW": "a view",
    "TRIGGER": "a trigger",
    "INDEX": "an index",
    "UNIQUE": "an index",
    "VIRTUAL": "a virtual table",
    "TABLE": "a table with more than plain columns",
}


class BoundedConnection(sqlite3.Connection):
    """Ends every statement that takes more steps than a file of this size can need."""

    n_bytes = 0
    _n_steps = 0

    def bound_by(self, n_bytes: int) -> None:
        """Bound the statements by the size of the file."""
        self.n_bytes = n_bytes
        self.set_progress_handler(self._is_too_much, _STEPS_AT_ONCE)

    def execute(self, sql: str, values: Sequence[Value] = (), /) -> sqlite3.Cursor:  # type: ignore[override]
        """Execute a statement, which has all its steps before it."""
        self._n_steps = 0
        return super().execute(sql, values)

    def definitions(self) -> list[tuple[Value, Value]]:
        """Return the names and definitions in the file, which SQLite parses within bounds."""
        n_letters = self.setlimit(sqlite3.SQLITE_LIMIT_SQL_LENGTH, _MOST_LETTERS_OF_DEFINITION)
        self.set_progress_handler(lambda: True, _STEPS_OF_DEFINITIONS)
        try:
            return self.execute("SELECT name, sql FROM sqlite_schema").fetchall()
        finally:
            self.setlimit(sqlite3.SQLITE_LIMIT_SQL_LENGTH, n_letters)
            self.bound_by(self.n_bytes)

    def _is_too_much(self) -> bool:
        self._n_steps += _STEPS_AT_ONCE
        return self._n_steps > _STEPS + _STEPS_PER_BYTE * self.n_bytes


def open_to_read(path: Path, *, is_untouched: bool = False) -> BoundedConnection:
    """Open a run file for reading; untouched, as if nothing were beside it and nobody wrote it."""
    connection = sqlite3.connect(
        untouched_address(path) if is_untouched else address(path, "ro", instead=how_to_save(path)),
        uri=True,
        isolation_level=None,
        timeout=10.0,
        factory=BoundedConnection,
    )
    try:
        connection.bound_by(size_of(path))
        connection.setlimit(sqlite3.SQLITE_LIMIT_COLUMN, _MOST_COLUMNS)
        read_only(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def open_to_write(path: Path, *, timeout: float) -> sqlite3.Connection:
    """Open a run file for writing, by whichever thread; what is beside it is put in order.

    Its definitions are checked first: those in the log beside it nobody has looked at.
    """
    is_new = size_of(path) == 0
    connection = sqlite3.connect(
        address(path, "rw", instead=how_to_save(path)),
        uri=True,
        isolation_level=None,
        check_same_thread=False,
        timeout=timeout,
        factory=BoundedConnection,
    )
    try:
        connection.execute("PRAGMA trusted_schema = OFF")
        if not is_new:
            check_schema(connection, path)
        connection.set_progress_handler(None, 0)
    except BaseException:
        connection.close()
        raise
    return connection


def is_own(path: Path) -> bool:
    """Say whether this user made a run, by its id and what it names; nothing is touched.

    A run whose settings cannot be read is nobody's.
    """
    with (
        suppress(
            KrisisError, sqlite3.Error, OSError, LookupError, ValueError, TypeError, RecursionError
        ),
        closing(open_to_read(path, is_untouched=True)) as connection,
    ):
        check_schema(connection, path)
        held = dict(
            connection.execute("SELECT key, value FROM run WHERE key IN ('run_id', 'config')")
        )
        run_id, config = json.loads(held["run_id"]), json.loads(held["config"])
        return isinstance(config, dict) and trust.is_own(str(run_id), config)
    return False


def how_to_save(path: Path) -> str:
    """Say how to save what can be read of a run that is not opened."""
    return f"to save what can be read into a new file, type: krisis doctor {path} --repair"


def size_of(path: Path) -> int:
    """Return how many bytes a run file and the log beside it have."""
    n_bytes = 0
    for one in (path, path.with_name(f"{path.name}-wal")):
        with suppress(OSError):
            n_bytes += one.stat().st_size
    return n_bytes


def refuse_journal(path: Path) -> None:
    """Refuse a rollback journal that came with a stranger's run."""
    if os.path.lexists(journal_of(path)):
        raise InvalidFile(
            f"{path} was not made by you on this machine and has an unfinished change in "
            f"{journal_of(path).name}, which krisis does not apply; ask for a copy made with "
            f"krisis export, or save what can be read: krisis doctor {path} --repair"
        )


def check_schema(connection: BoundedConnection, path: Path) -> None:
    """Refuse a file that holds anything but the tables of a run, and others that are ignored.

    Later versions may add plain columns and plain tables. Whatever SQLite would compute (views,
    triggers, indexes, virtual tables, generated columns, checks) is refused by its text, which is
    all that SQLite itself goes by.
    """
    held = connection.definitions()
    for name, sql in held:
        if not _is_plain(sql):
            words = [*str(sql).upper().split(), "", ""]
            kind = _KINDS.get(words[1], "a definition")
            raise InvalidFile(
                f"{path} has {kind} ({cut(str(name))}), which no run file has, so it is not "
                f"opened; {how_to_save(path)}"
            )
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    later = {table for table, minor in SINCE_MINOR.items() if version % 1000 < minor}
    missing = _own_tables().keys() - later - {_table_of(sql) for _, sql in held}
    if missing:
        raise InvalidFile(
            f"{path} has no table {min(missing)}, so it is not a krisis run, or it is damaged"
        )


def _is_plain(sql: Value) -> bool:
    """Say whether a definition is one of a run file, or of a plain table that is ignored."""
    if sql is None or sql in ddl():  # None: the index of a key, which SQLite makes
        return True
    own = _own_tables().get(_table_of(sql))
    if own is None:
        return isinstance(sql, str) and bool(_PLAIN_TABLE.fullmatch(sql))
    return str(sql).startswith(own[:-1]) and bool(_ADDED_COLUMNS.fullmatch(str(sql), len(own) - 1))


def _table_of(sql: Value) -> str:
    """Return the name of the table that is defined; "" for any other definition."""
    found = _TABLE.match(sql) if isinstance(sql, str) else None
    return found[1] if found else ""


@cache
def _own_tables() -> dict[str, str]:
    return {table: sql for sql in ddl() if (table := _table_of(sql))}

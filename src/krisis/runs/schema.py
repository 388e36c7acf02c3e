"""The schema of a run file, an SQLite database: tables, version, checksums, settings.

``docs/reference/run-file.md`` is the promise made to readers of the file. Every table but the one
of texts ends with ``checksum``, which covers the columns before it; columns that a later minor
version adds follow it. A text is stored once, under a number that is the hash of it. The settings,
without which no row can be scored, are stored twice: in ``run``, and line by line the same in
``run_copy``, whose pages are its own.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from functools import cache

APPLICATION_ID = 0x6B726973  # "kris"
MAJOR, MINOR = 1, 2
USER_VERSION = MAJOR * 1000 + MINOR
SUFFIX = ".krisis"
PAGE_SIZE = 4096  # a file whose header is lost can be searched only where it is known
# What SQLite and the writer put beside the file while it is written.
SIDE_FILES = ("-wal", "-shm", "-journal", "-lock")
# No text of a run is longer: a reply, a prompt, or the settings of a run.
MOST_LETTERS = 64_000_000

Value = str | int | float | bytes | None

# The columns of every table, in their order and with their types; the first is the key.
TABLES: dict[str, dict[str, str]] = {
    # What was asked for and where it comes from: one JSON value a line.
    "run": {"key": "TEXT PRIMARY KEY", "value": "TEXT"},
    # One line per record; features and context only where they may be kept.
    "cases": {
        "position": "INTEGER PRIMARY KEY",
        "record_id": "TEXT",
        "cluster_id": "TEXT",
        "content_hash": "TEXT",
        "metadata": "TEXT",
        "features": "TEXT",
        "context": "INTEGER",
    },
    # One line per process that wrote: when, at which price, how it ended.
    "sessions": {
        "id": "INTEGER PRIMARY KEY",
        "started_at": "REAL",
        "pid": "INTEGER",
        "host": "TEXT",
        "price": "TEXT",
        "seconds": "REAL",
        "stop_cause": "TEXT",
        "stop_sentence": "TEXT",
    },
    # One line per call to a provider, written before it is sent: the most that it can take.
    "calls": {
        "id": "INTEGER PRIMARY KEY",
        "session": "INTEGER",
        "sent_at": "REAL",
        "most_input": "INTEGER",
        "most_output": "INTEGER",
    },
    # What calls took: one line per finished batch, or for calls that led to no row.
    "usage": {
        "id": "INTEGER PRIMARY KEY",
        "session": "INTEGER",
        "seconds": "REAL",
        "position": "INTEGER",
        "n_rows": "INTEGER",
        "counts": "TEXT",
    },
    # One line per asking: case × repeat.
    "rows": {
        "position": "INTEGER PRIMARY KEY",
        "case_position": "INTEGER",
        "repeat": "INTEGER",
        "outcome": "TEXT",
        "prediction": "",
        "truth": "",
        "abstained": "INTEGER",
        "confidence": "REAL",
        "input_tokens": "INTEGER",
        "output_tokens": "INTEGER",
        "total_tokens": "INTEGER",
        "latency_seconds": "REAL",
        "model": "TEXT",
        "finish_reason": "TEXT",
        "failure_class": "TEXT",
        "error": "TEXT",
        "prompt_mode": "TEXT",
        "prompt": "INTEGER",
        "reply": "INTEGER",
        "signals": "TEXT",
        "metadata": "TEXT",
    },
    # Provider batches: many calls that a provider takes at once and answers within a day.
    "provider_batches": {
        "marker": "TEXT PRIMARY KEY",
        "number": "INTEGER",
        "batch_id": "TEXT",
        "dialect": "TEXT",
        "intended_at": "REAL",
        "requests": "TEXT",
        "end": "TEXT",
        "again": "TEXT",
    },
    # Rows of an imported file that could not be taken.
    "not_taken": {"id": "INTEGER PRIMARY KEY", "place": "TEXT", "reason": "TEXT"},
    # What the suite's baselines answered to the same cases.
    "baselines": {
        "id": "INTEGER PRIMARY KEY",
        "name": "TEXT",
        "case_position": "INTEGER",
        "prediction": "",
        "abstained": "INTEGER",
        "confidence": "REAL",
    },
    # The probabilities of those that were only asked for some, by which they act at other costs.
    "baseline_chances": {
        "id": "INTEGER PRIMARY KEY",
        "name": "TEXT",
        "case_position": "INTEGER",
        "chances": "TEXT",
    },
    # A cache: what the run came to, by the hash of its rows and the version that computed it.
    "scores": {
        "rows_hash": "TEXT PRIMARY KEY",
        "version": "TEXT",
        "facts": "TEXT",
        "scores": "TEXT",
    },
    # Decisions that were taken on these rows.
    "ledger": {
        "id": "INTEGER PRIMARY KEY",
        "at": "TEXT",
        "kind": "TEXT",
        "rows_hash": "TEXT",
        "question": "TEXT",
        "answer": "TEXT",
    },
}
# Without a key, and so without an index on another page. Files of version 1.0 have no copy.
RUN_COPY = "CREATE TABLE run_copy (key TEXT, value TEXT, checksum BLOB)"
COPY_SINCE_MINOR = 1
# Tables that files of earlier minor versions lack.
SINCE_MINOR = {"baseline_chances": 2}
_TEXTS = "CREATE TABLE texts (id INTEGER PRIMARY KEY, text TEXT)"
_SIGNALS = """CREATE VIEW signals AS SELECT rows.position, each.key AS name, each.value
FROM rows, json_each(rows.signals) AS each"""


def ddl() -> list[str]:
    """Return the statements that make an empty run file, but for the copy of its settings.

    That is made after the cases (`copy_settings`), so that it is far from the settings.
    """
    made = [
        f"CREATE TABLE {table} "
        f"({', '.join(f'{name} {kind}'.strip() for name, kind in columns.items())}, checksum BLOB)"
        for table, columns in TABLES.items()
    ]
    return [
        *made,
        _TEXTS,
        _SIGNALS,
        f"PRAGMA application_id = {APPLICATION_ID}",
        f"PRAGMA user_version = {USER_VERSION}",
    ]


def columns(table: str) -> str:
    """Return the columns of a table as SQL lists them, its checksum last."""
    return ", ".join((*TABLES[table], "checksum"))


@cache
def insert(table: str, *, replace: bool = False, ignore: bool = False) -> str:
    """Return the statement that writes one line of a table, over one that is there or not."""
    marks = ", ".join("?" * (len(TABLES[table]) + 1))
    verb = "REPLACE" if replace else "INSERT OR IGNORE" if ignore else "INSERT"
    return f"{verb} INTO {table} ({columns(table)}) VALUES ({marks})"


class Checksums:
    """The checksums of one run: of a line copied from another run, the checksum is wrong."""

    def __init__(self, run_id: str) -> None:
        key = run_id.encode("utf-8", "surrogatepass")[:64]
        self._started = {
            table: hashlib.blake2b(table.encode("ascii"), digest_size=8, key=key)
            for table in TABLES
        }

    def of(self, table: str, values: Sequence[Value]) -> bytes:
        """Return the checksum of the columns of one line, without the checksum itself.

        BLAKE2b with the run's id as its key, over the table's name and the values as Python's
        ``ascii`` writes a tuple, which no version and no locale changes.
        """
        digest = self._started[table].copy()
        digest.update(ascii(tuple(values)).encode("ascii"))
        return digest.digest()

    def sealed(self, table: str, *values: Value) -> tuple[Value, ...]:
        """Return the values of a line with their checksum."""
        return (*values, self.of(table, values))

    def fits(self, table: str, line: Sequence[Value]) -> bool:
        """Say whether a line, checksum last, is as it was written."""
        return line[-1] == self.of(table, line[:-1])


def copy_settings(connection: sqlite3.Connection) -> None:
    """Write the settings a second time, in place of an older copy."""
    connection.execute("DROP TABLE IF EXISTS run_copy")
    connection.execute(RUN_COPY)
    connection.execute(f"INSERT INTO run_copy SELECT {columns('run')} FROM run")  # noqa: S608


def proven_run_id(line: Sequence[Value]) -> str | None:
    """Return the id of a run if this line of its settings states it and has its checksum."""
    with suppress(ValueError, RecursionError):
        if len(line) == 3 and line[0] == "run_id" and isinstance(line[1], str):
            name = json.loads(line[1])
            if isinstance(name, str) and Checksums(name).fits("run", line):
                return name
    return None


def text_id(text: str) -> int:
    """Return the number under which a text is stored: the hash of it.

    >>> text_id("Is there kidney disease?") == text_id("Is there kidney disease?")
    True
    """
    return bytes_id(text.encode("utf-8", "surrogatepass"))


def bytes_id(text: bytes | bytearray) -> int:
    """Return the number of a text that is given as UTF-8."""
    return int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "little", signed=True)


def is_text(number: Value, text: Value) -> bool:
    """Say whether a text is the one that was stored under a number."""
    return isinstance(text, str) and text_id(text) == number


def storable(text: str) -> str:
    """Return a text as the file can hold it: half of a surrogate pair as its escape.

    >>> storable("fine"), storable("half \\ud83d")
    ('fine', 'half \\\\ud83d')
    """
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode("utf-8")


def read_only(connection: sqlite3.Connection) -> sqlite3.Connection:
    """Set a connection up to read what a stranger may have written: nothing in it is run."""
    for setting in ("trusted_schema = OFF", "query_only = ON", "cell_size_check = ON"):
        connection.execute(f"PRAGMA {setting}")
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MOST_LETTERS)
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    return connection

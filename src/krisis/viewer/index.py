"""The index of a folder of runs: one SQLite file in the user's cache, made again when in doubt."""

from __future__ import annotations

import hashlib
import os
import shutil
import sqlite3
import tempfile
import threading
import weakref
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

import platformdirs

from krisis.errors import InvalidFile
from krisis.json_values import JsonObject, dumps, parse_object

_APPLICATION = 0x6B726973  # "kris": another program's file is not taken for an index
_SCHEMA = 2
_TABLES = """
CREATE TABLE entries (path BLOB PRIMARY KEY, signature TEXT NOT NULL, facts TEXT NOT NULL);
"""


def index_folder(folder: Path) -> Path:
    """Return where the index of a folder of runs lies, for this user alone."""
    name = hashlib.sha256(os.fsencode(folder.resolve())).hexdigest()[:24]
    return platformdirs.user_cache_path("krisis") / "viewer" / name


class Index:
    """Facts by path and signature; a file that cannot be used gives way to a temporary one.

    Several threads and several viewers may share it. It holds nothing that cannot be read again
    from the runs, so that deleting it costs time alone.
    """

    def __init__(self, folder: Path) -> None:
        self._lock = threading.Lock()
        self._is_temporary = False
        place = index_folder(folder)
        try:
            self._open(place)
        except (OSError, sqlite3.Error):
            try:
                with suppress(OSError):
                    _remove(place)
                self._open(place)
            except (OSError, sqlite3.Error):
                self._give_up()

    def _open(self, place: Path) -> None:
        place.parent.mkdir(parents=True, exist_ok=True)
        with suppress(FileExistsError):
            place.mkdir(mode=0o700)
        place.chmod(0o700)
        path = place / "index.sqlite"
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
        path.chmod(0o600)
        connection = sqlite3.connect(path, timeout=5, isolation_level=None, check_same_thread=False)
        try:
            _prepare(connection)
        except sqlite3.Error:
            connection.close()
            raise
        self.place, self._connection = place, connection
        weakref.finalize(self, connection.close)

    def _give_up(self) -> None:
        """Keep the index in a folder that goes with the process."""
        self._is_temporary = True
        place = Path(tempfile.mkdtemp(prefix="krisis-viewer-")).resolve()
        weakref.finalize(self, shutil.rmtree, place, ignore_errors=True)
        self._open(place)

    def facts(self) -> dict[bytes, tuple[str, JsonObject]]:
        """Return the signature and the facts of every path."""
        with self._lock:
            try:
                found = self._connection.execute("SELECT path, signature, facts FROM entries")
                return {path: (mark, parse_object(text, "index")) for path, mark, text in found}
            except (sqlite3.Error, InvalidFile):
                self._fall_back()
                return {}

    def keep(self, fresh: Iterable[tuple[bytes, str, JsonObject]], gone: Iterable[bytes]) -> None:
        """Write new facts and forget those of paths that are gone."""
        rows = [(path, mark, dumps(facts, indent=None)) for path, mark, facts in fresh]
        with self._lock:
            try:
                self._connection.execute("BEGIN IMMEDIATE")
                self._connection.executemany(
                    "DELETE FROM entries WHERE path = ?", [(p,) for p in gone]
                )
                self._connection.executemany(
                    "INSERT OR REPLACE INTO entries VALUES (?, ?, ?)", rows
                )
                self._connection.execute("COMMIT")
            except sqlite3.Error:
                self._fall_back()

    def _fall_back(self) -> None:
        """Go on without the file: what was in it is read again from the runs."""
        with suppress(sqlite3.Error):
            self._connection.close()
        if not self._is_temporary:
            self._give_up()


def _prepare(connection: sqlite3.Connection) -> None:
    """Make the tables, throwing away those of another version."""
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=NORMAL")
    known = [
        connection.execute(f"PRAGMA {n}").fetchone()[0] for n in ("application_id", "user_version")
    ]
    tables = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]
    if known != [_APPLICATION, _SCHEMA]:
        if tables:
            raise sqlite3.DatabaseError("not an index of this version")
        connection.executescript(
            f"BEGIN; {_TABLES} PRAGMA application_id={_APPLICATION}; "
            f"PRAGMA user_version={_SCHEMA}; COMMIT;"
        )
    connection.execute("SELECT count(*) FROM entries").fetchone()


def _remove(place: Path) -> None:
    """Remove an index that cannot be used, and nothing outside its own folder."""
    if place.is_symlink() or place.is_file():
        place.unlink()
    else:
        shutil.rmtree(place)

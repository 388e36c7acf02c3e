"""Words in the replies of a run: a full-text index by SQLite, in the user's cache.

It is made when a run is first searched and thrown away when the run has changed or is gone
(`runs.text_cache`). Any part of a text is found, whatever its case: the index is of every three
letters that follow each other.
"""

from __future__ import annotations

import json
import os
import sqlite3
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

from krisis.runs.read import RunFile
from krisis.runs.text_cache import index_file, is_index_of
from krisis.sqlite_edge import address

# Longer replies are searched in their beginning only, so that an index stays small.
SEARCHED_CHARACTERS = 20_000
_LETTERS = 3  # of a part that the index finds; shorter parts are looked for in the texts
_AT_ONCE = 200  # rows that are read before they are written
_ROWS = """
SELECT r.position, coalesce(c.record_id, ''), coalesce(r.prediction, ''),
       coalesce(t.text, ''), coalesce(r.error, '')
FROM rows AS r LEFT JOIN cases AS c ON c.position = r.case_position
LEFT JOIN texts AS t ON t.id = r.reply
WHERE r.position > ? AND r.position < ? ORDER BY r.position LIMIT ?
"""


def sought(text: str) -> list[str]:
    """Return what a text must contain to be found: every word, or what is in quotes as it is.

    >>> sought("albumin 3.5")
    ['albumin', '3.5']
    >>> sought('"albumin 3.5"')
    ['albumin 3.5']
    """
    quoted = text.strip()
    if len(quoted) > 2 and quoted[0] == quoted[-1] == '"':
        return [quoted[1:-1]]
    return list(dict.fromkeys(text.split()))


class TextSearch:
    """The full-text indices of the runs of a folder, each of one state of its run."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._locks: defaultdict[Path, threading.Lock] = defaultdict(threading.Lock)

    def positions(self, run: RunFile, state: tuple[int, ...], text: str) -> list[int]:
        """Return the rows of a run in which every part of a text occurs."""
        parts = [_plain(part) for part in sought(text)]
        place = index_file(self._folder, run.path)
        with self._locks[place]:  # whoever asks meanwhile waits for the one index
            if not is_index_of(place, run.path, state):
                _build(run, place, state)
            with suppress(sqlite3.OperationalError):
                return _found(place, parts)
            _build(run, place, state)  # the run goes on, and another viewer removed its index
            return _found(place, parts)


def _plain(text: str) -> str:
    """Return a text as it is indexed: no difference of case, and nothing that ends a text."""
    return text.casefold().replace("\0", "\ufffd").encode("utf-8", "replace").decode()


def _build(run: RunFile, place: Path, state: tuple[int, ...]) -> None:
    """Write the index of a run in place of an older one, for this user alone."""
    place.parent.mkdir(mode=0o700, exist_ok=True)
    begun = place.with_suffix(f".{os.getpid()}.{threading.get_ident()}")
    try:
        os.close(os.open(begun, os.O_RDWR | os.O_CREAT | os.O_TRUNC, 0o600))
        with closing(
            sqlite3.connect(address(begun, "rw"), uri=True, isolation_level=None)
        ) as connection:
            # A cut index is made again, so nothing waits for the disk.
            connection.execute("PRAGMA journal_mode = OFF")
            connection.execute("PRAGMA synchronous = OFF")
            connection.execute("BEGIN")
            connection.execute(
                "CREATE VIRTUAL TABLE texts USING fts5(text, tokenize = 'trigram case_sensitive 1')"
            )
            connection.executemany("INSERT INTO texts (rowid, text) VALUES (?, ?)", _texts(run))
            connection.execute("CREATE TABLE made_of (run BLOB, state TEXT)")
            made_of = os.fsencode(run.path), json.dumps(state)
            connection.execute("INSERT INTO made_of VALUES (?, ?)", made_of)
            connection.execute("COMMIT")
        os.replace(begun, place)
    finally:
        with suppress(OSError):
            begun.unlink()


def _texts(run: RunFile) -> Iterator[tuple[int, str]]:
    """Yield what a search looks at in every row, some rows at a time."""
    last = -1
    while lines := run.select(_ROWS, last, run.description.n_cases, _AT_ONCE):
        for position, *parts in lines:
            shown = (str(part)[:SEARCHED_CHARACTERS] for part in parts)
            yield int(position), _plain("\n".join(shown))  # type: ignore[arg-type]
        last = int(lines[-1][0])  # type: ignore[arg-type]


def _found(place: Path, parts: list[str]) -> list[int]:
    """Return the rows that contain all parts; none where nothing was asked for."""
    long = [part for part in parts if len(part) >= _LETTERS]
    conditions = ["instr(text, ?)" for part in parts if len(part) < _LETTERS]
    values = [part for part in parts if len(part) < _LETTERS]
    if long:
        conditions.append("texts MATCH ?")
        values.append(" AND ".join('"' + part.replace('"', '""') + '"' for part in long))
    condition = " AND ".join(conditions) or "0"
    sql = f"SELECT rowid FROM texts WHERE {condition} ORDER BY rowid"  # noqa: S608 - constants
    with closing(sqlite3.connect(address(place, "ro"), uri=True)) as connection:
        return [position for (position,) in connection.execute(sql, values)]

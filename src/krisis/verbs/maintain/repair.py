"""Salvage: whatever of a damaged run file can be proved whole goes into a new one.

The pages of the file are searched one by one, without SQLite and without the file's directory of
pages, which a cut or a broken header has made useless: a line found on any page is believed because
its checksum names the run and the table that it belongs to. One page is held at a time, and what is
found goes to the new file at once, so that memory does not grow with the run.

https://www.sqlite.org/fileformat2.html has the formats of pages, lines and the write-ahead log.
"""

from __future__ import annotations

import json
import os
import sqlite3
import struct
from codecs import iterdecode
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from krisis.errors import InvalidFile
from krisis.runs.description import RunDescription
from krisis.runs.places import WriterLock, refuse_holes, refuse_links, side_files
from krisis.runs.schema import (
    MOST_LETTERS,
    PAGE_SIZE,
    TABLES,
    Checksums,
    Value,
    bytes_id,
    copy_settings,
    ddl,
    insert,
    proven_run_id,
)
from krisis.runs.write import connected, make_private_folder, sync_folder

_LEAF = 0x0D  # the kind of page that holds the lines of a table
_N_HEADER = 100
_LOG_HEADER, _FRAME_HEADER = 32, 24
_SALTS = slice(8, 16)  # of a frame; those of the log's header are 8 bytes further
_INTEGER_BYTES = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}
_N_CHECKSUM = 8
# No line of a run, of a later minor version either, has more columns.
_MOST_COLUMNS = 64
# How often a page may be read as the end of a line: once in a whole file, seldom more in a damaged
# one, and without end where somebody made ten thousand lines that end on the same pages.
_MOST_VISITS = 100

Line = tuple[Value, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Salvage:
    """What was saved: rows, and how many of them have lost the case that they belong to.

    ``has_ended``: the run had its scores, so that whatever has no row was lost.
    """

    description: RunDescription
    n_rows: int
    n_without_case: int
    has_ended: bool

    @property
    def n_missing(self) -> int:
        """Return how many rows the run should have and the new file has not."""
        return max(0, self.description.n_cases - self.n_rows)


def repair(path: Path, target: Path) -> Salvage:
    """Write a new run file with everything of a damaged one that can be believed."""
    refuse_links(path)
    for one in (path, *side_files(path)):
        refuse_holes(one)
    if os.path.lexists(target):
        raise InvalidFile(f"{target} exists already; choose another name or remove it first")
    lock = WriterLock(path)  # nobody may write to it meanwhile
    half = target.with_name(f".{target.name}.new")
    try:
        make_private_folder(target.parent)
        half.unlink(missing_ok=True)
        os.close(os.open(half, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        with closing(connected(half, journal="DELETE")) as connection:
            found = _save(path, connection)
        half.rename(target)
    except (OSError, sqlite3.Error) as error:
        if getattr(error, "filename", None) == str(path):
            raise InvalidFile(f"{path} cannot be read: {error}") from None
        raise InvalidFile(f"{target} cannot be written: {error}") from None
    finally:
        half.unlink(missing_ok=True)
        lock.release()
    sync_folder(target.parent)
    return found


def _save(path: Path, connection: sqlite3.Connection) -> Salvage:
    """Write what can be believed to an empty file, all of it or nothing."""
    connection.execute("BEGIN")
    for statement in ddl():
        connection.execute(statement)
    run_id = next((one for _, line in _records(path) if (one := proven_run_id(line))), None)
    if run_id is None:
        raise _lost_settings(path)
    statements = {table: insert(table, ignore=True) for table in TABLES}
    checksums = Checksums(run_id)
    for rowid, values in _records(path):
        if len(values) == 2:
            connection.execute(
                "INSERT OR IGNORE INTO texts VALUES (?, CAST(? AS TEXT))", (rowid, values[1])
            )
        for table, line in _as_lines(rowid, values):
            if checksums.fits(table, line):
                connection.execute(statements[table], line)
    copy_settings(connection)
    found = Salvage(
        description=_description(path, connection),
        n_rows=_count(connection, "rows"),
        n_without_case=_count(
            connection, "rows WHERE case_position NOT IN (SELECT position FROM cases)"
        ),
        has_ended=_count(connection, "scores") > 0,
    )
    connection.execute("COMMIT")
    return found


def _count(connection: sqlite3.Connection, lines: str) -> int:
    (n,) = connection.execute(f"SELECT count(*) FROM {lines}").fetchone()  # noqa: S608
    return int(n)


def _description(path: Path, connection: sqlite3.Connection) -> RunDescription:
    """Return what the saved settings say, or refuse a run of which both copies are damaged."""
    try:
        content = {
            str(key): json.loads(value)
            for key, value in connection.execute("SELECT key, value FROM run")
        }
        # A setting that is missing would be taken for one that was not made.
        if not RunDescription.model_fields.keys() <= content.keys():
            raise _lost_settings(path)
        return RunDescription.of(content, str(path))
    except (InvalidFile, ValueError, TypeError, RecursionError):
        raise _lost_settings(path) from None


def _lost_settings(path: Path) -> InvalidFile:
    return InvalidFile(
        f"{path} cannot be saved: both copies of its settings and its task are damaged, without "
        "which no row can be scored; start the run again, the reply cache spares what was "
        "already paid"
    )


def _as_lines(rowid: int, values: Line) -> Iterator[tuple[str, Line]]:
    """Yield what a line of a page is if it belongs to a table, for every table that it fits.

    SQLite keeps a key that is a number apart, and a whole number of a REAL column as an integer.
    Columns after the checksum are of a later minor version.
    """
    for table, columns in TABLES.items():
        n = len(columns)
        checksum = values[n] if len(values) > n else None
        if not isinstance(checksum, bytes) or len(checksum) != _N_CHECKSUM:
            continue
        kinds = tuple(columns.values())
        line = list(values[: n + 1])
        for place, kind in enumerate(kinds):
            value = line[place]
            if kind == "REAL" and isinstance(value, int):
                line[place] = float(value)
        if kinds[0].startswith("INTEGER"):
            line[0] = rowid
        yield table, tuple(line)


def _records(path: Path) -> Iterator[tuple[int, Line]]:
    """Yield number and values of every line that can be taken apart, newer states first.

    A line of two values is a text that has the hash by which it is numbered, as UTF-8: Python
    needs four bytes for every letter of a text that has one emoji.
    """
    stated = int.from_bytes(_start(path)[16:18], "big")
    for size in dict.fromkeys((PAGE_SIZE, 65536 if stated == 1 else stated)):
        if 512 <= size <= 65536 and size & (size - 1) == 0:
            with ExitStack() as stack:
                log = path.with_name(path.name + "-wal")
                files = [stack.enter_context(path.open("rb"))]
                if log.is_file() and not log.is_symlink():
                    files.append(stack.enter_context(log.open("rb")))
                yield from _Pages(size, *files).records()


def _start(path: Path) -> bytes:
    with path.open("rb") as file:
        return file.read(_N_HEADER)


class _Pages:
    """The pages of a run file and of the write-ahead log beside it, read one at a time."""

    def __init__(self, size: int, file: BinaryIO, log: BinaryIO | None = None) -> None:
        self._size, self._file, self._log = size, file, log
        self._n_bytes = sum(os.fstat(one.fileno()).st_size for one in (file, log) if one)
        self._visits: Counter[int] = Counter()
        self._newest: dict[int, int] = {}  # where the log has the newest state of a page
        self._frames, self._old_frames = self._find_frames()

    def records(self) -> Iterator[tuple[int, Line]]:
        """Yield the lines of the log, of the file, and of what was left of an earlier log."""
        for number, place in self._frames:
            yield from self._lines(number, self._frame(place), in_log=True)
        size = os.fstat(self._file.fileno()).st_size
        for number in range(1, -(-size // self._size) + 1):
            yield from self._lines(number, self._page(number), in_log=False)
        for number, place in self._old_frames:
            yield from self._lines(number, self._frame(place), in_log=False)

    def _find_frames(self) -> tuple[list[tuple[int, int]], list[tuple[int, int]]]:
        """Return page and place of the frames of the log, newest first, and those of an older one.

        A log that was merged into the file is written again from its start, with other salts.
        """
        current: list[tuple[int, int]] = []
        older: list[tuple[int, int]] = []
        if self._log is None:
            return current, older
        salts = self._log.read(_LOG_HEADER)[16:24]
        place = _LOG_HEADER
        while len(frame := self._frame(place, _FRAME_HEADER)) == _FRAME_HEADER:
            number = int.from_bytes(frame[:4], "big")
            found = (number, place + _FRAME_HEADER)
            if frame[_SALTS] == salts:
                current.append(found)
                self._newest[number] = found[1]
            else:
                older.append(found)
            place += _FRAME_HEADER + self._size
        return current[::-1], older[::-1]

    def _frame(self, place: int, n_bytes: int | None = None) -> bytes:
        assert self._log is not None
        self._log.seek(place)
        return self._log.read(n_bytes or self._size)

    def _page(self, number: int, *, in_log: bool = False) -> bytes:
        if in_log and number in self._newest:
            return self._frame(self._newest[number])
        self._file.seek((number - 1) * self._size)
        return self._file.read(self._size)

    def _lines(self, number: int, page: bytes, *, in_log: bool) -> Iterator[tuple[int, Line]]:
        """Yield number and values of every line on a page that can be taken apart."""
        start = _N_HEADER if number == 1 else 0
        if len(page) < start + 8 or page[start] != _LEAF:
            return
        n_cells = int.from_bytes(page[start + 3 : start + 5], "big")
        pointers = page[start + 8 : start + 8 + 2 * min(n_cells, len(page) // 4)]
        places = struct.unpack(f">{len(pointers) // 2}H", pointers[: len(pointers) // 2 * 2])
        for place in dict.fromkeys(places):
            try:
                found = self._line(page, place, in_log=in_log)
            except (IndexError, ValueError, struct.error):
                continue
            yield found

    def _line(self, page: bytes, place: int, *, in_log: bool) -> tuple[int, Line]:
        n_bytes, place = _varint(page, place)
        rowid, place = _varint(page, place)
        rowid = rowid - (1 << 64) if rowid >= 1 << 63 else rowid
        here = self._n_on_page(n_bytes)
        kinds, n_header = _kinds(page[place : place + here])
        # Before the pages of a long line are read: does it say twice the same of its length?
        if n_bytes != n_header + sum(map(_n_bytes_of, kinds)):
            raise ValueError("no line")
        payload = bytearray(page[place : place + here])
        if here < n_bytes:
            following = int.from_bytes(page[place + here : place + here + 4], "big")
            self._add_further_pages(payload, following, n_bytes, in_log=in_log)
        if len(payload) < n_bytes:
            raise ValueError("cut off")
        if len(kinds) == 2:
            del payload[: n_bytes - _n_bytes_of(kinds[1])]
            if kinds[1] < 13 or kinds[1] % 2 == 0 or bytes_id(payload) != rowid:
                raise ValueError("no text")
            for _ in iterdecode(_parts(payload), "utf-8"):
                pass
            return rowid, (None, bytes(payload))
        return rowid, tuple(_values(payload, kinds, n_header))

    def _n_on_page(self, n_bytes: int) -> int:
        """Return how much of a line is on its own page; the rest is on pages for it alone."""
        if n_bytes > min(self._n_bytes, MOST_LETTERS):
            raise ValueError("longer than the file")
        most = self._size - 35
        if n_bytes <= most:
            return n_bytes
        least = (self._size - 12) * 32 // 255 - 23
        here = least + (n_bytes - least) % (self._size - 4)
        return here if here <= most else least

    def _add_further_pages(
        self, payload: bytearray, number: int, n_bytes: int, *, in_log: bool
    ) -> None:
        """Complete a line with what is on further pages; none of them is followed twice."""
        seen = set[int]()
        while len(payload) < n_bytes:
            self._visits[number] += 1
            if number < 1 or number in seen or self._visits[number] > _MOST_VISITS:
                raise ValueError("no chain of pages")
            seen.add(number)
            page = self._page(number, in_log=in_log)
            if len(page) <= 4:
                raise ValueError("cut off")
            payload += page[4 : 4 + n_bytes - len(payload)]
            number = int.from_bytes(page[:4], "big")


def _parts(text: bytearray) -> Iterator[bytes]:
    for start in range(0, len(text), PAGE_SIZE):
        yield bytes(text[start : start + PAGE_SIZE])


def _varint(content: bytes, place: int) -> tuple[int, int]:
    """Return the number at a place and the place after it."""
    value = content[place]
    if value < 0x80:  # nearly always
        return value, place + 1
    value &= 0x7F
    for n in range(1, 9):
        byte = content[place + n]
        if n == 8:
            return value << 8 | byte, place + 9
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, place + n + 1
    raise ValueError("no number")


def _kinds(payload: bytes) -> tuple[list[int], int]:
    """Return the kind of every value of a line, and how long the list of them is."""
    n_header, place = _varint(payload, 0)
    kinds: list[int] = []
    while place < n_header:
        kind, place = _varint(payload, place)
        kinds.append(kind)
        if len(kinds) > _MOST_COLUMNS:
            raise ValueError("no line of a run")
    return kinds, n_header


def _n_bytes_of(kind: int) -> int:
    if kind >= 12:
        return (kind - 12) // 2
    return 8 if kind == 7 else _INTEGER_BYTES.get(kind, 0)


def _values(payload: bytearray, kinds: Sequence[int], place: int) -> Iterator[Value]:
    for kind in kinds:
        n_bytes = _n_bytes_of(kind)
        yield _value(payload[place : place + n_bytes], kind)
        place += n_bytes


def _value(held: bytearray, kind: int) -> Value:
    if kind == 0:
        return None
    if kind in (8, 9):
        return kind - 8
    if kind in _INTEGER_BYTES:
        return int.from_bytes(held, "big", signed=True)
    if kind == 7:
        return float(struct.unpack(">d", held)[0])
    if kind < 12:
        raise ValueError("no kind of value")
    return held.decode("utf-8") if kind % 2 else bytes(held)

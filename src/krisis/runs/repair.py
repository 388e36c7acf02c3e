"""Salvage: whatever of a damaged run file can be proved whole goes into a new one.

Lines that SQLite can still reach are taken first. The pages of the file are then searched one by
one, without its directory of pages, which a cut or a broken header has made useless: a line found
on any page is believed because its checksum names the run and the table that it belongs to.
"""

from __future__ import annotations

import json
import os
import sqlite3
import struct
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path

from krisis.errors import InvalidFile, KrisisError
from krisis.runs.description import RunDescription
from krisis.runs.door import open_to_write
from krisis.runs.places import WriterLock, refuse_links
from krisis.runs.read import open_run
from krisis.runs.schema import TABLES, Checksums, Value, columns, ddl, insert, is_text
from krisis.runs.write import make_private_folder

_LEAF = 0x0D  # the kind of page that holds the lines of a table
_N_HEADER = 100
_WAL_HEADER, _FRAME_HEADER = 32, 24
_INTEGER_BYTES = {1: 1, 2: 2, 3: 3, 4: 4, 5: 6, 6: 8}
# A cache of what can be computed again, of which a page may hold older states.
_NOT_SEARCHED = ("scores",)

Line = tuple[Value, ...]


@dataclass(slots=True)
class Salvage:
    """What was saved: lines by table and key, and the texts."""

    lines: dict[str, dict[Value, Line]] = field(
        default_factory=lambda: {table: {} for table in TABLES}
    )
    texts: dict[int, str] = field(default_factory=dict)

    @property
    def n_rows(self) -> int:
        """Return how many rows were saved together with their case."""
        cases = self.lines["cases"]
        return sum(line[1] in cases for line in self.lines["rows"].values())


def repair(path: Path, target: Path) -> Salvage:
    """Write a new run file with everything of a damaged one that can be believed."""
    refuse_links(path)
    if os.path.lexists(target):
        raise InvalidFile(f"{target} exists already; choose another name or remove it first")
    lock = WriterLock(path)  # nobody may write to it meanwhile
    try:
        found = _reached(path)
        _search(path, found)
    finally:
        lock.release()
    _check(path, found)
    _write(target, found)
    return found


def _check(path: Path, found: Salvage) -> None:
    content = {str(key): json.loads(str(line[1])) for key, line in found.lines["run"].items()}
    try:
        RunDescription.of(content, str(path))
        if not {"run_id", "identity", "suite_description", "task"} <= content.keys():
            raise InvalidFile("incomplete")
    except InvalidFile:
        raise InvalidFile(
            f"{path} cannot be saved: what it says of its settings and its task is lost, without "
            "which no row can be scored; start the run again, the reply cache spares what was "
            "already paid"
        ) from None


def _write(target: Path, found: Salvage) -> None:
    make_private_folder(target.parent)
    os.close(os.open(target, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    with closing(open_to_write(target, timeout=0.0)) as connection:
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("BEGIN")
        for statement in ddl():
            connection.execute(statement)
        for table, lines in found.lines.items():
            if table not in _NOT_SEARCHED:
                connection.executemany(insert(table), lines.values())
        connection.executemany("INSERT INTO texts VALUES (?, ?)", found.texts.items())
        connection.execute("COMMIT")


def _reached(path: Path) -> Salvage:
    """Return the lines that SQLite can reach."""
    found = Salvage()
    with suppress(KrisisError, sqlite3.Error, OSError), open_run(path) as run:
        for table in TABLES:
            if table != "run":
                key = {line[0]: line for line in run.believed(table)}
                found.lines[table].update(key)
        lines = run.select(f"SELECT {columns('run')} FROM run")  # noqa: S608 - own names
        checksums = Checksums(run.description.run_id)
        found.lines["run"] = {one[0]: one for one in lines if checksums.fits("run", one)}
        for number, text in run.select("SELECT id, text FROM texts"):
            if is_text(number, text):
                found.texts[number] = text  # type: ignore[index,assignment]
    return found


def _search(path: Path, found: Salvage) -> None:
    """Add the lines of every page that are not there yet and have the checksum of this run."""
    pages = list(_pages(path))
    records = [record for page in pages for record in _records(page, pages)]
    run_id = _run_id(records)
    if run_id is None:
        return
    checksums = Checksums(run_id)
    for rowid, values in records:
        if len(values) == 2 and is_text(rowid, values[1]):
            found.texts.setdefault(rowid, str(values[1]))
        for table, names in TABLES.items():
            if len(values) == len(names) + 1 and table not in _NOT_SEARCHED:
                line = _keyed(table, rowid, values)
                if checksums.fits(table, line):
                    found.lines[table].setdefault(line[0], line)


def _keyed(table: str, rowid: int, values: Line) -> Line:
    """Return a line with its key, which SQLite keeps apart where it is a number."""
    kind = next(iter(TABLES[table].values()))
    return (rowid, *values[1:]) if kind.startswith("INTEGER") else values


def _run_id(records: list[tuple[int, Line]]) -> str | None:
    """Return the id of the run by the one line that proves itself with it."""
    for _, values in records:
        with suppress(ValueError, TypeError, RecursionError):
            if len(values) == 3 and values[0] == "run_id":
                name = json.loads(str(values[1]))
                if isinstance(name, str) and Checksums(name).fits("run", values):
                    return name
    return None


@dataclass(frozen=True, slots=True)
class _Page:
    number: int
    content: bytes


def _pages(path: Path) -> Iterator[_Page]:
    """Yield the pages of a file, and those that are still in its write-ahead log."""
    content = path.read_bytes()
    size = int.from_bytes(content[16:18], "big")
    size = 65536 if size == 1 else size
    if size < 512 or size & (size - 1):
        size = 4096  # as every run is written
    for number in range(1, len(content) // size + 2):
        yield _Page(number, content[(number - 1) * size : number * size])
    log = path.with_name(path.name + "-wal")
    if log.is_file():
        content = log.read_bytes()
        step = _FRAME_HEADER + size
        for start in range(_WAL_HEADER, len(content) - step + 1, step):
            number = int.from_bytes(content[start : start + 4], "big")
            yield _Page(number, content[start + _FRAME_HEADER : start + step])


def _records(page: _Page, pages: list[_Page]) -> Iterator[tuple[int, Line]]:
    """Yield number and values of every line on a page that can be taken apart."""
    start, content = _N_HEADER if page.number == 1 else 0, page.content
    if len(content) < start + 8 or content[start] != _LEAF:
        return
    n_cells = int.from_bytes(content[start + 3 : start + 5], "big")
    for cell in range(min(n_cells, len(content) // 4)):
        at = start + 8 + 2 * cell
        with suppress(IndexError, ValueError, UnicodeDecodeError, struct.error):
            place = int.from_bytes(content[at : at + 2], "big")
            n_bytes, place = _varint(content, place)
            rowid, place = _varint(content, place)
            payload = _payload(content, place, n_bytes, pages)
            yield rowid - (1 << 64) if rowid >= 1 << 63 else rowid, _values(payload)


def _payload(content: bytes, place: int, n_bytes: int, pages: list[_Page]) -> bytes:
    """Return the bytes of a line, those on further pages included.

    https://www.sqlite.org/fileformat2.html#cell_payload has the rule for what is on the page.
    """
    usable = len(content)
    most = usable - 35
    if n_bytes <= most:
        return content[place : place + n_bytes]
    least = (usable - 12) * 32 // 255 - 23
    here = least + (n_bytes - least) % (usable - 4)
    here = here if here <= most else least
    found = [content[place : place + here]]
    left, following = (
        n_bytes - here,
        int.from_bytes(content[place + here : place + here + 4], "big"),
    )
    while left > 0 and 1 <= following <= len(pages):
        page = pages[following - 1].content
        found.append(page[4 : 4 + left])
        left -= len(page) - 4
        following = int.from_bytes(page[:4], "big")
    return b"".join(found)


def _varint(content: bytes, place: int) -> tuple[int, int]:
    """Return the number at a place and the place after it."""
    value = 0
    for n in range(9):
        byte = content[place + n]
        if n == 8:
            return value << 8 | byte, place + 9
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, place + n + 1
    raise ValueError("no number")


def _values(payload: bytes) -> Line:
    """Take a line apart: https://www.sqlite.org/fileformat2.html#record_format."""
    n_header, place = _varint(payload, 0)
    kinds = []
    while place < n_header:
        kind, place = _varint(payload, place)
        kinds.append(kind)
    values: list[Value] = []
    for kind in kinds:
        value, n_bytes = _value(payload, n_header, kind)
        if n_header + n_bytes > len(payload):
            raise ValueError("cut off")
        values.append(value)
        n_header += n_bytes
    return tuple(values)


def _value(payload: bytes, place: int, kind: int) -> tuple[Value, int]:
    if kind == 0:
        return None, 0
    if kind in (8, 9):
        return kind - 8, 0
    if kind in _INTEGER_BYTES:
        n_bytes = _INTEGER_BYTES[kind]
        return int.from_bytes(payload[place : place + n_bytes], "big", signed=True), n_bytes
    if kind == 7:
        (value,) = struct.unpack(">d", payload[place : place + 8])
        return float(value), 8
    if kind < 12:
        raise ValueError("no kind of value")
    n_bytes = (kind - 12) // 2
    found = payload[place : place + n_bytes]
    return (found.decode("utf-8") if kind % 2 else found), n_bytes

"""A power cut at any moment: what was committed is there, whole, and nothing is corrupt.

The product's own writer runs over a VFS of SQLite (`apsw`) that logs every write, sync, truncation
and deletion, and what was promised as committed. Then the machine is cut off after every entry of
the log: what was synchronised is on the disk; of what was not, anything may be: nothing, all, some
writes and not others, half a write. The product's own reader opens what is left.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from tests.runs.test_run_file import N, described, some_cases, some_row

from krisis.results.call_totals import CallTotals
from krisis.runs import write
from krisis.runs.read import open_run
from krisis.runs.write import RowPlace, RunWriter, settings_of

apsw = pytest.importorskip("apsw")

BATCH = 4
SECTOR = 512


@dataclass
class Log:
    """What reached the operating system, in order; ``committed`` are rows that were promised."""

    entries: list[tuple[Any, ...]] = field(default_factory=list)

    def add(self, *entry: Any) -> None:
        self.entries.append(entry)


class LoggedFile(apsw.VFSFile):
    def __init__(self, vfs: str, name: Any, flags: list[int], log: Log) -> None:
        super().__init__(vfs, name, flags)
        self._name = Path(name.filename() if hasattr(name, "filename") else str(name)).name
        self._log = log

    def xWrite(self, data: bytes, offset: int) -> None:
        self._log.add("write", self._name, offset, bytes(data))
        super().xWrite(data, offset)

    def xTruncate(self, size: int) -> None:
        self._log.add("truncate", self._name, size)
        super().xTruncate(size)

    def xSync(self, flags: int) -> None:
        self._log.add("sync", self._name)
        super().xSync(flags)


class LoggedDisk(apsw.VFS):
    def __init__(self, log: Log) -> None:
        self._log = log
        super().__init__("logged", "")

    def xOpen(self, name: Any, flags: list[int]) -> LoggedFile:
        return LoggedFile("", name, flags, self._log)

    def xDelete(self, name: str, sync_folder: bool) -> None:
        self._log.add("delete", Path(name).name, bool(sync_folder))
        super().xDelete(name, sync_folder)


class Connection:
    """A connection of `apsw` as the writer uses one of `sqlite3`."""

    def __init__(self, path: Path) -> None:
        flags = apsw.SQLITE_OPEN_READWRITE
        self._held = apsw.Connection(str(path), flags=flags, vfs="logged")

    def execute(self, sql: str, values: Sequence[Any] = ()) -> Any:
        return self._held.cursor().execute(sql, tuple(values))

    def executemany(self, sql: str, lines: Any) -> None:
        self._held.cursor().executemany(sql, list(map(tuple, lines)))

    def close(self) -> None:
        self._held.close()


def logged_run(folder: Path, n_rows: int) -> Log:
    """Write a run, one batch after the other; return the log, and in it what was promised when."""
    log = Log()
    disk, rename, sync = LoggedDisk(log), Path.rename, write.sync_folder

    def opened(path: Path, *, journal: str = "") -> Connection:
        connection = Connection(path)
        for setting in settings_of(journal or "WAL"):
            connection.execute(f"PRAGMA {setting}")
        return connection

    def renamed(self: Path, target: Path) -> Path:
        log.add("rename", self.name, Path(target).name)
        return rename(self, target)

    def synced(place: Path) -> None:
        log.add("sync folder")
        sync(place)

    folder.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(write, "connected", opened)
        patch.setattr(write, "sync_folder", synced)
        patch.setattr(Path, "rename", renamed)
        patch.setattr(write, "CHECKPOINT_SECONDS", 0.0)  # as often as can be
        writer = RunWriter.create(folder / "a.krisis", described(), some_cases())
        writer.begin_session({})
        log.add("committed", 0)
        for start in range(0, n_rows, BATCH):
            writer.note_call(100, 50).result()
            places = range(start, start + BATCH)
            rows = [some_row(i) for i in places]
            writer.append([RowPlace(i, i) for i in places], rows, CallTotals(n_calls=1))
            writer.flush()
            log.add("committed", start + BATCH)
        writer.finish(facts="{}", scores="{}", version="0")
        writer.close()
    disk.unregister()
    return log


@dataclass
class File:
    """A file on the disk, and what the disk has not promised yet."""

    durable: bytearray | None = None  # None: not even its name is on the disk
    pending: list[tuple[Any, ...]] = field(default_factory=list)

    def after(self, kept: Sequence[bool], torn: float) -> bytes | None:
        """Return the file if these of the pending changes reached the disk, the last one torn."""
        changes = [one for one, keep in zip(self.pending, kept, strict=True) if keep]
        if self.durable is None and not changes:
            return None
        content = bytearray(self.durable or b"")
        for number, change in enumerate(changes, start=1):
            _apply(content, change, torn if number == len(changes) else 1.0)
        return bytes(content)

    def sync(self) -> None:
        content = self.after([True] * len(self.pending), 1.0)
        self.durable, self.pending = bytearray(content or b""), []


def _apply(content: bytearray, change: tuple[Any, ...], share: float) -> None:
    if change[0] == "truncate":
        del content[change[1] :]
        return
    _, offset, data = change
    if share < 1:  # a disk writes whole sectors
        data = data[: int(len(data) * share) // SECTOR * SECTOR]
    if len(content) < offset:
        content.extend(bytes(offset - len(content)))
    content[offset : offset + len(data)] = data


class Disk:
    """The files of a folder while the log is played."""

    def __init__(self) -> None:
        self.files: dict[str, File] = {}
        self.gone: dict[str, File] = {}  # deleted, but the folder was not synchronised since
        self.unnamed: tuple[str, str] | None = None
        self.promised = -1

    def play(self, entry: tuple[Any, ...]) -> None:
        kind, *what = entry
        if kind in ("write", "truncate"):
            self.files.setdefault(what[0], File()).pending.append((kind, *what[1:]))
        elif kind == "sync":
            self.files.setdefault(what[0], File()).sync()
        elif kind == "delete":
            held = self.files.pop(what[0], None)
            if held is not None and not what[1]:
                self.gone[what[0]] = held
        elif kind == "rename":
            self.files[what[1]] = self.files.pop(what[0])
            self.unnamed = (what[0], what[1])
        elif kind == "sync folder":
            self.gone.clear()
            self.unnamed = None
        elif kind == "committed":
            self.promised = what[0]

    def cut(self, rng: random.Random, way: str) -> dict[str, bytes]:
        """Return what is on the disk after a cut."""
        found: dict[str, bytes] = {}
        held = {**(self.gone if way == "undeleted" else {}), **self.files}
        for name, file in held.items():
            n = len(file.pending)
            kept = {
                "nothing": [False] * n,
                "undeleted": [False] * n,
                "everything": [True] * n,
                "torn": [rng.random() < 0.8 for _ in range(n)],
            }.get(way, [rng.random() < 0.5 for _ in range(n)])
            content = file.after(kept, rng.random() if way == "torn" else 1.0)
            if content is not None:
                found[name] = content
        if self.unnamed is not None and way in ("nothing", "torn"):
            old, new = self.unnamed
            found[old] = found.pop(new)
        return found


def opened_after(folder: Path, files: dict[str, bytes]) -> list[int] | None:
    """Return the positions of the rows that the product reads; None where there is no run."""
    folder.mkdir()
    for name, content in files.items():
        if not name.endswith("-shm"):  # shared memory, which a cut empties
            (folder / name).write_bytes(content)
    path = folder / "a.krisis"
    if not path.exists():
        return None
    with open_run(path) as run:
        assert not run.is_broken
        contents = run.contents()
        assert run.damage == ""
        for position, row in contents.rows.items():
            assert row == some_row(position)
        return sorted(contents.rows)


def check(log: Log, folder: Path, ways: Sequence[str], *, step: int = 1) -> int:
    rng, disk, n_cuts = random.Random(0), Disk(), 0
    for number, entry in enumerate(log.entries):
        disk.play(entry)
        if number % step and entry[0] not in ("committed", "rename", "sync folder", "delete"):
            continue
        for way in ways:
            place = folder / f"{number}-{way}"
            rows = opened_after(place, disk.cut(rng, way))
            n_cuts += 1
            if disk.promised >= 0:
                assert rows is not None, (number, way)
                assert len(rows) >= disk.promised, (number, way)
            # A batch is there as a whole or not at all.
            if rows:
                assert rows == list(range(len(rows))), (number, way)
                assert len(rows) % BATCH == 0, (number, way)
    return n_cuts


def test_the_log_holds_syncs_in_the_order_that_a_commit_needs(tmp_path: Path) -> None:
    log = logged_run(tmp_path / "run", 2 * BATCH)
    kinds = [(entry[0], entry[1] if len(entry) > 1 else "") for entry in log.entries]
    assert kinds.index(("rename", ".a.krisis.new")) < kinds.index(("sync folder", ""))
    promises = [place for place, entry in enumerate(log.entries) if entry[0] == "committed"]
    for place in promises[1:]:
        last = max(i for i, kind in enumerate(kinds[:place]) if kind == ("write", "a.krisis-wal"))
        assert ("sync", "a.krisis-wal") in kinds[last:place]


def test_a_journal_that_goes_is_gone(tmp_path: Path) -> None:
    """One that came back after a cut would be played over a newer file."""
    log = logged_run(tmp_path / "run", BATCH)
    gone = [entry for entry in log.entries if entry[0] == "delete" and "journal" in entry[1]]
    assert len(gone) == 3  # of the new file, of going over to the log, and of going back
    assert all(with_folder for _, _, with_folder in gone)


def test_a_cut_at_some_moments(tmp_path: Path) -> None:
    log = logged_run(tmp_path / "run", BATCH)
    assert check(log, tmp_path, ("nothing", "torn"), step=25) > 10


@pytest.mark.slow
def test_a_cut_at_every_moment(tmp_path: Path) -> None:
    log = logged_run(tmp_path / "run", N // BATCH * BATCH)
    ways = ("nothing", "everything", "undeleted", "some", "others", "torn")
    n_cuts = check(log, tmp_path, ways)
    print(f"{len(log.entries)} entries of the log, {n_cuts} cuts")


def test_what_is_not_synchronised_is_lost(tmp_path: Path) -> None:
    """The test can fail: without synchronising, promised rows are gone.

    Neither the log nor the file is synchronised: a checkpoint that comes before the next promise
    would carry the rows into the file.
    """
    log = logged_run(tmp_path / "run", 2 * BATCH)
    named = ("a.krisis-wal", "a.krisis")
    log.entries = [one for one in log.entries if one[0] != "sync" or one[1] not in named]
    with pytest.raises(AssertionError):
        check(log, tmp_path, ("nothing",))

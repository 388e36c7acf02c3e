"""Writing a run file: one thread owns the connection, and what is pending becomes one commit.

`RunWriter` belongs to the process that asks the model. The bound of a call is on disk before the
call is sent (`note_call`); a finished batch is one transaction with its rows, texts and usage
(`append`), which nobody waits for. Whatever was committed survives ``kill -9`` and a power cut.
Once a run is closed it is one file, and only cached scores and the ledger are added to it, each in
a short transaction (`write_briefly`).
"""

from __future__ import annotations

import json
import math
import os
import socket
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import closing, suppress
from dataclasses import dataclass, field
from hashlib import blake2b
from itertools import count
from pathlib import Path

from krisis.errors import KrisisError, RunFailed
from krisis.json_values import JsonMapping, dumps, plain
from krisis.metrics.base import EvaluationResult
from krisis.results.call_totals import CallTotals
from krisis.results.stops import StopCause
from krisis.runs.description import RunDescription
from krisis.runs.door import is_own, open_to_write
from krisis.runs.places import WriterLock, has_unmerged, is_local, refuse_links
from krisis.runs.provider_batches import ProviderBatch
from krisis.runs.schema import (
    PAGE_SIZE,
    Checksums,
    Value,
    copy_settings,
    ddl,
    insert,
    storable,
    text_id,
)
from krisis.runs.trust import note_own, note_scores
from krisis.task_facts import OWN_PROBABILITIES

# The main file alone is never further behind than this.
CHECKPOINT_SECONDS = 2.0
# How long a statement waits for another process that reads or writes.
BUSY_SECONDS = 10.0
# What the metadata of a row says beside those of its record, where it was asked again.
REPEAT = "sample_index"

Work = Callable[[sqlite3.Connection], None]
Lines = Sequence[tuple[Value, ...]]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredCase:
    """A record of a run: who it is, and as far as they may be kept what was shown of it."""

    record_id: str
    cluster_id: str
    label: int | str
    metadata: JsonMapping = field(default_factory=dict)
    features: JsonMapping | None = None
    context: str = ""


@dataclass(frozen=True, slots=True)
class RowPlace:
    """Where a row belongs: its place in the run, and which asking of which case it is."""

    position: int
    case_position: int
    repeat: int = 0


def asked_metadata(metadata: JsonMapping, repeat: int) -> JsonMapping:
    """Return the metadata that a row has by its case and its asking."""
    return {**metadata, REPEAT: repeat} if repeat else metadata


class RunWriter:
    """Writes one run file; a second writer is refused.

    A write that fails is rolled back and ends the run: every later call raises what happened.
    """

    def __init__(self, path: Path, description: RunDescription, lock: WriterLock) -> None:
        self.path, self.description = path, description
        self._lock = lock
        self._checksums = Checksums(description.run_id)
        self._cases: Sequence[StoredCase] = ()
        self._shared: dict[str, int | None] = {}
        self._fault: RunFailed | None = None
        self._pending: list[tuple[Work, Future[None] | None]] = []
        self._wake = threading.Condition()
        self._is_closing = False
        self._started = time.monotonic()
        self._started_at = time.time()
        self._session, self._host = 0, storable(socket.gethostname())
        self._price = "{}"
        self._stop: StopCause | None = None
        self._has_old_scores = True
        self._connection = connected(path)
        self._ids = {table: count(1) for table in ("calls", "usage")}
        self._thread = threading.Thread(target=self._write, name="krisis-writer", daemon=True)

    @classmethod
    def create(
        cls, path: Path, description: RunDescription, cases: Sequence[StoredCase]
    ) -> RunWriter:
        """Make a run file that only its owner can read, with all its cases and no row.

        It is made under another name, so that whoever sees the file sees a run.
        """
        make_private_folder(path.parent)
        lock = WriterLock(path)
        try:
            if os.path.lexists(path):
                raise FileExistsError(f"{path} exists")
            note_own(description.run_id, description.config)
            _create_file(path, description, cases)
            writer = cls(path, description, lock)
        except BaseException:
            lock.release()
            raise
        writer._cases = cases
        writer._thread.start()
        return writer

    @classmethod
    def resume(
        cls, path: Path, description: RunDescription, cases: Sequence[StoredCase]
    ) -> RunWriter:
        """Go on writing a run file; the cases are those of its suite."""
        refuse_links(path)
        lock = WriterLock(path)
        try:
            writer = cls(path, description, lock)
            writer._go_on_counting()
        except BaseException:
            lock.release()
            raise
        writer._cases = cases
        writer._thread.start()
        return writer

    def begin_session(self, price: Mapping[str, float]) -> None:
        """Note that a process begins to ask, at which price of tokens."""
        self._price = json.dumps(plain(price))

        def begin(connection: sqlite3.Connection) -> None:
            (last,) = connection.execute("SELECT max(id) FROM sessions").fetchone()
            self._session = int(last or 0) + 1
            connection.execute(insert("sessions"), self._session_line(None))

        self._submit(begin).result()

    def append(
        self, askings: Sequence[RowPlace], rows: Sequence[EvaluationResult], usage: CallTotals
    ) -> None:
        """Keep finished rows, their texts and what they took, in one transaction."""
        texts: dict[int, str] = {}
        lines = [
            self._row_line(asking, row, texts) for asking, row in zip(askings, rows, strict=True)
        ]
        took = self._usage_line(askings[0].position if askings else None, len(rows), usage)

        def add(connection: sqlite3.Connection) -> None:
            if self._has_old_scores:
                self._has_old_scores = False
                connection.execute("DELETE FROM scores")
            connection.executemany(
                "INSERT OR IGNORE INTO texts (id, text) VALUES (?, ?)", texts.items()
            )
            connection.executemany(insert("rows", replace=True), lines)
            connection.execute(insert("usage"), took)

        self._put(add)

    def note_call(self, n_input: float, n_output: float) -> Future[None]:
        """Keep the most that a call can take; it may be sent when the future is done."""
        most = math.ceil(n_input), math.ceil(n_output)
        number = next(self._ids["calls"])
        line = self._checksums.sealed("calls", number, self._session, time.time(), *most)
        return self._submit(lambda connection: _execute(connection, insert("calls"), line))

    def note_totals(self, usage: CallTotals) -> None:
        """Keep what calls took that led to no row."""
        took = self._usage_line(None, 0, usage)
        self._put(lambda connection: _execute(connection, insert("usage"), took))

    def note_provider_batch(self, batch: ProviderBatch, usage: CallTotals | None = None) -> None:
        """Keep the state of a provider batch; on disk when this returns."""
        facts = (batch.marker, batch.number, batch.batch_id, batch.dialect, batch.intended_at)
        requests, again = (json.dumps(list(map(list, x))) for x in (batch.requests, batch.again))
        line = self._checksums.sealed("provider_batches", *facts, requests, batch.end, again)
        took = None if usage is None else self._usage_line(None, 0, usage)

        def note(connection: sqlite3.Connection) -> None:
            connection.execute(insert("provider_batches", replace=True), line)
            if took is not None:
                connection.execute(insert("usage"), took)

        self._submit(note).result()

    def note_stop(self, cause: StopCause) -> None:
        """Keep why the session ended before its last record."""
        self._stop = cause

    def note_not_taken(self, places_and_reasons: Iterable[tuple[str, str]]) -> None:
        """Keep the rows of an imported file that could not be taken."""
        lines = [
            self._checksums.sealed("not_taken", number, storable(place), storable(reason))
            for number, (place, reason) in enumerate(places_and_reasons, start=1)
        ]
        self._put(lambda connection: _execute_all(connection, insert("not_taken"), lines))

    def rewrite_cases(self) -> None:
        """Write the cases again as the suite gives them, in place of damaged ones."""

        def rewrite(connection: sqlite3.Connection) -> None:
            texts: dict[int, str] = {}
            lines = list(_case_lines(self.description, self._cases, texts))
            connection.executemany(insert("cases", replace=True), lines)
            connection.executemany(
                "INSERT OR REPLACE INTO texts (id, text) VALUES (?, ?)", texts.items()
            )

        self._submit(rewrite).result()

    def drop_rows(self, positions: Iterable[int]) -> None:
        """Take rows out whose checksum is wrong, so that they are asked again."""
        places = [(position,) for position in positions]
        self._submit(
            lambda connection: _execute_all(
                connection, "DELETE FROM rows WHERE position = ?", places
            )
        )

    def keep_baselines(self, found: Mapping[str, Sequence[EvaluationResult]]) -> None:
        """Keep what the baselines answered, in place of what they answered before."""
        place = {case.record_id: position for position, case in enumerate(self._cases)}
        answers = ((name, row) for name, rows in found.items() for row in rows)
        lines = [
            self._checksums.sealed(
                "baselines",
                number,
                storable(name),
                place[row.record_id],
                _label(row.prediction),
                int(row.abstained),
                _real(row.confidence),
            )
            for number, (name, row) in enumerate(answers, start=1)
            if row.record_id in place and row.outcome in ("answered", "abstained")
        ]

        stated = (
            (name, place[row.record_id], dumps(own, indent=None))
            for name, rows in found.items()
            for row in rows
            if row.record_id in place
            and (own := row.signals.get(OWN_PROBABILITIES)) is not None
            and not row.signals.get("rules")  # it defers by rules, whatever answers cost
        )
        chances = [
            self._checksums.sealed("baseline_chances", number, storable(name), at, storable(text))
            for number, (name, at, text) in enumerate(stated, start=1)
        ]

        def keep(connection: sqlite3.Connection) -> None:
            for table, kept in (("baselines", lines), ("baseline_chances", chances)):
                connection.execute(f"DELETE FROM {table}")  # noqa: S608 - names of this module
                connection.executemany(insert(table), kept)

        self._put(keep)

    def finish(self, facts: str, scores: str, version: str, note: Work | None = None) -> None:
        """Keep what the run came to, beside the rows it was computed from, and note a decision."""

        def finish(connection: sqlite3.Connection) -> None:
            store_scores(connection, self._checksums, version=version, facts=facts, scores=scores)
            if note is not None:
                note(connection)

        self._submit(finish).result()

    def flush(self) -> None:
        """Wait until everything is on disk; raise when it cannot be."""
        self._submit(lambda connection: None).result()

    def close(self) -> None:
        """Close the run to a single file and release it."""
        try:
            with suppress(RunFailed):
                self._submit(self._end_session)
            with self._wake:
                self._is_closing = True
                self._wake.notify()
            self._thread.join()
            merge_and_close(self._connection)
        finally:
            self._lock.release()

    # What follows runs in the writing thread, or before it was started.

    def _go_on_counting(self) -> None:
        for table in self._ids:
            (last,) = self._connection.execute(f"SELECT max(id) FROM {table}").fetchone()  # noqa: S608
            self._ids[table] = count(int(last or 0) + 1)

    def _write(self) -> None:
        """Commit what is pending, all of it at once, until the run is closed."""
        merged_at, is_behind = time.monotonic(), False
        while True:
            with self._wake:
                while not self._pending and not self._is_closing:
                    waited = self._wake.wait(CHECKPOINT_SECONDS if is_behind else None)
                    if not waited:
                        break
                pending, self._pending = self._pending, []
                is_last = self._is_closing
            if pending:
                self._commit(pending)
                is_behind = True
            if is_behind and time.monotonic() - merged_at >= CHECKPOINT_SECONDS:
                merged_at, is_behind = time.monotonic(), False
                self._checkpoint()
            if is_last and not pending:
                return

    def _commit(self, pending: Sequence[tuple[Work, Future[None] | None]]) -> None:
        try:
            if self._fault is not None:
                raise self._fault
            self._connection.execute("BEGIN IMMEDIATE")
            for work, _ in pending:
                work(self._connection)
            self._connection.execute("COMMIT")
            self._check_still_there()
        except BaseException as error:
            with suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")
            fault = self._failed(error)
            for _, done in pending:
                if done is not None:
                    done.set_exception(fault)
        else:
            for _, done in pending:
                if done is not None:
                    done.set_result(None)

    def _checkpoint(self) -> None:
        with suppress(sqlite3.Error):  # a reader may be in the way: the next one will do
            self._connection.execute("PRAGMA wal_checkpoint(PASSIVE)")

    def _check_still_there(self) -> None:
        if not self.path.exists():
            raise RunFailed(
                f"{self.path} was deleted while the run was writing to it; start the run again, "
                "the reply cache spares what was already paid"
            )

    def _failed(self, error: BaseException) -> RunFailed:
        if self._fault is None and isinstance(error, RunFailed):
            self._fault = error
        if self._fault is None:
            is_full = "full" in str(error)
            self._fault = RunFailed(
                f"{self.path} cannot be written ({error}); the rows already in it are whole: "
                f"{'free some space' if is_full else 'check the disk'}, then type: "
                f"krisis resume {self.path}"
            )
        return self._fault

    def _submit(self, work: Work) -> Future[None]:
        """Have something written; the future is done when it is on disk."""
        done: Future[None] = Future()
        done.set_running_or_notify_cancel()  # nobody who waits for it can call it off
        self._put(work, done)
        return done

    def _put(self, work: Work, done: Future[None] | None = None) -> None:
        if self._fault is not None:
            raise self._fault
        with self._wake:
            self._pending.append((work, done))
            self._wake.notify()

    def _end_session(self, connection: sqlite3.Connection) -> None:
        if self._session:
            seconds = round(time.monotonic() - self._started, 3)
            connection.execute(insert("sessions", replace=True), self._session_line(seconds))

    def _session_line(self, seconds: float | None) -> tuple[Value, ...]:
        cause = ("", "") if self._stop is None else (self._stop.name, storable(self._stop.sentence))
        facts = (self._session, self._started_at, os.getpid(), self._host, self._price, seconds)
        return self._checksums.sealed("sessions", *facts, *cause)

    def _usage_line(
        self, position: int | None, n_rows: int, usage: CallTotals
    ) -> tuple[Value, ...]:
        seconds = round(time.monotonic() - self._started, 3)
        counts = json.dumps(usage.to_dict())
        number = next(self._ids["usage"])
        facts = (number, self._session, seconds, position, n_rows)
        return self._checksums.sealed("usage", *facts, counts)

    def _row_line(
        self, asking: RowPlace, row: EvaluationResult, texts: dict[int, str]
    ) -> tuple[Value, ...]:
        case = self._cases[asking.case_position]
        held: str | None = None
        if row.metadata is not case.metadata:
            own = row.metadata
            if own != asked_metadata(case.metadata, asking.repeat):
                held = _json(own)
        return self._checksums.sealed(
            "rows",
            asking.position,
            asking.case_position,
            asking.repeat,
            row.outcome,
            _label(row.prediction),
            _label(row.ground_truth),
            int(row.abstained),
            _real(row.confidence),
            row.input_tokens,
            row.output_tokens,
            row.total_tokens,
            _real(row.latency_seconds),
            storable(row.model),
            storable(row.finish_reason),
            storable(row.failure_class),
            None if row.error is None else storable(row.error),
            row.prompt_mode,
            self._shared_text(row.prompt, texts),
            _new_text(row.raw_response, texts),
            _json(row.signals) if row.signals else None,
            held,
        )

    def _shared_text(self, text: str, texts: dict[int, str]) -> int | None:
        """Return the number of a text that many rows share, to be written where it is new."""
        if not text:
            return None
        known = self._shared.get(text)
        if known is None:
            known = self._shared[text] = _new_text(text, texts)
        return known


def _create_file(path: Path, description: RunDescription, cases: Sequence[StoredCase]) -> None:
    """Write a new run under a name of its own, then give it its name."""
    half = path.with_name(f".{path.name}.new")
    half.unlink(missing_ok=True)  # of a process that was killed: the lock says that it is over
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
    os.close(os.open(half, flags, 0o600))
    try:
        with closing(connected(half, journal="DELETE")) as connection:
            write_new_run(connection, description, cases)
        half.rename(path)
    except BaseException:
        half.unlink(missing_ok=True)
        raise
    sync_folder(path.parent)


def write_new_run(
    connection: sqlite3.Connection, description: RunDescription, cases: Sequence[StoredCase]
) -> None:
    """Write what a run begins with, in one transaction: tables, description and cases.

    The copy of the settings comes last: the cases are between it and them.
    """
    checksums, texts = Checksums(description.run_id), dict[int, str]()
    connection.execute("BEGIN IMMEDIATE")
    for statement in ddl():
        connection.execute(statement)
    entries = (checksums.sealed("run", *pair) for pair in description.entries())
    connection.executemany(insert("run"), entries)
    connection.executemany(insert("cases"), _case_lines(description, cases, texts))
    connection.executemany("INSERT INTO texts (id, text) VALUES (?, ?)", texts.items())
    copy_settings(connection)
    connection.execute("COMMIT")


def _case_lines(
    description: RunDescription, cases: Sequence[StoredCase], texts: dict[int, str]
) -> Iterator[tuple[Value, ...]]:
    checksums, keeps = Checksums(description.run_id), description.stores_features
    for position, case in enumerate(cases):
        shown = _json(case.features or {})
        held = blake2b(digest_size=8)
        for part in (shown, storable(case.context), ascii(case.label)):
            held.update(part.encode("utf-8") + b"\0")
        yield checksums.sealed(
            "cases",
            position,
            storable(case.record_id),
            storable(case.cluster_id),
            held.hexdigest(),
            _json(case.metadata),
            shown if keeps else None,
            _new_text(case.context, texts) if keeps else None,
        )


def _new_text(text: str, texts: dict[int, str]) -> int | None:
    if not text:
        return None
    text = storable(text)
    number = text_id(text)
    texts[number] = text
    return number


def _json(value: object) -> str:
    return json.dumps(plain(value), allow_nan=False)  # ASCII: halves of characters are escaped


def _label(value: object) -> Value:
    """Return an answer as the file holds it: a number or a text."""
    if value is None:
        return None
    if isinstance(value, str):
        return storable(value)
    number = plain(value)
    if isinstance(number, int) and not -(2**63) <= number < 2**63:
        return str(number)
    return int(number) if isinstance(number, bool) else number


def _real(value: float | None) -> float | None:
    """Return a number as a REAL column gives it back, by which its checksum is verified.

    SQLite keeps a whole number there as an integer, which has no negative zero.
    """
    return None if value is None else float(value) + 0.0


def _execute(connection: sqlite3.Connection, sql: str, line: tuple[Value, ...]) -> None:
    connection.execute(sql, line)


def _execute_all(connection: sqlite3.Connection, sql: str, lines: Lines) -> None:
    connection.executemany(sql, lines)


def settings_of(journal: str) -> list[str]:
    """Return the settings with which a commit is on disk when it returns, by kind of journal.

    EXTRA synchronises the folder when a rollback journal is deleted: one that came back after a
    power cut would be played over a newer file. Going over to the log needs such a journal once.
    """
    # Only macOS tells a disk that has the data in its own memory from one that wrote them.
    # What is deleted is overwritten: a search of the pages for lines must not find older states.
    return [
        f"page_size = {PAGE_SIZE}",
        "secure_delete = ON",
        "synchronous = EXTRA",
        f"journal_mode = {journal}",
        f"synchronous = {'FULL' if journal == 'WAL' else 'EXTRA'}",
        "fullfsync = ON",
        "checkpoint_fullfsync = ON",
    ]


def connected(path: Path, *, journal: str = "") -> sqlite3.Connection:
    """Open a run file for writing: durable on a disk of this machine, and safe on a network.

    A commit is on disk when it returns: in the write-ahead log, synchronised at every commit, or,
    where processes cannot share memory, with a rollback journal that is removed at the end.
    """
    connection = open_to_write(path, timeout=BUSY_SECONDS)
    for setting in settings_of(journal or ("WAL" if is_local(path.parent) else "DELETE")):
        connection.execute(f"PRAGMA {setting}")
    return connection


def merge_and_close(connection: sqlite3.Connection) -> None:
    """Leave one file: what is in the write-ahead log goes into it, and the log goes."""
    with closing(connection), suppress(sqlite3.Error):  # a reader in the way: a later command can
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.execute("PRAGMA synchronous = EXTRA")
        connection.execute("PRAGMA journal_mode = DELETE")


def recover(path: Path) -> None:
    """Close the file of a writer that died, so that it is one file again."""
    lock = WriterLock(path)
    try:
        merge_and_close(connected(path))
    finally:
        lock.release()


def rows_hash(connection: sqlite3.Connection) -> str:
    """Return the hash by which two states of a run are told apart: settings, cases and rows."""
    return hash_of(
        checksum
        for table, key in (("run", "key"), ("cases", "position"), ("rows", "position"))
        for (checksum,) in connection.execute(f"SELECT checksum FROM {table} ORDER BY {key}")  # noqa: S608
    )


def hash_of(checksums: Iterable[bytes]) -> str:
    """Return the hash of checksums in their order."""
    return blake2b(b"".join(checksums), digest_size=16).hexdigest()


def store_scores(
    connection: sqlite3.Connection, checksums: Checksums, *, version: str, facts: str, scores: str
) -> None:
    """Keep scores by the hash of the rows they were computed from."""
    line = checksums.sealed("scores", rows_hash(connection), version, facts, scores)
    connection.execute("DELETE FROM scores")
    connection.execute(insert("scores"), line)
    note_scores(line)


def write_briefly(path: Path, work: Work) -> bool:
    """Add to a closed run in one short transaction; say whether that could be done.

    A run that is being written, that somebody else made, or that cannot be written for any other
    reason, stays as it is.
    """
    try:
        refuse_links(path)
        if has_unmerged(path) or not is_own(path):
            return False
        lock = WriterLock(path)
    except (KrisisError, OSError):
        return False
    try:
        with closing(open_to_write(path, timeout=1.0)) as connection:
            connection.execute("BEGIN IMMEDIATE")
            work(connection)
            connection.execute("COMMIT")
    except (KrisisError, sqlite3.Error, OSError):
        return False
    finally:
        lock.release()
    return True


def sync_folder(folder: Path) -> None:
    """Have the name of a new file survive a power cut, where the system can promise that."""
    with suppress(OSError):  # Windows opens no folder
        place = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(place)
        finally:
            os.close(place)


def make_private_folder(folder: Path) -> None:
    """Make a folder, and those above it that are missing, for their owner alone."""
    missing = [one for one in (folder, *folder.parents) if not one.exists()]
    for one in reversed(missing):
        one.mkdir(mode=0o700, exist_ok=True)

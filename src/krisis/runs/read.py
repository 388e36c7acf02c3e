"""Reading a run file, which may be anybody's, damaged, or still being written.

Nothing in a file is run, nothing is written through a link, and the file of somebody else is never
opened for writing. What a page or a command needs::

    with open_run(path) as run:            # one connection; open one per request, keep none
        run.description                    # RunDescription: what was asked for, provenance
        run.n_rows                         # rows that exist
        run.progress()                     # Progress: outcomes, failures, usage, rate, cost
        run.select(sql, *values)           # lines of a SELECT: filters, sorting, paging are SQL
        run.columns("rows", ["confidence", "outcome"], where="outcome = ?", values=("answered",))
                                           # the same as NumPy arrays, by column
        run.row(position)                  # one EvaluationResult, or None
        run.rows(start, below)             # many, in order
        run.rows_at(positions)             # some, by position
        run.case(position)                 # CaseOf: ids, metadata, features and context of a row
        run.text(number)                   # a prompt, reply or context by its number in ``rows``
        run.damaged_positions()            # rows that cannot be believed, by their checksums
        run.baseline_names()               # baselines whose answers are kept
        run.not_taken(), run.ledger()      # rows an import left out; decisions taken on the run
        run.contents()                     # RunContents: everything that a resume or a score needs
        run.rows_hash                      # tells two states of a run apart
        run.left_out                       # Counter: lines of each table that cannot be believed
        run.damage                         # one sentence about it, "" where nothing is damaged

Tables and columns are those of `schema` (``docs/reference/run-file.md``); ``position`` numbers the
askings and ``case_position`` their cases. `select` and `columns` do not verify checksums; `row`,
`rows`, `case`, `text` and `contents` do, and leave out what does not fit. `open_run` looks through
the structure of the file once; a page that has seen this state of the file (`state_of`) may open
it with ``checked=True``.
"""

# SQL is put together from the names of the schema.
# ruff: noqa: S608
from __future__ import annotations

import gc
import json
import math
import os
import shutil
import sqlite3
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cached_property, partial
from itertools import chain, islice
from pathlib import Path
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import NDArray

from krisis.errors import InvalidFile, InvalidValue, KrisisError
from krisis.json_values import NO_VALUES, JsonMapping, JsonObject, JsonValue, open_private
from krisis.metrics.base import EvaluationResult
from krisis.outcomes import OUTCOMES
from krisis.results.artefacts import refused
from krisis.results.call_totals import CallTotals
from krisis.results.stops import STOP_CAUSES, StopCause
from krisis.runs.description import RunDescription
from krisis.runs.door import (
    BoundedConnection,
    check_schema,
    how_to_save,
    is_own,
    open_to_read,
    open_to_write,
    refuse_journal,
    size_of,
)
from krisis.runs.places import (
    has_unmerged,
    is_written,
    refuse_holes,
    refuse_links,
    side_files,
)
from krisis.runs.provider_batches import BatchRequest, ProviderBatch, ProviderBatchLog
from krisis.runs.schema import (
    APPLICATION_ID,
    COPY_SINCE_MINOR,
    MAJOR,
    SINCE_MINOR,
    SUFFIX,
    TABLES,
    Checksums,
    Value,
    columns,
    is_text,
    proven_run_id,
)
from krisis.runs.trust import has_scored
from krisis.runs.write import asked_metadata, hash_of, recover
from krisis.sqlite_edge import refuse_side_files

_HEADER = b"SQLite format 3\0"
_N_HEADER = 100
_N_LOG_HEADER, _N_FRAME_HEADER = 32, 24
_PAGE_SIZES = {2**power for power in range(9, 17)}
# How many of the last finished batches the rate of a run is taken from.
_N_OF_RATE = 50
# How often a file that changes meanwhile is copied again.
_N_COPIES = 5
# How many positions one statement names.
_N_AT_ONCE = 500
# Askings without a row may be more than the bytes of a file: many repeats, or rows that were lost.
_MORE_CASES = 10_000_000
# Keys that are looked up one by one in a damaged table: as many as the file can have lines, and
# some more, because the rows of a run that is not finished need not be those of its first askings.
_LOOKED_UP, _LEAST_BYTES_OF_LINE = 20_000, 50
_LOST_SETTINGS = "what it says of itself is damaged"
_PRICES = ("input_per_million", "output_per_million")
_TEXT, _WHOLE, _NUMBER = (str,), (int,), (float, int)
_OR_NONE = (type(None),)
_ROW_TYPES: dict[str, tuple[type, ...]] = {
    "position": _WHOLE,
    "case_position": _WHOLE,
    "repeat": _WHOLE,
    "outcome": _TEXT,
    "prediction": (int, str, float, *_OR_NONE),
    "truth": (int, str),
    "abstained": _WHOLE,
    "confidence": (*_NUMBER, *_OR_NONE),
    "input_tokens": (int, *_OR_NONE),
    "output_tokens": (int, *_OR_NONE),
    "total_tokens": (int, *_OR_NONE),
    "latency_seconds": (*_NUMBER, *_OR_NONE),
    "model": _TEXT,
    "finish_reason": _TEXT,
    "failure_class": _TEXT,
    "error": (str, *_OR_NONE),
    "prompt_mode": _TEXT,
    "prompt": (int, *_OR_NONE),
    "reply": (int, *_OR_NONE),
    "signals": (str, *_OR_NONE),
    "metadata": (str, *_OR_NONE),
}
ALLOWED_TYPES = tuple(frozenset(kinds) for kinds in _ROW_TYPES.values())
N_PER_BLOCK = 4096
# How the answer of a certificate begins whose rows are no longer those of the run.
STALE = "stale, a patient was removed later: "
Lines = Sequence[tuple[Value, ...]]


@dataclass(frozen=True, slots=True)
class CaseOf:
    """The record behind a row; features are None where the run does not keep them."""

    record_id: str
    cluster_id: str
    content_hash: str
    metadata: JsonMapping
    features: JsonObject | None
    context: str


@dataclass(slots=True)
class RunContents:
    """What a run holds: the row of every position, and the totals of all sessions.

    ``stop`` is why the last session ended early; it is None while that session goes on, after it
    reached its last record, and after it was killed. ``damaged`` are positions of rows that are
    there and cannot be believed, ``n_cases`` how many cases can.
    """

    rows: dict[int, EvaluationResult] = field(default_factory=dict)
    n_cases: int = 0
    totals: CallTotals = field(default_factory=CallTotals)
    elapsed_seconds: float = 0.0
    stop: StopCause | None = None
    provider_batches: ProviderBatchLog = field(default_factory=ProviderBatchLog)
    damaged: list[int] = field(default_factory=list)

    def in_order(self, start: int = 0, below: float = math.inf) -> list[EvaluationResult]:
        """Return the rows of these positions in the order of the records."""
        return [self.rows[position] for position in sorted(self.rows) if start <= position < below]


@dataclass(frozen=True, slots=True)
class Progress:
    """What a run has come to; ``per_minute`` is how many records end in a minute.

    ``cost`` is in dollars, and the most that it can be where a call did not say what it took
    (``cost_is_bound``); None where the price is not known.
    """

    outcomes: Mapping[str, int]
    failures: Mapping[str, int]
    totals: CallTotals
    per_minute: float | None
    cost: float | None

    @property
    def cost_is_bound(self) -> bool:
        """Say whether the cost is the most that it can be."""
        return self.cost is not None and self.totals.n_calls_without_usage > 0


@dataclass(frozen=True, slots=True)
class StoredScores:
    """What a session computed from the rows of this hash, with this version of krisis."""

    rows_hash: str
    version: str
    facts: JsonObject
    scores: JsonObject
    is_own: bool


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """A decision that was taken on the rows of this hash."""

    at: str
    kind: str
    rows_hash: str
    question: JsonObject
    answer: str

    @property
    def is_stale(self) -> bool:
        """Tell whether a patient was removed from the rows of a certificate."""
        return self.answer.startswith(STALE)


class RunFile:
    """A run file that is open for reading; see the module for what it offers."""

    def __init__(self, path: Path, connection: BoundedConnection, copy: Path | None) -> None:
        self.path = path
        self._left_out: defaultdict[str, set[Value]] = defaultdict(set)
        self.is_broken = False
        self._connection, self._copy = connection, copy
        self._known_types: set[tuple[type, ...]] = set()
        self._cases: dict[int, tuple[str, str, JsonMapping] | None] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Release the file, and remove the private copy of somebody else's."""
        self._connection.close()
        if self._copy is not None:
            shutil.rmtree(self._copy.parent, ignore_errors=True)

    @cached_property
    def description(self) -> RunDescription:
        """What was asked for and where it comes from."""
        try:
            content = {key: json.loads(str(line[1])) for key, line in self._settings.items()}
        except (ValueError, RecursionError):
            raise self._cannot_be_read(_LOST_SETTINGS) from None
        described = RunDescription.of(content, str(self.path))
        if described.n_claimed > self._connection.n_bytes + _MORE_CASES:
            raise self._cannot_be_read(
                f"it claims {described.n_claimed:,} cases, more than a file of its size can hold"
            )
        return described

    @cached_property
    def _minor(self) -> int:
        return int(self._fetched("PRAGMA user_version")[0][0]) % 1000  # type: ignore[arg-type]

    @cached_property
    def _settings(self) -> dict[str, tuple[Value, ...]]:
        """The lines of the settings by key; one that is damaged is read from the other copy."""
        tables = ("run", "run_copy") if self._minor >= COPY_SINCE_MINOR else ("run",)
        copies = [list(self._reachable(table)) for table in tables]
        run_ids = map(proven_run_id, chain.from_iterable(copies))
        run_id = next((one for one in run_ids if one is not None), None)
        if run_id is None:
            raise self._cannot_be_read(_LOST_SETTINGS)
        fits = partial(Checksums(run_id).fits, "run")
        believed = [{str(line[0]): line for line in lines if fits(line)} for lines in copies]
        settings = dict(chain.from_iterable(copy.items() for copy in reversed(believed)))
        if len(settings) < max(map(len, copies)):
            raise self._cannot_be_read(_LOST_SETTINGS)
        self._left_out["run"] |= {
            key for key, line in settings.items() if any(copy.get(key) != line for copy in believed)
        }
        return settings

    def _reachable(self, table: str) -> Iterator[tuple[Value, ...]]:
        """Yield the lines of a copy of the settings up to where it is damaged."""
        try:
            yield from self._connection.execute(f"SELECT {columns('run')} FROM {table} NOT INDEXED")
        except sqlite3.Error as error:
            if _is_busy(error) or _is_bounded(error):
                raise self._unreadable(error) from None
            self.is_broken = True

    @property
    def n_rows(self) -> int:
        """Return how many rows there are, without a look at their checksums.

        Of ``count(*)`` SQLite makes one step, however many pages a stranger's file refers to twice.
        """
        return int(self._fetched("SELECT count(position) FROM rows")[0][0])  # type: ignore[arg-type]

    @property
    def is_live(self) -> bool:
        """Say whether a process is writing the run."""
        return is_written(self.path)

    @cached_property
    def rows_hash(self) -> str:
        """The hash of settings, cases and rows: by it, two states of a run are told apart."""
        settings = [(self._settings[key][-1],) for key in sorted(self._settings)]
        lines = (
            self._each(f"SELECT checksum FROM {table} ORDER BY position")
            for table in ("cases", "rows")
        )
        return hash_of(
            line[0] if isinstance(line[0], bytes) else b"" for line in chain(settings, *lines)
        )

    @property
    def left_out(self) -> Counter[str]:
        """Return how many lines of each table could not be believed, of those read so far."""
        return Counter({table: len(keys) for table, keys in self._left_out.items()})

    @property
    def damage(self) -> str:
        """Say in one sentence what of the file could not be believed so far; "" if nothing."""
        names = {"rows": "row", "cases": "case", "texts": "text"}
        found = [
            f"{n:,} damaged {names.get(table, f'line of {table}')}{'' if n == 1 else 's'} left out"
            for table, n in self.left_out.items()
            if n and table != "run"
        ]
        if n := self.left_out["run"]:
            found.append(f"{n:,} damaged setting{'' if n == 1 else 's'} read from the other copy")
        if self.is_broken and not self.left_out["rows"]:
            found.append("the structure of the file is damaged")
        if not found:
            return ""
        return f"DAMAGED: {', '.join(found)}; type: krisis doctor {self.path}"

    def select(self, sql: str, *values: Value) -> list[tuple[Value, ...]]:
        """Return the lines of a SELECT; checksums are not verified."""
        return self._fetched(sql, values)

    def columns(
        self, table: str, names: Sequence[str], *, where: str = "", values: Sequence[Value] = ()
    ) -> dict[str, NDArray[np.generic]]:
        """Return columns as arrays in the order of the table; numbers that are missing are NaN."""
        key, condition = next(iter(TABLES[table])), f" WHERE {where}" if where else ""
        sql = f"SELECT {', '.join(names)} FROM {table}{condition} ORDER BY {key}"
        lines = self._fetched(sql, values)
        cells = list(zip(*lines, strict=True)) if lines else [()] * len(names)
        numbers = ("INTEGER", "INTEGER PRIMARY KEY", "REAL")
        return {
            name: np.array(
                column, dtype=np.float64 if TABLES[table].get(name) in numbers else object
            )
            for name, column in zip(names, cells, strict=True)
        }

    def row(self, position: int) -> EvaluationResult | None:
        """Return the row of a position, None where there is none that can be believed."""
        line = self._line("rows", position)
        return None if line is None else self._row(line, self._texts_of(line))

    def rows(self, start: int = 0, below: float = math.inf) -> list[EvaluationResult]:
        """Return the rows of these positions in order; those that are damaged are counted."""
        if start <= 0 and below == math.inf:
            return [row for _, row in self._rows()]
        end = int(min(below, 2**62))
        return [row for _, row in self._rows(f"position >= {int(start)} AND position < {end}")]

    def rows_at(self, positions: Sequence[int]) -> dict[int, EvaluationResult]:
        """Return the rows of some positions, by position; those that are damaged are counted."""
        if 2 * len(positions) > self.n_rows:
            return dict(self._rows())
        found: dict[int, EvaluationResult] = {}
        for start in range(0, len(positions), _N_AT_ONCE):
            listed = ", ".join(map(str, map(int, positions[start : start + _N_AT_ONCE])))
            found |= self._rows(f"position IN ({listed})")
        return found

    def is_row(self, line: tuple[Value, ...]) -> bool:
        """Say whether a line of ``rows`` makes a row; one that does not is counted as damaged."""
        return self._row(line, self._texts_of(line)) is not None

    def damaged_positions(self) -> list[int]:
        """Look through all rows and cases; return the rows that cannot be believed."""
        known = {line[0] for line in self._lines("cases")}
        self._left_out["rows"] |= {line[0] for line in self._lines("rows") if line[1] not in known}
        return sorted(at for at in self._left_out["rows"] if isinstance(at, int))

    def case(self, position: int) -> CaseOf | None:
        """Return the record that a position asks about, None where that cannot be believed."""
        line = self._line("rows", position)
        if line is None:
            return None
        found = self._line("cases", line[1])
        if found is None:
            return None
        with suppress(ValueError, TypeError, RecursionError):
            _, record_id, cluster_id, content_hash, metadata, features, context, _ = found
            return CaseOf(
                str(record_id),
                str(cluster_id),
                str(content_hash),
                _object(metadata),
                None if features is None else _object(features),
                self.text(context) if isinstance(context, int) else "",
            )
        self._left_out["cases"].add(line[1])
        return None

    def features(self) -> list[JsonObject]:
        """Return what was shown of every asking of a record, context included."""
        shown: dict[Value, JsonObject] = {}
        for line in self._lines("cases"):
            with suppress(ValueError, TypeError, RecursionError):
                if line[5] is not None:
                    context = self.text(line[6]) if isinstance(line[6], int) else ""
                    shown[line[0]] = _object(line[5]) | ({"context": context} if context else {})
        asked = self._fetched("SELECT case_position FROM rows ORDER BY position")
        return [shown[case] for (case,) in asked if case in shown]

    def text(self, number: int | None) -> str:
        """Return a text by its number; "" where it is missing or damaged, which is counted."""
        if number is None:
            return ""
        try:
            found = self._fetched("SELECT text FROM texts WHERE id = ?", (number,))
        except InvalidFile:
            found = []
        for (text,) in found:
            if is_text(number, text):
                return str(text)
        self._left_out["texts"].add(number)
        return ""

    def not_taken(self) -> list[tuple[str, str]]:
        """Return the rows of an imported file that could not be taken: place and reason."""
        return [(str(line[1]), str(line[2])) for line in self._lines("not_taken")]

    def baseline_names(self) -> list[str]:
        """Return the baselines whose answers are kept, in the order of the suite."""
        found = self._fetched("SELECT name FROM baselines GROUP BY name ORDER BY min(id)")
        return [str(name) for (name,) in found]

    def baseline_answers(self, cases: Sequence[int]) -> dict[int, dict[str, Value]]:
        """Return the answers of the baselines to some cases; who gave none is absent."""
        chosen = json.dumps([int(case) for case in cases])
        condition = f" WHERE case_position IN (SELECT value FROM json_each('{chosen}'))"
        found: dict[int, dict[str, Value]] = {}
        for _, who, case, prediction, abstained, _, _ in self._lines("baselines", condition):
            if not abstained and prediction is not None and isinstance(case, int):
                found.setdefault(case, {})[str(who)] = prediction
        return found

    def ledger(self) -> list[LedgerEntry]:
        """Return the decisions that were taken on this run, oldest first."""
        found = []
        for line in self._lines("ledger"):
            with suppress(ValueError, TypeError, RecursionError):
                _, at, kind, hashed, question, answer, _ = line
                known = str(at), str(kind), str(hashed)
                found.append(LedgerEntry(*known, _object(question), str(answer)))
        return found

    def scores(self) -> StoredScores | None:
        """Return the scores that are kept in the file, of whatever rows and version they are."""
        for line in self._lines("scores"):
            with suppress(ValueError, TypeError, RecursionError):
                hashed, version, facts, scores, _ = line
                content = _object(facts), _object(scores)
                return StoredScores(str(hashed), str(version), *content, is_own=has_scored(line))
        return None

    def believed(self, table: str) -> Iterator[tuple[Value, ...]]:
        """Yield the lines of a table that can be believed, as they are in the file."""
        return self._lines(table)

    def copy_to(self, target: Path) -> None:
        """Write the run as it is at this moment into one file, over an older one."""
        half = target.with_name(f".{target.name}.half")
        half.unlink(missing_ok=True)
        try:
            os.close(open_private(str(half), os.O_WRONLY | os.O_CREAT | os.O_EXCL))
            with closing(open_to_write(half, timeout=0.0)) as copy:
                self._connection.backup(copy)
                copy.execute("PRAGMA journal_mode = DELETE")
            half.replace(target)
        except (OSError, sqlite3.Error) as error:
            half.unlink(missing_ok=True)
            raise InvalidFile(f"{target} cannot be written: {error}") from None

    def contents(self, *, with_rows: bool = True) -> RunContents:
        """Return everything that a resume needs: rows, totals, time, provider batches."""
        found = RunContents()
        with without_collector():
            if with_rows:
                found.rows = dict(self._rows())
                found.n_cases = sum(case is not None for case in self._cases.values())
                found.damaged = sorted(at for at in self._left_out["rows"] if isinstance(at, int))
            self._read_sessions(found)
            found.provider_batches = ProviderBatchLog.of(self._provider_batches())
            only_counted = not with_rows and found.provider_batches.batches
            self._charge_open_calls(found, self._positions() if only_counted else found.rows)
        return found

    def progress(self) -> Progress:
        """Return what the run has come to, by what is committed at this moment."""
        seen: JsonValue = self._fetched("SELECT outcome, count(*) FROM rows GROUP BY outcome")
        lost = self._fetched(
            "SELECT failure_class, count(*) FROM rows "
            "WHERE outcome NOT IN ('answered', 'abstained') GROUP BY failure_class"
        )
        found = RunContents()
        self._read_sessions(found)
        found.totals.latencies_seconds.clear()
        return Progress(
            dict.fromkeys(OUTCOMES, 0) | {name: n for name, n in seen if name in OUTCOMES},
            {str(name or "unclassified"): int(n) for name, n in lost},  # type: ignore[arg-type]
            found.totals,
            self._per_minute(),
            self._cost(found.totals),
        )

    # Lines that can be believed.

    @cached_property
    def _checksums(self) -> Checksums:
        return Checksums(self.description.run_id)

    def _fetched(self, sql: str, values: Sequence[Value] = ()) -> list[tuple[Value, ...]]:
        try:
            return self._connection.execute(sql, values).fetchall()
        except sqlite3.Error as error:
            raise self._unreadable(error) from None

    def _each(self, sql: str) -> Iterator[tuple[Value, ...]]:
        """Yield lines one by one, where all of them would take much memory."""
        try:
            yield from self._connection.execute(sql)
        except sqlite3.Error as error:
            raise self._unreadable(error) from None

    def _unreadable(self, error: sqlite3.Error | UnicodeDecodeError) -> InvalidFile:
        if _is_busy(error):
            return InvalidFile(f"{self.path} is being written at this moment; try again")
        if _is_bounded(error):
            return self._cannot_be_read("it asks for more work than a file of its size can need")
        return self._cannot_be_read("it is damaged")

    def _cannot_be_read(self, why: str) -> InvalidFile:
        return InvalidFile(
            f"{self.path} cannot be read: {why}; to save what can be read into a new file, type: "
            f"krisis doctor {self.path} --repair"
        )

    def _line(self, table: str, key: Value) -> tuple[Value, ...] | None:
        """Return one line that can be believed; one that cannot is counted."""
        first = next(iter(TABLES[table]))
        sql = f"SELECT {columns(table)} FROM {table} WHERE {first} = ?"
        try:
            line: tuple[Value, ...] | None = self._connection.execute(sql, (key,)).fetchone()
        except sqlite3.Error:
            self._left_out[table].add(key)
            return None
        if line is not None and not self._checksums.fits(table, line):
            self._left_out[table].add(key)
            return None
        return line

    def _lines(self, table: str, condition: str = "") -> Iterator[tuple[Value, ...]]:
        """Yield the lines of a table that can be believed, in order, and count the others.

        Where SQLite comes upon a damaged page, the lines after it are looked up one by one. What a
        damaged key says is no place to go on from.
        """
        if self._minor < SINCE_MINOR.get(table, 0):
            return
        fits, key, last = self._checksums.fits, next(iter(TABLES[table])), -(2**63) - 1
        believed = -1
        sql = f"SELECT {columns(table)} FROM {table}{condition} ORDER BY {key}"
        try:
            for line in self._connection.execute(sql):
                if isinstance(line[0], int):
                    if line[0] <= last:
                        raise sqlite3.DatabaseError("pages that are referred to twice")
                    last = line[0]
                if fits(table, line):
                    believed = last
                    yield line
                else:
                    self._left_out[table].add(line[0])
        except sqlite3.Error as error:
            if _is_busy(error) or _is_bounded(error):
                raise self._unreadable(error) from None
            self.is_broken = True
            start = max(0, believed + 1)
            most = _LOOKED_UP + self._connection.n_bytes // _LEAST_BYTES_OF_LINE
            for position in range(start, min(self._n_keys(table), start + most)):
                found = self._line(table, position)
                if found is not None:
                    yield found

    def _n_keys(self, table: str) -> int:
        """Return a number above every key of a table, as far as that is known."""
        if table == "rows":
            return self.description.n_cases
        if table == "cases":
            return self.description.identity.n_records or self.description.n_cases
        with suppress(sqlite3.Error, TypeError):
            key = next(iter(TABLES[table]))
            (most,) = self._connection.execute(f"SELECT max({key}) FROM {table}").fetchone()
            return int(most) + 1 if isinstance(most, int) else 0
        return 0

    # Rows.

    def _rows(self, only: str = "") -> Iterator[tuple[int, EvaluationResult]]:
        condition = f" WHERE {only}" if only else ""
        if not only:
            self._read_all_cases()
        texts = self._all_texts(condition)
        for line in self._lines("rows", condition):
            row = self._row(line, texts)
            if row is not None:
                yield line[0], row  # type: ignore[misc]

    def _read_all_cases(self) -> None:
        for block in blocks(self._lines("cases")):
            self._read_cases(block)

    def _read_cases(self, block: Lines) -> None:
        for line, metadata in zip(block, objects([line[4] for line in block]), strict=True):
            known = None if metadata is None else (str(line[1]), str(line[2]), metadata)
            self._cases[line[0]] = known  # type: ignore[index]

    def _all_texts(self, condition: str) -> dict[int, str]:
        """Return the texts that rows name; what does not fit its number is left out."""
        if condition:
            wanted = f"SELECT prompt FROM rows{condition} UNION SELECT reply FROM rows{condition}"
            sql = f"SELECT id, text FROM texts WHERE id IN ({wanted})"
        else:
            sql = "SELECT id, text FROM texts"
        found: dict[int, str] = {}
        n_letters = 0
        with suppress(sqlite3.Error):  # what is missing is counted where a row names it
            for number, text in self._connection.execute(sql):
                n_letters += len(text) if isinstance(text, (str, bytes)) else 0
                if n_letters > self._connection.n_bytes:  # texts that share their pages
                    break
                if is_text(number, text):
                    found[number] = text
        return found

    def _texts_of(self, line: tuple[Value, ...]) -> dict[int, str]:
        named = [number for number in (line[17], line[18]) if isinstance(number, int)]
        return {number: text for number in named if (text := self.text(number))}

    def _row(self, line: tuple[Value, ...], texts: Mapping[int, str]) -> EvaluationResult | None:
        """Return a line as a row; one that holds what no row can hold is counted as damaged."""
        try:
            return self._built_row(line, texts)
        except (InvalidValue, ValueError, TypeError, RecursionError, OverflowError):
            self._left_out["rows"].add(line[0])
            return None

    def _built_row(
        self, line: tuple[Value, ...], texts: Mapping[int, str]
    ) -> EvaluationResult | None:
        kinds = tuple(map(type, line))
        if kinds not in self._known_types:
            if not all(map(frozenset.__contains__, ALLOWED_TYPES, kinds[:-1])):
                raise ValueError("a column of the wrong type")
            self._known_types.add(kinds)
        place: JsonValue = line
        n_records, n_cases = self.sizes
        at, repeat = place[1], place[2]
        if place[0] >= n_cases or (n_records and place[0] != repeat * n_records + at):
            raise ValueError("a row of another place")
        if at not in self._cases and (found := self._line("cases", at)) is not None:
            self._read_cases([found])
        case = self._cases.get(at)
        if case is None:
            raise ValueError("a row without its case")
        record_id, cluster_id, metadata = case
        metadata = asked_metadata(metadata, repeat)
        row = EvaluationResult(
            prediction=place[4],
            ground_truth=place[5],
            abstained=bool(place[6]),
            confidence=place[7],
            raw_response=self._known_text(place[18], texts),
            prompt=self._known_text(place[17], texts),
            prompt_mode=place[16],
            metadata=metadata if place[20] is None else _object(place[20]),
            input_tokens=place[8],
            output_tokens=place[9],
            total_tokens=place[10],
            record_id=record_id,
            cluster_id=cluster_id,
            signals=NO_VALUES if place[19] is None else _object(place[19]),
            error=place[15],
            failure_class=place[14],
            model=place[12],
            finish_reason=place[13],
            latency_seconds=place[11],
        )
        if row.outcome != place[3]:
            raise ValueError("an outcome that its other columns contradict")
        return row

    @cached_property
    def sizes(self) -> tuple[int, int]:
        """How many records are asked in turn, 0 where that is not known, and all askings."""
        described = self.description
        in_turn = described.identity.n_records if described.imported is None else 0
        return in_turn, described.n_cases

    def _known_text(self, number: int | None, texts: Mapping[int, str]) -> str:
        if number is None:
            return ""
        found = texts.get(number)
        if found is None:
            self._left_out["texts"].add(number)
            return ""
        return found

    # Totals.

    def _positions(self) -> dict[int, object]:
        return {int(line[0]): None for line in self._fetched("SELECT position FROM rows")}  # type: ignore[arg-type]

    def _read_sessions(self, found: RunContents) -> None:
        seconds: dict[Value, float] = {}
        for block in blocks(self._lines("usage")):
            for line, counts in zip(block, objects([line[5] for line in block]), strict=True):
                with suppress(ValueError, TypeError):
                    found.totals.add_counts(counts)  # type: ignore[arg-type]
                    seconds[line[1]] = max(seconds.get(line[1], 0.0), float(line[2] or 0))
        for line in self._lines("sessions"):
            with suppress(ValueError, TypeError):
                number, _, _, _, _, ended_after, cause, sentence, _ = line
                seconds[number] = max(seconds.get(number, 0.0), float(ended_after or 0))
                kind = STOP_CAUSES.get(str(cause), StopCause)
                found.stop = kind(str(sentence)) if cause else None
        found.elapsed_seconds = sum(seconds.values())

    def _provider_batches(self) -> Iterator[ProviderBatch]:
        for line in self._lines("provider_batches"):
            with suppress(ValueError, TypeError, RecursionError):
                held: JsonValue = line
                yield ProviderBatch(
                    marker=str(held[0]),
                    number=int(held[1]),
                    batch_id=str(held[2]),
                    dialect=held[3],
                    intended_at=float(held[4]),
                    requests=tuple(map(BatchRequest.read, json.loads(held[5]))),
                    end=str(held[6]),
                    again=tuple(map(BatchRequest.read, json.loads(held[7]))),
                )

    def _charge_open_calls(self, found: RunContents, rows: Mapping[int, object]) -> None:
        """Charge calls that were sent and of which no line tells the end with their bound.

        A process was killed while they were in progress, or the line is damaged. What provider
        batches still hold is not over: whoever continues the run sets it aside.
        """
        n_sent = most_input = most_output = 0
        for line in self._lines("calls"):
            n_sent += 1
            most_input += int(line[3] or 0)
            most_output += int(line[4] or 0)
        batches, held = found.provider_batches.sent, found.provider_batches.pending(rows)
        known = found.totals
        n_input = max(
            0,
            most_input + batches.most_input - held.most_input - known.reserved_input_tokens,
        )
        n_output = max(
            0,
            most_output + batches.most_output - held.most_output - known.reserved_output_tokens,
        )
        if n_input or n_output:
            n_calls = max(1, n_sent + batches.n_calls - held.n_calls - known.n_calls)
            known.add(
                CallTotals(
                    n_calls=n_calls,
                    n_calls_without_usage=n_calls,
                    assumed_input_tokens=n_input,
                    reserved_input_tokens=n_input,
                    assumed_output_tokens=n_output,
                    reserved_output_tokens=n_output,
                )
            )

    def _per_minute(self) -> float | None:
        """Return the rate of the last batches of this session, waiting included."""
        session = self._fetched("SELECT id, started_at FROM sessions ORDER BY id DESC LIMIT 1")
        ends = session and self._fetched(
            "SELECT seconds, n_rows FROM usage WHERE session = ? AND n_rows > 0 "
            "ORDER BY id DESC LIMIT ?",
            (session[0][0], _N_OF_RATE),
        )
        with suppress(TypeError, ValueError):
            if len(ends) > 1:
                lines: JsonValue = ends
                until = max(time.time() - float(session[0][1] or 0), lines[0][0])
                passed = until - lines[-1][0]
                n_rows = sum(line[1] for line in lines[:-1])
                return n_rows / passed * 60 if passed > 0 else None
        return None

    def _cost(self, totals: CallTotals) -> float | None:
        held = self._fetched("SELECT price FROM sessions ORDER BY id DESC LIMIT 1")
        with suppress(TypeError, ValueError, KeyError, RecursionError):
            price = _object(held[0][0]) if held else {}
            if price:
                saved = 1 - float(price.get("batch_share", 1))
                tokens = zip(totals.most_tokens, totals.batch_tokens, strict=True)
                paid = [most - saved * batch for most, batch in tokens]
                rates = [float(price[name]) / 1e6 for name in _PRICES]
                return sum(n * rate for n, rate in zip(paid, rates, strict=True))
        return None


@contextmanager
def without_collector() -> Iterator[None]:
    """Spare the collector of cycles, of which there are none, a walk over every line that is read.

    It took a sixth of the time.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def blocks(lines: Iterator[tuple[Value, ...]]) -> Iterator[Lines]:
    """Yield lines together: enough to pay for it, few enough for any memory."""
    while block := list(islice(lines, N_PER_BLOCK)):
        yield block


def objects(texts: Sequence[Value]) -> list[JsonObject | None]:
    """Read many JSON objects at once; None for what is none."""
    try:
        found: JsonValue = json.loads(f"[{','.join(texts)}]")  # type: ignore[arg-type]
        if len(found) == len(texts) and set(map(type, found)) <= {dict}:
            return found  # type: ignore[no-any-return]
    except (ValueError, TypeError, RecursionError):
        pass
    read: list[JsonObject | None] = [None] * len(texts)
    for place, text in enumerate(texts):
        with suppress(ValueError, TypeError, RecursionError):
            read[place] = _object(text)
    return read


def _is_busy(error: Exception) -> bool:
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    return code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED)


def _is_bounded(error: Exception) -> bool:
    return getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_INTERRUPT


def _object(text: Value) -> JsonObject:
    value: JsonValue = json.loads(text)  # type: ignore[arg-type]
    if not isinstance(value, dict):
        raise ValueError("no object")
    return value


def state_of(path: Path) -> tuple[int, ...]:
    """Return numbers that change whenever a run file or what is beside it changes."""
    found = []
    for suffix in ("", "-wal", "-journal"):
        with suppress(OSError):
            seen = path.with_name(path.name + suffix).lstat()
            found += [seen.st_ino, seen.st_size, seen.st_mtime_ns]
    return tuple(found)


def open_run(path: str | Path, *, checked: bool = False) -> RunFile:
    """Open a run file for reading, or say in one sentence why it cannot be.

    The file of a writer that died is closed to a single file first, where it is one's own. With
    ``checked`` the structure is not looked through again.
    """
    path = Path(path)
    _refuse_other(path)
    _refuse_header(path)
    own = is_own(path)
    place, copy, is_untouched = _readable_place(path, own)
    try:
        connection = open_to_read(place, is_untouched=is_untouched)
    except sqlite3.Error as error:
        if copy is not None:
            shutil.rmtree(copy.parent, ignore_errors=True)
        raise InvalidFile(f"{path} cannot be read: {error}") from None
    run = RunFile(path, connection, copy)
    try:
        _check(run, connection, place, checked=checked)
    except BaseException:
        run.close()
        raise
    return run


def _refuse_other(path: Path) -> None:
    if not os.path.lexists(path) or (path.suffix != SUFFIX and not path.is_symlink()):
        told = refused(path, "a run")
        if told is not None:
            raise told
    if path.is_dir() and not path.is_symlink():
        raise InvalidFile(f"{path} is a folder; name a run file in it, such as {path}/NAME{SUFFIX}")
    refuse_links(path)
    refuse_holes(path)


def _refuse_header(path: Path) -> None:
    """Refuse what is no run file of this format, or one whose end was cut off."""
    try:
        with path.open("rb") as file:
            header = file.read(_N_HEADER)
        size = path.stat().st_size
    except OSError as error:
        raise InvalidFile(f"{path} cannot be read: {error.strerror}") from None
    repair = f"to save what can be read into a new file, type: krisis doctor {path} --repair"
    if size == 0:
        raise InvalidFile(f"{path} is empty; it was cut, so start the run again")
    if header[:16] != _HEADER or len(header) < _N_HEADER:
        raise InvalidFile(f"{path} is not a krisis run, or its first bytes are damaged; {repair}")
    if int.from_bytes(header[68:72], "big") != APPLICATION_ID and not has_unmerged(path):
        raise InvalidFile(f"{path} is a database, but not a krisis run; {repair}")
    page = int.from_bytes(header[16:18], "big")
    n_pages = int.from_bytes(header[28:32], "big")
    if size < n_pages * (65536 if page == 1 else page) and not has_unmerged(path):
        raise InvalidFile(f"{path} was cut off: its end is missing; {repair}")


def _readable_place(path: Path, own: bool) -> tuple[Path, Path | None, bool]:
    """Return the file that SQLite opens, which may be a private copy, and whether it is untouched.

    What is in a log beside the file belongs to it. One's own file is put in order; that of
    somebody else is not touched.
    """
    if not own:
        refuse_journal(path)
        if not side_files(path):
            return path, None, True
        copy = _private_copy(path, ("", "-wal"))
        return copy, copy, False
    refuse_side_files(path, instead=how_to_save(path))
    if _may_write(path):
        # Asked in any case: it removes the lock that a process left when it was killed.
        if not is_written(path) and (has_unmerged(path) or _is_in_log_mode(path)):
            with suppress(KrisisError, sqlite3.Error, OSError):
                recover(path)
        return path, None, False
    if not has_unmerged(path):
        return path, None, True
    copy = _private_copy(path, ("", "-wal", "-journal"))
    with suppress(KrisisError, sqlite3.Error, OSError):
        recover(copy)
    return copy, copy, False


def _private_copy(path: Path, suffixes: Sequence[str]) -> Path:
    """Copy a run and what is in these files beside it, all of one moment; return the copy.

    Its folder can be read by this user alone, and whoever opens the copy removes it.
    """
    folder = Path(tempfile.mkdtemp(prefix="krisis-"))  # its mode is 0700
    try:
        for _ in range(_N_COPIES):
            before = state_of(path)
            for suffix in suffixes:
                (folder / f"run{suffix}").unlink(missing_ok=True)
                with suppress(FileNotFoundError):
                    copy = _copy_log if suffix == "-wal" else shutil.copyfile
                    copy(f"{path}{suffix}", folder / f"run{suffix}")
            if before == state_of(path):
                return folder / "run"
    except OSError as error:
        shutil.rmtree(folder, ignore_errors=True)
        raise InvalidFile(f"{path} cannot be read: {error.strerror}") from None
    shutil.rmtree(folder, ignore_errors=True)
    raise InvalidFile(f"{path} is being written at this moment; try again")


def _copy_log(source: str, target: Path) -> None:
    """Copy a log as far as SQLite would look at it: to the first frame that is not of this log.

    What follows may be gigabytes of nothing, which take no room where they come from.
    https://www.sqlite.org/fileformat2.html#the_write_ahead_log
    """
    with open(source, "rb") as log, target.open("wb") as copy:
        header = log.read(_N_LOG_HEADER)
        copy.write(header)
        size = int.from_bytes(header[8:12], "big")
        if size not in _PAGE_SIZES:
            return
        while len(frame := log.read(_N_FRAME_HEADER + size)) == _N_FRAME_HEADER + size:
            if frame[8:16] != header[16:24] or frame[:4] == bytes(4):  # salts; number of the page
                return
            copy.write(frame)


def _is_in_log_mode(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(20)[18:20] == b"\2\2"


def _may_write(path: Path) -> bool:
    return os.access(path, os.W_OK) and os.access(path.parent, os.W_OK)


def _check(run: RunFile, connection: BoundedConnection, place: Path, *, checked: bool) -> None:
    """Refuse another format and another major version; look through the structure."""
    path = run.path
    try:
        connection.execute("BEGIN")  # everything that is read belongs to one moment
        (application,) = connection.execute("PRAGMA application_id").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if application != APPLICATION_ID:
            raise InvalidFile(f"{path} is a database, but not a krisis run")
        if version // 1000 != MAJOR:
            raise InvalidFile(
                f"{path} has version {version // 1000}.{version % 1000} of the run file, and this "
                f"krisis reads version {MAJOR}; use a newer krisis"
            )
        check_schema(connection, path)
        (n_pages,) = connection.execute("PRAGMA page_count").fetchone()
        (page,) = connection.execute("PRAGMA page_size").fetchone()
        if n_pages * page > size_of(place):
            raise run._cannot_be_read("it counts more pages than it has")
        if not checked:
            found = connection.execute("PRAGMA quick_check(1)").fetchone()
            run.is_broken = found is None or found[0] != "ok"
    except (sqlite3.Error, UnicodeDecodeError) as error:  # it quotes a schema that is no text
        raise run._unreadable(error) from None
    assert run.description

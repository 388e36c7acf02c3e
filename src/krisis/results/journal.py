"""The journal of a run, written and read here alone: a finished record is on disk at once.

One JSON object a line; ``kind`` says what it is::

    session   a process began or took the run up again
    prompt    a redacted template, context: a text shown with features; later lines name its id
    row       the row of one position, with what its calls took
    calls     what calls took that led to no row
    stop      why the session ended early, by the name of the cause and its sentence

The file only grows. A later line for the same position replaces an earlier one, so a record that
failed and was asked again appears twice in the file and once in the result. A last line that was
cut off is not read.
"""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Protocol

from krisis.errors import InvalidFile, RunFailed
from krisis.json_values import JsonMapping, JsonObject, plain
from krisis.metrics.base import EvaluationResult
from krisis.results.rows import row_from_dict, row_to_dict
from krisis.results.stops import StopCause

SYNC_SECONDS = 0.5


@dataclass(slots=True)
class Spent:
    """What the calls behind some rows took; it adds up.

    ``lost`` tokens are those of calls that failed or had to be split: paid all the same.
    ``cached`` tokens came out of the cache and were not paid this time. A call that does not say
    what it took is counted in ``n_calls_without_usage``, and the most that it can have taken in the
    ``assumed`` tokens. ``n_dropped_fields`` counts members beside an answer that cannot be read.
    """

    n_calls: int = 0
    n_retries: int = 0
    n_splits: int = 0
    n_cache_hits: int = 0
    n_calls_without_usage: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    lost_input_tokens: int = 0
    lost_output_tokens: int = 0
    cached_input_tokens: int = 0
    cached_output_tokens: int = 0
    assumed_input_tokens: int = 0
    assumed_output_tokens: int = 0
    n_dropped_fields: int = 0
    latencies_seconds: list[float] = field(default_factory=list)

    def add(self, other: Spent) -> None:
        """Add what other rows took."""
        for name in _COUNTS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.latencies_seconds.extend(other.latencies_seconds)

    def to_dict(self) -> JsonObject:
        """Return what is not zero."""
        figures: JsonObject = {n: value for n in _COUNTS if (value := getattr(self, n))}
        if self.latencies_seconds:
            figures["latencies_seconds"] = [round(value, 6) for value in self.latencies_seconds]
        return figures

    @property
    def paid_tokens(self) -> tuple[int, int]:
        """Return the input and output tokens that the provider charged for."""
        return (
            self.input_tokens + self.lost_input_tokens,
            self.output_tokens + self.lost_output_tokens,
        )

    @property
    def most_tokens(self) -> tuple[int, int]:
        """Return the input and output tokens that the provider can have charged for at most."""
        n_input, n_output = self.paid_tokens
        return n_input + self.assumed_input_tokens, n_output + self.assumed_output_tokens

    def assume(self, n_input: float, n_output: float) -> None:
        """Count a call that did not say what it took with the most that it can have taken."""
        if n_input or n_output:
            self.n_calls_without_usage += 1
            self.assumed_input_tokens += math.ceil(n_input)
            self.assumed_output_tokens += math.ceil(n_output)


_COUNTS = tuple(one.name for one in fields(Spent) if one.name != "latencies_seconds")


class ShownRecord(Protocol):
    """What a model was shown of a record."""

    @property
    def features(self) -> JsonMapping:
        """Return the values shown."""

    @property
    def context(self) -> str:
        """Return the text shown before them."""


class Place(Protocol):
    """Where a row belongs in the output, and what was shown for it."""

    @property
    def position(self) -> int:
        """Return the place in the output."""

    @property
    def record(self) -> ShownRecord:
        """Return the record that was asked about."""


class Journal:
    """Appends rows to a file and never leaves half a line in it.

    A row is handed to the operating system as soon as it is finished, which survives the death of
    the process; twice a second a thread has the disk confirm what came in, which survives a power
    cut. A write that fails is taken back, so that the file stays readable.
    """

    def __init__(self, path: Path, *, stores_features: bool = False) -> None:
        self._path = path
        self._stores_features = stores_features
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._size = self._repair()
        self._started = time.perf_counter()
        self._known_texts: dict[str, str] = {}
        self._fault: RunFailed | None = None
        self._dirty = threading.Event()
        self._ended = threading.Event()
        self._syncer = threading.Thread(target=self._sync_now_and_then, daemon=True)
        self._syncer.start()
        self._write([{"kind": "session", "at": 0.0, "started_at": time.time()}])

    def _repair(self) -> int:
        size, lacks_newline = _whole_length(self._path)
        os.ftruncate(self._file, size)
        os.lseek(self._file, size, os.SEEK_SET)
        return size + os.write(self._file, b"\n") if lacks_newline else size

    def append(
        self, places: Sequence[Place], rows: Sequence[EvaluationResult], spent: Spent
    ) -> None:
        """Write finished rows; what they took is written with the first."""
        lines: list[JsonObject] = []
        at, calls = self._now(), spent.to_dict()
        for place, row in zip(places, rows, strict=True):
            content = row_to_dict(row)
            content["prompt"] = self._text_id(row.prompt, "prompt", lines)
            line = {"kind": "row", "position": place.position, "at": at, "row": content}
            if self._stores_features:
                line["features"] = plain(place.record.features)
                line["context"] = self._text_id(place.record.context, "context", lines)
            if place is places[0]:
                line["calls"] = calls
            lines.append(line)
        self._write(lines)

    def note_spent(self, spent: Spent) -> None:
        """Write what calls took that led to no row."""
        self._write([{"kind": "calls", "at": self._now(), "calls": spent.to_dict()}])

    def note_stop(self, cause: StopCause) -> None:
        """Write why the session ends before its last record."""
        line = {"kind": "stop", "at": self._now(), "cause": cause.name, "sentence": cause.sentence}
        self._write([line])

    def confirm(self) -> None:
        """Have the disk confirm everything; raise when the file is broken or gone."""
        try:
            os.fsync(self._file)
            self._check_still_there()
        except OSError as error:
            self._failed(error)
        if self._fault is not None:
            raise self._fault

    def close(self) -> None:
        """Release the file once the disk has confirmed it."""
        self._ended.set()
        self._dirty.set()
        self._syncer.join()
        with suppress(OSError):  # what can be said about the disk was said by `confirm`
            os.fsync(self._file)
        os.close(self._file)

    def _now(self) -> float:
        return round(time.perf_counter() - self._started, 3)

    def _text_id(self, text: str, kind: str, lines: list[JsonObject]) -> str:
        """Return the name of a text that many rows share, writing it where it is new."""
        if not text:
            return ""
        known = self._known_texts.get(text)
        if known is None:
            known = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:12]
            self._known_texts[text] = known
            lines.append({"kind": kind, "id": known, "text": text})
        return known

    def _write(self, lines: Sequence[JsonObject]) -> None:
        if self._fault is not None:
            raise self._fault
        # ASCII only, so that half a surrogate pair in what a model wrote cannot stop the journal.
        data = b"".join(json.dumps(line, allow_nan=False).encode() + b"\n" for line in lines)
        try:
            written = 0
            while written < len(data):
                written += os.write(self._file, data[written:])
        except OSError as error:
            os.ftruncate(self._file, self._size)
            os.lseek(self._file, self._size, os.SEEK_SET)
            raise self._failed(error) from None
        self._size += len(data)
        self._dirty.set()

    def _failed(self, error: OSError) -> RunFailed:
        is_full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        self._fault = RunFailed(
            f"{self._path} cannot be written ({error.strerror}); the rows already in it are whole: "
            f"{'free some space' if is_full else 'check the disk'}, then type: "
            f"krisis resume {self._path.parent}"
        )
        return self._fault

    def _sync_now_and_then(self) -> None:
        while not self._ended.is_set():
            self._dirty.wait()
            self._dirty.clear()
            try:
                os.fsync(self._file)
                self._check_still_there()
            except OSError as error:
                self._failed(error)
            self._ended.wait(SYNC_SECONDS)

    def _check_still_there(self) -> None:
        if os.fstat(self._file).st_nlink == 0 and self._fault is None:
            self._fault = RunFailed(
                f"{self._path} was deleted while the run was writing to it; start the run again, "
                "the reply cache spares what was already paid"
            )


@dataclass(slots=True)
class JournalContents:
    """What a journal holds: the last row of every position, and the totals of all sessions.

    ``stop`` is why the last session ended early; it is None while that session goes on, after it
    reached its last record, and after it was killed.
    """

    rows: dict[int, EvaluationResult] = field(default_factory=dict)
    features: dict[int, JsonObject] = field(default_factory=dict)
    spent: Spent = field(default_factory=Spent)
    elapsed_seconds: float = 0.0
    stop: StopCause | None = None
    _texts: dict[str, str] = field(default_factory=dict)
    _session_seconds: float = 0.0

    def in_order(self) -> list[EvaluationResult]:
        """Return the rows in the order of the records."""
        return [self.rows[position] for position in sorted(self.rows)]

    def take(self, line: JsonObject, place: str) -> None:
        """Add one line."""
        kind = line.get("kind")
        if kind == "row":
            self._take_row(line, place)
        elif kind in ("prompt", "context"):
            self._texts[str(line["id"])] = str(line["text"])
        elif kind == "session":
            self.stop, self._session_seconds = None, 0.0
        elif kind == "stop":
            self.stop = StopCause.named(line["cause"], str(line["sentence"]), place=place)
        elif kind != "calls":
            raise InvalidFile(f"{place} is of the unknown kind {kind!r}; was it edited?")
        if "calls" in line:
            self.spent.add(Spent(**line["calls"]))
        if "at" in line:
            at = float(line["at"])
            self.elapsed_seconds += at - self._session_seconds
            self._session_seconds = at

    def _take_row(self, line: JsonObject, place: str) -> None:
        row = dict(line["row"])
        row["prompt"] = self._texts.get(row.get("prompt", ""), "")
        position = int(line["position"])
        self.rows[position] = row_from_dict(row, place)
        if "features" in line:
            context = self._texts.get(line.get("context", ""), "")
            shown = {"context": context} if context else {}
            self.features[position] = {**line["features"], **shown}


def read_journal(path: Path) -> JournalContents:
    """Read a journal, leaving out a last line that was cut off; one that is not there is empty."""
    contents = JournalContents()
    if not path.exists():
        return contents
    for number, (line, _) in enumerate(_whole_lines(path), start=1):
        place = f"{path}: line {number}"
        try:
            contents.take(_object(line), place)
        except (KeyError, TypeError, ValueError) as error:
            if isinstance(error, InvalidFile):
                raise
            raise InvalidFile(f"{place} cannot be read ({error!r}); was it edited?") from None
    return contents


class JournalTail:
    """Counts the outcomes in a growing journal, reading on from where it was."""

    def __init__(self) -> None:
        self._n_bytes = 0
        self._outcomes: dict[int, str] = {}

    def read_on(self, path: Path) -> Mapping[str, int]:
        """Return how many positions came to each outcome so far."""
        for line, end in _whole_lines(path, self._n_bytes):
            if not line.endswith(b"\n"):
                break
            self._n_bytes = end
            with suppress(ValueError, KeyError, TypeError):  # the run's own page says what is wrong
                content = _object(line)
                if content.get("kind") == "row":
                    self._outcomes[int(content["position"])] = str(content["row"]["outcome"])
        seen = Counter(self._outcomes.values())  # what is none of these is not a row of krisis
        return {outcome: seen[outcome] for outcome in ("answered", "abstained", "failed")}


def _whole_length(path: Path) -> tuple[int, bool]:
    """Return how many bytes of a journal are whole lines, and whether only a newline is missing."""
    line, end = b"\n", 0
    for line, end in _whole_lines(path):  # noqa: B007 - the last ones are wanted
        pass
    return end, not line.endswith(b"\n")


def _whole_lines(path: Path, start: int = 0) -> Iterator[tuple[bytes, int]]:
    """Yield the lines from a place on, each with the place of its end; none that was cut off."""
    with path.open("rb") as file:
        file.seek(start)
        end = start
        for line in file:
            if not line.endswith(b"\n"):
                try:
                    _object(line)
                except ValueError:
                    return
            end += len(line)
            yield line, end


def _object(line: bytes) -> JsonObject:
    value = json.loads(line)
    if not isinstance(value, dict):
        raise ValueError(f"not an object but {value!r:.40}")
    return value

"""The journal of a run, written here alone: a finished record is on disk at once.

One JSON object a line, with its checksum (`journal_lines`); ``kind`` says what it is::

    session     a process began or took the run up again, with the price of tokens if known
    prompt      a redacted template, context: a text shown with features; rows name its id
    sent        a call is about to be sent, with the most that it can take
    row         the row of one position, with what its calls took
    calls       what calls took that led to no row
    provider_batch  the life of a provider batch (`provider_batches`)
    stop        why the session ended early, by the name of the cause and its sentence
    set_aside   how many damaged stretches were moved out of the file

The file only grows, unless it is mended (`journal_reading`). A later line for the same position
replaces an earlier one, so a record that failed and was asked again appears twice in the file and
once in the result.
"""

from __future__ import annotations

import errno
import hashlib
import math
import os
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Protocol

from krisis.errors import RunFailed
from krisis.json_values import JsonMapping, JsonObject, open_private, plain
from krisis.metrics.base import EvaluationResult
from krisis.results.journal_lines import sealed
from krisis.results.rows import row_to_dict
from krisis.results.stops import StopCause

SYNC_SECONDS = 0.5


@dataclass(slots=True)
class CallTotals:
    """What the calls behind some rows took; it adds up.

    ``lost`` tokens are those of calls that failed or had to be split: paid all the same.
    ``cached`` tokens came out of the cache and were not paid this time. A call that does not say
    what it took is counted in ``n_calls_without_usage``, and the most that it can have taken in the
    ``assumed`` tokens. ``reserved`` tokens were set aside for the calls when they were sent.
    ``n_dropped_fields`` counts members beside an answer that cannot be read. Of the calls
    ``n_batch_calls`` went by provider batches, and ``batch`` tokens are what these took.
    """

    n_calls: int = 0
    n_batch_calls: int = 0
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
    reserved_input_tokens: int = 0
    reserved_output_tokens: int = 0
    batch_input_tokens: int = 0
    batch_output_tokens: int = 0
    n_dropped_fields: int = 0
    latencies_seconds: list[float] = field(default_factory=list)

    def add(self, other: CallTotals) -> None:
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

    @property
    def batch_tokens(self) -> tuple[int, int]:
        """Return the input and output tokens that are charged at the price of batches."""
        return self.batch_input_tokens, self.batch_output_tokens

    def send(self, n_input: float, n_output: float) -> None:
        """Count a call that is sent, and the most that it can take."""
        self.n_calls += 1
        self.reserved_input_tokens += math.ceil(n_input)
        self.reserved_output_tokens += math.ceil(n_output)

    def assume(self, n_input: float, n_output: float) -> None:
        """Count a call that did not say what it took with the most that it can have taken."""
        if n_input or n_output:
            self.n_calls_without_usage += 1
            self.assumed_input_tokens += math.ceil(n_input)
            self.assumed_output_tokens += math.ceil(n_output)


_COUNTS = tuple(one.name for one in fields(CallTotals) if one.name != "latencies_seconds")


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

    def __init__(
        self, path: Path, *, stores_features: bool = False, price: JsonMapping | None = None
    ) -> None:
        self._path = path
        self._stores_features = stores_features
        flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_BINARY", 0)
        self._file = open_private(str(path), flags)
        self._size = self._at_a_new_line()
        self._started = time.perf_counter()
        self._known_texts: dict[str, str] = {}
        self._fault: RunFailed | None = None
        self._dirty = threading.Event()
        self._ended = threading.Event()
        self._syncer = threading.Thread(target=self._sync_now_and_then, daemon=True)
        self._syncer.start()
        begun: JsonObject = {"kind": "session", "at": 0.0, "started_at": time.time()}
        self._write([begun | {"price": dict(price)} if price else begun])

    def _at_a_new_line(self) -> int:
        """Go to the end of the file, and on to a new line where the last one was cut off."""
        size = os.lseek(self._file, 0, os.SEEK_END)
        if size:
            os.lseek(self._file, size - 1, os.SEEK_SET)
            if os.read(self._file, 1) != b"\n":
                size += os.write(self._file, b"\n")
        return size

    def append(
        self, places: Sequence[Place], rows: Sequence[EvaluationResult], spent: CallTotals
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

    def note_sent(self, n_input: float, n_output: float) -> None:
        """Write the most that a call can take, before it is sent: its end may not be seen."""
        self._write([{"kind": "sent", "most": [math.ceil(n_input), math.ceil(n_output)]}])

    def note_spent(self, spent: CallTotals) -> None:
        """Write what calls took that led to no row."""
        self._write([{"kind": "calls", "at": self._now(), "calls": spent.to_dict()}])

    def note_provider_batch(self, line: JsonObject) -> None:
        """Write what became of a provider batch, and have the disk confirm it.

        All that was paid for hangs on its name, so that is written twice, as templates are.
        """
        self._write([line] if "calls" in line else [line, line])
        self.confirm()

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
            line: JsonObject = {"kind": kind, "id": known, "text": text}
            # Every row hangs on its template, so that is written twice: damage to one does no harm.
            lines += [line, line] if kind == "prompt" else [line]
        return known

    def _write(self, lines: Sequence[JsonObject]) -> None:
        if self._fault is not None:
            raise self._fault
        data = b"".join(map(sealed, lines))
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

"""The journal of a run: every finished record is on disk before the next one is thought of."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from krisis.errors import RunFailed
from krisis.execution.batches import Case
from krisis.execution.telemetry import Spent
from krisis.json_values import plain
from krisis.metrics.base import EvaluationResult
from krisis.results.rows import row_to_dict
from krisis.results.store import whole_length

SYNC_SECONDS = 0.5


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
        size, lacks_newline = whole_length(self._path)
        os.ftruncate(self._file, size)
        os.lseek(self._file, size, os.SEEK_SET)
        return size + os.write(self._file, b"\n") if lacks_newline else size

    def append(self, cases: Sequence[Case], rows: Sequence[EvaluationResult], spent: Spent) -> None:
        """Write finished rows; what they cost stands with the first."""
        lines: list[dict[str, Any]] = []
        at = round(time.perf_counter() - self._started, 3)
        for case, row in zip(cases, rows, strict=True):
            content = row_to_dict(row)
            content["prompt"] = self._text_id(row.prompt, "prompt", lines)
            line = {"kind": "row", "position": case.position, "at": at, "row": content}
            if self._stores_features:
                line["features"] = plain(case.record.features)
                line["context"] = self._text_id(case.record.context, "context", lines)
            lines.append(line)
        first = next(line for line in lines if line["kind"] == "row")
        first["calls"] = spent.to_dict()
        self._write(lines)

    def note_stop(self, reason: str, spent: Spent | None = None) -> None:
        """Write why records were not asked to the end, and what that cost."""
        at = round(time.perf_counter() - self._started, 3)
        cost = {} if spent is None else {"calls": spent.to_dict()}
        self._write([{"kind": "stop", "at": at, "reason": reason, **cost}])

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
        """Let go of the file after a last word to the disk."""
        self._ended.set()
        self._dirty.set()
        self._syncer.join()
        with suppress(OSError):  # what can be said about the disk was said by `confirm`
            os.fsync(self._file)
        os.close(self._file)

    def _text_id(self, text: str, kind: str, lines: list[dict[str, Any]]) -> str:
        """Return the name of a text that many rows share, writing it where it is new."""
        if not text:
            return ""
        known = self._known_texts.get(text)
        if known is None:
            known = hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:12]
            self._known_texts[text] = known
            lines.append({"kind": kind, "id": known, "text": text})
        return known

    def _write(self, lines: Sequence[dict[str, Any]]) -> None:
        if self._fault is not None:
            raise self._fault
        data = b"".join(_encoded(line) for line in lines)
        try:
            written = 0
            while written < len(data):
                written += os.write(self._file, data[written:])
        except OSError as error:
            self._take_back()
            raise self._failed(error) from None
        self._size += len(data)
        self._dirty.set()

    def _take_back(self) -> None:
        os.ftruncate(self._file, self._size)
        os.lseek(self._file, self._size, os.SEEK_SET)

    def _failed(self, error: OSError) -> RunFailed:
        remedy = (
            "free some space"
            if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
            else "see to the disk"
        )
        self._fault = RunFailed(
            f"{self._path} cannot be written ({error.strerror}); the rows already in it are whole: "
            f"{remedy}, then type: krisis resume {self._path.parent}"
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


def _encoded(line: dict[str, Any]) -> bytes:
    # ASCII only, so that half a surrogate pair in what a model wrote cannot stop the journal.
    return json.dumps(line, allow_nan=False).encode() + b"\n"

"""Drawing charts in a process of its own, which may die without taking a page or a server along."""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from threading import Lock
from typing import IO, Literal

from krisis.display import cut, spelled_out
from krisis.errors import ChartFailed, MissingExtra
from krisis.json_values import JsonObject, JsonValue

DrawingForm = Literal["svg", "png", "pdf"]
_PROGRAM = Path(__file__).with_name("renderer_process.py")
# Far more than any chart of krisis takes: most are drawn in a tenth of a second, from 100 kB.
_SECONDS = 60.0
_MAX_BYTES = 64 * 2**20


class Renderer:
    """One process that draws charts in turn, started for the first and again after it died."""

    def __init__(self, *, seconds: float = _SECONDS, max_bytes: int = _MAX_BYTES) -> None:
        self._seconds = seconds
        self._max_bytes = max_bytes
        self._lock = Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0
        atexit.register(self.close)

    def draw(self, form: DrawingForm, chart: JsonObject, *, scale: float = 1.0) -> bytes:
        """Return a Vega-Lite chart as a drawing; no hidden character reaches the converter."""
        if not is_installed():
            raise MissingExtra.named("charts", "drawing charts")
        text = json.dumps(_visible(chart)).encode()
        if len(text) > self._max_bytes:
            raise self._failure("its data take more than {} MB")
        with self._lock:
            try:
                status, drawn = self._reply(form, scale, text)
            except BaseException as error:
                # A process that died, or still draws what nobody waits for, serves no other chart.
                self._end()
                if not isinstance(error, OSError | ValueError):
                    raise
                raise self._failure("the program that draws charts stopped") from None
        if status != b"drawn":
            said = drawn.decode("utf-8", "replace").partition("\n")[0]
            raise ChartFailed(f"this chart could not be drawn: {cut(said, 160)}")
        return drawn

    def close(self) -> None:
        """End the process; the next chart starts another."""
        with self._lock:
            self._end()

    def _failure(self, reason: str) -> ChartFailed:
        why = reason.format(self._max_bytes // 2**20)
        return ChartFailed(f"this chart could not be drawn: {why}")

    def _reply(self, form: DrawingForm, scale: float, chart: bytes) -> tuple[bytes, bytes]:
        requests, replies = self._pipes()
        requests.write(f"{form} {scale!r} {self._seconds!r} {len(chart)}\n".encode() + chart)
        requests.flush()
        status, size = replies.readline(200).split()
        n_bytes = int(size)
        if n_bytes > self._max_bytes:
            raise ValueError("a drawing of that size is not read")
        drawn = replies.read(n_bytes)
        if len(drawn) < n_bytes:
            raise ValueError("the drawing breaks off")
        return status, drawn

    def _pipes(self) -> tuple[IO[bytes], IO[bytes]]:
        """Return how to ask and where to read, from a living process that is this one's own."""
        if self._owner != os.getpid():
            self._process = None  # of the process that this one was forked from
        if self._process is None or self._process.poll() is not None:
            self._end()
            self._owner = os.getpid()
            self._process = subprocess.Popen(  # noqa: S603 - a file of krisis itself
                # Without the folder of the program on its path, whose html.py and numbers.py are
                # not those of Python.
                [sys.executable, "-P", str(_PROGRAM)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
            )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        return self._process.stdin, self._process.stdout

    def _end(self) -> None:
        process, self._process = self._process, None
        if process is None or self._owner != os.getpid():
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            with suppress(OSError):  # what was left to send has nobody to read it
                pipe.close()


RENDERER = Renderer()


def is_installed() -> bool:
    """Tell whether the converter can be found, without importing it here."""
    return find_spec("vl_convert") is not None


def _visible(value: JsonValue) -> JsonValue:
    """Return a chart in which hidden characters of every text are spelled out."""
    if isinstance(value, str):
        return spelled_out(value)
    if isinstance(value, dict):
        return {name: _visible(one) for name, one in value.items()}
    if isinstance(value, list | tuple):
        return [_visible(one) for one in value]
    return value

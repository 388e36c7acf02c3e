"""Charts are drawn in a process of their own, as what draws them takes more memory than the server.

``python -m krisis.viewer.drawing`` is that process: it takes one specification a line, gives one
SVG a line, and ends when its input is closed or nobody has asked for some time.
"""

from __future__ import annotations

import atexit
import json
import os
import signal
import subprocess
import sys
import threading
from importlib.util import find_spec

from krisis.errors import MissingExtra
from krisis.json_values import JsonObject

_IDLE_SECONDS = 120.0


class _Drawing:
    """The process that draws for this one, started when a chart is first asked for."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        atexit.register(self.close)

    def svg(self, specification: JsonObject) -> str:
        """Return a chart as SVG; a process that has ended meanwhile is started again once."""
        line = json.dumps(specification).encode() + b"\n"
        with self._lock:
            answer = self._answer(line) or self._answer(line)
        if not answer:
            raise RuntimeError("the process that draws charts ended; what it said is above")
        drawn: str = json.loads(answer)
        return drawn

    def _answer(self, line: bytes) -> bytes:
        """Return what the process says, nothing if it has ended."""
        if self._process is None:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "krisis.viewer.drawing"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
            )
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(line)
            process.stdin.flush()
            answer = process.stdout.readline()
        except OSError:
            answer = b""
        if not answer.endswith(b"\n"):
            self.close()
            return b""
        return answer

    def close(self) -> None:
        """End the process, if there is one."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.communicate()


_drawing = _Drawing()


def draw(specification: JsonObject) -> str:
    """Return a chart as SVG."""
    if find_spec("vl_convert") is None:
        raise MissingExtra.named("charts", "drawing charts")
    return _drawing.svg(specification)


def main() -> None:
    """Draw what the server asks for, line by line."""
    import vl_convert

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the server is interrupted too: the input closes
    lines = iter(sys.stdin.buffer.readline, b"")
    while True:
        idle = threading.Timer(_IDLE_SECONDS, os._exit, (0,))
        idle.daemon = True
        idle.start()
        line = next(lines, None)
        idle.cancel()
        if line is None:
            return
        sys.stdout.write(json.dumps(vl_convert.vegalite_to_svg(json.loads(line))) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()

"""Follow one record from `krisis run` to its HTML report and count who handles it.

    python -m benchmarks.walk

The record is recognised by its name, by the lines of its prompt and by the confidence that a model
on loopback states about it. Counted are the functions that are given it or what became of it, the
pairs of modules that hand it over, and the classes of the objects it is found in.
"""

from __future__ import annotations

import contextlib
import http.server
import io
import json
import os
import sys
import tempfile
import threading
import types
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import krisis
from krisis.cli import app as command_line
from krisis.runs.schema import SUFFIX

_SOURCE = str(Path(krisis.__file__).parent)
_CONFIDENCE = 0.8125
_REPLY = json.dumps({"abstained": False, "prediction": 1, "confidence": _CONFIDENCE})
_DEPTH = 5


class _Model(http.server.BaseHTTPRequestHandler):
    """Answers every chat completion alike and keeps what it was asked."""

    asked: ClassVar[list[str]] = []

    def do_POST(self) -> None:
        """Answer a chat completion."""
        length = int(self.headers["content-length"])
        self.asked.append(json.loads(self.rfile.read(length))["messages"][-1]["content"])
        message = {"role": "assistant", "content": _REPLY}
        choice = {"index": 0, "finish_reason": "stop", "message": message}
        usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
        body = json.dumps({"model": "model", "choices": [choice], "usage": usage}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_request(self, code: object = "-", size: object = "-") -> None:
        """Print nothing."""


class Walk:
    """What was seen of one record."""

    def __init__(self, marks: list[str]) -> None:
        self.marks = marks
        self.functions: Counter[str] = Counter()
        self.handovers: Counter[tuple[str, str]] = Counter()
        self.objects: Counter[str] = Counter()
        self.calls: Counter[str] = Counter()
        self._looking = threading.local()

    def __call__(self, frame: types.FrameType, event: str, argument: object) -> None:
        """Look at a call or a return of krisis; `sys.setprofile` calls this."""
        code = frame.f_code
        if event not in ("call", "return") or not code.co_filename.startswith(_SOURCE):
            return
        if code.co_name.startswith("<") or getattr(self._looking, "now", False):
            return
        self._looking.now = True
        place = _module(frame)
        name = f"{place}:{code.co_qualname}"
        self.calls[name] += event == "call"
        values = list(frame.f_locals.values()) if event == "call" else [argument]
        found = [value for value in values if self._holds(value)]
        if found:
            self.functions[name] += 1
            self.objects.update(
                type(v).__name__ for v in found if type(v).__module__.startswith("krisis")
            )
            caller = next((_module(f) for f in _callers(frame)), place)
            if caller != place:
                self.handovers[caller, place] += 1
        self._looking.now = False

    def _holds(self, value: object, depth: int = _DEPTH) -> bool:
        if isinstance(value, str):
            return any(mark in value for mark in self.marks)
        if isinstance(value, float):
            return value == _CONFIDENCE
        if depth == 0:
            return False
        return any(self._holds(part, depth - 1) for part in _parts(value))


def _module(frame: types.FrameType) -> str:
    return frame.f_code.co_filename[len(_SOURCE) + 1 :]


def _callers(frame: types.FrameType) -> Iterator[types.FrameType]:
    above = frame.f_back
    while above is not None:
        if above.f_code.co_filename.startswith(_SOURCE):
            yield above
        above = above.f_back


def _parts(value: object) -> list[object]:
    if isinstance(value, dict):
        return [*value.values(), *value]
    if isinstance(value, (list, tuple, set, frozenset)):
        return list(value)
    if isinstance(value, type) or not type(value).__module__.startswith("krisis"):
        return []
    names = {name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())}
    slots = [getattr(value, name, None) for name in names if not name.startswith("__")]
    return [*slots, *getattr(value, "__dict__", {}).values()]


def _krisis(*words: str) -> None:
    sys.argv = ["krisis", *words]
    with contextlib.suppress(SystemExit), contextlib.redirect_stdout(io.StringIO()):
        command_line.main()


def walk() -> Walk:
    """Run one record and write its report while watching."""
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Model)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    address = f"http://127.0.0.1:{server.server_port}/v1"
    os.environ["COMPATIBLE_API_KEY"] = "no-key-needed"
    run = ("run", "ckd", "--model", "compatible/model", "--base-url", address, "--limit", "1")
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        _krisis(*run, "-o", "first")
        lines = [line for line in _Model.asked[0].splitlines() if any(map(str.isdigit, line))]
        seen = Walk(["embedded-42-0", str(_CONFIDENCE), *lines])
        threading.setprofile(seen)
        sys.setprofile(seen)
        _krisis(*run, "-o", "second")
        _krisis("report", str(next(Path("second").glob(f"*{SUFFIX}"))))
        sys.setprofile(None)
        threading.setprofile(None)
    server.shutdown()
    return seen


def main() -> None:
    found = walk()
    print(f"{len(found.functions)} functions are given the record or what became of it")
    print(f"{len(found.handovers)} pairs of modules hand it over")
    print(f"{len(found.objects)} kinds of objects: {', '.join(found.objects)}")
    for name in ("CKDSuite.load", "build_prompt", "records_hash", "read_journal"):
        times = sum(count for key, count in found.calls.items() if key.endswith(f":{name}"))
        print(f"{name}: {times} times")


if __name__ == "__main__":
    main()

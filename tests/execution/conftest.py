"""The loopback server and the worker processes of the execution tests."""

from __future__ import annotations

import asyncio
import importlib.util
import json
import os
import selectors
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Coroutine, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

HERE = Path(__file__).parent
PLANTED_KEY = "sk-planted-0123456789abcdef"


class Loopback:
    """A running server."""

    def __init__(self, options: dict[str, Any]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(HERE / "loopback_server.py"), json.dumps(options)],
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self._process.stdout is not None
        self._root = f"http://127.0.0.1:{int(self._process.stdout.readline())}"
        self.base_url = f"{self._root}/v1"

    def counts(self) -> dict[str, Any]:
        """Return what the server counted."""
        with urllib.request.urlopen(f"{self._root}/counts") as answer:
            content: dict[str, Any] = json.load(answer)
        return content

    def close(self) -> None:
        """End the server."""
        self._process.terminate()
        self._process.communicate()


@pytest.fixture
def loopback(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Loopback]]:
    """Return a function that starts a server which ends with the test."""
    monkeypatch.setenv("OPENAI_API_KEY", PLANTED_KEY)
    servers: list[Loopback] = []

    def start(**options: Any) -> Loopback:
        servers.append(Loopback(options))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


@pytest.fixture(scope="session")
def worker() -> ModuleType:
    """Return the module that the worker processes run."""
    specification = importlib.util.spec_from_file_location("run_worker", HERE / "run_worker.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.fixture
def start_worker() -> Callable[..., subprocess.Popen[str]]:
    """Return a function that starts a worker process, the planted key in its environment."""

    def start(options: dict[str, Any], *, before: tuple[str, ...] = ()) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*before, sys.executable, str(HERE / "run_worker.py"), json.dumps(options)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "OPENAI_API_KEY": PLANTED_KEY},
        )

    return start


@pytest.fixture
def no_key_in() -> Callable[..., None]:
    """Return a check that the planted key is in no file below a folder, nor in any text given."""

    def check(folder: Path, *texts: str) -> None:
        for path in folder.rglob("*"):
            if path.is_file():
                assert PLANTED_KEY.encode() not in path.read_bytes(), path
        for text in texts:
            assert PLANTED_KEY not in text

    return check


class _VirtualSelector(selectors.DefaultSelector):
    """A selector that never waits: the time that it would have waited has passed instead."""

    now = 0.0

    def select(self, timeout: float | None = None) -> Any:
        self.now += timeout or 0.0
        return super().select(0)


@pytest.fixture
def in_virtual_time() -> Callable[[Coroutine[Any, Any, Any]], Any]:
    """Return a function that runs a coroutine on a loop in which sleeping takes no time."""

    def run(work: Coroutine[Any, Any, Any]) -> Any:
        selector = _VirtualSelector()
        loop = asyncio.SelectorEventLoop(selector)
        loop.time = lambda: selector.now  # type: ignore[method-assign]
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            return runner.run(work)

    return run

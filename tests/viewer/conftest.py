"""A real server on loopback over a folder of runs."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import uvicorn

from krisis.viewer.app import create_app


@dataclass(frozen=True)
class Answer:
    """What the server said."""

    status: int
    headers: dict[str, str]
    text: str

    @property
    def json(self) -> Any:
        return json.loads(self.text)


@dataclass(frozen=True)
class Site:
    """A running viewer."""

    port: int

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def get(self, path: str, *, method: str = "GET", **headers: str) -> Answer:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        try:
            sent = {name.replace("_", "-"): value for name, value in headers.items()}
            connection.request(method, path, headers=sent)
            answer = connection.getresponse()
            names = {name.lower(): value for name, value in answer.getheaders()}
            return Answer(answer.status, names, answer.read().decode())
        finally:
            connection.close()


@pytest.fixture(scope="module")
def serve() -> Iterator[Callable[..., Site]]:
    """Return a function that serves a folder until the module's tests have ended."""
    running: list[tuple[uvicorn.Server, threading.Thread]] = []

    def start(folder: Path, token: str | None = None) -> Site:
        configuration = uvicorn.Config(
            create_app(folder, token=token),
            host="127.0.0.1",
            port=0,
            log_level="warning",
            lifespan="off",
        )
        socket = configuration.bind_socket()
        socket.listen()  # so that the first request waits instead of being refused
        server = uvicorn.Server(configuration)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [socket]}, daemon=True)
        thread.start()
        running.append((server, thread))
        return Site(socket.getsockname()[1])

    yield start
    for server, thread in running:
        server.should_exit = True
        thread.join(10)

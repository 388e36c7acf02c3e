"""A request that is never sent to its end is given up, and others are served meanwhile."""

from __future__ import annotations

import http.client
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.invented_runs import invented_rows, result_of, write_run

from krisis.viewer import serving
from krisis.viewer.app import create_app

TOKEN = "the-token"
HEAD = f"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\n"
FORM = (
    "POST /runs/one/cases/0/review HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n"
    f"Authorization: Bearer {TOKEN}\r\nOrigin: http://127.0.0.1:{{port}}\r\n"
    "Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 40\r\n\r\n"
)


@pytest.fixture
def port(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Return the port of a viewer with little patience."""
    monkeypatch.setattr(serving, "_REQUEST_SECONDS", 0.5)
    write_run(tmp_path / "one", result_of(invented_rows(20), "one"))
    server = serving.server_of(create_app(tmp_path, token=TOKEN))
    listening = socket.create_server(("127.0.0.1", 0))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    yield listening.getsockname()[1]
    server.should_exit = True
    thread.join(30)
    listening.close()


def status(port: int, path: str = "/") -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("GET", path, headers={"Authorization": f"Bearer {TOKEN}"})
        answer = connection.getresponse()
        answer.read()
        return answer.status
    finally:
        connection.close()


def rest_of(half: socket.socket) -> bytes:
    """Return what a server still says before it closes the connection; fail if it never does."""
    half.settimeout(60)
    said = b""
    try:
        while part := half.recv(65_536):
            said += part
    except ConnectionError:
        pass
    return said


HALVES = {
    "nothing": "",
    "half a line": "GET / HT",
    "half the headers": HEAD,
    "half a body": FORM + "verdict=",
    "half a body of a page": HEAD + "Content-Length: 1000\r\n\r\nabc",
}


@pytest.mark.parametrize("name", HALVES)
def test_half_a_request_is_given_up_while_others_are_served(
    port: int, name: str, capfd: pytest.CaptureFixture[str]
) -> None:
    halves = [socket.create_connection(("127.0.0.1", port)) for _ in range(60)]
    for half in halves:
        half.sendall(HALVES[name].replace("{port}", str(port)).encode())
    assert status(port) == 200
    for half in halves:
        said = rest_of(half)
        assert name == "half a body of a page" or b" 200 " not in said
        half.close()
    assert status(port) == 200
    assert "Traceback" not in capfd.readouterr().err


def test_headers_that_come_drop_by_drop_do_not_keep_a_connection_open(port: int) -> None:
    slow = socket.create_connection(("127.0.0.1", port))
    deadline = time.monotonic() + 60
    try:
        for number in range(1_000_000):
            assert time.monotonic() < deadline
            slow.sendall(f"X-Header-{number}: 1\r\n".encode() if number else HEAD.encode())
            time.sleep(0.05)
    except ConnectionError:
        pass
    slow.close()
    assert status(port) == 200


def test_a_page_that_takes_longer_than_a_request_may_is_served(
    port: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    from krisis.viewer.pages import runs

    made = runs.page

    def slow(*arguments: Any) -> Any:
        time.sleep(1.0)
        return made(*arguments)

    monkeypatch.setattr(runs, "page", slow)
    assert status(port) == 200


def test_a_connection_serves_one_request_after_another(port: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    for pause in (0.0, 0.3, 0.3):
        time.sleep(pause)
        connection.request("GET", "/", headers={"Authorization": f"Bearer {TOKEN}"})
        answer = connection.getresponse()
        assert (answer.status, bool(answer.read())) == (200, True)
    connection.close()

"""`krisis view` serves this machine only, and says what is wrong when it cannot."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import urllib.error
import urllib.request
import webbrowser
from pathlib import Path

import pytest
import uvicorn
from tests.invented_runs import invented_rows, result_of, write_run
from typer.testing import CliRunner

from krisis.cli.app import app
from krisis.errors import InvalidFile, InvalidValue


def test_the_command_serves_on_loopback_and_nowhere_else(tmp_path: Path) -> None:
    write_run(tmp_path / "run", result_of(invented_rows(20), "model/x"))
    command = "from krisis.cli.app import main; main()"
    arguments = ["view", str(tmp_path), "--port", "0", "--no-browser"]
    process = subprocess.Popen(
        [sys.executable, "-c", command, *arguments], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        said = process.stdout.readline()
        address = re.search(r"http://127\.0\.0\.1:(\d+)/\?token=([\w-]{40,})", said)
        assert address, said
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        with opener.open(address.group(), timeout=30) as answer:
            assert "model/x" in answer.read().decode()
            assert address.group(2) not in answer.url
        with pytest.raises(urllib.error.HTTPError, match="403"):
            urllib.request.urlopen(address.group().partition("?")[0], timeout=30)
        with socket.socket() as other, pytest.raises(OSError, match="refused"):
            other.connect(("127.0.0.2", int(address.group(1))))
    finally:
        process.terminate()
        process.wait(20)
        if process.stdout:
            process.stdout.close()


def test_a_taken_port_and_a_missing_folder_get_a_sentence(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        busy = CliRunner().invoke(app, ["view", str(tmp_path), "--port", port, "--no-browser"])
    assert isinstance(busy.exception, InvalidValue)
    assert port in str(busy.exception)
    missing = CliRunner().invoke(app, ["view", str(tmp_path / "nowhere"), "--no-browser"])
    assert isinstance(missing.exception, InvalidFile)


def test_the_browser_opens_the_address_that_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[str] = []
    monkeypatch.setattr(webbrowser, "open", opened.append)
    monkeypatch.setattr(uvicorn.Server, "run", lambda self, sockets: sockets[0].close())
    said = CliRunner().invoke(app, ["view", str(tmp_path), "--port", "0"]).output
    assert "?token=" in said
    assert opened[0] in said
    plain = CliRunner().invoke(app, ["view", str(tmp_path), "--port", "0", "--no-token"]).output
    assert "token" not in plain
    assert "token" not in opened[1]
    again = CliRunner().invoke(app, ["view", str(tmp_path), "--port", "0"]).output
    assert opened[0].partition("token=")[2] not in again

"""`krisis view` serves this machine only, and says what is wrong when it cannot."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
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
        address = re.search(r"http://127\.0\.0\.1:(\d+)/", said)
        assert address, said
        with urllib.request.urlopen(address.group(), timeout=30) as answer:
            assert "model/x" in answer.read().decode()
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

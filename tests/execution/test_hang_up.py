"""Closing the terminal ends a run as SIGTERM does: nothing is lost, and nothing is paid twice."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.commands import krisis
from tests.terminals import Terminal

from krisis.runs.load import list_runs, load_run

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGHUP")
N_RECORDS = 48
# The tests themselves may run under nohup, and a process inherits that it ignores the signal.
HEEDING = (
    "import os, signal, sys; signal.signal(signal.SIGHUP, signal.SIG_DFL); "
    "os.execv(sys.executable, [sys.executable, '-m', 'krisis', *sys.argv[1:]])"
)


def words(server: Any, out: Path) -> list[str]:
    return [
        *("run", "ckd", "--model", "openai/parity-1", "--base-url", server.base_url),
        *("--limit", str(N_RECORDS), "--batch-size", "1", "--max-concurrency", "4"),
        *("--no-baselines", "--no-cache", "--output", str(out)),
    ]


def n_asked(server: Any) -> int:
    return sum(server.counts()["kinds"].values())


def wait_for_calls(server: Any, least: int, process: subprocess.Popen[Any]) -> None:
    deadline = time.monotonic() + 60
    while n_asked(server) < least:
        assert process.poll() is None
        assert time.monotonic() < deadline
        time.sleep(0.01)


def stored(out: Path) -> int:
    (run,) = list_runs(out)
    return len(load_run(run).evaluation_results)


@pytest.mark.parametrize("display", ["rich", "plain"])
def test_a_closed_terminal_loses_nothing_and_nothing_is_paid_twice(
    tmp_path: Path, loopback: Callable[..., Any], display: str
) -> None:
    server, out = loopback(latency=0.1), tmp_path / "runs"
    started = words(server, out)
    for n_hang_ups in range(3):
        terminal = Terminal(*started, "--display", display, cwd=tmp_path)
        wait_for_calls(server, 10 * (n_hang_ups + 1), terminal.process)
        terminal.close()
        assert terminal.process.wait(60) == 130
        (run,) = list_runs(out)
        assert [one.name for one in out.iterdir()] == [run.name]  # no side files
        assert stored(out) == n_asked(server) < N_RECORDS
        started = ["resume", str(run), "--no-cache", "--max-concurrency", "4"]
    assert krisis("resume", str(run), "--display", "none", cwd=tmp_path).returncode == 0
    assert stored(out) == n_asked(server) == N_RECORDS


def asked_to_stop(run_words: list[str], server: Any, cwd: Path, *names: str) -> tuple[int, str]:
    """Send signals to a run with calls in progress; return its exit code and what it said."""
    run = subprocess.Popen(
        [sys.executable, "-c", HEEDING, *run_words, "--display", "none"],
        cwd=cwd,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    wait_for_calls(server, 6, run)
    for name in names:
        run.send_signal(signal.Signals[name])
        time.sleep(0.1)
    _, errors = run.communicate(timeout=60)
    return run.returncode, errors


@pytest.mark.parametrize(
    "names",
    [
        ["SIGHUP", "SIGHUP", "SIGHUP"],
        ["SIGHUP", "SIGTERM"],
        ["SIGTERM", "SIGHUP"],
        ["SIGHUP", "SIGHUP", "SIGTERM", "SIGHUP"],
    ],
    ids=" ".join,
)
def test_whatever_a_closed_terminal_sends_is_no_second_ctrl_c(
    tmp_path: Path, loopback: Callable[..., Any], names: list[str]
) -> None:
    server, out = loopback(latency=1.0), tmp_path / "runs"
    code, errors = asked_to_stop(words(server, out), server, tmp_path, *names)
    assert code == 130, errors
    assert errors.count("Finishing calls in progress") == 1
    assert "krisis resume" in errors
    assert stored(out) == n_asked(server) < N_RECORDS


@pytest.mark.parametrize(
    "names",
    [
        ["SIGINT", "SIGINT"],
        ["SIGTERM", "SIGTERM"],
        ["SIGINT", "SIGTERM"],
        ["SIGHUP", "SIGINT"],
        ["SIGHUP", "SIGTERM", "SIGTERM"],
    ],
    ids=" ".join,
)
def test_a_second_request_of_a_person_quits_now(
    tmp_path: Path, loopback: Callable[..., Any], names: list[str]
) -> None:
    server, out = loopback(latency=2.0), tmp_path / "runs"
    code, errors = asked_to_stop(words(server, out), server, tmp_path, *names)
    assert code == 130, errors
    assert stored(out) < n_asked(server)  # those in progress are not waited for


def test_under_nohup_a_run_goes_on(tmp_path: Path, loopback: Callable[..., Any]) -> None:
    server, out = loopback(latency=0.05), tmp_path / "runs"
    ignoring = (
        "import os, signal, sys; signal.signal(signal.SIGHUP, signal.SIG_IGN); "
        "os.execv(sys.executable, [sys.executable, '-m', 'krisis', *sys.argv[1:]])"
    )
    run = subprocess.Popen(
        [sys.executable, "-c", ignoring, *words(server, out), "--display", "none"],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    wait_for_calls(server, 6, run)
    os.kill(run.pid, signal.SIGHUP)
    assert run.wait(60) == 0
    assert stored(out) == N_RECORDS

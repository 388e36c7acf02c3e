"""A cluster of real processes, killed at random, as a user of the command line would see it."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from krisis.errors import KrisisError
from krisis.runs.load import list_runs, load_run, stored_result
from krisis.runs.read import open_run

psutil = pytest.importorskip("psutil")
pytest.importorskip("distributed")
pytestmark = pytest.mark.slow

BURN = """
from krisis import BackendResponse, BaseBackend

class Burn(BaseBackend):
    name, max_retries = "burn", 0

    def __init__(self, n: int = 200_000) -> None:
        self.n = n

    def evaluate(self, record):
        total = sum(i * i % 7 for i in range(self.n))
        last = int(record.record_id[-1], 36)
        if last == 7:
            return BackendResponse(None, abstained=True)
        return BackendResponse(last % 2, confidence=0.5 + total % 5 / 10)
"""


@pytest.fixture
def burn(tmp_path: Path) -> str:
    (tmp_path / "burn.py").write_text(BURN, encoding="utf-8", newline="")
    return f"{tmp_path}/burn.py:Burn"


Start = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start Python on a module; whatever is left of it ends with the test."""
    started = []

    def begin(*words: str, **variables: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, "-m", *words],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
            env={**os.environ, **variables},
        )
        started.append(process)
        return process

    yield begin
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def run_words(burn: str, n: int, out: Path, *more: str) -> list[str]:
    words = ["krisis", "run", "ckd", "--n-synthetic", str(n), "--model", burn, "--output", str(out)]
    return [*words, "--display", "none", "--no-baselines", *more]


def n_rows(out: Path) -> int:
    for path in out.glob("*.krisis"):
        with suppress(KrisisError), open_run(path, checked=True) as run:
            return run.n_rows
    return 0


def wait_until(condition: Callable[[], Any], seconds: float = 240.0) -> Any:
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return found


def of_the_cluster(process: subprocess.Popen[str]) -> list[Any]:
    """Return the worker processes that a client has started."""
    try:
        children = psutil.Process(process.pid).children(recursive=True)
        return [one for one in children if "spawn_main" in " ".join(one.cmdline())]
    except psutil.Error:
        return []


def check_same_as_one_machine(start: Start, burn: str, n: int, out: Path, tmp_path: Path) -> None:
    """Compare with a run in one process: the same rows, each once, same scores."""
    alone = tmp_path / "alone"
    process = start(*run_words(burn, n, alone, "--model-option", "n=200000"))
    assert process.wait() == 0, process.communicate()
    ours, theirs = load_run(list_runs(out)[0]), load_run(list_runs(alone)[0])
    assert n_rows(out) == n == len(ours.evaluation_results)
    assert [replace(row, latency_seconds=None) for row in ours.evaluation_results] == [
        replace(row, latency_seconds=None) for row in theirs.evaluation_results
    ]
    assert repr(ours.metric_scores) == repr(theirs.metric_scores)
    with open_run(list_runs(out)[0]) as run:
        assert stored_result(run) is not None


def test_sixty_killed_workers_lose_and_double_nothing(
    start: Start, burn: str, tmp_path: Path
) -> None:
    n, out, draws, n_killed = 1500, tmp_path / "runs", random.Random(0), 0
    options = ("--model-option", "n=200000", "--cluster", "local:2")
    process = start(*run_words(burn, n, out, *options))
    for n_before in sorted(draws.sample(range(1, n - 100), 60)):
        # Spread over the run by its progress, whatever the speed of the machine.
        wait_until(lambda n_before=n_before: n_rows(out) >= n_before)
        draws.choice(wait_until(lambda: of_the_cluster(process))).kill()
        n_killed += 1
    _, errors = process.communicate(timeout=400)
    assert (process.returncode, n_killed) == (0, 60), errors
    assert set(errors.splitlines()) <= {"no worker is at local:2; waiting for one"}
    check_same_as_one_machine(start, burn, n, out, tmp_path)


def test_a_killed_client_leaves_no_process_and_resume_finishes(
    start: Start, burn: str, tmp_path: Path
) -> None:
    n, out = 300, tmp_path / "runs"
    options = ("--model-option", "n=200000", "--cluster", "local:2")
    process = start(*run_words(burn, n, out, *options))
    for n_before in (40, 150):
        wait_until(lambda n_before=n_before: n_rows(out) >= n_before)
        workers = of_the_cluster(process)
        assert len(workers) == 2
        process.kill()
        process.communicate()
        wait_until(lambda workers=workers: not any(map(psutil.Process.is_running, workers)), 15)
        process = start("krisis", "resume", str(list_runs(out)[0]), "--display", "none")
    _, errors = process.communicate(timeout=400)
    assert (process.returncode, errors) == (0, "")
    check_same_as_one_machine(start, burn, n, out, tmp_path)


@pytest.mark.parametrize("n_signals", [1, 2])
def test_ctrl_c_ends_the_run_and_its_workers(
    n_signals: int, start: Start, burn: str, tmp_path: Path
) -> None:
    out = tmp_path / "runs"
    options = ("--model-option", "n=2000000", "--cluster", "local:2")
    process = start(*run_words(burn, 400, out, *options))
    wait_until(lambda: n_rows(out) >= 10)
    workers = of_the_cluster(process)
    for _ in range(n_signals):
        process.send_signal(signal.SIGINT)
        time.sleep(0.3)
    _, errors = process.communicate(timeout=120)
    assert process.returncode == (130 if n_signals == 1 else process.returncode) != 0
    assert "Finishing calls in progress" in errors
    if n_signals == 1:
        assert "to continue, type: krisis resume" in errors
    wait_until(lambda: not any(map(psutil.Process.is_running, workers)), 15)


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@pytest.fixture
def scheduler(start: Start) -> tuple[str, Callable[[], subprocess.Popen[str]]]:
    port = free_port()

    def begin() -> subprocess.Popen[str]:
        words = ["distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", str(port)]
        return start(*words, "--no-dashboard", "--dashboard-address", "127.0.0.1:0")

    return f"tcp://127.0.0.1:{port}", begin


def worker(start: Start, address: str, **variables: str) -> subprocess.Popen[str]:
    words = ["distributed.cli.dask_worker", address, "--nthreads", "1", "--no-dashboard"]
    return start(*words, "--death-timeout", "30", **variables)


def test_a_restarted_scheduler_and_late_workers_finish_the_run(
    start: Start, burn: str, tmp_path: Path, scheduler: Any
) -> None:
    n, out = 400, tmp_path / "runs"
    address, begin = scheduler
    first = begin()
    options = ("--model-option", "n=200000", "--cluster", address)
    process = start(*run_words(burn, n, out, *options))  # before there is any worker
    worker(start, address)
    wait_until(lambda: n_rows(out) >= 30)
    first.kill()
    time.sleep(2)
    begin()
    worker(start, address)
    wait_until(lambda: n_rows(out) >= 150)
    worker(start, address)
    _, errors = process.communicate(timeout=400)
    assert process.returncode == 0, errors
    said = [line.split(" tcp")[0] for line in errors.splitlines()]
    assert [words for words in said if "connect" in words] == ["the connection to", "connected to"]
    # Whether a moment without a worker is seen depends on who joins first.
    assert {"the connection to", "connected to"} <= set(said)
    check_same_as_one_machine(start, burn, n, out, tmp_path)


def test_a_worker_of_another_version_is_refused_at_the_start_and_later(
    start: Start, burn: str, tmp_path: Path, scheduler: Any
) -> None:
    facts = tmp_path / "other" / "krisis_eval-9.9.dist-info"
    facts.mkdir(parents=True)
    text = "Metadata-Version: 2.1\nName: krisis-eval\nVersion: 9.9\n"
    (facts / "METADATA").write_text(text, encoding="utf-8", newline="")
    other = os.pathsep.join([str(facts.parent), os.environ.get("PYTHONPATH", "")])
    n, out, (address, begin) = 400, tmp_path / "runs", scheduler
    begin()
    strange = worker(start, address, PYTHONPATH=other)
    options = ("--model-option", "n=200000", "--cluster", address)
    process = start(*run_words(burn, 50, out, *options))
    _, errors = process.communicate(timeout=100)
    assert process.returncode == 2
    assert "is refused: it has krisis-eval 9.9, this machine 0.1.0" in errors
    assert not out.exists()
    strange.terminate()
    strange.wait()
    worker(start, address)
    process = start(*run_words(burn, n, out, *options))
    wait_until(lambda: n_rows(out) >= 10)
    worker(start, address, PYTHONPATH=other)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 0
    assert "is refused: it has krisis-eval 9.9, this machine 0.1.0" in errors
    check_same_as_one_machine(start, burn, n, out, tmp_path)

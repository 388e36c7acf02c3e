"""A run that is killed at any moment loses nothing that was finished."""

from __future__ import annotations

import json
import random
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from krisis.metrics.base import EvaluationResult
from krisis.results.journal_reading import read_journal
from krisis.results.store import RunDirectory, list_runs, load_run

Start = Callable[..., "subprocess.Popen[str]"]


def journaled(out: Path) -> set[str]:
    runs = list_runs(out)
    if not runs or not RunDirectory(runs[0]).rows.exists():
        return set()
    rows = read_journal(RunDirectory(runs[0]).rows).rows
    return {row.record_id.removeprefix("r") for row in rows.values()}


def untimed(rows: list[EvaluationResult]) -> list[EvaluationResult]:
    """Return the rows without what a clock said of them."""
    assert all(row.latency_seconds is not None for row in rows)
    return [replace(row, latency_seconds=None) for row in rows]


def wait_for_rows(out: Path, process: subprocess.Popen[str], n_rows: int) -> None:
    """Return when the journal holds that many lines, or the process has ended."""
    deadline = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < deadline:
        files = list(out.glob("*/rows.jsonl"))
        if files and files[0].read_bytes().count(b"\n") >= n_rows:
            return
        time.sleep(0.002)


def killed_again_and_again(
    options: dict[str, Any], out: Path, start_worker: Start, *, n_kills: int, server: Any
) -> list[tuple[set[str], dict[str, int]]]:
    """Kill the run, resume it, kill it again; return what was finished and asked at each kill.

    The moments are spread over the whole run whatever the speed of the machine.
    """
    snapshots = []
    for n_rows in sorted(random.Random(0).sample(range(5, options["n"] - 40), n_kills)):
        runs = list_runs(out)
        process = start_worker({**options, **({"resume": str(runs[0])} if runs else {})})
        wait_for_rows(out, process, n_rows)
        process.kill()
        _, errors = process.communicate()
        assert errors == ""
        snapshots.append((journaled(out), server.counts()["begun"]))
    return snapshots


def check_kills(
    tmp_path: Path, loopback: Any, start_worker: Start, worker: ModuleType, n: int, n_kills: int
) -> dict[str, Any]:
    server = loopback(latency=0.02)
    out = tmp_path / "runs"
    options = {"out": str(out), "base_url": server.base_url, "n": n, "max_concurrency": 16}
    snapshots = killed_again_and_again(options, out, start_worker, n_kills=n_kills, server=server)
    (run,) = list_runs(out)
    last = start_worker({**options, "resume": str(run)})
    printed, errors = last.communicate(timeout=300)
    assert (printed, errors) == ("done\n", "")

    counts = server.counts()
    for finished, begun in snapshots:
        for marker in finished:
            assert counts["begun"][marker] == begun[marker], "a finished call was repeated"
    result = load_run(run)
    assert [row.record_id for row in result.evaluation_results] == [
        f"r{i}" for i in range(1000, 1000 + n)
    ]
    n_asked = sum(counts["begun"].values())
    assert n_asked <= n + 16 * n_kills

    whole = worker.benchmark(options, None).run()
    assert untimed(whole.evaluation_results) == untimed(result.evaluation_results)
    assert whole.to_dict()["metric_scores"] == result.to_dict()["metric_scores"]
    return {"asked": n_asked, "finished_at_kills": [len(done) for done, _ in snapshots]}


def test_a_run_killed_three_times_asks_no_finished_record_again(
    tmp_path: Path,
    loopback: Any,
    start_worker: Start,
    worker: ModuleType,
    no_key_in: Callable[..., None],
) -> None:
    figures = check_kills(tmp_path, loopback, start_worker, worker, n=250, n_kills=3)
    assert 0 < figures["finished_at_kills"][0] < 250
    assert figures["finished_at_kills"] == sorted(figures["finished_at_kills"])
    no_key_in(tmp_path, json.dumps(figures))


@pytest.mark.slow
def test_a_run_of_2000_records_killed_30_times(
    tmp_path: Path,
    loopback: Any,
    start_worker: Start,
    worker: ModuleType,
    no_key_in: Callable[..., None],
) -> None:
    figures = check_kills(tmp_path, loopback, start_worker, worker, n=2000, n_kills=30)
    print(figures)
    no_key_in(tmp_path)

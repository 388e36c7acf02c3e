"""A run that is killed at any moment loses nothing that was finished."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.invented_runs import rows_in

from krisis.errors import KrisisError
from krisis.metrics.base import EvaluationResult
from krisis.results.call_totals import CallTotals
from krisis.runs.load import list_runs, load_run
from krisis.runs.read import open_run

Start = Callable[..., "subprocess.Popen[str]"]


def recorded(out: Path) -> set[str]:
    runs = list_runs(out)
    if not runs:
        return set()
    rows = rows_in(runs[0])
    return {row.record_id.removeprefix("r") for row in rows.values()}


def totals_of(path: Path) -> CallTotals:
    with open_run(path) as run:
        return run.contents().totals


def untimed(rows: list[EvaluationResult]) -> list[EvaluationResult]:
    """Return the rows without what a clock said of them."""
    assert all(row.latency_seconds is not None for row in rows)
    return [replace(row, latency_seconds=None) for row in rows]


def wait_for_rows(out: Path, process: subprocess.Popen[str], n_rows: int) -> None:
    """Return when the run holds that many rows, or the process has ended."""
    deadline = time.monotonic() + 600
    while process.poll() is None and time.monotonic() < deadline:
        path = next(iter(out.glob("*.krisis")), out)
        with suppress(KrisisError), open_run(path, checked=True) as run:
            if run.n_rows >= n_rows:
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
        snapshots.append((recorded(out), server.counts()["begun"]))
    return snapshots


# Scoring, and every step in which a run is ended.
LAST_STEPS = ["scoring", "storing scores", "merging", "releasing"]


def killed_at_its_end(
    options: dict[str, Any], out: Path, start_worker: Start, n_kills: int
) -> None:
    """Kill the run while it scores its rows and while it writes its scores."""
    for i in range(n_kills):
        step = LAST_STEPS[i % len(LAST_STEPS)]
        resumed = {"resume": str(list_runs(out)[0])} if list_runs(out) else {}
        process = start_worker({**options, **resumed, "die_at": step})
        assert process.communicate(timeout=300) == ("", "")
        assert process.returncode == -signal.SIGKILL, step
        (run,) = list_runs(out)
        assert load_run(run).damage == ""
        assert [one.name for one in out.iterdir()] == [run.name]


def check_kills(
    tmp_path: Path,
    loopback: Any,
    start_worker: Start,
    worker: ModuleType,
    n: int,
    n_kills: int,
    n_late_kills: int = 0,
    **settings: Any,
) -> dict[str, Any]:
    server = loopback(latency=settings.pop("latency", 0.02))
    out = tmp_path / "runs"
    options = {"out": str(out), "base_url": server.base_url, "n": n, "max_concurrency": 16}
    options |= settings
    snapshots = killed_again_and_again(options, out, start_worker, n_kills=n_kills, server=server)
    if n_late_kills:
        killed_at_its_end(options, out, start_worker, n_late_kills)
        snapshots.append((recorded(out), server.counts()["begun"]))
        assert len(snapshots[-1][0]) == n
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
    assert list(out.iterdir()) == [run]
    n_asked = sum(counts["begun"].values())
    assert n_asked <= n + options["max_concurrency"] * options.get("batch_size", 1) * n_kills

    whole = worker.benchmark({**options, "cache": None}, None).run()
    assert untimed(whole.evaluation_results) == untimed(result.evaluation_results)
    assert whole.to_dict()["metric_scores"] == result.to_dict()["metric_scores"]
    return {"asked": n_asked, "finished_at_kills": [len(done) for done, _ in snapshots]}


def test_a_run_killed_twice_asks_no_finished_record_again(
    tmp_path: Path,
    loopback: Any,
    start_worker: Start,
    worker: ModuleType,
    no_key_in: Callable[..., None],
) -> None:
    figures = check_kills(tmp_path, loopback, start_worker, worker, n=100, n_kills=2)
    assert 0 < figures["finished_at_kills"][0] < 100
    assert figures["finished_at_kills"] == sorted(figures["finished_at_kills"])
    no_key_in(tmp_path, json.dumps(figures))


@pytest.mark.slow
def test_killed_and_resumed_a_run_is_billed_no_more_than_its_budget(
    tmp_path: Path, loopback: Any, start_worker: Start
) -> None:
    # A token for each byte and for all that may be written: what is set aside, but for the frame.
    server = loopback(latency=0.15, is_dear=True)
    bound = 60_000
    options = {"out": str(tmp_path), "base_url": server.base_url, "n": 400, "max_concurrency": 16}
    options |= {"max_output_tokens": 64, "limits": {"max_tokens": bound}}
    for n_rows in (4, 12):
        runs = list_runs(tmp_path)
        process = start_worker({**options, **({"resume": str(runs[0])} if runs else {})})
        wait_for_rows(tmp_path, process, n_rows)
        process.kill()
        process.communicate()
    (run,) = list_runs(tmp_path)
    asked = server.counts()
    at_kills = totals_of(run)
    assert at_kills.n_calls_without_usage >= asked["kinds"]["good"] - len(recorded(tmp_path)) > 0
    last = start_worker({**options, "resume": str(run)})
    assert last.communicate(timeout=60) == ("done\n", "")
    result, billed = load_run(run), server.counts()["n_billed"]
    assert result.stop is not None
    assert result.stop.name == "BudgetReached"
    spent = totals_of(run)
    assert billed <= sum(spent.most_tokens) <= bound
    assert result.spending.n_calls_without_usage == spent.n_calls_without_usage


@pytest.mark.slow
def test_a_run_killed_while_it_scores_and_writes_its_scores_only_ends_later(
    tmp_path: Path, loopback: Any, start_worker: Start, worker: ModuleType
) -> None:
    check_kills(
        tmp_path, loopback, start_worker, worker, n=40, n_kills=0, n_late_kills=len(LAST_STEPS)
    )


@pytest.mark.slow
def test_a_run_in_batches_with_the_cache_killed_100_times(
    tmp_path: Path,
    loopback: Any,
    start_worker: Start,
    worker: ModuleType,
    no_key_in: Callable[..., None],
) -> None:
    figures = check_kills(
        tmp_path,
        loopback,
        start_worker,
        worker,
        n=2000,
        n_kills=70,
        n_late_kills=30,
        latency=0.1,
        batch_size=8,
        max_concurrency=2,
        cache=str(tmp_path / "cache.sqlite"),
    )
    print(figures)
    no_key_in(tmp_path)


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

"""A provider that limits, fails, hangs, cuts, garbles and refuses: every row is accounted for."""

from __future__ import annotations

import json
import logging
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from krisis.errors import AuthenticationFailed, RequestRefused
from krisis.execution.recorder import Recorder
from krisis.results.result import BenchmarkResult
from krisis.results.stops import TooManyFailures
from krisis.runs.load import list_runs, load_run

FAULTS = {
    "rate_limit": 0.20,
    "server_error": 0.05,
    "hang": 0.02,
    "cut": 0.02,
    "malformed": 0.015,
    "wrong_ids": 0.015,
    "refusal": 0.01,
}


def weathered(
    tmp_path: Path, loopback: Any, worker: ModuleType, n: int
) -> tuple[BenchmarkResult, dict[str, Any]]:
    server = loopback(latency=0.005, faults=FAULTS, retry_after="0.03", seed=3)
    options = {
        "base_url": server.base_url,
        "n": n,
        "batch_size": 8,
        "max_concurrency": 32,
        "timeout": 2.0,
    }
    result = worker.benchmark(options, Recorder(tmp_path)).run()
    return result, server.counts()


def check_weathered(result: BenchmarkResult, counts: dict[str, Any], n: int) -> dict[str, Any]:
    rows = result.evaluation_results
    assert [row.record_id for row in rows] == [f"r{i}" for i in range(1000, 1000 + n)]
    for row in rows:
        marker = int(row.record_id[1:])
        if row.outcome == "answered":
            assert (row.prediction, row.confidence) == (marker % 2, 0.5 + marker % 50 / 100)
        elif row.outcome == "abstained":
            assert row.signals["refusal"] is True
        else:
            assert row.error is not None
            assert row.failure_class in {
                "rate_limit",
                "unavailable",
                "timeout",
                "malformed_reply",
            }
    outcomes = Counter(row.outcome for row in rows)
    n_requests = sum(counts["kinds"].values())
    # A call whose connection breaks before the server reads it was made all the same.
    assert n_requests <= result.extras["n_api_calls"] <= 1.02 * n_requests + 2
    ideal = result.extras["n_api_batches"]
    assert n_requests <= 1.6 * ideal
    assert outcomes["failed"] <= 0.02 * n
    return {"outcomes": dict(outcomes), "requests": n_requests, "ideal": ideal, **counts["kinds"]}


def test_every_row_of_a_stormy_run_is_accounted_for(
    tmp_path: Path, loopback: Any, worker: ModuleType, no_key_in: Callable[..., None]
) -> None:
    result, counts = weathered(tmp_path, loopback, worker, 800)
    check_weathered(result, counts, 800)
    (run,) = list_runs(tmp_path)
    assert load_run(run).evaluation_results == list(result.evaluation_results)
    no_key_in(tmp_path, result.to_json(), repr(result), repr(result.extras))


@pytest.mark.slow
def test_ten_thousand_records_in_a_storm(
    tmp_path: Path, loopback: Any, worker: ModuleType, no_key_in: Callable[..., None]
) -> None:
    result, counts = weathered(tmp_path, loopback, worker, 10_000)
    figures = check_weathered(result, counts, 10_000)
    print(json.dumps(figures), result.extras["elapsed_seconds"])
    no_key_in(tmp_path, result.to_json())


@pytest.mark.slow
def test_concurrency_finds_what_the_provider_bears(loopback: Any, worker: ModuleType) -> None:
    def n_refused(**limits: Any) -> int:
        server = loopback(latency=0.05, capacity=12, retry_after="0.02")
        options = {
            "base_url": server.base_url,
            "n": 200,
            "max_concurrency": 64,
            "max_retries": 50,
            "limits": limits,
        }
        result = worker.benchmark(options, None).run()
        assert result.attrition.n_lost == 0
        return int(server.counts()["kinds"]["rate_limit"])

    adaptive, fixed = n_refused(), n_refused(adaptive=False)
    assert adaptive < 0.6 * 200
    assert adaptive < fixed / 2


def test_a_refused_key_ends_the_run_at_once_and_is_not_repeated(
    tmp_path: Path,
    loopback: Any,
    worker: ModuleType,
    no_key_in: Callable[..., None],
    caplog: pytest.LogCaptureFixture,
) -> None:
    server = loopback(key="another")
    options = {"base_url": server.base_url, "n": 200, "max_concurrency": 4}
    caplog.set_level(logging.DEBUG)
    with pytest.raises(AuthenticationFailed, match="key") as caught:
        worker.benchmark(options, Recorder(tmp_path)).run()
    assert server.counts()["kinds"]["auth"] <= 4
    told = "".join(traceback.format_exception(caught.value))
    no_key_in(tmp_path, told, repr(caught.value), caplog.text)


def test_a_refused_request_ends_the_run_at_once(loopback: Any, worker: ModuleType) -> None:
    server = loopback()
    options = {"base_url": server.base_url.replace("/v1", "/v2"), "n": 200}
    with pytest.raises(RequestRefused, match="404"):
        worker.benchmark(options, None).run()


def test_a_dead_provider_gives_failed_rows_and_no_accuracy(
    loopback: Any, worker: ModuleType
) -> None:
    server = loopback(faults={"server_error": 1.0})
    options = {
        "base_url": server.base_url,
        "n": 200,
        "max_retries": 0,
        "limits": {"max_failures": 0.05},
    }
    result = worker.benchmark(options, None).run()
    counts = result.attrition
    assert counts.n_answered == 0
    assert counts.n_lost == counts.n_sent < 60
    assert counts.failures["unavailable"].n == counts.n_lost
    assert isinstance(result.stop, TooManyFailures)
    assert "max_failures" in result.extras["stopped"]
    assert result.metric_scores["accuracy"].n_evaluated == 0
    assert result.to_dict()["metric_scores"]["Accuracy"]["value"] is None


def test_a_budget_is_not_overrun_and_the_run_goes_on_with_a_larger_one(
    tmp_path: Path, loopback: Any, worker: ModuleType
) -> None:
    server = loopback()
    options = {"base_url": server.base_url, "n": 60, "limits": {"max_tokens": 3000}}
    first = worker.benchmark(options, Recorder(tmp_path)).run()
    assert "max_tokens 3000" in first.extras["stopped"]
    n_first = len(first.evaluation_results)
    assert 0 < n_first < 60
    # The server counts 110 tokens a call; it stops within one call of the bound.
    assert 3000 - 250 <= first.extras["token_total"] == 110 * n_first <= 3000
    (run,) = list_runs(tmp_path)
    second = worker.benchmark({**options, "limits": {}}, Recorder.resume(run)).run()
    assert len(second.evaluation_results) == 60
    assert second.extras["n_api_calls"] == 60 == sum(server.counts()["kinds"].values())
    assert second.extras["token_total"] == 6600


def test_a_reply_is_paid_once(tmp_path: Path, loopback: Any, worker: ModuleType) -> None:
    server = loopback()
    options = {"base_url": server.base_url, "n": 40, "cache": str(tmp_path / "replies.sqlite")}
    first = worker.benchmark(options, None).run()
    second = worker.benchmark(options, None).run()
    assert sum(server.counts()["kinds"].values()) == 40
    assert list(first.evaluation_results) == list(second.evaluation_results)
    assert (second.extras["n_api_calls"], second.extras["n_cache_hits"]) == (0, 40)
    assert second.extras["cached_input_tokens"] == 4000


def test_calls_keep_to_the_rate_per_minute(loopback: Any, worker: ModuleType) -> None:
    server = loopback()
    options = {"base_url": server.base_url, "n": 30, "limits": {"requests_per_minute": 1200}}
    result = worker.benchmark(options, None).run()
    # 20 go at once, the other 10 at 20 a second.
    assert result.extras["elapsed_seconds"] >= 0.45


def test_no_more_calls_are_open_than_allowed(loopback: Any, worker: ModuleType) -> None:
    server = loopback(latency=0.02)
    worker.benchmark({"base_url": server.base_url, "n": 80, "max_concurrency": 5}, None).run()
    assert server.counts()["most_open"] == 5

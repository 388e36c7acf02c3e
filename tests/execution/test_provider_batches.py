"""Provider batches: every record ends once and nothing is bought twice, whatever happens."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from tests.execution.test_command_and_server import krisis
from tests.invented_runs import edit_run

from krisis import Benchmark
from krisis.backends import transport
from krisis.backends.anthropic import AnthropicBackend, AnthropicBatches
from krisis.backends.batch_api import BatchApi, Sighting
from krisis.backends.compatible import CompatibleBackend
from krisis.backends.gemini import GeminiBackend
from krisis.backends.openai import OpenAIBackend
from krisis.backends.provider import ProviderBackend
from krisis.errors import AuthenticationFailed, InvalidFile, InvalidValue, RunConflict
from krisis.execution import provider_batches
from krisis.execution.cache import ReplyCache
from krisis.execution.cluster import Cluster
from krisis.execution.grid import GridFolder, grid_of
from krisis.execution.options import Batching, Execution
from krisis.execution.pacing.budget import Budget, CallSize, Limits, SharedBudget
from krisis.execution.pacing.prices import Price
from krisis.execution.recorder import Recorder
from krisis.execution.stopping import Stop
from krisis.grid import GridStop, _GridSession, prepare, run_grid
from krisis.metrics import Accuracy
from krisis.results.base import BenchmarkResult
from krisis.results.stops import Interrupted
from krisis.runs.load import list_runs, read_description
from krisis.runs.provider_batches import ProviderBatchLog
from krisis.runs.read import open_run

HERE = Path(__file__).parent
KEY = "sk-planted-0123456789abcdef"
PROVIDERS: dict[str, tuple[type[ProviderBackend], str]] = {
    "openai": (OpenAIBackend, "/v1"),
    "anthropic": (AnthropicBackend, ""),
    "gemini": (GeminiBackend, ""),
}
N = 12


class BatchServer:
    """The running server; `reset` gives it a new account with other options."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(HERE / "batch_server.py")], stdout=subprocess.PIPE, text=True
        )
        assert self._process.stdout is not None
        self.root = f"http://127.0.0.1:{int(self._process.stdout.readline())}"

    def reset(self, **options: Any) -> None:
        self._post("options", {"seconds": 0.05, **options})

    def change(self, **options: Any) -> None:
        self._post("change", options)

    def _post(self, path: str, options: dict[str, Any]) -> None:
        request = urllib.request.Request(f"{self.root}/{path}", json.dumps(options).encode())
        urllib.request.urlopen(request).close()

    def counts(self) -> dict[str, Any]:
        with urllib.request.urlopen(f"{self.root}/counts") as answer:
            return dict(json.load(answer))

    def close(self) -> None:
        self._process.terminate()
        self._process.communicate()


@pytest.fixture(scope="module")
def _server() -> Iterator[BatchServer]:
    server = BatchServer()
    yield server
    server.close()


@pytest.fixture
def server(_server: BatchServer, monkeypatch: pytest.MonkeyPatch) -> BatchServer:
    monkeypatch.setattr(provider_batches, "SETTLING_SECONDS", 0.1)
    _server.reset()
    return _server


def slow(*values: Any) -> list[Any]:
    """Return parameters of the slow tests."""
    return [pytest.param(value, marks=pytest.mark.slow) for value in values]


@pytest.fixture(params=["openai", *slow("anthropic", "gemini")])
def provider(request: pytest.FixtureRequest) -> str:
    return str(request.param)


class Runner:
    """Makes and continues the run of one test."""

    def __init__(self, root: str, provider: str, out: Path, suite: Any) -> None:
        self.root, self.provider, self.out, self.suite = root, provider, out, suite

    def backend(self) -> ProviderBackend:
        kind, path = PROVIDERS[self.provider]
        pauses = {"retry_base_seconds": 0.01, "retry_max_seconds": 0.02}
        return kind("parity-1", base_url=self.root + path, api_key=KEY, **pauses)  # type: ignore[call-arg]

    def __call__(
        self,
        *,
        batch_size: int = 1,
        limits: Limits | None = None,
        batching: Batching | None = Batching(),  # noqa: B008 - it is frozen
        cache: Any = None,
        stop: Stop | None = None,
    ) -> BenchmarkResult:
        runs = list_runs(self.out)
        recorder = Recorder.resume(runs[0]) if runs else Recorder(self.out)
        if batching is not None:
            batching = replace(batching, poll_seconds=0.02)
        execution = Execution(
            recorder=recorder,
            limits=limits or Limits(),
            batching=batching,
            prices={"*/parity-1": Price(10.0, 100.0)},
            cache=cache,
            stop=stop,
        )
        run = Benchmark(self.suite, self.backend(), [Accuracy()], batch_size, execution=execution)
        return run.run()

    @property
    def run(self) -> Path:
        (found,) = list_runs(self.out)
        return found


@pytest.fixture
def runner(server: BatchServer, provider: str, tmp_path: Path, worker: ModuleType) -> Runner:
    return Runner(server.root, provider, tmp_path / "runs", worker.suite(N))


def serials(n: int = N) -> list[str]:
    return [str(i) for i in range(1000, 1000 + n)]


def check_whole(result: BenchmarkResult, server: BatchServer, *, n: int = N) -> dict[str, Any]:
    """Every record has one row with the right answer, and no answer was bought twice."""
    rows = result.evaluation_results
    assert [row.record_id for row in rows] == [f"r{i}" for i in range(1000, 1000 + n)]
    assert [row.prediction for row in rows] == [i % 2 for i in range(1000, 1000 + n)]
    assert result.stop is None
    counts = server.counts()
    assert counts["bought"] == dict.fromkeys(serials(n), 1)
    return counts


def test_a_run_by_provider_batches_is_the_run_by_calls_at_half_the_price(
    runner: Runner, server: BatchServer, tmp_path: Path
) -> None:
    server.reset(order="reversed", twice=True)
    result = runner(batch_size=5)
    counts = check_whole(result, server)
    assert counts["sizes"] == [3]
    # 3 calls of 100 and 10 tokens at 10 and 100 dollars a million, half of it.
    assert result.spending.cost == pytest.approx(3 * (100 * 10 + 10 * 100) / 1e6 / 2)
    assert (result.spending.n_api_calls, result.spending.n_batch_calls) == (3, 3)
    assert result.spending.price_per_million_tokens["batch_share"] == 0.5
    with open_run(runner.run) as run:  # what the viewer shows of a run that goes on
        assert run.progress().outcomes["answered"] == N
        assert run.progress().cost == pytest.approx(result.spending.cost)
    live = Runner(server.root, runner.provider, tmp_path / "live", runner.suite)
    whole = live(batch_size=5, batching=None)
    assert whole.spending.cost == pytest.approx(2 * (result.spending.cost or 0))
    untimed = [replace(row, latency_seconds=None) for row in whole.evaluation_results]
    assert untimed == result.evaluation_results
    counts = server.counts()
    assert counts["bodies"]["batch"] == counts["bodies"]["live"]
    assert len(counts["bodies"]["live"]) == 3
    assert len(counts["keys"]) == 1  # the planted key came by a header, and in no other way
    stored = [runner.run.read_bytes().decode("utf-8", "replace")]
    assert not any(KEY in text for text in [*stored, json.dumps(counts["bodies"])])
    assert not any(KEY in text for text in counts["files"].values())


@pytest.mark.parametrize("fate", ["expired", *slow("cancelled", "partial", "empty")])
def test_what_a_provider_batch_leaves_goes_into_a_further_one(
    runner: Runner, server: BatchServer, fate: str
) -> None:
    server.reset(fates=[fate])
    result = runner()
    counts = check_whole(result, server)
    assert counts["sizes"] == [N, N if fate == "empty" else N // 2]
    n_again = counts["sizes"][1]
    assert (result.spending.n_api_calls, result.spending.n_retries) == (N + n_again, n_again)
    assert result.spending.cost == pytest.approx(N * 0.002 / 2)


@pytest.mark.slow
def test_a_request_that_no_provider_batch_answers_fails_after_three(
    runner: Runner, server: BatchServer
) -> None:
    server.reset(fates=["expired", "empty", "empty"])
    result = runner()
    rows = result.evaluation_results
    assert [row.error is None for row in rows] == [True] * 6 + [False] * 6
    assert {row.failure_class for row in rows[6:]} == {"unavailable"}
    assert server.counts()["sizes"] == [12, 6, 6]


def test_errors_within_a_provider_batch_are_those_of_ordinary_calls(
    runner: Runner, server: BatchServer
) -> None:
    server.reset(items={"1001": [400], "1002": [500], "1003": ["missing"], "1004": [429]})
    result = runner()
    rows = {row.record_id: row for row in result.evaluation_results}
    assert rows["r1001"].failure_class == "refused_request"
    assert "refused 400" in str(rows["r1001"].error)
    assert [row.error is None for row in rows.values()] == [True, False, *[True] * 10]
    counts = server.counts()
    assert counts["sizes"] == [N, 3]
    assert set(counts["bought"].values()) == {1}


def test_malformed_replies_are_halved_in_a_second_smaller_provider_batch(
    runner: Runner, server: BatchServer
) -> None:
    # Both replies about 1005 alone break off as well: asked once more, then it has failed.
    server.reset(items={"1005": ["malformed"] * 5, "1011": ["malformed"]})
    result = runner(batch_size=4)
    rows = result.evaluation_results
    assert [row.record_id for row in rows if row.error] == ["r1005"]
    assert rows[5].failure_class == "malformed_reply"
    assert server.counts()["sizes"] == [3, 4, 2]
    assert result.spending.n_batch_splits == 3
    assert result.spending.lost_input_tokens == 4 * 100


def test_malformed_replies_can_go_to_ordinary_calls(runner: Runner, server: BatchServer) -> None:
    server.reset(items={"1005": ["malformed"], "1011": ["malformed"]})
    result = runner(batch_size=4, batching=Batching(then_live=True))
    counts = server.counts()
    assert [row.prediction for row in result.evaluation_results] == [0, 1] * 6
    assert counts["sizes"] == [3]
    assert counts["live"] == dict.fromkeys(serials()[4:], 1)
    # Three calls at half the price, four at the whole.
    assert result.spending.cost == pytest.approx(0.002 * (3 / 2 + 4))
    assert (result.spending.n_api_calls, result.spending.n_batch_calls) == (7, 3)


@pytest.mark.parametrize(
    "faults",
    [
        {"made": [503]},
        *slow({"upload": [429, 503], "create": [429, 429, 503]}),
        *slow({"state": [429, 500, 503], "results": [429, 503], "list": [500, 429]}),
    ],
    ids=["made", "submitting", "looking"],
)
def test_faults_of_every_endpoint_cost_time_and_nothing_else(
    runner: Runner, server: BatchServer, faults: dict[str, list[int]]
) -> None:
    server.reset(faults=faults)
    counts = check_whole(runner(), server)
    assert counts["n_batches"] == 1


def test_a_provider_batch_that_fails_as_a_whole_stops_the_run(
    runner: Runner, server: BatchServer
) -> None:
    if runner.provider == "anthropic":
        pytest.skip("batches of Anthropic do not fail as a whole")
    server.reset(fates=["failed"])
    result = runner()
    assert result.stop is not None
    assert result.stop.name == "RequestsRefused"
    assert not result.evaluation_results
    assert result.spending.n_calls_without_usage == 0
    check_whole(runner(), server)


@pytest.mark.slow
def test_what_a_limit_of_the_account_refuses_is_submitted_later(
    server: BatchServer, tmp_path: Path, worker: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BatchApi, "most_requests", 4)
    server.reset(fates=["good", "limit", "limit"])
    counts = check_whole(Runner(server.root, "openai", tmp_path, worker.suite(N))(), server)
    assert counts["sizes"] == [4, 4, 4, 4, 4]


def test_provider_batches_stay_under_the_limits_of_the_provider(
    runner: Runner, server: BatchServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BatchApi, "most_requests", 5)
    assert check_whole(runner(), server)["sizes"] == [5, 5, 2]


@pytest.mark.slow
def test_provider_batches_stay_under_the_bytes_of_the_provider(
    runner: Runner, server: BatchServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    api = runner.backend().batch_api
    monkeypatch.setattr(api, "most_bytes", 6_000)
    counts = check_whole(runner(), server)
    assert len(counts["sizes"]) > 1
    assert all(len(content) <= 6_000 for content in counts["files"].values())


# Where a process is killed: the function, whether before or after it, and at which call of it.
STEPS: dict[str, tuple[type, str, str, int]] = {
    "before the intention": (Recorder, "note_provider_batch", "before", 1),
    "before the submission": (BatchApi, "submit", "before", 1),
    "after the upload": (transport.Transport, "handle_async_request", "after", 1),
    "after the submission": (BatchApi, "submit", "after", 1),
    "before waiting": (BatchApi, "state", "before", 1),
    "while waiting": (BatchApi, "state", "after", 1),
    "before collecting": (BatchApi, "results", "before", 1),
    "with the results in hand": (BatchApi, "results", "after", 1),
    "after some rows": (Recorder, "append", "after", 3),
    "before it is closed": (Recorder, "note_provider_batch", "before", 3),
    "after it is closed": (Recorder, "note_provider_batch", "after", 3),
    "before the second submission": (BatchApi, "submit", "before", 2),
    "after the second submission": (BatchApi, "submit", "after", 2),
    "with the second results": (BatchApi, "results", "after", 2),
    "at the end": (Recorder, "finish", "before", 1),
}
QUICK = "after the submission"


def die_at(step: str) -> None:
    """Have this process killed, as by the operating system, at a step of the life cycle."""
    holder, name, when, nth = STEPS[step]
    plain, n_calls = getattr(holder, name), 0

    def count(at: str) -> None:
        nonlocal n_calls
        n_calls += at == "before"
        if at == when and n_calls == nth:
            os.kill(os.getpid(), signal.SIGKILL)

    async def waiting(*arguments: Any, **options: Any) -> Any:
        count("before")
        value = await plain(*arguments, **options)
        count("after")
        return value

    def at_once(*arguments: Any, **options: Any) -> Any:
        count("before")
        value = plain(*arguments, **options)
        count("after")
        return value

    is_async = holder is not Recorder
    setattr(holder, name, waiting if is_async else at_once)


def killed(runner: Runner, step: str, **options: Any) -> None:
    """Run in a process that is killed at a step."""

    def work() -> None:
        die_at(step)
        runner(**options)

    process = multiprocessing.get_context("fork").Process(target=work)
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL, (step, process.exitcode)


def check_killed(runner: Runner, server: BatchServer, steps: list[str], **options: Any) -> None:
    server.reset(fates=["expired"], items={"1002": ["malformed"]}, seconds=0.1, **options)
    for step in steps:
        killed(runner, step, batch_size=2)
    result = runner(batch_size=2)
    rows = result.evaluation_results
    assert [row.record_id for row in rows] == [f"r{i}" for i in range(1000, 1000 + N)]
    assert [row.prediction for row in rows] == [0, 1] * 6
    counts = server.counts()
    # The malformed reply was bought, and both its records once more; nothing else was.
    again = dict.fromkeys(("1002", "1003"), 2)
    assert counts["bought"] == {**dict.fromkeys(serials(), 1), **again}
    # Three answers, one malformed, then three that were left and two halves.
    assert counts["sizes"] == [6, 5]
    assert result.spending.n_api_calls == 11
    assert result.spending.cost == pytest.approx(0.002 / 2 * 8)


def test_killed_between_submission_and_journal_a_run_buys_nothing_twice(
    runner: Runner, server: BatchServer
) -> None:
    # Names of requests are seen when a batch of Anthropic has ended: it must be waited for.
    check_killed(runner, server, [QUICK], lists=10 * (runner.provider == "anthropic"))


@pytest.mark.slow
@pytest.mark.parametrize("step", [step for step in STEPS if step != QUICK])
def test_killed_at_any_step_a_run_buys_nothing_twice(
    runner: Runner, server: BatchServer, step: str
) -> None:
    check_killed(runner, server, [step])


@pytest.mark.slow
def test_killed_at_all_steps_one_after_the_other_a_run_buys_nothing_twice(
    runner: Runner, server: BatchServer
) -> None:
    check_killed(runner, server, [*list(STEPS)[:2], *list(STEPS)[3:9]])


def test_what_open_provider_batches_can_take_is_set_aside_at_their_price(
    runner: Runner, server: BatchServer
) -> None:
    server.reset(seconds=3600)
    started = runner(batching=Batching(wait=False))
    assert started.stop is not None
    assert started.stop.name == "Detached"
    assert (started.spending.n_calls_without_usage, started.spending.cost) == (0, 0.0)
    (batch,) = batches_of(runner.run).open
    per_request = [
        one.most_input * 10 / 1e6 + one.most_output * 100 / 1e6 for one in batch.requests
    ]
    # Room for seven requests and a half at half the price.
    limits = Limits(max_cost=7.5 * max(per_request) / 2)
    other = Runner(server.root, runner.provider, runner.out.parent / "bound", runner.suite)
    server.reset()
    result = other(limits=limits)
    counts = check_whole(result, server)
    assert counts["sizes"][0] == 7
    assert sum(counts["sizes"]) == N
    assert (result.spending.cost or 0) <= (limits.max_cost or 0)
    # An earlier session's reservation binds the next one too.
    small = Runner(server.root, runner.provider, runner.out.parent / "small", runner.suite)
    server.reset(seconds=3600)
    assert small(limits=limits, batching=Batching(wait=False)).n_left == N
    assert small(limits=limits, batching=Batching(wait=False)).n_left == N
    assert server.counts()["sizes"] == [7]


def test_runs_that_share_a_budget_count_open_provider_batches_at_their_price() -> None:
    shared_budget = SharedBudget(Limits(max_cost=0.0025))
    first, second = (
        Budget(
            shared_budget.limits, Price(10.0, 100.0), Stop(), shared_budget=shared_budget, name=name
        )
        for name in "ab"
    )
    asked = CallSize(n_bytes=44, n_records=1, output_cap=7)
    most = first.hold(asked)
    assert most == (256 + 44, 7)  # bytes and the frame, and the cap
    # 300 and 7 tokens at 10 and 100 dollars a million are 0.0037, half of it 0.00185.
    assert shared_budget.beside("b") == (307, pytest.approx(0.00185))
    assert second.hold(asked) is None
    first.hold_again(most, -1)
    assert second.hold(asked) == most


def test_a_batch_of_anthropic_that_has_not_ended_may_be_the_one_looked_for() -> None:
    def batch(name: str, status: str) -> Any:
        counts = SimpleNamespace(to_dict=lambda: {"processing": 1, "succeeded": 1})
        made = datetime.fromtimestamp(1e9, UTC)
        return SimpleNamespace(
            id=name, processing_status=status, created_at=made, request_counts=counts
        )

    class Known(AnthropicBatches):
        listed: list[Any]

        @property
        def client(self) -> Any:
            async def found(limit: int) -> Any:
                for one in self.listed:
                    yield one

            return SimpleNamespace(messages=SimpleNamespace(batches=SimpleNamespace(list=found)))

        async def _results(self, batch_id: str) -> list[dict[str, str]]:
            return [{"custom_id": f"{batch_id}-0"}]

    api = Known(AnthropicBackend("parity-1", api_key=KEY))
    seen = []
    for listed in (
        [],
        [batch("other", "ended"), batch("mine", "in_progress")],
        [batch("mine", "ended")],
    ):
        api.listed = listed
        seen.append(asyncio.run(api.find("mine", 1e9, 2)))
    assert seen == [Sighting(), Sighting(is_certain=False), Sighting("mine")]


def test_a_budget_too_small_for_one_request_submits_nothing(
    runner: Runner, server: BatchServer
) -> None:
    result = runner(limits=Limits(max_tokens=50))
    assert result.stop is not None
    assert result.stop.name == "BudgetReached"
    assert server.counts()["n_batches"] == 0


def test_an_interrupted_wait_keeps_the_provider_batches(
    runner: Runner, server: BatchServer
) -> None:
    server.reset(seconds=3600)
    stop = Stop()
    threading.Timer(0.3, stop.request_from_outside, [Interrupted("interrupted")]).start()
    result = runner(stop=stop)
    assert result.stop == Interrupted("interrupted; 1 provider batch goes on at the provider")
    server.change(seconds=0)
    check_whole(runner(), server)


def test_ordinary_calls_beside_open_provider_batches_are_refused(
    runner: Runner, server: BatchServer
) -> None:
    server.reset(seconds=3600)
    runner(batching=Batching(wait=False))
    with pytest.raises(RunConflict, match="1 provider batch"):
        runner(batching=None)
    server.reset()  # the provider forgets it: nothing is bought again without being told
    result = runner()
    assert result.stop is not None
    assert "krisis batches cancel" in result.stop.sentence
    assert server.counts()["n_batches"] == 0


def test_a_key_that_is_refused_ends_the_run_and_buys_nothing(
    runner: Runner, server: BatchServer
) -> None:
    server.reset(faults={"upload": [401], "create": [401]})
    with pytest.raises(AuthenticationFailed):
        runner()
    assert server.counts()["n_batches"] == 0
    server.reset()
    check_whole(runner(), server)


@pytest.mark.slow
def test_a_reply_that_is_kept_is_not_asked_for_again(
    runner: Runner, server: BatchServer, tmp_path: Path
) -> None:
    cache = ReplyCache(tmp_path / "cache.sqlite")
    check_whole(runner(cache=cache), server)
    again = Runner(server.root, runner.provider, tmp_path / "again", runner.suite)
    result = again(cache=cache)
    check_whole(result, server)
    assert (result.spending.n_cache_hits, server.counts()["n_batches"]) == (N, 1)


def test_a_damaged_provider_batch_is_never_bought_again(
    server: BatchServer, tmp_path: Path, worker: ModuleType
) -> None:
    runner = Runner(server.root, "openai", tmp_path, worker.suite(N))
    runner(batching=Batching(wait=False))
    edit_run(runner.run, "UPDATE provider_batches SET batch_id = 'another'")
    with pytest.raises(InvalidFile, match="buy their answers again"):
        runner()
    assert server.counts()["n_batches"] == 1


def batches_of(path: Path) -> ProviderBatchLog:
    with open_run(path) as run:
        return run.contents().provider_batches


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"recorder": None}, "need a recorder"),
        ({"stop_when": "accuracy >= 0.8"}, "stop_when"),
        ({"cluster": Cluster("local:2")}, "leave out --batch or --cluster"),
    ],
)
def test_what_cannot_go_with_provider_batches_is_refused(
    options: dict[str, Any], words: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidValue, match=words):
        Execution(**{"recorder": Recorder(tmp_path), "batching": Batching(), **options})


def test_a_backend_without_a_batch_api_is_refused(tmp_path: Path, worker: ModuleType) -> None:
    backend = CompatibleBackend("m", base_url="http://127.0.0.1:9/v1", api_key="none-at-all")
    execution = Execution(recorder=Recorder(tmp_path), batching=Batching())
    with pytest.raises(InvalidValue, match="has no provider batches"):
        Benchmark(worker.suite(2), backend, execution=execution).run()
    assert not list_runs(tmp_path)


@pytest.fixture
def command(
    server: BatchServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[int, str, str]]:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)

    def run(*words: str) -> tuple[int, str, str]:
        if words[0] == "run":
            words += ("--base-url", f"{server.root}/v1", "--display", "none", "--no-baselines")
            words += ("--cache-path", str(tmp_path / "replies.sqlite"), "--limit", "24")
        code, out, err = krisis(*words, cwd=tmp_path)
        assert KEY not in out + err
        return code, out, err

    return run


RUN = ("run", "ckd", "--model", "openai/parity-1", "--batch-size", "4", "--batch")


def test_a_run_is_detached_listed_awaited_and_finished(
    command: Any, server: BatchServer, tmp_path: Path
) -> None:
    server.reset(seconds=3600)
    code, out, err = command(*RUN, "--detach")
    (run,) = list_runs(tmp_path / "runs")
    assert (code, out) == (0, f"Run: runs/{run.name}\n")
    assert "24 records have no answer yet (1 provider batch goes on at the provider)" in err
    assert f"krisis batches list runs/{run.name}" in err
    assert f"krisis resume runs/{run.name}" in err
    code, out, _ = command("batches", "list", str(run))
    assert (code, out.endswith("b0  in_progress  6 requests, 6 without a row\n")) == (0, True)
    code, _, err = command("batches", "collect", str(run))
    assert (code, "24 records have no answer yet" in err) == (0, True)
    code, _, err = command("resume", str(run), "--no-batch")
    assert (code, "would buy their answers again" in err) == (2, True)
    server.change(seconds=0, fates=[])
    code, out, err = command("batches", "wait", str(run), "--poll-seconds", "0.05")
    assert (code, err) == (0, "")
    assert "24 loaded" in out
    code, out, _ = command("batches", "list", str(run), "--format", "json")
    (listed,) = json.loads(out)["provider_batches"]
    assert (listed["state"], listed["n_requests"], listed["n_without_row"]) == ("collected", 6, 0)
    assert server.counts()["n_batches"] == 1


@pytest.mark.slow
def test_ctrl_c_while_waiting_keeps_the_provider_batches_and_says_what_to_type(
    command: Any, server: BatchServer, tmp_path: Path
) -> None:
    server.reset(seconds=3600)
    words = (*RUN, "--base-url", f"{server.root}/v1", "--limit", "24", "--no-baselines")
    process = subprocess.Popen(
        [sys.executable, "-m", "krisis", *words, "--no-cache"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    until = time.monotonic() + 60
    while not server.counts()["calls"].get("state") and time.monotonic() < until:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    (run,) = list_runs(tmp_path / "runs")
    assert (process.returncode, out) == (130, f"Run: runs/{run.name}\n")
    assert "(interrupted; 1 provider batch goes on at the provider)" in err
    assert err.endswith(f"to continue, type: krisis resume runs/{run.name}\n")
    server.change(seconds=0)
    assert command("resume", str(run), "--poll-seconds", "0.05")[0] == 0
    assert server.counts()["sizes"] == [6]


@pytest.mark.slow
def test_a_grid_asks_no_cell_whose_provider_batches_are_open_and_counts_what_they_hold(
    command: Any, server: BatchServer, tmp_path: Path
) -> None:
    server.reset(seconds=3600)
    (tmp_path / "prices.yaml").write_text("openai/*: {input: 10, output: 100}\n")
    command(*RUN, "--detach")
    (run,) = list_runs(tmp_path / "runs")
    held = batches_of(run).pending({})
    content = read_description(run).config | {"batch": False, "max_cost": 1.0, "cache": False}
    plan = grid_of({**content, "prices": str(tmp_path / "prices.yaml")}, "plan.yaml")
    ready, folder = prepare(plan), GridFolder(run.parent)
    (end,) = run_grid(plan, folder, ready=ready)
    assert "would buy their answers again" in end.problem
    session = _GridSession(plan, folder, ready, GridStop(), print)
    dollars = (held.most_input * 10 + held.most_output * 100) / 1e6 / 2
    assert session._spent(ready[0]) == (held.most_input + held.most_output, pytest.approx(dollars))
    assert server.counts()["live"] == {}


@pytest.mark.slow
def test_cancelled_provider_batches_keep_their_answers_and_a_resume_asks_the_rest(
    command: Any, server: BatchServer, tmp_path: Path
) -> None:
    server.reset(seconds=3600)
    command(*RUN, "--detach")
    (run,) = list_runs(tmp_path / "runs")
    code, out, _ = command("batches", "cancel", str(run))
    assert code == 0
    assert (
        out
        == f"b0: asked to cancel\nto collect what was answered, type: krisis batches wait {run}\n"
    )
    code, out, err = command("batches", "wait", str(run))
    assert (code, "12 records have no answer yet (no provider batch is under way)" in err) == (
        0,
        True,
    )
    server.change(seconds=0)
    assert command("resume", str(run))[0] == 0
    assert server.counts()["sizes"] == [6, 3]
    assert command("batches", "cancel", str(run))[1] == f"{run} has no open provider batches\n"


@pytest.mark.slow
def test_a_provider_batch_that_the_provider_forgot_is_given_up_by_name(
    command: Any, server: BatchServer, tmp_path: Path
) -> None:
    command(*RUN, "--detach")
    (run,) = list_runs(tmp_path / "runs")
    server.reset()
    code, _, err = command("resume", str(run))
    assert (code, "cannot be looked at" in err, "Traceback" in err) == (1, True, False)
    assert (
        "b0: the provider does not know it; given up" in command("batches", "cancel", str(run))[1]
    )
    assert command("resume", str(run), "--poll-seconds", "0.05")[0] == 0
    assert server.counts()["n_batches"] == 1


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        ((*RUN[:-1], "--detach"), "give --batch as well"),
        ((*RUN[:-1], "--batch-then-live"), "give --batch as well"),
        ((*RUN, "--stop-when", "accuracy >= 0.8"), "leave out --batch or --stop-when"),
        (("run", "ckd", "--model", "guideline", "--batch"), "'guideline' has no provider batches"),
        ((*RUN, "--poll-seconds", "0"), "poll_seconds"),
        ((*RUN, "--cluster", "local:2"), "leave out --batch or --cluster"),
        ((*RUN, "--model", "openai/parity-2"), "are asked in ordinary calls"),
        ((*RUN[:-1], "--task", "staging", "--task", "detection", "--detach"), "give --batch as"),
    ],
)
def test_the_command_line_refuses_what_cannot_go_with_batch(
    command: Any, tmp_path: Path, words: tuple[str, ...], sentence: str
) -> None:
    code, out, err = command(*words)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert sentence in err
    assert not (tmp_path / "runs").exists()


@pytest.mark.slow
def test_a_run_by_ordinary_calls_has_no_provider_batches(
    command: Any, server: BatchServer, tmp_path: Path
) -> None:
    assert command(*RUN[:-1])[0] == 0
    (run,) = list_runs(tmp_path / "runs")
    code, _, err = command("batches", "list", str(run))
    assert (code, "it has no provider batches" in err) == (2, True)

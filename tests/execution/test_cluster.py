"""A run on a cluster has the rows of a run on one machine, whatever becomes of the workers."""

from __future__ import annotations

import asyncio
import gc
import json
import random
import threading
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from distributed import Security
from distributed.client import AllExit
from distributed.comm import connect
from tests.invented_runs import rows_in

from krisis import BackendResponse, BaseBackend, Benchmark, BenchmarkResult, PatientRecord
from krisis.backends.chat import ChatReply, ChatRequest
from krisis.backends.elicitation import Asking, Elicitation
from krisis.backends.openai import OpenAIBackend
from krisis.backends.scripted import ScriptedBackend
from krisis.data.base import FeatureDescription, RecordListSuite, Task
from krisis.errors import BackendError, InvalidValue, RunFailed
from krisis.execution import cluster as cluster_module
from krisis.execution import cluster_worker
from krisis.execution.cluster import Cluster
from krisis.execution.cluster_connection import Connection, ConnectionLost, Lost, WorkerGone
from krisis.execution.config import checked_config
from krisis.execution.options import Execution
from krisis.execution.recorder import Recorder
from krisis.execution.stopping import Stop
from krisis.results.stops import ClusterLost, Interrupted

PARITY = Task(
    name="parity",
    question="Is the serial marker odd?",
    answers={0: "even", 1: "odd"},
    features={"marker": FeatureDescription("serial marker")},
)


def suite(n: int) -> RecordListSuite:
    """Return markers whose label is their parity, but for every seventh."""
    return RecordListSuite(
        [PatientRecord({"marker": i}, (i + (i % 7 == 0)) % 2, record_id=f"r{i}") for i in range(n)],
        PARITY,
    )


class Busy(BackendError):
    """An error of the user's own, which a pickle cannot make again."""

    failure_class = "busy"

    def __init__(self, ward: str, marker: int) -> None:
        super().__init__(f"ward {ward} is busy")


class OneByOne(BaseBackend):
    """Judges single records, abstains from some, fails on others in several ways."""

    name, max_retries = "one-by-one", 0

    def evaluate(self, record: PatientRecord) -> BackendResponse:
        marker = int(str(record.features["marker"]))
        if marker % 11 == 3:
            raise TimeoutError("slow ward")
        if marker % 11 == 5:
            raise Busy("B", marker)
        if marker % 11 == 7:
            return BackendResponse(None, abstained=True)
        return BackendResponse(marker % 2, confidence=(marker % 10) / 10, input_tokens=marker)


class Together(OneByOne):
    """Judges batches, and cannot judge one that holds a certain record."""

    name = "together"

    def evaluate_batch(self, records: Sequence[PatientRecord]) -> list[BackendResponse]:
        return [self.evaluate(record) for record in records]


def chat(request: ChatRequest) -> ChatReply:
    """Answer each case, but write half an answer for every marker that ends in 4."""
    markers = [int(line.split()[-1]) for line in request.user.splitlines() if "marker" in line]
    if any(marker % 10 == 4 for marker in markers):
        return ChatReply('{"abst', "stop", "script", 10, 3)
    one = [{"abstained": False, "prediction": m % 2, "confidence": 0.8} for m in markers]
    text = json.dumps(one[0] if request.mode == "single" else {"answers": one})
    return ChatReply(text, "stop", "script", 10, 3)


@pytest.fixture(
    scope="module",
    params=[False, pytest.param(True, marks=pytest.mark.slow)],
    ids=["threads", "processes"],
)
def address(request: pytest.FixtureRequest) -> Iterator[str]:
    """Start two workers once for all tests of this file."""
    distributed = pytest.importorskip("distributed")
    with distributed.LocalCluster(
        2,
        processes=request.param,
        protocol="tcp",
        threads_per_worker=1,
        host="127.0.0.1",
        dashboard_address=None,
        memory_limit=0,
    ) as started:
        yield started.scheduler_address


def run(
    backend: BaseBackend, n: int, cluster: Cluster | None, *, batch_size: int = 4, **options: Any
) -> BenchmarkResult:
    execution = Execution(cluster=cluster, **options)
    return Benchmark(suite(n), backend, batch_size=batch_size, execution=execution).run()


def comparable(result: BenchmarkResult) -> tuple[Any, ...]:
    """Return all that must be equal: rows but for the clock, scores, and what the calls took."""
    rows = [replace(row, latency_seconds=None) for row in result.evaluation_results]
    spent = result.spending
    counted = (spent.n_api_calls, spent.n_retries, spent.n_batch_splits)
    scores = [asdict(score) for score in result.metric_scores.values()]
    return rows, repr(scores), counted, result.attrition


@pytest.mark.parametrize(
    "backend", [OneByOne(), Together(), ScriptedBackend(chat)], ids=lambda one: one.name
)
def test_rows_scores_and_counts_are_those_of_one_machine(
    backend: BaseBackend, address: str
) -> None:
    here, there = run(backend, 60, None), run(backend, 60, Cluster(address))
    assert comparable(there) == comparable(here)
    assert {row.failure_class for row in there.evaluation_results} - {None, ""}


def in_two_calls(request: ChatRequest) -> ChatReply:
    """Answer every case alike; a second reply about several cases cannot be read."""
    kinds = request.schema["properties"]
    names = kinds["results"]["items"]["properties"]["id"]["enum"] if "results" in kinds else []
    is_second = "probability" in json.dumps(request.schema)
    one: dict[str, Any] = {"abstained": False, "prediction": 1, "confidence": 0.8}
    one = {"probability": 0.3} if is_second else one
    rows = [{"id": name, **one} for name in names]
    text = json.dumps({"results": rows} if names else one)
    return ChatReply("cut" if is_second and len(names) > 1 else text, "stop", "script", 10, 3)


@pytest.mark.parametrize("way", ["p-true", "two-step"])
def test_an_answer_in_two_calls_is_that_of_one_machine(way: str, address: str) -> None:
    backend = ScriptedBackend(in_two_calls)
    backend.asking = Asking(elicit=Elicitation.parsed(way))
    here, there = run(backend, 8, None), run(backend, 8, Cluster(address))
    assert comparable(there) == comparable(here)
    assert {row.confidence for row in there.evaluation_results} == {0.3}
    assert there.spending.n_api_calls == 2 * (1 + 1 + 2 + 4)  # halved to single cases


class FakeConnection:
    """A cluster in this process whose workers are lost when ``loses`` says so.

    ``is_local``, ``open`` and so on are those of the real connection.
    """

    def __init__(self, n_workers: int, loses: Callable[[FakeConnection, list[Any]], bool]) -> None:
        self.loses = loses
        self.addresses = {f"w{i}" for i in range(n_workers)}
        self.n_started = n_workers
        self.at_work: dict[str, list[list[str]]] = {}
        self.most_at_work = 0
        self.suspects: set[str] = set()
        self.n_in_company = 0
        self.n_opened = 0
        self.is_down = False
        self.versions: dict[str, str] = {}

    async def open(self) -> None:
        if self.is_down:
            raise InvalidValue("no Dask scheduler answers")
        self.n_opened += 1

    async def close(self, key: str = "", addresses: Sequence[str] = ()) -> None:
        cluster_worker.forget(key)

    async def workers(self) -> set[str]:
        if self.is_down:
            raise ConnectionLost("down")
        return set(self.addresses)

    async def other_versions(self, address: str, expected: Any) -> str:
        return self.versions.get(address, "")

    async def result(
        self, address: str, gone: asyncio.Future[type[Lost]], function: Any, *arguments: Any
    ) -> Any:
        if function is cluster_worker.admit:
            return function(*arguments)
        calls = arguments[1]
        names = [record.record_id for call in calls for record in call.records]
        mine = self.at_work.setdefault(address, [])
        mine.append(names)
        self.most_at_work = max(self.most_at_work, len(mine))
        self.n_in_company += len(mine) + len(calls) > 2 and bool(self.suspects & set(names))
        await asyncio.sleep(0.001)
        try:
            if gone.done() or self.is_down:
                await gone
                raise gone.result()
            if self.loses(self, names):
                self.addresses.discard(address)
                self.suspects.update(*mine)
                self.addresses.add(f"w{self.n_started}")
                self.n_started += 1
                await gone
                raise gone.result()
            return function(*arguments)
        finally:
            mine.remove(names)


Faked = Callable[..., FakeConnection]


@pytest.fixture
def faked(monkeypatch: pytest.MonkeyPatch) -> Faked:
    def fake(n_workers: int, loses: Callable[[FakeConnection, list[Any]], bool]) -> FakeConnection:
        connection = FakeConnection(n_workers, loses)
        monkeypatch.setattr(cluster_module, "Connection", lambda place: connection)
        monkeypatch.setattr(cluster_module, "LOOK_SECONDS", 0.002)
        return connection

    return fake


HERE = "tcp://127.0.0.1:8786"


@pytest.mark.parametrize("backend", [OneByOne(), Together()], ids=lambda one: one.name)
@pytest.mark.parametrize("seed", range(3))
def test_random_losses_lose_and_double_nothing(
    seed: int, backend: BaseBackend, faked: Faked, tmp_path: Path
) -> None:
    draws, n_losses = random.Random(seed), Counter[str]()

    def loses(fake: FakeConnection, names: list[str]) -> bool:
        if draws.random() < 0.7 or any(n_losses[name] == 2 for name in names):
            return False  # a third time would be the record's own fault
        n_losses.update(names)
        return True

    connection = faked(3, loses)
    result = run(backend, 150, Cluster(HERE, print), recorder=Recorder(tmp_path))
    assert connection.n_started > 12
    assert connection.most_at_work == 2
    assert connection.n_in_company == 0
    assert comparable(result) == comparable(run(backend, 150, None))
    assert len(rows_in(Path(str(result.provenance.run_file)))) == 150


@pytest.mark.parametrize("backend", [OneByOne(), Together()], ids=lambda one: one.name)
def test_a_record_that_loses_every_worker_is_a_failed_row_and_the_only_one(
    backend: BaseBackend, faked: Faked
) -> None:
    connection = faked(2, lambda _, names: "r13" in names)
    result = run(backend, 40, Cluster(HERE, print))
    lost = [row for row in result.evaluation_results if row.failure_class == "worker_lost"]
    assert [row.record_id for row in lost] == ["r13"]
    assert "3 workers were lost while each worked on this call alone" in str(lost[0].error)
    # At first with others, then three times alone; a batch of 4 is halved twice on the way.
    n_sizes = 3 if isinstance(backend, Together) else 1
    assert connection.n_started - 2 <= 4 * n_sizes
    # Its companions may be answered now that they are asked in another batch; nobody else is.
    usual = run(backend, 40, None).evaluation_results
    found = result.evaluation_results
    assert len(found) == len(usual) == 40
    for others in (slice(0, 12), slice(16, None)):
        assert [row.prediction for row in found[others]] == [r.prediction for r in usual[others]]


def test_a_scheduler_that_comes_back_is_used_again(faked: Faked) -> None:
    said: list[str] = []
    connection = faked(2, lambda fake, names: False)

    def goes_down(fake: FakeConnection, names: list[str]) -> bool:
        if "r20" in names and fake.n_opened == 1:
            fake.is_down = True
            threading.Timer(0.05, setattr, (fake, "is_down", False)).start()
        return False

    connection.loses = goes_down
    result = run(OneByOne(), 60, Cluster(HERE, said.append))
    assert connection.n_opened == 2
    assert [words.split(" to ")[0] for words in said] == ["the connection", "connected"]
    assert comparable(result) == comparable(run(OneByOne(), 60, None))


def test_a_scheduler_that_stays_away_ends_the_run_and_resume_finishes_it(
    faked: Faked, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster_module, "PATIENCE_SECONDS", 0.05)

    def goes_down(fake: FakeConnection, names: list[str]) -> bool:
        fake.is_down = fake.is_down or "r20" in names
        return False

    faked(2, goes_down)
    cut = run(OneByOne(), 60, Cluster(HERE, print), recorder=Recorder(tmp_path))
    assert isinstance(cut.stop, ClusterLost)
    assert "the connection to tcp://127.0.0.1:8786 was lost" in str(cut.stop)
    assert 0 < len(cut.evaluation_results) < 60
    resumed = Recorder.resume(str(cut.provenance.run_file))
    whole = run(OneByOne(), 60, None, recorder=resumed)
    assert comparable(whole)[0] == comparable(run(OneByOne(), 60, None))[0]


def test_a_late_worker_is_used_and_one_of_another_version_is_not(faked: Faked) -> None:
    said: list[str] = []
    used: set[str] = set()

    def joins(fake: FakeConnection, names: list[str]) -> bool:
        used.update(address for address, tasks in fake.at_work.items() if tasks)
        fake.versions["w8"] = "it has krisis 9.9, this machine 0.1.0"
        fake.addresses |= {"w8", "w9"}
        return False

    faked(1, joins)
    result = run(OneByOne(), 300, Cluster(HERE, said.append))
    assert used == {"w0", "w9"}
    assert said == ["the worker w8 is refused: it has krisis 9.9, this machine 0.1.0"]
    assert len(result.evaluation_results) == 300


def test_a_worker_of_another_version_ends_the_run_before_it_begins(
    faked: Faked, tmp_path: Path
) -> None:
    faked(2, lambda fake, names: False).versions["w1"] = "it has krisis 9.9, this machine 0.1.0"
    with pytest.raises(InvalidValue, match=r"w1 is refused: it has krisis 9\.9, this machine 0\."):
        run(OneByOne(), 20, Cluster(HERE), recorder=Recorder(tmp_path / "runs"))
    assert not (tmp_path / "runs").exists()


def test_a_model_that_is_too_large_for_every_worker_ends_the_run(
    faked: Faked, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = faked(1, lambda fake, names: False)

    async def lost(*arguments: object) -> None:
        connection.addresses = {f"w{connection.n_started}"}
        connection.n_started += 1
        raise WorkerGone

    monkeypatch.setattr(connection, "result", lost)
    with pytest.raises(RunFailed, match=r"3 workers .* were lost while they loaded the model"):
        run(OneByOne(), 20, Cluster(HERE))


def test_a_stop_finishes_what_workers_have_begun_and_leaves_the_rest(faked: Faked) -> None:
    stop = Stop()

    def ask(fake: FakeConnection, names: list[str]) -> bool:
        if "r20" in names:
            stop.request(Interrupted("interrupted"))
        return False

    faked(2, ask)
    result = run(OneByOne(), 200, Cluster(HERE), stop=stop)
    n_rows = len(result.evaluation_results)
    assert 20 < n_rows <= 20 + 2 * 2 * 4 + 4
    assert result.spending.n_api_calls == n_rows  # nothing was counted that nobody asked


def test_the_same_file_under_another_identity_is_another_model() -> None:
    class Weights(OneByOne):
        sha256 = "a1"

        def identity(self) -> dict[str, Any]:
            return {"backend": "weights", "sha256": self.sha256}

    recipe = cluster_module.recipe_of(Weights(), timeout_seconds=1.0, max_concurrency=1)
    other = replace(recipe, key="other", identity={"backend": "weights", "sha256": "b2"})
    assert cluster_worker.admit(other) == (
        "it has another model: sha256 is 'a1' there and 'b2' here"
    )
    assert cluster_worker.perform("other", []) is None
    assert cluster_worker.admit(recipe) == ""
    cluster_worker.forget(recipe.key)
    assert cluster_worker.perform(recipe.key, []) is None


@pytest.mark.parametrize("max_concurrency", [1, 3])
@pytest.mark.parametrize("kind", ["plain", "chat"])
def test_a_worker_runs_as_many_calls_together_as_one_machine_would(
    kind: str, max_concurrency: int
) -> None:
    at_work, most = 0, 0

    def work() -> None:
        nonlocal at_work, most
        at_work, most = at_work + 1, max(most, at_work + 1)

    class Slow(BaseBackend):
        def evaluate(self, record: PatientRecord) -> BackendResponse:
            nonlocal at_work
            work()
            time.sleep(0.02)
            at_work -= 1
            return BackendResponse(1)

    async def script(request: ChatRequest) -> str:
        nonlocal at_work
        work()
        await asyncio.sleep(0.02)
        at_work -= 1
        return "done"

    backend: Any = Slow() if kind == "plain" else ScriptedBackend(script)
    backend.prepare(suite(1))
    recipe = cluster_module.recipe_of(
        OneByOne(), timeout_seconds=5.0, max_concurrency=max_concurrency
    )
    ready = cluster_worker._Ready(backend, recipe)
    records = suite(6).records()
    calls: list[Any] = [cluster_worker.PlainCall([record], "single", 0) for record in records]
    if kind == "chat":
        calls = [backend.build([record.features], mode="single") for record in records]
    outcomes = ready.outcomes(calls)
    assert not any(isinstance(outcome, Exception) for outcome in outcomes)
    assert len(outcomes) == 6
    assert most == max_concurrency


def test_a_slow_call_is_cut_by_the_clock_of_its_worker() -> None:
    async def script(request: ChatRequest) -> str:
        await asyncio.sleep(5)
        return "never"

    backend = ScriptedBackend(script)
    backend.prepare(suite(1))
    recipe = cluster_module.recipe_of(OneByOne(), timeout_seconds=0.01, max_concurrency=1)
    request = backend.build([{"marker": 1}], mode="single")
    (outcome,) = cluster_worker._Ready(backend, recipe).outcomes([request])
    assert str(outcome).startswith("no reply within 0.01 seconds")


class Locked(OneByOne):
    """Holds what cannot be pickled."""

    name = "locked"

    def __init__(self) -> None:
        self.lock = threading.Lock()


@pytest.mark.parametrize(
    ("backend", "said"),
    [
        (Locked(), "'locked' cannot be sent to the workers of a cluster .*lock.*__getstate__"),
        (OpenAIBackend("gpt", api_key="none"), "openai/gpt .* provider's limit .*--max-concurr"),
    ],
    ids=["locked", "hosted"],
)
def test_a_backend_that_no_worker_can_run_is_refused(
    backend: BaseBackend, said: str, tmp_path: Path
) -> None:
    with pytest.raises(InvalidValue, match=said):
        run(backend, 5, Cluster("local:2"), recorder=Recorder(tmp_path / "runs"))
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    "place",
    ["local", "local:0", "local:-1", "host:8786", "tcp://host", "tcp://u:p@host:1", "http://h:1"],
)
def test_a_place_that_is_none_is_refused(place: str) -> None:
    with pytest.raises(InvalidValue, match="a cluster is local:N"):
        Cluster(place)
    content = {"suite": "ckd", "model": "guideline", "cluster": place}
    with pytest.raises(InvalidValue, match="cluster: a cluster is local:N"):
        checked_config(content, "krisis run")


def test_no_cluster_can_be_chosen_for_a_resume() -> None:
    content = {"suite": "ckd", "model": "guideline", "cluster": "none"}
    assert checked_config(content, "krisis run").cluster is None


@pytest.mark.parametrize(
    ("place", "settings", "said"),
    [
        ("tcp://127.0.0.1:9", {}, r".*start one with `dask scheduler`"),
        ("tls://127.0.0.1:9", {}, r".*check the address and ca-file, client\.cert and client\.key"),
        ("tcp://127.0.0.1:9", {"distributed.comm.require-encryption": True}, ".*take a tls://"),
    ],
    ids=["nobody", "no certificates", "encryption required"],
)
def test_no_scheduler_at_the_address_is_one_sentence(
    place: str, settings: dict[str, Any], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    dask = pytest.importorskip("dask")
    monkeypatch.setattr("krisis.execution.cluster_connection.CONNECT_SECONDS", 0.2)
    with warnings.catch_warnings(record=True) as warned, dask.config.set(settings):
        warnings.simplefilter("always")
        with pytest.raises(InvalidValue, match=f"^no Dask scheduler answers at {place} {said}"):
            run(OneByOne(), 5, Cluster(place))
        gc.collect()  # a client that was not closed would complain now
    assert not [one for one in warned if one.category is RuntimeWarning]


def test_nobody_without_its_certificate_connects_to_a_local_cluster() -> None:
    async def tried() -> list[str]:
        own = Connection("local:1")
        await own.open()
        found = []
        try:
            address = own._own_cluster.scheduler_address
            found.append(address.partition(":")[0])
            found += [one.partition(":")[0] for one in await own.workers()]
            stranger = Security.temporary()  # with a certificate, but of its own making
            for place, security in (
                (address.replace("tls:", "tcp:"), None),
                (address, stranger),
            ):
                arguments = security.get_connection_args("client") if security else {}
                try:
                    comm = await connect(place, timeout=5, **arguments)
                    await comm.close()
                    found.append("connected")
                except Exception as error:
                    found.append(type(error).__name__)
        finally:
            await own.close()
        return found

    found = asyncio.run(tried())
    assert set(found[:-2]) == {"tls"}
    assert "connected" not in found


def test_a_wait_inside_dask_for_a_killed_worker_is_not_reported(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def reported() -> None:
        own = Connection("local:1")
        await own.open()
        try:
            for error in (AllExit(), OSError("disk full")):
                context = {"message": "never retrieved", "exception": error}
                asyncio.get_running_loop().call_exception_handler(context)
        finally:
            await own.close()

    asyncio.run(reported())
    (line,) = [one for one in caplog.records if one.name == "asyncio"]
    assert "disk full" in str(line.exc_info)

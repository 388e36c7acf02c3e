"""A backend of the user's own is retried, counted and believed no further than can be proved."""

from __future__ import annotations

import asyncio
import concurrent.futures
import errno
import http.client
import ssl
import urllib.error
from collections.abc import Callable, Sequence
from email.message import Message
from pathlib import Path
from typing import Any

import aiohttp
import anthropic
import google.genai.errors
import httpx
import openai
import pytest
from tests.invented_runs import edit_run

from krisis import BackendResponse, BaseBackend, Benchmark, PatientRecord, Task
from krisis.backends.chat import ChatBackend, ChatReply, ChatRequest
from krisis.data.base import RecordListSuite
from krisis.errors import BackendError, InvalidValue, PromptWithheld, TlsRefused
from krisis.execution.options import Execution
from krisis.execution.pacing.budget import Limits
from krisis.execution.pacing.prices import Price
from krisis.execution.recorder import Recorder
from krisis.json_values import write_text
from krisis.results.report import format_report
from krisis.runs.load import load_run

ANSWERS = Task("parity", "Is x odd?", {0: "no", 1: "yes"})


def suite(n: int) -> RecordListSuite:
    records = [
        PatientRecord(
            {"x": 20 + i, "age": 60 + i, "serum": 731.25 + i}, i % 2, {"ward": f"w{i}"}, f"r{i}"
        )
        for i in range(n)
    ]
    return RecordListSuite(records, ANSWERS)


class Parity(BaseBackend):
    """Right every time it answers; every third call raises what it was given."""

    name, retry_base_seconds = "parity", 0.001

    def __init__(self, error: Callable[[], Exception], *, every: int = 3) -> None:
        self.error, self.every, self.n_calls = error, every, 0

    def evaluate(self, record: PatientRecord) -> BackendResponse:
        self.n_calls += 1
        if self.n_calls % self.every == 0:
            raise self.error()
        return BackendResponse(int(str(record.features["x"])) % 2, input_tokens=3, output_tokens=1)


class ParityInBatches(Parity):
    def evaluate_batch(self, records: Sequence[PatientRecord]) -> list[BackendResponse]:
        self.n_calls += 1
        if self.n_calls % self.every == 0:
            raise self.error()
        return [BackendResponse(int(str(record.features["x"])) % 2) for record in records]


def with_status(status: int, kind: Any) -> Exception:
    request = httpx.Request("POST", "http://127.0.0.1/")
    response = httpx.Response(status, request=request)
    if kind is httpx.HTTPStatusError:
        return httpx.HTTPStatusError("status", request=request, response=response)
    error: Exception = kind("status", response=response, body=None)
    return error


def caused(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


def aiohttp_error(status: int) -> Exception:
    info = aiohttp.RequestInfo("http://127.0.0.1/", "GET", {}, "http://127.0.0.1/")  # type: ignore[arg-type]
    return aiohttp.ClientResponseError(info, (), status=status)


def genai_error(status: int) -> Exception:
    return google.genai.errors.ServerError(status, {"error": {"message": "busy"}})


TRANSIENT: dict[str, Callable[[], Exception]] = {
    "connection": lambda: ConnectionError("lost"),
    "reset": lambda: ConnectionResetError(104, "reset by peer"),
    "timeout": lambda: TimeoutError("too slow"),
    "socket timeout": lambda: TimeoutError("timed out"),
    "httpx connect": lambda: httpx.ConnectError("no route"),
    "httpx read": lambda: httpx.ReadTimeout("slow"),
    "httpx protocol": lambda: httpx.RemoteProtocolError("cut"),
    "httpx status": lambda: with_status(503, httpx.HTTPStatusError),
    "openai limit": lambda: with_status(429, openai.RateLimitError),
    "openai connection": lambda: openai.APIConnectionError(
        request=httpx.Request("POST", "http://127.0.0.1/")
    ),
    "anthropic overloaded": lambda: with_status(529, anthropic.InternalServerError),
    "genai": lambda: genai_error(503),
    "aiohttp": aiohttp.ServerDisconnectedError,
    "aiohttp status": lambda: aiohttp_error(429),
    "urllib": lambda: urllib.error.URLError("unreachable"),
    "no route": lambda: OSError(errno.EHOSTUNREACH, "no route"),
    "tls cut": lambda: ssl.SSLEOFError(8, "EOF in violation of protocol"),
    "no response": lambda: http.client.BadStatusLine("garbage"),
    "raised from": lambda: caused(RuntimeError("the model failed"), ConnectionError("lost")),
    "urllib status": lambda: urllib.error.HTTPError("http://x", 502, "bad", Message(), None),
}


@pytest.mark.parametrize("error", TRANSIENT.values(), ids=list(TRANSIENT))
@pytest.mark.parametrize("kind", [Parity, ParityInBatches])
def test_a_moments_trouble_is_retried(kind: type[Parity], error: Callable[[], Exception]) -> None:
    backend = kind(error)
    backend.max_retries = 3
    result = Benchmark(suite(12), backend, batch_size=2).run()
    assert result.attrition.n_answered == 12
    assert result.metric_scores["accuracy"].value == 1.0
    assert result.spending.n_retries == backend.n_calls // 3
    assert result.spending.n_batch_splits == 0


def test_a_hundred_of_a_hundred_are_answered_when_every_third_call_loses_its_connection() -> None:
    backend = Parity(lambda: ConnectionError("connection lost"))
    backend.max_retries = 3
    result = Benchmark(suite(100), backend).run()
    assert (result.attrition.n_answered, result.attrition.n_lost) == (100, 0)


def test_without_retries_the_failure_says_what_it_was() -> None:
    backend = Parity(lambda: httpx.ReadTimeout("slow"), every=1)
    backend.max_retries = 0
    result = Benchmark(suite(2), backend).run()
    (name,) = result.attrition.failures
    assert name == "timeout"
    assert result.attrition.failures[name].example == "ReadTimeout: slow"
    assert backend.n_calls == 2


def test_a_certificate_that_an_own_backend_meets_ends_the_run_at_once() -> None:
    backend = Parity(lambda: ssl.SSLCertVerificationError(1, "self-signed"), every=1)
    backend.max_retries = 3
    with pytest.raises(TlsRefused, match="self-signed"):
        Benchmark(suite(4), backend, max_concurrency=1).run()
    assert backend.n_calls == 1


def test_an_error_of_the_backends_own_code_is_not_retried() -> None:
    backend = Parity(lambda: KeyError("lactate"), every=2)
    result = Benchmark(suite(4), backend).run()
    assert result.attrition.n_lost == 2
    assert backend.n_calls == 4
    assert result.attrition.failures["backend"].example == "KeyError: 'lactate'"


@pytest.mark.parametrize("n_back", [1, 3])
def test_tokens_of_a_malformed_batch_are_counted(n_back: int) -> None:
    class Miscounting(Parity):
        def evaluate_batch(self, records: Sequence[PatientRecord]) -> list[BackendResponse]:
            return [BackendResponse(0, input_tokens=100, output_tokens=10)] * n_back

    result = Benchmark(suite(2), Miscounting(RuntimeError, every=1000), batch_size=2).run()
    spending = result.spending
    lost_input, lost_output = 100 * n_back, 10 * n_back
    assert (spending.lost_input_tokens, spending.lost_output_tokens) == (lost_input, lost_output)
    assert (spending.input_tokens, spending.output_tokens) == (lost_input + 6, lost_output + 2)
    assert spending.n_batch_splits == 1


def test_rows_say_whether_they_were_asked_alone_or_together() -> None:
    result = Benchmark(suite(5), ParityInBatches(RuntimeError, every=9), batch_size=2).run()
    assert [row.prompt_mode for row in result.evaluation_results] == ["batch"] * 4 + ["single"]
    alone = Benchmark(suite(2), Parity(RuntimeError), batch_size=2).run()
    assert {row.prompt_mode for row in alone.evaluation_results} == {"single"}


class Prompting(BaseBackend):
    name = "prompting"

    def __init__(self, write: Callable[[PatientRecord], str]) -> None:
        self.write = write

    def evaluate(self, record: PatientRecord) -> BackendResponse:
        return BackendResponse(0, prompt=self.write(record))


@pytest.mark.parametrize(
    ("write", "shown"),
    [
        (lambda r: f"x {r.features['x']}, age {r.features['age']}", r"r1.*value of '(x|age)'"),
        (lambda r: f"A patient of {r.features['age']}.", r"r1.*value of 'age'"),
        (lambda r: f"Answer {r.label}", r"r1.*label"),
        (lambda r: f"label: {r.label}", r"r0.*label"),
        (lambda r: f"Ground truth = {r.label}", r"r0.*label"),
        (lambda r: f"ward: {r.metadata['ward']}", r"r0.*metadata 'ward'"),
        (lambda r: f"serum {r.features['serum']:.3f}", r"r0.*value of 'serum'"),
        (lambda r: f"serum {r.features['serum']:e}", r"r0.*value of 'serum'"),
        (lambda r: f"serum {r.features['serum']}".replace(".", ","), r"r0.*value of 'serum'"),
        (lambda r: f"He lies in {r.metadata['ward']}.", r"r1.*metadata 'ward'"),
    ],
)
def test_a_prompt_that_shows_values_label_or_metadata_is_withheld_and_the_answers_are_kept(
    write: Callable[[PatientRecord], str], shown: str
) -> None:
    with pytest.warns(PromptWithheld, match=shown) as warned:
        result = Benchmark(suite(3), Prompting(write)).run()
    assert len(warned) == 1
    assert result.attrition.n_answered == 3
    stored = [row.prompt for row in result.evaluation_results]
    # The first text cannot be told from a template until another one differs from it.
    assert stored[1:] == ["", ""] or stored == [write(suite(1).load()[0]), "", stored[0]]


def test_a_constant_template_is_no_leak_although_it_has_a_value_of_some_records() -> None:
    backend = Prompting(lambda record: "Is x odd? label: 0 for even. serum 731.25 is usual.")
    result = Benchmark(suite(4), backend).run()
    assert [bool(row.prompt) for row in result.evaluation_results] == [False, True, True, True]


def test_a_plain_backends_template_is_kept_and_called_not_verified(tmp_path: Path) -> None:
    backend = Prompting(lambda r: "Is x odd? x is 0 to 9, age 18 to 99. Answer 0 or 1.")
    execution = Execution(recorder=Recorder(tmp_path))
    result = Benchmark(suite(5), backend, execution=execution).run()
    assert result.extras["prompt_data_policy"] == "not verified"
    run = Path(str(result.provenance.run_file))
    edit_run(run, "DELETE FROM scores")
    assert load_run(run).extras["prompt_data_policy"] == "not verified"


class OwnChat(ChatBackend):
    name = "own-chat"

    async def complete(self, request: ChatRequest) -> ChatReply:
        raise BackendError("never called")


@pytest.mark.parametrize("name", ["evaluate", "evaluate_batch", "evaluate_sample"])
def test_an_override_that_no_run_would_call_is_refused_when_the_backend_is_made(name: str) -> None:
    kind = type("Overriding", (OwnChat,), {name: lambda self, *arguments: None})
    with pytest.raises(InvalidValue, match=f"Overriding overrides {name}, which runs do not call"):
        kind()
    assert OwnChat().name == "own-chat"


def test_a_template_that_changes_with_the_values_is_withheld() -> None:
    class Counting(OwnChat):
        def build(self, cases: Any, **options: Any) -> ChatRequest:
            template = f"{sum(case['x'] is not None for case in cases)} findings"
            return ChatRequest("p", "m", "", "", {}, {}, options["mode"], template, len(cases))

        async def complete(self, request: ChatRequest) -> ChatReply:
            return ChatReply("")

        def read(self, request: ChatRequest, reply: ChatReply) -> list[BackendResponse]:
            return [BackendResponse(0, prompt=request.template)] * request.n_records

    with pytest.warns(PromptWithheld, match=r"r0.*without them it is another text"):
        result = Benchmark(suite(1), Counting()).run()
    assert result.evaluation_results[0].prompt == ""


class Ending(Parity):
    """Ends in a way that is not an ordinary exception, at its third call."""

    def __init__(self, end: BaseException) -> None:
        super().__init__(RuntimeError, every=1000)
        self.end = end

    def evaluate(self, record: PatientRecord) -> BackendResponse:
        if self.n_calls == 2:
            self.n_calls += 1
            raise self.end
        return super().evaluate(record)


class Mute(Exception):
    def __str__(self) -> str:
        raise ValueError("cannot say")


@pytest.mark.parametrize(
    "end",
    [
        concurrent.futures.CancelledError(),
        asyncio.CancelledError(),
        SystemExit(3),
        StopIteration(),
        GeneratorExit(),
        Mute(),
    ],
    ids=lambda end: type(end).__name__,
)
def test_no_way_to_end_a_call_ends_the_run_or_passes_for_its_success(end: BaseException) -> None:
    result = Benchmark(suite(6), Ending(end)).run()
    assert (result.attrition.n_answered, result.attrition.n_lost) == (5, 1)
    assert type(end).__name__ in result.attrition.failures["backend"].example


def test_a_chat_backend_that_cancels_its_own_call_is_a_failed_record() -> None:
    class Cancelling(OwnChat):
        async def complete(self, request: ChatRequest) -> ChatReply:
            raise asyncio.CancelledError

    result = Benchmark(suite(2), Cancelling(), batch_size=1).run()
    assert result.attrition.n_lost == 2


class Dear(BaseBackend):
    """Says what it takes, which is much, and nothing before."""

    name = "dear"

    def evaluate(self, record: PatientRecord) -> BackendResponse:
        return BackendResponse(0, input_tokens=1000, output_tokens=200)


class DearInBatches(Dear):
    def evaluate_batch(self, records: Sequence[PatientRecord]) -> list[BackendResponse]:
        return [self.evaluate(record) for record in records]


@pytest.mark.parametrize("kind", [Dear, DearInBatches])
@pytest.mark.parametrize("bound", [3_000, 24_000, 100_000])
def test_a_budget_bounds_a_backend_of_ones_own_as_well(kind: type[Dear], bound: int) -> None:
    limits = Limits(max_tokens=bound)
    benchmark = Benchmark(
        suite(150), kind(), batch_size=2, max_concurrency=8, execution=Execution(limits=limits)
    )
    result = benchmark.run()
    used = result.spending.token_total
    assert used is not None
    assert bound - 2 * 1200 < used <= bound
    priced = Execution(limits=Limits(max_cost=0.01), prices={"dear": Price(1.0, 1.0)})
    cost = Benchmark(suite(30), kind(), max_concurrency=8, execution=priced).run().spending.cost
    assert cost is not None
    assert 0.005 < cost <= 0.01


def test_a_count_that_no_call_can_have_taken_is_not_believed() -> None:
    class Absurd(Parity):
        def evaluate(self, record: PatientRecord) -> BackendResponse:
            return BackendResponse(0, input_tokens=10**400, output_tokens=-3)

    result = Benchmark(suite(2), Absurd(RuntimeError)).run()
    assert (result.attrition.n_answered, result.spending.token_total) == (2, None)
    assert ChatReply("", input_tokens=10**400, output_tokens=5).input_tokens is None


def test_what_a_backend_does_to_a_record_reaches_no_row() -> None:
    class Cheating(BaseBackend):
        name = "cheating"

        def evaluate(self, record: PatientRecord) -> BackendResponse:
            record.label, record.record_id = 0, "mine"
            record.metadata["ward"] = record.features["x"] = "changed"  # type: ignore[index]
            return BackendResponse(0)

    asked = suite(4)
    rows = Benchmark(asked, Cheating()).run().evaluation_results
    assert [row.ground_truth for row in rows] == [0, 1, 0, 1]
    assert [row.record_id for row in rows] == ["r0", "r1", "r2", "r3"]
    assert [row.metadata["ward"] for row in rows] == ["w0", "w1", "w2", "w3"]
    assert asked.records()[0].features["x"] == 20


def test_a_key_in_the_reply_of_ones_own_backend_is_not_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = "sk-planted-0123456789abcdef"
    monkeypatch.setenv("COMPATIBLE_API_KEY", key)

    class Telling(Parity):
        def evaluate(self, record: PatientRecord) -> BackendResponse:
            return BackendResponse(0, raw_response=f"I was sent {key}, thanks")

    recorder = Recorder(tmp_path)
    Benchmark(suite(2), Telling(RuntimeError), execution=Execution(recorder=recorder)).run()
    (run,) = tmp_path.iterdir()
    stored = run.read_bytes()
    assert b"I was sent" in stored
    assert key.encode() not in stored


def test_half_a_character_in_an_error_is_stored_and_read_back(tmp_path: Path) -> None:
    backend = Parity(lambda: ValueError("no \ud83d good"), every=2)
    execution = Execution(recorder=Recorder(tmp_path))
    Benchmark(suite(4), backend, execution=execution).run()
    (run,) = tmp_path.iterdir()
    found = load_run(run)
    assert found.attrition.n_lost == 2
    report = tmp_path / "report.txt"
    write_text(report, format_report(found))
    assert "no \\ud83d good" in report.read_text(encoding="utf-8")
    again = Benchmark(suite(4), backend, execution=Execution(recorder=Recorder.resume(run))).run()
    assert again.attrition.n_sent == 4

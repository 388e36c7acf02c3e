"""One transport policy: each fault of the wire, from a raw server, once with each provider."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
import threading
import time
import tracemalloc
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.backends.conftest import PROVIDERS, staging_task

from krisis.backends.anthropic import AnthropicBackend
from krisis.backends.chat import ChatReply, ChatRequest
from krisis.backends.gemini import GeminiBackend
from krisis.backends.openai import OpenAIBackend
from krisis.backends.provider import ProviderBackend
from krisis.benchmark import Benchmark
from krisis.data.base import PatientRecord, RecordListSuite, Task
from krisis.errors import BackendError, ProviderUnavailable, RequestRefused, Unreachable
from krisis.execution.options import Execution
from krisis.execution.pacing.budget import Limits
from krisis.execution.pacing.prices import Price
from krisis.metrics import Accuracy
from krisis.results.base import BenchmarkResult
from krisis.results.stops import BudgetReached, ProviderUnreachable

KEY = "sk-secret-1234567890"
ANSWER = json.dumps({"abstained": False, "prediction": 3, "confidence": 0.8})


def reply(dialect: str, text: str | None = ANSWER, **odd: Any) -> dict[str, Any]:
    """Return a good reply of a provider's kind, with members of the test's own."""
    if dialect == "anthropic":
        content = [] if text is None else [{"type": "text", "text": text}]
        usage = odd.pop("usage", {"input_tokens": 50, "output_tokens": 10})
        reason = odd.pop("reason", "end_turn")
        told = {"id": "1", "type": "message", "role": "assistant", "model": "m-1"}
        return {**told, "content": content, "stop_reason": reason, "usage": usage}
    if dialect == "gemini":
        usage = odd.pop("usage", {"promptTokenCount": 50, "candidatesTokenCount": 10})
        candidate = {
            "content": {"parts": [] if text is None else [{"text": text}]},
            "finishReason": odd.pop("reason", "STOP"),
            "logprobsResult": odd.pop("logprobs", None),
        }
        return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "m-1"}
    choice = {
        "message": {"role": "assistant", "content": text},
        "finish_reason": odd.pop("reason", "stop"),
        "logprobs": odd.pop("logprobs", None),
    }
    usage = odd.pop("usage", {"prompt_tokens": 50, "completion_tokens": 10})
    return {"id": "1", "model": "m-1", "choices": [choice], "usage": usage}


def http(body: bytes, *headers: str, status: str = "200 OK") -> bytes:
    lines = [f"HTTP/1.1 {status}", "Content-Type: application/json", "Connection: close", *headers]
    if not any(line.lower().startswith(("content-length", "transfer-enc")) for line in headers):
        lines.append(f"Content-Length: {len(body)}")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


class RawServer:
    """Writes to each request the bytes that a script says, then good replies."""

    def __init__(self) -> None:
        self.dialect = "openai"
        self.script: list[bytes | str] = []
        self.heads: list[bytes] = []
        self.bodies: list[bytes] = []
        self.good: Callable[[bytes], dict[str, Any]] = lambda body: reply(self.dialect)
        self.port = 0

    @property
    def root(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def base_url(self, dialect: str) -> str:
        self.dialect = dialect
        return self.root if dialect in ("anthropic", "gemini") else f"{self.root}/v1"

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                lengths = [
                    line for line in head.lower().split(b"\r\n") if b"content-length" in line
                ]
                body = await reader.readexactly(int(lengths[0].split(b":")[1]))
                self.heads.append(head)
                self.bodies.append(body)
                if not await self.answer(writer):
                    return
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            writer.close()

    async def answer(self, writer: asyncio.StreamWriter) -> bool:
        """Answer one request and say whether the connection stays open."""
        said = self.script.pop(0) if self.script else "good"
        if said == "good":
            body = json.dumps(self.good(self.bodies[-1])).encode()
            writer.write(http(body).replace(b"Connection: close\r\n", b""))
        elif said == "reset":
            connection = writer.get_extra_info("socket")
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
            return False
        elif isinstance(said, bytes):
            writer.write(said)
            await writer.drain()
            writer.close()
            return False
        await writer.drain()
        return True


@pytest.fixture
def start() -> Iterator[Callable[[], RawServer]]:
    """Return a function that starts a raw server in a thread of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    listening: list[asyncio.Server] = []

    def make() -> RawServer:
        async def listen(server: RawServer) -> None:
            made = await asyncio.start_server(server.handle, "127.0.0.1", 0)
            listening.append(made)
            server.port = made.sockets[0].getsockname()[1]

        server = RawServer()
        asyncio.run_coroutine_threadsafe(listen(server), loop).result(10)
        return server

    yield make

    async def end() -> None:
        for server in listening:
            server.close()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await asyncio.sleep(0)  # a closed connection is let go a turn of the loop later

    asyncio.run_coroutine_threadsafe(end(), loop).result(10)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(10)
    loop.close()


@pytest.fixture
def raw(start: Callable[[], RawServer]) -> RawServer:
    return start()


def in_front_of(
    raw: RawServer, kind: type[ProviderBackend], suite: RecordListSuite
) -> Iterator[ProviderBackend]:
    dialect = {"anthropic": "anthropic", "gemini": "gemini"}.get(PROVIDERS[kind], "openai")
    made = kind(
        "some-model",
        base_url=raw.base_url(dialect),
        api_key=KEY,
        retry_base_seconds=0.001,
        max_retries=3,
    )
    made.prepare(suite)
    yield made
    made.close()


@pytest.fixture(params=list(PROVIDERS), ids=lambda kind: kind.name)
def asked(
    request: pytest.FixtureRequest, raw: RawServer, suite: RecordListSuite
) -> Iterator[ProviderBackend]:
    """Every provider, in front of the raw server."""
    yield from in_front_of(raw, request.param, suite)


@pytest.fixture(params=[OpenAIBackend, AnthropicBackend, GeminiBackend], ids=lambda kind: kind.name)
def sdk(
    request: pytest.FixtureRequest, raw: RawServer, suite: RecordListSuite
) -> Iterator[ProviderBackend]:
    """One provider for each SDK and its form of a reply, in front of the raw server."""
    yield from in_front_of(raw, request.param, suite)


def run(backend: ProviderBackend, *, n_records: int = 6, **options: Any) -> BenchmarkResult:
    records = [PatientRecord({"sc": 1 + i / 10, "htn": 1, "hemo": 9}, 3) for i in range(n_records)]
    suite = RecordListSuite(records, staging_task())
    return Benchmark(suite, backend, [Accuracy()], batch_size=1, **options).run()


def packed(n_megabytes: int) -> bytes:
    """Return so many megabytes of zeros as gzip."""
    packer = zlib.compressobj(1, zlib.DEFLATED, zlib.MAX_WBITS | 16)
    return b"".join(packer.compress(bytes(2**20)) for _ in range(n_megabytes)) + packer.flush()


BOMB = packed(400)
OPENING = http(b"", "Content-Length: 5000")
CHUNKED = "Transfer-Encoding: chunked"
FAULTS: dict[str, tuple[bytes | str, str]] = {
    "reset": ("reset", "reset|closed the connection"),
    "closed": (b"", "closed the connection before it answered"),
    "cut": (OPENING + b'{"choices": [', "breaks off"),
    "cut chunks": (http(b'400\r\n{"choices"', CHUNKED), "breaks off"),
    "no status line": (b"SSH-2.0-OpenSSH_9.6 patient 2.41\r\n\r\n", "not a valid HTTP response"),
    "bad header": (b"HTTP/1.1 200 OK\r\nno colon here 2.41\r\n\r\n{}", "not a valid HTTP response"),
    "two lengths": (
        http(b"{}", "Content-Length: 2", "Content-Length: 9"),
        "not a valid HTTP response",
    ),
    "bad chunk": (http(b"zz\r\n{}\r\n0\r\n\r\n", CHUNKED), "breaks off|not a valid HTTP"),
    "bomb": (http(BOMB, "Content-Encoding: gzip"), "more than 32 MB"),
    "flood": (http(b" " * (33 * 2**20)), "more than 32 MB"),
    "no gzip": (http(b"plain", "Content-Encoding: gzip"), "not a valid HTTP response"),
    "other packing": (http(b"xx", "Content-Encoding: br"), "packed as 'br'"),
    "no JSON": (http(b"<html>bad gateway</html>"), "not a"),
    "503": (http(b"{}", status="503 Busy"), "503"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_named_and_the_call_made_again_is_answered(
    asked: ProviderBackend, raw: RawServer, records: list[PatientRecord], fault: str
) -> None:
    written, name = FAULTS[fault]
    asked.max_retries = 0
    raw.script = [written]
    with pytest.raises(ProviderUnavailable, match=name) as caught:
        asked.evaluate(records[0])
    assert caught.value.status in (None, 503)
    assert "2.41" not in str(caught.value)
    assert KEY not in str(caught.value)
    asked.max_retries = 3
    raw.heads.clear()
    raw.script = [written, "good", written, "good"]
    result = run(asked)
    assert [row.prediction for row in result.evaluation_results] == [3] * 6
    assert len(raw.heads) == result.spending.n_api_calls == 8
    assert result.spending.n_retries == 2


@pytest.mark.parametrize("status", [302, 307])
def test_a_redirect_takes_neither_key_nor_prompt_elsewhere(
    asked: ProviderBackend,
    raw: RawServer,
    start: Callable[[], RawServer],
    status: int,
) -> None:
    elsewhere = start()
    raw.script = [http(b"", f"Location: {elsewhere.root}/v1/x", status=f"{status} Moved")] * 9
    with pytest.raises(RequestRefused, match=f"redirects to {elsewhere.root} .status {status}"):
        run(asked, max_concurrency=1)
    assert (len(raw.heads), elsewhere.heads) == (1, [])


def closed_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port: int = taken.getsockname()[1]
        return port


def counting(backend: ProviderBackend) -> list[ChatRequest]:
    """Let a backend note every call that it makes."""
    calls: list[ChatRequest] = []
    complete = backend.complete

    async def noted(request: ChatRequest) -> ChatReply:
        calls.append(request)
        return await complete(request)

    backend.complete = noted  # type: ignore[method-assign]
    return calls


def test_where_nothing_listens_two_attempts_end_the_run_with_one_sentence(
    asked: ProviderBackend,
) -> None:
    port = closed_port()
    asked.base_url = f"http://127.0.0.1:{port}"
    calls = counting(asked)
    with pytest.raises(Unreachable) as caught:
        run(asked)
    assert str(caught.value) == (
        f"nothing listens at http://127.0.0.1:{port} (connection refused); start it or check "
        "base_url"
    )
    assert len(calls) == 2


def test_a_name_that_cannot_be_resolved_is_called_that(
    asked: ProviderBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def unknown(*args: Any, **options: Any) -> Any:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr("asyncio.base_events.BaseEventLoop.getaddrinfo", unknown)
    asked.base_url = "http://nowhere.invalid"
    calls = counting(asked)
    with pytest.raises(Unreachable, match=r"the host name of http://nowhere\.invalid cannot be"):
        run(asked)
    assert len(calls) == 2


def test_a_provider_that_goes_away_ends_the_run_and_leaves_the_rest_for_a_resume(
    asked: ProviderBackend,
) -> None:
    complete = asked.complete
    calls = counting(asked)
    port = closed_port()

    async def moved(request: ChatRequest) -> ChatReply:
        if len(calls) == 2:
            await asked.aclose()
            asked.base_url = f"http://127.0.0.1:{port}"
        calls.append(request)
        return await complete(request)

    asked.complete = moved  # type: ignore[method-assign]
    result = run(asked)
    assert [row.outcome for row in result.evaluation_results] == ["answered"] * 2
    assert isinstance(result.stop, ProviderUnreachable)
    assert "nothing listens" in result.stop.sentence
    assert len(calls) == 2 + 1 + asked.max_retries


def test_a_bomb_stays_packed(raw: RawServer, records: list[PatientRecord], task: Task) -> None:
    backend = OpenAIBackend("m", base_url=raw.base_url("openai"), api_key=KEY, max_retries=0)
    backend.task = task
    backend.evaluate(records[0])  # imports and connects
    raw.script = [http(BOMB, "Content-Encoding: gzip")]
    tracemalloc.start()
    try:
        with pytest.raises(ProviderUnavailable, match="more than 32 MB"):
            backend.evaluate(records[0])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
        backend.close()
    assert peak < 100 * 2**20  # what is read may be held twice while it grows


def test_a_packed_reply_is_read(sdk: ProviderBackend, raw: RawServer) -> None:
    body = json.dumps(reply(raw.dialect)).encode()
    gzip = zlib.compressobj(wbits=zlib.MAX_WBITS | 16)
    raw.script = [
        http(gzip.compress(body) + gzip.flush(), "Content-Encoding: gzip"),
        http(zlib.compress(body), "Content-Encoding: deflate"),
    ]
    assert run(sdk).attrition.n_answered == 6


def test_the_import_of_an_sdk_is_not_on_the_clock_of_the_first_call(
    sdk: ProviderBackend, monkeypatch: pytest.MonkeyPatch
) -> None:
    make = sdk.make_client

    def slow(key: str, http: Any) -> Any:
        time.sleep(1.0)
        return make(key, http)

    monkeypatch.setattr(sdk, "make_client", slow)
    sdk.timeout_seconds, sdk.max_retries = 0.8, 0
    result = run(sdk, execution=Execution(limits=Limits(timeout_seconds=0.8)))
    assert result.attrition.n_answered == 6


ODD_USAGE: list[Any] = [
    None,
    "many",
    [1],
    {"prompt_tokens": -5, "input_tokens": -5, "promptTokenCount": -5},
    dict.fromkeys(("completion_tokens", "output_tokens", "candidatesTokenCount"), 10**400),
    {"prompt_tokens": float("nan"), "output_tokens": True, "candidatesTokenCount": "12"},
    {"prompt_tokens_details": "x", "output_tokens_details": 3, "thoughtsTokenCount": {}},
]


@pytest.mark.parametrize("usage", ODD_USAGE, ids=lambda usage: str(usage)[:30])
def test_odd_usage_costs_no_answer_and_is_charged_at_the_bound(
    sdk: ProviderBackend, raw: RawServer, usage: Any
) -> None:
    raw.script = [http(json.dumps(reply(raw.dialect, usage=usage)).encode())] * 6
    result = run(sdk)
    assert result.attrition.n_answered == 6
    took = result.spending
    assert took.n_calls_without_usage == 6
    assert took.n_dropped_fields == (0 if usage is None else took.n_dropped_fields)
    assert took.input_tokens is None or took.output_tokens is None


@pytest.mark.parametrize("reason", [7, ["stop"], "NO_SUCH_REASON", None])
def test_an_odd_finish_reason_costs_no_answer_and_prints_nothing(
    sdk: ProviderBackend, raw: RawServer, reason: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    raw.script = [http(json.dumps(reply(raw.dialect, reason=reason)).encode())] * 6
    result = run(sdk)
    assert result.attrition.n_answered == 6
    is_odd = reason is not None and not isinstance(reason, str)
    assert result.spending.n_dropped_fields == 6 * is_odd
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("logprob", [0.7, float("nan"), "-1", None])
def test_a_log_probability_that_is_none_is_dropped_and_counted(
    sdk: ProviderBackend, raw: RawServer, logprob: Any
) -> None:
    if raw.dialect == "anthropic":
        pytest.skip("the API of Anthropic gives no log-probabilities")
    figures: dict[str, Any] = {"content": [{"token": ANSWER, "logprob": logprob}]}
    if raw.dialect == "gemini":
        figures = {"chosenCandidates": [{"token": ANSWER, "logProbability": logprob}]}
    raw.script = [http(json.dumps(reply(raw.dialect, logprobs=figures)).encode())] * 6
    result = run(sdk)
    assert result.attrition.n_answered == 6
    assert all("token_msp" not in row.signals for row in result.evaluation_results)
    assert result.spending.n_dropped_fields == 6


def test_a_reply_without_choices_is_paid_and_asked_once_more(
    sdk: ProviderBackend, raw: RawServer
) -> None:
    empty = reply(raw.dialect, None)
    for name in ("choices", "candidates"):
        if name in empty:
            empty[name] = []
    raw.script = [http(json.dumps(empty).encode())]
    result = run(sdk)
    assert result.attrition.n_answered == 6
    took = result.spending
    assert (took.lost_input_tokens, took.lost_output_tokens, took.n_api_calls) == (50, 10, 7)
    assert took.n_calls_without_usage == 0


@pytest.mark.parametrize(
    ("reason", "advice"),
    [
        ("tool_calls", "called a tool instead of answering"),
        ("tool_use", "called a tool instead of answering"),
        ("stop", "ask again, or ask another model"),
        ("length", "raise the token cap"),
    ],
)
def test_an_empty_reply_gets_the_advice_that_fits_its_reason(
    sdk: ProviderBackend, raw: RawServer, records: list[PatientRecord], reason: str, advice: str
) -> None:
    raw.script = [http(json.dumps(reply(raw.dialect, None, reason=reason)).encode())]
    with pytest.raises(BackendError, match=advice):
        sdk.evaluate(records[0])


COUNTS = {
    "openai": ("prompt_tokens", "completion_tokens"),
    "anthropic": ("input_tokens", "output_tokens"),
    "gemini": ("promptTokenCount", "candidatesTokenCount"),
}


def cap_in(body: bytes) -> int:
    """Return the output cap that a provider was sent."""
    sent = json.loads(body)
    sent |= sent.get("generationConfig", {})
    names = ("max_completion_tokens", "max_tokens", "maxOutputTokens")
    return int(next(sent[name] for name in names if name in sent))


@pytest.mark.parametrize("reports", [True, False], ids=["reported", "silent"])
def test_a_provider_that_keeps_to_its_cap_is_not_paid_beyond_the_budget(
    asked: ProviderBackend, raw: RawServer, reports: bool
) -> None:
    billed, sizes = [0, 0], []

    def good(body: bytes) -> dict[str, Any]:
        n_input, n_output = len(body) // 4, min(cap_in(body), 700 * len(raw.heads))
        sizes.append(len(body))
        billed[0] += n_input
        billed[1] += n_output
        names = COUNTS[raw.dialect]
        usage = dict(zip(names, (n_input, n_output), strict=True)) if reports else {}
        return reply(raw.dialect, usage=usage)

    raw.good = good
    price, bound = Price(2.0, 10.0), 0.1
    limits = Limits(max_cost=bound)
    prices = {f"{asked.provider}/*": price}
    result = run(
        asked, n_records=60, max_concurrency=20, execution=Execution(limits=limits, prices=prices)
    )
    assert isinstance(result.stop, BudgetReached)
    assert price.cost(*billed) <= bound
    took = result.spending
    counted = took.cost if reports else took.cost_at_most
    assert counted is not None
    assert price.cost(*billed) <= counted <= bound
    # A token for every byte and 256 more, until a reply tells that it was fewer.
    assert bound - counted <= price.cost(1000 if reports else max(sizes) + 256, 2560)
    assert took.n_api_calls == len(raw.heads)

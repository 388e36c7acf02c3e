"""Servers that reject or ignore a schema: an aiohttp server plays what llmock cannot."""

from __future__ import annotations

import asyncio
import json
import math
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from aiohttp import web

from krisis.backends.compatible import CompatibleBackend
from krisis.backends.failures import as_backend_error
from krisis.backends.openai import OpenAIBackend
from krisis.backends.secrets import Secret
from krisis.data.base import PatientRecord, RecordListSuite
from krisis.errors import MalformedReply, RequestRefused

GOOD = json.dumps({"abstained": False, "prediction": 3, "confidence": 0.8})
Handler = Callable[[dict[str, Any]], tuple[int, str]]


def completion(text: str, logprobs: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    choice = {"index": 0, "message": {"role": "assistant", "content": text}}
    told = {"finish_reason": "stop", "logprobs": {"content": logprobs} if logprobs else None}
    return {"id": "1", "object": "chat.completion", "choices": [{**choice, **told}]}


class Server:
    """A server whose answers a function decides from the body of each request."""

    def __init__(self) -> None:
        self.handler: Handler = lambda body: (200, GOOD)
        self.bodies: list[dict[str, Any]] = []
        self.address = ""
        self.logprobs: list[dict[str, Any]] | None = None

    async def handle(self, request: web.Request) -> web.Response:
        body = await request.json()
        self.bodies.append(body)
        status, text = self.handler(body)
        if status == 200:
            return web.json_response(completion(text, self.logprobs))
        if status == 299:
            kind = "text/html" if text.startswith("<") else "application/json"
            return web.Response(text=text, content_type=kind)
        return web.json_response({"error": {"message": text}}, status=status)

    def formats(self) -> list[str]:
        return [body.get("response_format", {}).get("type", "text") for body in self.bodies]


@pytest.fixture
def odd_server() -> Iterator[Server]:
    server, loop, ready = Server(), asyncio.new_event_loop(), threading.Event()
    app = web.Application()
    app.router.add_post("/v1/chat/completions", server.handle)
    runner = web.AppRunner(app)

    async def start() -> None:
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        server.address = f"http://{host}:{port}/v1"
        ready.set()

    def serve() -> None:
        loop.run_until_complete(start())
        loop.run_forever()

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    ready.wait(10)
    yield server
    asyncio.run_coroutine_threadsafe(runner.cleanup(), loop).result(10)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(10)
    loop.close()


@pytest.fixture
def compatible(odd_server: Server, suite: RecordListSuite) -> Iterator[CompatibleBackend]:
    backend = CompatibleBackend(
        "m", base_url=odd_server.address, retry_base_seconds=0.001, max_retries=4
    )
    backend.prepare(suite)
    yield backend
    backend.close()


def test_a_schema_that_is_rejected_is_not_sent_again(
    odd_server: Server, compatible: CompatibleBackend, records: list[PatientRecord]
) -> None:
    def rejects(body: dict[str, Any]) -> tuple[int, str]:
        asked = body.get("response_format", {}).get("type")
        return (400, "unknown response_format") if asked == "json_schema" else (200, GOOD)

    odd_server.handler = rejects
    assert compatible.evaluate(records[0]).prediction == 3
    assert compatible.evaluate(records[1]).prediction == 3
    assert odd_server.formats() == ["json_schema", "json_object", "json_object"]
    assert "must satisfy this JSON schema" in odd_server.bodies[-1]["messages"][0]["content"]


def test_a_server_that_breaks_over_formats_is_asked_in_plain_text(
    odd_server: Server, compatible: CompatibleBackend, records: list[PatientRecord]
) -> None:
    odd_server.handler = lambda body: (500, "oops") if "response_format" in body else (200, GOOD)
    assert compatible.evaluate(records[0]).prediction == 3
    assert compatible.evaluate(records[1]).prediction == 3
    assert odd_server.formats() == [*["json_schema"] * 2, *["json_object"] * 2, "text", "text"]


def test_trouble_of_a_large_provider_is_not_taken_for_a_rejected_schema(
    odd_server: Server, suite: RecordListSuite
) -> None:
    backend = OpenAIBackend(
        "m", base_url=odd_server.address, api_key="k", retry_base_seconds=0.001, max_retries=4
    )
    backend.prepare(suite)
    odd_server.handler = lambda body: (500, "oops") if len(odd_server.bodies) < 4 else (200, GOOD)
    assert backend.evaluate(suite.load()[0]).prediction == 3
    backend.close()
    assert odd_server.formats() == ["json_schema"] * 4


def test_a_schema_that_is_ignored_is_noticed_and_the_reply_still_read(
    odd_server: Server, compatible: CompatibleBackend, records: list[PatientRecord]
) -> None:
    odd_server.handler = lambda body: (200, f"Surely:\n```json\n{GOOD}\n```")
    assert compatible.evaluate(records[0]).prediction == 3
    assert compatible.evaluate(records[1]).prediction == 3
    assert compatible.evaluate(records[2]).prediction == 3
    assert odd_server.formats() == ["json_schema", "json_object", "text"]


def test_free_text_stays_malformed_whatever_the_server_promised(
    odd_server: Server, compatible: CompatibleBackend, records: list[PatientRecord]
) -> None:
    odd_server.handler = lambda body: (200, "stage three")
    with pytest.raises(MalformedReply):
        compatible.evaluate(records[0])


def test_a_request_refused_in_every_way_is_refused_for_its_own_reason(
    odd_server: Server, compatible: CompatibleBackend, records: list[PatientRecord]
) -> None:
    odd_server.handler = lambda body: (400, "the context is too long")
    with pytest.raises(RequestRefused, match="the context is too long"):
        compatible.evaluate(records[0])
    assert odd_server.formats() == ["json_schema", "json_object", "text"]
    assert compatible.ladder.current == "json_schema"


@pytest.mark.parametrize(
    ("how", "advice"),
    [
        (
            {"mode": "single", "context": "so " * 40},
            "share has 120 characters, and a smaller batch",
        ),
        ({"mode": "batch", "context": "so " * 40}, "ask a model with a longer context, or cut"),
        ({"mode": "batch"}, "send fewer cases in one call"),
        ({"mode": "single"}, "one case alone is too long"),
    ],
)
def test_what_is_too_long_gets_the_advice_that_fits(
    compatible: CompatibleBackend, records: list[PatientRecord], how: dict[str, Any], advice: str
) -> None:
    refusal = OSError("maximum context length is 8192 tokens, yet you sent 9001")
    refusal.status_code = 400  # type: ignore[attr-defined]
    cases = [record.features for record in records[: 2 if how["mode"] == "batch" else 1]]
    error = as_backend_error(refusal, compatible.build(cases, **how), Secret(""))
    assert isinstance(error, RequestRefused)
    assert advice in str(error)


def test_once_proven_a_refusal_is_taken_at_its_word(
    odd_server: Server, compatible: CompatibleBackend, records: list[PatientRecord]
) -> None:
    assert compatible.evaluate(records[0]).prediction == 3
    odd_server.handler = lambda body: (400, "the context is too long")
    with pytest.raises(RequestRefused):
        compatible.evaluate(records[1])
    assert odd_server.formats() == ["json_schema", "json_schema"]


def test_log_probabilities_that_are_refused_are_not_asked_for_again(
    odd_server: Server, compatible: CompatibleBackend, records: list[PatientRecord]
) -> None:
    odd_server.handler = lambda body: (
        (400, "Logprobs is not supported by this model") if "logprobs" in body else (200, GOOD)
    )
    assert compatible.evaluate(records[0]).prediction == 3
    assert compatible.evaluate(records[1]).prediction == 3
    assert ["logprobs" in body for body in odd_server.bodies] == [True, False, False]
    assert odd_server.formats() == ["json_schema"] * 3


def test_an_error_that_repeats_the_prompt_shows_no_value_of_it(
    odd_server: Server, compatible: CompatibleBackend, records: list[PatientRecord]
) -> None:
    odd_server.handler = lambda body: (404, "cannot handle " + body["messages"][1]["content"])
    with pytest.raises(RequestRefused) as caught:
        compatible.evaluate(records[0])
    assert "2.41" not in str(caught.value)
    assert "answered 404: cannot handle Findings: - serum creatinine: …" in str(caught.value)


@pytest.mark.parametrize("garbage", ['{"choices": [', "<html>Bad gateway</html>"])
def test_a_body_that_is_no_response_counts_as_a_failing_server(
    odd_server: Server, compatible: CompatibleBackend, records: list[PatientRecord], garbage: str
) -> None:
    n_calls = 0

    def breaks_once(body: dict[str, Any]) -> tuple[int, str]:
        nonlocal n_calls
        n_calls += 1
        return (299, garbage) if n_calls == 1 else (200, GOOD)

    odd_server.handler = breaks_once
    assert compatible.evaluate(records[0]).prediction == 3
    assert n_calls == 2


def test_every_case_of_a_batch_has_the_figures_of_its_own_tokens(
    odd_server: Server, compatible: CompatibleBackend, records: list[PatientRecord]
) -> None:
    rows = [{"id": f"case_{i}", **json.loads(GOOD)} for i in (2, 0, 1)]
    text = json.dumps({"results": rows})
    shares = iter((0.9, 0.5, 0.7))
    # One token per character, sure of everything but the three predictions.
    odd_server.logprobs = []
    for i, letter in enumerate(text):
        share = next(shares) if letter == "3" and text[i - 3 : i] == '": ' else 1.0
        top = [{"token": letter, "logprob": math.log(share), "bytes": None}]
        odd_server.logprobs.append({**top[0], "top_logprobs": top})
    odd_server.handler = lambda body: (200, text)
    responses = compatible.evaluate_batch(records)
    told = [response.signals["token_msp"] for response in responses]
    assert told == pytest.approx([0.5, 0.7, 0.9])
    assert [r.signals["token_energy"] for r in responses] == pytest.approx(
        [math.log(0.5), math.log(0.7), math.log(0.9)]
    )

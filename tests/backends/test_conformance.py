"""Every provider behaves alike on the wire: real SDKs against llmock, a server of its own kind."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from llmock.ratelimit import LimitSettings
from llmock.scenarios import Delay, Fail, Reply
from llmock.testing import LLMockServer

from krisis.backends.chat import ChatReply, ChatRequest
from krisis.backends.provider import ProviderBackend
from krisis.benchmark import Benchmark
from krisis.data.base import PatientRecord, RecordListSuite
from krisis.errors import (
    AuthenticationFailed,
    CallTimedOut,
    ContentFiltered,
    MalformedReply,
    ProviderUnavailable,
    RateLimited,
    RequestRefused,
    TruncatedReply,
    Unreachable,
)


def answer(prediction: int | None = 3, **members: Any) -> dict[str, Any]:
    return {"abstained": False, "prediction": prediction, "confidence": 0.8, **members}


def single(prediction: int | None = 3, **members: Any) -> Reply:
    return Reply(text=json.dumps(answer(prediction, **members)))


def batch(n_records: int, prediction: int = 3) -> Reply:
    rows = [{"id": f"case_{i}", **answer(prediction)} for i in range(n_records)]
    return Reply(text=json.dumps({"results": rows}))


def script(server: LLMockServer, *behaviours: Any) -> None:
    server.state.scenarios.add(*behaviours)


def n_calls(server: LLMockServer) -> int:
    return len(server.state.journal.records())


def test_a_single_case(
    backend: ProviderBackend, server: LLMockServer, records: list[PatientRecord]
) -> None:
    script(server, single(4, confidence="85%"))
    response = backend.evaluate(records[0])
    assert (response.prediction, response.abstained, response.confidence) == (4, False, 0.85)
    assert response.prompt_mode == "single"
    assert response.model or backend.provider == "gemini"  # llmock's Gemini names no model
    assert response.input_tokens
    assert response.output_tokens
    assert response.latency_seconds
    sent = str(server.state.journal.records()[0].body)
    assert "2.41 mg/dL" in sent
    assert "31.77" not in sent
    assert "2.41" not in response.prompt


def test_a_batch(
    backend: ProviderBackend, server: LLMockServer, records: list[PatientRecord]
) -> None:
    script(server, batch(3, prediction=2))
    responses = backend.evaluate_batch(records)
    assert [response.prediction for response in responses] == [2, 2, 2]
    assert {response.prompt_mode for response in responses} == {"batch"}
    assert n_calls(server) == 1


def test_a_malformed_batch_is_halved_down_to_single_cases(
    backend: ProviderBackend, server: LLMockServer, suite: RecordListSuite
) -> None:
    script(server, batch(2), Reply(text="stage three, all of them"), single(), single(), single())
    result = Benchmark(suite, backend, batch_size=3).run()
    assert [row.outcome for row in result.evaluation_results] == ["answered"] * 3
    assert result.extras["n_batch_splits"] == 2
    assert n_calls(server) == 5


def test_a_refusal_is_an_abstention(
    backend: ProviderBackend, server: LLMockServer, records: list[PatientRecord]
) -> None:
    script(server, Reply(text="I'm sorry, but I cannot provide a diagnosis."))
    response = backend.evaluate(records[0])
    assert (response.abstained, response.prediction, response.confidence) == (True, None, None)
    assert response.signals["refusal"] is True


def test_a_withheld_answer_is_a_failure(
    backend: ProviderBackend, server: LLMockServer, records: list[PatientRecord]
) -> None:
    script(server, Reply(text="", finish_reason="content_filter"))
    with pytest.raises(ContentFiltered):
        backend.evaluate(records[0])


def test_an_empty_reply_is_malformed(
    backend: ProviderBackend, server: LLMockServer, records: list[PatientRecord]
) -> None:
    script(server, Reply(text=""))
    with pytest.raises(MalformedReply, match=r"empty.*ask again, or ask another model"):
        backend.evaluate(records[0])


def test_a_cut_reply_says_to_raise_the_cap(
    backend: ProviderBackend, server: LLMockServer, records: list[PatientRecord]
) -> None:
    script(server, Reply(text='{"abstained": false, "pred', finish_reason="length"))
    with pytest.raises(TruncatedReply, match="raise the token cap") as caught:
        backend.evaluate(records[0])
    assert caught.value.output_tokens > 0


@pytest.mark.parametrize(
    ("status", "kind", "advice"),
    [
        (401, AuthenticationFailed, "check the key"),
        (403, AuthenticationFailed, "allowed to do"),
        (404, RequestRefused, "name of the model"),
    ],
)
def test_what_cannot_help_is_not_repeated(
    backend: ProviderBackend,
    server: LLMockServer,
    records: list[PatientRecord],
    status: int,
    kind: type[Exception],
    advice: str,
) -> None:
    script(server, Fail(status, message="no: sk-secret-1234567890", times=None))
    with pytest.raises(kind, match=advice) as caught:
        backend.evaluate(records[0])
    assert n_calls(server) == 1
    assert "sk-secret" not in str(caught.value)
    assert "sk-secret" not in repr(backend.identity()) + repr(vars(backend))


def test_429_waits_as_long_as_it_is_told(
    backend: ProviderBackend, server: LLMockServer, records: list[PatientRecord]
) -> None:
    script(server, Fail(429, retry_after=0.3), single())
    started = time.perf_counter()
    assert backend.evaluate(records[0]).prediction == 3
    assert time.perf_counter() - started >= 0.3
    assert n_calls(server) == 2


@pytest.mark.parametrize("status", [408, 500, 503, 529])
def test_a_failing_server_is_asked_again(
    backend: ProviderBackend, server: LLMockServer, records: list[PatientRecord], status: int
) -> None:
    script(server, Fail(status, retry_after=0.05), single())
    assert backend.evaluate(records[0]).prediction == 3
    assert n_calls(server) == 2


def test_a_server_that_keeps_failing_is_given_up_after_the_set_number_of_retries(
    backend: ProviderBackend, server: LLMockServer, records: list[PatientRecord]
) -> None:
    script(server, Fail(500, times=None))
    with pytest.raises(ProviderUnavailable, match="answered 500"):
        backend.evaluate(records[0])
    assert n_calls(server) == 1 + backend.max_retries


def test_a_server_that_hangs_times_out(
    backend: ProviderBackend, server: LLMockServer, records: list[PatientRecord]
) -> None:
    backend.timeout_seconds, backend.max_retries = 0.2, 0
    script(server, Delay(0.3), single())
    with pytest.raises(CallTimedOut, match="raise timeout_seconds"):
        backend.evaluate(records[0])
    while not n_calls(server):  # it is still at work, and would draw on the quota of a later test
        time.sleep(0.01)


def test_a_server_that_is_not_there_is_called_twice_and_that_is_said_in_one_sentence(
    backend: ProviderBackend, records: list[PatientRecord], monkeypatch: pytest.MonkeyPatch
) -> None:
    backend.base_url = "http://127.0.0.1:9"
    attempts: list[ChatRequest] = []
    complete = backend.complete

    async def counted(request: ChatRequest) -> ChatReply:
        attempts.append(request)
        return await complete(request)

    monkeypatch.setattr(backend, "complete", counted)
    with pytest.raises(Unreachable, match=r"^nothing listens at http://127\.0\.0\.1:9 [^.;]*;"):
        backend.evaluate(records[0])
    assert (len(attempts), backend.max_retries) == (2, 3)


def test_a_quota_tells_how_long_to_wait(
    backend: ProviderBackend, server: LLMockServer, records: list[PatientRecord]
) -> None:
    script(server, single(), single())
    settings = server.state.limiter.settings
    server.state.limiter.configure(LimitSettings(rpm=1))
    backend.max_retries = 0
    try:
        assert backend.evaluate(records[0]).prediction == 3
        with pytest.raises(RateLimited) as caught:
            backend.evaluate(records[0])
    finally:
        server.state.limiter.configure(settings)
    assert caught.value.retry_after_seconds is not None
    assert 1 <= caught.value.retry_after_seconds <= 60

from __future__ import annotations

import asyncio
import json

import pytest

from krisis.backends.chat import ChatReply, ChatRequest
from krisis.backends.scripted import ScriptedBackend
from krisis.data.base import PatientRecord, RecordListSuite
from krisis.errors import (
    ContentFiltered,
    InvalidValue,
    MalformedReply,
    ProviderUnavailable,
    RequestRefused,
)


def says(prediction: int = 3) -> str:
    return json.dumps({"abstained": False, "prediction": prediction, "confidence": 0.5})


def says_batch(request: ChatRequest) -> ChatReply:
    rows = [
        {"id": f"case_{i}", "abstained": False, "prediction": i + 1, "confidence": 0.5}
        for i in range(request.n_records)
    ]
    return ChatReply(json.dumps({"results": rows}), "stop", "m-1", 10, 7, 4, 2)


def test_a_single_record_is_built_completed_and_read(suite: RecordListSuite) -> None:
    seen: list[ChatRequest] = []

    def script(request: ChatRequest) -> ChatReply:
        seen.append(request)
        return ChatReply(says(), "stop", "m-1", 10, 5)

    backend = ScriptedBackend(script, model="m")
    backend.prepare(suite)
    response = backend.evaluate(suite.load()[0])
    assert (response.prediction, response.prompt_mode, response.model) == (3, "single", "m-1")
    assert (response.input_tokens, response.output_tokens, response.total_tokens) == (10, 5, 15)
    assert "2.41 mg/dL" in seen[0].user
    assert "2.41" not in response.prompt
    assert response.prompt == seen[0].template


def test_the_tokens_of_a_batch_add_up_over_its_rows(suite: RecordListSuite) -> None:
    backend = ScriptedBackend(says_batch)
    backend.prepare(suite)
    responses = backend.evaluate_batch(suite.load())
    assert [response.prediction for response in responses] == [1, 2, 3]
    assert sum(response.input_tokens or 0 for response in responses) == 10
    assert sum(response.output_tokens or 0 for response in responses) == 7
    assert sum(response.signals["cached_tokens"] for response in responses) == 4
    assert sum(response.signals["reasoning_tokens"] for response in responses) == 2
    assert backend.evaluate_batch([]) == []


def test_a_failing_provider_is_called_again_and_a_refusing_one_is_not(
    suite: RecordListSuite,
) -> None:
    n_calls = 0

    async def script(request: ChatRequest) -> str:
        nonlocal n_calls
        n_calls += 1
        if n_calls < 3:
            raise ProviderUnavailable("down", status=503)
        return says()

    backend = ScriptedBackend(script, retry_base_seconds=0.001)
    backend.prepare(suite)
    assert backend.evaluate(suite.load()[0]).prediction == 3
    assert n_calls == 3

    def refuses(request: ChatRequest) -> str:
        nonlocal n_calls
        n_calls += 1
        raise RequestRefused("no such model", status=404)

    backend.script = refuses
    with pytest.raises(RequestRefused):
        backend.evaluate(suite.load()[0])
    assert n_calls == 4


def test_a_malformed_reply_carries_the_tokens_that_it_cost(suite: RecordListSuite) -> None:
    backend = ScriptedBackend(lambda request: ChatReply("hm", "stop", "", 10, 5))
    backend.prepare(suite)
    with pytest.raises(MalformedReply) as caught:
        backend.evaluate(suite.load()[0])
    assert (caught.value.input_tokens, caught.value.output_tokens) == (10, 5)


def test_a_withheld_answer_is_a_failure_not_an_abstention(suite: RecordListSuite) -> None:
    backend = ScriptedBackend(lambda request: ChatReply("", "content_filter"))
    backend.prepare(suite)
    with pytest.raises(ContentFiltered, match="withheld the answer"):
        backend.evaluate(suite.load()[0])


def test_evaluate_works_where_an_event_loop_is_running(suite: RecordListSuite) -> None:
    backend = ScriptedBackend(lambda request: says(2))
    backend.prepare(suite)

    async def in_a_notebook() -> int | str | None:
        return backend.evaluate(suite.load()[0]).prediction

    assert asyncio.run(in_a_notebook()) == 2


def test_a_backend_without_a_question_says_what_to_call(records: list[PatientRecord]) -> None:
    with pytest.raises(InvalidValue, match="call prepare"):
        ScriptedBackend(lambda request: says()).evaluate(records[0])


def test_the_key_of_a_request_changes_with_what_can_change_the_answer(
    suite: RecordListSuite,
) -> None:
    backend = ScriptedBackend(lambda request: says())
    backend.prepare(suite)
    features = [record.features for record in suite.load()]
    requests = [
        backend.build(features[:1], mode="single"),
        backend.build(features[:1], mode="batch"),
        backend.build(features[:1], mode="single", sample_index=1),
        backend.build(features[1:2], mode="single"),
        backend.build(features[:1], mode="single", context="a letter"),
        ScriptedBackend(lambda request: says(), model="other"),
    ]
    other = requests.pop()
    assert isinstance(other, ScriptedBackend)
    other.prepare(suite)
    requests.append(other.build(features[:1], mode="single"))
    keys = {request.key() for request in requests if isinstance(request, ChatRequest)}
    assert len(keys) == 6

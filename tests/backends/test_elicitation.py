"""Every way to ask for confidence, read strictly, in the dialect of every provider."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from llmock.scenarios import Reply
from llmock.testing import LLMockServer
from tests.backends.conftest import staging_task

from krisis.backends.chat import ChatReply, ChatRequest
from krisis.backends.elicitation import MAX_RATIONALE_CHARACTERS, Asking, Elicitation, Way
from krisis.backends.prompt import build_prompt
from krisis.backends.provider import ProviderBackend
from krisis.backends.reply import Answer, read_answers, read_probabilities
from krisis.backends.schema import reply_schema, tightened
from krisis.backends.scripted import ScriptedBackend
from krisis.benchmark import Benchmark
from krisis.data.base import PatientRecord, RecordListSuite, ReplyField, Task
from krisis.errors import (
    ContentFiltered,
    InvalidValue,
    MalformedReply,
    TruncatedReply,
    UnknownName,
)

TASK = staging_task()
TOP_K = Elicitation(Way.TOP_K)


def top_k(*guesses: Any, abstained: bool = False, k: int = 3) -> Answer:
    said = [{"answer": one, "probability": p} for one, p in guesses]
    text = json.dumps({"abstained": abstained, "guesses": said})
    return read_answers(text, TASK, elicit=Elicitation(Way.TOP_K, k))[0]


def test_the_most_probable_guess_is_the_answer_and_its_probability_the_confidence() -> None:
    answer = top_k((2, 0.3), (3, 0.5), (4, 0.2))
    assert (answer.prediction, answer.confidence, answer.abstained) == (3, 0.5, False)
    assert answer.signals == {
        "guesses": [[2, 0.3], [3, 0.5], [4, 0.2]],
        "top_k_confidence": 0.5,
    }


def test_of_equally_probable_guesses_the_first_counts() -> None:
    assert top_k((4, 0.4), (3, 0.4)).prediction == 4


def test_guesses_may_be_fewer_and_need_not_add_up_to_one() -> None:
    assert top_k(("Stage 3", "60%")).confidence == 0.6
    assert top_k((1, 0.34), (2, 0.34), (3, 0.34)).prediction == 1  # rounded thirds


def test_a_model_that_abstains_guesses_nothing() -> None:
    text = '{"abstained": true, "guesses": []}'
    for said in (text, '{"abstained": true}', '{"abstained": true, "guesses": null}'):
        (answer,) = read_answers(said, TASK, elicit=TOP_K)
        assert (answer.abstained, answer.prediction, answer.confidence) == (True, None, None)
        assert "top_k_confidence" not in answer.signals


@pytest.mark.parametrize(
    ("guesses", "problem"),
    [
        ([], "there is no guess"),
        ([(3, 0.5), (3, 0.2)], "appears twice"),
        ([(3, 0.5), ("stage 3", 0.2)], "appears twice"),
        ([(3, 0.6), (4, 0.5)], "add up to 1.1, above 1"),
        ([(3, 0.55), (4, 0.48)], "add up to 1.03, above 1"),
        ([(3, 1.2)], "probability must be between 0 and 1"),
        ([(3, -0.1)], "probability must be between 0 and 1"),
        ([(3, None)], "probability in the reply is null"),
        ([(None, 0.5)], "guess in the reply is null"),
        ([(7, 0.5)], "none of the allowed answers"),
        ([(1, 0.1), (2, 0.1), (3, 0.1), (4, 0.1)], "4 guesses where at most 3 are asked"),
    ],
)
def test_guesses_that_are_none_are_malformed(guesses: list[Any], problem: str) -> None:
    with pytest.raises(MalformedReply, match=problem):
        top_k(*guesses)


@pytest.mark.parametrize("given_", ["3", '{"answer": 3}', "[3]", '[{"answer": 3}]'])
def test_guesses_of_another_form_are_malformed(given_: str) -> None:
    with pytest.raises(MalformedReply):
        read_answers(f'{{"abstained": false, "guesses": {given_}}}', TASK, elicit=TOP_K)


GUESS = st.tuples(st.sampled_from([1, 2, 3, 4, 5]), st.floats(0, 1))


@given(st.lists(GUESS, max_size=6, unique_by=lambda guess: guess[0]))
def test_guesses_are_read_exactly_when_they_could_be_probabilities(
    guesses: list[tuple[int, float]],
) -> None:
    total = math.fsum(p for _, p in guesses)
    if not guesses or len(guesses) > 5 or total > 1.02 + 1e-9:
        with pytest.raises(MalformedReply):
            top_k(*guesses, k=5)
    elif total < 1.02 - 1e-9:
        answer = top_k(*guesses, k=5)
        assert answer.confidence == max(p for _, p in guesses)
        assert (answer.prediction, answer.confidence) in guesses


def test_no_more_guesses_are_asked_for_than_there_are_answers() -> None:
    two = replace(TASK, answers={0: "no", 1: "yes"})
    assert [TOP_K.guesses_about(task) for task in (TASK, two)] == [3, 2]
    prompt = build_prompt(two, [{"sc": 1}], asking=Asking(elicit=TOP_K))
    assert "Give your 2 most probable answers" in prompt.system
    assert '"guesses": [{"answer": <one of the allowed answers>' in prompt.system
    assert '"confidence"' not in prompt.system


def test_reasoning_comes_before_the_answer_and_is_kept_in_bounds() -> None:
    elicit = Elicitation(Way.RATIONALE)
    task = elicit.task(TASK)
    assert next(iter(reply_schema(task)["properties"])) == "rationale"
    said = {"rationale": "x" * 5000, "abstained": False, "prediction": 3, "confidence": 0.7}
    (answer,) = read_answers(json.dumps(said), task, elicit=elicit)
    assert len(answer.signals["rationale"]) == MAX_RATIONALE_CHARACTERS
    assert answer.signals["rationale_confidence"] == 0.7
    for bad in ({**said, "rationale": 3}, {k: v for k, v in said.items() if k != "rationale"}):
        with pytest.raises(MalformedReply, match="rationale"):
            read_answers(json.dumps(bad), task, elicit=elicit)


def test_a_task_with_a_rationale_of_its_own_is_refused() -> None:
    own = replace(TASK, reply_fields={"rationale": ReplyField(str, "why")})
    with pytest.raises(InvalidValue, match="rename it or ask in another way"):
        Elicitation(Way.RATIONALE).task(own)


def test_the_first_of_two_steps_asks_for_no_confidence() -> None:
    elicit = Elicitation(Way.TWO_STEP)
    assert list(reply_schema(TASK, elicit=elicit)["properties"]) == ["abstained", "prediction"]
    prompt = build_prompt(TASK, [{"sc": 1}], asking=Asking(elicit=elicit))
    assert "onfidence" not in prompt.system
    (answer,) = read_answers('{"abstained": false, "prediction": 3}', TASK, elicit=elicit)
    assert (answer.prediction, answer.confidence) == (3, None)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ('{"probability": 1.2}', "must be between 0 and 1"),
        ('{"probability": null}', "is null"),
        ('{"probability": "high"}', "must be between 0 and 1"),
        ('{"confidence": 0.4}', "no JSON object with a probability"),
        ("I cannot say.", "no JSON object with a probability"),
        ("", "no JSON object with a probability"),
        ('{"probability": 0.4} {"probability": 0.5}', "2 different answers"),
    ],
)
def test_a_second_reply_without_a_probability_is_malformed(text: str, problem: str) -> None:
    with pytest.raises(MalformedReply, match=problem):
        read_probabilities(text, ())


def test_a_second_reply_that_breaks_off_says_to_raise_the_cap() -> None:
    with pytest.raises(TruncatedReply, match="raise the token cap"):
        read_probabilities('{"probability": 0.', (), finish_reason="length")


@pytest.mark.parametrize(
    ("ids", "problem"),
    [
        (["case_0"], "missing 'case_2'"),
        (["case_0", "case_1"], "unknown 'case_1'"),
        (["case_0", "case_2", "case_2"], "repeated 'case_2'"),
    ],
)
def test_a_second_reply_about_other_cases_is_malformed(ids: list[str], problem: str) -> None:
    text = json.dumps({"results": [{"id": one, "probability": 0.5} for one in ids]})
    with pytest.raises(MalformedReply, match=problem):
        read_probabilities(text, ("case_0", "case_2"))


def test_probabilities_go_to_the_cases_that_they_name() -> None:
    rows = [{"id": "case_2", "probability": 0.2}, {"id": "case_0", "probability": "90%"}]
    said = read_probabilities(json.dumps({"results": rows}), ("case_0", "case_2"))
    assert [probability for probability, _ in said] == [0.9, 0.2]


@pytest.mark.parametrize("text", ["topk", "p_true", ""])
def test_an_unknown_way_is_refused_with_a_suggestion(text: str) -> None:
    with pytest.raises(UnknownName, match="way to ask for confidence"):
        Elicitation.parsed(text)


def test_an_engine_that_enforces_schemas_is_held_to_guesses_and_probabilities() -> None:
    guesses = tightened(reply_schema(TASK, elicit=TOP_K), 3)["properties"]["guesses"]
    assert guesses["maxItems"] == 3
    assert guesses["items"]["properties"]["probability"]["enum"][-1] == 1.0


# ── over the wire ──

WAYS = list(Way)


def first_reply(way: Way, prediction: int | None) -> dict[str, Any]:
    """Return a good first answer, or an abstention."""
    abstained = prediction is None
    said: dict[str, Any] = {"abstained": abstained}
    if way is Way.TOP_K:
        guesses = [{"answer": prediction, "probability": 0.6}, {"answer": 1, "probability": 0.1}]
        return {**said, "guesses": [] if abstained else guesses}
    said["prediction"] = prediction
    if way is not Way.TWO_STEP:
        said["confidence"] = None if abstained else 0.6
    return {"rationale": "<b>high</b>", **said} if way is Way.RATIONALE else said


def reply(content: Any, **options: Any) -> Reply:
    return Reply(text=json.dumps(content), **options)


def n_calls(server: LLMockServer) -> int:
    return len(server.state.journal.records())


CONFIDENCE = {Way.P_TRUE: 0.25, Way.TWO_STEP: 0.25}


@pytest.mark.parametrize("way", WAYS)
def test_a_single_case_in_every_way_and_dialect(
    backend: ProviderBackend, server: LLMockServer, records: list[PatientRecord], way: Way
) -> None:
    backend.asking = Asking(elicit=Elicitation(way))
    server.state.scenarios.add(reply(first_reply(way, 3)), reply({"probability": 0.25}))
    response = backend.evaluate(records[0])
    assert response.prediction == 3
    assert response.confidence == CONFIDENCE.get(way, 0.6)
    assert response.input_tokens
    sent = [str(one.body) for one in server.state.journal.records()]
    assert len(sent) == 1 + (way in CONFIDENCE)
    if way is not Way.ANSWER:
        assert response.signals[backend.asking.elicit.signal] == response.confidence
    if way is Way.P_TRUE:
        assert response.signals["stated_confidence"] == 0.6
        assert "Proposed answer: 3: 30 to 59" in sent[1]
        assert "2.41 mg/dL" in sent[1]
        assert "0.6" not in sent[1]  # the second call does not see what the first one claimed
    if way is Way.TWO_STEP:
        assert "How probable is it that the answer you gave is correct?" in sent[1]
        assert "abstained" in sent[1].replace("\\", "")
        assert "2.41 mg/dL" in sent[1]


@pytest.mark.parametrize("way", WAYS)
def test_a_batch_in_every_way_and_dialect(
    backend: ProviderBackend, server: LLMockServer, suite: RecordListSuite, way: Way
) -> None:
    """The second case abstains, so that it is not asked about again."""
    backend.asking = Asking(elicit=Elicitation(way))
    answers = [first_reply(way, one) for one in (3, None, 5)]
    rows = [{"id": f"case_{i}", **answer} for i, answer in enumerate(answers)]
    last = "case_1" if way is Way.P_TRUE else "case_2"
    second = [{"id": last, "probability": 0.9}, {"id": "case_0", "probability": 0.25}]
    server.state.scenarios.add(reply({"results": rows}), reply({"results": second}))
    result = Benchmark(suite, backend, [], batch_size=3).run()
    found = [(row.outcome, row.prediction, row.confidence) for row in result.evaluation_results]
    confidences = (0.25, 0.9) if way in CONFIDENCE else (0.6, 0.6)
    assert found == [
        ("answered", 3, confidences[0]),
        ("abstained", None, None),
        ("answered", 5, confidences[1]),
    ]
    assert n_calls(server) == 1 + (way in CONFIDENCE)
    took = result.spending
    assert took.n_api_calls == n_calls(server)
    n_tokens = sum(row.total_tokens for row in result.evaluation_results)
    assert took.token_total == n_tokens
    assert took.lost_input_tokens == 0


BAD: dict[Way, list[Any]] = {
    Way.ANSWER: [{"abstained": False, "prediction": 3}],
    Way.RATIONALE: [{"abstained": False, "prediction": 3, "confidence": 0.5}],
    Way.TOP_K: [{"abstained": False, "guesses": [{"answer": 3, "probability": 1.5}]}],
    Way.P_TRUE: [first_reply(Way.P_TRUE, 3), {"probability": 7}],
    Way.TWO_STEP: [first_reply(Way.TWO_STEP, 3), {"confidence": 0.5}],
}


@pytest.mark.parametrize("way", WAYS)
def test_what_stays_malformed_is_a_failed_row_in_every_dialect(
    backend: ProviderBackend, server: LLMockServer, records: list[PatientRecord], way: Way
) -> None:
    """Asked once more, and then a failure: neither an abstention nor an answer."""
    backend.asking = Asking(elicit=Elicitation(way))
    *firsts, bad = BAD[way]
    server.state.scenarios.add(*map(reply, firsts), reply(bad), reply(bad))
    suite = RecordListSuite(records[:1], staging_task())
    result = Benchmark(suite, backend, []).run()
    (row,) = result.evaluation_results
    assert (row.outcome, row.failure_class) == ("no_answer", "malformed_reply")
    assert n_calls(server) == 2 + len(firsts)
    took = result.spending
    assert took.lost_input_tokens
    assert took.n_api_calls == n_calls(server)


@pytest.mark.parametrize("way", [Way.P_TRUE, Way.TWO_STEP])
def test_a_second_call_that_fails_for_good_fails_the_row_by_its_class(
    backend: ProviderBackend, server: LLMockServer, records: list[PatientRecord], way: Way
) -> None:
    backend.asking = Asking(elicit=Elicitation(way))
    both = reply(first_reply(way, 3)), Reply(text="", finish_reason="content_filter")
    server.state.scenarios.add(*both)
    with pytest.raises(ContentFiltered):
        backend.evaluate(records[0])
    server.state.scenarios.add(*both)
    result = Benchmark(RecordListSuite(records[:1], staging_task()), backend, []).run()
    (row,) = result.evaluation_results
    assert (row.outcome, row.failure_class, row.confidence) == ("no_answer", "content_filter", None)
    assert n_calls(server) == 4
    assert result.spending.lost_input_tokens > 0  # what the first call took


@pytest.mark.parametrize("way", [Way.P_TRUE, Way.TWO_STEP])
def test_a_refusal_is_an_abstention_and_nothing_is_asked_about_it(
    backend: ProviderBackend, server: LLMockServer, records: list[PatientRecord], way: Way
) -> None:
    backend.asking = Asking(elicit=Elicitation(way))
    server.state.scenarios.add(Reply(text="I'm sorry, but I cannot provide a diagnosis."))
    response = backend.evaluate(records[0])
    assert (response.abstained, response.confidence, n_calls(server)) == (True, None, 1)


def test_what_was_said_in_an_earlier_turn_is_not_repeated_in_an_error(
    records: list[PatientRecord], task: Task
) -> None:
    """The second message shows no value; the first one did, and a provider may echo it."""

    def script(request: ChatRequest) -> str | ChatReply:
        if not request.history:
            return json.dumps(first_reply(Way.TWO_STEP, 3))
        return '{"probability": "creatinine of 2.41"}'

    backend = ScriptedBackend(script)
    backend.asking = Asking(elicit=Elicitation(Way.TWO_STEP))
    result = Benchmark(RecordListSuite(records[:1], task), backend, []).run()
    (row,) = result.evaluation_results
    assert row.failure_class == "malformed_reply"
    assert "2.41" not in str(row.error)

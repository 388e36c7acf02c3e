from __future__ import annotations

import dataclasses
import json
import random
from typing import Annotated, Any

import pytest
from hypothesis import HealthCheck, Phase, example, given, settings
from hypothesis import strategies as st
from pydantic import Field

from krisis.backends.reply import MAX_REPLY_CHARACTERS, Answer, read_answers
from krisis.data.base import ReplyField, Task
from krisis.errors import MalformedReply, TruncatedReply

STAGING = Task(
    "staging",
    "Which stage?",
    {1: "", 2: "", 3: "", 4: "", 5: ""},
    aliases={"stage 3": 3, "g3a": 3},
)
DETECTION = Task("detection", "CKD?", {0: "no", 1: "yes"})
PROGRESSION = Task("progression", "Which way?", {"stable": "", "worsening": "", "improving": ""})


def single(text: str, task: Task = STAGING, finish: str = "stop") -> Answer:
    return read_answers(text, task, finish_reason=finish)[0]


def reply(**members: Any) -> str:
    return json.dumps({"abstained": False, "prediction": 3, "confidence": 0.8, **members})


def test_the_asked_shape_is_read() -> None:
    answer = single(reply())
    assert (answer.prediction, answer.abstained, answer.confidence) == (3, False, 0.8)
    assert answer.signals == {}


@pytest.mark.parametrize(
    "text",
    [
        "```json\n{}\n```",
        "Here is my answer: {} I hope it helps.",
        '<think>maybe {{"abstained": true}} or not</think>{}',
        "{{curly}} prose, a set {{1, 2}} and then {}",
        "{} {}",
    ],
)
def test_fences_prose_and_thoughts_are_put_aside(text: str) -> None:
    assert single(text.format(reply(), reply())).prediction == 3


@pytest.mark.parametrize(
    "text",
    [
        '{"abstained": false, "prediction": 3, "confidence": 0.8,}',
        '{"abstained": false "prediction": 3 "confidence": 0.8}',
        '{\n "abstained": false\n "prediction": 3,\n "confidence": 0.8\n}',
    ],
)
def test_commas_are_set_right(text: str) -> None:
    answer = single(text)
    assert (answer.prediction, answer.confidence) == (3, 0.8)


@pytest.mark.parametrize(
    ("value", "expected"),
    [(False, False), (True, True), ("false", False), (" TRUE ", True)],
)
def test_abstained_is_read_as_written(value: Any, expected: bool) -> None:
    assert single(reply(abstained=value)).abstained is expected


@pytest.mark.parametrize("value", [0, 1, None, "no", "", [], "falsee", 0.0])
def test_other_spellings_of_abstained_are_malformed(value: Any) -> None:
    with pytest.raises(MalformedReply, match="abstained must be true or false"):
        single(reply(abstained=value))


@pytest.mark.parametrize(
    ("task", "value", "expected"),
    [
        (STAGING, 3, 3),
        (STAGING, 3.0, 3),
        (STAGING, "3", 3),
        (STAGING, "Stage  3", 3),
        (STAGING, "G3a", 3),
        (DETECTION, 0, 0),
        (DETECTION, "1", 1),
        (PROGRESSION, " Stable ", "stable"),
    ],
)
def test_allowed_answers_are_understood(task: Task, value: Any, expected: Any) -> None:
    prediction = single(reply(prediction=value), task).prediction
    assert prediction == expected
    assert type(prediction) is type(expected)


@pytest.mark.parametrize(
    ("task", "value"),
    [
        (STAGING, 0),
        (STAGING, 3.5),
        (STAGING, "Stage 6"),
        (STAGING, [3]),
        (STAGING, {"stage": 3}),
        (DETECTION, True),
        (DETECTION, "G3a"),
        (DETECTION, 2),
        (DETECTION, "yes"),
        (PROGRESSION, "getting worse"),
        (PROGRESSION, 1),
    ],
)
def test_any_other_answer_is_malformed(task: Task, value: Any) -> None:
    with pytest.raises(MalformedReply, match="none of the allowed answers"):
        single(reply(prediction=value), task)


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0, 0.0), (1, 1.0), (0.25, 0.25), ("0.25", 0.25), ("85%", 0.85), ("100 %", 1.0), (None, None)],
)
def test_confidence_is_a_probability_or_a_percentage_with_its_sign(
    value: Any, expected: float | None
) -> None:
    assert single(reply(confidence=value)).confidence == expected


@pytest.mark.parametrize(
    "value", [85, 1.01, -0.1, 1e308, "85", "high", "101%", True, [], "-5%", "٣%", 10**400]
)
def test_any_other_confidence_is_malformed(value: Any) -> None:
    with pytest.raises(MalformedReply, match="confidence must be between 0 and 1"):
        single(reply(confidence=value))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (reply().replace("0.8", "NaN"), "no JSON object"),
        (reply().replace("0.8", "1e999"), "too large"),
        (reply().replace("}", ', "abstained": true}'), "stands twice"),
        ('{"answer": ' + reply() + "}", "no 'abstained'"),
        (reply(prediction=None), "neither answers nor abstains"),
        ('{"abstained": false, "prediction": 3}', "no 'confidence'"),
        ('{"abstained": false, "confidence": 0.5}', "no 'prediction'"),
        (reply() + reply(prediction=4), "2 different answers"),
        ("", "empty"),
        ("It is stage 3.", "no JSON object"),
        (
            '{"abstained": false, "prediction": 3, "confidence": 0.8, "note": "\\ud800"}',
            "surrogate",
        ),
        ("{'abstained': false}", "no JSON object"),
        ('{"abstained": false,, "prediction": 3, "confidence": 0.8}', "not the JSON"),
        ('{"abstained": false, "prediction":, 3, "confidence": 0.8}', "not the JSON"),
        ('{"abstained": false, "prediction",: 3, "confidence": 0.8}', "not the JSON"),
        ('{, "abstained": false, "prediction": 3, "confidence": 0.8}', "not the JSON"),
    ],
)
def test_what_is_not_the_answer_asked_for_is_malformed(text: str, told: str) -> None:
    with pytest.raises(MalformedReply, match=told):
        single(text)


@pytest.mark.parametrize("cut", range(1, len(reply())))
def test_a_reply_cut_anywhere_is_truncated_and_says_what_to_raise(cut: int) -> None:
    with pytest.raises(TruncatedReply, match=r"finish reason 'length'.*raise the token cap"):
        single(reply()[:cut], finish="length")
    with pytest.raises(TruncatedReply, match="finish reason 'not given'"):
        single(reply()[:cut], finish="")


def test_a_draft_in_a_thought_that_was_cut_is_not_the_answer() -> None:
    with pytest.raises(TruncatedReply):
        single(f"<think>perhaps {reply()}, but", finish="length")
    with pytest.raises(MalformedReply, match="empty"):
        single(f"<think>perhaps {reply()}, but")


def test_a_complete_answer_is_kept_even_if_the_cap_ended_the_text_after_it() -> None:
    assert single(reply() + "   \n\n", finish="length").prediction == 3


@pytest.mark.parametrize(
    "text",
    [
        "I cannot provide a diagnosis.",
        "I’m sorry, but I can’t help with that.",
        "I am unable to assess this patient without more data.",
        "I'm not comfortable to answer. I must decline to predict.",
    ],
)
def test_a_refusal_in_prose_is_an_abstention_that_says_so(text: str) -> None:
    answer = single(text)
    assert (answer.prediction, answer.abstained, answer.confidence) == (None, True, None)
    assert answer.signals == {"refusal": True}


def test_a_refusal_flagged_by_the_provider_is_an_abstention() -> None:
    assert single("", finish="refusal").signals == {"refusal": True}


def test_doubt_in_prose_is_not_a_refusal() -> None:
    with pytest.raises(MalformedReply):
        single("I cannot be certain, yet the stage is 3.")


def test_a_batch_refused_in_prose_is_malformed_so_that_each_case_is_asked() -> None:
    with pytest.raises(MalformedReply, match="refuses the whole batch"):
        read_answers("I cannot provide a diagnosis.", STAGING, n_records=2)


def batch(*rows: dict[str, Any]) -> str:
    return json.dumps({"results": list(rows)})


def row(name: str, prediction: int | None = 3, **members: Any) -> dict[str, Any]:
    return {"id": name, "abstained": False, "prediction": prediction, "confidence": 0.5, **members}


def test_a_batch_comes_back_in_the_order_of_its_cases() -> None:
    text = batch(row("case_1", 4), row("case_0", 2))
    first, second = read_answers(text, STAGING, n_records=2)
    assert (first.prediction, second.prediction) == (2, 4)
    assert json.loads(first.text) == row("case_0", 2)
    for answer in (first, second):
        assert answer.prediction_span is not None
        start, end = answer.prediction_span
        assert text[start:end] == str(answer.prediction)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (batch(row("case_0"), row("case_0")), "missing 'case_1'; repeated 'case_0'"),
        (batch(row("case_0")), "1 results for 2 cases: missing 'case_1'"),
        (batch(row("case_0"), row("case_1"), row("case_2")), "unknown 'case_2'"),
        (batch(row("case_0"), {"abstained": False}), "no id"),
        (json.dumps({"results": {"case_0": 1}}), "no list"),
        (json.dumps([row("case_0"), row("case_1")]), "no JSON object"),
        (batch(row("case_0"), row("case_1", 9)), "none of the allowed"),
        (batch(row("case_0"))[:-1] + ', "results": []}', "stands twice"),
        (json.dumps({"more": {"results": [row("case_0"), row("case_1")]}}), "no list"),
    ],
)
def test_a_batch_with_the_wrong_cases_is_malformed(text: str, told: str) -> None:
    with pytest.raises(MalformedReply, match=told):
        read_answers(text, STAGING, n_records=2)


def test_extra_fields_are_checked_and_become_signals() -> None:
    score = Annotated[int, Field(ge=1, le=5)]
    asked = dataclasses.replace(
        STAGING,
        reply_fields={"evidence": ReplyField(list[str], ""), "sureness": ReplyField(score, "")},
    )
    answer = single(reply(evidence=["a quote"], sureness=4), asked)
    assert answer.signals == {"evidence": ["a quote"], "sureness": 4}
    for members in ({"evidence": "a quote", "sureness": 4}, {"evidence": [], "sureness": 6}):
        with pytest.raises(MalformedReply, match="was refused"):
            single(reply(**members), asked)
    with pytest.raises(MalformedReply, match="no 'sureness'"):
        single(reply(evidence=[]), asked)


def test_a_batch_of_very_many_results_is_refused_quickly() -> None:
    rows = ",".join(f'{{"id":"case_{n % 15_000}"}}' for n in range(20_000))
    with pytest.raises(MalformedReply, match="the reply has 20000 results for 2 cases"):
        read_answers(f'{{"results":[{rows}]}}', STAGING, n_records=2)


def test_long_and_deep_replies_are_refused_quickly() -> None:
    for text in (
        "x" * 10_000_000,
        "x" * (MAX_REPLY_CHARACTERS + 1),
        "{" * 100_000 + "x",
        '{"a":' * 20_000 + "1" + "}" * 20_000 + reply(),
        "[" * 500_000 + reply(),
        # Each of these made the search for objects, or for what is wrong with one, quadratic.
        "{a " * 330_000,
        '{"a\n' * 200_000,
        "{}" * 450_000 + reply(),
        "{" + ",".join(f'"k{n}":1' for n in range(70_000)) + ',"k69999":2,"abstained":true}',
    ):
        try:
            answer = single(text)
        except MalformedReply:
            continue
        assert answer.prediction == 3


# What a model may plausibly write, in pieces: fuzzing whole Unicode would rarely be JSON at all.
_SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(10**30), 10**30),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(["false", "true", "85%", "0.5", "Stage 3", "3", "case_0", "1e308", "NaN"]),
)
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner),
    max_leaves=6,
)
_ROWS = st.fixed_dictionaries(
    {},
    optional={
        "id": st.sampled_from(["case_0", "case_1"]) | _VALUES,
        "abstained": st.booleans() | _VALUES,
        "prediction": st.sampled_from([1, 3, "G3a", None]) | _VALUES,
        "confidence": st.floats(0, 1) | st.sampled_from(["85%", None]) | _VALUES,
    },
)
_REPLIES = st.one_of(
    _ROWS.map(json.dumps),
    st.lists(_ROWS, max_size=3).map(lambda rows: json.dumps({"results": rows})),
    st.builds(
        lambda head, members, tail: head + json.dumps(members) + tail,
        st.text(max_size=6),
        _ROWS,
        st.sampled_from(["", "```", "}", "{", ",", '"']),
    ),
    st.builds(lambda members, cut: json.dumps(members)[:cut], _ROWS, st.integers(0, 80)),
    st.lists(
        st.sampled_from([*'{}[]:,"\\', '"abstained"', '"results"', "false", "1", " ", "NaN", "é"]),
        max_size=30,
    ).map("".join),
    st.text(max_size=60),
)


def _check_never_a_crash_nor_a_silent_coercion(text: str, n_records: int | None) -> None:
    try:
        answers = read_answers(text, STAGING, n_records=n_records)
    except MalformedReply:
        return
    assert len(answers) == (n_records or 1)
    for answer in answers:
        if answer.signals.get("refusal"):
            continue
        assert answer.abstained or answer.prediction in STAGING.answers
        assert answer.confidence is None or 0 <= answer.confidence <= 1
        if answer.prediction is not None:  # the figure must stand in the text as it was read
            assert answer.prediction_span is not None
            start, end = answer.prediction_span
            written = json.loads(text[start:end])
            assert (
                written == answer.prediction
                or str(written).strip() in ("3", "1", "2", "4", "5")
                or (str(written).strip().lower() in STAGING.aliases)
            )


@example('{"abstained": "false", "prediction": 3, "confidence": NaN}', None)
@example('{"abstained": false, "prediction": 3, "confidence": 1e308}', None)
@settings(max_examples=200, deadline=None, suppress_health_check=list(HealthCheck))
@given(_REPLIES, st.none() | st.just(2))
def test_no_reply_crashes_the_parser(text: str, n_records: int | None) -> None:
    _check_never_a_crash_nor_a_silent_coercion(text, n_records)


_PIECES = [
    *'{}[]:,"\\ \n0123456789.-+eE%',
    *("true", "false", "null", "NaN", "Infinity", "1e308", '"false"', '"85%"', '"Stage 3"'),
    *('"abstained"', '"prediction"', '"confidence"', '"results"', '"id"', '"case_0"', '"case_1"'),
    *("```json\n", "```", "</think>", "\\u0041", "\\ud800", "\x00", "é", "I cannot answer"),
]


def mutated(seed: int) -> tuple[str, int | None]:
    """Return a good reply with a few pieces cut out, put in, doubled or swapped."""
    source = random.Random(seed)
    n_records = source.choice([None, 2])
    text = reply() if n_records is None else batch(row("case_1"), row("case_0", 4))
    for _ in range(source.randint(0, 6)):
        start = source.randint(0, len(text))
        end = min(len(text), start + source.randint(0, 12))
        piece = source.choice([*_PIECES, text[start:end] * 2, text[start:end][::-1], ""])
        text = text[:start] + piece + text[source.choice([start, end]) :]
    return text, n_records


@pytest.mark.slow
@settings(
    max_examples=200_000,
    deadline=None,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(st.integers(0, 2**63))
def test_no_mutation_of_a_good_reply_crashes_the_parser(seed: int) -> None:
    _check_never_a_crash_nor_a_silent_coercion(*mutated(seed))


@pytest.mark.slow
@settings(
    max_examples=20_000,
    deadline=None,
    database=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(_REPLIES, st.none() | st.just(2))
def test_no_reply_crashes_the_parser_in_a_long_run(text: str, n_records: int | None) -> None:
    _check_never_a_crash_nor_a_silent_coercion(text, n_records)

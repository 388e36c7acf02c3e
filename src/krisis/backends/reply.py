"""Read what a model wrote: strictly, so that nothing is taken for an answer that is none.

Each answer becomes a response with its share of what the call took.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pydantic import ValidationError

from krisis.backends.base import BackendResponse
from krisis.backends.elicitation import (
    GUESSES,
    MAX_RATIONALE_CHARACTERS,
    RATIONALE,
    Elicitation,
    Way,
)
from krisis.backends.json_text import ObjectInText, Token, objects_in
from krisis.backends.schema import case_name, checker
from krisis.backends.signals import token_signals
from krisis.data.base import Label, Task
from krisis.errors import MalformedReply, TruncatedReply
from krisis.json_values import JsonMapping, JsonValue

if TYPE_CHECKING:
    from krisis.backends.chat import ChatReply, ChatRequest


# Ten times the longest answer to a large batch; it is read in less than a second.
MAX_REPLY_CHARACTERS = 500_000
# Probabilities that add up to 1 may exceed it by this much once each is rounded to two decimals.
ROUNDING = 0.02
CUT_REASONS = frozenset(
    {"length", "max_tokens", "max_output_tokens", "model_length", "model_context_window_exceeded"}
)
REFUSAL_REASON = "refusal"
_NO_TOOLS = "the model called a tool instead of answering: ask a model or server without tools"
_EMPTY_ADVICE = dict.fromkeys(
    ("tool_calls", "tool_use", "function_call", "malformed_function_call", "unexpected_tool_call"),
    _NO_TOOLS,
)

_PROBABILITY = re.compile(r"([0-9]+(?:\.[0-9]+)?)\s*(%?)")
_REFUSAL = re.compile(
    r"\bi(?: am|'m)? (?:cannot|can not|can't|won't|will not|must decline to|have to decline to"
    r"|(?:unable|not able|not allowed|not comfortable|not qualified|not in a position|refuse) to) "
    r"(?:\w+ly )?(?:answer|assess|assist|assign|classify|complete|comply|determine|diagnose|do"
    r"|engage|estimate|evaluate|fulfil|give|help|judge|make|offer|predict|process|provide"
    r"|recommend|respond|say|score|stage)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Answer:
    """One checked answer with its place in the text of the reply."""

    prediction: Label | None
    abstained: bool
    confidence: float | None
    text: str
    signals: dict[str, JsonValue] = field(default_factory=dict)
    prediction_span: tuple[int, int] | None = None


def read_answers(
    text: str,
    task: Task,
    *,
    n_records: int | None = None,
    finish_reason: str = "",
    elicit: Elicitation | None = None,
) -> list[Answer]:
    """Return the answer of a single reply, or those of a batch in the order of its cases.

    Raises `MalformedReply`, or `TruncatedReply` when the token cap cut the text.
    """
    found = _answer_object(text, "abstained" if n_records is None else "results", finish_reason)
    if found is None:
        return [_refusal(text, finish_reason, n_records)]
    asked = task, elicit or Elicitation()
    assert found.value is not None
    if n_records is None:
        return [_answer(found.value, found.tokens, asked, text)]
    rows = _rows(found, text, [case_name(position) for position in range(n_records)])
    return [_answer(row, piece, asked, said) for row, piece, said in rows]


def read_probabilities(
    text: str, names: Sequence[str], *, finish_reason: str = ""
) -> list[tuple[float, str]]:
    """Return the probability in a reply, or that of each case named, and the text that says it."""
    found = _answer_object(text, "results" if names else "probability", finish_reason)
    if found is None:
        said, reason = without_thoughts(text).strip(), finish_reason or "not given"
        raise MalformedReply(
            f"the reply holds no JSON object with a probability ({len(said)} characters, finish "
            f"reason {reason!r})"
        )
    assert found.value is not None
    if not names:
        return [(_probability(found.value), text)]
    return [(_probability(row), said) for row, _, said in _rows(found, text, names)]


def _answer_object(text: str, key: str, finish_reason: str) -> ObjectInText | None:
    if len(text) > MAX_REPLY_CHARACTERS:
        raise MalformedReply(
            f"the reply has more than the {MAX_REPLY_CHARACTERS:,} characters that are read; "
            "ask for fewer cases in one call"
        )
    cut = finish_reason.lower() in CUT_REASONS
    answers, breaks_off = objects_in(without_thoughts(text), key)
    # An answer that is complete was not cut, even when the cap ended the text after it.
    if breaks_off or (cut and not answers):
        raise TruncatedReply(
            f"the reply breaks off after {len(text)} characters (finish reason "
            f"{finish_reason or 'not given'!r}); raise the token cap or ask for fewer cases "
            "in one call"
        )
    for found in answers:
        if found.value is None:
            raise MalformedReply(f"the reply is not the JSON asked for: {found.problem[:200]}")
    if len({repr(found.value) for found in answers}) > 1:
        raise MalformedReply(f"the reply holds {len(answers)} different answers to one question")
    return answers[0] if answers else None


def without_thoughts(text: str) -> str:
    """Blank what a reasoning model thought aloud, keeping every other character in its place."""
    end = text.rfind("</think>")
    if end >= 0:
        return " " * (end + len("</think>")) + text[end + len("</think>") :]
    # A thought that was cut off may hold a draft of the answer, which is not the answer.
    return " " * len(text) if text.lstrip().startswith("<think>") else text


def _refusal(text: str, finish_reason: str, n_records: int | None) -> Answer:
    said = without_thoughts(text).strip()
    reason = finish_reason or "not given"
    if not said and finish_reason != REFUSAL_REASON:
        advice = _EMPTY_ADVICE.get(finish_reason.lower(), "ask again, or ask another model")
        raise MalformedReply(f"the reply is empty (finish reason {reason!r}); {advice}")
    refused = finish_reason == REFUSAL_REASON or _REFUSAL.search(said.replace("’", "'"))
    if refused and n_records is None:
        return Answer(None, True, None, text, {"refusal": True})
    kind = "refuses the whole batch in prose" if refused else "holds no JSON object of the answer"
    # The prose is not quoted: it may repeat the patient's data, and errors are shown in reports.
    raise MalformedReply(f"the reply {kind} ({len(said)} characters, finish reason {reason!r})")


def _rows(
    found: ObjectInText, text: str, expected: Sequence[str]
) -> list[tuple[JsonMapping, tuple[Token, ...], str]]:
    """Return the results of a batch in the order of its cases, each with the text that says it."""
    assert found.value is not None
    rows = found.value.get("results")
    if not isinstance(rows, list) or not all(isinstance(row, dict) for row in rows):
        raise MalformedReply('the reply has no list of objects under "results"')
    given = [row.get("id") for row in rows]
    if any(not isinstance(name, str) for name in given):
        raise MalformedReply("a result in the reply has no id")
    if sorted(given) != sorted(expected):
        raise MalformedReply(_id_problem(given, expected))
    pieces = _row_tokens(found.tokens)
    answers = {
        row["id"]: (row, piece, text[piece[0].start : piece[-1].end])
        for row, piece in zip(rows, pieces, strict=True)
    }
    return [answers[name] for name in expected]


def _id_problem(given: list[str], expected: Sequence[str]) -> str:
    counts = Counter(given)
    unknown = sorted(counts.keys() - set(expected))
    missing = [name for name in expected if name not in counts]
    repeated = sorted(name for name, n in counts.items() if n > 1)
    found = {"missing": missing, "unknown": unknown, "repeated": repeated}
    problems = [f"{kind} {_shown(', '.join(names))}" for kind, names in found.items() if names]
    return f"the reply has {len(given)} results for {len(expected)} cases: {'; '.join(problems)}"


def _row_tokens(tokens: tuple[Token, ...]) -> list[tuple[Token, ...]]:
    """Cut the tokens of a batch into those of its results: the objects at depth two of the list."""
    pieces: list[tuple[Token, ...]] = []
    depth = start = 0
    inside = False
    for index, token in enumerate(tokens):
        if token.text in "{[":
            depth += 1
            if depth == 3 and token.text == "{" and inside:
                start = index
        elif token.text in "}]":
            if depth == 3 and token.text == "}" and inside:
                pieces.append(tokens[start : index + 1])
            depth -= 1
        elif depth == 1 and token.text != ",":
            inside = inside if token.text == ":" else token.text == '"results"'
    return pieces


def _answer(
    row: JsonMapping, tokens: tuple[Token, ...], asked: tuple[Task, Elicitation], text: str
) -> Answer:
    task, elicit = asked
    abstained = _abstained(_member(row, "abstained"))
    signals = {name: _extra(row, name, task) for name in task.reply_fields}
    if elicit.way is Way.TOP_K:
        guesses = _guesses(row, task, elicit, abstained=abstained)
        # Of equally probable guesses the first counts.
        best = max(guesses, key=lambda guess: guess[1], default=(None, None))
        signals[GUESSES] = [list(guess) for guess in guesses]
        prediction, confidence = best
    else:
        prediction = _prediction(row.get("prediction"), task)
        confidence = None
        if elicit.way is not Way.TWO_STEP:
            confidence = _confidence(row.get("confidence"))
    if not abstained:
        _refuse_no_answer(row, prediction, elicit)
        if elicit.way in (Way.RATIONALE, Way.TOP_K) and confidence is not None:
            signals[elicit.signal] = confidence
    if elicit.way is Way.RATIONALE:
        signals[RATIONALE] = _shortened(str(signals[RATIONALE]))
    span = _value_span(tokens, '"prediction"')
    return Answer(prediction, abstained, confidence, text, signals, span)


def _refuse_no_answer(row: JsonMapping, prediction: Label | None, elicit: Elicitation) -> None:
    if elicit.way is not Way.TOP_K:
        _member(row, "prediction")
        if elicit.way is not Way.TWO_STEP:
            _member(row, "confidence")
    if prediction is None:
        what = "there is no guess" if elicit.way is Way.TOP_K else "prediction is null"
        raise MalformedReply(f"the reply neither answers nor abstains: {what}")


def _guesses(
    row: JsonMapping, task: Task, elicit: Elicitation, *, abstained: bool
) -> list[tuple[Label, float]]:
    """Return the guesses of an answer, none twice and no more probable than 1 together."""
    given = row.get(GUESSES) if abstained else _member(row, GUESSES)
    given = [] if given is None else given
    if not isinstance(given, list) or not all(isinstance(one, dict) for one in given):
        raise MalformedReply('the reply has no list of objects under "guesses"')
    most = elicit.guesses_about(task)
    if len(given) > most:
        raise MalformedReply(f"the reply has {len(given)} guesses where at most {most} are asked")
    guesses: dict[Label, float] = {}
    for one in given:
        answer = _prediction(_member(one, "answer"), task)
        if answer is None or answer in guesses:
            problem = "is null" if answer is None else f"{_shown(answer)} appears twice"
            raise MalformedReply(f"a guess in the reply {problem}")
        guesses[answer] = _probability(one)
    total = sum(guesses.values())
    if total > 1 + ROUNDING:
        raise MalformedReply(f"the probabilities of the guesses add up to {total:.4g}, above 1")
    return list(guesses.items())


def _probability(row: JsonMapping) -> float:
    value = _confidence(_member(row, "probability"), "probability")
    if value is None:
        raise MalformedReply("a probability in the reply is null")
    return value


def _shortened(text: str) -> str:
    if len(text) <= MAX_RATIONALE_CHARACTERS:
        return text
    return text[: MAX_RATIONALE_CHARACTERS - 1] + "…"


def _member(row: JsonMapping, key: str) -> JsonValue:
    if key not in row:
        raise MalformedReply(f"an answer in the reply has no {key!r}")
    return row[key]


def _abstained(value: object) -> bool:
    if isinstance(value, bool):
        return value
    word = value.strip().lower() if isinstance(value, str) else ""
    if word in ("true", "false"):
        return word == "true"
    raise MalformedReply(f"abstained must be true or false, not {_shown(value)}")


def _prediction(value: object, task: Task) -> Label | None:
    if value is None:
        return None
    spelling = " ".join(value.split()).lower() if isinstance(value, str) else None
    for answer in task.answers:
        same_text = spelling is not None and spelling == str(answer).lower()
        same_number = (
            not isinstance(value, bool) and not isinstance(answer, str) and value == answer
        )
        if same_text or same_number:
            return answer
    if spelling is not None and spelling in task.aliases:
        return task.aliases[spelling]
    allowed = ", ".join(str(answer) for answer in task.answers)
    raise MalformedReply(f"prediction {_shown(value)} is none of the allowed answers: {allowed}")


def _confidence(value: object, name: str = "confidence") -> float | None:
    if value is None:
        return None
    number: float | None = None
    if isinstance(value, int | float) and not isinstance(value, bool):
        number = float(value) if abs(value) <= 1 else None
    elif isinstance(value, str) and (match := _PROBABILITY.fullmatch(value.strip())):
        number = float(match[1]) / (100 if match[2] else 1)
    if number is None or not 0 <= number <= 1:
        raise MalformedReply(
            f"{name} must be between 0 and 1, or be a percentage with its sign, not {_shown(value)}"
        )
    return number


def _extra(row: JsonMapping, name: str, task: Task) -> JsonValue:
    value = _member(row, name)
    try:
        return checker(task.reply_fields[name].type).validate_python(value, strict=True)
    except ValidationError as error:
        reason = error.errors()[0]["msg"]
        raise MalformedReply(f"{name} {_shown(value)} was refused: {reason}") from None


def _value_span(tokens: tuple[Token, ...], key: str) -> tuple[int, int] | None:
    depth = 0
    for token, after in zip(tokens, tokens[2:], strict=False):
        depth += (token.text in "{[") - (token.text in "}]")
        if depth == 1 and token.text == key:
            return after.start, after.end
    return None


def _shown(value: object) -> str:
    text = value if isinstance(value, str) else repr(value)
    return repr(text if len(text) <= 80 else text[:79] + "…")


def responses_of(
    request: ChatRequest, reply: ChatReply, answers: Sequence[Answer]
) -> list[BackendResponse]:
    """Return a response for each answer, with its share of what the call took."""
    n = len(answers)
    shares = zip(
        shared_out(reply.input_tokens, n),
        shared_out(reply.output_tokens, n),
        shared_out(reply.cached_tokens, n),
        shared_out(reply.reasoning_tokens, n),
        strict=True,
    )
    responses = [
        _response(request, reply, answer, share)
        for answer, share in zip(answers, shares, strict=True)
    ]
    if request.mode == "batch":
        for place, response in enumerate(responses):
            response.signals["batch_position"] = place
    return responses


def _response(
    request: ChatRequest, reply: ChatReply, answer: Answer, share: tuple[int | None, ...]
) -> BackendResponse:
    n_in, n_out, n_cached, n_reasoning = share
    usage = {"cached_tokens": n_cached, "reasoning_tokens": n_reasoning}
    return BackendResponse(
        prediction=answer.prediction,
        abstained=answer.abstained,
        confidence=answer.confidence,
        raw_response=answer.text,
        prompt=request.template,
        prompt_mode=request.mode,
        input_tokens=n_in,
        output_tokens=n_out,
        total_tokens=None if n_in is None or n_out is None else n_in + n_out,
        signals={
            **answer.signals,
            **token_signals(reply.text, reply.logprobs, answer.prediction_span),
            **{name: count for name, count in usage.items() if count is not None},
        },
        latency_seconds=reply.latency_seconds,
        finish_reason=reply.finish_reason,
        model=reply.model or request.model,
    )


def shared_out(total: int | None, n_rows: int) -> list[int | None]:
    """Share a count over the rows of a call so that the parts add up to it.

    >>> shared_out(10, 3)
    [4, 3, 3]
    """
    if total is None:
        return [None] * n_rows
    part, rest = divmod(total, n_rows)
    return [part + (row < rest) for row in range(n_rows)]

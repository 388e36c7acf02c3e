"""The JSON schema of the reply that a task asks for, in the subset that every provider accepts."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from pydantic import TypeAdapter

from krisis.backends.elicitation import RATIONALE, Elicitation, Way
from krisis.data.base import Label, Task
from krisis.json_values import JsonMapping, JsonObject, JsonValue


def checker(kind: JsonValue) -> TypeAdapter[JsonValue]:
    """Return what checks a reply field of a type: slow to make, so each is made once."""
    try:
        return _known_checker(kind)
    except TypeError:  # a type that cannot be a key, such as one with an open-ended annotation
        return TypeAdapter(kind)


@cache
def _known_checker(kind: JsonValue) -> TypeAdapter[JsonValue]:
    return TypeAdapter(kind)


def case_name(position: int) -> str:
    """Return the name that a case bears in a batched prompt and in its reply."""
    return f"case_{position}"


def reply_schema(
    task: Task, n_records: int | None = None, elicit: Elicitation | None = None
) -> JsonObject:
    """Return the schema of one answer, or of a batch when the number of cases is given."""
    properties = _answer_properties(task, elicit or Elicitation())
    if n_records is None:
        return _object(properties)
    return _of_cases([case_name(position) for position in range(n_records)], properties)


def probability_schema(names: Sequence[str]) -> JsonObject:
    """Return the schema of a probability, or of one for each of the cases named."""
    properties: JsonObject = {"probability": {"type": "number"}}
    return _of_cases(names, properties) if names else _object(properties)


def _of_cases(names: Sequence[str], properties: JsonObject) -> JsonObject:
    identity = {"id": {"type": "string", "enum": list(names)}}
    case = _object({**identity, **properties})
    return _object({"results": {"type": "array", "items": case}})


def _answer_properties(task: Task, elicit: Elicitation) -> JsonObject:
    # A model writes from left to right: the grounds come before the answer, and the confidence
    # after the answer that it is about.
    grounds = {
        name: {**checker(field.type).json_schema(), "description": field.description}
        for name, field in task.reply_fields.items()
    }
    answers = _one_of(list(task.answers))
    properties = {**grounds, "abstained": {"type": "boolean"}}
    if elicit.way is Way.TOP_K:
        guess = _object({"answer": answers, "probability": {"type": "number"}})
        return {**properties, "guesses": {"type": "array", "items": guess}}
    properties["prediction"] = _or_null(answers)
    if elicit.way is not Way.TWO_STEP:
        properties["confidence"] = _or_null({"type": "number"})
    return properties


def _one_of(answers: list[Label]) -> JsonObject:
    kinds = {type(answer) for answer in answers}
    if kinds == {int}:
        return {"type": "integer", "enum": answers}
    return {"type": "string", "enum": [str(answer) for answer in answers]}


def _or_null(schema: JsonObject) -> JsonObject:
    return {"anyOf": [schema, {"type": "null"}]}


def _object(properties: JsonObject) -> JsonObject:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def tightened(schema: JsonMapping, n_guesses: int = 1) -> JsonObject:
    """Return a batch or single schema for an engine that enforces it token by token.

    Such an engine can be held to the exact list of cases, each once and in order, and to
    confidences in [0, 1] in steps of 0.01, which a small model would otherwise miss. Lists of
    texts are kept short: a small model that begins to repeat itself would fill the token cap.
    """
    properties = {
        name: _tightened(name, kind, n_guesses) for name, kind in schema["properties"].items()
    }
    if "results" not in properties:
        return {**schema, "properties": properties}
    case = tightened(properties["results"]["items"], n_guesses)
    names = case["properties"]["id"]["enum"]
    cases = [
        {**case, "properties": {**case["properties"], "id": {"const": name}}} for name in names
    ]
    return _object({"results": {"type": "array", "prefixItems": cases}})


_STEPS = [round(step / 100, 2) for step in range(101)]


def _tightened(name: str, kind: JsonObject, n_guesses: int) -> JsonObject:
    if name == "confidence":
        return _or_null({"enum": _STEPS})
    if name == "probability":
        return {"enum": _STEPS}
    if name == "guesses":
        return {**kind, "maxItems": n_guesses, "items": tightened(kind["items"])}
    if name == RATIONALE:
        return {**kind, "maxLength": 300}
    if kind.get("type") != "array" or kind.get("items", {}).get("type") != "string":
        return kind
    return {**kind, "maxItems": 2, "items": {**kind["items"], "maxLength": 100}}

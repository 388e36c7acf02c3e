"""The JSON schema of the reply that a task asks for, in the subset that every provider accepts."""

from __future__ import annotations

from functools import cache

from pydantic import TypeAdapter

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


def reply_schema(task: Task, n_records: int | None = None) -> JsonObject:
    """Return the schema of one answer, or of a batch when the number of cases is given."""
    if n_records is None:
        return _object(_answer_properties(task))
    names = [case_name(position) for position in range(n_records)]
    identity = {"id": {"type": "string", "enum": names}}
    case = _object({**identity, **_answer_properties(task)})
    return _object({"results": {"type": "array", "items": case}})


def _answer_properties(task: Task) -> JsonObject:
    # A model writes from left to right: the grounds come before the answer, and the confidence
    # after the answer that it is about.
    grounds = {
        name: {**checker(field.type).json_schema(), "description": field.description}
        for name, field in task.reply_fields.items()
    }
    return {
        **grounds,
        "abstained": {"type": "boolean"},
        "prediction": _or_null(_one_of(list(task.answers))),
        "confidence": _or_null({"type": "number"}),
    }


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


def tightened(schema: JsonMapping) -> JsonObject:
    """Return a batch or single schema for an engine that enforces it token by token.

    Such an engine can be held to the exact list of cases, each once and in order, and to
    confidences in [0, 1] in steps of 0.01, which a small model would otherwise miss. Lists of
    texts are kept short: a small model that begins to repeat itself would fill the token cap.
    """
    properties = {name: _shortened(kind) for name, kind in schema["properties"].items()}
    if "results" not in properties:
        steps = [round(step / 100, 2) for step in range(101)]
        return {**schema, "properties": {**properties, "confidence": _or_null({"enum": steps})}}
    case = tightened(properties["results"]["items"])
    names = case["properties"]["id"]["enum"]
    cases = [
        {**case, "properties": {**case["properties"], "id": {"const": name}}} for name in names
    ]
    return _object({"results": {"type": "array", "prefixItems": cases}})


def _shortened(kind: JsonObject) -> JsonObject:
    if kind.get("type") != "array" or kind.get("items", {}).get("type") != "string":
        return kind
    return {**kind, "maxItems": 2, "items": {**kind["items"], "maxLength": 100}}

"""Evaluation results as JSON objects and back, checked field by field."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from typing import Any

from krisis.errors import InvalidFile, InvalidValue
from krisis.json_values import plain
from krisis.metrics.base import EvaluationResult

_TEXT, _COUNT = (str,), (int, type(None))
_TYPES: dict[str, tuple[type, ...]] = {
    "prediction": (int, str, type(None)),
    "ground_truth": (int, str),
    "abstained": (bool,),
    "confidence": (float, int, type(None)),
    "raw_response": _TEXT,
    "prompt": _TEXT,
    "prompt_mode": _TEXT,
    "metadata": (dict,),
    "input_tokens": _COUNT,
    "output_tokens": _COUNT,
    "total_tokens": _COUNT,
    "record_id": _TEXT,
    "cluster_id": _TEXT,
    "signals": (dict,),
    "error": (str, type(None)),
}
_NAMES = tuple(field.name for field in fields(EvaluationResult))


def row_to_dict(row: EvaluationResult) -> dict[str, Any]:
    """Return a row as a JSON object, with its outcome beside its fields."""
    values = {name: plain(getattr(row, name)) for name in _NAMES}
    return {"outcome": row.outcome, **values}


def row_from_dict(data: Mapping[str, Any], place: str) -> EvaluationResult:
    """Read a row back, naming the place and the field of anything that is wrong."""
    if not isinstance(data, dict):
        raise InvalidFile(f"{place} is a {type(data).__name__}, not an object")
    values = {name: value for name, value in data.items() if name != "outcome"}
    unknown = sorted(values.keys() - set(_NAMES))
    if unknown:
        raise InvalidFile(f"{place} has the unknown field {unknown[0]!r}")
    for name in ("prediction", "ground_truth"):
        if name not in values:
            raise InvalidFile(f"{place} lacks the field {name!r}")
    for name, value in values.items():
        if not isinstance(value, _TYPES[name]) or (value is True and name != "abstained"):
            raise InvalidFile(f"{place}: {name} has the value {value!r}, which it cannot have")
    try:
        row = EvaluationResult(**values)
    except InvalidValue as error:
        raise InvalidFile(f"{place}: {error}") from None
    if data.get("outcome", row.outcome) != row.outcome:
        raise InvalidFile(f"{place}: outcome {data['outcome']!r} contradicts its other fields")
    return row

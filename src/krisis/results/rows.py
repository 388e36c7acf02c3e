"""Rows and scores as JSON objects and back, checked field by field."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import asdict, fields
from sys import intern

from krisis.errors import InvalidFile, InvalidValue
from krisis.json_values import JsonMapping, JsonObject, JsonValue, plain, with_nan
from krisis.metrics.base import EvaluationResult, MetricScore, MetricScores
from krisis.statistics.intervals import Interval

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
    "failure_class": _TEXT,
    "model": _TEXT,
    "finish_reason": _TEXT,
    "latency_seconds": (float, int, type(None)),
}
# Many rows share few different texts: one copy of each is enough.
_REPEATED = ("prompt_mode", "failure_class", "model", "finish_reason")
_PLAIN = frozenset({str, int, bool, type(None)})
_NAMES = tuple(field.name for field in fields(EvaluationResult))


def row_to_dict(row: EvaluationResult) -> JsonObject:
    """Return a row as a JSON object, with its outcome beside its fields."""
    content: JsonObject = {"outcome": row.outcome}
    for name in _NAMES:
        value = getattr(row, name)
        content[name] = value if type(value) in _PLAIN else plain(value)
    return content


def row_from_dict(data: JsonMapping, place: str) -> EvaluationResult:
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
            # A row may hold what a patient said: its values are not quoted.
            raise InvalidFile(f"{place}: {name} holds a {type(value).__name__}, which it cannot")
    for name in _REPEATED:
        values[name] = intern(values.get(name, ""))
    try:
        row = EvaluationResult(**values)
    except InvalidValue as error:
        raise InvalidFile(f"{place}: {error}") from None
    if data.get("outcome", row.outcome) != row.outcome:
        raise InvalidFile(f"{place}: outcome {data['outcome']!r} contradicts its other fields")
    return row


def rows_fingerprint(rows: Iterable[EvaluationResult]) -> str:
    """Hash what scores depend on, so that scores of other rows are recognised."""
    digest = hashlib.sha256()
    for row in rows:
        answer = (row.prediction, row.abstained, row.confidence, row.outcome)
        scored = (row.record_id, row.cluster_id, row.ground_truth, *answer)
        # As texts, so that numbers of NumPy and of a file are the same.
        digest.update("\x1f".join([*map(str, scored), "\n"]).encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def score_from_dict(data: JsonValue, place: str) -> MetricScore:
    """Read a score back; every null in it is a NaN."""
    try:
        interval = data.get("interval")
        return MetricScore(
            name=str(data["name"]),
            value=float(with_nan(data["value"])),
            breakdown={key: float(with_nan(value)) for key, value in data["breakdown"].items()},
            n_evaluated=int(data["n_evaluated"]),
            n_abstained=int(data["n_abstained"]),
            details=with_nan(data["details"]),
            interval=Interval(**with_nan(interval)) if interval else None,
            key=str(data["key"]),
            direction=data["direction"],
            parameters=dict(data["parameters"]),  # a null is a parameter, not a number
            bounds=tuple(map(float, data["bounds"])) if data.get("bounds") else None,  # type: ignore[arg-type]
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise InvalidFile(f"{place} cannot be read ({error!r})") from None


_BLANK: JsonObject = {
    "breakdown": {},
    "n_evaluated": 0,
    "n_abstained": 0,
    "details": {},
    "interval": None,
    "key": "",
    "direction": "neither",
    "parameters": {},
    "bounds": None,
}


def scores_to_dict(scores: Mapping[str, MetricScore]) -> JsonObject:
    """Return scores by label, each without the fields that hold nothing."""
    return {
        label: {
            name: value
            for name, value in asdict(score).items()
            if name in ("value", "n_evaluated") or (name != "name" and value != _BLANK[name])
        }
        for label, score in scores.items()
    }


def scores_from_dict(content: JsonMapping, place: str) -> MetricScores:
    """Read back what `scores_to_dict` returned."""
    if not all(isinstance(score, dict) for score in content.values()):
        raise InvalidFile(f"{place}: scores cannot be read, each must be an object")
    return MetricScores(
        (label, score_from_dict({**_BLANK, "name": label, **score}, f"{place}: {label!r}"))
        for label, score in content.items()
    )

"""Check records before the first call: a fault that shows after the last one has cost a run."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from datetime import date, time
from enum import Enum

from krisis.answers import AnswerSet
from krisis.data.base import PatientRecord, Task
from krisis.errors import InvalidValue

# Metadata that metrics and reports read as true or false; None counts as not given.
_FLAGS = ("should_abstain", "synthetic", "label_depends_on_prior")
# Python writes no longer number as text.
_MOST_BITS = 4096
_ADVICE = "give numbers, text, dates, or lists and mappings of them"


def check_records(records: Iterable[PatientRecord], task: Task) -> None:
    """Refuse the first record that could not be asked, stored or scored, and say why."""
    answers = task.answer_set
    for record in records:
        try:
            fault = (
                _label_fault(record, task, answers)
                or _members_fault("the feature", record.features)
                or _metadata_fault(record)
            )
        except RecursionError:
            fault = "a value is nested too deeply to be shown"
        if fault:
            raise InvalidValue(f"record {record.record_id!r}: {fault}")


def _label_fault(record: PatientRecord, task: Task, answers: AnswerSet) -> str:
    if not answers.allowed or answers.match(record.label) is not None:
        return ""
    meant = task.aliases.get(str(record.label).strip().casefold())
    advice = "change the label or the answers of the task" if meant is None else f"write {meant!r}"
    return (
        f"the label {record.label!r} is none of the answers of the task {task.name!r} "
        f"({answers.listed()}); {advice}"
    )


def _metadata_fault(record: PatientRecord) -> str:
    for name in _FLAGS:
        value = record.metadata.get(name)
        if value is not None and type(value).__name__ not in ("bool", "bool_"):
            return f"metadata[{name!r}] must be True or False, not {value!r}"
    return _members_fault("the metadata entry", record.metadata)


def _members_fault(what: str, members: Mapping[str, object]) -> str:
    for name, value in members.items():
        if type(name) is not str:
            return f"{what} {name!r} must be named by a text"
        if value is not None and (fault := _fault(value)):
            return f"{what} {name!r} {fault}; {_ADVICE}"
    return ""


def _fault(value: object) -> str:
    """Say why a value can be neither shown nor stored; nothing of one that can."""
    if isinstance(value, Enum):
        value = value.value
    if value is None or isinstance(value, str | int | float | date | time):
        return _fault_of_one(value)
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) for key in value):
            return "holds a mapping whose keys are not all texts"
        value = list(value.values())
    if isinstance(value, list | tuple):
        return next((fault for item in value if (fault := _fault(item))), "")
    tolist = getattr(value, "tolist", None)  # NumPy arrays and scalars
    return _fault(tolist()) if callable(tolist) else f"holds a {type(value).__name__}"


def _fault_of_one(value: object) -> str:
    if isinstance(value, float) and math.isinf(value):
        return "is infinite"
    if isinstance(value, int) and value.bit_length() > _MOST_BITS:
        return "is too large a number"
    if isinstance(value, str) and not value.isascii() and not _is_whole(value):
        return "holds half a character"
    return ""


def _is_whole(text: str) -> bool:
    """Say whether a text can be written: half of a surrogate pair cannot."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True

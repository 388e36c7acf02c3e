"""Check records before the first call: a fault that shows after the last one has cost a run."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from datetime import date, time

from krisis.data.base import PatientRecord, Task
from krisis.errors import InvalidValue

# Metadata that metrics and reports read as true or false; None counts as not given.
_FLAGS = ("should_abstain", "synthetic", "label_depends_on_prior")
_ADVICE = "give numbers, text, dates, or lists and mappings of them"


def check_records(records: Iterable[PatientRecord], task: Task) -> None:
    """Refuse the first record that could not be asked, stored or scored, and say why."""
    answers = {_as_scored(answer) for answer in task.answers}
    for record in records:
        fault = (
            (answers and _label_fault(record, task, answers))
            or _members_fault("the feature", record.features)
            or _metadata_fault(record)
        )
        if fault:
            raise InvalidValue(f"record {record.record_id!r}: {fault}")


def _as_scored(label: object) -> str:
    """Return the form in which scoring compares labels: 1 and "1" are one answer."""
    return str(label).strip().casefold()


def _label_fault(record: PatientRecord, task: Task, answers: set[str]) -> str:
    written = _as_scored(record.label)
    if written in answers:
        return ""
    meant = task.aliases.get(written)
    advice = "change the label or the answers of the task" if meant is None else f"write {meant!r}"
    return (
        f"the label {record.label!r} is none of the answers of the task {task.name!r} "
        f"({', '.join(map(repr, task.answers))}); {advice}"
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
        if type(value) not in (str, int, bool, type(None)) and (fault := _fault(value)):
            return f"{what} {name!r} {fault}; {_ADVICE}"
    return ""


def _fault(value: object) -> str:
    """Say why a value can be neither shown nor stored; nothing of one that can."""
    if isinstance(value, float):
        return "is infinite" if math.isinf(value) else ""
    if value is None or isinstance(value, str | int | date | time):
        return ""
    if isinstance(value, Mapping):
        if not all(isinstance(key, str) for key in value):
            return "holds a mapping whose keys are not all texts"
        return next((fault for item in value.values() if (fault := _fault(item))), "")
    if isinstance(value, list | tuple):
        return next((fault for item in value if (fault := _fault(item))), "")
    tolist = getattr(value, "tolist", None)  # NumPy arrays and scalars
    return _fault(tolist()) if callable(tolist) else f"holds a {type(value).__name__}"

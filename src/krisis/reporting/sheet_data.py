"""The data of a run for a sheet: origin, labels, groups, deferral and what is missing."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence

from krisis.json_values import JsonValue
from krisis.metrics.base import EvaluationResult
from krisis.pages import wording
from krisis.reporting.provenance import data_facts
from krisis.reporting.sheet_run import Fact, SheetRun

_MOST_VALUES = 12
# Entries of a suite's description, by the items that they belong to.
_SOURCE_KEYS = ("account", "citation", "licence", "license", "notice", "provenance", "version")
_PREPARATION_KEYS = ("accepted", "deferral", "impute", "sex", "target")
_SPLIT_KEYS = ("split", "n_training_participants", "n_participants", "seed", "limit", "n_records")


def described(run: SheetRun, keys: Sequence[str] = ()) -> list[Fact]:
    """Return entries of the suite's description, nested ones by their path; without keys all."""
    return [
        Fact(name, wording.number(one), run.of_suite(key))
        for key, value in run.result.suite_description.items()
        if not keys or key in keys
        for name, one in data_facts({key: _opened(value)})
    ]


def _opened(value: JsonValue) -> JsonValue:
    """Return a list of mappings as a mapping, so that each entry of it gets a line."""
    if not isinstance(value, list) or not value or not isinstance(value[0], Mapping):
        return value
    return value[0] if len(value) == 1 else {str(i): one for i, one in enumerate(value, start=1)}


def source_facts(run: SheetRun) -> list[Fact]:
    """Return where the data come from, and on which terms."""
    imported = run.result.provenance.imported
    found = [Fact("imported", str(imported), "run: imported")] if imported else []
    return [*found, *described(run, _SOURCE_KEYS)]


def counted(values: Mapping[str, int], n: int, unit: str) -> str:
    """Write counts with their shares.

    >>> counted({"yes": 3, "no": 1}, 4, "record")
    'yes: 3 (75.0 %), no: 1 (25.0 %); of 4 records'
    """
    shown = dict(list(values.items())[:_MOST_VALUES])
    if len(values) > _MOST_VALUES:
        shown["other values"] = sum(values.values()) - sum(shown.values())
    parts = ", ".join(f"{name}: {k:,} ({wording.percent(k / n)})" for name, k in shown.items())
    return f"{parts}; of {n:,} {unit if n == 1 else f'{unit}s'}"


def _unit(run: SheetRun) -> str:
    task = run.result.provenance.task_facts
    return task.unit if task else "record"


def label_words(run: SheetRun, rows: Sequence[EvaluationResult], unit: str) -> str:
    """Say how often each label is the truth, in the order of the answers."""
    task = run.result.provenance.task_facts
    said = {str(answer): words for answer, words in task.answers} if task else {}
    # A run file may not say the right answer to what failed.
    found = Counter(str(row.ground_truth) or "not stated" for row in rows)
    names = [*(one for one in said if one in found), *sorted(set(found) - set(said))]
    shown = {f"{one} = {said[one]}" if said.get(one) else one: found[one] for one in names}
    return counted(shown, len(rows), unit)


def labels_facts(run: SheetRun) -> list[Fact]:
    """Return how often each label is the truth, among the records of the run."""
    if not run.records:
        return described(run, ("labels",))
    words = label_words(run, run.records, _unit(run))
    return [Fact("labels", words, run.of_rows("ground_truth"))]


def groups_facts(run: SheetRun) -> list[Fact]:
    """Return the size of every group that the task is broken down by."""
    task, rows = run.result.provenance.task_facts, run.records
    found = []
    for name, key in (task.groups if task else {}).items():
        values = Counter(
            "missing" if (value := row.metadata.get(key)) is None else str(value) for row in rows
        )
        ordered = dict(sorted(values.items(), key=lambda pair: (-pair[1], pair[0])))
        if set(ordered) - {"missing"}:
            words = counted(ordered, len(rows), _unit(run))
            found.append(Fact(f"group {name}", words, run.of_rows(f"metadata.{key}")))
    return found


def deferral_facts(run: SheetRun) -> list[Fact]:
    """Return how many records ask for deferral, and why."""
    stated = [row for row in run.records if isinstance(row.metadata.get("should_abstain"), bool)]
    if not stated:
        return []
    due = [row for row in stated if row.metadata["should_abstain"]]
    share = wording.percent(len(due) / len(stated))
    words = f"{len(due):,} of {len(stated):,} {_unit(run)}s ask for deferral ({share})"
    found = [Fact("deferral", words, run.of_rows("metadata.should_abstain"))]
    reasons = Counter(
        str(reason) for row in due for reason in row.metadata.get("abstain_reasons") or ()
    )
    if reasons:
        words = ", ".join(f"{name}: {n:,}" for name, n in sorted(reasons.items()))
        found.append(Fact("reasons to defer", words, run.of_rows("metadata.abstain_reasons")))
    return found


def preparation_facts(run: SheetRun) -> list[Fact]:
    """Return what the suite and an import did to the data."""
    imported = run.result.provenance.imported
    notes = [
        Fact("note of the import", note, "run: imported.notes")
        for note in (imported.notes if imported else ())
    ]
    return [*notes, *described(run, _PREPARATION_KEYS)]


def missing_facts(run: SheetRun) -> list[Fact]:
    """Count what was missing in what the model saw, row by row, where that is stored."""
    if not run.features:
        return []
    n = len(run.features)
    gaps = Counter(
        name
        for shown in run.features
        for name, value in shown.items()
        if value is None or (isinstance(value, float) and math.isnan(value))
    )
    words = ", ".join(
        f"{name}: {k:,} ({wording.percent(k / n)})" for name, k in sorted(gaps.items())
    )
    words = f"{words or 'no value'} missing, of {n:,} stored rows"
    return [Fact("missing values", words, "run: cases.features")]


def splits_facts(run: SheetRun) -> list[Fact]:
    """Return how the evaluated records were chosen from the data."""
    return described(run, _SPLIT_KEYS)

"""Which rows of several runs are the same case, and what became of each in the other run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache

import numpy as np

from krisis.errors import InvalidValue
from krisis.json_values import JsonObject
from krisis.metrics.base import EvaluationResult, Rows
from krisis.metrics.row_order import patient_order
from krisis.metrics.table import IntArray, Table, canonical_label
from krisis.results.result import BenchmarkResult

# The k-th asking of a record in one run is matched with the k-th asking in another.
Key = tuple[str, int]


@dataclass(frozen=True, slots=True)
class MatchedRuns:
    """The rows that every run scored, ordered by patient; and what had to be left out."""

    rows: Mapping[str, Rows]
    positions: Mapping[str, Sequence[int]]
    unmatched: Mapping[str, Sequence[str]]
    n_matched: int
    n_failed: Mapping[str, int]

    @property
    def n_compared(self) -> int:
        """Return the number of rows that all runs scored."""
        return len(next(iter(self.rows.values())))


def refuse_other_data(runs: Mapping[str, BenchmarkResult]) -> None:
    """Refuse runs whose cases differ, naming what differs."""
    for field in ("suite", "task", "content_hash"):
        said = {name: run.suite_description.get(field) for name, run in runs.items()}
        known = {name: value for name, value in said.items() if value is not None}
        if len(set(map(str, known.values()))) > 1:
            listed = ", ".join(f"{name}: {value}" for name, value in known.items())
            raise InvalidValue(
                f"the runs were made on different data ({field.replace('_', ' ')} differs: "
                f"{listed}); compare runs of the same suite, task, seed and file"
            )


@dataclass(slots=True)
class _Told:
    """What rows must tell to be matched, read in one pass: a long run holds no rows in memory."""

    keyed: dict[Key, int]
    truths: list[int | str]
    failed: list[bool]

    @classmethod
    def by(cls, name: str, rows: Sequence[EvaluationResult]) -> _Told:
        """Read the rows of a run."""
        seen: Counter[str] = Counter()
        listed = list(rows)
        told = cls({}, [""] * len(listed), [False] * len(listed))
        for position in patient_order(listed):
            row = listed[position]
            record = row.record_id
            if not record:
                raise InvalidValue(
                    f"row {position} of {name} has no record_id, so it cannot be matched; run "
                    "again with records that carry one"
                )
            told.keyed[record, seen[record]] = position
            seen[record] += 1
            told.truths[position] = row.ground_truth
            told.failed[position] = row.error is not None
        return told


def match_runs(runs: Mapping[str, BenchmarkResult]) -> MatchedRuns:
    """Match rows by record_id and keep those that every run has and scored."""
    told = {name: _Told.by(name, run.evaluation_results) for name, run in runs.items()}
    first, *others = told.values()
    common = [key for key in first.keyed if all(key in other.keyed for other in others)]
    if not common:
        raise InvalidValue("the runs share no record_id, so there is nothing to compare")
    _refuse_other_truth(common, told)
    scored = [k for k in common if not any(one.failed[one.keyed[k]] for one in told.values())]
    if not scored:
        raise InvalidValue("no record was scored by every run; retry the failed rows first")
    positions = {name: [one.keyed[key] for key in scored] for name, one in told.items()}
    kept = set(common)
    return MatchedRuns(
        {name: run.rows.taken(positions[name]) for name, run in runs.items()},
        positions,
        {name: [k[0] for k in one.keyed if k not in kept] for name, one in told.items()},
        len(common),
        {name: sum(one.failed[one.keyed[k]] for k in common) for name, one in told.items()},
    )


def _refuse_other_truth(common: Sequence[Key], told: Mapping[str, _Told]) -> None:
    canonical = lru_cache(maxsize=None)(canonical_label)
    for key in common:
        truths = {name: one.truths[one.keyed[key]] for name, one in told.items()}
        if len({canonical(truth) for truth in truths.values()}) > 1:
            listed = ", ".join(f"{name}: {truth!r}" for name, truth in truths.items())
            raise InvalidValue(
                f"record {key[0]!r} has different right answers ({listed}); the runs were made "
                "on different data"
            )


OUTCOMES = ("right", "wrong", "abstained")
# What became of a row → what became of it in the other run, in the order in which it matters.
CHANGES = (
    ("right", "wrong"),
    ("wrong", "right"),
    ("right", "abstained"),
    ("wrong", "abstained"),
    ("abstained", "right"),
    ("abstained", "wrong"),
)


@dataclass(frozen=True, slots=True)
class ChangedRow:
    """One record that two runs treated differently; positions are those in the runs."""

    change: str
    record_id: str
    left_position: int
    right_position: int
    ground_truth: int | str
    left_answer: int | str | None
    right_answer: int | str | None
    left_confidence: float | None
    right_confidence: float | None
    should_abstain: bool | None

    def to_dict(self) -> JsonObject:
        """Return the row as JSON values."""
        return asdict(self)


def verdict(row: EvaluationResult) -> str:
    """Say what became of a row: right, wrong, abstained or failed."""
    if row.error is not None:
        return "failed"
    if row.abstained:
        return "abstained"
    if row.prediction is None:
        return "wrong"
    same = canonical_label(row.prediction) == canonical_label(row.ground_truth)
    return "right" if same else "wrong"


def outcome_codes(table: Table) -> IntArray:
    """Return what became of every row, as a place in `OUTCOMES`."""
    return np.where(table.abstained, 2, np.where(table.correct, 0, 1))


def changed_rows(matched: MatchedRuns, left: str, right: str) -> dict[str, list[ChangedRow]]:
    """Return the matched rows of each kind of change, those of the surest new answer first."""
    found: dict[str, list[ChangedRow]] = {f"{a} → {b}": [] for a, b in CHANGES}
    sides = (left, right)
    codes = (outcome_codes(matched.rows[name].table).tolist() for name in sides)
    positions = (matched.positions[name] for name in sides)
    rows = (matched.rows[name] for name in sides)
    for a, b, i, j, before, after in zip(*codes, *positions, *rows, strict=True):
        if a != b:
            change = f"{OUTCOMES[a]} → {OUTCOMES[b]}"
            found[change].append(_changed(change, (i, before), (j, after)))
    for changed in found.values():
        changed.sort(key=lambda row: (-(row.right_confidence or 0.0), row.right_position))
    return found


def _changed(
    change: str, before: tuple[int, EvaluationResult], after: tuple[int, EvaluationResult]
) -> ChangedRow:
    (i, left), (j, right) = before, after
    due = left.metadata.get("should_abstain")
    return ChangedRow(
        change=change,
        record_id=left.record_id,
        left_position=i,
        right_position=j,
        ground_truth=left.ground_truth,
        left_answer=left.prediction if not left.abstained else None,
        right_answer=right.prediction if not right.abstained else None,
        left_confidence=left.confidence,
        right_confidence=right.confidence,
        should_abstain=None if due is None else bool(due),
    )

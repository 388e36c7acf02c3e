"""The rows on which two runs part: right became wrong, answered became abstained, and back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from krisis.metrics.base import EvaluationResult
from krisis.metrics.columns import canonical_label
from krisis.results.result import BenchmarkResult

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

    def to_dict(self) -> dict[str, Any]:
        """Return the row as JSON values."""
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


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


def changed_rows(
    left: BenchmarkResult,
    right: BenchmarkResult,
    positions: tuple[list[int], list[int]],
) -> dict[str, list[ChangedRow]]:
    """Return the matched rows of each kind of change, those of the surest new answer first."""
    found: dict[str, list[ChangedRow]] = {f"{a} → {b}": [] for a, b in CHANGES}
    for i, j in zip(*positions, strict=True):
        before, after = left.evaluation_results[i], right.evaluation_results[j]
        change = f"{verdict(before)} → {verdict(after)}"
        if change in found:
            found[change].append(_changed(change, (i, before), (j, after)))
    for rows in found.values():
        rows.sort(key=lambda row: (-(row.right_confidence or 0.0), row.right_position))
    return found


def _changed(
    change: str, before: tuple[int, EvaluationResult], after: tuple[int, EvaluationResult]
) -> ChangedRow:
    (i, left), (j, right) = before, after
    metadata: Mapping[str, Any] = left.metadata
    due = metadata.get("should_abstain")
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

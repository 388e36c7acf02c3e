"""What scoring knows of a task, and the codes of labels and groups."""

from __future__ import annotations

import math
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Self

import numpy as np
from numpy.typing import NDArray

from krisis.answers import AnswerSet, Label
from krisis.costs import ASSUMED, Costs
from krisis.task_facts import DueBy, Loss, TaskFacts, TotalScale

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
# Without a task, rows are broken down by the metadata key that the seeds fix.
_DEFAULT_GROUPS = {"stage": "ckd_stage"}


@dataclass(frozen=True, slots=True)
class Answers(AnswerSet):
    """What scoring must know of a task: its answers, its groups, its loss, its total, its costs.

    ``groups`` maps the name of a breakdown to the metadata key that it reads; ``total`` is None
    where items of a patient do not add up; ``costs`` are what wrong answers and deferrals cost and
    ``due_by`` says what makes a case due for deferral.
    """

    default_loss: Loss = "error"
    groups: Mapping[str, str] = field(default_factory=lambda: dict(_DEFAULT_GROUPS))
    total: TotalScale | None = None
    costs: Costs = ASSUMED
    due_by: DueBy = "costs"

    @classmethod
    def of(cls, task: TaskFacts) -> Self:
        """Return what metrics must know of a task."""
        known = task.answer_set
        return cls(
            known.allowed,
            known.ordered,
            known.positive,
            known.meanings,
            known.short_names,
            default_loss=task.default_loss,
            groups=task.groups,
            total=task.total,
            costs=task.costs,
            due_by=task.due_by,
        )

    def cost_matrix(self, labels: Sequence[Label]) -> FloatArray:
        """Return what each of the labels costs as an answer (columns) at each truth (rows)."""
        known = dict(zip(self.keys, self.allowed, strict=True))
        names = [known.get(label, label) for label in labels]
        found = [[self.costs.of(truth, answer) for answer in names] for truth in names]
        return np.array(found, dtype=np.float64).reshape(len(names), len(names))

    def positions(self, labels: Sequence[Label]) -> FloatArray:
        """Return where each label is on the scale: its number, else its place among the answers.

        NaN where a label has no place on a scale.
        """
        known, seen = self.keys, [self.key(label) for label in labels]
        if all(isinstance(label, int) for label in (*known, *seen)):
            return np.array(seen, dtype=np.float64)
        if not self.ordered:
            return np.full(len(seen), math.nan)
        place = {label: float(index) for index, label in enumerate(known)}
        return np.array([place.get(label, math.nan) for label in seen], dtype=np.float64)

    def span(self, seen: Sequence[Label]) -> float:
        """Return the largest distance between two answers, of those seen without a task."""
        place = self.positions(self.keys or seen)
        place = place[~np.isnan(place)]
        return float(np.ptp(place)) or 1.0 if place.size else 1.0


def hashable(value: object) -> object:
    """Return a value, or its text where it cannot be a key."""
    return value if isinstance(value, Hashable) else str(value)


def group_name(column: str, value: object) -> str:
    """Name the group of a metadata value."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return f"unknown_{column}"
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return f"{column}_{str(value).strip()}"

"""How well deferred cases are read: by a stated reader, or by the answers in a column."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from krisis.answers import is_label
from krisis.decisions.answers import answers_of, is_positive, positive_of
from krisis.errors import InvalidValue, UnknownName
from krisis.metrics.items import RunItems
from krisis.metrics.table import FloatArray, IntArray
from krisis.pages.numbers import given

# What a team does is counted per so many cases.
PER = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Team:
    """How well deferred cases are read.

    Either ``sensitivity`` and ``specificity`` (two answers), ``accuracy``, or a metadata
    ``column`` that holds the reader's answer.
    """

    sensitivity: float | None = None
    specificity: float | None = None
    accuracy: float | None = None
    column: str = ""

    def __post_init__(self) -> None:
        for name in ("sensitivity", "specificity", "accuracy"):
            value = getattr(self, name)
            if value is not None and not 0 <= value <= 1:
                raise InvalidValue(f"the reader's {name} must be between 0 and 1, not {value!r}")
        pair = (self.sensitivity, self.specificity)
        ways = (pair != (None, None), self.accuracy is not None, bool(self.column))
        if sum(ways) != 1 or pair.count(None) == 1:
            raise InvalidValue(
                "say once how well deferred cases are read: sensitivity and specificity, accuracy, "
                "or the column with the reader's answers"
            )

    def errors(self, run: RunItems) -> FloatArray:
        """Return the chance that the reader is wrong, per row; 0 or 1 by the reader's answers."""
        if self.column:
            return np.where(self._answers(run) != run.table.truth, 1.0, 0.0)
        if self.accuracy is not None:
            return np.full(run.n_items, 1 - self.accuracy)
        if positive_of(run) is None or len(answers_of(run)) > 2:
            raise InvalidValue(
                f"sensitivity and specificity are for two answers with a positive one, which "
                f"{run.source.path} has not; give --reader-accuracy"
            )
        found = (self.sensitivity or 0.0, self.specificity or 0.0)
        return np.where(is_positive(run), 1 - found[0], 1 - found[1])

    def _answers(self, run: RunItems) -> IntArray:
        values = run.table.metadata(self.column)
        if not any(self.column in row.metadata for row in run.table.rows):
            known = {str(key) for row in run.table.rows for key in row.metadata}
            raise UnknownName.among("metadata column", self.column, known)
        seen = {label: index for index, label in enumerate(run.table.labels)}
        code = {label: seen.get(label, -2) for label in answers_of(run)}
        found = []
        for index, value in enumerate(values):
            label = run.table.answers.key(value) if is_label(value) else None
            if label is None or label not in code:
                raise InvalidValue(
                    f"{run.place(index)}: the reader's answer in {self.column!r} is {value!r}; it "
                    f"must be one of {', '.join(map(str, code))} in every row"
                )
            found.append(code[label])
        return np.array(found)

    def assumption(self) -> str:
        """State what the figures of a team assume."""
        if self.column:
            return f"The reader's answers are those in the column {self.column!r}."
        if self.accuracy is not None:
            return (
                f"A reader is right in {given(self.accuracy)} of the cases, whichever are deferred."
            )
        return (
            f"A reader finds {given(self.sensitivity or 0.0)} of the positive and "
            f"{given(self.specificity or 0.0)} of the negative cases, no fewer among those that "
            "are deferred."
        )


def stated_team(
    *,
    sensitivity: float | None = None,
    specificity: float | None = None,
    accuracy: float | None = None,
    column: str = "",
) -> Team | None:
    """Return the reader that is stated; None where nothing is said of one."""
    if (sensitivity, specificity, accuracy, column) == (None, None, None, ""):
        return None
    return Team(sensitivity=sensitivity, specificity=specificity, accuracy=accuracy, column=column)

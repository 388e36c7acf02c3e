"""A model and readers together: people read the deferred cases and make errors too."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from krisis.decisions.population import Quantity, answers_of, positive_of
from krisis.errors import InvalidValue, UnknownName
from krisis.json_values import JsonMapping
from krisis.metrics.items import RunItems
from krisis.metrics.labels import is_label
from krisis.metrics.table import BoolArray, FloatArray, IntArray
from krisis.statistics.intervals import Interval


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
                raise InvalidValue(f"the reader's {name} must lie between 0 and 1, not {value!r}")
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
            return f"A reader is right in {self.accuracy:.4g} of the cases, whichever are deferred."
        return (
            f"A reader finds {self.sensitivity:.4g} of the positive and {self.specificity:.4g} "
            "of the negative cases, no fewer among those that are deferred."
        )


def team_from(content: JsonMapping, place: str) -> Team:
    """Read a team as a cost table states it."""
    known = Team.__slots__
    for name, value in content.items():
        if name not in known:
            raise UnknownName.among(f"field of the team in {place}:", str(name), known)
        wanted = str if name == "column" else int | float
        if not isinstance(value, wanted) or isinstance(value, bool):
            what = "text" if name == "column" else "a number"
            raise InvalidValue(f"{place}: {name} of the team must be {what}, not {value!r}")
    return Team(**content)


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """What model and readers do together, per 1,000 rows.

    ``missed`` are positive cases with another final answer, NaN where the task has no positive.
    """

    wrong: float
    wrong_low: float
    wrong_high: float
    missed: float
    missed_low: float
    missed_high: float
    read: float


def team_quantities(
    run: RunItems, accepted: BoolArray, reader_errors: FloatArray
) -> dict[str, Quantity]:
    """Return the chance of a wrong final answer of every row, and of a missed positive case."""
    wrong = np.where(accepted, ~run.table.correct, reader_errors).astype(np.float64)
    low, high = float(reader_errors.min()), float(reader_errors.max())
    bounds = (0.0, 1.0) if accepted.any() else (low, high)
    if positive_of(run) is None:
        return {"wrong": Quantity(wrong, *bounds)}
    missed = Quantity(wrong * is_positive(run), 0.0, bounds[1])
    return {"wrong": Quantity(wrong, *bounds), "missed": missed}


def workload(means: Mapping[str, tuple[float, Interval]], deferred: float) -> Workload:
    """Return the figures of a team where a share of the rows is deferred."""
    none = math.nan, Interval.undefined("the_task_has_no_positive_answer")
    (wrong, of_wrong), (missed, of_missed) = means["wrong"], means.get("missed", none)
    return Workload(
        wrong=1000 * wrong,
        wrong_low=1000 * of_wrong.low,
        wrong_high=1000 * of_wrong.high,
        missed=1000 * missed,
        missed_low=1000 * of_missed.low,
        missed_high=1000 * of_missed.high,
        read=1000 * deferred,
    )


def is_positive(run: RunItems) -> BoolArray:
    """True where the true answer is the positive one."""
    positive = positive_of(run)
    if positive not in run.table.labels:
        return np.zeros(run.n_items, dtype=np.bool_)
    return np.asarray(run.table.truth == run.table.labels.index(positive))

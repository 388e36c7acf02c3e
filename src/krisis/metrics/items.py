"""A run as items to be accepted or deferred: its table, where it comes from and what it lacks."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from krisis.errors import InvalidValue
from krisis.json_values import JsonValue
from krisis.metrics.base import EvaluationResult
from krisis.metrics.table import BoolArray, FloatArray, IntArray, Label, Loss, Table

# The signal that holds the confidence which a krisis backend returned.
STATED = "stated_confidence"
# Signals that hold the confidence of a row which was asked for in another way; see --elicit.
ELICITED = tuple(f"{way}_confidence" for way in ("rationale", "p_true", "top_k", "two_step"))


@dataclass(frozen=True, slots=True)
class Source:
    """Where items come from, as artifacts name it."""

    path: str
    run_id: str | None = None
    git_commit: str | None = None
    mode: str | None = None
    suite: str = ""
    model: str = ""
    task: str = ""
    features: str = ""
    case_hash: str = ""

    def named(self) -> dict[str, Any]:
        """Return what an artifact says of a run that it was made from."""
        return {key: getattr(self, key) for key in ("path", "run_id", "git_commit", "mode")}


@dataclass(frozen=True, eq=False)
class RunItems:
    """All items of the patients that were scored; failures are only counted.

    The rows of the table are sorted by patient. ``left_out`` names the patients that were
    scored and are not here because another run lacks them, ``n_not_asked`` the items that an
    incomplete run has not asked yet. ``words`` names a patient and an item as the task does;
    ``told`` is the price that the prompt stated, None where nobody was told one.
    """

    table: Table
    source: Source
    default_confidence: str = "stated"
    failed: Sequence[str] = ()
    left_out: Sequence[str] = ()
    n_not_asked: int = 0
    words: tuple[str, str] = ("patient", "record")
    told: float | None = None

    @property
    def n_items(self) -> int:
        """Count all items, with and without a prediction."""
        return self.table.n_scored

    @cached_property
    def predicted(self) -> BoolArray:
        """True where the model gave an answer."""
        return self.table.answered

    @property
    def participants(self) -> Sequence[str]:
        """The patients, in the order of their codes."""
        return self.table.patient_names

    @property
    def n_participants(self) -> int:
        """Count the patients."""
        return self.table.patients.n

    def names(self) -> Iterator[tuple[str, str]]:
        """Yield the patient and the record of every item."""
        patients = self.table.columns.patient_names(self.table.positions)
        return zip(patients, self.table.record_ids, strict=True)

    @property
    def participant(self) -> IntArray:
        """The patient of every item."""
        return self.table.patients.code

    def signal(self, name: str) -> FloatArray | None:
        """Return a signal of every item as numbers, NaN where it is missing or null.

        None where an item holds something else.
        """
        found = self.table.columns.signal(name)
        if found is None:
            return None
        found = found[self.table.positions]
        return np.where(np.isnan(found), self._stated, found) if name == STATED else found

    @cached_property
    def _stated(self) -> FloatArray:
        """The confidence that every row has, whatever the table was given instead."""
        return self.table.columns.confidence[self.table.positions]

    def lacks(self, name: str, index: int) -> bool:
        """Say whether an item does not have a signal, not even a null."""
        return name != STATED and name not in self.table.row(index).signals

    def given(self, name: str) -> BoolArray:
        """True where an item has a signal."""
        column = self.signal(name)
        if column is not None:
            return ~np.isnan(column)
        return np.array([one.get(name) is not None for one in self.signals], dtype=np.bool_)

    @cached_property
    def signals(self) -> Sequence[Mapping[str, JsonValue]]:
        """The signals of every item, the stated confidence among them."""
        return [{**row.signals, STATED: _stated(row)} for row in self.table.rows]

    @property
    def ordered(self) -> bool:
        """Tell whether every label has a place on a scale."""
        return not np.isnan(self.table.answers.positions(self.table.labels)).any()

    @property
    def scale(self) -> float:
        """The largest distance between two answers; NaN for labels that have no order."""
        return self.table.answers.span(self.table.labels) if self.ordered else float("nan")

    def losses(self, loss: Loss) -> FloatArray:
        """Return the loss of every predicted item."""
        values = self.table.losses(loss)[self.predicted]
        if np.isnan(values).any():
            raise InvalidValue(
                f"the loss {loss!r} needs answers with an order and {self.source.path} has none; "
                "use the loss 'error'"
            )
        return values

    def errors(self) -> FloatArray:
        """Return, per predicted item, the distance from the truth; 0 or 1 without an order."""
        return self.losses("abs" if self.ordered else "error")

    def with_answers(self, allowed: tuple[Label, ...]) -> RunItems:
        """Return the items on the scale of these answers."""
        answers = replace(self.table.answers, allowed=allowed, ordered=True)
        return replace(self, table=self.table.with_answers(answers))

    def with_confidence(self, values: FloatArray) -> Table:
        """Return the table with a confidence for every predicted item."""
        confidence = np.full(self.n_items, np.nan)
        confidence[self.predicted] = values
        return self.table.with_confidence(confidence)

    def place(self, index: int) -> str:
        """Name an item in a message."""
        row = self.table.row(index)
        patient = f"{self.words[0]} {row.cluster_id or self.table.columns.row_name(index)}"
        item = row.metadata.get("item")
        return f"{patient}, item {item}" if item else patient

    def restricted(self, participants: Collection[str]) -> RunItems:
        """Return the items of these patients only."""
        kept = np.array([name in participants for name in self.participants], dtype=np.bool_)
        left_out = [name for name in self.participants if name not in participants]
        return replace(
            self,
            table=self.table.restricted(kept[self.participant]),
            left_out=(*self.left_out, *left_out),
        )


def _stated(row: EvaluationResult) -> JsonValue:
    """Return the confidence stated with the answer, where another was asked for apart."""
    stated = row.signals.get(STATED)
    return row.confidence if stated is None else stated

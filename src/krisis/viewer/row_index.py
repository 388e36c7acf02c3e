"""Rows as columns that can be filtered, sorted and searched without touching the rows again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from krisis.metrics.base import EvaluationResult
from krisis.metrics.table import canonical_label
from krisis.reporting.breakdown import group_label
from krisis.reporting.costliest import is_correct
from krisis.reporting.deferral import CELLS, deferral_cell
from krisis.results.attrition import UNCLASSIFIED

OUTCOMES = ("answered", "abstained", "failed")
SCORED = "scored"  # answered or abstained: everything but failed
NO_ANSWER = "no answer"  # answered, and what was answered is none of the labels
SORTS = ("position", "confidence", "-confidence")
# Longer replies are searched in their beginning only, so that an index stays small.
SEARCHED_CHARACTERS = 20_000

# Codes of the cells of deferral in which deferral was due, was not, or either.
_DUE_CELLS = {"yes": (1, 2), "no": (3, 4), "stated": (1, 2, 3, 4)}

IntArray = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class RowFilter:
    """Which rows to show and in which order; an empty field asks for nothing.

    ``due`` is yes, no or stated: whether the case asked for deferral, of rows that did not fail.
    ``predicted`` asks for answered rows; ``record`` is the whole name of a record.
    """

    outcome: str = ""
    correct: str = ""
    cell: str = ""
    due: str = ""
    reason: str = ""
    failure: str = ""
    predicted: str = ""
    truth: str = ""
    group: str = ""
    record: str = ""
    text: str = ""
    confidence_min: float | None = None
    confidence_max: float | None = None
    deferred_at: float | None = None
    sort: str = "position"


class RowIndex:
    """The columns of one run; ``groups`` maps headings of groups to metadata keys."""

    def __init__(self, rows: Sequence[EvaluationResult], groups: Mapping[str, str]) -> None:
        n_rows = len(rows)
        cells = {name: code for code, name in enumerate(("", *CELLS))}
        self.outcome = np.fromiter((OUTCOMES.index(r.outcome) for r in rows), np.int8, n_rows)
        self.correct = np.fromiter(map(is_correct, rows), np.bool_, n_rows)
        self.cell = np.fromiter((cells[deferral_cell(r)] for r in rows), np.int8, n_rows)
        self._groups = {
            name: _coded(group_label(row, name, key) for row in rows)
            for name, key in groups.items()
        }
        self._columns = {
            "failure": _coded(_failure(row) for row in rows),
            "predicted": _coded(_predicted(row) for row in rows),
            "truth": _coded(label_text(row.ground_truth) for row in rows),
        }
        self._reasons: dict[str, list[int]] = {}
        self._records: dict[str, list[int]] = {}
        for position, row in enumerate(rows):
            self._records.setdefault(row.record_id, []).append(position)
            for reason in reasons_listed(row):
                self._reasons.setdefault(reason, []).append(position)
        self.confidence = np.array([r.confidence for r in rows], dtype=np.float64)
        self.texts = [_searched(row) for row in rows]
        self._cells = cells
        self._containing = lru_cache(maxsize=16)(self._search)

    @property
    def groups(self) -> list[str]:
        """Return the groups that occur, such as "sex: female", in order."""
        return [
            f"{name}: {value}"
            for name, (values, _) in self._groups.items()
            for value in sorted(values)
            if len(values) > 1
        ]

    def values(self, column: str) -> list[str]:
        """Return what occurs under ``reason``, ``failure``, ``predicted`` or ``truth``."""
        found = self._reasons if column == "reason" else self._columns[column][0]
        return sorted(value for value in found if value)

    def select(self, wanted: RowFilter) -> IntArray:
        """Return the positions of the rows that pass, in the order asked for."""
        kept = self._of_outcome(wanted) & self._in_range(wanted)
        if wanted.group:
            kept &= self._inside(wanted.group)
        for column, (values, codes) in self._columns.items():
            if value := getattr(wanted, column):
                kept &= codes == values.get(value, -1)
        for named, places in ((wanted.reason, self._reasons), (wanted.record, self._records)):
            if named:
                kept &= self._at(places.get(named, []))
        if wanted.text:
            kept &= self._containing(wanted.text.casefold())
        return self._ordered(np.flatnonzero(kept), wanted.sort)

    def _of_outcome(self, wanted: RowFilter) -> NDArray[np.bool_]:
        kept = np.ones(len(self.texts), dtype=np.bool_)
        if wanted.outcome == SCORED:
            kept &= self.outcome != OUTCOMES.index("failed")
        elif wanted.outcome:
            kept &= self.outcome == OUTCOMES.index(wanted.outcome)
        if wanted.correct:
            kept &= (self.outcome == 0) & (self.correct == (wanted.correct == "yes"))
        if wanted.cell:
            kept &= self.cell == self._cells[wanted.cell]
        if wanted.due:
            kept &= np.isin(self.cell, _DUE_CELLS[wanted.due])
        return kept

    def _in_range(self, wanted: RowFilter) -> NDArray[np.bool_]:
        kept = np.ones(len(self.texts), dtype=np.bool_)
        if wanted.confidence_min is not None:
            kept &= self.confidence >= wanted.confidence_min
        if wanted.confidence_max is not None:
            kept &= self.confidence <= wanted.confidence_max
        if wanted.deferred_at is not None:
            kept &= (self.outcome == 0) & ~(self.confidence >= wanted.deferred_at)
        return kept

    def _at(self, positions: list[int]) -> NDArray[np.bool_]:
        kept = np.zeros(len(self.texts), dtype=np.bool_)
        kept[positions] = True
        return kept

    def _inside(self, group: str) -> NDArray[np.bool_]:
        name, _, value = group.partition(":")
        values, codes = self._groups.get(name.strip(), ({}, np.zeros(len(self.texts))))
        return np.asarray(codes == values.get(value.strip(), -1))

    def _search(self, needle: str) -> NDArray[np.bool_]:
        return np.fromiter((needle in text for text in self.texts), np.bool_, len(self.texts))

    def _ordered(self, positions: IntArray, sort: str) -> IntArray:
        if sort == "position":
            return positions
        values = self.confidence[positions]
        # Rows that state no confidence come last in either direction.
        order = np.argsort(-values if sort == "-confidence" else values, kind="stable")
        return positions[order]


def _coded(found: Iterable[str]) -> tuple[dict[str, int], NDArray[np.int32]]:
    values: dict[str, int] = {}
    codes = np.array([values.setdefault(value, len(values)) for value in found], dtype=np.int32)
    return values, codes


def label_text(label: object) -> str:
    """Return an answer as filters name it: equal answers have one name."""
    return str(canonical_label(label))


def _predicted(row: EvaluationResult) -> str:
    if row.outcome != "answered":
        return ""
    return NO_ANSWER if row.prediction is None else label_text(row.prediction)


def _failure(row: EvaluationResult) -> str:
    return "" if row.error is None else row.failure_class or UNCLASSIFIED


def reasons_listed(row: EvaluationResult) -> list[str]:
    """Return why a case asked for deferral, reason by reason, as its metadata name them."""
    found = row.metadata.get("abstain_reasons") or row.metadata.get("abstain_reason") or ()
    return [str(one) for one in (found if isinstance(found, list | tuple) else (found,))]


def _searched(row: EvaluationResult) -> str:
    parts = (
        row.record_id,
        str(row.prediction),
        row.raw_response[:SEARCHED_CHARACTERS],
        row.error or "",
    )
    return "\n".join(parts).casefold()

"""Rows as columns that can be filtered, sorted and searched without touching the rows again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from krisis.metrics.base import EvaluationResult
from krisis.reporting.breakdown import group_of
from krisis.reporting.costliest import is_correct
from krisis.reporting.deferral import CELLS, deferral_cell

OUTCOMES = ("answered", "abstained", "failed")
SORTS = ("position", "confidence", "-confidence")
# Longer replies are searched in their beginning only, so that an index stays small.
SEARCHED_CHARACTERS = 20_000

IntArray = NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class RowFilter:
    """Which rows to show and in which order; an empty field asks for nothing."""

    outcome: str = ""
    correct: str = ""
    cell: str = ""
    group: str = ""
    text: str = ""
    confidence_min: float | None = None
    confidence_max: float | None = None
    deferred_at: float | None = None
    sort: str = "position"


class RowIndex:
    """The columns of one run; ``groups`` maps the groups of its task to metadata keys."""

    def __init__(self, rows: Sequence[EvaluationResult], groups: Mapping[str, str]) -> None:
        n_rows = len(rows)
        cells = {name: code for code, name in enumerate(("", *CELLS))}
        self.outcome = np.fromiter((OUTCOMES.index(r.outcome) for r in rows), np.int8, n_rows)
        self.correct = np.fromiter(map(is_correct, rows), np.bool_, n_rows)
        self.cell = np.fromiter((cells[deferral_cell(r)] for r in rows), np.int8, n_rows)
        self._groups = {name: _coded(rows, name, key) for name, key in groups.items()}
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
            if value
        ]

    def select(self, wanted: RowFilter) -> IntArray:
        """Return the positions of the rows that pass, in the order asked for."""
        kept = np.ones(len(self.texts), dtype=np.bool_)
        if wanted.outcome:
            kept &= self.outcome == OUTCOMES.index(wanted.outcome)
        if wanted.correct:
            kept &= (self.outcome == 0) & (self.correct == (wanted.correct == "yes"))
        if wanted.cell:
            kept &= self.cell == self._cells[wanted.cell]
        if wanted.group:
            kept &= self._inside(wanted.group)
        if wanted.confidence_min is not None:
            kept &= self.confidence >= wanted.confidence_min
        if wanted.confidence_max is not None:
            kept &= self.confidence <= wanted.confidence_max
        if wanted.deferred_at is not None:
            kept &= (self.outcome == 0) & ~(self.confidence >= wanted.deferred_at)
        if wanted.text:
            kept &= self._containing(wanted.text.casefold())
        return self._ordered(np.flatnonzero(kept), wanted.sort)

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


def _coded(
    rows: Sequence[EvaluationResult], name: str, key: str
) -> tuple[dict[str, int], NDArray[np.int32]]:
    values: dict[str, int] = {}
    found = (values.setdefault(group_of(row, name, key), len(values)) for row in rows)
    codes = np.fromiter(found, np.int32, len(rows))
    return values, codes


def _searched(row: EvaluationResult) -> str:
    parts = (
        row.record_id,
        str(row.prediction),
        row.raw_response[:SEARCHED_CHARACTERS],
        row.error or "",
    )
    return "\n".join(parts).casefold()

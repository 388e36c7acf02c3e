"""A table whose columns come from a file by themselves: no row is ever made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from krisis.errors import InvalidValue
from krisis.metrics.labels import Codes, group_name, hashable, sorted_groups
from krisis.metrics.table import (
    DEFERRAL,
    NO_LABEL,
    UNREADABLE,
    WHY_DEFERRED,
    Answers,
    BoolArray,
    FloatArray,
    IntArray,
    Label,
    Table,
    Units,
)

Name = Callable[[int], str]
_ROWS_PER_BLOCK = 8192


@dataclass(frozen=True, slots=True)
class Coded:
    """A column of few different values: the code of every row, and what each code stands for."""

    code: NDArray[np.integer]
    values: Sequence[object]


@dataclass(frozen=True, slots=True)
class ScoredColumns:
    """What every metric reads: codes of the labels (−1 for none), outcomes, confidences."""

    labels: list[Label]
    truth: IntArray
    prediction: IntArray
    abstained: BoolArray
    no_answer: BoolArray
    confidence: FloatArray
    n_not_evaluated: int


class ColumnReader(Protocol):
    """Reads further columns of the scored rows when something asks for them."""

    @property
    def place(self) -> str:
        """Name the file in a message."""

    def metadata_column(self, key: str) -> Coded | None:
        """Return a metadata column; None where there is none."""

    def signal_column(self, name: str) -> FloatArray | None:
        """Return a signal, NaN where a row lacks it; None where there is no such column."""

    def signal_names(self) -> list[str]:
        """Return the names of the signals that there are columns of."""

    def clusters(self) -> IntArray:
        """Return a code of the patient of every row, numbered by first appearance."""

    def repeats_records(self) -> bool:
        """Tell whether a record occurs more than once."""

    def row_name(self, index: int) -> str:
        """Name a row in a message."""

    def cluster_name(self, code: int) -> str:
        """Return the name of a patient."""

    def missing_labels(self) -> list[Label]:
        """Return the right answers of the rows that were not evaluated."""

    def missing_deferral(self) -> list[object]:
        """Return the deferral labels of the rows that were not evaluated."""

    def missing_clusters(self) -> list[str]:
        """Return the patients of whom no row was evaluated."""


class LazyNames(Sequence[str]):
    """Names that are looked up one by one: a list of ten million would fill the memory."""

    def __init__(self, n: int, name_of: Name) -> None:
        self._n, self._name_of = n, name_of

    def __len__(self) -> int:
        return self._n

    def __getitem__(self, index):  # type: ignore[no-untyped-def]
        if isinstance(index, slice):
            return [self._name_of(one) for one in range(*index.indices(self._n))]
        return self._name_of(range(self._n)[index])


class ColumnTable(Table):
    """The table of rows that stay in their file; it equals the table of the rows themselves."""

    def __init__(
        self, columns: ScoredColumns, reader: ColumnReader, answers: Answers | None = None
    ) -> None:
        self.answers = answers or Answers()
        self.reader = reader
        self.labels, self.n_not_evaluated = columns.labels, columns.n_not_evaluated
        self.truth, self.prediction = columns.truth, columns.prediction
        self.abstained, self.no_answer = columns.abstained, columns.no_answer
        self.confidence = columns.confidence
        self.n_rows = self.truth.size + columns.n_not_evaluated
        self._shared = {}
        for column in (self.truth, self.prediction, self.abstained, self.no_answer):
            column.setflags(write=False)
        self.confidence.setflags(write=False)

    @property
    def n_scored(self) -> int:
        """Count the rows of which a reply exists."""
        return int(self.truth.size)

    @property
    def rows(self):  # type: ignore[no-untyped-def,override]
        """Refuse what would need a row in memory for every line of the file."""
        raise InvalidValue(
            f"this needs every row in memory, and {self.reader.place} has {self.n_rows:,}; it "
            "works on smaller files and on runs"
        )

    @cached_property
    def says_why_deferred(self) -> bool:  # type: ignore[override]
        """Tell whether any row says why its case is to be deferred."""
        return any(self.reader.metadata_column(key) is not None for key in WHY_DEFERRED)

    def metadata(self, key: str) -> list[object]:
        """Return a metadata value of every row, None where a row lacks it."""
        column = self.reader.metadata_column(key)
        if column is None:
            return [None] * self.n_scored
        return list(map(column.values.__getitem__, column.code.tolist()))

    @property
    def missing_truths(self) -> list[Label]:
        """The right answers of the rows that were not evaluated."""
        return self.reader.missing_labels()

    @cached_property
    def missing_due(self) -> IntArray:
        """The deferral labels of the rows that were not evaluated."""
        values = map(hashable, self.reader.missing_deferral())
        return np.array([DEFERRAL.get(value, NO_LABEL) for value in values], dtype=np.int64)

    @cached_property
    def _deferral(self) -> tuple[IntArray, str]:
        column = self.reader.metadata_column("should_abstain")
        if column is None:
            return np.full(self.n_scored, NO_LABEL, dtype=np.int64), ""
        codes = [DEFERRAL.get(hashable(value), UNREADABLE) for value in column.values]
        found = np.array(codes, dtype=np.int64)[column.code]
        if not (found == UNREADABLE).any():
            return found, ""
        first = int(np.flatnonzero(found == UNREADABLE)[0])
        value = column.values[int(column.code[first])]
        name = self.reader.row_name(first)
        wrong = f"{name}: metadata['should_abstain'] must be true or false, not {value!r}"
        return np.maximum(found, NO_LABEL), wrong

    @cached_property
    def should_abstain(self) -> IntArray:
        """1 where the case asked for deferral, 0 where not, −1 where nobody said or none can."""
        return self._deferral[0]

    @cached_property
    def unreadable_deferral(self) -> str:
        """Say which row has a deferral label that is neither true nor false; empty without any."""
        return self._deferral[1]

    @cached_property
    def patients(self) -> Units:
        """The patient of every row; a row without one is a patient of its own."""
        code = self.reader.clusters()
        return Units(code, int(code.max(initial=-1)) + 1)

    @cached_property
    def patient_names(self) -> Sequence[str]:  # type: ignore[override]
        """The name of every patient, in the order of their codes."""
        return LazyNames(self.patients.n, self.reader.cluster_name)

    @cached_property
    def repeats_cases(self) -> bool:
        """Tell whether a record was asked several times, so that its rows say hardly more."""
        return self.patients.n < self.n_scored and self.reader.repeats_records()

    def _grouped(self, column: str) -> tuple[list[str], IntArray]:
        codes = Codes(lambda value: group_name(column, value), {})
        found = self.reader.metadata_column(self.answers.groups.get(column, column))
        if found is None:
            if self.n_scored:
                codes[None]
            return sorted_groups(codes, np.zeros(self.n_scored, dtype=np.int64))
        place = np.zeros(len(found.values), dtype=np.int64)
        for one in np.flatnonzero(np.bincount(found.code, minlength=place.size)).tolist():
            place[one] = codes[hashable(found.values[one])]
        return sorted_groups(codes, place[found.code])

    def restricted(self, rows: BoolArray) -> ColumnTable:
        """Return the table of some of the scored rows."""
        if rows.all():
            return self
        part = ScoredColumns(
            self.labels,
            self.truth[rows],
            self.prediction[rows],
            self.abstained[rows],
            self.no_answer[rows],
            self.confidence[rows],
            self.n_not_evaluated,
        )
        return ColumnTable(part, _Part(self.reader, np.flatnonzero(rows)), self.answers)


@dataclass(frozen=True, slots=True)
class _Part:
    """The further columns of some of the rows."""

    whole: ColumnReader
    kept: IntArray

    @property
    def place(self) -> str:
        return self.whole.place

    def metadata_column(self, key: str) -> Coded | None:
        column = self.whole.metadata_column(key)
        return column and Coded(column.code[self.kept], column.values)

    def signal_column(self, name: str) -> FloatArray | None:
        values = self.whole.signal_column(name)
        return None if values is None else values[self.kept]

    def signal_names(self) -> list[str]:
        return self.whole.signal_names()

    def clusters(self) -> IntArray:
        return numbered(self.whole.clusters()[self.kept])

    def repeats_records(self) -> bool:
        return self.whole.repeats_records()

    def row_name(self, index: int) -> str:
        return self.whole.row_name(int(self.kept[index]))

    def cluster_name(self, code: int) -> str:
        first = int(np.flatnonzero(self.clusters() == code)[0])
        return self.whole.cluster_name(int(self.whole.clusters()[self.kept[first]]))

    def missing_labels(self) -> list[Label]:
        return self.whole.missing_labels()

    def missing_deferral(self) -> list[object]:
        return self.whole.missing_deferral()

    def missing_clusters(self) -> list[str]:
        return self.whole.missing_clusters()


def numbered(values: NDArray[np.generic]) -> IntArray:
    """Return a code for every value, numbered by first appearance.

    >>> numbered(np.array([7, 3, 7])).tolist()
    [0, 1, 0]
    """
    order = np.argsort(values)
    ranked = values[order]
    starts = np.flatnonzero(np.append(True, ranked[1:] != ranked[:-1])[: values.size])
    del ranked
    first = np.zeros(values.size, dtype=np.bool_)
    found = np.minimum.reduceat(order, starts) if starts.size else starts
    first[found] = True
    rank = np.cumsum(first)[found] - 1
    code = np.empty(values.size, dtype=np.int64)
    code[order] = np.repeat(rank, np.diff(starts, append=values.size))
    return code


def numbered_as_seen(
    labels: Sequence[Label], truth: IntArray, prediction: IntArray
) -> tuple[list[Label], IntArray, IntArray]:
    """Number labels in the order in which the rows show them, a truth before its answer.

    >>> numbered_as_seen(["a", "b", "unseen"], np.array([1, 0]), np.array([-1, 0]))
    (['b', 'a'], array([0, 1]), array([-1,  1]))
    """
    order: dict[int, None] = {}
    for start in range(0, truth.size, _ROWS_PER_BLOCK):
        part = slice(start, start + _ROWS_PER_BLOCK)
        block = np.stack([truth[part], prediction[part]], axis=1).ravel()
        code, first = np.unique(block, return_index=True)
        order |= dict.fromkeys(code[np.argsort(first)].tolist())
        if len(order.keys() - {NO_LABEL}) == len(labels):
            break
    order.pop(NO_LABEL, None)
    place = np.full(len(labels) + 1, NO_LABEL, dtype=np.int64)  # the last one is no label
    place[list(order)] = np.arange(len(order))
    return [labels[code] for code in order], place[truth], place[prediction]

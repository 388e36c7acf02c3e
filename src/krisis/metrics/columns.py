"""Rows by column, wherever they are kept: in memory, in a run file, in a Parquet file.

`Columns` is what a `Table` and the sequence `Rows` are made of. A column is read when something
asks for it, and a row is built only when somebody looks at one. Places count the rows from 0 in the
order in which they are kept.

There is one order of rows, so that the order of a file changes no figure: by patient, then by
record, as text. Repeats of a record follow each other by their number. Rows that share or lack all
of these are ordered by what they hold, so that only rows that are alike can change places. Whatever
is drawn at random (patients, folds, exchanges) is drawn in this order, and sums are added up in it.
"""

# What a method of a source returns is said once, in `Columns`.
# ruff: noqa: D102
from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import count
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from krisis.answers import Label
from krisis.errors import InvalidValue
from krisis.metrics.labels import FloatArray, IntArray
from krisis.outcomes import NO_ANSWER_CLASSES, OUTCOMES

if TYPE_CHECKING:
    from krisis.metrics.base import EvaluationResult

NO_LABEL = -1
ANSWERED, ABSTAINED, NO_ANSWER, NOT_EVALUATED = range(len(OUTCOMES))


@dataclass(frozen=True, slots=True, eq=False)
class Coded:
    """A column by its different values: the code of every row, and what each code stands for."""

    code: IntArray
    values: Sequence[object]

    @classmethod
    def of(cls, cells: Iterable[object]) -> Coded:
        """Code the cells of a column; values of different types are different.

        >>> Coded.of(["a", 1, "a", True]).code.tolist()
        [0, 1, 0, 2]
        """
        coder = Coder()
        coder.add(list(cells))
        return coder.coded()

    @classmethod
    def empty(cls, n: int) -> Coded:
        """Return the column of a key that no row has."""
        return cls(np.zeros(n, dtype=np.int64), [None])

    def taken(self, places: IntArray) -> Coded:
        """Return the column of some rows."""
        return Coded(self.code[places], self.values)

    def cells(self) -> list[object]:
        """Return the value of every row."""
        return list(map(self.values.__getitem__, self.code.tolist()))

    def mapped(self, value_of: Callable[[object], int]) -> IntArray:
        """Return a number for every row, worked out once for every value that occurs."""
        found = np.zeros(len(self.values), dtype=np.int64)
        for one in seen(self.code, len(self.values)):
            found[one] = value_of(self.values[one])
        return found[self.code]


class Coder:
    """Codes a column part by part, so that each different value is held once."""

    def __init__(self) -> None:
        numbers = count()
        # By type, as 1, 1.0 and True are equal and mean different things.
        self._codes: defaultdict[type, defaultdict[object, int]] = defaultdict(
            lambda: defaultdict(numbers.__next__)
        )
        self._values: list[object] = []
        self._parts: list[IntArray] = []

    def add(self, cells: Sequence[object]) -> None:
        """Add the next cells."""
        codes, kinds = self._codes, set(map(type, cells))
        if len(kinds) == 1:
            (kind,) = kinds
            # A list or an object cannot be looked up: its text can.
            keys = map(str, cells) if kind in (list, dict) else cells
            found: Iterable[int] = map(codes[kind].__getitem__, keys)
        else:
            found = (
                codes[kind][str(cell) if kind in (list, dict) else cell]
                for kind, cell in zip(map(type, cells), cells, strict=True)
            )
        part = np.fromiter(found, np.int64, len(cells))
        self._parts.append(part)
        known = len(self._values)
        if part.size and part.max() >= known:
            new, first = np.unique(part, return_index=True)
            self._values += [cells[place] for place in first[new >= known].tolist()]

    def coded(self) -> Coded:
        """Return the whole column."""
        parts = self._parts
        code = parts[0] if len(parts) == 1 else np.concatenate(parts or [_NO_CODES])
        return Coded(code, self._values)


_NO_CODES: IntArray = np.empty(0, dtype=np.int64)


def seen(code: IntArray, n: int) -> list[int]:
    """Return the codes from 0 to n − 1 that occur, in the order in which they first do."""
    first = np.full(n, code.size, dtype=np.int64)
    first[code[::-1]] = np.arange(code.size)[::-1]  # of several places, the first is written last
    order: list[int] = np.argsort(first, kind="stable").tolist()
    return order[: np.count_nonzero(first < code.size)]


class Columns(ABC):
    """The rows of one source by column; ``place`` names the source in messages."""

    place = ""
    n_rows: int

    @abstractmethod
    def rows_at(self, places: Sequence[int]) -> list[EvaluationResult]:
        """Build the rows of some places."""

    @property
    @abstractmethod
    def outcome(self) -> NDArray[np.int8]:
        """The outcome of every row, as its place in `OUTCOMES`."""

    @property
    @abstractmethod
    def truth(self) -> Coded:
        """The right answers as they were given."""

    @property
    @abstractmethod
    def prediction(self) -> Coded:
        """The predictions as they were given, also those of replies that are no answer."""

    @property
    @abstractmethod
    def confidence(self) -> FloatArray:
        """The confidence of every row, NaN where none was stated."""

    @property
    @abstractmethod
    def clusters(self) -> Coded:
        """The patients by name, empty where a row has none."""

    @property
    @abstractmethod
    def records(self) -> Coded:
        """The records by name, empty where a row has none."""

    @abstractmethod
    def metadata(self, key: str) -> Coded:
        """Return the values of a metadata key, None where a row lacks it."""

    @abstractmethod
    def metadata_keys(self) -> list[str]:
        """Return the keys that the metadata of any row has."""

    @abstractmethod
    def signal(self, name: str) -> FloatArray | None:
        """Return a signal as numbers, NaN where it is missing or null.

        None where a row holds something else: then the rows must be looked at.
        """

    @abstractmethod
    def signal_names(self) -> list[str]:
        """Return the names of the signals that any row has."""

    @cached_property
    def rows(self) -> list[EvaluationResult]:
        """All rows, built once."""
        return self.rows_at(range(self.n_rows))

    def row_name(self, place: int) -> str:
        """Name a row in a message."""
        (record,) = self.records.taken(np.array([place])).cells()
        return f"row {place}" + (f" ({record})" if record else "")

    def order(self, places: IntArray) -> IntArray:
        """Return places in the one order of rows."""
        asking = self.metadata("sample_index").mapped(_asking_of)
        names = [_ranks(column) for column in (self.clusters, self.records)]
        keys = [key[places] for key in (*names, asking)]
        found = np.lexsort(keys[::-1])
        alike = np.all([np.diff(key[found]) == 0 for key in keys], axis=0)
        return self.with_ties_broken(places[found], alike)

    def with_ties_broken(self, places: IntArray, alike: NDArray[np.bool_]) -> IntArray:
        """Return ordered places, those that resemble the next one by what their rows hold."""
        if not alike.any():  # only rows that are alike may change places
            return places
        tied = np.append(alike, False) | np.append(False, alike)
        group = np.append(0, np.cumsum(~alike))[tied].tolist()
        listed: list[int] = places[tied].tolist()
        held = map(what_it_holds, self.rows_at(listed))
        keyed = sorted(zip(group, held, listed, strict=True), key=lambda one: one[:2])
        found = places.copy()
        found[tied] = [place for _, _, place in keyed]
        return found

    def patients(self, places: IntArray) -> IntArray:
        """Return the patient of some rows, numbered as they appear.

        A row without one is a patient of its own.
        """
        code = self.clusters.code[places]
        nameless = [at for at, name in enumerate(self.clusters.values) if not name]
        if nameless:
            alone = np.isin(code, nameless)
            code = np.where(alone, len(self.clusters.values) + np.arange(code.size), code)
        return numbered(code)

    @property
    def has_nameless_patients(self) -> bool:
        """Tell whether a row names no patient."""
        return not all(self.clusters.values)

    def patient_names(self, places: IntArray) -> list[str]:
        """Name the patients of some rows."""
        return list(map(str, self.clusters.taken(places).cells()))

    def repeats_records(self, places: IntArray) -> bool:
        """Tell whether a record occurs more than once."""
        named = np.array([bool(name) for name in self.records.values], dtype=np.bool_)
        code = self.records.code[places]
        return bool((np.bincount(code[named[code]]) > 1).any()) if code.size else False

    def failures(self) -> list[tuple[str, int, str]]:
        """Return the classes of rows without an answer, the most frequent first.

        Each with its number and what was said of the first.
        """
        lost = np.flatnonzero(self.outcome >= NO_ANSWER)
        numbers: dict[str, int] = defaultdict(int)
        examples: dict[str, str] = {}
        for row in self.rows_at(lost.tolist()):
            numbers[row.failure_class] += 1
            examples.setdefault(row.failure_class, row.error or "")
        ranked = sorted(numbers, key=lambda name: -numbers[name])
        return [(name, numbers[name], examples[name]) for name in ranked]

    def taken(self, places: IntArray) -> Columns:
        """Return the columns of some rows, in that order."""
        return PickedColumns(self, places)


class RowColumns(Columns):
    """Columns of rows that are in memory."""

    def __init__(self, rows: Sequence[EvaluationResult]) -> None:
        self.rows = rows if isinstance(rows, list) else list(rows)
        self.n_rows = len(self.rows)

    def rows_at(self, places: Sequence[int]) -> list[EvaluationResult]:
        return [self.rows[place] for place in places]

    @cached_property
    def outcome(self) -> NDArray[np.int8]:
        found = (
            (ABSTAINED if row.abstained else ANSWERED)
            if row.error is None
            else (NO_ANSWER if row.failure_class in NO_ANSWER_CLASSES else NOT_EVALUATED)
            for row in self.rows
        )
        return np.fromiter(found, np.int8, self.n_rows)

    @cached_property
    def truth(self) -> Coded:
        return Coded.of([row.ground_truth for row in self.rows])

    @cached_property
    def prediction(self) -> Coded:
        return Coded.of([row.prediction for row in self.rows])

    @property
    def confidence(self) -> FloatArray:
        stated = [row.confidence for row in self.rows]
        found = np.array(stated, dtype=np.float64)  # None becomes NaN
        if np.count_nonzero(np.isnan(found)) > stated.count(None):
            place = next(at for at in np.flatnonzero(np.isnan(found)) if stated[at] is not None)
            raise InvalidValue(
                f"{self.row_name(int(place))}: confidence must be between 0 and 1, not nan"
            )
        return found

    @cached_property
    def clusters(self) -> Coded:
        return Coded.of([row.cluster_id for row in self.rows])

    @cached_property
    def records(self) -> Coded:
        return Coded.of([row.record_id for row in self.rows])

    def metadata(self, key: str) -> Coded:
        return Coded.of([row.metadata.get(key) for row in self.rows])

    def metadata_keys(self) -> list[str]:
        return list({str(key): None for row in self.rows for key in row.metadata})

    def signal(self, name: str) -> FloatArray | None:
        return as_numbers([row.signals.get(name) for row in self.rows])

    def signal_names(self) -> list[str]:
        return sorted({str(name) for row in self.rows for name in row.signals})


class PickedColumns(Columns):
    """Some rows of other columns."""

    def __init__(self, whole: Columns, places: IntArray) -> None:
        self._whole, self._places = whole, np.asarray(places, dtype=np.int64)
        self.place, self.n_rows = whole.place, int(self._places.size)

    def rows_at(self, places: Sequence[int]) -> list[EvaluationResult]:
        return self._whole.rows_at(self._places[list(places)].tolist())

    @property
    def outcome(self) -> NDArray[np.int8]:
        return self._whole.outcome[self._places]

    @property
    def truth(self) -> Coded:
        return self._whole.truth.taken(self._places)

    @property
    def prediction(self) -> Coded:
        return self._whole.prediction.taken(self._places)

    @property
    def confidence(self) -> FloatArray:
        return self._whole.confidence[self._places]

    @property
    def clusters(self) -> Coded:
        return self._whole.clusters.taken(self._places)

    @property
    def records(self) -> Coded:
        return self._whole.records.taken(self._places)

    def metadata(self, key: str) -> Coded:
        return self._whole.metadata(key).taken(self._places)

    def metadata_keys(self) -> list[str]:
        return self._whole.metadata_keys()

    def signal(self, name: str) -> FloatArray | None:
        found = self._whole.signal(name)
        return None if found is None else found[self._places]

    def signal_names(self) -> list[str]:
        return self._whole.signal_names()

    def row_name(self, place: int) -> str:
        return self._whole.row_name(int(self._places[place]))

    def order(self, places: IntArray) -> IntArray:
        # A row may have been picked twice: its copies keep their order.
        found = self._whole.order(np.unique(self._places[places]))
        rank = np.zeros(int(found.max(initial=-1)) + 1, dtype=np.int64)
        rank[found] = np.arange(found.size)
        return places[np.argsort(rank[self._places[places]], kind="stable")]

    def patients(self, places: IntArray) -> IntArray:
        return self._whole.patients(self._places[places])

    def patient_names(self, places: IntArray) -> list[str]:
        return self._whole.patient_names(self._places[places])

    def repeats_records(self, places: IntArray) -> bool:
        return self._whole.repeats_records(self._places[places])


def _asking_of(number: object) -> int:
    """Return which asking of its record a row is, from 0 on, by what its metadata say."""
    return number if isinstance(number, int) and abs(number) < 2**62 else 0


def what_it_holds(row: EvaluationResult) -> tuple[object, ...]:
    """Return what rows that share patient, record and asking are ordered by."""
    answer = "" if row.prediction is None else str(row.prediction)
    confidence = -1.0 if row.confidence is None else row.confidence
    held = (
        json.dumps(one, sort_keys=True, default=str) if one else "{}"
        for one in (row.metadata, row.signals)
    )
    return str(row.ground_truth), answer, row.abstained, confidence, *held


def in_patient_order(rows: Sequence[EvaluationResult]) -> list[EvaluationResult]:
    """Return rows in the one order of rows."""
    columns = getattr(rows, "columns", None) or RowColumns(rows)
    return columns.rows_at(columns.order(np.arange(columns.n_rows)).tolist())


def _ranks(column: Coded) -> IntArray:
    """Return the rank of every row's name among the names, as text."""
    names = column.values
    order = sorted(range(len(names)), key=names.__getitem__)  # type: ignore[arg-type]
    rank = np.empty(len(names), dtype=np.int64)
    rank[order] = np.arange(len(names))
    return rank[column.code]


def as_numbers(cells: Sequence[object]) -> FloatArray | None:
    """Return numbers, NaN for None; nothing where a cell is neither, or is NaN itself.

    >>> as_numbers([1, None, 0.5]).tolist(), as_numbers([[1]])
    ([1.0, nan, 0.5], None)
    """
    if not set(map(type, cells)) <= {int, float, type(None)}:
        return None
    try:
        found = np.array(cells, dtype=np.float64)
    except OverflowError:  # JSON holds whole numbers of any length
        return None
    n_missing = np.count_nonzero(np.isnan(found))
    return found if n_missing == sum(cell is None for cell in cells) else None


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
    both = np.stack([truth, prediction], axis=1).ravel()
    order = seen(both[both != NO_LABEL], len(labels))
    place = np.full(len(labels) + 1, NO_LABEL, dtype=np.int64)  # the last one is no label
    place[order] = np.arange(len(order))
    return [labels[code] for code in order], place[truth], place[prediction]

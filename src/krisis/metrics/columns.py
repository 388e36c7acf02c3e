"""Evaluation results as NumPy columns: converted once, shared by every metric of a scoring."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from functools import cached_property
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from krisis.errors import InvalidValue

if TYPE_CHECKING:
    from krisis.metrics.base import EvaluationResult

IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]
FloatArray = NDArray[np.float64]

T = TypeVar("T")

NO_LABEL = -1
# The grouping that reports use by default reads the metadata key of the seeds.
_METADATA_KEYS = {"stage": "ckd_stage"}
_DEFERRAL = {True: 1, False: 0, None: NO_LABEL}  # 1 and 0 are equal to True and False


def canonical_label(value: object) -> int | str:
    """Return the form under which two labels are the same answer.

    Whole numbers equal their texts; texts are equal whatever their case and surrounding space.

    >>> canonical_label(" 1 "), canonical_label(True), canonical_label(" Stable")
    (1, 1, 'stable')
    """
    if isinstance(value, str):
        text = value.strip()
        try:
            return int(text)
        except ValueError:
            return text.casefold()
    if isinstance(value, float) and not value.is_integer():
        raise InvalidValue(f"{value!r} is not a label; use a whole number or a text")
    if isinstance(value, int | float | np.integer | np.floating | np.bool_):
        return int(value)
    raise InvalidValue(f"{value!r} is not a label; use a whole number or a text")


class LabelCodes(dict[Any, int]):
    """Label to code, filled as labels appear; every spelling of a label shares one code."""

    def __init__(self) -> None:
        super().__init__({None: NO_LABEL})
        self.labels: list[int | str] = []
        self._known: dict[int | str, int] = {}

    def __missing__(self, value: object) -> int:
        label = canonical_label(value)
        code = self._known.get(label)
        if code is None:
            code = self._known[label] = len(self.labels)
            self.labels.append(label)
        self[value] = code
        return code


class Columns:
    """The rows that can be scored, one array per field; failed rows are only counted.

    ``prediction`` and ``truth`` are codes into ``labels`` (−1 for no prediction); ``confidence``
    is NaN where none was stated.
    """

    def __init__(self, rows: Sequence[EvaluationResult]) -> None:
        self.n_rows = len(rows)
        self.n_failed = self.n_rows - [row.error for row in rows].count(None)
        self._given = rows
        self._rows = rows if not self.n_failed else [row for row in rows if row.error is None]
        self.n_scored = len(self._rows)
        codes = LabelCodes()
        self.truth = self._encoded("ground_truth", codes)
        self.prediction = self._encoded("prediction", codes)
        self.labels = codes.labels
        self.abstained: BoolArray = np.fromiter(
            map(attrgetter("abstained"), self._rows), np.bool_, self.n_scored
        )
        self.confidence = self._checked_confidence()
        self._groups: dict[str, tuple[list[str], IntArray]] = {}
        self._shared: dict[object, Any] = {}

    @classmethod
    def from_rows(cls, rows: Sequence[EvaluationResult]) -> Columns:
        """Convert rows, refusing labels and confidences that cannot be scored."""
        return cls(rows)

    def _encoded(self, field: str, codes: LabelCodes) -> IntArray:
        values = list(map(attrgetter(field), self._rows))
        try:
            encoded = np.fromiter(map(codes.__getitem__, values), np.int64, self.n_scored)
        except (TypeError, InvalidValue):
            row = next(row for row in self._rows if not _is_label(getattr(row, field)))
            raise InvalidValue(
                f"{self._place(row)}: {field} {getattr(row, field)!r} is not a label; "
                "use a whole number or a text"
            ) from None
        if field == "ground_truth" and encoded.size and encoded.min() < 0:
            row = self._rows[int(np.argmin(encoded))]
            raise InvalidValue(f"{self._place(row)}: ground_truth is None; give the right answer")
        return encoded

    def _place(self, row: EvaluationResult) -> str:
        index = next(i for i, given in enumerate(self._given) if given is row)
        return f"row {index}" + (f" ({row.record_id})" if row.record_id else "")

    def _checked_confidence(self) -> FloatArray:
        stated = list(map(attrgetter("confidence"), self._rows))
        n_missing = stated.count(None)
        if n_missing:
            confidence = np.array(stated, dtype=np.float64)  # None becomes NaN
        else:
            confidence = np.fromiter(stated, np.float64, self.n_scored)
        n_inside = np.count_nonzero((confidence >= 0) & (confidence <= 1))
        if n_inside + n_missing != self.n_scored:
            row = next(
                row
                for row in self._rows
                if row.confidence is not None and not 0 <= row.confidence <= 1
            )
            raise InvalidValue(
                f"{self._place(row)}: confidence must lie between 0 and 1, not {row.confidence!r}"
            )
        return confidence

    @cached_property
    def answered(self) -> BoolArray:
        """True where the model did not abstain."""
        return ~self.abstained

    @cached_property
    def correct(self) -> BoolArray:
        """True where the model answered, and rightly."""
        right: BoolArray = self.answered & (self.prediction == self.truth)
        return right

    @cached_property
    def usable(self) -> BoolArray:
        """True where calibration can be judged: answered, with a prediction and a confidence."""
        stated: BoolArray = (self.prediction != NO_LABEL) & ~np.isnan(self.confidence)
        return self.answered & stated

    @property
    def n_abstained(self) -> int:
        """Count the rows on which the model abstained."""
        return int(np.count_nonzero(self.abstained))

    @cached_property
    def should_abstain(self) -> IntArray:
        """1 where the case asked for deferral, 0 where not, −1 where nobody said."""
        values = [row.metadata.get("should_abstain") for row in self._rows]
        try:
            return np.fromiter(map(_DEFERRAL.__getitem__, values), np.int64, self.n_scored)
        except (KeyError, TypeError):
            row, value = next(
                (row, value)
                for row, value in zip(self._rows, values, strict=True)
                if not isinstance(value, Hashable) or value not in _DEFERRAL
            )
            raise InvalidValue(
                f"{self._place(row)}: metadata['should_abstain'] must be true or false, "
                f"not {value!r}"
            ) from None

    @cached_property
    def cluster(self) -> IntArray:
        """The patient of each row as a code; a row without one is a patient of its own."""
        names: dict[object, int] = {}
        keys = (row.cluster_id or index for index, row in enumerate(self._rows))
        return np.fromiter((names.setdefault(key, len(names)) for key in keys), np.int64)

    def shared(self, key: object, build: Callable[[], T]) -> T:
        """Return what several metrics need of these columns, built by the first that asks."""
        if key not in self._shared:
            self._shared[key] = build()
        built: T = self._shared[key]
        return built

    def grouped(self, column: str) -> tuple[list[str], IntArray]:
        """Return the names of the groups of a metadata column and the group of every row."""
        if column not in self._groups:
            key = _METADATA_KEYS.get(column, column)
            values = [row.metadata.get(key) for row in self._rows]
            codes = _GroupCodes(column)
            try:
                found = np.fromiter(map(codes.__getitem__, values), np.int64, self.n_scored)
            except TypeError:  # a value that cannot be hashed is grouped by its text
                found = np.array([codes[_hashable(value)] for value in values], dtype=np.int64)
            order = sorted(codes.names)
            position = np.array([order.index(name) for name in codes.names], dtype=np.int64)
            self._groups[column] = (order, position[found])
        return self._groups[column]

    def group_means(self, column: str, numerator: BoolArray, kept: BoolArray) -> dict[str, float]:
        """Return, for every group with a kept row, the share of kept rows in the numerator."""
        names, codes = self.grouped(column)
        # Counting (group, flag) pairs is faster than selecting the flagged rows first.
        pairs = 2 * codes
        total = np.bincount(pairs + kept, minlength=2 * len(names))[1::2]
        hits = np.bincount(pairs + (kept & numerator), minlength=2 * len(names))[1::2]
        return {name: float(hits[i] / total[i]) for i, name in enumerate(names) if total[i]}


def _is_label(value: object) -> bool:
    try:
        return value is None or canonical_label(value) is not None
    except InvalidValue:
        return False


def _hashable(value: object) -> object:
    return value if isinstance(value, Hashable) else str(value)


class _GroupCodes(dict[Any, int]):
    """Metadata value to group, filled as values appear."""

    def __init__(self, column: str) -> None:
        super().__init__()
        self._column = column
        self.names: list[str] = []

    def __missing__(self, value: object) -> int:
        name = _group_name(self._column, value)
        if name not in self.names:
            self.names.append(name)
        self[value] = code = self.names.index(name)
        return code


def _group_name(column: str, value: object) -> str:
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return f"unknown_{column}"
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return f"{column}_{str(value).strip()}"

"""The one columnar table that every metric, interval, comparison and curve is computed from."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from itertools import count, repeat
from operator import contains
from typing import TYPE_CHECKING, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from krisis.errors import InvalidValue, UnknownName
from krisis.json_values import JsonMapping
from krisis.metrics.labels import (
    LOSSES,
    Answers,
    Codes,
    FloatArray,
    IntArray,
    Label,
    Loss,
    canonical_label,
    group_name,
    hashable,
    is_label,
    sorted_groups,
)
from krisis.metrics.row_order import patient_order

if TYPE_CHECKING:
    from krisis.metrics.base import EvaluationResult

BoolArray = NDArray[np.bool_]

__all__ = [
    "LOSSES",
    "Answers",
    "BoolArray",
    "FloatArray",
    "IntArray",
    "Label",
    "Loss",
    "Table",
    "Units",
    "canonical_label",
]

T = TypeVar("T")

NO_LABEL = -1
# What the metadata may say about why a case is to be deferred.
WHY_DEFERRED = ("deferral_kind", "abstain_reasons", "label_depends_on_prior")
UNREADABLE = -2
DEFERRAL: dict[object, int] = {
    True: 1,
    False: 0,
    None: NO_LABEL,
}  # 1 and 0 are equal to True and False
# A block of rows stays in the processor's cache while its fields are read one after the other.
_ROWS_PER_BLOCK = 8192
# Beyond this many patients they are pooled at random, which keeps the variance and bounds the cost.
MOST_UNITS = 1000
_POOLING_SEED = 0


@dataclass(frozen=True, slots=True, eq=False)
class Units:
    """What is resampled, left out or exchanged as a whole: the unit of every row."""

    code: IntArray
    n: int

    def sums(self, rows: BoolArray | FloatArray) -> FloatArray:
        """Add up one number per row within every unit."""
        if self.n == 1:
            return np.array([rows.sum()], dtype=np.float64)
        added = np.bincount(self.code, weights=rows, minlength=self.n)
        return added.astype(np.float64, copy=False)


def _fixed(column: BoolArray) -> BoolArray:
    column.setflags(write=False)
    return column


class _Kinds(dict[tuple[object, ...], int]):
    """The different combinations of truth, answer, outcome, deferral label and group.

    They are few, so that looking up one combination a row is faster than reading six fields.
    """

    def __init__(self, group: str, answers: Answers) -> None:
        super().__init__()
        self.labels = Codes(answers.key, {None: NO_LABEL})
        self.groups = Codes(lambda value: group_name(group, value), {})
        self.codes: list[tuple[int, int, bool, bool, int, int]] = []

    def __missing__(self, fields: tuple[object, ...]) -> int:
        truth, prediction, abstained, has_error, due, member = fields
        # A reply that is no answer is neither an answer nor an abstention, whatever it says.
        no_label = has_error or _is_fraction(prediction)
        labels = self.labels[truth], NO_LABEL if no_label else self.labels[prediction]
        metadata = DEFERRAL.get(due, UNREADABLE), self.groups[member]
        self[fields] = kind = len(self)
        self.codes.append((*labels, bool(abstained and not has_error), bool(has_error), *metadata))
        return kind


def _is_fraction(prediction: object) -> bool:
    """Tell whether a prediction is a number such as 1.5, which is a wrong answer, not a label."""
    return isinstance(prediction, float | np.floating) and not is_label(prediction)


def _say_why_deferred(metadata: Sequence[JsonMapping]) -> bool:
    return any(any(map(contains, metadata, repeat(name))) for name in WHY_DEFERRED)


class Table:
    """The rows of which a reply exists, one array per field; the others are kept aside.

    ``prediction`` and ``truth`` are codes into ``labels`` (−1 for no prediction); ``confidence``
    is NaN where none was stated. Every row is one of ``answered``, ``abstained`` and
    ``no_answer``. ``rows`` are these rows themselves, for what is needed rarely: metadata, signals
    and names. Of the rows that were not evaluated the table knows their number and what their
    cases are, so that figures can be bounded. The order is that of `row_order`, whatever the order
    in which rows are handed in; ``as_given`` keeps the latter, for rows that have been put in
    order.
    """

    labels: list[Label]
    truth: IntArray
    prediction: IntArray
    abstained: BoolArray
    no_answer: BoolArray
    confidence: FloatArray
    says_why_deferred: bool
    positions: IntArray

    def __init__(
        self,
        rows: Sequence[EvaluationResult],
        answers: Answers | None = None,
        *,
        as_given: bool = False,
    ) -> None:
        self.answers = answers or Answers()
        self.n_rows = len(rows)
        self._given = rows
        self._shared: dict[object, object] = {}
        listed = list(rows)
        scored = [
            place
            for place, row in enumerate(listed)
            if row.error is None or row.outcome != "not_evaluated"
        ]
        self.n_not_evaluated = self.n_rows - len(scored)
        self.missing_rows: Sequence[EvaluationResult] = (
            [row for row in listed if row.outcome == "not_evaluated"]
            if self.n_not_evaluated
            else ()
        )
        if not as_given:
            scored = [scored[at] for at in patient_order([listed[place] for place in scored])]
        self.positions = np.array(scored, dtype=np.int64)  # of the rows among those handed in
        self.rows: Sequence[EvaluationResult] = [listed[place] for place in scored]
        self._read()

    def __repr__(self) -> str:
        missing = f", {self.n_not_evaluated:,} not evaluated" if self.n_not_evaluated else ""
        return f"{type(self).__name__}({self.n_rows:,} rows{missing}, {len(self.labels)} answers)"

    @property
    def n_scored(self) -> int:
        """Count the rows of which a reply exists."""
        return len(self.rows)

    def _read(self) -> None:
        """Read the columns in one pass over the rows."""
        try:
            try:
                self._read_fields(with_metadata=True)
            except TypeError:  # metadata that cannot be looked up is read where it is needed
                self._read_fields(with_metadata=False)
        except (TypeError, ValueError):
            self._refuse_labels()
            raise
        if self.n_scored and self.truth.min() < 0:
            self._refuse_labels()
        columns = (self.truth, self.prediction, self.abstained, self.no_answer, self.confidence)
        for column in columns:
            column.setflags(write=False)  # one metric must not change what another sees

    def _read_fields(self, *, with_metadata: bool) -> None:
        group, key = next(iter(self.answers.groups.items()), ("", ""))
        kinds, n, n_without = _Kinds(group, self.answers), self.n_scored, 0
        kind, self.confidence = np.empty(n, np.int64), np.empty(n, np.float64)
        due, says = "should_abstain", False
        for start in range(0, n, _ROWS_PER_BLOCK):
            block = self.rows[start : start + _ROWS_PER_BLOCK]
            part = slice(start, start + len(block))
            if with_metadata:
                found = [
                    kinds[
                        r.ground_truth,
                        r.prediction,
                        r.abstained,
                        r.error is not None,
                        (m := r.metadata).get(due),
                        m.get(key),
                    ]
                    for r in block
                ]
            else:
                found = [
                    kinds[
                        r.ground_truth, r.prediction, r.abstained, r.error is not None, None, None
                    ]
                    for r in block
                ]
            # While the rows are at hand: what none of them says need not be read row by row.
            says = says or _say_why_deferred([r.metadata for r in block])
            kind[part] = np.fromiter(found, np.int64, len(block))
            stated = [r.confidence for r in block]
            n_without += stated.count(None)
            self.confidence[part] = np.array(stated, dtype=np.float64)  # None becomes NaN
        codes = np.array(kinds.codes, dtype=np.int64).reshape(-1, 6)
        columns = (column[kind] for column in np.ascontiguousarray(codes.T))
        self.truth, self.prediction, abstained, no_answer, deferral, member = columns
        self.says_why_deferred = says
        self.abstained = abstained.astype(np.bool_)
        self.no_answer = no_answer.astype(np.bool_)
        self.labels = kinds.labels.names
        self._check_confidence(n_without)
        if with_metadata and not (codes[:, 4] == UNREADABLE).any():
            self.__dict__ |= {"should_abstain": deferral, "unreadable_deferral": ""}
        if with_metadata and key:
            self.shared(("group", group), lambda: sorted_groups(kinds.groups, member))

    def _refuse_labels(self) -> None:
        for row in self.rows:
            for name in ("ground_truth", "prediction"):
                value = getattr(row, name)
                if value is None and name == "ground_truth":
                    raise InvalidValue(
                        f"{self._row_name(row)}: ground_truth is None; give the right answer"
                    )
                if name == "prediction" and row.error is not None:
                    continue
                if value is not None and not is_label(value):
                    raise InvalidValue(
                        f"{self._row_name(row)}: {name} {value!r} is not a label; "
                        "use a whole number or a text"
                    )

    def _check_confidence(self, n_without: int) -> None:
        n_inside = np.count_nonzero((self.confidence >= 0) & (self.confidence <= 1))
        if n_inside + n_without != self.n_scored:
            row = next(
                row
                for row in self.rows
                if row.confidence is not None and not 0 <= row.confidence <= 1
            )
            raise InvalidValue(
                f"{self._row_name(row)}: confidence must lie between 0 and 1, "
                f"not {row.confidence!r}"
            )

    def _row_name(self, row: EvaluationResult) -> str:
        index = next(i for i, given in enumerate(self._given) if given is row)
        return f"row {index}" + (f" ({row.record_id})" if row.record_id else "")

    @cached_property
    def answered(self) -> BoolArray:
        """True where the model gave an answer, right or wrong."""
        return _fixed(~(self.abstained | self.no_answer))

    @cached_property
    def everyone(self) -> BoolArray:
        """True for every row of which a reply exists: answered, abstained and no answer."""
        return _fixed(np.ones(self.n_scored, dtype=np.bool_))

    @cached_property
    def correct(self) -> BoolArray:
        """True where the model answered, and rightly."""
        return _fixed(self.answered & (self.prediction == self.truth))

    @cached_property
    def usable(self) -> BoolArray:
        """True where calibration can be judged: answered, with a prediction and a confidence."""
        stated = (self.prediction != NO_LABEL) & ~np.isnan(self.confidence)
        return _fixed(self.answered & stated)

    @property
    def missing_truths(self) -> list[Label]:
        """The right answers of the rows that were not evaluated, as far as they have one."""
        truths = (row.ground_truth for row in self.missing_rows)
        return [self.answers.key(truth) for truth in truths if is_label(truth)]

    @cached_property
    def missing_due(self) -> IntArray:
        """The deferral labels of the rows that were not evaluated, as `should_abstain` has them."""
        values = (hashable(row.metadata.get("should_abstain")) for row in self.missing_rows)
        return np.array([DEFERRAL.get(value, NO_LABEL) for value in values], dtype=np.int64)

    @cached_property
    def n_no_answer(self) -> int:
        """Count the rows whose reply is no answer."""
        return int(np.count_nonzero(self.no_answer))

    @cached_property
    def n_answered(self) -> int:
        """Count the rows with an answer."""
        return int(np.count_nonzero(self.answered))

    @cached_property
    def n_abstained(self) -> int:
        """Count the rows on which the model abstained."""
        return int(np.count_nonzero(self.abstained))

    def metadata(self, key: str) -> list[object]:
        """Return a metadata value of every row, None where a row lacks it."""
        return [row.metadata.get(key) for row in self.rows]

    @cached_property
    def should_abstain(self) -> IntArray:
        """1 where the case asked for deferral, 0 where not, −1 where nobody said or none can."""
        values = map(hashable, self.metadata("should_abstain"))
        found = [DEFERRAL.get(value, UNREADABLE) for value in values]
        return np.maximum(np.array(found, dtype=np.int64), NO_LABEL)

    @cached_property
    def unreadable_deferral(self) -> str:
        """Say which row has a deferral label that is neither true nor false; empty without any."""
        for row in self.rows:
            value = row.metadata.get("should_abstain")
            if DEFERRAL.get(hashable(value), UNREADABLE) == UNREADABLE:
                name = self._row_name(row)
                return f"{name}: metadata['should_abstain'] must be true or false, not {value!r}"
        return ""

    @cached_property
    def patients(self) -> Units:
        """The patient of every row; a row without one is a patient of its own."""
        names: defaultdict[object, int] = defaultdict(count().__next__)
        keys = [row.cluster_id or index for index, row in enumerate(self.rows)]
        code = np.fromiter(map(names.__getitem__, keys), np.int64, len(keys))
        return Units(code, len(names))

    @cached_property
    def patient_names(self) -> list[str]:
        """The name of every patient, in the order of their codes."""
        names = [""] * self.patients.n
        for code, row in zip(self.patients.code.tolist(), self.rows, strict=True):
            names[code] = row.cluster_id
        return names

    @cached_property
    def pools(self) -> Units:
        """The units that are resampled: the patients, or random pools of very many patients."""
        patients = self.patients
        if patients.n <= MOST_UNITS:
            return patients
        pool = np.random.default_rng(_POOLING_SEED).permutation(patients.n) % MOST_UNITS
        return Units(pool[patients.code], MOST_UNITS)

    @cached_property
    def repeats_cases(self) -> bool:
        """Tell whether a record was asked several times, so that its rows say hardly more than one.

        One row per patient needs no look at the names.
        """
        if self.patients.n == self.n_scored:
            return False
        names = [row.record_id for row in self.rows if row.record_id]
        return len(set(names)) < len(names)

    def shared(self, key: object, build: Callable[[], T]) -> T:
        """Return what several metrics need of this table, built by the first that asks."""
        if key not in self._shared:
            self._shared[key] = build()
        return self._shared[key]  # type: ignore[return-value]

    def grouped(self, column: str) -> tuple[list[str], IntArray]:
        """Return the names of the groups of a metadata column and the group of every row."""
        return self.shared(("group", column), lambda: self._grouped(column))

    def _grouped(self, column: str) -> tuple[list[str], IntArray]:
        values = self.metadata(self.answers.groups.get(column, column))
        codes = Codes(lambda value: group_name(column, value), {})
        try:
            found = np.fromiter(map(codes.__getitem__, values), np.int64, self.n_scored)
        except TypeError:  # a value that cannot be hashed is grouped by its text
            found = np.array([codes[hashable(value)] for value in values], dtype=np.int64)
        return sorted_groups(codes, found)

    def losses(self, loss: Loss) -> FloatArray:
        """Return the loss of every row, NaN where the model abstained or the labels have no order.

        ``error`` is 0 or 1, ``abs`` the distance between answer and truth, ``abs_norm`` that
        distance over the largest possible one. An answer without a prediction is an error, and
        has no distance.
        """
        if loss not in LOSSES:
            raise UnknownName.among("loss", loss, LOSSES)
        return self.shared(("losses", loss), lambda: self._losses(loss))

    def _losses(self, loss: Loss) -> FloatArray:
        if loss == "error":
            return np.where(self.answered, (~self.correct).astype(np.float64), math.nan)
        place = np.append(self.answers.positions(self.labels), math.nan)  # −1 is the last
        distance = np.abs(place[self.prediction] - place[self.truth])
        distance = np.where(self.answered, distance, math.nan)
        scale = self.answers.span(self.labels) if loss == "abs_norm" else 1.0
        return distance / scale

    def with_confidence(self, values: ArrayLike) -> Table:
        """Return the table with another confidence of every row, higher being surer."""
        changed = copy(self)
        changed._shared = {}
        changed.confidence = np.asarray(values, dtype=np.float64)
        changed.__dict__.pop("usable", None)
        return changed

    def with_answers(self, answers: Answers) -> Self:
        """Return the table with another knowledge of its task."""
        changed = copy(self)
        changed._shared, changed.answers = {}, answers
        return changed

    def restricted(self, rows: BoolArray) -> Table:
        """Return the table of some of the scored rows."""
        kept = [row for row, keep in zip(self.rows, rows.tolist(), strict=True) if keep]
        part = Table(kept, self.answers, as_given=True)
        part.confidence = self.confidence[rows]
        part.n_not_evaluated, part.missing_rows = self.n_not_evaluated, self.missing_rows
        return part

"""The one columnar table that every metric, interval, comparison and curve is computed from."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Self, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from krisis.answers import Label, canonical_label, is_label
from krisis.errors import InvalidValue, UnknownName
from krisis.metrics.columns import (
    ABSTAINED,
    NO_ANSWER,
    NO_LABEL,
    NOT_EVALUATED,
    Coded,
    Columns,
    RowColumns,
    numbered_as_seen,
    seen,
)
from krisis.metrics.labels import Answers, FloatArray, IntArray, group_name, hashable
from krisis.task_facts import LOSSES, OWN_PROBABILITIES, Loss

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

# What the metadata may say about why a case is to be deferred.
WHY_DEFERRED = ("deferral_kind", "abstain_reasons", "label_depends_on_prior")
UNREADABLE = -2
DEFERRAL: dict[object, int] = {
    True: 1,
    False: 0,
    None: NO_LABEL,
}  # 1 and 0 are equal to True and False
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


def _is_fraction(prediction: object) -> bool:
    """Tell whether a prediction is a number such as 1.5, which is a wrong answer, not a label."""
    return isinstance(prediction, float | np.floating) and not is_label(prediction)


def _is_given(prediction: object) -> int:
    """Return 1 where something was predicted, if only a number such as 1.5."""
    if isinstance(prediction, float | np.floating):
        return int(not math.isnan(prediction))
    return int(prediction is not None)


class Table:
    """The rows of which a reply exists, one array per field; the others are kept aside.

    ``prediction`` and ``truth`` are codes into ``labels`` (−1 for no prediction); ``confidence``
    is NaN where none was stated. Every row is one of ``answered``, ``abstained`` and
    ``no_answer``. ``columns`` is where the rows are kept and ``positions`` their places there; the
    ``rows`` themselves are built when somebody looks at one. Of the rows that were not evaluated
    the table knows their number and what their cases are, so that figures can be bounded. The order
    is that of `columns`, whatever the order in which rows are handed in; ``as_given`` keeps the
    latter, for rows that have been put in order.
    """

    labels: list[Label]
    truth: IntArray
    prediction: IntArray
    abstained: BoolArray
    no_answer: BoolArray
    confidence: FloatArray
    positions: IntArray
    is_rescored = False  # another confidence has replaced the one of the rows

    def __init__(
        self,
        rows: Sequence[EvaluationResult] | Columns,
        answers: Answers | None = None,
        *,
        as_given: bool = False,
    ) -> None:
        self.answers = answers or Answers()
        self.columns = rows if isinstance(rows, Columns) else RowColumns(rows)
        self.n_rows = self.columns.n_rows
        missing = self.columns.outcome == NOT_EVALUATED
        scored = np.flatnonzero(~missing)
        self._missing = np.flatnonzero(missing)
        self._read(scored if as_given else self.columns.order(scored))

    def _read(self, positions: IntArray) -> None:
        """Read the columns that every metric needs."""
        self._shared: dict[object, object] = {}
        self.positions, columns = positions, self.columns
        outcome = columns.outcome[positions]
        self.abstained, self.no_answer = outcome == ABSTAINED, outcome == NO_ANSWER
        codes: dict[Label, int] = {}
        truth = self._coded_labels("ground_truth", positions, codes)
        # What a reply that is no answer says instead is no label.
        prediction = np.full(positions.size, NO_LABEL, dtype=np.int64)
        replied = np.flatnonzero(~self.no_answer)
        prediction[replied] = self._coded_labels("prediction", positions[replied], codes)
        self.labels, self.truth, self.prediction = numbered_as_seen([*codes], truth, prediction)
        self.confidence = columns.confidence[positions]
        self._check_confidence()
        for column in (
            *(self.truth, self.prediction, self.abstained, self.no_answer),
            self.confidence,
        ):
            column.setflags(write=False)  # one metric must not change what another sees

    def _coded_labels(self, name: str, positions: IntArray, codes: dict[Label, int]) -> IntArray:
        """Return the code of the label of every row; labels of one key share a code."""
        given = self.columns.truth if name == "ground_truth" else self.columns.prediction
        column = given.taken(positions)

        def code_of(value: object) -> int:
            if name == "prediction" and (value is None or _is_fraction(value)):
                return NO_LABEL
            if value is None or not is_label(value):
                where = next(at for at, cell in enumerate(column.cells()) if cell is value)
                row = self.columns.row_name(int(positions[where]))
                if value is None:
                    raise InvalidValue(f"{row}: {name} is None; give the right answer")
                raise InvalidValue(
                    f"{row}: {name} {value!r} is not a label; use a whole number or a text"
                )
            return codes.setdefault(self.answers.key(value), len(codes))

        return column.mapped(code_of)

    def _check_confidence(self) -> None:
        outside = ~((self.confidence >= 0) & (self.confidence <= 1)) & ~np.isnan(self.confidence)
        if outside.any():
            first = int(np.flatnonzero(outside)[0])
            raise InvalidValue(
                f"{self.columns.row_name(int(self.positions[first]))}: confidence must be "
                f"between 0 and 1, not {float(self.confidence[first])!r}"
            )

    def __repr__(self) -> str:
        missing = f", {self.n_not_evaluated:,} not evaluated" if self.n_not_evaluated else ""
        return f"{type(self).__name__}({self.n_rows:,} rows{missing}, {len(self.labels)} answers)"

    @cached_property
    def rows(self) -> list[EvaluationResult]:
        """The scored rows themselves, for what no column says."""
        return self.columns.rows_at(self.positions.tolist())

    def row(self, index: int) -> EvaluationResult:
        """Return one scored row."""
        return self.columns.rows_at([int(self.positions[index])])[0]

    @property
    def n_scored(self) -> int:
        """Count the rows of which a reply exists."""
        return int(self.positions.size)

    @property
    def n_not_evaluated(self) -> int:
        """Count the rows of which no reply exists."""
        return int(self._missing.size)

    @cached_property
    def says_why_deferred(self) -> bool:
        """Tell whether any row says why its case is to be deferred."""
        return not set(WHY_DEFERRED).isdisjoint(self.columns.metadata_keys())

    @cached_property
    def record_ids(self) -> list[str]:
        """The record of every row."""
        return list(map(str, self.columns.records.taken(self.positions).cells()))

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
        return _fixed(self.predicted & ~np.isnan(self.confidence))

    @cached_property
    def predicted(self) -> BoolArray:
        """True where the model answered something, if only a number such as 1.5."""
        given = self.columns.prediction.taken(self.positions).mapped(_is_given)
        return _fixed(self.answered & (given == 1))

    @property
    def missing_truths(self) -> list[Label]:
        """The right answers of the rows that were not evaluated, as far as they have one."""
        truths = self.columns.truth.taken(self._missing).cells()
        return [self.answers.key(truth) for truth in truths if is_label(truth)]

    @cached_property
    def missing_due(self) -> IntArray:
        """The deferral labels of the rows that were not evaluated, as `should_abstain` has them."""
        column = self.columns.metadata("should_abstain").taken(self._missing)
        return column.mapped(lambda value: DEFERRAL.get(hashable(value), NO_LABEL))

    @cached_property
    def missing_patients(self) -> list[str]:
        """The patients of whom no row was evaluated."""
        missing = set(self.columns.patient_names(self._missing))
        return sorted(missing.difference(self.patient_names)) if missing else []

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
        return self.metadata_column(key).cells()

    def metadata_column(self, key: str) -> Coded:
        """Return a metadata value of every row by its different values."""
        return self.columns.metadata(key).taken(self.positions)

    @cached_property
    def _deferral(self) -> tuple[IntArray, Coded]:
        column = self.metadata_column("should_abstain")
        return column.mapped(lambda value: DEFERRAL.get(hashable(value), UNREADABLE)), column

    @cached_property
    def should_abstain(self) -> IntArray:
        """1 where the case asked for deferral, 0 where not, −1 where nobody said or none can."""
        return np.maximum(self._deferral[0], NO_LABEL)

    @cached_property
    def unreadable_deferral(self) -> str:
        """Say which row has a deferral label that is neither true nor false; empty without any."""
        found, column = self._deferral
        if not (found == UNREADABLE).any():
            return ""
        first = int(np.flatnonzero(found == UNREADABLE)[0])
        name = self.columns.row_name(int(self.positions[first]))
        value = column.values[int(column.code[first])]
        return f"{name}: metadata['should_abstain'] must be true or false, not {value!r}"

    @cached_property
    def patients(self) -> Units:
        """The patient of every row; a row without one is a patient of its own."""
        code = self.columns.patients(self.positions)
        return Units(code, int(code.max(initial=-1)) + 1)

    @cached_property
    def patient_names(self) -> list[str]:
        """The name of every patient, in the order of their codes."""
        _, first = np.unique(self.patients.code, return_index=True)
        return self.columns.patient_names(self.positions[first])

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
        return self.patients.n < self.n_scored and self.columns.repeats_records(self.positions)

    def shared(self, key: object, build: Callable[[], T]) -> T:
        """Return what several metrics need of this table, built by the first that asks."""
        if key not in self._shared:
            self._shared[key] = build()
        return self._shared[key]  # type: ignore[return-value]

    def grouped(self, column: str) -> tuple[list[str], IntArray]:
        """Return the names of the groups of a metadata column and the group of every row."""
        return self.shared(("group", column), lambda: self._grouped(column))

    def _grouped(self, column: str) -> tuple[list[str], IntArray]:
        found = self.metadata_column(self.answers.groups.get(column, column))
        present = (found.values[code] for code in seen(found.code, len(found.values)))
        names = sorted({group_name(column, value) for value in present})
        place = {name: at for at, name in enumerate(names)}
        return names, found.mapped(lambda value: place[group_name(column, value)])

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
        changed.is_rescored = True
        changed.__dict__.pop("usable", None)
        return changed

    @property
    def forecasts(self) -> Table:
        """The table with the likeliest answer wherever a reader by probabilities deferred.

        Such a reader was only asked for probabilities, and those of the cases that it defers are
        judged as well. A table with another confidence has no probabilities but that one.
        """
        is_judged = not self.is_rescored and OWN_PROBABILITIES in self.columns.signal_names()
        return self.shared("forecasts", self._with_forecasts) if is_judged else self

    def _with_forecasts(self) -> Table:
        changed = copy(self)
        for name in ("answered", "correct", "usable", "n_answered", "n_abstained"):
            changed.__dict__.pop(name, None)
        code = {label: at for at, label in enumerate(self.labels)}
        prediction, confidence = self.prediction.copy(), self.confidence.copy()
        for at in np.flatnonzero(self.abstained).tolist():
            chances = self.rows[at].signals.get(OWN_PROBABILITIES)
            if isinstance(chances, Mapping) and chances:
                likeliest = max(chances, key=chances.__getitem__)
                prediction[at] = code.setdefault(self.answers.key(likeliest), len(code))
                confidence[at] = chances[likeliest]
        filled = self.abstained & (prediction != NO_LABEL)
        changed._shared, changed.labels = {}, list(code)
        changed.prediction, changed.confidence = prediction, confidence
        changed.abstained = _fixed(self.abstained & ~filled)
        changed.predicted = _fixed(self.predicted | filled)
        return changed

    def with_answers(self, answers: Answers) -> Self:
        """Return the table with another knowledge of its task."""
        changed = copy(self)
        changed._shared, changed.answers = {}, answers
        return changed

    def restricted(self, rows: BoolArray) -> Table:
        """Return the table of some of the scored rows; those not evaluated stay counted."""
        part = Table.__new__(Table)
        part.answers, part.columns, part.n_rows = self.answers, self.columns, self.n_rows
        part._missing = self._missing
        part._read(self.positions[rows])
        part.confidence, part.is_rescored = self.confidence[rows], self.is_rescored
        return part

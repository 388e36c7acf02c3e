"""What the verdict judges, by column, and what a judgement holds: the rules are in `judging`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from krisis.errors import InvalidValue
from krisis.statistics.intervals import Interval

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

Word = Literal["yes", "partly", "no", "cannot tell"]
LabelKind = Literal["label", "checklist"]
# Why a word is what it is; each has its sentence.
Reason = Literal[
    "",
    "running",
    "nothing evaluated",
    "too few patients",
    "too many not evaluated",
    "not evaluated",
    "not shown",
    "no better",
    "no rival",
    "rival not beaten",
    "abstention was not offered",
    "no label",
    "checklist",
    "no due case",
    "no safe case",
    "all due cases are ties",
    "too few due cases",
    "too few safe cases",
    "too few patients with due cases",
    "too few patients with safe cases",
    "deferred nothing",
    "deferred all",
    "no answer",
    "too few answers",
    "rival better",
    "only better than constant",
    "no confidence",
    "too few confidences",
    "too risky",
    "nothing certified",
    "a constant does as well",
    "no positive answer",
    "none diseased",
]

ALWAYS_DEFER = "defer"
SAME_COST = 1e-9
"""Costs that differ by less are equal: in floats 1 − 0.8 is less than 0.2."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Rival:
    """What a baseline did with the same rows; NaN costs and no answer where it lacks a row.

    ``cost`` is that of what it did, ``answer_cost`` that of its answers.
    """

    name: str
    cost: FloatArray
    answer_cost: FloatArray

    def only(self, rows: BoolArray) -> Rival:
        """Return some of the rows."""
        return Rival(name=self.name, cost=self.cost[rows], answer_cost=self.answer_cost[rows])


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class JudgedRows:
    """One reply per row. With repeats every reply is a row, and its patient ties them together.

    Costs are those of the task's table: the costliest error 1, deferring ``price``. Where the
    probabilities of the truth are known all costs are expected ones, else those that came about.
    What a reader did is unknown where ``evaluated`` is False; what the case is stays known.

    patients
        A number per row, equal for rows of one patient.
    cost
        What was done: ``answer_cost`` if answered, else the price.
    answer_cost
        The answer that was given; NaN where none was.
    constants
        Cost per row of each constant policy: `ALWAYS_DEFER` and every answer, by name.
    lowest
        b, the lowest expected cost of any answer; None where the probabilities are not known.
    ideal
        The ideal reader's cost: min(b, price) without a printed policy; None as ``lowest``.
    no_answer
        Neither answered nor abstained: counts as deferred, and is named apart.
    label
        1 if the case is due to be deferred, 0 if safe, −1 if unknown; None without labels. As a
        "label" it decides *Knew when not to answer?*, as a "checklist" it is only counted.
    distance
        From the answer to the truth, for tasks with ordered answers; else None.
    diseased, told_positive
        Whether the truth is the positive answer, and whether the given answer is; None without one.
    offered_abstention
        Whether the reader could abstain at all.
    """

    price: float
    patients: IntArray
    cost: FloatArray
    answer_cost: FloatArray
    constants: Mapping[str, FloatArray]
    answered: BoolArray
    correct: BoolArray
    evaluated: BoolArray
    no_answer: BoolArray
    confidence: FloatArray
    lowest: FloatArray | None = None
    ideal: FloatArray | None = None
    label: IntArray | None = None
    label_kind: LabelKind = "label"
    distance: FloatArray | None = None
    diseased: BoolArray | None = None
    told_positive: BoolArray | None = None
    rivals: Sequence[Rival] = ()
    offered_abstention: bool = True

    def __post_init__(self) -> None:
        if not 0 < self.price < 1:
            raise InvalidValue(f"the price of deferring must be between 0 and 1, not {self.price}")
        for one in fields(self):
            value = getattr(self, one.name)
            if isinstance(value, np.ndarray) and value.shape != self.patients.shape:
                raise InvalidValue(f"{one.name} has {value.size} rows, not {self.n_rows}")

    @property
    def n_rows(self) -> int:
        """How many rows there are, evaluated or not."""
        return int(self.patients.size)

    @property
    def n_patients(self) -> int:
        """How many patients have rows here."""
        return int(np.unique(self.patients).size)

    @property
    def is_few_patients_with_several_rows(self) -> bool:
        """Whether words can be wrong in up to 8 % of such runs instead of 5: fewer than 30."""
        return self.n_patients < min(30, self.n_rows)

    @property
    def deferred(self) -> BoolArray:
        """Rows that were evaluated and not answered."""
        return self.evaluated & ~self.answered

    @property
    def best_constant(self) -> str:
        """The cheapest constant policy."""
        return min(self.constants, key=lambda name: float(self.constants[name].mean()))

    @property
    def answers(self) -> Mapping[str, FloatArray]:
        """The cost per row of every constant answer."""
        return {name: cost for name, cost in self.constants.items() if name != ALWAYS_DEFER}

    def only(self, rows: BoolArray) -> JudgedRows:
        """Return some of the rows."""
        changed: dict[str, Any] = {
            one.name: value[rows]
            for one in fields(self)
            if isinstance(value := getattr(self, one.name), np.ndarray)
        }
        constants = {name: cost[rows] for name, cost in self.constants.items()}
        rivals = [rival.only(rows) for rival in self.rivals]
        return replace(self, **changed, constants=constants, rivals=rivals)


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """A value, its interval, and the limit it is judged by; both may be absent."""

    name: str
    value: float
    interval: Interval | None = None
    limit: float | None = None

    def judged_by(self, limit: float) -> Figure:
        """Return the figure with the limit that decided."""
        return replace(self, limit=limit)

    @property
    def low(self) -> float:
        """The lower limit, or the value."""
        return self.interval.low if self.interval is not None else self.value

    @property
    def high(self) -> float:
        """The upper limit, or the value."""
        return self.interval.high if self.interval is not None else self.value


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """One line of the verdict: its word, and all that a sentence about it needs.

    ``word`` is None where a line has none. ``reason`` is a code that says why the word is what it
    is, ``comparator`` the policy, rival or signal that decided, ``counts`` are rows, ``beside``
    further figures, and ``patients_to_tell`` about how many patients like these would give a word.
    """

    word: Word | None
    figure: Figure | None = None
    reason: Reason = ""
    comparator: str = ""
    counts: Mapping[str, int] = field(default_factory=dict)
    beside: Sequence[Figure] = ()
    patients_to_tell: int | None = None
    provisional: bool = False

    def without_word(self, reason: Reason) -> Judgement:
        """Return the figures without a word, for this reason."""
        return replace(self, word=None, reason=reason, patients_to_tell=None)

    def so_far(self) -> Judgement:
        """Return the figures of a run that still goes on: it gets no word."""
        return replace(self.without_word("running"), provisional=True)


def patients_to_tell(n_patients: int, half_width: float, distance: float) -> int | None:
    """Return n (h/d)², so many patients that half a width h is down to a distance d.

    Rounded up to two digits; None where there is no distance to tell, or a million would not do.

    >>> patients_to_tell(60, 0.1, 0.05), patients_to_tell(60, 0.1, 0.0)
    (240, None)
    """
    if distance <= 0:
        return None
    needed = max(n_patients + 1.0, n_patients * (half_width / distance) ** 2)
    if needed > 1e6:
        return None
    unit: int = 10 ** max(0, math.floor(math.log10(needed)) - 1)
    return math.ceil(round(needed / unit, 9)) * unit

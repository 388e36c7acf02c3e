"""What every stage knows of a task: answers, features in words, loss, costs, total."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from krisis.answers import AnswerSet, Label
from krisis.costs import ASSUMED, Costs
from krisis.errors import InvalidValue

Loss = Literal["error", "abs", "abs_norm"]
LOSSES: tuple[Loss, ...] = ("error", "abs", "abs_norm")
# What makes a case due for deferral: the costs, where the probabilities of its answers are known,
# and else the label of the data; the label everywhere; flags that are counted and judge nothing; or
# the printed policy, which the ideal reader obeys, too.
DueBy = Literal["costs", "label", "checklist", "policy"]
# The signal in which a reader by probabilities keeps them, also of the cases that it defers.
OWN_PROBABILITIES = "own_probabilities"
# Every answer is compared with every other one: a file of 1 MB could ask for terabytes. Of groups
# and metrics a task has no more either.
MOST_ANSWERS = 1000


def _as_floats(holder: object, *names: str) -> None:
    """Write numbers as a file gives them back, also inside of tuples and mappings."""
    for name in names:
        object.__setattr__(holder, name, _as_float(getattr(holder, name)))


def _as_float(value: object) -> object:
    if isinstance(value, Mapping):
        return {key: _as_float(one) for key, one in value.items()}
    if isinstance(value, tuple | list):
        return tuple(map(_as_float, value))
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


@dataclass(frozen=True, slots=True)
class SecondUnit:
    """Another unit that a feature is also reported in: number · ``factor`` + ``offset``.

    ``meaning`` is the meaning of the feature in this unit; where it is not given, every number in
    the meaning is converted.
    """

    unit: str
    factor: float
    offset: float = 0.0
    meaning: str = ""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.factor) and self.factor and math.isfinite(self.offset)):
            raise InvalidValue(
                f"the factor to the unit {self.unit!r} must be a number other than 0 and its "
                f"offset a number, not {self.factor!r} and {self.offset!r}"
            )
        _as_floats(self, "factor", "offset")


@dataclass(frozen=True, slots=True)
class FeatureDescription:
    """A feature in the words of a prompt: its name, unit, meaning and coded values.

    ``text`` marks free text, which is quoted line by line; ``second_unit`` is shown in place of
    the unit by ``--perturb unit``; ``decimals`` is how many digits after the point a number
    shows at least, since 1.0 is measured more finely than 1; ``usual`` is the usual range in words
    such as "70 to 99", for people who read a case: no prompt shows it.
    """

    words: str
    unit: str = ""
    meaning: str = ""
    values: Mapping[Label, str] = field(default_factory=dict)
    text: bool = False
    second_unit: SecondUnit | None = None
    decimals: int | None = None
    usual: str = ""

    def __post_init__(self) -> None:
        if self.second_unit is not None and (self.values or self.text or not self.unit):
            raise InvalidValue(
                f"the feature {self.words!r} has a second unit, {self.second_unit.unit!r}, which "
                "only a number in a unit can have; leave it out or state the unit"
            )
        if self.decimals is not None and (self.values or self.text or not 0 <= self.decimals <= 10):
            raise InvalidValue(
                f"the feature {self.words!r} has decimals={self.decimals!r}; give 0 to 10, and "
                "only where it is a number"
            )


@dataclass(frozen=True, slots=True)
class TotalScale:
    """How the scores of one patient's items add up to a total.

    A total needs all but ``max_missing`` of the ``n_items``; ``bands`` are the totals at which the
    second and every further band of severity begins; from ``cut_off`` on, screening is positive.
    """

    n_items: int
    max_missing: int
    cut_off: float
    bands: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        _as_floats(self, "cut_off", "bands")


@dataclass(frozen=True, slots=True)
class TaskFacts:
    """What scoring and reports know of a task; ``answers`` are pairs of answer and words.

    ``groups`` maps the groups that results are broken down by to their metadata keys; ``metrics``
    are scored beside the usual ones, the first being the headline; ``total`` says how the items of
    a patient add up; ``person`` and ``unit`` are the words for one cluster and one record;
    ``costs`` are what wrong answers and deferrals cost; ``due_by`` says what makes a case due for
    deferral; ``told`` is the price that the prompt stated, None where nobody was told one;
    ``features`` are the findings that the task describes.
    """

    name: str
    answers: tuple[tuple[Label, str], ...] = ()
    ordered: bool = False
    positive: Label | None = None
    short_names: tuple[tuple[Label, str], ...] = ()
    groups: Mapping[str, str] = field(default_factory=dict)
    default_loss: Loss = "error"
    default_confidence: str = "stated"
    person: str = "patient"
    unit: str = "record"
    metrics: tuple[str, ...] = ()
    total: TotalScale | None = None
    costs: Costs = ASSUMED
    due_by: DueBy = "costs"
    told: float | None = None
    features: Mapping[str, FeatureDescription] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("answers", "groups", "metrics"):
            n = len(getattr(self, name))
            if n > MOST_ANSWERS:
                raise InvalidValue(f"a task has at most {MOST_ANSWERS:,} {name}, not {n:,}")
        object.__setattr__(self, "costs", self.costs.over(self.answer_set))

    @property
    def answer_set(self) -> AnswerSet:
        """The allowed answers and what they are called."""
        answers = dict(self.answers)
        return AnswerSet(
            tuple(answers), self.ordered, self.positive, answers, dict(self.short_names)
        )

    def words(self, answer: object, *, whole: bool = False) -> str:
        """Name an answer: by its short name, or by its whole meaning."""
        return self.answer_set.meaning(answer) if whole else self.answer_set.name(answer)

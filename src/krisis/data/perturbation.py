"""A case asked in another form that means the same: which forms there are, and for whom."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import date
from decimal import ROUND_CEILING, ROUND_FLOOR, Decimal
from enum import StrEnum
from typing import TypeVar

from krisis.answers import Label
from krisis.data.task import Features, Task
from krisis.errors import InvalidValue, UnknownName
from krisis.task_facts import FeatureDescription, SecondUnit

NONE = "none"
Named = TypeVar("Named", str, Label)
_NUMBER = re.compile(r"\d+(?:,\d{3})*(?:\.\d+)?")
# A converted value that reads back to the shown digits may still lie this far from it.
_CLOSE = Decimal("0.001")


class Perturbation(StrEnum):
    """What is changed in the prompt; nothing that is said of the patient is."""

    FEATURE_ORDER = "feature-order"
    ANSWER_ORDER = "answer-order"
    UNIT = "unit"
    MISSING_WORD = "missing-word"
    PARAPHRASE = "paraphrase"


# What a suite must have for a perturbation to change a prompt of it.
_NEEDS = {
    Perturbation.FEATURE_ORDER: "no record shows two findings",
    Perturbation.ANSWER_ORDER: "its task states fewer than two answers",
    Perturbation.UNIT: "no record holds a number whose feature has a second unit",
    Perturbation.MISSING_WORD: "no record lacks a value",
    Perturbation.PARAPHRASE: "its task has no question in words",
}


def changes_prompt(kind: Perturbation, task: Task, features: Features) -> bool:
    """Say whether the prompt of a case becomes another one."""
    if kind is Perturbation.FEATURE_ORDER:
        return len(features) > 1
    if kind is Perturbation.ANSWER_ORDER:
        return len(task.answers) > 1
    if kind is Perturbation.UNIT:
        return any(
            (described := task.features.get(name)) is not None
            and described.second_unit is not None
            and in_second_unit(value, described.second_unit) is not None
            for name, value in features.items()
        )
    if kind is Perturbation.MISSING_WORD:
        return any(is_missing(value) for value in features.values())
    return task.can_be_asked


def check_changes_a_prompt(
    kind: Perturbation, task: Task, cases: Iterable[Features], suite: str
) -> None:
    """Refuse a perturbation that changes no prompt of a run."""
    if not any(changes_prompt(kind, task, features) for features in cases):
        raise InvalidValue(
            f"the perturbation {kind.value!r} changes no prompt of the suite {suite!r}: "
            f"{_NEEDS[kind]}; leave it out"
        )


def reordered(names: Sequence[Named], seed: int) -> list[Named]:
    """Return names in another order: one for each seed, and never the order given.

    >>> reordered(["age", "sex", "creatinine"], 0)
    ['creatinine', 'age', 'sex']
    """

    def drawn(name: Named) -> bytes:
        return hashlib.sha256(f"{seed}\0{name}".encode(errors="surrogatepass")).digest()

    order = sorted(names, key=drawn)
    return order[::-1] if order == list(names) else order


@dataclass(frozen=True, slots=True)
class Perturbed:
    """A perturbation as a run makes it: orders are drawn from the seed, one for all its records."""

    kind: Perturbation
    seed: int

    @classmethod
    def parsed(cls, name: str, seed: int) -> Perturbed | None:
        """Return the perturbation of this name; nothing for ``none``, which asks as usual."""
        if name == NONE:
            return None
        if name not in list(Perturbation):
            known = [NONE, *(kind.value for kind in Perturbation)]
            raise UnknownName.among("perturbation", name, known)
        return cls(Perturbation(name), seed)

    def task(self, task: Task) -> Task:
        """Return the task in other words or another order; its answers stay what they are."""
        if self.kind is Perturbation.ANSWER_ORDER:
            order = reordered(list(task.answers), self.seed)
            return replace(task, answers={answer: task.answers[answer] for answer in order})
        if self.kind is Perturbation.UNIT:
            features = {name: with_second_unit(one) for name, one in task.features.items()}
            return replace(task, features=features)
        if self.kind is Perturbation.PARAPHRASE and task.paraphrase:
            return replace(task, question=task.paraphrase)
        return task


def with_second_unit(one: FeatureDescription) -> FeatureDescription:
    """Return a description in its second unit, ranges included, where it has one."""
    second = one.second_unit
    if second is None:
        return one
    meaning = second.meaning or _NUMBER.sub(lambda found: _range_end(found[0], second), one.meaning)
    return replace(
        one,
        unit=second.unit,
        meaning=f"{meaning}, in {second.unit}" if meaning else "",
        second_unit=None,
        decimals=None,
    )


def _range_end(text: str, second: SecondUnit) -> str:
    return str(in_second_unit(text.replace(",", ""), second))


def in_second_unit(value: object, second: SecondUnit) -> object:
    """Return a number, or a list of numbers, in the second unit; None of anything else.

    A number has the fewest decimals with which it converts back to what was shown, at the
    precision at which it was shown, to within 0.1 % and never to less, so that a value at a limit
    still reaches it. The conversion is made in decimals.

    >>> creatinine = SecondUnit("µmol/L", 88.4)
    >>> in_second_unit(2.4, creatinine), in_second_unit("0.95", creatinine)
    ('212.2', '84')
    >>> in_second_unit(120, SecondUnit("mmol/L", 0.05551)), in_second_unit("high", creatinine)
    ('6.662', None)
    """
    tolist = getattr(value, "tolist", None)  # NumPy arrays and scalars
    value = tolist() if callable(tolist) else value
    if isinstance(value, list | tuple):
        converted = [None if is_missing(one) else in_second_unit(one, second) for one in value]
        fine = all(
            is_missing(one) or new is not None for one, new in zip(value, converted, strict=True)
        )
        return converted if fine and any(new is not None for new in converted) else None
    number = _decimal(value)
    if number is None:
        return None
    factor, offset = Decimal(str(second.factor)), Decimal(str(second.offset))
    exact = number * factor + offset
    n_shown = max(0, -int(number.as_tuple().exponent))
    upwards = ROUND_CEILING if factor > 0 else ROUND_FLOOR
    for n_decimals in range(40):
        shown = exact.quantize(Decimal(1).scaleb(-n_decimals), upwards)
        back = (shown - offset) / factor
        if round(back, n_shown) == number and abs(back - number) <= _CLOSE * abs(number):
            return f"{shown:f}"
    return None


def _decimal(value: object) -> Decimal | None:
    """Return a number as it is written in a prompt; None of what is not one."""
    if isinstance(value, bool) or not isinstance(value, int | float | str) or is_missing(value):
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    try:
        number = Decimal(str(value).strip())
    except ArithmeticError:
        return None
    # Beyond this many digits decimals would be rounded.
    return number if number.is_finite() and len(number.as_tuple().digits) <= 17 else None


def is_missing(value: object) -> bool:
    """Say whether a value stands for: not measured."""
    if value is None or (isinstance(value, str) and value.strip() in ("", "NaT")):
        return True
    # Not a number and not a time are the values that differ from themselves.
    return isinstance(value, float | date) and bool(value != value)  # noqa: PLR0124

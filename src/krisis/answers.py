"""The allowed answers of a question: which values mean which answer, their order, their names.

Labels, predictions of every backend, imported answers and costs are all read by `AnswerSet`;
nothing else compares labels, asks whether there are two, or tests for 0 and 1.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from krisis.errors import InvalidValue

Label = int | str
LONGEST_NAME = 48  # of an answer, in letters: a definition is no name
LONGEST_VALUE = 200  # of a value that is no answer, in letters, as a row keeps it
# Numbers in which tables write whole numbers once a column has gaps.
_WHOLE_NUMBER = re.compile(r"[+-]?\d{1,15}\.0+", re.ASCII)


def canonical_label(value: object) -> Label:
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
    number = _as_float(value)
    if number is not None and number.is_integer():
        return int(value)  # type: ignore[call-overload,no-any-return]
    raise InvalidValue(f"{value!r} is not a label; use a whole number or a text")


def _as_float(value: object) -> float | None:
    """Return a number of Python or NumPy as a float; None for anything else."""
    if isinstance(value, int | float):
        return float(value)
    # A scalar of NumPy says so itself: NumPy is not imported to find out.
    if type(value).__module__ == "numpy" and getattr(value, "shape", None) == ():
        try:
            return float(value)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            return None
    return None


def is_label(value: object) -> bool:
    """Tell whether a value can be an answer."""
    try:
        canonical_label(value)
    except (InvalidValue, OverflowError):
        return False
    return True


@lru_cache(maxsize=256)
def _reading(allowed: tuple[Label, ...]) -> tuple[bool, Mapping[Label, Label]]:
    """Return whether case and type are ignored, and the answer of every key."""
    loose = {canonical_label(answer): answer for answer in allowed}
    if len(loose) == len(allowed):
        return True, loose
    return False, {str(answer).strip(): answer for answer in allowed}


@dataclass(frozen=True, slots=True)
class AnswerSet:
    """The allowed answers, their order, which of them is positive, and what they are called.

    ``allowed`` is empty where no task is known: then every label is its own answer. ``meanings``
    are the long names and ``short_names`` the short ones. Case, surrounding space and type do not
    matter (1, 1.0, True and "1" are one answer) unless two allowed answers would become one.

    >>> outcome = AnswerSet(("dead", "alive"), positive="dead")
    >>> outcome.match(" Dead "), outcome.match("present"), outcome.two()
    ('dead', None, ('dead', 'alive'))
    """

    allowed: tuple[Label, ...] = ()
    ordered: bool = False
    positive: Label | None = None
    meanings: Mapping[Label, str] = field(default_factory=dict)
    short_names: Mapping[Label, str] = field(default_factory=dict)

    def match(self, value: object) -> Label | None:
        """Return the allowed answer that a value means; None where it means none of them."""
        is_loose, answers = _reading(tuple(self.allowed))
        for form in _forms(value):
            key = canonical_label(form) if is_loose else str(form).strip()
            if key in answers:
                return answers[key]
        return None

    def allows(self, value: object) -> bool:
        """Tell whether a value is an allowed answer; any label is where no task is known."""
        return self.match(value) is not None if self.allowed else is_label(value)

    def key(self, value: object) -> Label:
        """Return the form under which a value equals every other way to write the same answer."""
        is_loose, _ = _reading(tuple(self.allowed))
        answer = self.match(value)
        if answer is None:
            return canonical_label(value)
        return canonical_label(answer) if is_loose else str(answer).strip()

    def same(self, one: object, other: object) -> bool:
        """Tell whether two values are the same answer; None is no answer at all."""
        if one is None or other is None or not (is_label(one) and is_label(other)):
            return False
        return self.key(one) == self.key(other)

    @property
    def keys(self) -> tuple[Label, ...]:
        """The keys of the allowed answers, in their order."""
        return tuple(map(self.key, self.allowed))

    def two(self, seen: Iterable[Label] = ()) -> tuple[Label, Label] | None:
        """Return the keys of the two answers of a binary task; None where there are not two.

        Where no task is known, 0 and 1 are the two, if no other label was ``seen``.
        """
        if not self.allowed:
            return (0, 1) if all(label in (0, 1) for label in seen) else None
        first, *others = self.keys
        return (first, others[0]) if len(others) == 1 else None

    def positive_key(self, seen: Iterable[Label] = ()) -> Label | None:
        """Return the key of the positive answer: the one named, else 1 of 0 and 1.

        Words have no positive answer until one is named.
        """
        if self.positive is not None:
            return self.key(self.positive)
        two = self.two(seen)
        return 1 if two is not None and set(two) == {0, 1} else None

    def name(self, answer: object) -> str:
        """Return the short name of an answer: its meaning where that is short, else the value."""
        found = self.match(answer)
        if found is None:
            return str(answer)
        meaning = self.meanings.get(found, "")
        return self.short_names.get(found) or (
            meaning if meaning and len(meaning) <= LONGEST_NAME else str(found)
        )

    def meaning(self, answer: object) -> str:
        """Return the long name of an answer, else the value."""
        found = self.match(answer)
        return str(answer) if found is None else self.meanings.get(found) or self.name(found)

    def listed(self) -> str:
        """Return the allowed answers as a message lists them."""
        return ", ".join(map(repr, self.allowed))


def _forms(value: object) -> Sequence[object]:
    """Return the values that a value may be read as, the nearest first."""
    if not is_label(value):
        return ()
    if isinstance(value, str) and _WHOLE_NUMBER.fullmatch(value.strip()):
        return (value, int(float(value)))
    if type(value).__name__ in ("bool", "bool_"):
        return (value, str(value))
    return (value,)


def kept_value(value: object) -> Label | None:
    """Return a value that is no answer as a row keeps it: a short label, None for none.

    >>> kept_value(1.5), kept_value(None), kept_value("present")
    ('1.5', None, 'present')
    """
    if value is None or type(value) is int:
        return value
    text = value.strip() if isinstance(value, str) else str(value)
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 1]}…"

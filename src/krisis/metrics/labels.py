"""Labels: when two are the same answer, what a task says of them, and their codes."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from krisis.errors import InvalidValue

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
Label = int | str
Loss = Literal["error", "abs", "abs_norm"]
LOSSES: tuple[Loss, ...] = ("error", "abs", "abs_norm")
# Without a task, rows are broken down by the metadata key that the seeds fix.
_DEFAULT_GROUPS = {"stage": "ckd_stage"}


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


@dataclass(frozen=True, slots=True)
class Answers:
    """What scoring must know of a task: its answers, their order, its groups and its loss.

    ``allowed`` is empty where no task is known. ``groups`` maps the name of a breakdown to the
    metadata key that it reads; ``total`` is None where items of a patient do not add up.
    """

    allowed: tuple[Label, ...] = ()
    ordered: bool = False
    positive: Label | None = None
    default_loss: Loss = "error"
    groups: Mapping[str, str] = field(default_factory=lambda: dict(_DEFAULT_GROUPS))
    total: TotalScale | None = None

    @property
    def binary(self) -> bool | None:
        """Tell whether the answers are 0 and 1; None where no task is known."""
        if not self.allowed:
            return None
        return {canonical_label(answer) for answer in self.allowed} == {0, 1}

    def positions(self, labels: Sequence[Label]) -> FloatArray:
        """Return where each label lies on the scale: its number, else its place among the answers.

        NaN where a label has no place on a scale.
        """
        known = [canonical_label(answer) for answer in self.allowed]
        if all(isinstance(label, int) for label in (*known, *labels)):
            return np.array(labels, dtype=np.float64)
        if not self.ordered:
            return np.full(len(labels), math.nan)
        place = {label: float(index) for index, label in enumerate(known)}
        return np.array([place.get(label, math.nan) for label in labels], dtype=np.float64)

    def span(self, seen: Sequence[Label]) -> float:
        """Return the largest distance between two answers, of those seen without a task."""
        known = [canonical_label(answer) for answer in self.allowed]
        place = self.positions(known or seen)
        place = place[~np.isnan(place)]
        return float(np.ptp(place)) or 1.0 if place.size else 1.0


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
    if isinstance(value, int | float | np.number | np.bool_) and float(value).is_integer():
        return int(value)
    raise InvalidValue(f"{value!r} is not a label; use a whole number or a text")


class Codes(dict[object, int]):
    """Value to code, filled as values appear; values of one name share a code."""

    def __init__(self, name_of: Callable[[object], Label], known: Mapping[object, int]) -> None:
        super().__init__(known)
        self.names: list[Label] = []
        self._name_of = name_of
        self._codes: dict[Label, int] = {}

    def __missing__(self, value: object) -> int:
        name = self._name_of(value)
        code = self._codes.setdefault(name, len(self.names))
        if code == len(self.names):
            self.names.append(name)
        self[value] = code
        return code


def sorted_groups(codes: Codes, found: IntArray) -> tuple[list[str], IntArray]:
    """Return the names of groups in order, and the group of every row."""
    order = sorted(map(str, codes.names))
    position = np.array([order.index(str(name)) for name in codes.names], dtype=np.int64)
    return order, position[found]


def is_label(value: object) -> bool:
    """Tell whether a value can be an answer."""
    try:
        canonical_label(value)
    except InvalidValue:
        return False
    return True


def hashable(value: object) -> object:
    """Return a value, or its text where it cannot be a key."""
    return value if isinstance(value, Hashable) else str(value)


def group_name(column: str, value: object) -> str:
    """Name the group of a metadata value."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return f"unknown_{column}"
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return f"{column}_{str(value).strip()}"

"""`Execution`: how a run is carried out beyond its batches, as objects that are passed in."""

from __future__ import annotations

from dataclasses import dataclass

from krisis.errors import InvalidValue


@dataclass(frozen=True, slots=True)
class Execution:
    """Everything about a run that is neither its suite, its backend nor its metrics.

    ``repeats`` asks every record that many times.
    """

    repeats: int = 1

    def __post_init__(self) -> None:
        checked_at_least_one("repeats", self.repeats)


def checked_at_least_one(name: str, value: object) -> int:
    """Return a count, or refuse what is not a whole number of 1 or more."""
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InvalidValue(f"{name} must be a whole number of 1 or more, not {value!r}")
    return value

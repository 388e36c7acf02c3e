"""`Limits`: the bounds of a run, as the user states them."""

from __future__ import annotations

from dataclasses import dataclass, fields

from krisis.errors import InvalidValue


@dataclass(frozen=True, slots=True)
class Limits:
    """What a run may do per minute, per call and altogether; ``None`` means unbounded.

    ``adaptive`` lets the number of simultaneous calls move below ``max_concurrency``.
    ``max_failures`` is a share of the records below 1, a number of them from 1 on.
    """

    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    timeout_seconds: float | None = 300.0
    max_cost: float | None = None
    max_tokens: int | None = None
    max_failures: float | None = None
    adaptive: bool = True

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in ("adaptive", "max_failures") or value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
                raise InvalidValue(f"{field.name} must be a number above 0, not {value!r}")
        if self.max_failures is not None and not self.max_failures >= 0:
            raise InvalidValue(f"max_failures must be 0 or more, not {self.max_failures!r}")

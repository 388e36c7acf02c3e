"""Requests and tokens per minute: buckets that refill steadily, and pauses for everybody."""

from __future__ import annotations

import time
from collections.abc import Callable

from krisis.errors import InvalidValue

Clock = Callable[[], float]
BURST_SECONDS = 1.0


class Bucket:
    """Lets an amount per minute pass, at an even pace.

    Whoever takes more than there is goes into debt and learns how long to wait, so that callers go
    in the order in which they came. The bucket holds one second's worth: in no minute does more
    pass than one minute and one second allow.
    """

    def __init__(self, per_minute: float, *, clock: Clock = time.monotonic) -> None:
        if not per_minute > 0:
            raise InvalidValue(f"a rate per minute must be more than 0, not {per_minute!r}")
        self._per_second = per_minute / 60.0
        self._capacity = max(1.0, self._per_second * BURST_SECONDS)
        self._clock = clock
        self._level = self._capacity
        self._filled_at = clock()

    def take(self, amount: float) -> float:
        """Take an amount and return the seconds to wait before using it."""
        self._refill()
        self._level -= amount
        return max(0.0, -self._level / self._per_second)

    def correct(self, amount: float) -> None:
        """Charge what was used beyond the estimate; negative gives back."""
        self._level = min(self._capacity, self._level - amount)

    def lower_to(self, remaining: float) -> None:
        """Believe a provider who says that less is left than we think."""
        self._refill()
        self._level = min(self._level, remaining)

    def _refill(self) -> None:
        now = self._clock()
        self._level = min(self._capacity, self._level + (now - self._filled_at) * self._per_second)
        self._filled_at = now


class Pause:
    """A time before which nothing is sent, because the provider said so."""

    def __init__(self, *, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._until = clock()

    def extend(self, seconds: float) -> None:
        """Send nothing for that long from now."""
        self._until = max(self._until, self._clock() + seconds)

    def remaining_seconds(self) -> float:
        """Return how long the pause still lasts."""
        return max(0.0, self._until - self._clock())

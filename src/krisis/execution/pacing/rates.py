"""Requests and tokens per minute: amounts taken when they are used, and pauses for everybody."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable

from krisis.errors import InvalidValue

Clock = Callable[[], float]
BURST_SECONDS = 1.0
# Requests do not take equally long on their way: what left within more than a minute must not
# arrive within one.
WINDOW_SECONDS = 61.0


class Bucket:
    """Lets an amount per minute pass, at an even pace.

    It holds one second's worth, at least 1. Whoever takes more than it holds waits until it is full
    and leaves a debt behind, so that large amounts keep to the rate as well.
    """

    def __init__(self, per_minute: float, *, clock: Clock = time.monotonic) -> None:
        if not per_minute > 0:
            raise InvalidValue(f"a rate per minute must be more than 0, not {per_minute!r}")
        self._per_second = per_minute / 60.0
        self._capacity = max(1.0, self._per_second * BURST_SECONDS)
        self._clock = clock
        self._level = self._capacity
        self._filled_at = clock()

    def wait_seconds(self, amount: float = 1.0) -> float:
        """Return how long it takes until an amount may be taken, 0 for now."""
        self._refill()
        missing = min(amount, self._capacity) - self._level
        # Sums of small steps fall short of a whole by a rounding error, never by more.
        return missing / self._per_second if missing > 1e-9 else 0.0

    def take(self, amount: float = 1.0) -> None:
        """Take an amount now."""
        self._refill()
        self._level -= amount

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


class Requests(Bucket):
    """Lets requests pass at an even pace, and in no minute more than the limit.

    A bucket alone lets its burst pass on top of a minute's worth; so the times of the last requests
    are kept as well.
    """

    def __init__(self, per_minute: float, *, clock: Clock = time.monotonic) -> None:
        super().__init__(per_minute, clock=clock)
        whole = max(1, int(per_minute))
        self._window_seconds = WINDOW_SECONDS * max(1.0, 1.0 / per_minute)
        self._sent: deque[float] = deque(maxlen=whole)

    def wait_seconds(self, amount: float = 1.0) -> float:
        """Return how long it takes until a request may be sent, 0 for now."""
        seconds = super().wait_seconds(amount)
        if len(self._sent) == self._sent.maxlen:
            seconds = max(seconds, self._sent[0] + self._window_seconds - self._clock())
        return seconds

    def take(self, amount: float = 1.0) -> None:
        """Send a request now."""
        super().take(amount)
        self._sent.append(self._clock())


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

"""Requests and tokens per minute: amounts taken when calls are sent, and pauses for everybody."""

from __future__ import annotations

import time
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable
from dataclasses import dataclass
from operator import attrgetter

from krisis.errors import InvalidValue

Clock = Callable[[], float]
MINUTE_SECONDS = 60.0
BURST_SECONDS = 1.0
# A provider counts what arrives, and nobody here knows when that is: at the latest when the reply
# comes, and a request that is so long under way is taken for arrived.
TRAVEL_SECONDS = 10.0
_ROUNDING = 1e-9
_at = attrgetter("at")


@dataclass(slots=True)
class Passed:
    """What one call took of a rate: what it was expected to take, and what it counts for.

    ``at`` is the latest time at which it can have arrived.
    """

    at: float
    expected: float
    amount: float
    is_settled: bool
    is_past: bool = False


class Rate:
    """Lets an amount per minute pass at an even pace, and in no minute more than the limit.

    A bucket that holds one second's worth, at least 1, gives the pace. Whoever takes more than it
    holds waits until it is full and leaves a debt behind. A bucket alone lets its burst pass on top
    of a minute's worth; so what may have arrived in the last minute is kept as well: a call counts
    from its sending to a minute after its reply. Until then it counts for the most that it can
    take; where that alone is above the limit, it passes when no other is under way.
    """

    def __init__(self, per_minute: float, *, clock: Clock = time.monotonic) -> None:
        if not per_minute > 0:
            raise InvalidValue(f"a rate per minute must be more than 0, not {per_minute!r}")
        self._per_second = per_minute / MINUTE_SECONDS
        self._capacity = max(1.0, self._per_second * BURST_SECONDS)
        self._clock = clock
        self._level = self._capacity
        self._filled_at = clock()
        self._limit = max(1.0, per_minute)
        self._window_seconds = MINUTE_SECONDS * max(1.0, 1.0 / per_minute)
        self._passed: list[Passed] = []  # in the order in which they leave the window
        self._in_window = 0.0

    def wait_seconds(self, amount: float = 1.0, most: float | None = None) -> float:
        """Return how long it takes until an amount may pass, 0 for now."""
        self._refill()
        missing = min(amount, self._capacity) - self._level
        # Sums of small steps fall short of a whole by a rounding error, never by more.
        pace = missing / self._per_second if missing > _ROUNDING else 0.0
        return max(pace, self._wait_for_window(amount, amount if most is None else most))

    def _wait_for_window(self, amount: float, most: float) -> float:
        now = self._clock()
        self._forget(now)
        if most > self._limit and all(one.is_settled for one in self._passed):
            most = amount
        missing = self._in_window + min(most, self._limit) - self._limit
        seconds = 0.0
        for one in self._passed:  # the oldest leave first: wait for as many as are in the way
            if missing <= _ROUNDING:
                break
            missing -= one.amount
            seconds = one.at + self._window_seconds - now
        return seconds

    def take(self, amount: float = 1.0, most: float | None = None) -> Passed:
        """Let an amount of up to ``most`` pass now; `settle` says what it was, and that it came."""
        self._refill()
        self._level -= amount
        at = self._clock() + TRAVEL_SECONDS
        passed = Passed(at, amount, amount if most is None else most, is_settled=False)
        self._passed.append(passed)
        self._in_window += passed.amount
        return passed

    def settle(self, passed: Passed, used: float = 1.0) -> None:
        """Count a call that was answered for what it took, as one that arrived by now."""
        self._level = min(self._capacity, self._level - (used - passed.expected))
        if not passed.is_past:
            self._in_window += used - passed.amount
            place = bisect_left(self._passed, passed.at, key=_at)
            while self._passed[place] is not passed:
                place += 1
            del self._passed[place]
            passed.at = min(passed.at, self._clock())
            insort(self._passed, passed, key=_at)
        passed.amount, passed.is_settled = used, True

    def lower_to(self, remaining: float) -> None:
        """Believe a provider who says that less is left than we think."""
        self._refill()
        self._level = min(self._level, remaining)

    def _refill(self) -> None:
        now = self._clock()
        self._level = min(self._capacity, self._level + (now - self._filled_at) * self._per_second)
        self._filled_at = now

    def _forget(self, now: float) -> None:
        n_past = bisect_right(self._passed, now - self._window_seconds, key=_at)
        for oldest in self._passed[:n_past]:
            oldest.is_past = True
            self._in_window -= oldest.amount
        del self._passed[:n_past]


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

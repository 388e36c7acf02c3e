"""Adaptive concurrency: as many simultaneous calls as the provider accepts, up to a maximum."""

from __future__ import annotations

import asyncio
from collections import deque

START = 8


class AdaptiveConcurrency:
    """A number of slots that grows while it is used to the full and shrinks on a rate limit.

    Slow start adds one slot per success, which doubles the number in one round trip; after the
    first rate limit a whole round is needed for one more slot. Calls that were already in progress
    when the number was halved do not halve it again: they met the same limit.
    """

    def __init__(self, upper: int, *, adaptive: bool = True) -> None:
        self._upper = upper
        self._adaptive = adaptive
        self._limit = float(min(upper, START) if adaptive else upper)
        self._slow_start = True
        self._era = 0
        self._in_flight = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    @property
    def limit(self) -> int:
        """How many calls may be in progress now."""
        return int(self._limit)

    @property
    def in_flight(self) -> int:
        """How many calls are in progress now."""
        return self._in_flight

    async def acquire(self) -> int:
        """Wait for a slot; the number returned is handed back with the outcome."""
        if self._in_flight >= self.limit:
            turn = asyncio.get_running_loop().create_future()
            self._waiting.append(turn)
            try:
                await turn
            except asyncio.CancelledError:
                if turn.done() and not turn.cancelled():
                    self.release()  # the slot had just been given
                raise
        else:
            self._in_flight += 1
        return self._era

    def release(self) -> None:
        """Give the slot back to whoever waits longest."""
        self._in_flight -= 1
        self._admit()

    def resize(self, upper: int) -> None:
        """Take another number of slots; calls in progress keep theirs."""
        self._upper = upper
        self._change(float(upper))
        self._admit()

    def succeeded(self) -> None:
        """Grow, but only when every slot is taken: unused room proves nothing."""
        if self._adaptive and self._limit < self._upper and self._in_flight >= self.limit:
            self._change(self._limit + (1.0 if self._slow_start else 1.0 / self._limit))
            self._admit()

    def limited(self, era: int) -> None:
        """Halve after a rate limit that answers a call of the present era."""
        if self._adaptive and era == self._era:
            self._era += 1
            self._slow_start = False
            self._change(self._limit / 2)

    def _change(self, limit: float) -> None:
        self._limit = min(float(self._upper), max(1.0, limit))

    def _admit(self) -> None:
        while self._waiting and self._in_flight < self.limit:
            turn = self._waiting.popleft()
            if not turn.done():
                self._in_flight += 1
                turn.set_result(None)

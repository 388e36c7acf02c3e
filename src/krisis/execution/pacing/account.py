"""An account with a provider: the slots, pauses and rates that all calls to it share."""

from __future__ import annotations

import asyncio
import secrets
import sqlite3
import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from krisis.backends.base import BaseBackend
from krisis.backends.provider import ProviderBackend
from krisis.backends.waiting import quota_left
from krisis.execution.pacing.budget import Limits, Reservation
from krisis.execution.pacing.concurrency import AdaptiveConcurrency
from krisis.execution.pacing.rates import Clock, Pause, Rate
from krisis.execution.pacing.shared import LimitsFile, SharedLimits, Taken, default_path
from krisis.execution.stopping import Stop

T = TypeVar("T")
_NOTHING: Taken = (None, None)
LONGEST_PAUSE_BY_HEADER_SECONDS = 60.0
# How often a run looks at what the others left; a call in between costs a look at the clock.
LOOK_SECONDS = 1.0
_BUSY_SECONDS = 0.02


@dataclass(frozen=True, slots=True)
class Passage:
    """What one call took of requests and tokens per minute: as this process counts, and as all."""

    own: Taken
    shared: Taken


class Account:
    """Lets calls of one or several runs of this process pass, and heeds those of other processes.

    A run has an account of its own unless it is given one; ``shared`` ties it to the others on
    this machine. What a call takes is counted in this process as well, so that a file that can no
    longer be written loosens nothing within it.
    """

    def __init__(
        self,
        limits: Limits,
        *,
        max_concurrency: int,
        clock: Clock = time.monotonic,
        shared: SharedLimits | None = None,
    ) -> None:
        self.concurrency = AdaptiveConcurrency(max_concurrency, adaptive=limits.adaptive)
        self._clock = clock
        self._shared = shared
        stated = limits.requests_per_minute or limits.tokens_per_minute
        self._is_limited = shared is not None and stated is not None
        self._look_at = clock()
        self._pause = Pause(clock=clock)
        per_minute, tokens = limits.requests_per_minute, limits.tokens_per_minute
        self._requests = None if per_minute is None else Rate(per_minute, clock=clock)
        self._tokens = None if tokens is None else Rate(tokens, clock=clock)
        self._turn = asyncio.Lock()
        self._alarm: asyncio.Future[None] | None = None

    async def let_pass(self, held: Reservation, stop: Stop) -> Passage | None:
        """Wait, in the order of arrival, until a request may be sent, and count it as sent."""
        expected, most = held.expected.total, held.most.total
        async with self._turn:
            while True:
                self._look()
                seconds, shared = self._wait_seconds(expected, most), _NOTHING
                if seconds <= 0 and self._is_limited:
                    seconds, shared = self._ask_all(expected, most)
                if seconds <= 0:
                    break
                # A call that took less than it could makes room before the time is over.
                self._alarm = asyncio.get_running_loop().create_future()
                await stop.sleep(seconds, self._alarm)
            own = (
                self._requests.take() if self._requests else None,
                self._tokens.take(expected, most) if self._tokens else None,
            )
            return Passage(own, shared) if any(own + shared) else None

    def _wait_seconds(self, expected: float, most: float) -> float:
        return max(
            self._pause.remaining_seconds(),
            self._requests.wait_seconds() if self._requests else 0.0,
            self._tokens.wait_seconds(expected, most) if self._tokens else 0.0,
        )

    def _ask_all(self, expected: float, most: float) -> tuple[float, Taken]:
        """Return how long to wait for the calls of all processes, or what this one takes."""
        answer = self._tell(lambda shared: shared.admit(expected, most))
        if answer is None:
            return (0.0 if self._shared is None else _BUSY_SECONDS), _NOTHING
        if isinstance(answer, float):
            # Another process may give tokens back, and cannot wake this one up.
            return min(answer, LOOK_SECONDS), _NOTHING
        return 0.0, answer

    def _look(self) -> None:
        """Learn, once in a while, what the other processes met and ask for."""
        if self._shared is None or self._clock() < self._look_at:
            return
        self._look_at = self._clock() + LOOK_SECONDS
        seen = self._tell(SharedLimits.look)
        if seen is not None:
            self._is_limited = seen.is_limited
            self._pause.extend(seen.pause_seconds)
            if seen.is_overloaded:
                self.concurrency.limited()

    def _tell(self, word: Callable[[SharedLimits], T]) -> T | None:
        """Speak to the file; None where another process holds it, or it can be used no more."""
        if self._shared is None:
            return None
        try:
            return word(self._shared)
        except sqlite3.Error as error:
            if error.sqlite_errorcode in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
                return None
            self._shared, self._is_limited = None, False
            warnings.warn(_alone(error), stacklevel=2)
            return None

    def settle(self, passage: Passage, used: float) -> None:
        """Count a call that was answered for what it took, and let whoever waits look again."""
        request, tokens = passage.own
        if self._requests and request:
            self._requests.settle(request)
        if self._tokens and tokens:
            self._tokens.settle(tokens, used)
        if any(passage.shared):
            self._tell(lambda shared: shared.settle(passage.shared, used))
        if self._alarm is not None and not self._alarm.done():
            self._alarm.set_result(None)

    def overloaded(self, era: int) -> None:
        """Halve the number of simultaneous calls, here and in the other processes."""
        if self.concurrency.limited(era):
            self._tell(SharedLimits.overloaded)

    def pause(self, seconds: float) -> None:
        """Send nothing for so long, here and in the other processes."""
        if seconds > self._pause.remaining_seconds():
            self._pause.extend(seconds)
            self._tell(lambda shared: shared.pause(seconds))

    def heed(self, headers: Mapping[str, str]) -> None:
        """Believe a provider who says how much is left."""
        for what, rate in (("requests", self._requests), ("tokens", self._tokens)):
            said = quota_left(headers, what)
            if said is None:
                continue
            remaining, reset_seconds = said
            if rate is not None:
                rate.lower_to(remaining)
            if remaining <= 0:
                # A quota that resets tomorrow is for the error of the next call to report.
                self.pause(min(reset_seconds, LONGEST_PAUSE_BY_HEADER_SECONDS))

    def close(self) -> None:
        """Withdraw from the other processes."""
        if self._shared is not None:
            self._shared.close()


def open_account(backend: BaseBackend, limits: Limits, *, max_concurrency: int) -> Account:
    """Return the account that a backend is billed to; one without a provider has its own."""
    shared = _shared(backend, limits) if isinstance(backend, ProviderBackend) else None
    return Account(limits, max_concurrency=max_concurrency, shared=shared)


def _shared(backend: ProviderBackend, limits: Limits) -> SharedLimits | None:
    try:
        file = LimitsFile(default_path())
        if not (name := backend.account(file.salt)):
            file.close()
            return None
        return SharedLimits(file, name, (limits.requests_per_minute, limits.tokens_per_minute))
    except (OSError, sqlite3.Error) as error:
        warnings.warn(_alone(error), stacklevel=3)
        return None


def open_accounts(wanted: Sequence[tuple[BaseBackend, Limits, int]]) -> list[Account]:
    """Return the account of each backend, given its limits and its maximum of concurrent calls.

    Backends that are billed to one account get one and the same, with the lowest of their limits
    and the largest of their maxima.
    """
    salt = secrets.token_bytes()  # of no file: the names are compared with each other alone
    groups: dict[object, list[int]] = {}
    for place, (backend, _, _) in enumerate(wanted):
        name = backend.account(salt) if isinstance(backend, ProviderBackend) else ""
        groups.setdefault(name or place, []).append(place)
    opened: dict[int, Account] = {}
    for places in groups.values():
        limits = lowest([wanted[place][1] for place in places])
        most = max(wanted[place][2] for place in places)
        account = open_account(wanted[places[0]][0], limits, max_concurrency=most)
        opened |= dict.fromkeys(places, account)
    return [opened[place] for place in range(len(wanted))]


def lowest(limits: Sequence[Limits]) -> Limits:
    """Return the first of several limits with the lowest rates of all."""
    requests = [one.requests_per_minute for one in limits if one.requests_per_minute]
    tokens = [one.tokens_per_minute for one in limits if one.tokens_per_minute]
    return replace(
        limits[0],
        requests_per_minute=min(requests, default=None),
        tokens_per_minute=min(tokens, default=None),
    )


def _alone(error: Exception) -> str:
    return (
        f"{default_path()} cannot be used ({error}): limits are kept within this command, and not "
        "shared with others on this machine"
    )

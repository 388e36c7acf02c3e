"""An account with a provider: the slots, pauses and rates that all calls to it share."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from krisis.backends.base import BaseBackend
from krisis.backends.provider import ProviderBackend
from krisis.backends.retry import quota_left
from krisis.execution.pacing.budget import Limits, Reservation
from krisis.execution.pacing.concurrency import AdaptiveConcurrency
from krisis.execution.pacing.rates import Clock, Passed, Pause, Rate
from krisis.execution.stopping import Stop

LONGEST_PAUSE_BY_HEADER_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class RatePermit:
    """What one call took of requests and tokens per minute; None where there is no such limit."""

    request: Passed | None
    tokens: Passed | None


class Account:
    """Lets calls of one or several runs of this process pass.

    A run has an account of its own unless it is given one, as the cells of a grid are. Other
    processes are not seen: one process per account.
    """

    def __init__(
        self, limits: Limits, *, max_concurrency: int, clock: Clock = time.monotonic
    ) -> None:
        self.concurrency = AdaptiveConcurrency(max_concurrency, adaptive=limits.adaptive)
        self._pause = Pause(clock=clock)
        per_minute, tokens = limits.requests_per_minute, limits.tokens_per_minute
        self._requests = None if per_minute is None else Rate(per_minute, clock=clock)
        self._tokens = None if tokens is None else Rate(tokens, clock=clock)
        self._turn = asyncio.Lock()
        self._alarm: asyncio.Future[None] | None = None

    async def let_pass(self, held: Reservation, stop: Stop) -> RatePermit:
        """Wait, in the order of arrival, until a request may be sent, and count it as sent."""
        expected, most = held.expected.total, held.most.total
        async with self._turn:
            while (seconds := self._wait_seconds(expected, most)) > 0:
                # A call that took less than it could makes room before the time is over.
                self._alarm = asyncio.get_running_loop().create_future()
                await stop.sleep(seconds, self._alarm)
            return RatePermit(
                self._requests.take() if self._requests else None,
                self._tokens.take(expected, most) if self._tokens else None,
            )

    def _wait_seconds(self, expected: float, most: float) -> float:
        return max(
            self._pause.remaining_seconds(),
            self._requests.wait_seconds() if self._requests else 0.0,
            self._tokens.wait_seconds(expected, most) if self._tokens else 0.0,
        )

    def settle(self, permit: RatePermit, used: float) -> None:
        """Count a call that was answered for what it took, and let whoever waits look again."""
        if self._requests and permit.request:
            self._requests.settle(permit.request)
        if self._tokens and permit.tokens:
            self._tokens.settle(permit.tokens, used)
        if self._alarm is not None and not self._alarm.done():
            self._alarm.set_result(None)

    def pause(self, seconds: float) -> None:
        """Send nothing for so long."""
        self._pause.extend(seconds)

    def apply_rate_headers(self, headers: Mapping[str, str]) -> None:
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


def accounts_of(wanted: Sequence[tuple[BaseBackend, Limits, int]]) -> list[Account]:
    """Return the account of each backend, given its limits and its maximum of concurrent calls.

    Backends that are billed to one account get one and the same, with the lowest of their limits
    and the largest of their maxima.
    """
    salt = secrets.token_bytes()  # the names are compared with each other alone
    groups: dict[object, list[int]] = {}
    for place, (backend, _, _) in enumerate(wanted):
        name = backend.account(salt) if isinstance(backend, ProviderBackend) else ""
        groups.setdefault(name or place, []).append(place)
    opened: dict[int, Account] = {}
    for places in groups.values():
        limits = lowest([wanted[place][1] for place in places])
        most = max(wanted[place][2] for place in places)
        opened |= dict.fromkeys(places, Account(limits, max_concurrency=most))
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

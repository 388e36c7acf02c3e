"""The gate that every call passes: a slot, the budget, then pauses and rates, in that order."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from krisis.backends.retry import LONGEST_RETRY_AFTER_SECONDS
from krisis.backends.waiting import quota_left
from krisis.errors import BackendError, ProviderUnavailable, RateLimited
from krisis.execution.pacing.budget import Asked, Budget, Limits, Reservation, Tokens
from krisis.execution.pacing.concurrency import AdaptiveConcurrency
from krisis.execution.pacing.rates import Clock, Passed, Pause, Rate
from krisis.execution.stopping import Stop
from krisis.results.stops import AccountRefused

OVERLOADED = (503, 529)
LONGEST_PAUSE_BY_HEADER_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Usage:
    """What a reply says of itself: its tokens, None where they are not told, and its headers."""

    input_tokens: int | None
    output_tokens: int | None
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Ticket:
    """One attempt on its way through the gate; ``bound`` is the most that it may be billed."""

    held: Reservation
    bound: Tokens
    era: int = 0
    passed: Passed | None = None


class Gate:
    """Holds attempts back until they may go, and learns from what becomes of them.

    Each waits for a slot, then for its share of the budget, and last for pauses and rates, which
    are taken at the moment of sending: what was taken earlier would be used in one burst.
    ``on_send`` is told the bound of every call to a provider right before it is sent.
    """

    def __init__(
        self,
        limits: Limits,
        budget: Budget,
        stop: Stop,
        *,
        max_concurrency: int,
        clock: Clock = time.monotonic,
        on_send: Callable[[float, float], None] | None = None,
    ) -> None:
        self.concurrency = AdaptiveConcurrency(max_concurrency, adaptive=limits.adaptive)
        self.budget = budget
        self._stop = stop
        self._on_send = on_send
        self._pause = Pause(clock=clock)
        per_minute, tokens = limits.requests_per_minute, limits.tokens_per_minute
        self._requests = None if per_minute is None else Rate(per_minute, clock=clock)
        self._tokens = None if tokens is None else Rate(tokens, clock=clock)
        self._turn = asyncio.Lock()
        self._alarm: asyncio.Future[None] | None = None

    async def enter(self, asked: Asked) -> Ticket:
        """Wait until the attempt may be made; raise when the run is to end instead."""
        self._stop.check()
        era = await self.concurrency.acquire()
        try:
            self._stop.check()
            held = await self.budget.reserve(asked)
            try:
                passed = await self._wait_for_rates(held)
                bound = held.most if asked.n_bytes else Tokens()  # else nobody bills for it
                if asked.n_bytes and self._on_send is not None:
                    self._on_send(*bound)
            except BaseException:
                self.budget.give_back(held)
                raise
        except BaseException:
            self.concurrency.release()
            raise
        return Ticket(held, bound, era, passed)

    async def _wait_for_rates(self, held: Reservation) -> Passed | None:
        """Wait, in the order of arrival, until a request may be sent, and count it as sent."""
        expected, most = held.expected.total, held.most.total
        async with self._turn:
            while (seconds := self._wait_seconds(expected, most)) > 0:
                # A call that took less than it could makes room before the time is over.
                self._alarm = asyncio.get_running_loop().create_future()
                await self._stop.sleep(seconds, self._alarm)
            if self._requests:
                self._requests.take()
            return self._tokens.take(expected, most) if self._tokens else None

    def _wait_seconds(self, expected: float, most: float) -> float:
        return max(
            self._pause.remaining_seconds(),
            self._requests.wait_seconds() if self._requests else 0.0,
            self._tokens.wait_seconds(expected, most) if self._tokens else 0.0,
        )

    def succeeded(self, ticket: Ticket, used: Usage) -> Tokens:
        """Settle an attempt that brought a reply; return the tokens that had to be assumed."""
        self.concurrency.succeeded()
        assumed = self._leave(ticket, used.input_tokens, used.output_tokens)
        if used.headers:
            self._heed(used.headers)
        return assumed

    def failed(self, ticket: Ticket, error: BaseException) -> Tokens:
        """Settle an attempt that failed, and back off where the provider asks for it."""
        if not isinstance(error, BackendError):
            self.budget.give_back(ticket.held)
            self.concurrency.release()
            return Tokens()
        if _is_overload(error):
            self.concurrency.limited(ticket.era)
        # A status is the provider's word that it did no work; silence may be billed.
        unsaid = None if error.may_be_billed and error.status is None else 0
        n_input = unsaid if error.input_tokens is None else error.input_tokens
        n_output = unsaid if error.output_tokens is None else error.output_tokens
        assumed = self._leave(ticket, n_input, n_output)
        if _is_overload(error):
            self._back_off(error.retry_after_seconds or 0.0)
        return assumed

    def _back_off(self, seconds: float) -> None:
        if seconds <= LONGEST_RETRY_AFTER_SECONDS:
            self._pause.extend(seconds)
            return
        hours = f"{seconds / 3600:.1f} hours"
        self._stop.request(
            AccountRefused(f"the provider asks to wait {hours}, so the quota is used up")
        )
        self._stop.check()

    def _leave(self, ticket: Ticket, n_input: int | None, n_output: int | None) -> Tokens:
        self.concurrency.release()
        assumed = self.budget.settle(ticket.held, n_input, n_output)
        if self._tokens and ticket.passed:
            self._tokens.settle(ticket.passed, (n_input or 0) + (n_output or 0) + assumed.total)
            if self._alarm is not None and not self._alarm.done():
                self._alarm.set_result(None)
        return assumed

    def _heed(self, headers: Mapping[str, str]) -> None:
        for what, rate in (("requests", self._requests), ("tokens", self._tokens)):
            said = quota_left(headers, what)
            if said is None:
                continue
            remaining, reset_seconds = said
            if rate is not None:
                rate.lower_to(remaining)
            if remaining <= 0:
                # A quota that resets tomorrow is for the error of the next call to report.
                self._pause.extend(min(reset_seconds, LONGEST_PAUSE_BY_HEADER_SECONDS))

    async def sleep(self, seconds: float) -> None:
        """Sleep between attempts; raise when the run is to end instead."""
        await self._stop.sleep(seconds)


def _is_overload(error: BackendError) -> bool:
    return isinstance(error, RateLimited) or (
        isinstance(error, ProviderUnavailable) and error.status in OVERLOADED
    )

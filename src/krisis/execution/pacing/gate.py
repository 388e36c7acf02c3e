"""The gate that every call passes: a slot, the budget, then pauses and rates, in that order."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from krisis.backends.retry import LONGEST_RETRY_AFTER_SECONDS
from krisis.errors import BackendError, ProviderUnavailable, RateLimited
from krisis.execution.pacing.account import Account, RatePermit
from krisis.execution.pacing.budget import (
    Budget,
    CallSize,
    FollowUpReservation,
    Limits,
    Reservation,
    Tokens,
)
from krisis.execution.pacing.rates import Clock
from krisis.execution.stopping import Stop
from krisis.results.stops import AccountRefused

OVERLOADED = (503, 529)


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
    permit: RatePermit | None = None


class Gate:
    """Holds attempts back until they may go, and learns from what becomes of them.

    Each waits for a slot, then for its share of the budget, and last for pauses and rates, which
    are taken at the moment of sending: what was taken earlier would be used in one burst.
    Slots, pauses and rates are those of the account, which other runs may share.
    ``on_send`` is awaited with the bound of every call to a provider right before it is sent.
    """

    def __init__(
        self,
        limits: Limits,
        budget: Budget,
        stop: Stop,
        *,
        max_concurrency: int,
        account: Account | None = None,
        clock: Clock = time.monotonic,
        on_send: Callable[[float, float], Awaitable[None]] | None = None,
    ) -> None:
        self._account = account or Account(limits, max_concurrency=max_concurrency, clock=clock)
        self.concurrency = self._account.concurrency
        self.budget = budget
        self._stop = stop
        self._on_send = on_send

    async def enter(self, asked: CallSize) -> Ticket:
        """Wait until the attempt may be made; raise when the run is to end instead."""
        promised = self._promised(asked.promise)
        if promised is None:  # the second call of an answer is made, whatever ends the run
            self._stop.check()
        era, held = promised or await self._slot_and_budget(asked)
        try:
            permit = await self._account.let_pass(held, self._stop)
            bound = held.most if asked.n_bytes else Tokens()  # else nobody bills for it
            if asked.n_bytes and self._on_send is not None:
                await self._on_send(*bound)
        except BaseException:
            self.budget.give_back(held)
            self.withdraw(asked.then)
            self.concurrency.release()
            raise
        return Ticket(held, bound, era, permit)

    async def _slot_and_budget(self, asked: CallSize) -> tuple[int, Reservation]:
        era = await self.concurrency.acquire()
        try:
            self._stop.check()
            return era, await self.budget.reserve(asked)
        except BaseException:
            self.concurrency.release()
            raise

    def _promised(self, promise: FollowUpReservation | None) -> tuple[int, Reservation] | None:
        """Return the slot and the tokens that were kept for a second call, if any were."""
        if promise is None or promise.held is None or promise.era is None:
            return None
        kept = promise.era, promise.held
        promise.held = promise.era = None
        return kept

    def withdraw(self, promise: FollowUpReservation | None) -> None:
        """Give back what is kept for a second call that is not made."""
        if promise is not None and promise.held is not None:
            self.budget.give_back(promise.held)
            promise.held = None
        if promise is not None and promise.era is not None:
            self.concurrency.release()
            promise.era = None

    def succeeded(self, ticket: Ticket, used: Usage) -> Tokens:
        """Settle an attempt that brought a reply; return the tokens that had to be assumed."""
        self.concurrency.succeeded()
        assumed = self._leave(ticket, used.input_tokens, used.output_tokens)
        if used.headers:
            self._account.apply_rate_headers(used.headers)
        return assumed

    def failed(self, ticket: Ticket, error: BaseException) -> Tokens:
        """Settle an attempt that failed, and back off where the provider asks for it."""
        self.withdraw(ticket.held.asked.then)
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
            self._account.pause(seconds)
            return
        hours = f"{seconds / 3600:.1f} hours"
        self._stop.request(
            AccountRefused(f"the provider asks to wait {hours}, so the quota is used up")
        )
        self._stop.check()

    def _leave(self, ticket: Ticket, n_input: int | None, n_output: int | None) -> Tokens:
        promise = ticket.held.asked.then
        if promise is not None and promise.held is not None:
            promise.era = ticket.era  # the second call goes on in the slot of the first
        else:
            self.concurrency.release()
        assumed = self.budget.settle(ticket.held, n_input, n_output)
        if ticket.permit is not None:
            used = (n_input or 0) + (n_output or 0) + assumed.total
            self._account.settle(ticket.permit, used)
        return assumed

    async def sleep(self, seconds: float) -> None:
        """Sleep between attempts; raise when the run is to end instead."""
        await self._stop.sleep(seconds)


def _is_overload(error: BackendError) -> bool:
    return isinstance(error, RateLimited) or (
        isinstance(error, ProviderUnavailable) and error.status in OVERLOADED
    )

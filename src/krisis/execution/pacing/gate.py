"""The gate that every call passes: budget, rate buckets, pauses and a slot, in that order."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from krisis.backends.retry import LONGEST_RETRY_AFTER_SECONDS
from krisis.backends.waiting import quota_left
from krisis.errors import BackendError, ProviderUnavailable, RateLimited
from krisis.execution.pacing.budget import Budget, Estimate, Limits
from krisis.execution.pacing.concurrency import AdaptiveConcurrency
from krisis.execution.pacing.rates import Bucket, Pause
from krisis.execution.stopping import Stop
from krisis.results.stops import AccountRefused

OVERLOADED = (503, 529)
LONGEST_PAUSE_BY_HEADER_SECONDS = 60.0


@dataclass(slots=True)
class Ticket:
    """One attempt on its way through the gate."""

    estimate: Estimate
    n_records: int
    era: int = 0


class Gate:
    """Holds attempts back until they may go, and learns from what becomes of them."""

    def __init__(self, limits: Limits, budget: Budget, stop: Stop, *, max_concurrency: int) -> None:
        self.concurrency = AdaptiveConcurrency(max_concurrency, adaptive=limits.adaptive)
        self.budget = budget
        self._stop = stop
        self._pause = Pause()
        self._requests = _bucket(limits.requests_per_minute)
        self._tokens = _bucket(limits.tokens_per_minute)

    async def enter(self, n_characters: int, n_records: int) -> Ticket:
        """Wait until the attempt may be made; raise when the run is to end instead."""
        self._stop.check()
        ticket = Ticket(self.budget.estimate(n_characters, n_records), n_records)
        self.budget.reserve(ticket.estimate)
        try:
            await self._wait_for_rates(ticket.estimate)
            ticket.era = await self._slot()
        except BaseException:
            self.budget.settle(ticket.estimate, None, n_records)
            raise
        return ticket

    async def _wait_for_rates(self, estimate: Estimate) -> None:
        seconds = self._requests.take(1) if self._requests else 0.0
        if self._tokens:
            seconds = max(seconds, self._tokens.take(estimate.total))
        if seconds > 0:
            await self._stop.sleep(seconds)
        await self._wait_for_pause()

    async def _wait_for_pause(self) -> None:
        while (seconds := self._pause.remaining_seconds()) > 0:
            await self._stop.sleep(seconds)

    async def _slot(self) -> int:
        """Wait for a slot, then for a pause that began meanwhile; raise when the run is to end."""
        era = await self.concurrency.acquire()
        try:
            self._stop.check()
            await self._wait_for_pause()
        except BaseException:
            self.concurrency.release()
            raise
        return era

    def succeeded(self, ticket: Ticket, used: Estimate, headers: Mapping[str, str]) -> None:
        """Settle an attempt that brought a reply."""
        self.concurrency.succeeded()
        self._leave(ticket, used)
        if self._tokens:
            self._tokens.correct(used.total - ticket.estimate.total)
        if headers:
            self._heed(headers)

    def failed(self, ticket: Ticket, error: BaseException) -> None:
        """Settle an attempt that failed, and back off where the provider asks for it."""
        used = None
        if isinstance(error, BackendError):
            if error.input_tokens or error.output_tokens:
                used = Estimate(error.input_tokens or 0, error.output_tokens or 0)
            if _is_overload(error):
                self.concurrency.limited(ticket.era)
        self._leave(ticket, used)
        if isinstance(error, BackendError) and _is_overload(error):
            self._back_off(error.retry_after_seconds or 0.0)

    def _back_off(self, seconds: float) -> None:
        if seconds <= LONGEST_RETRY_AFTER_SECONDS:
            self._pause.extend(seconds)
            return
        hours = f"{seconds / 3600:.1f} hours"
        self._stop.request(
            AccountRefused(f"the provider asks to wait {hours}, so the quota is used up")
        )
        self._stop.check()

    def _leave(self, ticket: Ticket, used: Estimate | None) -> None:
        self.budget.settle(ticket.estimate, used, ticket.n_records)
        self.concurrency.release()

    def _heed(self, headers: Mapping[str, str]) -> None:
        for what, bucket in (("requests", self._requests), ("tokens", self._tokens)):
            said = quota_left(headers, what)
            if said is None:
                continue
            remaining, reset_seconds = said
            if bucket is not None:
                bucket.lower_to(remaining)
            if remaining <= 0:
                # A quota that resets tomorrow is for the error of the next call to report.
                self._pause.extend(min(reset_seconds, LONGEST_PAUSE_BY_HEADER_SECONDS))

    async def sleep(self, seconds: float) -> None:
        """Sleep between attempts; raise when the run is to end instead."""
        await self._stop.sleep(seconds)


def _bucket(per_minute: float | None) -> Bucket | None:
    return None if per_minute is None else Bucket(per_minute)


def _is_overload(error: BackendError) -> bool:
    return isinstance(error, RateLimited) or (
        isinstance(error, ProviderUnavailable) and error.status in OVERLOADED
    )

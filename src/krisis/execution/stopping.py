"""Ending a run before its last record: on request, on too many failures, on a refused key."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from krisis.errors import (
    AuthenticationFailed,
    BackendError,
    InvalidValue,
    OutOfCredit,
    RequestRefused,
)
from krisis.metrics.base import EvaluationResult


class StopRequested(Exception):
    """Unwinds a worker whose batch is left for a later session."""


class CannotGoOn(Exception):
    """Ends a run at once, because no call can succeed; ``error`` says why and what to do."""

    def __init__(self, error: BackendError) -> None:
        super().__init__(str(error))
        self.error = error


class Stop:
    """A wish, heard by every worker before its next call, to end the run and keep what there is."""

    def __init__(self) -> None:
        self.reason: str | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._sleepers: set[asyncio.Future[None]] = set()

    def bind(self, loop: asyncio.AbstractEventLoop) -> None:
        """Tell the loop that is to be woken by `request_from_outside`."""
        self._loop = loop

    def request(self, reason: str) -> None:
        """Ask for the end; the first reason is the one that counts."""
        self.reason = self.reason or reason
        for sleeper in self._sleepers:
            if not sleeper.done():
                sleeper.set_result(None)

    def request_from_outside(self, reason: str) -> None:
        """Ask for the end from a signal handler or another thread."""
        if self._loop is None or self._loop.is_closed():
            self.request(reason)
        else:
            self._loop.call_soon_threadsafe(self.request, reason)

    def check(self) -> None:
        """Raise when the end was asked for."""
        if self.reason is not None:
            raise StopRequested(self.reason)

    async def sleep(self, seconds: float) -> None:
        """Sleep, but wake up to raise when the end is asked for."""
        self.check()
        loop = asyncio.get_running_loop()
        sleeper: asyncio.Future[None] = loop.create_future()
        timer = loop.call_later(seconds, _wake, sleeper)
        self._sleepers.add(sleeper)
        try:
            await sleeper
        finally:
            timer.cancel()
            self._sleepers.discard(sleeper)
        self.check()


def _wake(sleeper: asyncio.Future[None]) -> None:
    if not sleeper.done():
        sleeper.set_result(None)


class FailureLimit:
    """Ends a run that cannot stay under its share of failures, or is far above it.

    ``max_failures`` below 1 is a share of all cases, 1 or more is a number of them.
    """

    ENOUGH_TO_JUDGE = 20

    def __init__(self, max_failures: float | None, *, n_cases: int, stop: Stop) -> None:
        if max_failures is not None and not max_failures >= 0:
            raise InvalidValue(f"max_failures must be 0 or more, not {max_failures!r}")
        self._share = max_failures
        self._n_cases = n_cases
        self._stop = stop
        self.n_failed = 0
        self.n_finished = 0

    def observe(self, rows: Sequence[EvaluationResult]) -> None:
        """Count finished rows and ask for the end when there are too many failures."""
        self.n_finished += len(rows)
        self.n_failed += sum(row.error is not None for row in rows)
        if self._share is not None and self.n_failed and self._is_hopeless(self._share):
            self._stop.request(
                f"{self.n_failed} of {self.n_finished} records failed, more than the "
                f"{self._share:g} that max_failures allows"
            )

    def _is_hopeless(self, share: float) -> bool:
        if share >= 1:
            return self.n_failed > share
        if self.n_failed > share * self._n_cases:
            return True
        judged = self.n_failed >= self.ENOUGH_TO_JUDGE
        return judged and self.n_failed / self.n_finished > min(2 * share, (1 + share) / 2)


class FirstCalls:
    """Tells a run that can never work from one record that did not.

    Until a call has succeeded, a refused key or request ends the run at once. Afterwards a refused
    key or an empty account still ends it, leaving its records for a resume; a refused request is
    that record's own.
    """

    def __init__(self, stop: Stop) -> None:
        self._stop = stop
        self._has_succeeded = False

    def succeeded(self) -> None:
        """Note that the provider accepts us."""
        self._has_succeeded = True

    def failed(self, error: BackendError) -> None:
        """Raise when an error means that no further call can succeed."""
        if not isinstance(error, AuthenticationFailed | RequestRefused):
            return
        if not self._has_succeeded:
            raise CannotGoOn(error)
        if isinstance(error, AuthenticationFailed | OutOfCredit):
            what = "key" if isinstance(error, AuthenticationFailed) else "account"
            self._stop.request(f"the provider no longer accepts the {what}: {error}")
            self._stop.check()

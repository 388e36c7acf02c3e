"""Ending a run before its last record: on request, on too many failures, on a refused key."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from krisis.errors import (
    AuthenticationFailed,
    BackendError,
    InvalidValue,
    OutOfCredit,
    RequestRefused,
)
from krisis.metrics.base import EvaluationResult
from krisis.results.stops import (
    AccountRefused,
    KeyRefused,
    ProviderUnreachable,
    RequestsRefused,
    StopCause,
    TooManyFailures,
)


class StopRequested(Exception):
    """Unwinds a worker whose batch is left for a later session."""


class CannotGoOn(Exception):
    """Ends a run immediately, because no call can succeed; ``error`` says why and what to do."""

    def __init__(self, error: BackendError) -> None:
        super().__init__(str(error))
        self.error = error


class Stop:
    """A request, seen by every worker before its next call, to end the run and keep its rows."""

    def __init__(self) -> None:
        self.cause: StopCause | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._sleepers: set[asyncio.Future[None]] = set()

    def bind(self, loop: asyncio.AbstractEventLoop) -> None:
        """Name the loop that `request_from_outside` wakes up."""
        self._loop = loop

    def request(self, cause: StopCause) -> None:
        """Ask for the end; the first cause is the one that counts."""
        self.cause = self.cause or cause
        for sleeper in self._sleepers:
            if not sleeper.done():
                sleeper.set_result(None)

    def request_from_outside(self, cause: StopCause) -> None:
        """Ask for the end from a signal handler or another thread."""
        if self._loop is None or self._loop.is_closed():
            self.request(cause)
        else:
            self._loop.call_soon_threadsafe(self.request, cause)

    def check(self) -> None:
        """Raise when the run is to end."""
        if self.cause is not None:
            raise StopRequested(self.cause.sentence)

    async def sleep(self, seconds: float, alarm: asyncio.Future[None] | None = None) -> None:
        """Sleep, but wake up when the alarm is set, and raise when the run is to end."""
        self.check()
        loop = asyncio.get_running_loop()
        sleeper: asyncio.Future[None] = loop.create_future() if alarm is None else alarm
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
        """Count finished rows and stop the run when there are too many failures."""
        self.n_finished += len(rows)
        self.n_failed += sum(row.error is not None for row in rows)
        if self._share is not None and self.n_failed and self._is_hopeless(self._share):
            self._stop.request(
                TooManyFailures(
                    f"{self.n_failed} of {self.n_finished} records got no answer, more than the "
                    f"{self._share:g} that max_failures allows"
                )
            )

    def _is_hopeless(self, share: float) -> bool:
        if share >= 1:
            return self.n_failed > share
        if self.n_failed > share * self._n_cases:
            return True
        judged = self.n_failed >= self.ENOUGH_TO_JUDGE
        return judged and self.n_failed / self.n_finished > min(2 * share, (1 + share) / 2)


class FirstCalls:
    """Decides whether an error ends the run or is one record's own.

    Until a call has succeeded, a refused key or request ends the run immediately. Afterwards a
    refused key or an empty account still ends it, leaving its records for a resume; a refused
    request is that record's own. ``stored_text`` says what may be kept of an error's text.
    """

    def __init__(self, stop: Stop, stored_text: Callable[[BackendError], str] = str) -> None:
        self._stop = stop
        self._stored_text = stored_text
        self._has_succeeded = False

    def succeeded(self) -> None:
        """Note that the provider accepts us."""
        self._has_succeeded = True

    def failed(self, error: BackendError) -> None:
        """Raise when an error means that no further call can succeed."""
        cause = _cause_of(error, self._stored_text(error))
        if cause is None:
            return
        if not self._has_succeeded:
            self._stop.request(cause)
            raise CannotGoOn(error)
        if not isinstance(cause, RequestsRefused):
            self._stop.request(cause)
            self._stop.check()

    def unreachable(self, error: BackendError, n_attempts: int) -> None:
        """End the run when a provider that never answered cannot be reached a second time."""
        if n_attempts >= 2 and not self._has_succeeded:
            self.given_up(error)

    def given_up(self, error: BackendError) -> None:
        """End the run when no connection can be made; its records are left for a resume."""
        self._stop.request(ProviderUnreachable(self._stored_text(error)))
        if not self._has_succeeded:
            raise CannotGoOn(error)
        self._stop.check()


def _cause_of(error: BackendError, text: str) -> StopCause | None:
    if isinstance(error, AuthenticationFailed):
        return KeyRefused(f"the provider does not accept the key: {text}")
    if isinstance(error, OutOfCredit):
        return AccountRefused(f"the provider does not accept the account: {text}")
    if isinstance(error, RequestRefused):
        return RequestsRefused(f"the provider refuses the request: {text}")
    return None

"""One call with all its attempts: through the gate, timed, retried, counted."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import TypeVar

from krisis.backends.retry import RetryPolicy, call_with_retries
from krisis.errors import BackendError, MissingExtra, MissingKey
from krisis.execution.budget import Estimate
from krisis.execution.gate import Gate
from krisis.execution.stopping import FirstCalls, Stop
from krisis.execution.telemetry import Spent

R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Usage:
    """What a successful attempt reports: its tokens and the provider's headers."""

    tokens: Estimate
    headers: Mapping[str, str]


class Attempts:
    """Makes calls; whatever goes wrong comes out as a `BackendError`, a stop or a user's error."""

    def __init__(self, gate: Gate, stop: Stop, policy: RetryPolicy) -> None:
        self._gate = gate
        self._stop = stop
        self._policy = policy
        self._first_calls = FirstCalls(stop)

    async def make(
        self,
        call: Callable[[], Awaitable[R]],
        usage_of: Callable[[R], Usage],
        *,
        n_characters: int,
        n_records: int,
        spent: Spent,
    ) -> R:
        """Call, and call again where that may help."""

        async def attempt() -> R:
            ticket = await self._gate.enter(n_characters, n_records)
            spent.n_calls += 1
            started = time.perf_counter()
            try:
                value = await _as_backend_errors(call)
            except BaseException as error:
                self._gate.failed(ticket, error)
                if isinstance(error, BackendError):
                    self._first_calls.failed(error)
                raise
            finally:
                spent.latencies_seconds.append(time.perf_counter() - started)
            usage = usage_of(value)
            self._gate.succeeded(ticket, usage.tokens, usage.headers)
            self._first_calls.succeeded()
            return value

        def note(error: BackendError, pause_seconds: float) -> None:
            spent.n_retries += 1
            spent.lose(error)

        return await call_with_retries(attempt, self._policy, on_retry=note, sleep=self._stop.sleep)


async def _as_backend_errors(call: Callable[[], Awaitable[R]]) -> R:
    try:
        return await call()
    except (BackendError, MissingKey, MissingExtra):
        raise
    except Exception as error:
        raise BackendError(error_text(error)) from error


def error_text(error: Exception) -> str:
    """Return the kind and the words of an unexpected error."""
    return f"{type(error).__name__}: {error}"

"""Call again what may succeed the next time: exponential waits, full jitter, a finite number."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeVar

import numpy as np

from krisis.errors import BackendError, InvalidValue, Unreachable

T = TypeVar("T")

# A provider that asks for a longer wait than this has no quota left today.
LONGEST_RETRY_AFTER_SECONDS = 900.0


def _jitter() -> Callable[[], float]:
    # Unseeded on purpose: processes that wait in step would call together again, and no
    # result depends on how long a call waited.
    return np.random.default_rng().random


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often a call is repeated and how long the pauses are.

    ``max_reconnects`` is how often where no connection can be made, None for as often as others.
    """

    max_retries: int = 5
    base_seconds: float = 0.5
    max_seconds: float = 60.0
    max_reconnects: int | None = None
    jitter: Callable[[], float] = field(default_factory=_jitter, compare=False, repr=False)

    def __post_init__(self) -> None:
        given = (self.max_retries, self.base_seconds, self.max_seconds)
        if not all(isinstance(one, int | float) and one >= 0 for one in given):
            raise InvalidValue(
                f"retries are numbers of 0 or more, not max_retries={self.max_retries!r}, "
                f"base_seconds={self.base_seconds!r}, max_seconds={self.max_seconds!r}"
            )

    @classmethod
    def of(cls, backend: object) -> RetryPolicy:
        """Read the policy from the attributes of a backend; one without them is not retried."""
        return cls(
            max_retries=getattr(backend, "max_retries", 0),
            base_seconds=getattr(backend, "retry_base_seconds", 0.5),
            max_seconds=getattr(backend, "retry_max_seconds", 60.0),
        )

    def allows(self, error: BackendError, n_retries: int) -> bool:
        """Say whether a call that failed ``n_retries`` + 1 times may be made once more."""
        patience = error.retry_after_seconds or 0.0
        most = self.max_retries
        if isinstance(error, Unreachable) and self.max_reconnects is not None:
            most = min(most, self.max_reconnects)
        return error.retryable and n_retries < most and patience <= LONGEST_RETRY_AFTER_SECONDS

    def pause_seconds(self, error: BackendError, n_retries: int) -> float:
        """Draw the pause before the next attempt: never shorter than the provider asked for."""
        ceiling = min(self.max_seconds, self.base_seconds * 2.0**n_retries)
        drawn = self.jitter() * ceiling
        asked = error.retry_after_seconds or 0.0
        # A little is added, so that callers who got the same wait do not return together.
        return max(drawn, asked + self.jitter() * min(ceiling, asked / 4))


def _ignore(error: BackendError, pause_seconds: float) -> None:
    """Take no notice of a retry."""


async def call_with_retries(
    call: Callable[[], Awaitable[T]],
    policy: RetryPolicy,
    *,
    on_retry: Callable[[BackendError, float], None] = _ignore,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
) -> T:
    """Await ``call`` until it succeeds, fails for good, or the policy has no attempt left.

    ``on_retry`` is called with the error of every attempt that will be repeated and the pause.
    """
    n_retries = 0
    while True:
        try:
            return await call()
        except BackendError as error:
            if not policy.allows(error, n_retries):
                raise
            pause_seconds = policy.pause_seconds(error, n_retries)
            on_retry(error, pause_seconds)
        n_retries += 1
        await sleep(pause_seconds)

"""Call again what may succeed the next time: exponential waits, full jitter, a finite number.

Where the provider says how long to wait, or how much of a quota is left, that is read here too.
"""

from __future__ import annotations

import asyncio
import math
import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import TypeVar

import numpy as np

from krisis.errors import BackendError, InvalidValue, Unreachable
from krisis.json_values import JsonValue

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


_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|d|h|m|s)")
_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
# What the providers call it: OpenAI and xAI, then Anthropic.
_QUOTA = {
    "requests": ("x-ratelimit-{}-requests", "anthropic-ratelimit-requests-{}"),
    "tokens": ("x-ratelimit-{}-tokens", "anthropic-ratelimit-tokens-{}"),
}


def retry_after_seconds(
    headers: Mapping[str, str], body: JsonValue = None, *, now: datetime | None = None
) -> float | None:
    """Return the wait that a response asks for, or None when it asks for none."""
    headers = {name.lower(): value for name, value in headers.items()}
    moment = now or datetime.now(UTC)
    if "retry-after-ms" in headers and (wait := seconds_to_wait(headers["retry-after-ms"], moment)):
        return wait / 1000
    if "retry-after" in headers:
        wait = seconds_to_wait(headers["retry-after"], moment)
        if wait is not None:
            return wait
    waits = [*_resets(headers, moment), *_retry_details(body, moment)]
    return max(waits, default=None)


def quota_left(
    headers: Mapping[str, str], what: str, *, now: datetime | None = None
) -> tuple[float, float] | None:
    """Return how many requests or tokens are left and the seconds until more are, if it is said."""
    for pattern in _QUOTA[what]:
        remaining, reset = headers.get(pattern.format("remaining")), pattern.format("reset")
        if remaining is None:
            continue
        try:
            left = float(remaining)
        except ValueError:
            return None
        return left, seconds_to_wait(headers.get(reset, ""), now or datetime.now(UTC)) or 0.0
    return None


def _resets(headers: Mapping[str, str], now: datetime) -> Iterable[float]:
    """Yield the waits of the quotas that are used up."""
    for name, value in headers.items():
        if "ratelimit" not in name or "reset" not in name:
            continue
        if headers.get(name.replace("reset", "remaining"), "0") != "0":
            continue
        wait = seconds_to_wait(value, now)
        if wait is not None:
            yield wait


def _retry_details(body: JsonValue, now: datetime) -> Iterable[float]:
    """Yield the delays of a Google error body."""
    error = body.get("error", body) if isinstance(body, dict) else {}
    details = error.get("details") if isinstance(error, dict) else None
    for detail in details if isinstance(details, list) else []:
        delay = detail.get("retryDelay") if isinstance(detail, dict) else None
        wait = seconds_to_wait(delay, now) if isinstance(delay, str) else None
        if wait is not None:
            yield wait


def seconds_to_wait(text: str, now: datetime) -> float | None:
    """Read seconds, a duration such as 6m0s, or a moment in any of its usual spellings.

    >>> seconds_to_wait("6m0.5s", datetime(2030, 1, 1, tzinfo=UTC))
    360.5
    """
    text = text.strip()
    try:
        number = float(text)
        if math.isnan(number):
            return None
        # Some gateways give the moment as seconds since 1970, others the same in milliseconds.
        if number > 1e11:
            number /= 1000
        wait = number - now.timestamp() if number > 1e9 else number
        return max(wait, 0.0)
    except ValueError:
        pass
    parts = _DURATION.findall(text)
    if parts and "".join(a + b for a, b in parts) == text:
        return sum(float(count) * _SECONDS[unit] for count, unit in parts)
    return _seconds_until(text, now)


def _seconds_until(text: str, now: datetime) -> float | None:
    for read in (datetime.fromisoformat, parsedate_to_datetime):
        try:
            moment = read(text)
        except (ValueError, TypeError):
            continue
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return max((moment - now).total_seconds(), 0.0)
    return None

"""Requests and tokens per minute: buckets that refill steadily and heed the provider's headers."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime

from krisis.errors import InvalidValue

Clock = Callable[[], float]
BURST_SECONDS = 1.0

_UNIT_SECONDS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")


class Bucket:
    """Lets an amount per minute pass, at an even pace.

    Whoever takes more than there is goes into debt and is told how long to wait, so that the order
    of asking is the order of going. The bucket holds one second's worth: in no minute does more
    pass than one minute and one second allow.
    """

    def __init__(self, per_minute: float, *, clock: Clock = time.monotonic) -> None:
        if not per_minute > 0:
            raise InvalidValue(f"a rate per minute must be more than 0, not {per_minute!r}")
        self._per_second = per_minute / 60.0
        self._capacity = max(1.0, self._per_second * BURST_SECONDS)
        self._clock = clock
        self._level = self._capacity
        self._filled_at = clock()

    def take(self, amount: float) -> float:
        """Take an amount and return the seconds to wait before using it."""
        self._refill()
        self._level -= amount
        return max(0.0, -self._level / self._per_second)

    def correct(self, amount: float) -> None:
        """Charge what was used beyond the estimate; negative gives back."""
        self._level = min(self._capacity, self._level - amount)

    def lower_to(self, remaining: float) -> None:
        """Believe a provider who says that less is left than we think."""
        self._refill()
        self._level = min(self._level, remaining)

    def _refill(self) -> None:
        now = self._clock()
        self._level = min(self._capacity, self._level + (now - self._filled_at) * self._per_second)
        self._filled_at = now


class Pause:
    """A time before which nothing is sent, because the provider said so."""

    def __init__(self, *, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._until = clock()

    def extend(self, seconds: float) -> None:
        """Send nothing for that long from now."""
        self._until = max(self._until, self._clock() + seconds)

    def remaining_seconds(self) -> float:
        """Return how long the pause still lasts."""
        return max(0.0, self._until - self._clock())


def seconds_until_reset(text: str, *, now: datetime | None = None) -> float | None:
    """Read a reset header: seconds, a duration such as 6m0s, or a point in time.

    >>> seconds_until_reset("6m0.5s"), seconds_until_reset("20ms"), seconds_until_reset("soon")
    (360.5, 0.02, None)
    """
    text = text.strip()
    try:
        return max(0.0, float(text))
    except ValueError:
        pass
    parts = _DURATION.findall(text)
    if parts and "".join(number + unit for number, unit in parts) == text:
        return sum(float(number) * _UNIT_SECONDS[unit] for number, unit in parts)
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    at = at if at.tzinfo else at.replace(tzinfo=UTC)
    return max(0.0, (at - (now or datetime.now(UTC))).total_seconds())


# What the providers call it: OpenAI and xAI, Anthropic.
_REMAINING = {
    "requests": ("x-ratelimit-remaining-requests", "anthropic-ratelimit-requests-remaining"),
    "tokens": ("x-ratelimit-remaining-tokens", "anthropic-ratelimit-tokens-remaining"),
}
_RESET = {
    "requests": ("x-ratelimit-reset-requests", "anthropic-ratelimit-requests-reset"),
    "tokens": ("x-ratelimit-reset-tokens", "anthropic-ratelimit-tokens-reset"),
}


def remaining_of(headers: Mapping[str, str], what: str) -> tuple[float, float] | None:
    """Return how many requests or tokens are left and the seconds until more are, if it is said."""
    remaining = _first(headers, _REMAINING[what])
    if remaining is None:
        return None
    try:
        left = float(remaining)
    except ValueError:
        return None
    reset = _first(headers, _RESET[what])
    return left, (seconds_until_reset(reset) or 0.0) if reset else 0.0


def _first(headers: Mapping[str, str], names: tuple[str, ...]) -> str | None:
    return next((headers[name] for name in names if name in headers), None)

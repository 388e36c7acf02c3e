"""What a provider says about its limits: how long to wait, and how much of a quota is left."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from krisis.json_values import JsonValue

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

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from krisis.backends.retry import retry_after_seconds

NOW = datetime(2030, 1, 1, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ({"Retry-After": "2"}, 2.0),
        ({"retry-after": "Tue, 01 Jan 2030 12:00:07 GMT"}, 7.0),
        ({"Retry-After": "Tue, 01 Jan 2030 11:00:00 GMT"}, 0.0),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "0"}, 0.0),
        ({"x-ratelimit-reset-requests": "6m0s", "x-ratelimit-remaining-requests": "0"}, 360.0),
        ({"x-ratelimit-reset-tokens": "120ms", "x-ratelimit-remaining-tokens": "0"}, 0.12),
        ({"x-ratelimit-reset-tokens": "6m0s", "x-ratelimit-remaining-tokens": "17"}, None),
        ({"anthropic-ratelimit-tokens-reset": "2030-01-01T12:00:30Z"}, 30.0),
        ({"x-ratelimit-reset": str(int(NOW.timestamp()) + 5)}, 5.0),
        ({"x-ratelimit-reset": str((int(NOW.timestamp()) + 5) * 1000)}, 5.0),
        ({}, None),
    ],
)
def test_the_wait_is_read_from_the_headers(headers: dict[str, str], expected: float | None) -> None:
    assert retry_after_seconds(headers, now=NOW) == pytest.approx(expected)


def test_the_wait_is_read_from_the_details_of_a_google_error() -> None:
    body = {"error": {"details": [{"@type": "RetryInfo", "retryDelay": "34.5s"}, {"other": 1}]}}
    assert retry_after_seconds({}, body, now=NOW) == 34.5
    assert retry_after_seconds({}, {"error": "text"}, now=NOW) is None

"""Retries: finite, patient, jittered, and only where they can help."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from krisis.backends.retry import (
    LONGEST_RETRY_AFTER_SECONDS,
    RetryPolicy,
    call_with_retries,
)
from krisis.errors import BackendError, InvalidValue, RateLimited, RequestRefused


class Flaky:
    """Fails with the given errors, then succeeds."""

    def __init__(self, *errors: BackendError) -> None:
        self.errors = list(errors)
        self.n_calls = 0

    async def __call__(self) -> str:
        self.n_calls += 1
        if self.errors:
            raise self.errors.pop(0)
        return "reply"


def attempt(call: Flaky, policy: RetryPolicy) -> tuple[str, list[float]]:
    pauses: list[float] = []

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)

    return asyncio.run(call_with_retries(call, policy, sleep=sleep)), pauses


def test_what_may_succeed_is_called_again() -> None:
    call = Flaky(RateLimited("429"), RateLimited("429"))
    reply, pauses = attempt(call, RetryPolicy(max_retries=2, jitter=lambda: 1.0))
    assert (reply, call.n_calls) == ("reply", 3)
    assert pauses == [0.5, 1.0]


def test_the_number_of_retries_is_finite() -> None:
    call = Flaky(*[RateLimited("429") for _ in range(9)])
    with pytest.raises(RateLimited):
        attempt(call, RetryPolicy(max_retries=3, jitter=lambda: 0.0))
    assert call.n_calls == 4


def test_what_cannot_succeed_is_not_called_again() -> None:
    call = Flaky(RequestRefused("400"))
    with pytest.raises(RequestRefused):
        attempt(call, RetryPolicy(max_retries=3))
    assert call.n_calls == 1


def test_a_provider_out_of_quota_is_not_waited_for() -> None:
    error = RateLimited("429", retry_after_seconds=LONGEST_RETRY_AFTER_SECONDS + 1)
    assert not RetryPolicy().allows(error, 0)


@given(
    st.integers(0, 30),
    st.floats(0, 1),
    st.none() | st.floats(0, LONGEST_RETRY_AFTER_SECONDS),
)
def test_a_pause_is_bounded_and_never_shorter_than_asked(
    n_retries: int, drawn: float, asked: float | None
) -> None:
    policy = RetryPolicy(base_seconds=0.5, max_seconds=60.0, jitter=lambda: drawn)
    pause = policy.pause_seconds(RateLimited("429", retry_after_seconds=asked), n_retries)
    assert pause >= (asked or 0.0)
    assert pause <= max(60.0, (asked or 0.0) * 1.25)


def test_full_jitter_draws_from_the_whole_interval() -> None:
    policy = RetryPolicy(base_seconds=8.0, max_seconds=8.0)
    pauses = [policy.pause_seconds(RateLimited("429"), 0) for _ in range(2000)]
    assert 0 <= min(pauses) < 0.4
    assert 7.6 < max(pauses) <= 8.0
    assert abs(sum(pauses) / 2000 - 4.0) < 0.4


def test_a_backend_without_a_policy_is_not_retried() -> None:
    assert RetryPolicy.of(object()).max_retries == 0


def test_negative_numbers_are_refused() -> None:
    with pytest.raises(InvalidValue, match="max_retries=-1"):
        RetryPolicy(max_retries=-1)

"""Requests and tokens per minute in every window, with pauses, on a loop that never waits."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from krisis.errors import BackendError, ProviderUnavailable, RateLimited
from krisis.execution.pacing.budget import Budget, CallSize, Limits
from krisis.execution.pacing.gate import Gate, Usage
from krisis.execution.pacing.rates import TRAVEL_SECONDS
from krisis.execution.stopping import Stop

InVirtualTime = Callable[[Coroutine[Any, Any, Any]], Any]


Sent = list[tuple[float, float]]


async def arrived_at(
    limits: Limits, seconds: float, draw: random.Random, *, n_workers: int, travel_seconds: float
) -> Sent:
    """Return when calls arrived, and the tokens each took, at the least when it was not told.

    The workers are told to pause, fail, retry and stay silent at random; one call in four is up
    to ``travel_seconds`` on its way.
    """
    loop, stop = asyncio.get_running_loop(), Stop()
    budget = Budget(limits, None, stop)
    gate = Gate(limits, budget, stop, max_concurrency=n_workers, clock=loop.time)
    sent: Sent = []

    async def worker() -> None:
        while loop.time() < seconds:
            cap = draw.choice([10, 100, 1000])
            ticket = await gate.enter(CallSize(draw.randint(1, 400), 1, cap))
            n_input = draw.randint(1, int(ticket.held.most.input))
            n_output = draw.choice([0, draw.randint(0, cap), cap])
            await asyncio.sleep(draw.choice([0, 0, 0, draw.uniform(0, travel_seconds)]))
            sent.append((loop.time(), n_input + n_output))
            place = len(sent) - 1
            await asyncio.sleep(draw.expovariate(draw.choice([0.02, 5, 5, 5])))
            kind = draw.random()
            error: BackendError | None = None
            if kind < 0.02:
                pause = draw.choice([0.5, 5.0, 60.0])
                error = RateLimited("429", status=429, retry_after_seconds=pause)
            elif kind < 0.06:
                error = ProviderUnavailable("500", status=500)
            elif kind < 0.1:
                error = ProviderUnavailable("the connection was reset")
            if error is None:
                told = kind > 0.2
                gate.succeeded(ticket, Usage(n_input, n_output) if told else Usage(None, None))
            else:
                gate.failed(ticket, error)
                if error.status is not None:  # the provider says that it did no work
                    sent[place] = sent[place][0], 0
                await gate.sleep(draw.random())

    await asyncio.gather(*(worker() for _ in range(n_workers)))
    return sent


def most_in(sent: Sent, seconds: float) -> float:
    """Return the largest amount within any window of so many seconds."""
    first, most, amount = 0, 0.0, 0.0
    for moment, added in sent:
        amount += added
        while sent[first][0] <= moment - seconds:
            amount -= sent[first][1]
            first += 1
        most = max(most, amount)
    return most


@pytest.mark.parametrize("per_minute", [0.5, 1, 7, 60, 100.5, 600, 3000])
@pytest.mark.parametrize("seed", range(4))
def test_no_window_holds_more_requests_than_its_limit(
    per_minute: float, seed: int, in_virtual_time: InVirtualTime
) -> None:
    draw, limits = random.Random(seed), Limits(requests_per_minute=per_minute)
    n_workers, travel_seconds = draw.choice([1, 8, 100]), seed % 2 * TRAVEL_SECONDS
    sent = in_virtual_time(
        arrived_at(limits, 400.0, draw, n_workers=n_workers, travel_seconds=travel_seconds)
    )
    requests = [(moment, 1.0) for moment, _ in sent]
    assert most_in(requests, 60.0) <= max(1.0, per_minute)
    burst = max(1.0, per_minute / 60)
    assert travel_seconds or most_in(requests, 1.0) <= per_minute / 60 + burst


@pytest.mark.parametrize("per_minute", [300, 2_000, 20_000, 500_000.5])
@pytest.mark.parametrize("seed", range(6))
def test_no_window_holds_more_tokens_than_its_limit(
    per_minute: float, seed: int, in_virtual_time: InVirtualTime
) -> None:
    draw, limits = random.Random(seed), Limits(tokens_per_minute=per_minute)
    n_workers = draw.choice([1, 8, 100])
    sent = in_virtual_time(
        arrived_at(limits, 400.0, draw, n_workers=n_workers, travel_seconds=TRAVEL_SECONDS)
    )
    # A call whose bound alone, 1,656 at most, is above the limit can only be asked to go alone.
    above = 1656 if per_minute < 1656 else 0
    most = most_in(sent, 60.0)
    assert most <= per_minute + above
    if per_minute == 20_000 and n_workers > 1:
        assert most > per_minute / 2  # and the limit is used


def test_after_a_pause_of_a_minute_the_next_minute_keeps_to_the_limit(
    in_virtual_time: InVirtualTime,
) -> None:
    async def story() -> list[float]:
        loop = asyncio.get_running_loop()
        limits, stop = Limits(requests_per_minute=60), Stop()
        budget = Budget(limits, None, stop)
        gate = Gate(limits, budget, stop, max_concurrency=100, clock=loop.time)
        times: list[float] = []

        async def one(number: int) -> None:
            ticket = await gate.enter(CallSize(400, 1, 100))
            times.append(loop.time())
            if number == 0:
                gate.failed(ticket, RateLimited("429", status=429, retry_after_seconds=60.0))
            else:
                gate.succeeded(ticket, Usage(100, 20))

        await asyncio.gather(*(one(number) for number in range(150)))
        return times

    times = in_virtual_time(story())
    assert times[1] - times[0] >= 60.0
    sent = [(moment, 1.0) for moment in times]
    assert (most_in(sent, 60.0), most_in(sent, 1.0)) == (60, 1)


def test_the_limit_is_used(in_virtual_time: InVirtualTime) -> None:
    async def story() -> float:
        loop = asyncio.get_running_loop()
        limits, stop = Limits(requests_per_minute=600), Stop()
        budget = Budget(limits, None, stop)
        gate = Gate(limits, budget, stop, max_concurrency=4, clock=loop.time)
        for _ in range(3000):
            gate.succeeded(await gate.enter(CallSize(400, 1, 100)), Usage(100, 20))
        return loop.time()

    # Five minutes' worth, less the first burst.
    assert 290.0 <= in_virtual_time(story()) <= 301.0

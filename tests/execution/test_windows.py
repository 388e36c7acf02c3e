"""Requests per minute in every window, with pauses, on a loop whose time passes in no time."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from krisis.errors import BackendError, ProviderUnavailable, RateLimited
from krisis.execution.pacing.budget import Asked, Budget, Limits
from krisis.execution.pacing.gate import Gate, Usage
from krisis.execution.stopping import Stop

InVirtualTime = Callable[[Coroutine[Any, Any, Any]], Any]


async def sent_at(
    per_minute: float, seconds: float, draw: random.Random, *, n_workers: int
) -> list[float]:
    """Return when calls were sent, by workers who are told to pause, fail and retry at random."""
    loop = asyncio.get_running_loop()
    limits, stop = Limits(requests_per_minute=per_minute), Stop()
    budget = Budget(limits, None, stop)
    gate = Gate(limits, budget, stop, max_concurrency=n_workers, clock=loop.time)
    times: list[float] = []

    async def worker() -> None:
        while loop.time() < seconds:
            ticket = await gate.enter(Asked(400, 1, 100))
            times.append(loop.time())
            await asyncio.sleep(draw.expovariate(5))
            kind = draw.random()
            error: BackendError | None = None
            if kind < 0.02:
                pause = draw.choice([0.5, 5.0, 60.0])
                error = RateLimited("429", status=429, retry_after_seconds=pause)
            elif kind < 0.06:
                error = ProviderUnavailable("500", status=500)
            if error is None:
                gate.succeeded(ticket, Usage(100, 20))
            else:
                gate.failed(ticket, error)
                await gate.sleep(draw.random())

    await asyncio.gather(*(worker() for _ in range(n_workers)))
    return times


def most_in(times: list[float], seconds: float) -> int:
    """Return the largest number of times within any window of so many seconds."""
    first = most = 0
    for last, moment in enumerate(times):
        while times[first] <= moment - seconds:
            first += 1
        most = max(most, last - first + 1)
    return most


@pytest.mark.parametrize("per_minute", [0.5, 1, 7, 60, 100.5, 600, 3000])
@pytest.mark.parametrize("seed", range(4))
def test_no_window_holds_more_than_its_limit(
    per_minute: float, seed: int, in_virtual_time: InVirtualTime
) -> None:
    draw = random.Random(seed)
    times = in_virtual_time(sent_at(per_minute, 400.0, draw, n_workers=draw.choice([1, 8, 100])))
    assert most_in(times, 60.0) <= max(1.0, per_minute)
    burst = max(1.0, per_minute / 60)
    assert most_in(times, 1.0) <= per_minute / 60 + burst


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
            ticket = await gate.enter(Asked(400, 1, 100))
            times.append(loop.time())
            if number == 0:
                gate.failed(ticket, RateLimited("429", status=429, retry_after_seconds=60.0))
            else:
                gate.succeeded(ticket, Usage(100, 20))

        await asyncio.gather(*(one(number) for number in range(150)))
        return times

    times = in_virtual_time(story())
    assert times[1] - times[0] >= 60.0
    assert (most_in(times, 60.0), most_in(times, 1.0)) == (60, 1)


def test_the_limit_is_used(in_virtual_time: InVirtualTime) -> None:
    async def story() -> float:
        loop = asyncio.get_running_loop()
        limits, stop = Limits(requests_per_minute=600), Stop()
        budget = Budget(limits, None, stop)
        gate = Gate(limits, budget, stop, max_concurrency=4, clock=loop.time)
        for _ in range(3000):
            gate.succeeded(await gate.enter(Asked(400, 1, 100)), Usage(100, 20))
        return loop.time()

    # Five minutes' worth: at 600 in 61 seconds, less the first burst.
    assert 290.0 <= in_virtual_time(story()) <= 306.0

"""Limits that all runs of one account share, on a loop that never waits."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from krisis.backends.compatible import CompatibleBackend
from krisis.backends.openai import OpenAIBackend
from krisis.errors import RateLimited
from krisis.execution.pacing.account import Account, accounts_of
from krisis.execution.pacing.budget import Budget, CallSize, Limits
from krisis.execution.pacing.gate import Gate, Usage
from krisis.execution.pacing.rates import TRAVEL_SECONDS
from krisis.execution.stopping import Stop

InVirtualTime = Callable[[Coroutine[Any, Any, Any]], Any]


def gates_of(limits: Limits, clock: Callable[[], float], n_runs: int) -> list[Gate]:
    """Return the gates of runs that share nothing but their account."""
    account = Account(limits, max_concurrency=8, clock=clock)
    gates = []
    for _ in range(n_runs):
        stop = Stop()
        budget = Budget(limits, None, stop)
        gates.append(Gate(limits, budget, stop, max_concurrency=8, account=account, clock=clock))
    return gates


def most_in(sent: list[tuple[float, float]], seconds: float) -> float:
    """Return the largest amount within any window of so many seconds."""
    sent = sorted(sent)
    return max(
        sum(amount for at, amount in sent[i:] if at < start + seconds)
        for i, (start, _) in enumerate(sent)
    )


async def work(gates: list[Gate], seconds: float, draw: random.Random) -> list[tuple[float, float]]:
    """Send as much as the gates let pass; return when it arrived and the tokens that it took."""
    loop, sent = asyncio.get_running_loop(), []

    async def worker(gate: Gate) -> None:
        while loop.time() < seconds:
            ticket = await gate.enter(CallSize(draw.randint(1, 400), 1, 100))
            n_input = draw.randint(1, int(ticket.held.most.input))
            n_output = draw.randint(0, 100)
            await asyncio.sleep(draw.choice([0, 0, 0, draw.uniform(0, TRAVEL_SECONDS)]))
            sent.append((loop.time(), n_input + n_output))
            await asyncio.sleep(draw.expovariate(2))
            gate.succeeded(ticket, Usage(n_input, n_output))

    await asyncio.gather(*(worker(gate) for gate in gates for _ in range(4)))
    return sent


@pytest.mark.parametrize(
    ("limits", "seed"),
    [
        (Limits(requests_per_minute=30), 0),
        (Limits(tokens_per_minute=20_000), 1),
        (Limits(requests_per_minute=60, tokens_per_minute=30_000), 2),
    ],
)
def test_no_minute_of_three_runs_holds_more_than_the_limit(
    limits: Limits, seed: int, in_virtual_time: InVirtualTime
) -> None:
    async def story() -> list[tuple[float, float]]:
        clock = asyncio.get_running_loop().time
        return await work(gates_of(limits, clock, 3), 130, random.Random(seed))

    sent = in_virtual_time(story())
    requests = limits.requests_per_minute or 10**9
    tokens = limits.tokens_per_minute or 10**9
    n_most = most_in([(at, 1) for at, _ in sent], 60.0)
    assert n_most <= requests
    assert most_in(sent, 60.0) <= tokens
    # Two thirds of what was allowed was used: a limit that lets nothing pass is no limit.
    used = len(sent) / (requests * 130 / 60), sum(n for _, n in sent) / (tokens * 130 / 60)
    assert max(used) > 2 / 3


def test_a_pause_and_an_overload_of_one_run_hold_for_the_others(
    in_virtual_time: InVirtualTime,
) -> None:
    async def story() -> tuple[float, int, int]:
        clock = asyncio.get_running_loop().time
        one, other = gates_of(Limits(), clock, 2)
        other.succeeded(await other.enter(CallSize(10, 1, 10)), Usage(1, 1))
        ticket = await one.enter(CallSize(10, 1, 10))
        one.failed(ticket, RateLimited("429", status=429, retry_after_seconds=30.0))
        await other.enter(CallSize(10, 1, 10))
        return clock(), one.concurrency.limit, other.concurrency.limit

    waited, mine, theirs = in_virtual_time(story())
    assert waited == 30.0
    assert (mine, theirs) == (4, 4)


def test_accounts_are_told_apart_by_address_and_key_and_leave_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    key = "sk-planted-0123456789abcdef"
    mine = OpenAIBackend("m", api_key=key, base_url="http://127.0.0.1:1/v1")
    same = OpenAIBackend("n", api_key=key, base_url="http://127.0.0.1:1/v1/")
    other = OpenAIBackend("m", api_key=key + "x", base_url="http://127.0.0.1:1/v1")
    server = CompatibleBackend("m", base_url="http://127.0.0.1:1/v1", api_key=key)
    given = OpenAIBackend("m", client=object())
    limits = [Limits(requests_per_minute=n) for n in (60, 30, 10, None, None)]
    backends = [mine, same, other, server, given]
    wanted = list(zip(backends, limits, [1, 4, 1, 1, 1], strict=True))
    accounts = accounts_of(wanted)
    assert accounts[0] is accounts[1]
    assert len(set(accounts)) == 4
    assert accounts[0]._requests is not None
    assert accounts[0]._requests._limit == 30.0
    assert accounts[0].concurrency._upper == 4
    assert list(tmp_path.iterdir()) == []
    assert mine.account(b"a salt") == same.account(b"a salt") != mine.account(b"another")
    assert key not in mine.account(b"a salt")

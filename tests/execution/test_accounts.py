"""Limits that all processes of one account share, on clocks of the test's own and on real ones."""

from __future__ import annotations

import asyncio
import json
import os
import random
import sqlite3
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest

from krisis.backends.compatible import CompatibleBackend
from krisis.backends.openai import OpenAIBackend
from krisis.backends.scripted import ScriptedBackend
from krisis.errors import RateLimited
from krisis.execution.pacing.account import LOOK_SECONDS, Account, open_account, open_accounts
from krisis.execution.pacing.budget import Asked, Budget, Limits
from krisis.execution.pacing.gate import Gate, Usage
from krisis.execution.pacing.rates import TRAVEL_SECONDS, Rate
from krisis.execution.pacing.shared import LEASE_SECONDS, LimitsFile, SharedLimits
from krisis.execution.stopping import Stop

InVirtualTime = Callable[[Coroutine[Any, Any, Any]], Any]
HERE = Path(__file__).parent


def gate_of(path: Path, limits: Limits, clock: Callable[[], float], *, n: int = 8) -> Gate:
    """Return the gate of a process of its own: all that it shares with another is the file."""
    stated = limits.requests_per_minute, limits.tokens_per_minute
    shared = SharedLimits(LimitsFile(path), "account", stated, clock=clock)
    account = Account(limits, max_concurrency=n, clock=clock, shared=shared)
    stop = Stop()
    budget = Budget(limits, None, stop)
    return Gate(limits, budget, stop, max_concurrency=n, account=account, clock=clock)


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
            ticket = await gate.enter(Asked(draw.randint(1, 400), 1, 100))
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
def test_no_minute_of_three_processes_holds_more_than_the_limit(
    limits: Limits, seed: int, tmp_path: Path, in_virtual_time: InVirtualTime
) -> None:
    async def story() -> list[tuple[float, float]]:
        clock = asyncio.get_running_loop().time
        gates = [gate_of(tmp_path / "limits.sqlite", limits, clock) for _ in range(2)]
        # The third states no limit, and keeps to the one of the others.
        gates.append(gate_of(tmp_path / "limits.sqlite", Limits(), clock))
        return await work(gates, 130, random.Random(seed))

    sent = in_virtual_time(story())
    requests = limits.requests_per_minute or 10**9
    tokens = limits.tokens_per_minute or 10**9
    n_most = most_in([(at, 1) for at, _ in sent], 60.0)
    assert n_most <= requests
    assert most_in(sent, 60.0) <= tokens
    # Two thirds of what was allowed was used: a limit that lets nothing pass is no limit.
    used = len(sent) / (requests * 130 / 60), sum(n for _, n in sent) / (tokens * 130 / 60)
    assert max(used) > 2 / 3


def test_a_pause_and_an_overload_of_one_process_are_heeded_by_the_others(
    tmp_path: Path, in_virtual_time: InVirtualTime
) -> None:
    async def story() -> tuple[float, int, int]:
        clock = asyncio.get_running_loop().time
        one, other = (gate_of(tmp_path / "limits.sqlite", Limits(), clock) for _ in range(2))
        other.succeeded(await other.enter(Asked(10, 1, 10)), Usage(1, 1))
        ticket = await one.enter(Asked(10, 1, 10))
        one.failed(ticket, RateLimited("429", status=429, retry_after_seconds=30.0))
        await asyncio.sleep(LOOK_SECONDS)
        await other.enter(Asked(10, 1, 10))
        return clock(), one.concurrency.limit, other.concurrency.limit

    waited, mine, theirs = in_virtual_time(story())
    assert 29.9 <= waited <= 31.0
    assert (mine, theirs) == (4, 4)


class Clock:
    """A clock that stands still until it is moved."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_the_limit_of_a_process_that_died_ends_with_its_lease(tmp_path: Path) -> None:
    clock, path = Clock(), tmp_path / "limits.sqlite"
    SharedLimits(LimitsFile(path), "account", (6.0, None), clock=clock)  # and is killed
    alive = SharedLimits(LimitsFile(path), "account", (None, None), clock=clock)
    other = SharedLimits(LimitsFile(path), "another account", (None, None), clock=clock)
    assert alive.look().is_limited
    assert not other.look().is_limited
    assert isinstance(alive.admit(1, 1), tuple)
    assert isinstance(alive.admit(1, 1), float)
    clock.now += LEASE_SECONDS + 1
    assert not alive.look().is_limited
    # A limit that is withdrawn binds nobody from then on.
    ending = SharedLimits(LimitsFile(path), "account", (6.0, None), clock=clock)
    assert alive.look().is_limited
    ending.close()
    assert not alive.look().is_limited


def test_what_was_written_before_a_restart_of_the_machine_holds_nobody_back(
    tmp_path: Path,
) -> None:
    clock, path = Clock(), tmp_path / "limits.sqlite"
    before = SharedLimits(LimitsFile(path), "account", (1.0, None), clock=clock)
    assert isinstance(before.admit(1, 1), tuple)
    before.pause(500.0)
    clock.now = 3.0
    after = SharedLimits(LimitsFile(path), "account", (1.0, None), clock=clock)
    assert after.look().pause_seconds == 0.0
    clock.now = 63.0
    assert isinstance(after.admit(1, 1), tuple)


def test_a_call_counts_for_what_it_took_once_that_is_known(tmp_path: Path) -> None:
    clock, path = Clock(), tmp_path / "limits.sqlite"
    one, other = (
        SharedLimits(LimitsFile(path), "account", (None, 600.0), clock=clock) for _ in range(2)
    )
    first = one.admit(10, 590)
    assert isinstance(first, tuple)
    clock.now += 5
    assert isinstance(other.admit(10, 100), float)  # it may still take 590 of 600
    one.settle(first, 400)
    clock.now += 40  # until then the even pace of 10 in a second makes up for the 400
    assert isinstance(other.admit(10, 201), float)
    assert isinstance(other.admit(10, 200), tuple)
    clock.now += 20.5  # the 400 left the window, the 200 did not
    assert isinstance(one.admit(10, 401), float)
    assert isinstance(one.admit(10, 400), tuple)


def test_a_state_that_is_written_and_read_is_the_same_but_for_a_moment() -> None:
    clock = Clock()
    rate = Rate(600.0, clock=clock)
    for _ in range(40):
        rate.settle(rate.take())
        clock.now += 0.1
    open_one = rate.take(5, 300)
    again = Rate(600.0, clock=clock)
    again.read(rate.written())
    assert len(rate.written()) < 8 * (2 + 3 * 22)  # 41 calls in 4 seconds are 17 entries
    again.settle(again.found(open_one), 7)
    rate.settle(open_one, 7)
    for amount in (1.0, 500.0, 560.0, 600.0):
        assert abs(rate.wait_seconds(1, amount) - again.wait_seconds(1, amount)) <= 0.25


def test_keys_are_in_no_file_and_accounts_are_told_apart(
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
    accounts = open_accounts(wanted)
    assert accounts[0] is accounts[1]
    assert len(set(accounts)) == 4
    assert accounts[0]._requests is not None
    assert accounts[0]._requests._limit == 30.0
    assert accounts[0].concurrency._upper == 4
    for account in set(accounts):
        account.close()
    (folder,) = tmp_path.iterdir()
    assert (folder / "limits.sqlite").exists()
    for path in folder.iterdir():
        assert key.encode() not in path.read_bytes()
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    file = LimitsFile(folder / "limits.sqlite")
    assert len(file.salt) == 32
    assert mine.account(file.salt) != mine.account(b"another")
    file.close()


def test_a_file_that_cannot_be_used_leaves_the_limits_within_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "krisis").mkdir()
    (tmp_path / "krisis" / "limits.sqlite").write_text("this is not a database " * 100)
    backend = OpenAIBackend("m", api_key="sk-0123456789", base_url="http://127.0.0.1:1/v1")
    with pytest.warns(UserWarning, match="limits are kept within this command"):
        account = open_account(backend, Limits(requests_per_minute=6), max_concurrency=2)
    budget = Budget(Limits(), None, Stop())
    gate = Gate(Limits(), budget, Stop(), max_concurrency=2, account=account)

    async def story() -> None:
        await gate.enter(Asked(1, 1, 1))
        async with asyncio.timeout(0.05):
            await gate.enter(Asked(1, 1, 1))

    with pytest.raises(TimeoutError):  # the second waits for its minute all the same
        asyncio.run(story())


def test_a_file_that_another_process_holds_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "limits.sqlite"
    gate = gate_of(path, Limits(requests_per_minute=600), time.monotonic)
    holder = sqlite3.connect(path, isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")

    async def story() -> float:
        began = time.monotonic()
        asyncio.get_running_loop().call_later(0.2, holder.execute, "ROLLBACK")
        await gate.enter(Asked(1, 1, 1))
        await gate.enter(Asked(1, 1, 1))
        return time.monotonic() - began

    assert asyncio.run(story()) >= 0.15
    holder.close()


def test_a_backend_without_a_provider_touches_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    open_account(ScriptedBackend([]), Limits(requests_per_minute=6), max_concurrency=2).close()
    assert list(tmp_path.iterdir()) == []


# A minute that lasts four seconds, on a machine that may be too busy to send anything for as long.
QUICK = """
import sys
from krisis.execution.pacing import account, rates
rates.MINUTE_SECONDS, rates.TRAVEL_SECONDS, rates.BURST_SECONDS = 4.0, 30.0, 0.1
account.LOOK_SECONDS = 0.1
"""
WORKER = """
sys.path.insert(0, sys.argv.pop(1))
import run_worker
run_worker.main()
"""


@pytest.mark.slow
def test_a_server_sees_no_more_than_the_limit_when_one_of_two_processes_is_killed(
    tmp_path: Path, loopback: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    server = loopback(latency=0.02)
    processes = []
    for name in ("one", "other"):
        options = {"out": str(tmp_path / name), "base_url": server.base_url, "n": 80}
        options |= {"limits": {"requests_per_minute": 40}, "max_concurrency": 16}
        words = [sys.executable, "-c", QUICK + WORKER, str(HERE), json.dumps(options)]
        processes.append(subprocess.Popen(words, env=os.environ, stdout=subprocess.PIPE, text=True))
    while len(server.counts()["arrivals"]) < 90:
        time.sleep(0.05)
    processes[1].kill()
    codes = [(process.communicate(timeout=120), process.returncode)[1] for process in processes]
    assert codes == [0, -9]
    assert most_in([(at, 1) for at in server.counts()["arrivals"]], 4.0) <= 40

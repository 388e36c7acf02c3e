"""Slots, rates, pauses, budget and prices, on a clock of the test's own."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import pytest

from krisis.backends.openai import OpenAIBackend
from krisis.backends.retry import quota_left, retry_after_seconds, seconds_to_wait
from krisis.errors import (
    BackendError,
    CallTimedOut,
    InvalidFile,
    InvalidValue,
    MalformedReply,
    ProviderUnavailable,
    RateLimited,
    Unreachable,
)
from krisis.execution.assembly import assemble
from krisis.execution.config import checked_config
from krisis.execution.pacing.budget import Budget, CallSize, Limits, Reservation, Tokens
from krisis.execution.pacing.concurrency import START, AdaptiveConcurrency
from krisis.execution.pacing.gate import Gate, Usage
from krisis.execution.pacing.prices import Price, price_for, price_of, read_prices
from krisis.execution.pacing.rates import Pause, Rate
from krisis.execution.stopping import FailureLimit, Stop, StopRequested
from krisis.metrics.base import EvaluationResult
from krisis.results.stops import (
    AccountRefused,
    BudgetReached,
    Interrupted,
    StopCause,
    TooManyFailures,
)


class Clock:
    """A clock that stands still until it is moved."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


async def fill(slots: AdaptiveConcurrency) -> list[int]:
    return [await slots.acquire() for _ in range(slots.limit - slots.in_flight)]


async def round_trip(slots: AdaptiveConcurrency) -> None:
    """Fill every slot, and let every call succeed."""
    await fill(slots)
    for _ in range(slots.in_flight):
        slots.succeeded()
        slots.release()
        await fill(slots)  # there is always more to send
    while slots.in_flight:
        slots.release()


def test_slow_start_about_doubles_per_round_and_stops_at_the_upper_bound() -> None:
    async def story() -> list[int]:
        slots = AdaptiveConcurrency(100)
        seen = [slots.limit]
        for _ in range(5):
            await round_trip(slots)
            seen.append(slots.limit)
        return seen

    seen = asyncio.run(story())
    assert seen[:3] == [START, 2 * START, 4 * START]
    assert seen[-1] == 100


def test_unused_room_does_not_grow() -> None:
    async def story() -> int:
        slots = AdaptiveConcurrency(100)
        for _ in range(50):
            await slots.acquire()
            slots.succeeded()
            slots.release()
        return slots.limit

    assert asyncio.run(story()) == START


def test_a_rate_limit_halves_once_per_era_and_growth_is_slow_afterwards() -> None:
    async def story() -> list[int]:
        slots = AdaptiveConcurrency(100)
        eras = await fill(slots)
        for era in eras:
            slots.limited(era)  # all of them answer the same overload
        seen = [slots.limit]
        for _ in eras:
            slots.release()
        await round_trip(slots)
        seen.append(slots.limit)
        slots.limited(await slots.acquire())
        seen.append(slots.limit)
        return seen

    half = START // 2
    assert asyncio.run(story()) == [half, half, half // 2]


def test_the_limit_never_falls_below_one() -> None:
    async def story() -> int:
        slots = AdaptiveConcurrency(2)
        for _ in range(5):
            slots.limited(await slots.acquire())
            slots.release()
        return slots.limit

    assert asyncio.run(story()) == 1


def test_waiters_go_in_the_order_in_which_they_came() -> None:
    async def story() -> list[str]:
        slots = AdaptiveConcurrency(1)
        order: list[str] = []

        async def one(name: str) -> None:
            await slots.acquire()
            order.append(name)
            await asyncio.sleep(0)
            slots.release()

        await asyncio.gather(*(one(name) for name in "abcd"))
        assert slots.in_flight == 0
        return order

    assert asyncio.run(story()) == list("abcd")


def test_a_cancelled_waiter_takes_no_slot_with_it() -> None:
    async def story() -> int:
        slots = AdaptiveConcurrency(1)
        await slots.acquire()
        waiter = asyncio.create_task(slots.acquire())
        await asyncio.sleep(0)
        slots.release()  # the slot is given to the waiter, who is cancelled before it runs
        waiter.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiter
        return slots.in_flight

    assert asyncio.run(story()) == 0


def test_a_rate_lets_through_at_an_even_pace() -> None:
    clock = Clock()
    rate = Rate(60, clock=clock)
    assert rate.wait_seconds() == 0.0
    rate.take()
    assert rate.wait_seconds() == 1.0
    clock.now = 0.75
    assert rate.wait_seconds() == 0.25


def test_who_takes_more_than_a_second_is_worth_leaves_a_debt() -> None:
    clock = Clock()
    rate = Rate(600, clock=clock)
    assert rate.wait_seconds(50) == 0.0  # it is full, and can never hold more than 10
    rate.take(50)
    assert rate.wait_seconds(1) == pytest.approx(4.1)


def test_a_rate_is_corrected_by_use_and_by_headers() -> None:
    clock = Clock()
    rate = Rate(600, clock=clock)
    rate.settle(rate.take(10, 50), 6)
    assert rate.wait_seconds(4) == 0.0
    clock.now = 10.0
    rate.lower_to(0)
    assert rate.wait_seconds(1) == pytest.approx(0.1)
    with pytest.raises(InvalidValue):
        Rate(0)


def test_a_pause_is_only_ever_extended() -> None:
    clock = Clock()
    pause = Pause(clock=clock)
    pause.extend(5)
    pause.extend(2)
    clock.now = 1.0
    assert pause.remaining_seconds() == 4.0


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("1.5", 1.5), ("6m0s", 360.0), ("20ms", 0.02), ("1h2m3s", 3723.0), ("", None), ("x", None)],
)
def test_reset_headers_in_all_their_spellings(text: str, seconds: float | None) -> None:
    assert seconds_to_wait(text, datetime.now(UTC)) == seconds


def test_a_reset_header_may_be_a_point_in_time() -> None:
    now = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert seconds_to_wait("2026-01-02T03:04:35Z", now) == 30.0
    assert seconds_to_wait("2026-01-02T03:04:00", now) == 0.0


@pytest.mark.parametrize(
    ("reset", "seconds"),
    [("1.65", 1.65), ("1767323047", 2.0), ("1767323047000", 2.0), ("2d", 172800.0)],
)
def test_a_failed_call_and_a_reply_read_one_reset_header_alike(reset: str, seconds: float) -> None:
    now = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    headers = {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": reset}
    assert quota_left(headers, "requests", now=now) == (0.0, seconds)
    assert retry_after_seconds(headers, now=now) == seconds


def test_what_is_left_is_read_from_the_headers_of_either_family() -> None:
    openai = {"x-ratelimit-remaining-requests": "3", "x-ratelimit-reset-requests": "2s"}
    anthropic = {"anthropic-ratelimit-tokens-remaining": "70"}
    assert quota_left(openai, "requests") == (3.0, 2.0)
    assert quota_left(anthropic, "tokens") == (70.0, 0.0)
    assert quota_left(openai, "tokens") is None
    assert quota_left({"x-ratelimit-remaining-tokens": "many"}, "tokens") is None


def gate(limits: Limits, stop: Stop | None = None, price: Price | None = None) -> Gate:
    stop = stop or Stop()
    return Gate(limits, Budget(limits, price, stop), stop, max_concurrency=4)


def test_retry_after_holds_everybody_back() -> None:
    async def story() -> float:
        held = gate(Limits())
        first = await held.enter(CallSize(40, 1))
        held.failed(first, RateLimited("429", status=429, retry_after_seconds=0.15))
        loop = asyncio.get_running_loop()
        started = loop.time()
        await held.enter(CallSize(40, 1))
        return loop.time() - started

    assert asyncio.run(story()) >= 0.15


def test_headers_that_say_nothing_is_left_pause_the_run() -> None:
    async def story() -> float:
        held = gate(Limits(requests_per_minute=60_000, tokens_per_minute=6_000_000))
        first = await held.enter(CallSize(40, 1))
        headers = {"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "150ms"}
        held.succeeded(first, Usage(10, 10, headers))
        loop = asyncio.get_running_loop()
        started = loop.time()
        await held.enter(CallSize(40, 1))
        return loop.time() - started

    assert asyncio.run(story()) >= 0.15


def test_a_quota_that_is_used_up_ends_the_run_instead_of_hanging_it() -> None:
    async def story() -> StopCause | None:
        stop = Stop()
        held = gate(Limits(), stop)
        first = await held.enter(CallSize(40, 1))
        with pytest.raises(StopRequested):
            held.failed(first, RateLimited("429", status=429, retry_after_seconds=7200.0))
        assert held.concurrency.in_flight == 0
        return stop.cause

    cause = asyncio.run(story())
    assert isinstance(cause, AccountRefused)
    assert "2.0 hours" in cause.sentence


def test_an_overloaded_provider_halves_the_slots_but_a_crash_does_not() -> None:
    async def story(status: int) -> int:
        held = gate(Limits())
        held.failed(await held.enter(CallSize(0, 1)), ProviderUnavailable("gone", status=status))
        return held.concurrency.limit

    assert [asyncio.run(story(status)) for status in (500, 503, 529)] == [4, 2, 2]


def reserved(budget: Budget, *calls: CallSize) -> list[Reservation]:
    async def story() -> list[Reservation]:
        return [await budget.reserve(call) for call in calls]

    return asyncio.run(story())


# 300 bytes of its own, 344 of instructions and 256 for a frame: 900 tokens of input at most.
CALL = CallSize(300, 1, 100, "i" * 344)


def test_the_budget_sets_aside_a_token_per_byte_until_a_reply_proves_less() -> None:
    budget = Budget(Limits(), None, Stop())
    (first, second) = reserved(budget, CALL, CALL)
    assert first.most == second.most == Tokens(900, 100)
    assert first.lowered_cap is None
    budget.settle(first, 200, 10)
    # The instructions took no more than 200, in whatever text is to come with them.
    (third,) = reserved(budget, CALL)
    assert third.most == Tokens(500, 100)
    (other,) = reserved(budget, CallSize(300, 1, 100, "I" * 344))
    assert other.most == Tokens(900, 100)


def test_the_first_call_of_a_bounded_run_goes_alone() -> None:
    async def story(limits: Limits) -> list[bool]:
        budget = Budget(limits, None, Stop())
        first = await budget.reserve(CALL)
        others = [asyncio.create_task(budget.reserve(CALL)) for _ in range(3)]
        await asyncio.sleep(0)
        gone = [any(one.done() for one in others)]
        budget.settle(first, 0, 0)  # even one that failed: a dead provider is not asked in a row
        await asyncio.gather(*others)
        return [*gone, all(one.done() for one in others)]

    assert asyncio.run(story(Limits(max_tokens=1_000_000))) == [False, True]
    assert asyncio.run(story(Limits())) == [True, True]


def test_a_call_that_took_more_than_its_bound_raises_all_others_and_those_in_progress() -> None:
    budget = Budget(Limits(), None, Stop())
    first, second = reserved(budget, CALL, CALL)
    budget.settle(first, 3000, 10)  # 2,100 tokens that nobody sent
    assert second.most == Tokens(3000, 100) == budget._held
    (third,) = reserved(budget, CALL)
    assert third.most == Tokens(3000, 100)
    assert budget.settle(second, None, 5) == Tokens(3000, 0)


def test_a_call_that_does_not_fit_waits_for_calls_in_progress() -> None:
    async def story() -> tuple[bool, Tokens]:
        budget = Budget(Limits(max_tokens=1600), None, Stop())
        budget.settle(await budget.reserve(CALL), 600, 10)
        first = await budget.reserve(CALL)
        waiting = asyncio.create_task(budget.reserve(CALL))
        await asyncio.sleep(0)
        waited = not waiting.done()
        budget.settle(first, 80, 10)
        return waited, (await waiting).most

    assert asyncio.run(story()) == (True, Tokens(380, 100))


def test_the_last_call_is_sent_with_the_cap_that_is_left_and_then_the_run_stops() -> None:
    stop = Stop()
    budget = Budget(Limits(max_tokens=980), None, stop)
    (last,) = reserved(budget, CALL)
    assert (last.most, last.lowered_cap) == (Tokens(900, 80), 80)
    budget.settle(last, 900, 70)
    with pytest.raises(StopRequested):
        reserved(budget, CALL)
    assert isinstance(stop.cause, BudgetReached)
    assert stop.cause.sentence == (
        "the next call may take 970 tokens and could exceed the budget (max_tokens 980)"
    )


def test_a_cap_is_not_lowered_below_what_replies_need() -> None:
    budget = Budget(Limits(max_tokens=1200), None, Stop())
    (first,) = reserved(budget, CALL)
    budget.settle(first, 400, 90)
    with pytest.raises(StopRequested):  # 710 are left: 700 for the input, 10 for an answer of 90
        reserved(budget, CALL)


def test_tokens_that_nobody_reported_are_charged_at_their_bound() -> None:
    budget = Budget(Limits(), None, Stop())
    first, second = reserved(budget, CALL, CALL)
    assert budget.settle(first, None, None) == Tokens(900, 100)
    assert budget.settle(second, 7, None) == Tokens(0, 100)
    assert budget._paid == Tokens(907, 200)


def test_the_budget_learns_the_output_from_replies() -> None:
    budget = Budget(Limits(), None, Stop())
    (first,) = reserved(budget, CallSize(0, 2))
    budget.settle(first, 50, 20)
    assert budget.expected(CallSize(0, 4)).output == 40.0


def test_a_cost_bound_counts_earlier_sessions_and_needs_a_price() -> None:
    budget = Budget(Limits(max_cost=1.0), Price(1.0, 1.0), Stop())
    budget.start_from(900_000, 99_600)
    with pytest.raises(StopRequested):
        reserved(budget, CALL)
    with pytest.raises(InvalidValue, match="price table"):
        Budget(Limits(max_cost=1.0), None, Stop())


def test_prices_are_read_from_a_table_and_found_by_pattern(tmp_path: Path) -> None:
    table = tmp_path / "prices.yaml"
    table.write_text("openai/gpt-5: {input: 1.25, output: 10}\n'openai/*': {input: 1, output: 2}\n")
    prices = read_prices(table)
    assert price_for("openai/gpt-5", prices) == Price(1.25, 10)
    assert price_for("openai/other", prices) == Price(1, 2)
    assert price_for("anthropic/x", prices) is None
    assert Price(1.25, 10).cost(1_000_000, 100_000) == 2.25


def test_a_list_price_is_for_the_providers_own_address_and_gives_way_to_the_users() -> None:
    own = OpenAIBackend("gpt-5-mini", api_key="k")
    elsewhere = OpenAIBackend("gpt-5-mini", api_key="k", base_url="http://127.0.0.1:1/v1")
    given = {"openai/*": Price(1, 1)}
    assert price_of(own, {}) == Price(0.25, 2.0)
    assert price_of(elsewhere, {}) is None
    assert price_of(own, given) == price_of(elsewhere, given) == Price(1, 1)
    assert price_of(OpenAIBackend("unheard-of", api_key="k"), {}) is None


@pytest.mark.parametrize("text", ["[1]", "a: 1", "a: {input: 1}", "a: {input: -1, output: 2}", "{"])
def test_a_bad_price_table_is_refused(tmp_path: Path, text: str) -> None:
    table = tmp_path / "prices.yaml"
    table.write_text(text)
    with pytest.raises((InvalidFile, InvalidValue)):
        read_prices(table)


@pytest.mark.parametrize(
    "limits",
    [
        {"requests_per_minute": 0},
        {"timeout_seconds": -1},
        {"max_tokens": True},
        {"max_failures": -1},
    ],
)
def test_limits_that_make_no_sense_are_refused(limits: dict[str, float]) -> None:
    with pytest.raises(InvalidValue):
        Limits(**limits)  # type: ignore[arg-type]


def failing(n: int) -> list[EvaluationResult]:
    return [EvaluationResult(None, 0, error="timeout: x")] * n


def test_a_run_ends_when_it_cannot_stay_under_its_share_of_failures() -> None:
    stop = Stop()
    limit = FailureLimit(0.05, n_cases=100, stop=stop)
    limit.observe([EvaluationResult(0, 0)] * 50 + failing(5))
    assert stop.cause is None
    limit.observe(failing(1))
    assert stop.cause is not None
    assert isinstance(stop.cause, TooManyFailures)
    assert "6 of 56 records got no answer" in stop.cause.sentence


def test_a_hopeless_run_ends_before_the_share_is_used_up() -> None:
    stop = Stop()
    limit = FailureLimit(0.05, n_cases=100_000, stop=stop)
    limit.observe(failing(19))
    assert stop.cause is None
    limit.observe(failing(1))
    assert stop.cause is not None


def test_one_or_more_is_a_number_of_failures() -> None:
    stop = Stop()
    limit = FailureLimit(2, n_cases=100, stop=stop)
    limit.observe(failing(2))
    assert stop.cause is None
    limit.observe(failing(1))
    assert stop.cause is not None


def test_a_sleeper_wakes_when_the_end_is_asked_for() -> None:
    async def story() -> float:
        stop = Stop()
        loop = asyncio.get_running_loop()
        stop.bind(loop)
        loop.call_later(0.02, stop.request, Interrupted("enough"))
        started = loop.time()
        with pytest.raises(StopRequested):
            await stop.sleep(30)
        return loop.time() - started

    assert asyncio.run(story()) < 5


def test_who_waits_for_a_slot_is_not_sent_into_a_pause() -> None:
    async def story() -> float:
        held = gate(Limits())
        under_way = [await held.enter(CallSize(0, 1)) for _ in range(4)]
        loop = asyncio.get_running_loop()
        queued = asyncio.create_task(held.enter(CallSize(0, 1)))
        await asyncio.sleep(0)  # it has passed the pause and stands in the queue for a slot
        started = loop.time()
        for ticket in under_way:
            held.failed(ticket, RateLimited("429", status=429, retry_after_seconds=0.15))
        await queued
        return loop.time() - started

    assert asyncio.run(story()) >= 0.15


def test_who_waits_for_a_slot_is_not_sent_after_the_end_was_asked_for() -> None:
    async def story() -> tuple[list[object], int]:
        stop = Stop()
        held = gate(Limits(), stop)
        under_way = [await held.enter(CallSize(0, 1)) for _ in range(4)]
        queued = [asyncio.create_task(held.enter(CallSize(0, 1))) for _ in range(6)]
        await asyncio.sleep(0)
        stop.request(Interrupted("enough"))
        for ticket in under_way:
            held.succeeded(ticket, Usage(1, 1))
        ends = await asyncio.gather(*queued, return_exceptions=True)
        return [type(end) for end in ends], held.concurrency.in_flight

    assert asyncio.run(story()) == ([StopRequested] * 6, 0)


def test_who_leaves_the_queue_gives_its_share_of_the_budget_back() -> None:
    async def story() -> Tokens:
        stop = Stop()
        held = gate(Limits(requests_per_minute=1), stop)
        first = await held.enter(CALL)
        queued = asyncio.create_task(held.enter(CALL))
        await asyncio.sleep(0)
        stop.request(Interrupted("enough"))
        held.failed(first, ProviderUnavailable("gone", status=500))
        with pytest.raises(StopRequested):
            await queued
        return held.budget._held

    assert asyncio.run(story()) == Tokens()


@pytest.mark.parametrize(
    ("error", "assumed"),
    [
        (CallTimedOut("late"), Tokens(900, 100)),
        (ProviderUnavailable("cut"), Tokens(900, 100)),
        (ProviderUnavailable("answered 500", status=500), Tokens()),
        (Unreachable("nothing listens"), Tokens()),
        (RateLimited("429", status=429), Tokens()),
        (MalformedReply("empty", input_tokens=9, output_tokens=1), Tokens()),
    ],
)
def test_a_call_without_an_answer_is_charged_where_it_may_be_billed(
    error: BackendError, assumed: Tokens
) -> None:
    async def story() -> Tokens:
        held = gate(Limits())
        return held.failed(await held.enter(CALL), error)

    assert asyncio.run(story()) == assumed


def test_the_longest_wait_of_a_run_is_that_of_its_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    asked = {"suite": "ckd", "model": "openai/m", "limit": 1, "timeout_seconds": 900}
    backend = assemble(checked_config(asked, "here")).backend
    assert isinstance(backend, OpenAIBackend)
    assert backend.timeout_seconds == 900

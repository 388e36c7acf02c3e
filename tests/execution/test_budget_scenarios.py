"""`max_cost` and `max_tokens` are bounds: 200 random providers, none paid more."""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from typing import Any

import pytest
from tests.documents import said

from krisis import Benchmark, PatientRecord
from krisis.backends.chat import ChatBackend, ChatReply, ChatRequest
from krisis.backends.elicitation import Asking, Elicitation
from krisis.backends.prompt import IN_THE_USUAL_WAY
from krisis.data.base import FeatureDescription, RecordListSuite, Task
from krisis.errors import ProviderUnavailable
from krisis.execution.options import Execution
from krisis.execution.pacing.budget import Limits
from krisis.execution.pacing.prices import Price
from krisis.metrics import Accuracy
from krisis.results.base import BenchmarkResult
from krisis.results.stops import BudgetReached

PRICE = Price(2.0, 10.0)
TASK = Task(
    name="parity",
    question="Is the serial marker odd?",
    answers={0: "even", 1: "odd"},
    features={
        "marker": FeatureDescription("serial marker"),
        "note": FeatureDescription("note of the ward"),
    },
)


@dataclass
class Scenario:
    """How a provider behaves and how it is asked."""

    draw: random.Random

    def __post_init__(self) -> None:
        draw = self.draw
        self.n_records = draw.randint(20, 150)
        self.batch_size = draw.choice([1, 1, 4, 8])
        self.n_workers = draw.choice([1, 3, 8, 30, 100])
        self.cap = draw.choice([None, None, 64, 500, 4000, 8000])
        self.small, self.large = sorted((draw.randint(1, 8000), draw.randint(1, 8000)))
        self.shape = draw.choice(["even", "ramp", "step"])
        self.share_silent = draw.choice([0.0, 0.0, 0.2, 1.0])
        self.share_lost = draw.choice([0.0, 0.0, 0.05])
        # A byte may be a token from the beginning, or suddenly later: figures, letters of Asia.
        self.bytes_per_token = draw.choice([1.0, draw.uniform(1.0, 5.0), 4.0])
        self.n_calls_of_prose = draw.choice([0, 20, 60, 1000])
        self.n_added = draw.choice([0, 7, 256])
        self.says_zero = False
        self.longest_note = draw.choice([0, 100, 1000])
        typical = PRICE.cost(500, (self.small + self.large) / 2) * self.n_records
        self.max_cost = typical * draw.choice([0.02, 0.1, 0.5, 1.5])

    def records(self) -> list[PatientRecord]:
        """Return records of which some have long notes, in letters of three bytes."""
        notes = ["腎" * self.draw.randint(0, self.longest_note) for _ in range(self.n_records)]
        return [
            PatientRecord({"marker": i, "note": notes[i]}, 1, record_id=f"r{i}")
            for i in range(self.n_records)
        ]

    def n_wanted(self, n_calls: int, n_records: int) -> int:
        """Return how long the model would like to answer."""
        if self.shape == "even":
            return self.draw.randint(self.small, self.large)
        if self.shape == "ramp":
            share = min(1.0, n_calls / 50)
            return round(self.small + share * (self.large - self.small))
        return self.small if n_calls < 20 else self.large


class RandomProvider(ChatBackend):
    """Bills what it wrote, whether or not it says so or its reply arrives."""

    name = provider = "random"
    model = "m"
    retry_base_seconds = 0.1

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.n_calls = 0
        self.n_input = 0
        self.n_output = 0
        self.caps: list[int] = []
        # By what requests share: what it can take at most, as far as replies have told.
        self.most_shared: dict[str, int] = {}
        self.most_own = 0

    def parameters(self, n_records: int) -> dict[str, Any]:
        return {"max_tokens": self.scenario.cap or 2048 + 512 * n_records}

    async def complete(self, request: ChatRequest) -> ChatReply:
        scenario, draw = self.scenario, self.scenario.draw
        self.n_calls += 1
        cap = request.parameters["max_tokens"]
        wanted = scenario.n_wanted(self.n_calls, request.n_records)
        n_input, n_output = self.count_input(request), min(wanted, cap)
        await asyncio.sleep(draw.expovariate(1))
        self.n_input += n_input
        self.n_output += n_output
        self.caps.append(cap)
        if draw.random() < scenario.share_lost:
            raise ProviderUnavailable("the connection was reset")
        silent = draw.random() < scenario.share_silent
        if not silent:
            shared = self.instructions(request)
            self.most_shared[shared] = min(self.most_shared[shared], n_input)
        text = answers(request)
        return ChatReply(
            text if wanted <= cap else text[: len(text) // 2],
            "stop" if wanted <= cap else "length",
            input_tokens=None if silent else n_input * (not scenario.says_zero),
            output_tokens=None if silent else n_output * (not scenario.says_zero),
        )

    def count_input(self, request: ChatRequest) -> int:
        """Count as a tokenizer would for which prose is light, and the patient's text may not be.

        The same instructions are the same tokens, whatever comes with them.
        """
        scenario = self.scenario
        turns = [text for role, text in request.turns if role == "user"]
        # A reply that is shown again takes no more tokens than it took to write.
        n_said = sum(
            min(len(said), request.parameters["max_tokens"]) for _, said in request.history
        )
        shared, own = self.instructions(request).encode(), "".join(turns).encode() + b"x" * n_said
        self.most_shared.setdefault(self.instructions(request), len(shared) + 256)
        self.most_own = max(self.most_own, len(own))
        is_dense = self.n_calls > scenario.n_calls_of_prose
        n_own = len(own) if is_dense else int(len(own) / scenario.bytes_per_token)
        return int(len(shared) / scenario.bytes_per_token) + scenario.n_added + n_own


def answers(request: ChatRequest) -> str:
    one: dict[str, Any] = {"abstained": False, "prediction": 1, "confidence": 0.9}
    if "probability" in str(request.schema):
        one = {"probability": 0.8}
    if request.mode == "single":
        return json.dumps(one)
    return json.dumps({"results": [{"id": f"case_{i}", **one} for i in range(request.n_records)]})


async def run(
    scenario: Scenario, limits: Limits, asking: Asking = IN_THE_USUAL_WAY
) -> tuple[BenchmarkResult, RandomProvider]:
    provider = RandomProvider(scenario)
    provider.asking = asking
    benchmark = Benchmark(
        RecordListSuite(scenario.records(), TASK),
        provider,
        [Accuracy()],
        batch_size=scenario.batch_size,
        max_concurrency=scenario.n_workers,
        execution=Execution(limits=limits, prices={"random/*": PRICE}),
    )
    return await benchmark.run_async(), provider


InVirtualTime = Callable[[Coroutine[Any, Any, Any]], Any]


@pytest.mark.parametrize("seeds", [range(80), pytest.param(range(80, 200), marks=pytest.mark.slow)])
def test_no_provider_that_respects_its_cap_is_paid_more_than_the_bound(
    seeds: range, in_virtual_time: InVirtualTime
) -> None:
    n_stopped = n_unfinished = 0
    for seed in seeds:
        scenario = Scenario(random.Random(seed))
        limits = Limits(max_cost=scenario.max_cost, timeout_seconds=None)
        result, provider = in_virtual_time(run(scenario, limits))
        billed = PRICE.cost(provider.n_input, provider.n_output)
        assert billed <= scenario.max_cost, seed
        took = result.spending
        counted = took.cost if took.cost_unknown is None else took.cost_at_most
        assert counted is not None
        assert billed <= counted + 1e-12 <= scenario.max_cost + 1e-12, seed
        assert (took.cost is None) == (took.n_calls_without_usage > 0)
        assert took.n_api_calls == provider.n_calls
        if result.stop is None:
            assert len(result.evaluation_results) == scenario.n_records
            continue
        assert isinstance(result.stop, BudgetReached), seed
        n_stopped += 1
        n_unfinished += not provider.caps
        if provider.caps:  # what is left is less than what the next call can take
            own_cap = scenario.cap or 2048 + 512 * scenario.batch_size
            n_input = max(provider.most_shared.values()) + provider.most_own
            assert scenario.max_cost - counted < PRICE.cost(n_input, own_cap), seed
    assert n_stopped > len(seeds) / 2
    assert n_unfinished < 5  # nearly every budget was large enough for a call


@pytest.mark.parametrize("way", ["p-true", "two-step"])
@pytest.mark.parametrize("seeds", [range(20), pytest.param(range(20, 120), marks=pytest.mark.slow)])
def test_answers_in_two_calls_stay_below_the_bound_and_none_is_left_half_asked(
    seeds: range, way: str, in_virtual_time: InVirtualTime
) -> None:
    """What the second call can take is set aside before the first is sent."""
    n_stopped = 0
    for seed in seeds:
        scenario = Scenario(random.Random(seed))
        scenario.share_lost = 0.0  # a call that is lost, or cut by its cap, is asked again
        scenario.shape, scenario.cap = "even", 9000
        limits = Limits(max_cost=scenario.max_cost, timeout_seconds=None)
        asking = Asking(elicit=Elicitation.parsed(way))
        result, provider = in_virtual_time(run(scenario, limits, asking))
        assert PRICE.cost(provider.n_input, provider.n_output) <= scenario.max_cost, seed
        n_stopped += isinstance(result.stop, BudgetReached)
        if min(provider.caps, default=0) == 9000:  # none was lowered, so that none was cut
            n_rows = len(result.evaluation_results)
            n_batches = -(-n_rows // scenario.batch_size)
            assert provider.n_calls == 2 * n_batches, seed
    assert n_stopped > len(seeds) / 2


def reliable() -> Scenario:
    """Return a provider of short answers in English that always says what they took."""
    scenario = Scenario(random.Random(0))
    scenario.n_records, scenario.batch_size, scenario.n_workers = 100, 1, 100
    scenario.cap, scenario.shape, scenario.share_silent = None, "even", 0.0
    scenario.share_lost, scenario.small, scenario.large = 0.0, 10, 20
    scenario.longest_note, scenario.n_added, scenario.n_calls_of_prose = 0, 7, 1000
    scenario.bytes_per_token = 4.0
    return scenario


@pytest.mark.parametrize("way", ["p-true", "two-step"])
def test_a_budget_with_room_for_one_call_more_begins_no_answer_in_two(
    way: str, in_virtual_time: InVirtualTime
) -> None:
    asking, n_calls = Asking(elicit=Elicitation.parsed(way)), set()
    for max_tokens in range(6000, 24_000, 1000):
        scenario = reliable()
        scenario.n_records, scenario.n_workers, scenario.cap = 4, 1, 3500
        scenario.small = scenario.large = 3000
        result, provider = in_virtual_time(run(scenario, Limits(max_tokens=max_tokens), asking))
        assert provider.n_input + provider.n_output <= max_tokens
        n_more = provider.n_calls - 2 * len(result.evaluation_results)
        # Begun on trust with less than it needs, the last reply may be cut, and the run ends.
        assert n_more == 0 or provider.caps[-1] < 3000, max_tokens
        n_calls.add(provider.n_calls)
        if result.stop is not None and not result.evaluation_results and not provider.n_calls:
            (stated,) = re.findall(r"in two calls, may take ([\d,]+) tokens", str(result.stop))
            assert int(stated.replace(",", "")) > max_tokens
    assert n_calls >= {2, 4}


def test_a_small_budget_is_used_up_instead_of_stopping_at_the_calls_in_progress(
    in_virtual_time: InVirtualTime,
) -> None:
    scenario = reliable()
    result, provider = in_virtual_time(run(scenario, Limits(max_tokens=4000)))
    used = provider.n_input + provider.n_output
    assert isinstance(result.stop, BudgetReached)
    # The input of one more call, a token for each byte of the patient's, and an answer of 20.
    last = max(provider.most_shared.values()) + provider.most_own + 20
    assert 4000 - last <= used <= 4000
    assert last < 600
    assert min(provider.caps) < 2560  # the last caps were lowered to what was left


def test_a_usage_of_zero_is_unknown_and_charged_at_its_bound(
    in_virtual_time: InVirtualTime,
) -> None:
    scenario = reliable()
    scenario.n_records, scenario.says_zero = 200, True
    result, provider = in_virtual_time(run(scenario, Limits(max_tokens=5000)))
    assert isinstance(result.stop, BudgetReached)
    assert provider.n_input + provider.n_output <= 5000
    assert provider.n_calls < 10
    assert result.spending.n_calls_without_usage == provider.n_calls
    # One of the two counts is unknown whatever the other says.
    reply = ChatReply("{}", "stop", input_tokens=0, output_tokens=0)
    assert (reply.input_tokens, reply.output_tokens) == (None, None)


def test_a_budget_below_a_token_for_every_byte_begins_on_trust_and_is_kept(
    in_virtual_time: InVirtualTime, monkeypatch: pytest.MonkeyPatch
) -> None:
    long = replace(TASK, question="Is the serial marker, as the laboratory prints it, odd? " * 50)
    monkeypatch.setattr(f"{__name__}.TASK", long)
    scenario = reliable()
    result, provider = in_virtual_time(run(scenario, Limits(max_tokens=3050)))
    assert len(long.question) + 256 > 3050  # in bytes, not even the first call would fit
    assert isinstance(result.stop, BudgetReached)
    assert (provider.n_calls, len(result.evaluation_results)) == (3, 3)
    assert provider.n_input + provider.n_output <= 3050
    scenario.n_records = 1
    nothing, provider = in_virtual_time(run(scenario, Limits(max_tokens=1500)))
    assert provider.n_calls == 0
    assert nothing.stop is not None
    assert "the next call may take 1," in nothing.stop.sentence


def test_a_reply_cut_by_the_budget_is_no_failed_record(in_virtual_time: InVirtualTime) -> None:
    scenario = Scenario(random.Random(0))
    scenario.n_records, scenario.batch_size, scenario.n_workers = 10, 1, 1
    scenario.cap, scenario.shape, scenario.share_silent = 4000, "even", 0.0
    scenario.share_lost, scenario.small, scenario.large = 0.0, 3000, 3000
    result, provider = in_virtual_time(run(scenario, Limits(max_tokens=2500)))
    assert (len(result.evaluation_results), provider.n_calls) == (0, 1)
    assert isinstance(result.stop, BudgetReached)
    assert "too little for the next reply" in result.stop.sentence
    assert result.spending.lost_output_tokens == provider.n_output > 0


@pytest.mark.parametrize("bound", ["max_tokens", "max_cost"])
def test_a_provider_that_never_reports_tokens_is_charged_at_the_cap(
    bound: str, in_virtual_time: InVirtualTime
) -> None:
    scenario = Scenario(random.Random(1))
    scenario.n_records, scenario.batch_size, scenario.n_workers = 400, 1, 50
    scenario.cap, scenario.share_silent, scenario.share_lost = 500, 1.0, 0.0
    limits = Limits(max_tokens=5000) if bound == "max_tokens" else Limits(max_cost=0.02)
    result, provider = in_virtual_time(run(scenario, limits))
    assert 0 < provider.n_calls < 10
    took = result.spending
    assert took.cost is None
    assert took.cost_at_most is not None
    assert took.cost_at_most >= PRICE.cost(provider.n_input, provider.n_output)
    n = f"{provider.n_calls} of {provider.n_calls} calls did not report their tokens"
    assert f"unknown, at most {took.cost_at_most:.3f}: {n}" in said(result.document())

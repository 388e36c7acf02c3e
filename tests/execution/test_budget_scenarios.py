"""`max_cost` and `max_tokens` are bounds: 200 random providers, none paid more."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any

import pytest

from krisis import Benchmark, PatientRecord
from krisis.backends.chat import ChatBackend, ChatReply, ChatRequest
from krisis.data.base import FeatureDescription, RecordListSuite, Task
from krisis.errors import ProviderUnavailable
from krisis.execution.options import Execution
from krisis.execution.pacing.budget import Limits
from krisis.execution.pacing.prices import Price
from krisis.metrics import Accuracy
from krisis.results.base import BenchmarkResult
from krisis.results.report import format_report
from krisis.results.stops import BudgetReached

PRICE = Price(2.0, 10.0)
TASK = Task(
    name="parity",
    question="Is the serial marker odd?",
    answers={0: "even", 1: "odd"},
    features={"marker": FeatureDescription("serial marker")},
    abstain_when="Abstain when there is no marker.",
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
        self.bytes_per_token = draw.uniform(2.6, 5.0)
        typical = PRICE.cost(500, (self.small + self.large) / 2) * self.n_records
        self.max_cost = typical * draw.choice([0.02, 0.1, 0.5, 1.5])

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
        self.most_input = 0
        self.caps: list[int] = []

    def parameters(self, n_records: int) -> dict[str, Any]:
        return {"max_tokens": self.scenario.cap or 2048 + 512 * n_records}

    async def complete(self, request: ChatRequest) -> ChatReply:
        scenario, draw = self.scenario, self.scenario.draw
        self.n_calls += 1
        cap = request.parameters["max_tokens"]
        wanted = scenario.n_wanted(self.n_calls, request.n_records)
        n_text = len(request.system.encode()) + len(request.user.encode())
        n_input, n_output = round(n_text / scenario.bytes_per_token), min(wanted, cap)
        await asyncio.sleep(draw.expovariate(1))
        self.n_input += n_input
        self.n_output += n_output
        self.most_input = max(self.most_input, n_input)
        self.caps.append(cap)
        if draw.random() < scenario.share_lost:
            raise ProviderUnavailable("the connection was reset")
        silent = draw.random() < scenario.share_silent
        text = answers(request)
        return ChatReply(
            text if wanted <= cap else text[: len(text) // 2],
            "stop" if wanted <= cap else "length",
            input_tokens=None if silent else n_input,
            output_tokens=None if silent else n_output,
        )


def answers(request: ChatRequest) -> str:
    one = {"abstained": False, "prediction": 1, "confidence": 0.9}
    if request.mode == "single":
        return json.dumps(one)
    return json.dumps({"results": [{"id": f"case_{i}", **one} for i in range(request.n_records)]})


async def run(scenario: Scenario, limits: Limits) -> tuple[BenchmarkResult, RandomProvider]:
    provider = RandomProvider(scenario)
    records = [
        PatientRecord({"marker": i}, 1, record_id=f"r{i}") for i in range(scenario.n_records)
    ]
    benchmark = Benchmark(
        RecordListSuite(records, TASK),
        provider,
        [Accuracy()],
        batch_size=scenario.batch_size,
        max_concurrency=scenario.n_workers,
        execution=Execution(limits=limits, prices={"random/*": PRICE}),
    )
    return await benchmark.run_async(), provider


InVirtualTime = Callable[[Coroutine[Any, Any, Any]], Any]


def test_no_provider_that_respects_its_cap_is_paid_more_than_the_bound(
    in_virtual_time: InVirtualTime,
) -> None:
    n_stopped = n_unfinished = 0
    for seed in range(200):
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
        own_cap = scenario.cap or 2048 + 512 * scenario.batch_size
        n_input = max(provider.most_input * 1.6, 1500)
        assert scenario.max_cost - counted < PRICE.cost(n_input, own_cap), seed
    assert n_stopped > 100
    assert n_unfinished < 5  # nearly every budget was large enough for a call


def test_a_small_budget_is_used_up_instead_of_stopping_at_the_calls_in_progress(
    in_virtual_time: InVirtualTime,
) -> None:
    scenario = Scenario(random.Random(0))
    scenario.n_records, scenario.batch_size, scenario.n_workers = 100, 1, 100
    scenario.cap, scenario.shape, scenario.share_silent = None, "even", 0.0
    scenario.share_lost, scenario.small, scenario.large = 0.0, 10, 20
    result, provider = in_virtual_time(run(scenario, Limits(max_tokens=4000)))
    used = provider.n_input + provider.n_output
    assert isinstance(result.stop, BudgetReached)
    assert 4000 - 1.5 * provider.most_input - 20 <= used <= 4000
    assert min(provider.caps) < 2560  # the last caps were lowered to what was left


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
    assert f"unknown, at most {took.cost_at_most:.3f}: {n}" in format_report(result)

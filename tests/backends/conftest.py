"""A small task, and every provider in front of llmock, for the tests of the backends."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from llmock.testing import LLMockServer

from krisis.backends.anthropic import AnthropicBackend
from krisis.backends.api import APIBackend
from krisis.backends.compatible import CompatibleBackend
from krisis.backends.gemini import GeminiBackend
from krisis.backends.grok import GrokBackend
from krisis.backends.openai import OpenAIBackend
from krisis.backends.provider import ProviderBackend
from krisis.data.base import FeatureDescription, PatientRecord, RecordListSuite, Task


def staging_task() -> Task:
    return Task(
        name="staging",
        question="Which stage of chronic kidney disease does the patient have?",
        answers={1: "eGFR of 90 or more", 2: "60 to 89", 3: "30 to 59", 4: "15 to 29", 5: "below"},
        features={
            "sc": FeatureDescription("serum creatinine", "mg/dL", "a waste product of muscle"),
            "htn": FeatureDescription("hypertension", values={0: "no", 1: "yes"}),
            "hemo": FeatureDescription("haemoglobin", "g/dL"),
        },
        aliases={"stage 3": 3, "g3a": 3, "g3b": 3},
        ordered=True,
    )


@pytest.fixture
def task() -> Task:
    return staging_task()


@pytest.fixture
def records() -> list[PatientRecord]:
    return [
        PatientRecord({"sc": 2.41, "htn": 1, "hemo": 10.0}, 3, {"egfr": 31.77}),
        PatientRecord({"sc": 0.93, "htn": 0, "hemo": None}, 1, {"egfr": 96.25}),
        PatientRecord({"sc": 6.87, "htn": 1, "hemo": 8.35}, 5, {"egfr": 8.58}),
    ]


@pytest.fixture
def suite(records: list[PatientRecord], task: Task) -> RecordListSuite:
    return RecordListSuite(records, task)


# Backend → the dialect of llmock that it is pointed at.
PROVIDERS: dict[type[ProviderBackend], str] = {
    OpenAIBackend: "openai",
    AnthropicBackend: "anthropic",
    GeminiBackend: "gemini",
    GrokBackend: "xai",
    APIBackend: "openai",
    CompatibleBackend: "openai",
}


@pytest.fixture(scope="module")
def _server() -> Iterator[LLMockServer]:
    with LLMockServer() as server:
        yield server


@pytest.fixture
def server(_server: LLMockServer) -> LLMockServer:
    _server.state.scenarios.clear()
    _server.state.journal.clear()
    return _server


@pytest.fixture(params=list(PROVIDERS), ids=lambda kind: kind.name)
def backend(
    request: pytest.FixtureRequest, server: LLMockServer, suite: RecordListSuite
) -> Iterator[ProviderBackend]:
    kind: type[ProviderBackend] = request.param
    made = kind(
        "some-model",
        base_url=server.base_url(PROVIDERS[kind]),
        api_key="sk-secret-1234567890",
        retry_base_seconds=0.01,
        max_retries=3,
        timeout_seconds=20,
    )
    made.prepare(suite)
    yield made
    made.close()

"""What the wire tests share: the providers in front of llmock, and how each is told to answer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from llmock.scenarios import Reply
from llmock.testing import LLMockServer

from krisis.backends.anthropic import AnthropicBackend
from krisis.backends.api import APIBackend
from krisis.backends.compatible import CompatibleBackend
from krisis.backends.gemini import GeminiBackend
from krisis.backends.grok import GrokBackend
from krisis.backends.openai import OpenAIBackend
from krisis.backends.provider import ProviderBackend

# Backend → the dialect of llmock that it is pointed at.
PROVIDERS: dict[type[ProviderBackend], str] = {
    OpenAIBackend: "openai",
    AnthropicBackend: "anthropic",
    GeminiBackend: "gemini",
    GrokBackend: "xai",
    APIBackend: "openai",
    CompatibleBackend: "openai",
}


def answer(prediction: int | None = 3, **members: Any) -> dict[str, Any]:
    return {"abstained": False, "prediction": prediction, "confidence": 0.8, **members}


def single(prediction: int | None = 3, **members: Any) -> Reply:
    return Reply(text=json.dumps(answer(prediction, **members)))


def batch(n_records: int, prediction: int = 3) -> Reply:
    rows = [{"id": f"case_{i}", **answer(prediction)} for i in range(n_records)]
    return Reply(text=json.dumps({"results": rows}))


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
    request: pytest.FixtureRequest, server: LLMockServer, suite: Any
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

"""The chat contract: build a request from features, let a provider complete it, read the reply."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from krisis.backends.base import BackendResponse, BaseBackend
from krisis.data.base import content_hash

PromptMode = Literal["single", "batch"]


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """One provider call, complete but for the key: what it contains is what identifies it.

    ``template`` is the same text with every patient value redacted; it is built beside the prompt,
    not cut out of it, and is what a run stores.
    """

    provider: str
    model: str
    system: str
    user: str
    schema: Mapping[str, Any]
    parameters: Mapping[str, Any]
    mode: PromptMode
    template: str
    n_records: int
    base_url: str = ""
    sample_index: int = 0

    def key(self) -> str:
        """Hash everything that can change the answer."""
        return content_hash(
            [
                self.provider,
                self.base_url,
                self.model,
                self.system,
                self.user,
                self.schema,
                self.parameters,
                self.sample_index,
            ]
        )


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """One generated token with its log-probability and the likeliest alternatives."""

    token: str
    logprob: float
    top: tuple[tuple[str, float], ...] = ()


@dataclass(slots=True)
class ChatReply:
    """What a provider returned for one request, before anything is believed of it."""

    text: str
    finish_reason: str = ""
    model: str = ""
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None
    logprobs: tuple[TokenLogprob, ...] = ()
    headers: Mapping[str, str] = field(default_factory=dict)
    latency_seconds: float | None = None


class ChatBackend(BaseBackend):
    """A backend that talks to a model in three steps, so that the engine can stand between them.

    `build` turns features into a request (it never sees a label), `complete` is the provider's one
    method and makes exactly one call, `read` turns the reply into checked responses. Cache, limits,
    retries and journal belong to the engine.
    """

    provider: str = ""
    model: str = ""
    max_retries: int = 5
    retry_base_seconds: float = 0.5
    retry_max_seconds: float = 60.0

    @abstractmethod
    def build(
        self,
        cases: Sequence[Mapping[str, Any]],
        *,
        mode: PromptMode,
        sample_index: int = 0,
        context: str = "",
    ) -> ChatRequest:
        """Return the request that puts the features of these cases to the model.

        ``context`` is patient text that the cases share; it is shown once, and redacted in the
        template like every feature value.
        """

    @abstractmethod
    async def complete(self, request: ChatRequest) -> ChatReply:
        """Make one provider call; raise a `BackendError` when it gives no reply."""

    @abstractmethod
    def read(self, request: ChatRequest, reply: ChatReply) -> list[BackendResponse]:
        """Return one response per case, in the order of the request; else `MalformedReply`."""

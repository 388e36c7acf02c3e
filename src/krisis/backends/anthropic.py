"""Claude models of Anthropic."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Unpack

from krisis.backends.batch_api import (
    BatchApi,
    BatchState,
    ErrorResult,
    NotAnswered,
    Sighting,
    json_lines,
)
from krisis.backends.chat import ChatReply, ChatRequest
from krisis.backends.dialects import Dialect, schema_in_words
from krisis.backends.provider import CallOptions, ProviderBackend
from krisis.backends.response_fields import Members, read_body
from krisis.errors import InvalidValue
from krisis.json_values import JsonMapping, JsonObject

# The types of errors and the statuses that ordinary calls have for them:
# https://platform.claude.com/docs/en/api/errors
_STATUS = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "billing_error": 402,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "api_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}


class AnthropicBatches(BatchApi):
    """Message Batches of Anthropic; they have no metadata, so the names of requests tell them.

    A list shows when a batch was made and how many requests it has. Names are seen once it has
    ended, so a batch that may be the one looked for is known for sure only then.
    """

    # 100,000 requests and 256 MB, kept 29 days:
    # https://platform.claude.com/docs/en/build-with-claude/batch-processing
    most_bytes = 256_000_000
    backend: AnthropicBackend

    def __init__(self, backend: AnthropicBackend) -> None:
        super().__init__(backend)
        self._others: set[tuple[str, str]] = set()  # read once, and not what was looked for

    def entry(self, key: str, request: ChatRequest, dialect: Dialect) -> JsonObject:
        """Return a request of the batch."""
        return {"custom_id": key, "params": self.backend.body(request, dialect)}

    async def _submit(self, marker: str, entries: Sequence[JsonObject]) -> str:
        return str((await self.client.messages.batches.create(requests=entries)).id)

    async def _state(self, batch_id: str) -> BatchState:
        batch = await self.client.messages.batches.retrieve(batch_id)
        counts = batch.request_counts
        n_finished = counts.succeeded + counts.errored + counts.canceled + counts.expired
        words, has_ended = batch.processing_status, batch.processing_status == "ended"
        return BatchState(words, has_ended, n_finished if has_ended else None)

    async def _find(self, marker: str, since: float, n_requests: int) -> Sighting:
        is_certain = True
        async for batch in self.client.messages.batches.list(limit=100):
            if batch.created_at.timestamp() < since:  # the newest come first
                break
            seen = (marker, str(batch.id))
            n_found = sum(batch.request_counts.to_dict().values())
            if n_found != n_requests or seen in self._others:
                continue
            if batch.processing_status != "ended":
                is_certain = False
            elif any(self.key_of(one).startswith(marker) for one in await self._results(batch.id)):
                return Sighting(str(batch.id))
            else:
                self._others.add(seen)
        return Sighting(is_certain=is_certain)

    async def _results(self, batch_id: str) -> Iterable[JsonMapping]:
        results = self.client.messages.batches.with_streaming_response.results(batch_id)
        async with results as response:
            return list(json_lines(await response.read()))

    async def _cancel(self, batch_id: str) -> None:
        await self.client.messages.batches.cancel(batch_id)

    def key_of(self, result: JsonMapping) -> str:
        """Return the custom id."""
        return str(result.get("custom_id") or "")

    def is_answer(self, result: JsonMapping) -> bool:
        """Say whether the request succeeded."""
        return _result(result).get("type") == "succeeded"

    def _reply(self, result: JsonMapping) -> ChatReply:
        found = _result(result)
        if self.is_answer(result) and isinstance(found.get("message"), dict):
            return _reply(found["message"], {})
        if found.get("type") in ("canceled", "expired"):
            raise NotAnswered(f"the provider batch ended before this request ({found['type']})")
        error = found.get("error")
        error = error.get("error", error) if isinstance(error, dict) else error
        kind = error.get("type") if isinstance(error, dict) else None
        raise ErrorResult(_STATUS.get(str(kind), 500), error)


def _result(result: JsonMapping) -> JsonMapping:
    found = result.get("result")
    return found if isinstance(found, dict) else {}


class AnthropicBackend(ProviderBackend):
    """Models of Anthropic; its key is read from ``ANTHROPIC_API_KEY``.

    The API gives no log-probabilities and takes no temperature. A classifier of the provider that
    stops an answer is a withheld answer, not an abstention of the model.
    """

    name = "anthropic"
    provider = "anthropic"
    sdk = "anthropic"
    extra = "anthropic"
    key_variables = ("ANTHROPIC_API_KEY",)
    batch_api = AnthropicBatches
    dialects = ("json_schema", "text")

    def __init__(
        self, model: str, *, max_tokens: int | None = None, **options: Unpack[CallOptions]
    ) -> None:
        if options.get("temperature") is not None:
            raise InvalidValue(
                f"the backend 'anthropic' takes no temperature, received "
                f"{options['temperature']!r}; leave it out"
            )
        # The SDK would follow this variable silently; here the run records where it asked.
        address = options.get("base_url") or os.environ.get("ANTHROPIC_BASE_URL", "")
        options = {**options, "base_url": address, "top_logprobs": 0}
        super().__init__(model, max_tokens, options)

    def make_client(self, key: str, http: Any) -> Any:
        """Return a client whose own retries are off."""
        from anthropic import AsyncAnthropic

        return AsyncAnthropic(
            api_key=key,
            base_url=self.base_url or None,
            timeout=self.timeout_seconds,
            max_retries=0,
            http_client=http,
        )

    async def call(self, client: Any, request: ChatRequest, dialect: Dialect) -> ChatReply:
        """Ask for one message."""
        raw = await client.messages.with_raw_response.create(**self.body(request, dialect))
        return _reply(read_body(await raw.read(), "message"), raw.headers)

    def body(self, request: ChatRequest, dialect: Dialect) -> JsonObject:
        """Return what is sent, in an ordinary call and in a provider batch alike."""
        parameters = dict(request.parameters)
        effort = parameters.pop("reasoning_effort", None)
        output = {"effort": effort} if effort else {}
        if dialect == "json_schema":
            output["format"] = {"type": "json_schema", "schema": _accepted(request.schema)}
        return {
            "model": request.model,
            "system": request.system if dialect == "json_schema" else schema_in_words(request),
            "messages": [{"role": role, "content": text} for role, text in request.turns],
            **parameters,
            **({"output_config": output} if output else {}),
        }


def _accepted(schema: JsonMapping) -> JsonObject:
    from anthropic import transform_schema

    return transform_schema(dict(schema))  # moves bounds and lengths into the descriptions


def _reply(message: JsonMapping, headers: Mapping[str, str]) -> ChatReply:
    read = Members()
    usage = read.object(message, "usage")
    fresh = read.count(usage, "input_tokens")
    cached = read.count(usage, "cache_read_input_tokens") or 0
    written = read.count(usage, "cache_creation_input_tokens") or 0
    reason = read.text(message, "stop_reason")
    return ChatReply(
        text=_text(message.get("content")),
        finish_reason="content_filter" if reason == "refusal" else reason,
        model=read.text(message, "model"),
        # Tokens read from and written to the cache are input too, counted apart by the provider.
        input_tokens=None if fresh is None else fresh + cached + written,
        output_tokens=read.count(usage, "output_tokens"),
        cached_tokens=cached,
        reasoning_tokens=read.count(read.object(usage, "output_tokens_details"), "thinking_tokens"),
        headers=dict(headers),
        n_dropped_fields=read.n_dropped,
    )


def _text(content: Any) -> str:
    parts = content if isinstance(content, list) else []
    texts = (part.get("text") for part in parts if isinstance(part, Mapping))
    return "".join(text for text in texts if isinstance(text, str))

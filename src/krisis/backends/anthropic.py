"""Claude models of Anthropic."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Unpack

from krisis.backends.chat import ChatReply, ChatRequest
from krisis.backends.dialects import Dialect, schema_in_words
from krisis.backends.members import Members, read_body
from krisis.backends.provider import CallOptions, ProviderBackend
from krisis.errors import InvalidValue
from krisis.json_values import JsonMapping, JsonObject


class AnthropicBackend(ProviderBackend):
    """Models of Anthropic; the key stands in ``ANTHROPIC_API_KEY``.

    The API gives no log-probabilities and takes no temperature. A classifier of the provider that
    stops an answer is a withheld answer, not an abstention of the model.
    """

    name = "anthropic"
    provider = "anthropic"
    sdk = "anthropic"
    extra = "anthropic"
    key_variables = ("ANTHROPIC_API_KEY",)
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
        parameters = dict(request.parameters)
        effort = parameters.pop("reasoning_effort", None)
        output = {"effort": effort} if effort else {}
        if dialect == "json_schema":
            output["format"] = {"type": "json_schema", "schema": _accepted(request.schema)}
        raw = await client.messages.with_raw_response.create(
            model=request.model,
            system=request.system if dialect == "json_schema" else schema_in_words(request),
            messages=[{"role": "user", "content": request.user}],
            **parameters,
            **({"output_config": output} if output else {}),
        )
        return _reply(read_body(await raw.read(), "message"), raw.headers)


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

"""Claude models of Anthropic."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Unpack

from krisis.backends.chat import ChatReply, ChatRequest
from krisis.backends.dialects import Dialect, schema_in_words
from krisis.backends.provider import CallOptions, ProviderBackend
from krisis.errors import InvalidValue, ProviderUnavailable
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

    def make_client(self, key: str) -> Any:
        """Return a client whose own retries are off."""
        from anthropic import AsyncAnthropic

        return AsyncAnthropic(
            api_key=key,
            base_url=self.base_url or None,
            timeout=self.timeout_seconds,
            max_retries=0,
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
        return _reply(_members(await raw.parse()), raw.headers)


def _members(message: Any) -> JsonObject:
    if not hasattr(message, "model_dump"):  # a gateway's web page
        raise ProviderUnavailable("the server answered with something that is not a message")
    members: JsonObject = message.model_dump()
    return members


def _accepted(schema: JsonMapping) -> JsonObject:
    from anthropic import transform_schema

    return transform_schema(dict(schema))  # moves bounds and lengths into the descriptions


def _reply(message: JsonMapping, headers: Mapping[str, str]) -> ChatReply:
    usage = message.get("usage") or {}
    cached = usage.get("cache_read_input_tokens") or 0
    reason = message.get("stop_reason") or ""
    return ChatReply(
        text="".join(part.get("text") or "" for part in message.get("content") or []),
        finish_reason="content_filter" if reason == "refusal" else reason,
        model=message.get("model") or "",
        # Tokens read from and written to the cache are input too, counted apart by the provider.
        input_tokens=(usage.get("input_tokens") or 0)
        + cached
        + (usage.get("cache_creation_input_tokens") or 0),
        output_tokens=usage.get("output_tokens"),
        cached_tokens=cached,
        reasoning_tokens=(usage.get("output_tokens_details") or {}).get("thinking_tokens"),
        headers=dict(headers),
    )

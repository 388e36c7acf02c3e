"""OpenAI, and by another address every server that speaks its chat completions."""

from __future__ import annotations

import os
from typing import Any, ClassVar, Unpack

from krisis.backends.chat import ChatReply, ChatRequest
from krisis.backends.completion import reply_from_completion
from krisis.backends.dialects import Dialect, schema_in_words
from krisis.backends.members import read_body
from krisis.backends.provider import CallOptions, ProviderBackend
from krisis.json_values import JsonObject


class OpenAIFamilyBackend(ProviderBackend):
    """A server that speaks OpenAI's chat completions, called through the openai SDK."""

    sdk = "openai"
    extra = "openai"

    def make_client(self, key: str, http: Any) -> Any:
        """Return a client whose own retries are off."""
        from openai import AsyncOpenAI

        return AsyncOpenAI(
            api_key=key or "none",
            base_url=self.base_url or None,
            timeout=self.timeout_seconds,
            max_retries=0,
            http_client=http,
        )

    async def call(self, client: Any, request: ChatRequest, dialect: Dialect) -> ChatReply:
        """Ask for one chat completion."""
        # The SDK walks through every typed argument, which takes longer than the call; what is
        # passed as extra body replaces it and goes out as it is.
        raw = await client.chat.completions.with_raw_response.create(
            model=request.model, messages=[], extra_body=self.body(request, dialect)
        )
        body = read_body(raw.content, "completion")
        _refuse_error(body)
        return reply_from_completion(body, raw.headers)

    def body(self, request: ChatRequest, dialect: Dialect) -> JsonObject:
        """Return what is sent."""
        parameters = dict(request.parameters)
        if not self.ladder.with_logprobs:
            parameters.pop("top_logprobs", None)
        system = request.system if dialect == "json_schema" else schema_in_words(request)
        return {
            "model": request.model,
            "messages": [
                {"role": "system", "content": system},
                {"role": "user", "content": request.user},
            ],
            **parameters,
            **({"logprobs": True} if "top_logprobs" in parameters else {}),
            **_response_format(request, dialect),
        }


class _ErrorInBody(Exception):
    """An error that a gateway tells under status 200, in the shape of an SDK's own."""

    def __init__(self, error: Any) -> None:
        told = error if isinstance(error, dict) else {"message": error}
        super().__init__(str(told.get("message") or "an error without words"))
        code = told.get("code")
        known = isinstance(code, int) and 400 <= code <= 599
        self.status_code = code if known else 502
        self.body = {"error": told}


def _refuse_error(body: JsonObject) -> None:
    """Raise what a gateway reports instead of an answer: it is no reply, so none to halve."""
    choices = body.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else body
    error = first.get("error") if isinstance(first, dict) else None
    if error:
        raise _ErrorInBody(error)


def _response_format(request: ChatRequest, dialect: Dialect) -> JsonObject:
    if dialect == "json_schema":
        named = {"name": "reply", "strict": True, "schema": request.schema}
        return {"response_format": {"type": "json_schema", "json_schema": named}}
    if dialect == "json_object":
        return {"response_format": {"type": "json_object"}}
    return {}


class OpenAIBackend(OpenAIFamilyBackend):
    """Models of OpenAI; the key stands in ``OPENAI_API_KEY``."""

    name = "openai"
    provider = "openai"
    key_variables = ("OPENAI_API_KEY",)
    output_cap_option: ClassVar[str] = "max_completion_tokens"

    def __init__(
        self,
        model: str,
        *,
        max_completion_tokens: int | None = None,
        **options: Unpack[CallOptions],
    ) -> None:
        # The SDK would follow this variable silently; here the run records where it asked.
        address = options.get("base_url") or os.environ.get("OPENAI_BASE_URL", "")
        super().__init__(model, max_completion_tokens, {**options, "base_url": address})

"""OpenAI, and by another address every server that speaks its chat completions."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, ClassVar, Unpack

from krisis.backends.batch_api import (
    BatchApi,
    BatchState,
    ErrorResult,
    NotAnswered,
    Sighting,
    as_json_lines,
    json_lines,
)
from krisis.backends.chat import ChatReply, ChatRequest
from krisis.backends.dialects import Dialect, schema_in_words
from krisis.backends.provider import CallOptions, ProviderBackend
from krisis.backends.response_fields import read_body, reply_from_completion
from krisis.json_values import JsonMapping, JsonObject


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
        """Return what is sent, in an ordinary call and in a provider batch alike."""
        parameters = dict(request.parameters)
        if not self.ladder.with_logprobs:
            parameters.pop("top_logprobs", None)
        system = request.system if dialect == "json_schema" else schema_in_words(request)
        return {
            "model": request.model,
            "messages": [
                {"role": "system", "content": system},
                *({"role": role, "content": text} for role, text in request.turns),
            ],
            **parameters,
            **({"logprobs": True} if "top_logprobs" in parameters else {}),
            **_response_format(request, dialect),
        }


def _refuse_error(body: JsonObject) -> None:
    """Raise what a gateway reports instead of an answer: it is no reply, so none to halve."""
    choices = body.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else body
    error = first.get("error") if isinstance(first, dict) else None
    if error:
        raise ErrorResult(error.get("code") if isinstance(error, dict) else None, error)


def _response_format(request: ChatRequest, dialect: Dialect) -> JsonObject:
    if dialect == "json_schema":
        named = {"name": "reply", "strict": True, "schema": request.schema}
        return {"response_format": {"type": "json_schema", "json_schema": named}}
    if dialect == "json_object":
        return {"response_format": {"type": "json_object"}}
    return {}


class OpenAIBatches(BatchApi):
    """The Batch API of OpenAI: files of JSON lines in and out, the marker in the metadata."""

    # 50,000 requests and 200 MB: https://platform.openai.com/docs/api-reference/batch/create
    most_bytes = 200_000_000
    backend: OpenAIFamilyBackend

    def entry(self, key: str, request: ChatRequest, dialect: Dialect) -> JsonObject:
        """Return a line of the input file."""
        body = self.backend.body(request, dialect)
        return {"custom_id": key, "method": "POST", "url": _ENDPOINT, "body": body}

    async def _submit(self, marker: str, entries: Sequence[JsonObject]) -> str:
        named = (f"{marker}.jsonl", as_json_lines(entries))
        file = await self.client.files.create(file=named, purpose="batch")
        try:
            batch = await self.client.batches.create(
                input_file_id=file.id,
                endpoint=_ENDPOINT,
                completion_window="24h",
                metadata={_MARKER: marker},
            )
        except Exception as error:
            # Refused, so that nothing needs the file; after any other error it may be in use.
            if getattr(error, "status_code", 500) < 500:
                with suppress(Exception):
                    await self.client.files.delete(file.id)
            raise
        return str(batch.id)

    async def _state(self, batch_id: str) -> BatchState:
        batch = await self.client.batches.retrieve(batch_id)
        counts = batch.request_counts
        faults = (batch.errors.data if batch.errors else None) or []
        said = "; ".join(f"{one.message} ({one.code})" for one in faults[:3])
        return BatchState(
            words=batch.status,
            has_ended=batch.status in ("completed", "expired", "cancelled", "failed"),
            n_finished=counts.completed + counts.failed if counts else None,
            fault=(said or "no reason given") if batch.status == "failed" else "",
            is_limit=any("limit" in str(one.code) for one in faults),
        )

    async def _find(self, marker: str, since: float, n_requests: int) -> Sighting:
        async for batch in self.client.batches.list(limit=100):
            if (batch.metadata or {}).get(_MARKER) == marker:
                return Sighting(str(batch.id))
            if batch.created_at < since:  # the newest come first
                break
        return Sighting()

    async def _results(self, batch_id: str) -> Iterable[JsonMapping]:
        batch = await self.client.batches.retrieve(batch_id)
        files = [name for name in (batch.output_file_id, batch.error_file_id) if name]
        contents = [(await self.client.files.content(name)).content for name in files]
        return [line for content in contents for line in json_lines(content)]

    async def _cancel(self, batch_id: str) -> None:
        await self.client.batches.cancel(batch_id)

    def key_of(self, result: JsonMapping) -> str:
        """Return the custom id."""
        return str(result.get("custom_id") or "")

    def is_answer(self, result: JsonMapping) -> bool:
        """Say whether the response has status 200."""
        response = result.get("response")
        return isinstance(response, dict) and response.get("status_code") == 200

    def _reply(self, result: JsonMapping) -> ChatReply:
        response, error = result.get("response"), result.get("error")
        response = response if isinstance(response, dict) else {}
        if self.is_answer(result) and isinstance(response.get("body"), dict):
            _refuse_error(response["body"])
            return reply_from_completion(response["body"])
        code = str(error.get("code")) if isinstance(error, dict) else ""
        if code in ("batch_expired", "batch_cancelled"):
            raise NotAnswered(f"the provider batch ended before this request ({code})")
        body = response.get("body")
        told = body.get("error", body) if isinstance(body, dict) else error
        raise ErrorResult(response.get("status_code"), told)


_ENDPOINT, _MARKER = "/v1/chat/completions", "krisis"


class OpenAIBackend(OpenAIFamilyBackend):
    """Models of OpenAI; its key is read from ``OPENAI_API_KEY``."""

    name = "openai"
    provider = "openai"
    key_variables = ("OPENAI_API_KEY",)
    batch_api = OpenAIBatches
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

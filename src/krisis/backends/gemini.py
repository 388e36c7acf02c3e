"""Gemini models of Google."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Unpack

from krisis.backends.batch_api import BatchApi, BatchState, ErrorResult, NotAnswered, Sighting
from krisis.backends.chat import ChatReply, ChatRequest
from krisis.backends.dialects import Dialect, schema_in_words
from krisis.backends.provider import CallOptions, ProviderBackend
from krisis.backends.response_fields import Members, read_body, token
from krisis.backends.signals import TokenLogprob
from krisis.json_values import JsonMapping, JsonObject

# The codes of google.rpc.Code and the statuses that ordinary calls have for them.
_STATUS: dict[Any, int] = {
    3: 400,
    4: 504,
    5: 404,
    7: 403,
    8: 429,
    9: 400,
    11: 400,
    13: 500,
    14: 503,
    16: 401,
}
_CANCELLED = 1


class GeminiBatches(BatchApi):
    """Batch mode of Gemini, with requests and responses in the calls; the marker is the name."""

    # Requests that are not in a file must stay under 20 MB together, and the SDK adds 120 bytes to
    # each: https://ai.google.dev/gemini-api/docs/batch-api
    most_bytes = 17_000_000
    backend: GeminiBackend

    def entry(self, key: str, request: ChatRequest, dialect: Dialect) -> JsonObject:
        """Return an inlined request."""
        config = self.backend.config(request, dialect)
        return {"contents": request.user, "metadata": {"key": key}, "config": config}

    async def _submit(self, marker: str, entries: Sequence[JsonObject]) -> str:
        job = await self.client.aio.batches.create(
            model=self.backend.model, src=list(entries), config={"display_name": marker}
        )
        return str(job.name)

    async def _state(self, batch_id: str) -> BatchState:
        job = await self.client.aio.batches.get(name=batch_id)
        word = str(getattr(job.state, "name", job.state)).removeprefix("JOB_STATE_").lower()
        return BatchState(
            words=word,
            has_ended=word in _ENDED,
            fault="no reason given" if word == "failed" and not _responses(job) else "",
        )

    async def _find(self, marker: str, since: float, n_requests: int) -> Sighting:
        async for job in await self.client.aio.batches.list(config={"page_size": 100}):
            if job.display_name == marker:
                return Sighting(str(job.name))
        return Sighting()

    async def _results(self, batch_id: str) -> Iterable[JsonMapping]:
        job = await self.client.aio.batches.get(name=batch_id)
        options = {"mode": "json", "by_alias": True, "exclude_none": True, "warnings": False}
        return [response.model_dump(**options) for response in _responses(job)]

    async def _cancel(self, batch_id: str) -> None:
        await self.client.aio.batches.cancel(name=batch_id)

    def key_of(self, result: JsonMapping) -> str:
        """Return the key in the metadata."""
        return str((result.get("metadata") or {}).get("key") or "")

    def is_answer(self, result: JsonMapping) -> bool:
        """Say whether there is a response."""
        return isinstance(result.get("response"), dict) and not result.get("error")

    def _reply(self, result: JsonMapping) -> ChatReply:
        if self.is_answer(result):
            return _reply(result["response"], {})
        error = result.get("error") or {}
        code = error.get("code")
        if code in (_CANCELLED, 499):
            raise NotAnswered("the provider batch ended before this request (cancelled)")
        raise ErrorResult(code, error, otherwise=_STATUS.get(code, 500))


_ENDED = ("succeeded", "partially_succeeded", "failed", "cancelled", "expired")


def _responses(job: Any) -> list[Any]:
    return (job.dest.inlined_responses if job.dest else None) or []


class GeminiBackend(ProviderBackend):
    """Models of Google; its key is read from ``GEMINI_API_KEY`` or ``GOOGLE_API_KEY``."""

    name = "gemini"
    provider = "gemini"
    sdk = "google.genai"
    extra = "gemini"
    key_variables = ("GEMINI_API_KEY", "GOOGLE_API_KEY")
    batch_api = GeminiBatches
    output_cap_option: ClassVar[str] = "max_output_tokens"

    def __init__(
        self, model: str, *, max_output_tokens: int | None = None, **options: Unpack[CallOptions]
    ) -> None:
        super().__init__(model, max_output_tokens, options)

    def make_client(self, key: str, http: Any) -> Any:
        """Return a client; with an HTTP client given, it has no retries of its own."""
        from google.genai import Client
        from google.genai.types import HttpOptions

        options = HttpOptions(
            base_url=self.base_url or None,
            api_version="v1beta",  # schemas and log-probabilities are documented for this one
            timeout=round(self.timeout_seconds * 1000),
            httpx_async_client=http,
        )
        return Client(api_key=key, vertexai=False, http_options=options)

    async def call(self, client: Any, request: ChatRequest, dialect: Dialect) -> ChatReply:
        """Ask for one generation."""
        from google.genai.types import GenerateContentConfig

        # The raw response: the SDK's own reader refuses an answer over an odd figure beside it,
        # and warns of unknown words by printing them.
        config = GenerateContentConfig(
            should_return_http_response=True, **self.config(request, dialect)
        )
        response = await client.aio.models.generate_content(
            model=request.model, contents=_contents(request), config=config
        )
        http = response.sdk_http_response
        return _reply(read_body(http.body or "", "generation"), http.headers or {})

    def config(self, request: ChatRequest, dialect: Dialect) -> JsonObject:
        """Return all that is sent beside the user's message, in a provider batch as well."""
        config = dict(request.parameters)
        n_alternatives = config.pop("top_logprobs", None)
        if n_alternatives and self.ladder.with_logprobs:
            config |= {"response_logprobs": True, "logprobs": n_alternatives}
        if effort := config.pop("reasoning_effort", None):
            config["thinking_config"] = {"thinking_level": effort}
        if dialect != "text":
            config["response_mime_type"] = "application/json"
        if dialect == "json_schema":
            config["response_json_schema"] = dict(request.schema)
        system = request.system if dialect == "json_schema" else schema_in_words(request)
        return {**config, "system_instruction": system}


def _contents(request: ChatRequest) -> Any:
    """Return what is said after the instructions: one message, or the turns of a conversation."""
    if not request.history:
        return request.user
    roles = {"user": "user", "assistant": "model"}
    return [{"role": roles[role], "parts": [{"text": text}]} for role, text in request.turns]


def _reply(response: JsonMapping, headers: Mapping[str, str]) -> ChatReply:
    read = Members()
    candidates = response.get("candidates")
    candidate = candidates[0] if isinstance(candidates, list) and candidates else {}
    usage = read.object(response, "usageMetadata")
    thoughts = read.count(usage, "thoughtsTokenCount")
    answer = read.count(usage, "candidatesTokenCount")
    blocked = read.text(read.object(response, "promptFeedback"), "blockReason")
    reason = read.text(candidate, "finishReason").lower()
    return ChatReply(
        text=_text(read.object(candidate, "content").get("parts")),
        finish_reason="content_filter" if blocked else reason,
        model=read.text(response, "modelVersion"),
        input_tokens=read.count(usage, "promptTokenCount"),
        # Thoughts are billed as output.
        output_tokens=None
        if answer is None and thoughts is None
        else (answer or 0) + (thoughts or 0),
        cached_tokens=read.count(usage, "cachedContentTokenCount"),
        reasoning_tokens=thoughts,
        logprobs=read.logprobs(read.object(candidate, "logprobsResult"), _logprobs),
        headers=dict(headers),
        n_dropped_fields=read.n_dropped,
    )


def _text(parts: Any) -> str:
    said = [p for p in parts if isinstance(p, dict)] if isinstance(parts, list) else []
    texts = (part.get("text") for part in said if not part.get("thought"))
    return "".join(text for text in texts if isinstance(text, str))


def _logprobs(result: JsonMapping) -> Iterator[TokenLogprob]:
    chosen = result.get("chosenCandidates") or []
    tops = [top.get("candidates") or [] for top in result.get("topCandidates") or []]
    for place, one in enumerate(chosen):
        top = tops[place] if place < len(tops) else []
        alternatives = [(other["token"], other["logProbability"]) for other in top]
        yield token(one["token"], one["logProbability"], alternatives)

"""Gemini models of Google."""

from __future__ import annotations

from typing import Any, ClassVar, Unpack

from krisis.backends.chat import ChatReply, ChatRequest
from krisis.backends.dialects import Dialect, schema_in_words
from krisis.backends.provider import CallOptions, ProviderBackend
from krisis.backends.signals import TokenLogprob
from krisis.json_values import JsonObject


class GeminiBackend(ProviderBackend):
    """Models of Google; the key stands in ``GEMINI_API_KEY`` or ``GOOGLE_API_KEY``."""

    name = "gemini"
    provider = "gemini"
    sdk = "google.genai"
    extra = "gemini"
    key_variables = ("GEMINI_API_KEY", "GOOGLE_API_KEY")
    output_cap_option: ClassVar[str] = "max_output_tokens"

    def __init__(
        self, model: str, *, max_output_tokens: int | None = None, **options: Unpack[CallOptions]
    ) -> None:
        super().__init__(model, max_output_tokens, options)

    def make_client(self, key: str) -> Any:
        """Return a client; it does not retry unless told to."""
        from google.genai import Client
        from google.genai.types import HttpOptions

        address = HttpOptions(
            base_url=self.base_url or None,
            api_version="v1beta",  # schemas and log-probabilities are documented for this one
            timeout=round(self.timeout_seconds * 1000),
        )
        return Client(api_key=key, vertexai=False, http_options=address)

    async def close_client(self, client: Any) -> None:
        """Close both halves of the client."""
        await client.aio.aclose()
        client.close()

    async def call(self, client: Any, request: ChatRequest, dialect: Dialect) -> ChatReply:
        """Ask for one generation."""
        response = await client.aio.models.generate_content(
            model=request.model, contents=request.user, config=self._config(request, dialect)
        )
        return _reply(response)

    def _config(self, request: ChatRequest, dialect: Dialect) -> JsonObject:
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


def _reply(response: Any) -> ChatReply:
    candidate = response.candidates[0] if response.candidates else None
    parts = (candidate.content.parts if candidate and candidate.content else None) or []
    usage = response.usage_metadata
    thoughts = usage.thoughts_token_count if usage else None
    answer = usage.candidates_token_count if usage else None
    http = response.sdk_http_response
    return ChatReply(
        text="".join(part.text or "" for part in parts if not part.thought),
        finish_reason=_finish_reason(response, candidate),
        model=response.model_version or "",
        input_tokens=usage.prompt_token_count if usage else None,
        # Thoughts are billed as output.
        output_tokens=None
        if answer is None and thoughts is None
        else (answer or 0) + (thoughts or 0),
        cached_tokens=usage.cached_content_token_count if usage else None,
        reasoning_tokens=thoughts,
        logprobs=_logprobs(candidate.logprobs_result if candidate else None),
        headers=dict(http.headers or {}) if http else {},
    )


def _finish_reason(response: Any, candidate: Any) -> str:
    feedback = response.prompt_feedback
    if feedback and feedback.block_reason:
        return "content_filter"
    reason = candidate.finish_reason if candidate else None
    return str(getattr(reason, "value", reason) or "").lower()


def _logprobs(result: Any) -> tuple[TokenLogprob, ...]:
    if result is None or not result.chosen_candidates:
        return ()
    tops = [top.candidates or [] for top in result.top_candidates or []]
    tops += [[]] * (len(result.chosen_candidates) - len(tops))
    pairs = list(zip(result.chosen_candidates, tops, strict=False))
    if any(one.log_probability is None for chosen, top in pairs for one in (chosen, *top)):
        return ()  # a probability that was not given is not certainty
    return tuple(
        TokenLogprob(
            chosen.token or "",
            float(chosen.log_probability),
            tuple((top.token or "", float(top.log_probability)) for top in alternatives),
        )
        for chosen, alternatives in pairs
    )

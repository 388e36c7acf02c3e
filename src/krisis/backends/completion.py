"""The chat-completion shape of OpenAI, its kin and llama.cpp: from JSON to a `ChatReply`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from krisis.backends.chat import ChatReply
from krisis.backends.reply import REFUSAL_REASON
from krisis.backends.signals import TokenLogprob
from krisis.errors import MalformedReply

# Providers write this in place of minus infinity.
_NO_PROBABILITY = -9999.0


def reply_from_completion(
    completion: Mapping[str, Any], headers: Mapping[str, str] | None = None
) -> ChatReply:
    """Read text, finish reason, usage and log-probabilities of the first choice."""
    choices = completion.get("choices") or []
    if not choices:
        raise MalformedReply("the provider's response has no choices; ask again")
    choice = choices[0]
    message = choice.get("message") or {}
    refusal = message.get("refusal")
    usage = completion.get("usage") or {}
    return ChatReply(
        text=refusal or _text(message.get("content")),
        finish_reason=REFUSAL_REASON if refusal else choice.get("finish_reason") or "",
        model=completion.get("model") or "",
        input_tokens=usage.get("prompt_tokens"),
        output_tokens=usage.get("completion_tokens"),
        cached_tokens=(usage.get("prompt_tokens_details") or {}).get("cached_tokens"),
        reasoning_tokens=(usage.get("completion_tokens_details") or {}).get("reasoning_tokens"),
        logprobs=_logprobs((choice.get("logprobs") or {}).get("content") or []),
        headers=dict(headers or {}),
    )


def _text(content: Any) -> str:
    if isinstance(content, list):  # some gateways send parts
        return "".join(part.get("text") or "" for part in content if isinstance(part, Mapping))
    return content if isinstance(content, str) else ""


def _logprobs(tokens: Iterable[Mapping[str, Any]]) -> tuple[TokenLogprob, ...]:
    return tuple(
        TokenLogprob(
            token["token"],
            _logprob(token["logprob"]),
            tuple(
                (top["token"], _logprob(top["logprob"])) for top in token.get("top_logprobs") or []
            ),
        )
        for token in tokens
    )


def _logprob(value: float) -> float:
    return -math.inf if value <= _NO_PROBABILITY else float(value)

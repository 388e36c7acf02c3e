"""The chat-completion shape of OpenAI, its kin and llama.cpp: from JSON to a `ChatReply`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from typing import Any

from krisis.backends.chat import ChatReply
from krisis.backends.reply import REFUSAL_REASON
from krisis.backends.signals import TokenLogprob
from krisis.errors import MalformedReply
from krisis.json_values import JsonMapping

# Providers write this in place of minus infinity.
_NO_PROBABILITY = -9999.0


def reply_from_completion(
    completion: JsonMapping, headers: Mapping[str, str] | None = None
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
        input_tokens=_count(usage, "prompt_tokens"),
        output_tokens=_count(usage, "completion_tokens"),
        cached_tokens=_count(usage.get("prompt_tokens_details") or {}, "cached_tokens"),
        reasoning_tokens=_count(usage.get("completion_tokens_details") or {}, "reasoning_tokens"),
        logprobs=_logprobs((choice.get("logprobs") or {}).get("content") or []),
        headers=dict(headers or {}),
    )


def _text(content: Any) -> str:
    if isinstance(content, list):  # some gateways send parts
        return "".join(part.get("text") or "" for part in content if isinstance(part, Mapping))
    return content if isinstance(content, str) else ""


def _count(usage: JsonMapping, name: str) -> int | None:
    """Return a number of tokens; a gateway may write it otherwise, and none can be booked then."""
    value = usage.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if value >= 0 and value == value // 1 else None


def _logprobs(tokens: Iterable[JsonMapping]) -> tuple[TokenLogprob, ...]:
    try:
        return _read_logprobs(tokens)
    except (KeyError, TypeError, AttributeError):  # a figure less must not cost the answer
        return ()


def _read_logprobs(tokens: Iterable[JsonMapping]) -> tuple[TokenLogprob, ...]:
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

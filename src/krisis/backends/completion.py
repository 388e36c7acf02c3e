"""The chat-completion shape of OpenAI, its kin and llama.cpp: from JSON to a `ChatReply`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from krisis.backends.chat import ChatReply
from krisis.backends.members import Members, token
from krisis.backends.reply import REFUSAL_REASON
from krisis.backends.signals import TokenLogprob
from krisis.json_values import JsonMapping


def reply_from_completion(
    completion: JsonMapping, headers: Mapping[str, str] | None = None
) -> ChatReply:
    """Read text, finish reason, usage and log-probabilities of the first choice, if there is one.

    A completion without choices is an empty reply: its tokens were paid all the same.
    """
    read = Members()
    choice = _first(completion.get("choices"))
    message = read.object(choice, "message")
    refusal = read.text(message, "refusal")
    usage = read.object(completion, "usage")
    return ChatReply(
        text=refusal or _text(message.get("content")),
        finish_reason=REFUSAL_REASON if refusal else read.text(choice, "finish_reason"),
        model=read.text(completion, "model"),
        input_tokens=read.count(usage, "prompt_tokens"),
        output_tokens=read.count(usage, "completion_tokens"),
        cached_tokens=read.count(read.object(usage, "prompt_tokens_details"), "cached_tokens"),
        reasoning_tokens=read.count(
            read.object(usage, "completion_tokens_details"), "reasoning_tokens"
        ),
        logprobs=read.logprobs(read.object(choice, "logprobs").get("content"), _logprobs),
        headers=dict(headers or {}),
        n_dropped_fields=read.n_dropped,
    )


def _first(choices: Any) -> Any:
    return choices[0] if isinstance(choices, list) and choices else {}


def _text(content: Any) -> str:
    if isinstance(content, list):  # some gateways send parts
        texts = (part.get("text") for part in content if isinstance(part, Mapping))
        return "".join(text for text in texts if isinstance(text, str))
    return content if isinstance(content, str) else ""


def _logprobs(tokens: Any) -> Iterator[TokenLogprob]:
    for one in tokens:
        top = [(other["token"], other["logprob"]) for other in one.get("top_logprobs") or []]
        yield token(one["token"], one["logprob"], top)

"""Read a provider's response: its body strictly, all but the answer leniently.

Usage, finish reason and log-probabilities are worth having, never worth an answer. One that cannot
be read is dropped and counted; whoever needs it must do without it, and says so.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeVar

from krisis.backends.base import MOST_TOKENS
from krisis.backends.chat import ChatReply
from krisis.backends.reply import REFUSAL_REASON
from krisis.backends.signals import TokenLogprob
from krisis.errors import ProviderUnavailable
from krisis.json_values import JsonMapping, JsonObject

T = TypeVar("T")

# Providers write this in place of minus infinity.
_NO_PROBABILITY = -9999.0
_ROUNDING = 1e-6


def read_body(content: bytes | str, kind: str) -> JsonObject:
    """Return the JSON object that a response must be, which the SDKs would take apart at length."""
    try:
        body = json.loads(content)
    except (ValueError, RecursionError):
        body = None
    if not isinstance(body, dict):
        raise ProviderUnavailable(f"the server answered with something that is not a {kind}")
    return body


class Members:
    """Reads members that an answer can do without; ``n_dropped`` could not be read."""

    def __init__(self) -> None:
        self.n_dropped = 0

    def object(self, holder: Any, name: str) -> JsonMapping:
        """Return a member that is an object, empty where there is none."""
        found: JsonMapping = self._read(holder, name, lambda value: value, dict) or {}
        return found

    def text(self, holder: Any, name: str) -> str:
        """Return a member that is text, empty where there is none."""
        return self._read(holder, name, lambda value: value, str) or ""

    def count(self, holder: Any, name: str) -> int | None:
        """Return a number of tokens, None where it is missing or cannot be one."""
        return self._read(holder, name, _count, int, float)

    def logprobs(
        self, tokens: Any, read: Callable[[Any], Iterable[TokenLogprob]]
    ) -> tuple[TokenLogprob, ...]:
        """Return the tokens with their log-probabilities: all of them, or none."""
        if not tokens:
            return ()
        try:
            return tuple(read(tokens))
        except (KeyError, IndexError, TypeError, ValueError, AttributeError, OverflowError):
            self.n_dropped += 1
            return ()

    def _read(
        self, holder: Any, name: str, read: Callable[[Any], T | None], *kinds: type
    ) -> T | None:
        value = holder.get(name) if isinstance(holder, dict) else None
        if value is None:
            return None
        odd = isinstance(value, bool) or not isinstance(value, kinds)
        found = None if odd else read(value)
        self.n_dropped += found is None
        return found


def _count(value: float) -> int | None:
    if not 0 <= value <= MOST_TOKENS or value != value // 1:  # also refuses NaN
        return None
    return int(value)


def token(text: object, logprob: object, top: Iterable[tuple[object, object]]) -> TokenLogprob:
    """Return one token; raise where a part of it is not what it should be."""
    return TokenLogprob(
        _text(text), _logprob(logprob), tuple((_text(t), _logprob(p)) for t, p in top)
    )


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _logprob(value: object) -> float:
    """Return a log-probability; one above 0 or not a number would be believed as certainty."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError
    if not value <= _ROUNDING:
        raise ValueError
    return -math.inf if value <= _NO_PROBABILITY else min(float(value), 0.0)


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
        text=refusal or _content_text(message.get("content")),
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


def _content_text(content: Any) -> str:
    if isinstance(content, list):  # some gateways send parts
        texts = (part.get("text") for part in content if isinstance(part, Mapping))
        return "".join(text for text in texts if isinstance(text, str))
    return content if isinstance(content, str) else ""


def _logprobs(tokens: Any) -> Iterator[TokenLogprob]:
    for one in tokens:
        top = [(other["token"], other["logprob"]) for other in one.get("top_logprobs") or []]
        yield token(one["token"], one["logprob"], top)

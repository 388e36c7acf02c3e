"""From the answers in a reply to responses, each with its share of what the call took."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from krisis.backends.base import BackendResponse
from krisis.backends.reply import Answer
from krisis.backends.signals import token_signals

if TYPE_CHECKING:
    from krisis.backends.chat import ChatReply, ChatRequest


def responses_of(
    request: ChatRequest, reply: ChatReply, answers: Sequence[Answer]
) -> list[BackendResponse]:
    """Return a response for each answer, with its share of what the call took."""
    n = len(answers)
    shares = zip(
        shared_out(reply.input_tokens, n),
        shared_out(reply.output_tokens, n),
        shared_out(reply.cached_tokens, n),
        shared_out(reply.reasoning_tokens, n),
        strict=True,
    )
    responses = [
        _response(request, reply, answer, share)
        for answer, share in zip(answers, shares, strict=True)
    ]
    if request.mode == "batch":
        for place, response in enumerate(responses):
            response.signals["batch_position"] = place
    return responses


def _response(
    request: ChatRequest, reply: ChatReply, answer: Answer, share: tuple[int | None, ...]
) -> BackendResponse:
    n_in, n_out, n_cached, n_reasoning = share
    usage = {"cached_tokens": n_cached, "reasoning_tokens": n_reasoning}
    return BackendResponse(
        prediction=answer.prediction,
        abstained=answer.abstained,
        confidence=answer.confidence,
        raw_response=answer.text,
        prompt=request.template,
        prompt_mode=request.mode,
        input_tokens=n_in,
        output_tokens=n_out,
        total_tokens=None if n_in is None or n_out is None else n_in + n_out,
        signals={
            **answer.signals,
            **token_signals(reply.text, reply.logprobs, answer.prediction_span),
            **{name: count for name, count in usage.items() if count is not None},
        },
        latency_seconds=reply.latency_seconds,
        finish_reason=reply.finish_reason,
        model=reply.model or request.model,
    )


def shared_out(total: int | None, n_rows: int) -> list[int | None]:
    """Share a count over the rows of a call so that the parts add up to it.

    >>> shared_out(10, 3)
    [4, 3, 3]
    """
    if total is None:
        return [None] * n_rows
    part, rest = divmod(total, n_rows)
    return [part + (row < rest) for row in range(n_rows)]

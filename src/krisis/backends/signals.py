"""Figures from the log-probabilities of the tokens that spell an answer."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """One generated token with its log-probability and the likeliest alternatives."""

    token: str
    logprob: float
    top: tuple[tuple[str, float], ...] = ()


def token_signals(
    text: str, logprobs: Sequence[TokenLogprob], span: tuple[int, int] | None
) -> dict[str, float]:
    """Return the token figures of the part of a reply that a span marks, or nothing.

    ``token_msp`` is the mean probability of the chosen tokens, ``token_pe`` the mean entropy in
    nats of the renormalised list of likeliest tokens, ``token_energy`` the mean logarithm of the
    probability that this list covers. The last two need the lists and are left out without them.

    >>> tokens = [TokenLogprob("1", math.log(0.8), (("1", math.log(0.8)), ("0", math.log(0.2))))]
    >>> {name: round(value, 4) for name, value in token_signals("1", tokens, (0, 1)).items()}
    {'token_msp': 0.8, 'token_pe': 0.5004, 'token_energy': 0.0}
    """
    chosen = _tokens_in(text, logprobs, span) if span else []
    if not chosen:
        return {}
    signals = {"token_msp": _mean([math.exp(min(token.logprob, 0.0)) for token in chosen])}
    tops = [[logprob for _, logprob in token.top] for token in chosen]
    if all(tops):
        signals["token_pe"] = _mean([_entropy(top) for top in tops])
        signals["token_energy"] = _mean([_log_sum_exp(top) for top in tops])
    return signals


def _tokens_in(
    text: str, logprobs: Sequence[TokenLogprob], span: tuple[int, int]
) -> list[TokenLogprob]:
    """Return the tokens that overlap the span; none when they do not spell the text."""
    joined = "".join(token.token for token in logprobs)
    offset = joined.find(text)  # end-of-text marks and leading spaces may stand around the text
    if not logprobs or offset < 0:
        return []
    start, end = span[0] + offset, span[1] + offset
    chosen: list[TokenLogprob] = []
    position = 0
    for token in logprobs:
        after = position + len(token.token)
        if position < end and after > start:
            chosen.append(token)
        position = after
    return chosen


def _log_sum_exp(logprobs: Sequence[float]) -> float:
    highest = max(logprobs)
    if math.isinf(highest):
        return highest
    return highest + math.log(sum(math.exp(value - highest) for value in logprobs))


def _entropy(logprobs: Sequence[float]) -> float:
    total = _log_sum_exp(logprobs)
    shares = [math.exp(value - total) for value in logprobs if not math.isinf(value)]
    return -sum(share * math.log(share) for share in shares if share > 0)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)

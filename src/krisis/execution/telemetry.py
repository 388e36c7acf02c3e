"""What a run spent: calls, retries, splits, tokens and waiting time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from krisis.backends.base import BackendResponse
from krisis.errors import BackendError


@dataclass(slots=True)
class Spent:
    """The calls behind some rows; it adds up.

    ``lost`` tokens are those of calls that failed or had to be split: paid all the same.
    ``cached`` tokens came out of the cache and were not paid this time.
    """

    n_calls: int = 0
    n_retries: int = 0
    n_splits: int = 0
    n_cache_hits: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    lost_input_tokens: int = 0
    lost_output_tokens: int = 0
    cached_input_tokens: int = 0
    cached_output_tokens: int = 0
    latencies_seconds: list[float] = field(default_factory=list)

    def lose(self, error: BackendError) -> None:
        """Count the tokens of a call that gave nothing."""
        self.lost_input_tokens += error.input_tokens
        self.lost_output_tokens += error.output_tokens

    def use(self, responses: Sequence[BackendResponse]) -> None:
        """Count the tokens of a call that gave responses."""
        self.input_tokens += sum(response.input_tokens or 0 for response in responses)
        self.output_tokens += sum(response.output_tokens or 0 for response in responses)

    def add(self, other: Spent) -> None:
        """Add what other rows cost."""
        for name in _COUNTS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.latencies_seconds.extend(other.latencies_seconds)

    def to_dict(self) -> dict[str, Any]:
        """Return what is not zero, for the journal."""
        figures: dict[str, Any] = {n: value for n in _COUNTS if (value := getattr(self, n))}
        if self.latencies_seconds:
            figures["latencies_seconds"] = [round(value, 6) for value in self.latencies_seconds]
        return figures

    @classmethod
    def from_dict(cls, figures: Mapping[str, Any]) -> Spent:
        """Read back what `to_dict` returned; what a later version added is passed over."""
        known = {name: figures[name] for name in cls.__slots__ if name in figures}
        return cls(**known)

    @property
    def paid_tokens(self) -> tuple[int, int]:
        """Return the input and output tokens that the provider charged for."""
        return (
            self.input_tokens + self.lost_input_tokens,
            self.output_tokens + self.lost_output_tokens,
        )


_COUNTS = tuple(name for name in Spent.__slots__ if name != "latencies_seconds")


def latency_percentiles(latencies_seconds: Sequence[float]) -> dict[str, float]:
    """Return the usual percentiles of the time that calls took, or nothing without calls."""
    if not latencies_seconds:
        return {}
    values = np.percentile(np.asarray(latencies_seconds), (50, 90, 95, 99, 100))
    return dict(zip(("p50", "p90", "p95", "p99", "max"), map(float, values), strict=True))


def call_figures(spent: Spent) -> dict[str, Any]:
    """Return the totals under the names that a result carries."""
    return {
        "n_api_calls": spent.n_calls,
        "n_retries": spent.n_retries,
        "n_batch_splits": spent.n_splits,
        "n_cache_hits": spent.n_cache_hits,
        "lost_input_tokens": spent.lost_input_tokens,
        "lost_output_tokens": spent.lost_output_tokens,
        "cached_input_tokens": spent.cached_input_tokens,
        "cached_output_tokens": spent.cached_output_tokens,
        "latency_seconds": latency_percentiles(spent.latencies_seconds),
    }

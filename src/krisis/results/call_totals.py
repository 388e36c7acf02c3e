"""What the calls of a run took: tokens, retries, seconds."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, fields

from krisis.json_values import JsonMapping, JsonObject


@dataclass(slots=True)
class CallTotals:
    """What the calls behind some rows took; it adds up.

    ``lost`` tokens are those of calls that failed or had to be split: paid all the same.
    ``cached`` tokens came out of the cache and were not paid this time. A call that does not say
    what it took is counted in ``n_calls_without_usage``, and the most that it can have taken in the
    ``assumed`` tokens. ``reserved`` tokens were set aside for the calls when they were sent.
    ``n_dropped_fields`` counts members beside an answer that cannot be read. Of the calls
    ``n_batch_calls`` went by provider batches, and ``batch`` tokens are what these took.
    """

    n_calls: int = 0
    n_batch_calls: int = 0
    n_retries: int = 0
    n_splits: int = 0
    n_cache_hits: int = 0
    n_calls_without_usage: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    lost_input_tokens: int = 0
    lost_output_tokens: int = 0
    cached_input_tokens: int = 0
    cached_output_tokens: int = 0
    assumed_input_tokens: int = 0
    assumed_output_tokens: int = 0
    reserved_input_tokens: int = 0
    reserved_output_tokens: int = 0
    batch_input_tokens: int = 0
    batch_output_tokens: int = 0
    n_dropped_fields: int = 0
    latencies_seconds: list[float] = field(default_factory=list)

    def add(self, other: CallTotals) -> None:
        """Add what other rows took."""
        for name in _COUNTS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.latencies_seconds.extend(other.latencies_seconds)

    def add_counts(self, counts: JsonMapping) -> None:
        """Add what `to_dict` returned; what does not add up is refused, unknown names ignored."""
        latencies = counts.get("latencies_seconds", [])
        added = {
            name: getattr(self, name) + value for name, value in counts.items() if name in _KNOWN
        }
        if not all(type(value) is int for value in added.values()):
            raise ValueError("a count that is no whole number")
        self.latencies_seconds.extend(map(float, latencies))
        for name, value in added.items():
            setattr(self, name, value)

    def to_dict(self) -> JsonObject:
        """Return what is not zero."""
        figures: JsonObject = {n: value for n in _COUNTS if (value := getattr(self, n))}
        if self.latencies_seconds:
            figures["latencies_seconds"] = [round(value, 6) for value in self.latencies_seconds]
        return figures

    @property
    def paid_tokens(self) -> tuple[int, int]:
        """Return the input and output tokens that the provider charged for."""
        return (
            self.input_tokens + self.lost_input_tokens,
            self.output_tokens + self.lost_output_tokens,
        )

    @property
    def most_tokens(self) -> tuple[int, int]:
        """Return the input and output tokens that the provider can have charged for at most."""
        n_input, n_output = self.paid_tokens
        return n_input + self.assumed_input_tokens, n_output + self.assumed_output_tokens

    @property
    def batch_tokens(self) -> tuple[int, int]:
        """Return the input and output tokens that are charged at the price of batches."""
        return self.batch_input_tokens, self.batch_output_tokens

    def send(self, n_input: float, n_output: float) -> None:
        """Count a call that is sent, and the most that it can take."""
        self.n_calls += 1
        self.reserved_input_tokens += math.ceil(n_input)
        self.reserved_output_tokens += math.ceil(n_output)

    def assume(self, n_input: float, n_output: float) -> None:
        """Count a call that did not say what it took with the most that it can have taken."""
        if n_input or n_output:
            self.n_calls_without_usage += 1
            self.assumed_input_tokens += math.ceil(n_input)
            self.assumed_output_tokens += math.ceil(n_output)


_COUNTS = tuple(one.name for one in fields(CallTotals) if one.name != "latencies_seconds")
_KNOWN = frozenset(_COUNTS)

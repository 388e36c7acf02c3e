"""The run-wide budget: nothing is sent that could overspend it."""

from __future__ import annotations

from dataclasses import dataclass

from krisis.errors import InvalidValue
from krisis.execution.limits import Limits
from krisis.execution.prices import Price
from krisis.execution.stopping import Stop

CHARACTERS_PER_TOKEN = 4
FIRST_GUESS_OF_OUTPUT = 64


@dataclass(slots=True)
class Estimate:
    """What a call is expected to take, in tokens."""

    input_tokens: float
    output_tokens: float

    @property
    def total(self) -> float:
        """Return both together."""
        return self.input_tokens + self.output_tokens


class Budget:
    """Keeps what was paid, reserves for what is under way, and stops the run before too much.

    Input is estimated from the length of the request, output from what earlier replies took.
    """

    def __init__(self, limits: Limits, price: Price | None, stop: Stop) -> None:
        if limits.max_cost is not None and price is None:
            raise InvalidValue(
                f"max_cost is {limits.max_cost} but the price of this model is not known; "
                "give a price table (--prices FILE) or bound the run by max_tokens instead"
            )
        self._limits = limits
        self._price = price
        self._stop = stop
        self._paid = Estimate(0.0, 0.0)
        self._reserved = Estimate(0.0, 0.0)
        self._seen_output = 0.0
        self._n_records = 0

    def start_from(self, input_tokens: int, output_tokens: int) -> None:
        """Count what earlier sessions of the run paid."""
        self._paid = Estimate(float(input_tokens), float(output_tokens))

    def estimate(self, n_characters: int, n_records: int) -> Estimate:
        """Guess the tokens of a call."""
        per_record = float(FIRST_GUESS_OF_OUTPUT)
        if self._n_records:
            per_record = self._seen_output / self._n_records
        return Estimate(n_characters / CHARACTERS_PER_TOKEN, per_record * n_records)

    def reserve(self, estimate: Estimate) -> None:
        """Set the estimate aside; ask for the end of the run where it does not fit."""
        after = Estimate(
            self._paid.input_tokens + self._reserved.input_tokens + estimate.input_tokens,
            self._paid.output_tokens + self._reserved.output_tokens + estimate.output_tokens,
        )
        if (bound := self._exceeded(after)) is not None:
            self._stop.request(f"the next call would go beyond the budget ({bound})")
            self._stop.check()
        self._reserved = _sum(self._reserved, estimate, 1)

    def settle(self, estimate: Estimate, used: Estimate | None, n_records: int) -> None:
        """Replace a reservation by what was really used, if the provider said."""
        self._reserved = _sum(self._reserved, estimate, -1)
        if used is not None:
            self._paid = _sum(self._paid, used, 1)
            self._seen_output += used.output_tokens
            self._n_records += n_records

    def cost(self, input_tokens: int, output_tokens: int) -> float | None:
        """Return the dollars for these tokens, where the price is known."""
        return None if self._price is None else self._price.cost(input_tokens, output_tokens)

    def _exceeded(self, total: Estimate) -> str | None:
        limits = self._limits
        if limits.max_tokens is not None and total.total > limits.max_tokens:
            return f"max_tokens {limits.max_tokens:g}"
        if limits.max_cost is not None and self._price is not None:
            cost = self._price.cost(total.input_tokens, total.output_tokens)
            if cost > limits.max_cost:
                return f"max_cost {limits.max_cost:g}"
        return None


def _sum(first: Estimate, second: Estimate, sign: int) -> Estimate:
    return Estimate(
        first.input_tokens + sign * second.input_tokens,
        first.output_tokens + sign * second.output_tokens,
    )

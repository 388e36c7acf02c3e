"""What a run may spend: limits, prices of tokens, and reservations for calls in progress."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from fnmatch import fnmatchcase
from pathlib import Path

import yaml

from krisis.backends.base import BaseBackend
from krisis.backends.chat import ChatBackend
from krisis.errors import InvalidFile, InvalidValue
from krisis.execution.stopping import Stop
from krisis.json_values import JsonValue
from krisis.results.stops import BudgetReached

CHARACTERS_PER_TOKEN = 4
FIRST_GUESS_OF_OUTPUT = 64


@dataclass(frozen=True, slots=True)
class Limits:
    """What a run may do per minute, per call and altogether; ``None`` means unbounded.

    ``adaptive`` lets the number of simultaneous calls move below ``max_concurrency``.
    ``max_failures`` is a share of the records below 1, a number of them from 1 on.
    """

    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    timeout_seconds: float | None = 300.0
    max_cost: float | None = None
    max_tokens: int | None = None
    max_failures: float | None = None
    adaptive: bool = True

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in ("adaptive", "max_failures") or value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
                raise InvalidValue(f"{field.name} must be a number above 0, not {value!r}")
        if self.max_failures is not None and not self.max_failures >= 0:
            raise InvalidValue(f"max_failures must be 0 or more, not {self.max_failures!r}")


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars for a million tokens, going in and coming out."""

    input_per_million: float
    output_per_million: float

    def __post_init__(self) -> None:
        for value in (self.input_per_million, self.output_per_million):
            if isinstance(value, bool) or not isinstance(value, int | float) or not value >= 0:
                raise InvalidValue(f"a price must be a number of 0 or more, not {value!r}")

    def cost(self, input_tokens: float, output_tokens: float) -> float:
        """Return the dollars for these tokens.

        >>> Price(1.0, 4.0).cost(500_000, 250_000)
        1.5
        """
        return (
            input_tokens * self.input_per_million + output_tokens * self.output_per_million
        ) / 1_000_000


# List prices in dollars per million tokens, gathered in November 2026 from price lists of others,
# not from the providers themselves. They are here to give a first idea of the cost; a table of the
# user's own replaces them.
LIST_PRICES_OF = "2026-11"
_LIST_PRICES = {
    "openai/gpt-5.4": (2.50, 15.0),
    "openai/gpt-5.4-mini": (0.75, 4.50),
    "openai/gpt-5.4-nano": (0.20, 1.25),
    "openai/gpt-5.2": (1.75, 14.0),
    "openai/gpt-5.1": (1.25, 10.0),
    "openai/gpt-5": (1.25, 10.0),
    "openai/gpt-5-mini": (0.25, 2.0),
    "openai/gpt-5-nano": (0.05, 0.40),
    "openai/gpt-4.1": (2.0, 8.0),
    "openai/gpt-4.1-mini": (0.40, 1.60),
    "openai/gpt-4.1-nano": (0.10, 0.40),
    "openai/gpt-4o": (2.50, 10.0),
    "openai/gpt-4o-mini": (0.15, 0.60),
    "anthropic/claude-sonnet-4-5": (3.0, 15.0),
    "anthropic/claude-sonnet-4-6": (3.0, 15.0),
    "gemini/gemini-2.5-pro": (1.25, 10.0),
}


def list_price(name: str) -> Price | None:
    """Return the list price of a model, also under a name that ends in its date.

    >>> list_price("openai/gpt-5-mini-2025-08-07") == list_price("openai/gpt-5-mini")
    True
    """
    bare = re.sub(r"-20\d\d-?\d\d-?\d\d$", "", name)
    return Price(*_LIST_PRICES[bare]) if bare in _LIST_PRICES else None


def price_for(name: str, prices: Mapping[str, Price]) -> Price | None:
    """Find the price of ``provider/model``: by its name, or by the first pattern that fits.

    >>> price_for("openai/gpt-5-mini", {"openai/gpt-5*": Price(1, 2)})
    Price(input_per_million=1, output_per_million=2)
    """
    if name in prices:
        return prices[name]
    fitting = (price for pattern, price in prices.items() if fnmatchcase(name, pattern))
    return next(fitting, None)


def price_of(backend: BaseBackend, prices: Mapping[str, Price]) -> Price | None:
    """Return what the tokens of a backend cost: as given, else by the provider's list.

    A list price says nothing about a model at another address.
    """
    if not isinstance(backend, ChatBackend):
        return None
    name = f"{backend.provider}/{backend.model}"
    return price_for(name, prices) or (None if backend.base_url else list_price(name))


def read_prices(path: str | Path) -> dict[str, Price]:
    """Read a YAML or JSON table ``model: {input: dollars, output: dollars}`` per million tokens."""
    path = Path(path)
    try:
        content: JsonValue = yaml.safe_load(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InvalidFile(f"the price table {path} does not exist; check --prices") from None
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        reason = " ".join(str(error).split())
        raise InvalidFile(f"the price table {path} cannot be read: {reason}") from None
    if not isinstance(content, dict):
        raise InvalidFile(f"the price table {path} must map models to prices")
    return {str(model): _price(model, entry, path) for model, entry in content.items()}


def _price(model: object, entry: object, path: Path) -> Price:
    if not isinstance(entry, dict) or set(entry) != {"input", "output"}:
        raise InvalidFile(
            f"{path}: {model!r} must have exactly the keys input and output, in dollars per "
            f"million tokens, not {entry!r}"
        )
    return Price(entry["input"], entry["output"])


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
    """Keeps what was paid, reserves for calls in progress, and stops the run before too much.

    Input is estimated from the length of the request, output from what earlier replies took.
    """

    def __init__(self, limits: Limits, price: Price | None, stop: Stop) -> None:
        if limits.max_cost is not None and price is None:
            raise InvalidValue(
                f"max_cost is {limits.max_cost} but the price of this model is not known; "
                "give a price table (--prices FILE), or limit the run by max_tokens instead"
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
        """Set the estimate aside; stop the run where it does not fit."""
        after = Estimate(
            self._paid.input_tokens + self._reserved.input_tokens + estimate.input_tokens,
            self._paid.output_tokens + self._reserved.output_tokens + estimate.output_tokens,
        )
        if (bound := self._exceeded(after)) is not None:
            self._stop.request(BudgetReached(f"the next call could exceed the budget ({bound})"))
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

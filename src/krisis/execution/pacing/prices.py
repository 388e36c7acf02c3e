"""What tokens cost: list prices of a few models, and tables of the user's own."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TypedDict

from krisis.backends.base import BaseBackend
from krisis.backends.chat import ChatBackend
from krisis.errors import InvalidFile, InvalidValue
from krisis.results.call_totals import CallTotals
from krisis.yaml_values import read_mapping

# All three providers ask half the price for batches (their pages on batches, November 2026); a
# table of the user's own may say otherwise.
BATCH_SHARE = 0.5
HIGHEST_PRICE = 1_000_000


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars for a million tokens, going in and coming out.

    ``batch`` is the share of these prices that a provider batch costs, where it is known.
    """

    input_per_million: float
    output_per_million: float
    batch: float | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        for value in (self.input_per_million, self.output_per_million):
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            if not is_number or not 0 <= value <= HIGHEST_PRICE:
                raise InvalidValue(
                    f"a price must be a number from 0 to {HIGHEST_PRICE:,} dollars per million "
                    f"tokens, not {value!r}"
                )
        if self.batch is not None and (
            isinstance(self.batch, bool)
            or not isinstance(self.batch, int | float)
            or not 0 < self.batch <= 1
        ):
            raise InvalidValue(
                f"batch must be the share of the price that a batch costs, such as 0.5, not "
                f"{self.batch!r}"
            )

    @property
    def per_million(self) -> dict[str, float]:
        """The two prices by name."""
        return {name: getattr(self, name) for name in ("input_per_million", "output_per_million")}

    @property
    def stated(self) -> dict[str, float]:
        """The two prices and the share, as a session writes them."""
        return {**self.per_million, "batch_share": self.batch_share}

    @property
    def batch_share(self) -> float:
        """The share of the two prices that provider batches cost."""
        return BATCH_SHARE if self.batch is None else self.batch

    def cost(
        self, input_tokens: float, output_tokens: float, batch: tuple[float, float] = (0.0, 0.0)
    ) -> float:
        """Return the dollars for these tokens, of which ``batch`` went by provider batches.

        >>> Price(1.0, 4.0).cost(500_000, 250_000)
        1.5
        >>> Price(1.0, 4.0).cost(500_000, 250_000, batch=(500_000, 250_000))
        0.75
        """
        saved = 1 - self.batch_share
        n_input, n_output = input_tokens - saved * batch[0], output_tokens - saved * batch[1]
        return (n_input * self.input_per_million + n_output * self.output_per_million) / 1_000_000


# List prices in dollars per million tokens, gathered in November 2026 from price lists of others,
# not from the providers themselves. They are here to give a first idea of the cost; a table of the
# user's own replaces them.
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

    A list price says nothing about a model at another address; a backend that is no chat has the
    price that is given for its name.
    """
    if not isinstance(backend, ChatBackend):
        return price_for(backend.name, prices)
    name = f"{backend.provider}/{backend.model}"
    return price_for(name, prices) or (None if backend.base_url else list_price(name))


class Cost(TypedDict, total=False):
    """What is known of the dollars that a run took."""

    cost: float
    cost_at_most: float
    cost_unknown: str
    price_per_million_tokens: Mapping[str, float]


def cost_of(price: Price | None, spent: CallTotals) -> Cost:
    """Return the dollars that a run took; where a call did not say, the most it can have taken."""
    if price is None:
        return {}
    share = {"batch_share": price.batch_share} if spent.n_batch_calls else {}
    known: Cost = {"price_per_million_tokens": {**price.per_million, **share}}
    if not spent.n_calls_without_usage:
        return {**known, "cost": price.cost(*spent.paid_tokens, spent.batch_tokens)}
    without = f"{spent.n_calls_without_usage} of {spent.n_calls}"
    most = price.cost(*spent.most_tokens, spent.batch_tokens)
    unknown = f"at most {most:.3f}: {without} calls did not report their tokens"
    return {**known, "cost_at_most": most, "cost_unknown": unknown}


def read_prices(path: str | Path) -> dict[str, Price]:
    """Read a YAML or JSON table ``model: {input: dollars, output: dollars}`` per million tokens.

    ``batch`` may stand beside them: the share of the price that a provider batch costs.
    """
    path = Path(path)
    content = read_mapping(path, "a price table, models mapped to prices", option="--prices")
    return {str(model): _price(model, entry, path) for model, entry in content.items()}


def _price(model: object, entry: object, path: Path) -> Price:
    if not isinstance(entry, dict) or set(entry) - {"batch"} != {"input", "output"}:
        raise InvalidFile(
            f"{path}: {model!r} must have exactly the keys input and output, in dollars per "
            f"million tokens, and batch at most, not {entry!r}"
        )
    return Price(entry["input"], entry["output"], entry.get("batch"))

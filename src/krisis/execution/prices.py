"""What tokens cost: prices that the user gives, for a provider's model or for all of its kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

import yaml

from krisis.errors import InvalidFile, InvalidValue


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


def price_for(name: str, prices: Mapping[str, Price]) -> Price | None:
    """Find the price of ``provider/model``: by its name, or by the first pattern that fits.

    >>> price_for("openai/gpt-5-mini", {"openai/gpt-5*": Price(1, 2)})
    Price(input_per_million=1, output_per_million=2)
    """
    if name in prices:
        return prices[name]
    fitting = (price for pattern, price in prices.items() if fnmatchcase(name, pattern))
    return next(fitting, None)


def read_prices(path: str | Path) -> dict[str, Price]:
    """Read a YAML or JSON table ``model: {input: dollars, output: dollars}`` per million tokens."""
    path = Path(path)
    try:
        content: Any = yaml.safe_load(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise InvalidFile(f"the price table {path} cannot be read: {error}") from None
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

"""What the address of the Decide page asks, and the commands that ask the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path

from krisis.costs import check_price
from krisis.decisions.run_sample import MOST_NOT_EVALUATED, ScoreOptions
from krisis.decisions.sample import DEFAULT_DELTA, DEFAULT_RISK, METHODS
from krisis.errors import InvalidValue
from krisis.json_values import JsonObject
from krisis.pages.tabs import choice_of, number_of, text_of
from krisis.results.loading import place_in_commands
from krisis.verbs.decide.working_point import ThresholdQuestion


@dataclass(frozen=True)
class Asked:
    """What the address asks for: the question, the score, the certificate and the price."""

    question: ThresholdQuestion
    confidence: str
    delta: float | None
    method: str
    max_not_evaluated: float | None
    price: float | None

    @classmethod
    def of(cls, query: Mapping[str, str]) -> Asked:
        """Read it, refusing what it cannot be."""
        shares = {kind: _share(query, kind) for kind in ("wrong", "answer")}
        given = [ThresholdQuestion(k, s) for k, s in shares.items() if s is not None]  # type: ignore[arg-type]
        if len(given) > 1:
            raise InvalidValue("wrong and answer are two questions; ask one of them")
        price = number_of(query, "price")
        return cls(
            question=given[0] if given else ThresholdQuestion("wrong", DEFAULT_RISK),
            confidence=text_of(query, "confidence"),
            delta=number_of(query, "delta"),
            method=choice_of(query, "method", METHODS) or METHODS[0],
            max_not_evaluated=number_of(query, "max_not_evaluated"),
            price=None if price is None else check_price(price),
        )

    @property
    def risk(self) -> float:
        """The risk to certify: that of the question, also where it asks for a coverage."""
        return self.question.share if self.question.kind == "wrong" else DEFAULT_RISK

    @property
    def score(self) -> ScoreOptions:
        """The same options as those of `krisis certify`; a wrong answer is what counts."""
        return ScoreOptions(
            confidence=self.confidence,
            max_not_evaluated=MOST_NOT_EVALUATED
            if self.max_not_evaluated is None
            else self.max_not_evaluated,
        )


def _share(query: Mapping[str, str], name: str) -> float | None:
    """Return a percentage of the query as a share; as decimals, so that 5 % is 0.05."""
    text = text_of(query, name).removesuffix("%").strip()
    if not text:
        return None
    try:
        number = Decimal(text[:40])
    except InvalidOperation:
        number = Decimal(-1)
    if not (number.is_finite() and 0 <= number <= 100):
        raise InvalidValue(f"{name} must be a number of per cent from 0 to 100, not {text[:40]!r}")
    return float(number / 100)


def commands(path: Path, asked: Asked) -> JsonObject:
    """Return the commands that give the figures of the page, from where krisis was started."""
    place = place_in_commands(path)
    risk = asked.risk
    parts = [f"krisis certify {place} --risk {risk!r}"]
    if asked.method == "crc":
        parts.append("--method crc")
    else:
        parts.append(f"--delta {asked.delta or DEFAULT_DELTA!r}")
        parts += [f"--method {asked.method}"] if asked.method != METHODS[0] else []
    score = [f"--confidence {asked.confidence}"] if asked.confidence else []
    price = [] if asked.price is None else [f"--price {asked.price!r}"]
    parts += [*score, *price]
    limit = asked.max_not_evaluated
    allowed = [] if limit is None else [f"--max-not-evaluated {limit!r}"]
    bound = [] if risk == DEFAULT_RISK else [f"--risk {risk!r}"]
    return {
        "certify": " ".join([*parts, *allowed]),
        "decide": " ".join([f"krisis decide {place}", *bound, *score, *price, *allowed]),
        "audit": " ".join([f"krisis audit {place}", *bound, *score]),
    }

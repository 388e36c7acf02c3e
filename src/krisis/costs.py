"""What an answer costs: a task says it once, and everything else follows from it.

The words of a prompt, which cases are due for deferral, Decision Cost and Skill, `decide` and
`certify --loss cost` are all made from the `Costs` of a task.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Self, TypeGuard

from krisis.answers import AnswerSet, Label
from krisis.errors import InvalidValue, UnknownName
from krisis.json_values import JsonObject

# The price of a task that states none; every word that depends on it says so.
ASSUMED_PRICE = 0.2
# Comparisons with the price tolerate this much: in floats 1 − 0.8 < 0.2.
TOLERANCE = 1e-9

Wrong = Mapping[Label, Mapping[Label, float]]


@dataclass(frozen=True, slots=True)
class Costs:
    """What each wrong answer costs, by the truth, and what deferring costs.

    ``wrong`` maps truth to answer to cost, keyed by the answers themselves; empty means that every
    error costs the same. A right answer costs 0. ``price`` is what one deferral costs in the same
    unit. Both are scaled so that the costliest error costs 1. ``why`` is the reasoning behind the
    figures in a sentence or two; ``assumed`` marks the price of a task that states none.

    >>> costs = Costs({"ill": {"well": 200}, "well": {"ill": 100}}, price=30)
    >>> costs.price, costs.of("well", "ill"), costs.of("ill", "ill")
    (0.15, 0.5, 0.0)
    """

    wrong: Wrong = field(default_factory=dict)
    price: float = ASSUMED_PRICE
    why: str = ""
    assumed: bool = False

    def __post_init__(self) -> None:
        most = 1.0
        if self.wrong:
            for truth, row in self.wrong.items():
                for answer, cost in row.items():
                    _check_cost(truth, answer, cost)
            most = max((c for row in self.wrong.values() for c in row.values()), default=0.0)
            if most <= 0:
                raise InvalidValue("the costs must hold at least one above 0: what errors cost")
        _check_price(self.price, most)
        table = {
            truth: {answer: cost / most for answer, cost in row.items() if answer != truth}
            for truth, row in self.wrong.items()
        }
        object.__setattr__(self, "wrong", table)
        object.__setattr__(self, "price", self.price / most)

    @classmethod
    def by_distance(
        cls, answers: Iterable[Label], *, price: float, why: str = "", step: float | None = None
    ) -> Self:
        """Return costs that grow evenly with the steps between answer and truth.

        ``price`` is in units of the largest distance, or of ``step`` if one step costs that much.

        >>> Costs.by_distance(range(4), price=0.05).of(0, 1)
        0.3333333333333333
        """
        places = dict(enumerate(answers))
        one = 1.0 / max(1, len(places) - 1) if step is None else step
        wrong = {
            truth: {answer: one * abs(i - j) for j, answer in places.items() if j != i}
            for i, truth in places.items()
        }
        return cls(wrong, price, why)

    @property
    def are_equal(self) -> bool:
        """Say whether every error costs the same."""
        return all(cost == 1.0 for row in self.wrong.values() for cost in row.values())

    def of(self, truth: Label, answer: Label) -> float:
        """Return what an answer costs; an error that the table does not price costs the most."""
        if truth == answer:
            return 0.0
        return self.wrong.get(truth, {}).get(answer, 1.0)

    def at(self, price: float) -> Costs:
        """Return the same table at another price of deferring."""
        return replace(self, price=price, assumed=False)

    def over(self, answers: AnswerSet) -> Costs:
        """Return the table keyed by these answers; each error among them must have a cost."""
        if not self.wrong or not answers.allowed:
            return self
        known = {answers.key(answer): answer for answer in answers.allowed}
        named = {label for truth, row in self.wrong.items() for label in (truth, *row)}
        for label in named:
            if answers.match(label) is None:
                raise UnknownName.among(
                    "answer in the costs:", str(label), map(str, answers.allowed)
                )
        given = {
            (answers.key(truth), answers.key(answer)): cost
            for truth, row in self.wrong.items()
            for answer, cost in row.items()
        }
        missing = [
            (known[truth], known[answer])
            for truth in known
            for answer in known
            if truth != answer and (truth, answer) not in given
        ]
        if missing:
            truth, answer = missing[0]
            raise InvalidValue(
                f"the costs say nothing of the answer {answer!r} where {truth!r} is right; add it"
            )
        wrong = {
            known[truth]: {known[a]: given[truth, a] for a in known if a != truth}
            for truth in known
        }
        return replace(self, wrong=wrong)

    def over_seen(self, answers: AnswerSet, seen: Iterable[Label]) -> Costs:
        """Return the table keyed by the answers of a task, or by those seen where it lists none."""
        if answers.allowed or not self.wrong:
            return self.over(answers)
        known = AnswerSet(tuple(dict.fromkeys(seen)))
        unseen = [truth for truth in self.wrong if known.match(truth) is None]
        return self.over(replace(known, allowed=(*known.allowed, *unseen)))

    def expected(self, chances: Mapping[Label, float]) -> dict[Label, float]:
        """Return what each answer costs on average, given the probability of each truth.

        >>> Costs().expected({"ill": 0.75, "well": 0.25})
        {'ill': 0.25, 'well': 0.75}
        """
        if self.are_equal:  # nearer to the truth than a sum: probabilities are rounded
            return {answer: min(1.0, max(0.0, 1.0 - chance)) for answer, chance in chances.items()}
        return {
            answer: math.fsum(chance * self.of(truth, answer) for truth, chance in chances.items())
            for answer in chances
        }

    def best(self, chances: Mapping[Label, float]) -> tuple[Label, float]:
        """Return the answer of the lowest expected cost, the first of equals, and that cost."""
        costs = self.expected(chances)
        answer = min(costs, key=lambda one: round(costs[one], 12))
        return answer, costs[answer]

    def decide(self, chances: Mapping[Label, float]) -> tuple[Label, float] | None:
        """Return the answer of the lowest expected cost and its probability; None to defer.

        >>> Costs().decide({"ill": 0.85, "well": 0.15}), Costs().decide({"ill": 0.75, "well": 0.25})
        (('ill', 0.85), None)
        """
        answer, lowest = self.best(chances)
        return None if self.is_due(lowest) else (answer, float(chances[answer]))

    def is_due(self, lowest: float) -> bool:
        """Say whether a case is due for deferral whose best answer costs this much: ties are."""
        return lowest >= self.price - TOLERANCE

    def same(self, other: Costs) -> bool:
        """Say whether two tables price every decision alike, whatever their words."""
        if not math.isclose(self.price, other.price, abs_tol=TOLERANCE):
            return False
        pairs = {(t, a) for one in (self, other) for t, row in one.wrong.items() for a in row}
        return all(math.isclose(self.of(*p), other.of(*p), abs_tol=TOLERANCE) for p in pairs)

    def to_json(self) -> JsonObject:
        """Return the table as a file of costs states it, and whether it is assumed."""
        wrong = {
            str(truth): {str(answer): cost for answer, cost in row.items()}
            for truth, row in self.wrong.items()
        }
        return {
            **({"costs": wrong} if wrong else {}),
            "price": self.price,
            **({"why": self.why} if self.why else {}),
            **({"assumed": True} if self.assumed else {}),
        }


def check_price(price: float) -> float:
    """Return a price of deferring, relative to the costliest error."""
    _check_price(price, 1.0)
    return float(price)


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _check_price(price: object, most: float) -> None:
    if not (_is_number(price) and 0.0 < price < most):
        limit = "1, the cost of a wrong answer" if most == 1 else f"{most:g}, the costliest error"
        raise InvalidValue(
            f"the price of deferring must be above 0 and below {limit}, not {price!r}"
        )


def _check_cost(truth: Label, answer: Label, cost: object) -> None:
    what = f"the cost of the answer {answer!r} where {truth!r} is right"
    if not (_is_number(cost) and 0.0 <= cost < math.inf):
        raise InvalidValue(f"{what} must be a number of 0 or more, not {cost!r}")
    if truth == answer and cost != 0:
        raise InvalidValue(f"{what} must be 0, not {cost!r}: right answers cost nothing")


# What a task has that states no costs.
ASSUMED = Costs(assumed=True)

"""How a prompt says when to abstain: by the costs, barely, or by the costs and rules as a list.

Every suite words its prompts through `abstention_text`, from the costs of its task: no other text
says what an answer costs.
"""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from enum import StrEnum
from typing import TYPE_CHECKING

from krisis.errors import UnknownName

if TYPE_CHECKING:
    from krisis.answers import Label
    from krisis.data.task import Task


class Instructions(StrEnum):
    """What a model learns about abstaining; `krisis run --instructions`."""

    PRICE = "price"
    BARE = "bare"
    POLICY = "policy"

    @classmethod
    def parsed(cls, text: str) -> Instructions:
        """Return the instructions of this name, or say which there are."""
        if text not in list(cls):
            raise UnknownName.among("kind of instructions", text, [one.value for one in cls])
        return cls(text)


_FRACTIONS = {
    1 / 2: "half",
    1 / 3: "a third",
    2 / 3: "two thirds",
    1 / 4: "a quarter",
    3 / 4: "three quarters",
    1 / 5: "a fifth",
    1 / 10: "a tenth",
    1 / 20: "a twentieth",
}
_BARE = "Do so if the question cannot be answered safely."
_BY_COST = "your best answer is expected to cost as much as an abstention or more"


def share_in_words(share: float) -> str:
    """Write a share of a cost, ready to be followed by "of …".

    >>> share_in_words(0.2), share_in_words(0.15), share_in_words(1 / 3)
    ('a fifth', '15 %', 'a third')
    """
    for fraction, words in _FRACTIONS.items():
        if abs(share - fraction) < 1e-9:
            return words
    return f"{percent_text(share)} %"


def percent_text(share: float) -> str:
    """Write a share as a percentage with every digit it has.

    >>> percent_text(0.2), percent_text(0.125)
    ('20', '12.5')
    """
    return f"{(Decimal(str(round(share, 12))) * 100).normalize():f}"


def costs_in_words(task: Task) -> str:
    """Say what each error and an abstention cost, relative to each other.

    >>> from krisis.data.task import Task
    >>> costs_in_words(Task("sepsis", price=0.2))
    'An abstention costs a fifth of what a wrong answer costs.'
    """
    costs = task.costs
    if costs.are_equal:
        share = share_in_words(costs.price)
        return f"An abstention costs {share} of what a wrong answer costs."
    if (step := _step(task)) is not None:
        price = costs.price / step
        rate = f"{share_in_words(price)} of" if price < 1 else f"{percent_text(price)} % of"
        return (
            "The cost of a wrong answer grows evenly with the steps between it and the right one. "
            f"An abstention costs {rate} one step."
        )
    if task.positive is not None and len(task.answers) == 2:
        return _of_two(task)
    return " ".join(_listed(task))


def _step(task: Task) -> float | None:
    """Return what one step costs on a scale where every step costs the same."""
    answers = list(task.answers)
    step = 1.0 / max(1, len(answers) - 1)
    even = task.ordered and all(
        abs(task.costs.of(truth, answer) - step * abs(i - j)) < 1e-9
        for i, truth in enumerate(answers)
        for j, answer in enumerate(answers)
    )
    return step if even else None


def _of_two(task: Task) -> str:
    positive = task.answer_set.match(task.positive)
    assert positive is not None
    negative = next(answer for answer in task.answers if answer != positive)
    missed, alarm = task.costs.of(positive, negative), task.costs.of(negative, positive)
    costly, other = (
        ("missed disease", "false alarm")
        if missed >= alarm
        else (
            "false alarm",
            "missed disease",
        )
    )
    lesser = min(missed, alarm)
    return (
        f"A {other} counts {_as_much_as(lesser, costly)}. "
        f"An abstention counts {_as_much_as(task.costs.price, costly)}."
    )


def _as_much_as(share: float, error: str) -> str:
    if abs(share - 1.0) < 1e-9:
        return f"as much as a {error}"
    words = share_in_words(share)
    return f"{words} of a {error}" if words.endswith("%") else f"{words} as much as a {error}"


def _listed(task: Task) -> Iterator[str]:
    """Yield what every error costs, those of one cost together, the costliest first."""
    by_cost: dict[float, list[tuple[Label, Label]]] = {}
    for truth in task.answers:
        for answer in task.answers:
            if truth != answer:
                by_cost.setdefault(round(task.costs.of(truth, answer), 12), []).append(
                    (truth, answer)
                )
    for cost in sorted(by_cost, reverse=True):
        pairs = "; ".join(f"{answer!r} where {truth!r} is right" for truth, answer in by_cost[cost])
        yield f"These errors cost {percent_text(cost)} points: {pairs}."
    yield f"An abstention costs {percent_text(task.costs.price)} points."


def abstention_text(task: Task, instructions: Instructions = Instructions.PRICE) -> str:
    """Return what a prompt says after "You may abstain."."""
    if instructions is Instructions.BARE:
        return _BARE
    if instructions is Instructions.POLICY:
        rules = (_BY_COST, *task.policy)
        listed = "\n".join(f"{n}. {rule}" for n, rule in enumerate(rules, 1))
        return f"{costs_in_words(task)} Abstain if\n{listed}"
    return costs_in_words(task)

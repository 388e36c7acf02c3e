"""How a prompt says when to abstain: by a price, barely, or by the rules as a list.

Every suite words its prompts through `abstention_text`, so that one sentence means one thing in
all of them. A task without a price, or whose errors cost more the larger they are, keeps its own
words (``Task.abstain_when``).
"""

from __future__ import annotations

from decimal import Decimal
from enum import StrEnum
from typing import TYPE_CHECKING

from krisis.errors import UnknownName

if TYPE_CHECKING:
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
    "0.5": "half",
    "0.25": "a quarter",
    "0.2": "a fifth",
    "0.1": "a tenth",
    "0.05": "a twentieth",
}
_BARE = "Do so if the question cannot be answered safely."


def price_in_words(price: float) -> str:
    """Write a price as a share of what a wrong answer costs.

    >>> price_in_words(0.2), price_in_words(0.15)
    ('a fifth', '15 %')
    """
    exact = Decimal(str(price)).normalize()
    return _FRACTIONS.get(f"{exact:f}", f"{percent_text(price)} %")


def percent_text(share: float) -> str:
    """Write a share as a percentage with every digit it has.

    >>> percent_text(0.2), percent_text(0.125)
    ('20', '12.5')
    """
    return f"{(Decimal(str(share)) * 100).normalize():f}"


def price_rule(price: float) -> str:
    """Return the rule that follows from a price, as the first line of a policy."""
    return f"your best answer is wrong with a probability of {percent_text(price)} % or more"


def abstention_text(task: Task, instructions: Instructions = Instructions.PRICE) -> str:
    """Return what a prompt says after "You may abstain.".

    >>> from krisis.data.task import Task
    >>> abstention_text(Task("sepsis", price=0.2))
    'An abstention costs a fifth of what a wrong answer costs.'
    """
    if instructions is Instructions.BARE:
        return _BARE
    if instructions is Instructions.POLICY and task.policy:
        return "Abstain if\n" + "\n".join(f"{n}. {rule}" for n, rule in enumerate(task.policy, 1))
    if task.price is None or task.losses:
        return task.abstain_when
    return f"An abstention costs {price_in_words(task.price)} of what a wrong answer costs."

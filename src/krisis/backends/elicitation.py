"""How a model is asked: in whose words, and how it is to say how sure it is.

The ways to ask for confidence, with the papers that they are from:

    answer     the answer with its confidence (Lin et al. 2022, arXiv:2205.14334)
    rationale  reasoning before the answer (Wei et al. 2022, arXiv:2201.11903; Xiong et al. 2024,
               arXiv:2306.13063)
    p-true     the probability that the answer is true, in a call of its own (Kadavath et al. 2022,
               arXiv:2207.05221)
    top-k      several guesses with their probabilities (Tian et al. 2023, arXiv:2305.14975)
    two-step   the answer first, its confidence in a second turn (Tian et al. 2023)
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from enum import StrEnum

from krisis.backends.template import PromptTemplate
from krisis.data.base import ReplyField, Task
from krisis.data.instructions import Instructions
from krisis.data.perturbation import Perturbed
from krisis.errors import InvalidValue, UnknownName
from krisis.json_values import JsonObject

RATIONALE = "rationale"
GUESSES = "guesses"
# A row keeps no more of the reasoning than this.
MAX_RATIONALE_CHARACTERS = 4000
N_GUESSES = 3
_REASONING = ReplyField(str, "your reasoning, in a few sentences, before you answer")
_TOP_K = re.compile(r"top-k(?::([1-9]\d?))?")


class Way(StrEnum):
    """A way to ask for confidence."""

    ANSWER = "answer"
    RATIONALE = "rationale"
    P_TRUE = "p-true"
    TOP_K = "top-k"
    TWO_STEP = "two-step"


@dataclass(frozen=True, slots=True)
class Elicitation:
    """A way to ask for confidence, with the number of guesses where several are asked for."""

    way: Way = Way.ANSWER
    n_guesses: int = N_GUESSES

    @classmethod
    def parsed(cls, text: str) -> Elicitation:
        """Read ``answer``, ``p-true``, ``top-k`` or, for another number of guesses, ``top-k:5``.

        >>> str(Elicitation.parsed("top-k:5")), str(Elicitation.parsed("top-k:3"))
        ('top-k:5', 'top-k')
        """
        if match := _TOP_K.fullmatch(text):
            return cls(Way.TOP_K, int(match[1] or N_GUESSES))
        if text.startswith("top-k:"):
            raise InvalidValue(f"the guesses of top-k are 1 to 99, as in top-k:5, not {text!r}")
        if text not in list(Way):
            known = [*(way.value for way in Way), "top-k:N"]
            raise UnknownName.among("way to ask for confidence", text, known)
        return cls(Way(text))

    def __str__(self) -> str:
        usual = self.way is not Way.TOP_K or self.n_guesses == N_GUESSES
        return self.way.value if usual else f"{self.way.value}:{self.n_guesses}"

    @property
    def asks_twice(self) -> bool:
        """Say whether an answer takes two calls."""
        return self.way in (Way.P_TRUE, Way.TWO_STEP)

    @property
    def variant(self) -> str:
        """Return the confidence variant that this way of asking makes."""
        return "stated" if self.way is Way.ANSWER else self.way.value.replace("-", "_")

    @property
    def signal(self) -> str:
        """Return the signal of a row that only this way of asking writes."""
        return f"{self.variant}_confidence"

    @property
    def member(self) -> str:
        """Return the member of a reply that this way adds to an answer in one call, if any."""
        return {Way.RATIONALE: RATIONALE, Way.TOP_K: GUESSES}.get(self.way, "")

    def task(self, task: Task) -> Task:
        """Return the task as it is asked: with the reasoning as its first reply field, if any."""
        if self.way is not Way.RATIONALE:
            return task
        if RATIONALE in task.reply_fields:
            raise InvalidValue(
                f"the task {task.name!r} asks for a field {RATIONALE!r} of its own, so --elicit "
                "rationale has no room for another; rename it or ask in another way"
            )
        return replace(task, reply_fields={RATIONALE: _REASONING, **task.reply_fields})

    def guesses_about(self, task: Task) -> int:
        """Return how many guesses are asked for: no more than there are answers."""
        return min(self.n_guesses, len(task.answers))


@dataclass(frozen=True, slots=True)
class Asking:
    """In whose words and form a model is asked, how for its confidence, when it is to abstain."""

    prompt: PromptTemplate | None = None
    elicit: Elicitation = field(default_factory=Elicitation)
    instructions: Instructions = Instructions.PRICE
    perturbed: Perturbed | None = None

    @property
    def words(self) -> list[str]:
        """Return what tells a run from one that asked in the usual way."""
        named = [] if self.prompt is None else [f"prompt {self.prompt.name}"]
        way = [] if self.elicit.way is Way.ANSWER else [str(self.elicit)]
        told = (
            [] if self.instructions is Instructions.PRICE else [f"{self.instructions} instructions"]
        )
        form = [] if self.perturbed is None else [f"perturb {self.perturbed.kind}"]
        return [*named, *way, *told, *form]

    def form(self, task: Task) -> Task:
        """Return the task in the form in which it is asked."""
        return task if self.perturbed is None else self.perturbed.task(task)

    def identity(self) -> JsonObject:
        """Return what must be equal for two runs to have asked alike; nothing for the usual way."""
        named = {} if self.prompt is None else {"prompt_sha256": self.prompt.sha256}
        way = {} if self.elicit.way is Way.ANSWER else {"elicit": str(self.elicit)}
        usual = self.instructions is Instructions.PRICE
        told = {} if usual else {"instructions": self.instructions.value}
        form = {} if self.perturbed is None else {"perturb": self.perturbed.kind.value}
        return {**named, **way, **told, **form}

"""How people talk in the synthetic interviews: phrase banks, frequencies, biography and style."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import TypeVar

import numpy as np

from krisis.json_values import JsonObject
from krisis.texts import stated_in

Option = TypeVar("Option")

# The days out of fourteen that each score stands for.
DAYS: Mapping[int, tuple[int, int]] = {1: (2, 6), 2: (7, 11), 3: (12, 14)}
_NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten",
            "eleven", "twelve", "thirteen", "fourteen")  # fmt: skip
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_FILLERS = ("Um", "Uh", "Well", "You know", "I mean", "So", "Honestly", "Right", "Okay", "See",
            "Hm", "Look", "Oh", "Er", "Let's see", "To be fair")  # fmt: skip
_TAILS = ("you know", "so yeah", "if that makes sense", "right", "as they say", "there you go",
          "if you see what I mean", "and there we are")  # fmt: skip
_LONG_TAIL = 3  # nobody ends twice with as many words
_CHOICE = re.compile(r"\[([^\]]*)\]")


@dataclass(frozen=True, slots=True)
class Topic:
    """What is said about one item.

    ``did`` are predicates in the past tense that fit any person ("lay awake until three"): who,
    when and how often are added. ``says`` hold the frequency themselves, ``well`` says that the
    symptom is absent; ``more`` and ``fine`` colour the one and the other. ``noun`` names the topic
    when people come back to it, ``plays_down`` makes light of the symptom, and ``drifts`` lead from
    it to something else.
    """

    ask: Sequence[str]
    did: Sequence[str]
    says: Sequence[str]
    well: Sequence[str]
    more: Sequence[str]
    fine: Sequence[str]
    noun: Sequence[str]
    plays_down: Sequence[str]
    drifts: Sequence[str]


@dataclass(frozen=True, slots=True)
class Frequency:
    """How often, as an adverbial, and what one who names it later can say of it.

    ``recalled`` is the kind of claim it can be recalled by and ``numbers`` are those it stated: who
    said "five days" may not be quoted with "a few".
    """

    words: str
    recalled: str
    numbers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Bank:
    """All phrases of one split, as its TOML file holds them."""

    phrases: JsonObject
    topics: Mapping[str, Topic]
    names: frozenset[str]

    @classmethod
    @cache
    def of(cls, split: str) -> Bank:
        """Read the phrases of ``train`` or ``test``."""
        phrases = stated_in(__package__, f"interviews_{split}.toml")
        topics = {key: Topic(**said) for key, said in phrases["topics"].items()}
        life = phrases["life"]
        names = {name.split()[0] for name in (*life["friend"], *life["town"], *_WEEKDAYS)}
        names.update(life["proper"])
        return cls(phrases, topics, frozenset(names))


@cache
def _yours(who: str) -> str:
    """Turn "my sister" into "your sister"; a name stays as it is."""
    return re.sub(r"^([Mm])y\b", lambda m: "Your" if m[1] == "M" else "your", who)


class Voice:
    """One person: what they tell of their life, how they talk, and a stream of draws."""

    def __init__(self, bank: Bank, rng: np.random.Generator) -> None:
        self.bank = bank
        self.said: set[str] = set()  # templates and tails that this person has used up
        self.uniform = _uniform(rng).__next__
        self.life = self._draw_life()
        self.verbosity = self.uniform() ** 1.4
        self.filler_rate = 0.35 * self.uniform()
        self.fillers = [self.pick(_FILLERS) for _ in range(4)]
        self.tails = [self.pick(_TAILS) for _ in range(2)]
        self.is_formal = self.uniform() < 0.25

    def whole(self, first: int, last: int) -> int:
        """Draw a whole number from ``first`` to ``last``."""
        return first + int(self.uniform() * (last - first + 1))

    def pick(self, options: Sequence[Option]) -> Option:
        """Choose one."""
        return options[int(self.uniform() * len(options))]

    def shuffled(self, options: Sequence[Option]) -> list[Option]:
        """Return the options in an order of their own."""
        order = sorted((self.uniform(), index) for index in range(len(options)))
        return [options[index] for _, index in order]

    def fill(self, templates: Sequence[str], **slots: str) -> str:
        """Choose a template that this person has not used yet, make its choices, fill its slots."""
        uniform = self.uniform
        template = self.pick([one for one in templates if one not in self.said] or templates)
        self.said.add(template)
        text = "".join([options[int(uniform() * len(options))] for options in _parts(template)])
        return text.format_map(self._slots(slots)) if "{" in text else text

    def _slots(self, slots: Mapping[str, str]) -> dict[str, str]:
        """Return what a template can be filled with; people know several people and places."""
        life = {**self.life, **self.pick(self.kin), "day": self.pick(_WEEKDAYS)}
        life.update(town=self.pick(self.towns), friend=self.pick(self.friends))
        return {**life, **slots}

    def phrase(self, section: str, kind: str, **slots: str) -> str:
        """Fill a template of the bank's general phrases."""
        return self.fill(self.bank.phrases[section][kind], **slots)

    def asked(self, templates: Sequence[str], **slots: str) -> str:
        """Fill a question: who is mine to the participant is yours to the interviewer."""
        people = {**self.life, **self.pick(self.kin)}
        yours = {name: _yours(who) for name, who in people.items()}
        return capital(self.fill(templates, **{**yours, **slots}))

    def often(self, score: int, unit: str) -> Frequency:
        """Say how often, as an adverbial that denotes the score."""
        phrases = self.bank.phrases["often"]
        slots = {"unit": unit, "units": f"{unit}s"}
        if self.uniform() < 0.55:
            kind = self.pick(("banded", "circumstance"))
            return Frequency(self.fill(phrases[kind][str(score)], **slots), str(score))
        first, last = DAYS[score]
        kind = self.pick(
            (*("counted", "repaired", "weekly", "halves"), "named" if score == 1 else "all_but")
        )
        n_days = self.whole(first, last)
        numbers = self._numbers(kind, n_days, score, unit)
        recalled = kind if kind in ("weekly", "all_but") else "counted"
        return Frequency(self.fill(phrases[kind], **slots, **numbers), recalled, numbers)

    def _numbers(self, kind: str, n_days: int, score: int, unit: str) -> dict[str, str]:
        """Put a number of days into words in the way that the kind of phrase needs."""
        first, last = DAYS[score]
        if kind == "named":
            chosen = sorted(self.shuffled(range(7))[: self.whole(2, 4)])
            *names, final = (_WEEKDAYS[day] for day in chosen)
            return {"names": f"{', '.join(names)} and {final}", "n": _NUMBERS[len(chosen)]}
        if kind == "halves":
            n_days = max(n_days, 4)
            a = self.whole(max(2, n_days - 7), min(7, n_days - 2))
            return {"a": _NUMBERS[a], "b": _NUMBERS[n_days - a], "n": _NUMBERS[n_days]}
        if kind == "weekly":
            half = self.whole((first + 1) // 2, last // 2)
            return {"times": {1: "once", 2: "twice"}.get(half, f"{_NUMBERS[half]} times")}
        if kind == "repaired":  # one day too few or too many, put right in the same breath
            up = n_days == 2 or (n_days < 14 and self.uniform() < 0.5)
            near = n_days + (1 if up else -1)
            return {"near": _NUMBERS[near], "n": _NUMBERS[n_days]}
        # Nobody says "all but seven".
        free = 14 - min(max(n_days, 9), 13)
        return {
            "n": _NUMBERS[n_days],
            "free": _NUMBERS[free],
            "free_units": f"{_NUMBERS[free]} {unit}{'s' * (free > 1)}",
        }

    def spoken(self, sentences: Sequence[str]) -> str:
        """Say sentences in this person's manner: fillers, false starts, full or short forms."""
        return " ".join(self._styled(sentence) for sentence in sentences if sentence)

    def _styled(self, sentence: str) -> str:
        if self.is_formal:
            sentence = _FULL.sub(lambda found: _FULL_FORMS[found.group()], sentence)
        draw = self.uniform()
        if draw < self.filler_rate:
            sentence = f"{self.pick(self.fillers)}, {self.small(sentence)}"
        elif draw < 1.4 * self.filler_rate and sentence.endswith("."):
            tail = self.pick(self.tails)
            if len(tail.split()) < _LONG_TAIL or tail not in self.said:
                self.said.add(tail)
                sentence = f"{sentence[:-1]}, {tail}."
        elif draw < 1.6 * self.filler_rate and sentence.startswith("I "):
            sentence = f"I, {sentence}"
        return capital(sentence)

    def small(self, sentence: str) -> str:
        """Continue a sentence: lower the first letter unless the word is a name or I."""
        first = re.split(r"[\s',.]", sentence, maxsplit=1)[0]
        keeps = first == "I" or first in self.bank.names
        return sentence if keeps else sentence[:1].lower() + sentence[1:]

    def _draw_life(self) -> dict[str, str]:
        life: JsonObject = self.bank.phrases["life"]
        job, workplace, task = self.pick(life["work"])
        *kin, other = self.shuffled(life["kin"])[:4]
        self.kin = [{"kin": one[0], "kin_capital": capital(one[0])} for one in kin]
        self.towns = self.shuffled(life["town"])[:4]
        self.friends = self.shuffled(life["friend"])[:4]
        hobby, hobbying, hobby_people = self.pick(life["hobby"])
        drawn = {
            "job": job, "workplace": workplace, "the_task": task,
            "hobby": hobby, "hobbying": hobbying, "hobby_people": hobby_people,
            "other": other[0], "he": other[1], "him": other[3],
        }  # fmt: skip
        named = {f"{name}_capital": capital(value) for name, value in drawn.items()}
        own = {"I": "I", "my": "my", "me": "me", "myself": "myself"}
        theirs = dict(zip(("his_I", "his_my", "his_me", "his_myself"), other[1:], strict=True))
        return {**drawn, **named, **own, **theirs, "He": capital(other[1])}

    def predicate(self, topic: Topic, *, of_other: bool = False) -> str:
        """Choose what was done, for the person or for the relative they speak of."""
        names = ("I", "my", "me", "myself")
        whose = {name: self.life[f"his_{name}"] for name in names} if of_other else {}
        return self.fill(topic.did, **whose)


def _uniform(rng: np.random.Generator) -> Iterator[float]:
    while True:
        yield from rng.random(512).tolist()


@cache
def _parts(template: str) -> tuple[tuple[str, ...], ...]:
    """Cut a template into its parts, each with the options for it."""
    pieces = _CHOICE.split(template)
    return tuple(
        tuple(piece.split("|")) if number % 2 else (piece,) for number, piece in enumerate(pieces)
    )


def capital(sentence: str) -> str:
    """Raise the first letter."""
    return sentence[:1].upper() + sentence[1:]


_FULL_FORMS = {
    "I'm": "I am", "I've": "I have", "I'll": "I will", "don't": "do not", "didn't": "did not",
    "couldn't": "could not", "can't": "cannot", "wasn't": "was not", "won't": "will not",
    "haven't": "have not", "hadn't": "had not", "doesn't": "does not", "isn't": "is not",
    "wouldn't": "would not",
}  # fmt: skip
# A question at the end keeps its short form: "haven't I?"
_FULL = re.compile(rf"\b(?:{'|'.join(_FULL_FORMS)})\b(?! (?:I|you|we|they|he|she|it)\b)")

"""How people talk in the synthetic interviews: phrase banks, frequencies, biography and style."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TypeVar

import numpy as np

from krisis.json_values import JsonObject
from krisis.texts import stated_in

Option = TypeVar("Option")

# The days out of fourteen that each score stands for.
DAYS: Mapping[int, tuple[int, int]] = {1: (2, 6), 2: (7, 11), 3: (12, 14)}
_NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten",
            "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen",
            "eighteen", "nineteen", "twenty")  # fmt: skip
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MINUTES = ("half past", "quarter past", "quarter to", "ten past", "ten to", "twenty past",
            "twenty to", "five to")  # fmt: skip
_COUNTED = 0.25  # the share of frequencies that are counted in days
_FILLERS = ("Um", "Uh", "Well", "I mean", "Hm", "Oh", "Er", "Ah", "Mm")
_CHOICE = re.compile(r"\[([^\]]*)\]")
_PRONOUNS = {"f": ("she", "her", "her", "herself"), "m": ("he", "his", "him", "himself")}
_OWN = {"my": "my", "me": "me", "myself": "myself"}


_UNITS = ("day", "night", "morning", "afternoon", "evening")
_KINDS = ("less", "more")


@dataclass(frozen=True, slots=True)
class Said:
    """What is said about a symptom, and what it fits.

    ``unit`` is the part of the day that its frequency counts; ``kind`` is empty, or of a symptom of
    two kinds (too little sleep or too much) the one of them that it is about.
    """

    text: str
    unit: str
    kind: str = ""

    @classmethod
    def read(cls, entry: str, unit: str) -> Said:
        """Read "less evening: …"; without a part of the day it is the topic's unit."""
        marks, colon, text = entry.partition(": ")
        words = marks.split()
        if not colon or not set(words) <= {*_UNITS, *_KINDS}:
            return cls(entry, unit)
        kinds = [word for word in words if word in _KINDS]
        units = [word for word in words if word in _UNITS]
        return cls(text, *(units or [unit]), *kinds)


@dataclass(frozen=True, slots=True)
class Topic:
    """What is said about one item.

    ``ask`` are questions by the kind of answer that fits them: ``how`` (it was), whether there is
    ``trouble``, whether all is ``well``. ``did`` continue "I have been …" for any person; ``says``
    are sentences that hold the frequency themselves; ``well`` are clauses that say that the symptom
    is absent. ``more`` and ``fine`` colour the one and the other, ``plays_down`` makes light of the
    symptom, and ``noun`` names the topic when people come back to it.
    """

    ask: Mapping[str, Sequence[str]]
    did: Sequence[Said]
    says: Sequence[Said]
    well: Sequence[str]
    more: Sequence[Said]
    fine: Sequence[Said]
    noun: Sequence[str]
    plays_down: Sequence[str]

    @classmethod
    def read(cls, said: JsonObject) -> Topic:
        """Read a topic of a phrase bank; its ``unit`` is what the frequency counts."""
        unit = said["unit"]
        rest = {name: part for name, part in said.items() if name != "unit"}
        for name in ("did", "says", "more", "fine"):
            rest[name] = tuple(Said.read(entry, unit) for entry in said[name])
        return cls(**rest)


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
        topics = {key: Topic.read(said) for key, said in phrases["topics"].items()}
        life = phrases["life"]
        places = (*life["towns"], *life["streets"])
        names = {name.split()[0] for name in (*life["f"], *life["m"], *places, *_WEEKDAYS)}
        names.update(f"{day}s" for day in _WEEKDAYS)
        names.update(life["proper"])
        return cls(phrases, topics, frozenset(names))


class Voice:
    """One person: what they tell of their life, how they talk, and a stream of draws."""

    def __init__(self, bank: Bank, rng: np.random.Generator) -> None:
        self.bank = bank
        self.said: set[object] = set()  # templates that this person has used up
        self.uniform = _uniform(rng).__next__
        self.life = self._draw_life()
        self.verbosity = self.uniform() ** 1.4
        self.filler_rate = 0.22 * self.uniform()
        self.fillers = [self.pick(_FILLERS) for _ in range(3)]

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

    def fresh(self, templates: Sequence[Option]) -> Option:
        """Choose a template that this person has not used yet."""
        template = self.pick([one for one in templates if one not in self.said] or templates)
        self.said.add(template)
        return template

    def fill(self, templates: Sequence[str], **slots: str) -> str:
        """Choose a template that this person has not used yet, make its choices, fill its slots."""
        return self._write(self.fresh(templates), _Slots(self, slots))

    def tell(self, templates: Sequence[str]) -> list[str]:
        """Fill sentences that belong together: who is named in one is meant in all of them."""
        slots = _Slots(self, {})
        return [self._write(template, slots) for template in templates]

    def _write(self, template: str, slots: _Slots) -> str:
        uniform = self.uniform
        text = "".join([options[int(uniform() * len(options))] for options in _parts(template)])
        return text.format_map(slots) if "{" in text else text

    def phrase(self, section: str, kind: str, **slots: str) -> str:
        """Fill a template of the bank's general phrases."""
        return self.fill(self.bank.phrases[section][kind], **slots)

    def asked(self, templates: Sequence[str], **slots: str) -> str:
        """Fill a question: who is mine to the participant is yours to the interviewer."""
        return capital(self._write(self.fresh(templates), _Slots(self, slots, of=_yours)))

    def often(self, score: int, unit: str) -> str:
        """Say how often, as an adverbial that denotes the score."""
        phrases = self.bank.phrases["often"]
        slots = units_of(unit)
        if self.uniform() >= _COUNTED:
            return self.fill(phrases[str(score)], **slots)
        kind = self.pick(("counted", "halves") if score < 3 else ("counted", "all_but"))
        return self.fill(phrases[kind], **slots, **self._numbers(kind, score, unit))

    def _numbers(self, kind: str, score: int, unit: str) -> dict[str, str]:
        """Put a number of days into words in the way that the kind of phrase needs."""
        first, last = DAYS[score]
        n_days = self.whole(first, min(last, 13))  # nobody counts to fourteen of fourteen
        if kind == "halves":
            n_days = max(n_days, 4)
            a = self.whole(max(2, n_days - 6), min(6, n_days - 2))
            return {"a": _NUMBERS[a], "b": _NUMBERS[n_days - a]}
        if kind == "all_but":
            free = self.whole(1, 14 - first)
            free_units = f"{_NUMBERS[free]} {unit}{'s' * (free > 1)}"
            return {"free": _NUMBERS[free], "free_units": free_units}
        return {"n": _NUMBERS[n_days]}

    def spoken(self, sentences: Sequence[str]) -> str:
        """Say sentences in this person's manner: fillers and false starts."""
        text = " ".join(self._styled(sentence) for sentence in sentences if sentence)
        for label, name in self.known.items():  # "my niece Lorna" is Lorna when named again
            if text.count(label) > 1:
                first, rest = text.split(label, maxsplit=1)
                text = f"{first}{label}{re.sub(rf'(?:[Mm]y )?{label}', name, rest)}"
        return text

    def _styled(self, sentence: str) -> str:
        draw = self.uniform()
        if draw < self.filler_rate:
            sentence = f"{self.pick(self.fillers)}, {self.small(sentence)}"
        elif draw < 1.1 * self.filler_rate and sentence.startswith("I "):
            sentence = f"I, {sentence}"
        return capital(sentence)

    def small(self, sentence: str) -> str:
        """Continue a sentence: lower the first letter unless the word is a name or I."""
        first = re.split(r"[\s',.]", sentence, maxsplit=1)[0]
        keeps = first == "I" or first in self.bank.names
        return sentence if keeps else sentence[:1].lower() + sentence[1:]

    def predicate(self, chosen: Said, *, of_other: bool = False) -> str:
        """Say what somebody has been doing: the person, or the relative they speak of."""
        names = ("my", "me", "myself")
        whose = {name: self.life[f"other_{name}"] for name in names} if of_other else _OWN
        return self.fill([chosen.text], **whose)

    def _draw_life(self) -> dict[str, str]:
        """Draw home, work, pastime and the people whom this person speaks of."""
        life: JsonObject = self.bank.phrases["life"]
        names = {sex: iter(self.shuffled(life[sex])) for sex in _PRONOUNS}
        mate, sex = self.pick(life["mates"])
        he, his, him, _ = _PRONOUNS[sex]
        self.mate = next(names[sex])
        kin = self.shuffled(life["kin"])[:4]
        self.kin = [f"my {relation} {next(names[sex])}" for relation, sex in kin]
        other = _PRONOUNS[kin[-1][1]]
        ways = self.shuffled(life["friends"])[:4]
        self.friends = [way.format(name=next(names[self.pick(("f", "m"))])) for way in ways]
        people = [*self.kin, *self.friends]
        self.known = {one.removeprefix("my "): _name(one) for one in people}
        self.towns = self.shuffled(life["towns"])
        job = self.pick(life["work"])
        pastime = self.pick(life["hobbies"])
        self.job_lines: list[str] = job["lines"]
        # Words that a person's own lines are drawn by, beside those that are drawn anew each time.
        return {
            **{name: job[name] for name in ("job", "place", "crew", "doing", "thing")},
            **{name: pastime[name] for name in ("hobby", "hobbying", "club")},
            "housemate": f"my {mate} {self.mate}", "relation": mate,
            "he": he, "his": his, "him": him, "other": self.kin.pop(),
            **dict(zip(("they", "other_my", "other_me", "other_myself"), other, strict=True)),
            "street": self.pick(life["streets"]), "town": self.towns[0],
            "number": str(self.whole(2, 148)), "tenure": _NUMBERS[self.whole(3, 20)],
            "event": self.pick(life["events"]),
        }  # fmt: skip

    def draw(self, slot: str) -> str:
        """Return what a slot is filled with: a fact of this life, or one of several."""
        known = self.life.get(slot)
        return _DRAWS[slot](self) if known is None else known


def units_of(unit: str) -> dict[str, str]:
    """Return the slots of a part of the day that a frequency counts."""
    article = "an" if unit[0] in "ae" else "a"
    return {"unit": unit, "units": f"{unit}s", "a_unit": f"{article} {unit}"}


def _clock(voice: Voice, first: int, last: int) -> str:
    return f"{voice.pick(_MINUTES)} {_NUMBERS[voice.whole(first, last)]}"


def _two_days(voice: Voice) -> str:
    first, second = sorted(voice.shuffled(range(7))[:2])
    return f"{_WEEKDAYS[first]}s and {_WEEKDAYS[second]}s"


# What is drawn anew in every sentence: people know several people and places.
_DRAWS: Mapping[str, Callable[[Voice], str]] = {
    "mate": lambda voice: voice.pick((voice.mate, voice.mate, f"my {voice.life['relation']}")),
    "kin": lambda voice: voice.pick(voice.kin),
    "friend": lambda voice: voice.pick(voice.friends),
    "elsewhere": lambda voice: voice.pick(voice.towns[1:]),
    "day": lambda voice: voice.pick(_WEEKDAYS),
    "two_days": _two_days,
    "clock": lambda voice: _clock(voice, 1, 5),
    "bedtime": lambda voice: _clock(voice, 9, 11),
    "hour": lambda voice: _clock(voice, 6, 9),
    "noon": lambda voice: _clock(voice, 1, 4),
    "years": lambda voice: _NUMBERS[voice.whole(3, 20)],
    "few": lambda voice: _NUMBERS[voice.whole(2, 5)],
    "minutes": lambda voice: voice.pick(("ten", "fifteen", "twenty", "forty", "fifty")),
    "oneoff": lambda voice: voice.fill(voice.bank.phrases["life"]["oneoffs"]),
}


class _Slots(dict[str, str]):
    """What a template is filled with; what it does not name is drawn when it is met."""

    def __init__(
        self, voice: Voice, given: Mapping[str, str], of: Callable[[str], str] | None = None
    ) -> None:
        super().__init__(given)
        self._voice, self._of = voice, of

    def __missing__(self, name: str) -> str:
        if name[0].isupper():
            value = capital(self[name[0].lower() + name[1:]])
        else:
            drawn = self._voice.draw(name)
            value = drawn if self._of is None else self._of(drawn)
        self[name] = value
        return value


def _name(who: str) -> str:
    """Return the name in "my niece Lorna" or "Lorna next door"."""
    return next(word for word in who.split() if word[0].isupper())


def _yours(who: str) -> str:
    """Turn "my sister" into "your sister"; a name stays as it is."""
    return f"your{who[2:]}" if who.startswith("my ") else who


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

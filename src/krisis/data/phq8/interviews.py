"""Synthetic participants with NHANES margins, and interviews that withhold some evidence."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from krisis.data.phq8.items import ITEM_KEYS, ITEMS, N_SCORES
from krisis.data.phq8.transcripts import Transcript, Turn
from krisis.data.phq8.wording import Bank, Frequency, Topic, Voice, capital

# Each purpose has a stream of its own: a new draw in one never moves the draws of another.
_SCORES, _INTERVIEW, _SPLIT = 1, 2, 3
LOADINGS = np.array([item.loading for item in ITEMS])
THRESHOLDS = np.array([item.thresholds() for item in ITEMS])


class Cohort(StrEnum):
    """Who is interviewed: adults at large, or people who came to a clinic."""

    COMMUNITY = "community"
    CLINIC = "clinic"


class Split(StrEnum):
    """Which participants are put to the model."""

    TRAIN = "train"
    TEST = "test"
    ALL = "all"


# Mean and standard deviation of the latent severity. Those of the clinic are an assumption, chosen
# so that about 30 % have a total of 10 or more.
SEVERITY: Mapping[Cohort, tuple[float, float]] = {
    Cohort.COMMUNITY: (0.0, 1.0),
    Cohort.CLINIC: (0.85, 1.0),
}


_LETTERS: Mapping[Cohort, str] = {Cohort.COMMUNITY: "S", Cohort.CLINIC: "C"}


def _own_stream(letter: str) -> list[int]:
    return [] if letter == _LETTERS[Cohort.COMMUNITY] else [ord(letter)]


@dataclass(frozen=True, slots=True)
class Participant:
    """A synthetic person: the latent severity and the eight scores that follow from it."""

    participant_id: str
    severity: float
    scores: tuple[int, ...]


def draw_participant(index: int, *, seed: int, cohort: Cohort = Cohort.COMMUNITY) -> Participant:
    """Draw one participant; the same index, seed and cohort give the same person in any number.

    The cohorts share nobody: each has a stream of its own, and its people a letter of their own.

    Ordinal probit: liability = loading · severity + √(1 − loading²) · noise, and the score is the
    number of NHANES cut points that lie below it.
    """
    letter = _LETTERS[cohort]
    stream = [seed, _SCORES, index, *_own_stream(letter)]
    normals = np.random.default_rng(stream).standard_normal(1 + len(ITEMS))
    mean, deviation = SEVERITY[cohort]
    severity, noise = mean + deviation * float(normals[0]), normals[1:]
    scores = scores_of(LOADINGS * severity + np.sqrt(1 - LOADINGS**2) * noise)
    return Participant(f"{letter}{index:04d}", severity, tuple(int(score) for score in scores))


def scores_of(liability: NDArray[np.float64]) -> NDArray[np.int64]:
    """Turn liabilities of the eight items (last axis) into scores 0 to 3."""
    return np.asarray((liability[..., None] > THRESHOLDS).sum(axis=-1))


def draw_cohort(
    n_participants: int, *, seed: int, cohort: Cohort = Cohort.COMMUNITY
) -> list[Participant]:
    """Draw participants 0 to n − 1."""
    return [draw_participant(index, seed=seed, cohort=cohort) for index in range(n_participants)]


def draw_splits(n_participants: int, *, seed: int, test_size: float) -> list[Split]:
    """Draw the held-out participants; with two or more, each split has at least one."""
    n_test = round(n_participants * test_size)
    if n_participants > 1:
        n_test = min(max(n_test, 1), n_participants - 1)
    order = np.random.default_rng([seed, _SPLIT]).permutation(n_participants)
    held_out = set(order[: max(n_test, 1)].tolist())
    return [Split.TEST if i in held_out else Split.TRAIN for i in range(n_participants)]


# Why an item cannot be scored from the interview, with the probability of each reason at the
# scores 0 to 3. Four reasons tell nothing about the score. Who cannot say how often had the
# symptom, if only on one day; of those who claim none at all and often, one of the claims is true.
_CHANCES_OF_REASONS: Mapping[str, tuple[float, float, float, float]] = {
    "topic_not_raised": (0.17, 0.17, 0.17, 0.17),
    "participant_declined": (0.17, 0.17, 0.17, 0.17),
    "about_someone_else": (0.17, 0.17, 0.17, 0.17),
    "outside_two_weeks": (0.17, 0.17, 0.17, 0.17),
    "frequency_not_stated": (0.16, 0.32, 0.08, 0.08),
    "statements_contradict": (0.16, 0.0, 0.24, 0.24),
}
WITHHELD_REASONS = tuple(_CHANCES_OF_REASONS)
_MOST_CORRECTIONS = 2  # a person who takes back half the interview is no longer believed


@dataclass(frozen=True, slots=True)
class Exchange:
    """What is asked and what is replied; ``item`` is empty where no item is spoken of."""

    question: str
    reply: str
    item: str = ""


@dataclass(frozen=True, slots=True)
class Interview:
    """A transcript and what its author knows about it.

    ``withheld`` gives the reason for each item without evidence, ``exchanges`` the numbers of the
    exchanges about each item, ``first_claims`` the score that was claimed first where it was
    taken back later, and ``evidence`` how likely what is said of each item was at the scores 0 to
    3, up to a factor.
    """

    transcript: Transcript
    withheld: Mapping[str, str]
    exchanges: Mapping[str, tuple[int, ...]]
    first_claims: Mapping[str, int]
    evidence: Mapping[str, tuple[float, ...]]


def write_interview(
    participant: Participant, *, seed: int, withheld_rate: float, split: Split = Split.TEST
) -> Interview:
    """Write the interview of one participant in the words of their split.

    Whether an item is withheld does not depend on its score: were severe items withheld more
    often, a model could score by the gap.
    """
    index = int(participant.participant_id[1:])
    stream = [seed, _INTERVIEW, index, *_own_stream(participant.participant_id[0])]
    voice = Voice(Bank.of(split), np.random.default_rng(stream))
    author = _Author(voice)
    for key in voice.shuffled(ITEM_KEYS):
        score = participant.scores[ITEM_KEYS.index(key)]
        if voice.uniform() < withheld_rate:
            author.withhold(key, score)
        else:
            author.show(key, score)
    return author.interview(participant.participant_id)


@dataclass(frozen=True, slots=True)
class _Statement:
    """Sentences about a symptom, and how often they say that it was there."""

    sentences: list[str]
    frequency: Frequency


class _Author:
    """Writes one interview: exchanges about the items early and late, with small talk between."""

    def __init__(self, voice: Voice) -> None:
        self.voice = voice
        self.early: list[list[Exchange]] = []
        self.late: list[list[Exchange]] = []
        self.withheld: dict[str, str] = {}
        self.first_claims: dict[str, int] = {}
        self.evidence: dict[str, tuple[float, ...]] = {}
        self.used: set[str] = set()

    def show(self, key: str, score: int) -> None:
        """Give the evidence for a score: at once, on asking how often, unasked or corrected."""
        self.evidence[key] = tuple(float(other == score) for other in range(N_SCORES))
        voice, topic = self.voice, self.voice.bank.topics[key]
        way = voice.uniform()
        if way < 0.2 and len(self.first_claims) < _MOST_CORRECTIONS:
            self._correct(key, score)
            return
        question = voice.asked(topic.ask)
        if way < 0.4 and score:
            unit, colour = _unit(key), self._colour(topic, score)
            first = [f"I {voice.predicate(topic)}.", *colour[::2]]
            probe = voice.asked(voice.bank.phrases["interviewer"]["probes"], **_units(unit))
            frequency = [f"{capital(voice.often(score, unit).words)}.", *colour[1::2]]
            self.early.append(
                [
                    Exchange(question, voice.spoken(first), key),
                    Exchange(probe, voice.spoken(frequency), key),
                ]
            )
            return
        if way > 0.88:
            question = voice.asked(voice.bank.phrases["interviewer"]["open_asks"])
        said = [*self._statement(key, score).sentences, *self._colour(topic, score)]
        self.early.append([Exchange(question, voice.spoken(said), key)])

    def _correct(self, key: str, score: int) -> None:
        """Claim another score first and take it back later."""
        voice, topic = self.voice, self.voice.bank.topics[key]
        claimed = (
            0
            if score and voice.uniform() < 0.6
            else voice.pick([other for other in range(4) if other != score])
        )
        self.first_claims[key] = claimed
        first = self._statement(key, claimed)
        said = [*first.sentences, *self._colour(topic, claimed)[:1]]
        why = "too_little" if claimed < score else "too_much"
        later = voice.phrase(
            "says",
            "takes_back",
            claim=self._claim(key, first.frequency),
            noun=voice.fill(topic.noun),
            why=voice.fill(voice.bank.phrases["says"]["whys"][why]),
            truth=" ".join(self._statement(key, score).sentences),
        )
        self._say_twice(key, said, later, score)

    def _contradict(self, key: str, score: int) -> None:
        """Say none at all and often, in either order, and withdraw neither; one of them is true."""
        voice, topic = self.voice, self.voice.bank.topics[key]
        # None at all against often: two symptoms of one item cannot explain that.
        often = score or voice.whole(2, 3)
        chances = _CHANCES_OF_REASONS["statements_contradict"]
        at_often = tuple(chances[often] * (other == often) for other in range(1, N_SCORES))
        self.evidence[key] = (chances[0] / 2, *at_often)
        first, second = voice.shuffled((0, often))
        stated = self._statement(key, first)
        said = [*stated.sentences, *self._colour(topic, first)[:1]]
        later = voice.phrase(
            "says",
            "repeats",
            claim=self._claim(key, stated.frequency),
            noun=voice.fill(topic.noun),
            truth=" ".join(self._statement(key, second).sentences),
        )
        self._say_twice(key, said, later, second)

    def _claim(self, key: str, stated: Frequency) -> str:
        """Recall what was claimed, in other words than it was said in and with its numbers."""
        claims = self.voice.bank.phrases["says"]["claims"][stated.recalled]
        return self.voice.fill(claims, **_units(_unit(key)), **stated.numbers)

    def _say_twice(self, key: str, first: Sequence[str], later: str, score: int) -> None:
        voice, topic = self.voice, self.voice.bank.topics[key]
        follow_up = voice.asked(voice.bank.phrases["interviewer"]["follow_ups"])
        reply = voice.spoken([*self._return(), capital(later), *self._colour(topic, score)[:2]])
        self.early.append([Exchange(voice.asked(topic.ask), voice.spoken(first), key)])
        self.late.append([Exchange(follow_up, reply, key)])

    def _return(self) -> list[str]:
        """Come back to something, in words that do not tell to what."""
        voice = self.voice
        return [voice.phrase("says", "returns")] if voice.uniform() < 0.5 else []

    def _statement(self, key: str, score: int) -> _Statement:
        """Say how often the symptom was there, in one sentence or two."""
        voice, topic, unit = self.voice, self.voice.bank.topics[key], _unit(key)
        if score == 0:
            return self._absence(topic, unit)
        frequency, did = voice.often(score, unit), voice.predicate(topic)
        often = frequency.words
        way = voice.uniform()
        follows_only = often.startswith(("and ", "so "))
        if way < 0.3 or follows_only:
            sentences = [f"I {did}, {often}."]
        elif way < 0.5:
            sentences = [f"{capital(often)}, I {did}."]
        elif way < 0.8:
            sentences = [capital(voice.fill(topic.says, often=often))]
        else:
            sentences = [f"I {did}.", f"{capital(often)}, {voice.phrase('says', 'tail')}."]
        manner = voice.uniform()
        if manner < 0.15:
            hedge = capital(voice.phrase("says", "hedges"))
            sentences[0] = f"{hedge} {voice.small(sentences[0])}"
        elif manner < 0.4:  # as often whatever the score, so that it tells nothing
            sentences.append(capital(voice.fill(topic.plays_down)))
        return _Statement(sentences, frequency)

    def _absence(self, topic: Topic, unit: str) -> _Statement:
        """Say that the symptom was not there, or on one day only."""
        voice = self.voice
        well = voice.fill(topic.well)
        way = voice.uniform()
        if way < 0.2:
            did = voice.predicate(topic)
            once = voice.phrase("says", "once", did=did, well=well, **_units(unit))
            return _Statement([once], Frequency("", "once"))
        if way < 0.7:
            well = f"{well}, {voice.phrase('says', 'steady')}"
        denial = [voice.phrase("says", "denials")] if voice.uniform() < 0.3 else []
        return _Statement([*denial, f"{capital(well)}."], Frequency("", "0"))

    def _colour(self, topic: Topic, score: int) -> list[str]:
        """Add sentences that tell of the symptom and not how often; talkative people say more.

        They also digress, from the symptom to something that it brings to mind.
        """
        n_sentences = int(4 * self.voice.verbosity + self.voice.uniform())
        lines = [line for line in (topic.more if score else topic.fine) if line not in self.used]
        lines = self.voice.shuffled(lines)[:n_sentences]
        drifts = [line for line in topic.drifts if line not in self.used]
        if drifts and self.voice.uniform() < self.voice.verbosity:
            lines.append(self.voice.pick(drifts))
        self.used.update(lines)
        return [capital(self.voice.fill([line])) for line in lines]

    def withhold(self, key: str, score: int) -> None:
        """Talk about the topic, or not, so that the score cannot be known."""
        reason = self._reason(score)
        self.withheld[key], self.evidence[key] = reason, _CHANCES_OF_REASONS[reason]
        if reason == "topic_not_raised":
            return
        voice, topic, unit = self.voice, self.voice.bank.topics[key], _unit(key)
        if reason == "statements_contradict":
            self._contradict(key, score)
            return
        did = voice.predicate(topic, of_other=reason == "about_someone_else")
        often = voice.often(voice.whole(1, 3), unit).words
        if reason == "outside_two_weeks":
            often = voice.phrase("often", "then", **_units(unit))
        unknown = voice.phrase("says", "unknown")
        slots = {"did": did, "often": often, **_units(unit)}
        if reason == "participant_declined":
            said = [voice.phrase("says", "refusals")]
        elif reason == "frequency_not_stated":
            said = [voice.phrase("says", "unclear", **slots), *self._colour(topic, 1)]
        else:
            kind = "someone_else" if reason == "about_someone_else" else "era"
            said = [voice.phrase("says", kind, **slots), unknown]
        self.early.append([Exchange(voice.asked(topic.ask), voice.spoken(said), key)])

    def _reason(self, score: int) -> str:
        """Draw why an item of this score is withheld."""
        drawn, reasons = self.voice.uniform(), list(_CHANCES_OF_REASONS)
        up_to = np.cumsum([_CHANCES_OF_REASONS[reason][score] for reason in reasons])
        return reasons[int(np.searchsorted(up_to, drawn * up_to[-1], side="right"))]

    def interview(self, participant_id: str) -> Interview:
        """Put small talk around and between the exchanges about the items."""
        voice, phrases = self.voice, self.voice.bank.phrases
        small_talk = self._small_talk()
        n_late = len(small_talk) // 3
        body = voice.shuffled([*self.early, *small_talk[n_late:]])
        tail = voice.shuffled([*self.late, *self._slip(), *small_talk[:n_late]])
        opening, closing = (
            Exchange(
                voice.asked(phrases["interviewer"][place]),
                voice.spoken([capital(voice.phrase("participant", place))]),
            )
            for place in ("openings", "closings")
        )
        exchanges = [opening, *(one for group in (*body, *tail) for one in group), closing]
        about: dict[str, list[int]] = defaultdict(list)
        for number, exchange in enumerate(exchanges):
            if exchange.item:
                about[exchange.item].append(number)
        turns = [
            turn
            for exchange in exchanges
            for turn in (
                Turn("interviewer", exchange.question),
                Turn("participant", exchange.reply),
            )
        ]
        return Interview(
            Transcript(participant_id, tuple(turns)),
            {key: self.withheld[key] for key in ITEM_KEYS if key in self.withheld},
            {key: tuple(about[key]) for key in ITEM_KEYS if key in about},
            self.first_claims,
            self.evidence,
        )

    def _small_talk(self) -> list[list[Exchange]]:
        """Talk about places, people and things; talkative people cover more and are asked on."""
        voice, phrases = self.voice, self.voice.bank.phrases
        n_topics = 3 + int(11 * voice.verbosity)
        groups = []
        for subject in voice.shuffled(phrases["small_talk"])[:n_topics]:
            n_lines = min(len(subject["lines"]), 2 + int(4 * voice.verbosity + voice.uniform()))
            lines = [capital(voice.fill([line])) for line in subject["lines"][:n_lines]]
            lines += self._trap()
            cut = min(len(lines), 6)
            group = [Exchange(voice.asked(subject["ask"]), voice.spoken(lines[:cut]))]
            if lines[cut:]:
                more = voice.asked(phrases["interviewer"]["more"])
                group.append(Exchange(more, voice.spoken(lines[cut:])))
            groups.append(group)
        return groups

    def _slip(self) -> list[list[Exchange]]:
        """Correct oneself on something that bears on no item."""
        voice = self.voice
        if voice.uniform() > 0.4:
            return []
        question = voice.asked(voice.bank.phrases["interviewer"]["follow_ups"])
        reply = voice.spoken([*self._return(), voice.phrase("says", "slips")])
        return [[Exchange(question, reply)]]

    def _trap(self) -> list[str]:
        """Use the words of a symptom for something else, unless the item is withheld."""
        if self.voice.uniform() > 0.1:
            return []
        trap = self.voice.fill(self.voice.bank.phrases["traps"])
        touches = any(item.bears_on(trap) for item in ITEMS if item.key in self.withheld)
        return [] if touches else [capital(trap)]


def _unit(key: str) -> str:
    return "night" if key == "Sleep" else "day"


def _units(unit: str) -> dict[str, str]:
    return {"unit": unit, "units": f"{unit}s"}

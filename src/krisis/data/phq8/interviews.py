"""Synthetic participants with NHANES margins, and interviews that withhold some evidence."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

import numpy as np
from numpy.typing import NDArray

from krisis.data.phq8.items import ITEM_KEYS, ITEMS, N_SCORES
from krisis.data.phq8.transcripts import Transcript, Turn
from krisis.data.phq8.wording import Bank, Said, Topic, Voice, capital, units_of

# Each purpose has a stream of its own: a new draw in one never moves the draws of another.
_SCORES, _INTERVIEW, _SPLIT, _WITHHELD = 1, 2, 3, 4
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
_MOST_WORDS_RECALLED = 5  # nobody quotes themselves at length
_MOST_WORDS_FIRST = 5  # nor puts a long "how often" before what it is about
_NEVER, _ONCE = "never", "once"  # how an absence is recalled
_OFTEN_FIRST = "{often}, "


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
    own = _own_stream(participant.participant_id[0])
    voice = Voice(Bank.of(split), np.random.default_rng([seed, _INTERVIEW, index, *own]))
    withheld = np.random.default_rng([seed, _WITHHELD, index, *own]).random(len(ITEMS))
    author = _Author(voice)
    for place in voice.shuffled(range(len(ITEMS))):
        give = author.withhold if withheld[place] < withheld_rate else author.show
        give(ITEM_KEYS[place], participant.scores[place])
    return author.interview(participant.participant_id)


@dataclass(frozen=True, slots=True)
class _Statement:
    """Sentences about a symptom, how one who names them later recalls them, and what they fit.

    ``about`` is missing where the symptom is absent.
    """

    sentences: list[str]
    recalled: str
    about: Said | None = None


def _begins(often: str) -> bool:
    """Say whether a sentence may begin with a frequency: only a short one, without a comma."""
    return "," not in often and often.count(" ") < _MOST_WORDS_FIRST


class _Author:
    """Writes one interview: the items with small talk between, then what people come back to."""

    def __init__(self, voice: Voice) -> None:
        self.voice = voice
        self.early: list[list[Exchange]] = []
        self.late: list[Exchange] = []
        self.withheld: dict[str, str] = {}
        self.first_claims: dict[str, int] = {}
        self.evidence: dict[str, tuple[float, ...]] = {}
        self.n_open_questions = 0

    def show(self, key: str, score: int) -> None:
        """Give the evidence for a score: at once, on asking how often, unasked or corrected."""
        self.evidence[key] = tuple(float(other == score) for other in range(N_SCORES))
        voice, topic = self.voice, self.voice.bank.topics[key]
        way = voice.uniform()
        if way < 0.15 and len(self.first_claims) < _MOST_CORRECTIONS:
            self._correct(key, score)
        elif way < 0.45 and score:
            self._answer_in_two(key, score)
        elif way > 0.9 and score and not self.n_open_questions:
            self.n_open_questions += 1
            question = voice.asked(voice.bank.phrases["interviewer"]["open_asks"])
            subject = voice.phrase("says", "subjects", noun=voice.fill(topic.noun))
            stated = self._presence(topic, score)
            said = [capital(subject), *stated.sentences, *self._colour(topic, stated)]
            self.early.append([Exchange(question, voice.spoken(said), key)])
        else:
            stated = self._statement(topic, score)
            question, said = self._answer(topic, stated)
            said += self._colour(topic, stated)
            self.early.append([Exchange(question, voice.spoken(said), key)])

    def _answer_in_two(self, key: str, score: int) -> None:
        """Name the symptom first, and how often only when asked."""
        voice, topic = self.voice, self.voice.bank.topics[key]
        chosen = voice.fresh(topic.did)
        often = voice.often(score, chosen.unit)
        stated = _Statement([f"I've been {voice.predicate(chosen)}."], often, chosen)
        colour = self._colour(topic, stated)
        question, said = self._answer(topic, stated)
        probe = voice.asked(voice.bank.phrases["interviewer"]["probes"], **units_of(chosen.unit))
        told = [f"{capital(often)}.", *self._plays_down(topic), *colour[1:]]
        self.early.append(
            [
                Exchange(question, voice.spoken([*said, *colour[:1]]), key),
                Exchange(probe, voice.spoken(told), key),
            ]
        )

    def _answer(self, topic: Topic, statement: _Statement) -> tuple[str, list[str]]:
        """Ask about a topic, and begin the answer in words that fit the kind of question."""
        voice = self.voice
        kind, question = self._question(topic)
        if voice.uniform() < 0.45 or statement.recalled == _ONCE:
            return question, [*statement.sentences]
        openers = voice.bank.phrases["says"]["openers"][kind][
            "there" if statement.about else "absent"
        ]
        return question, [voice.fill(openers), *statement.sentences]

    def _question(self, topic: Topic) -> tuple[str, str]:
        voice = self.voice
        kind = voice.pick(tuple(topic.ask))
        question = voice.asked(topic.ask[kind])
        if voice.uniform() < 0.25:
            question = f"{voice.asked(voice.bank.phrases['interviewer']['leads'])} {question}"
        return kind, question

    def _correct(self, key: str, score: int) -> None:
        """Claim another score first and take it back later."""
        voice, topic = self.voice, self.voice.bank.topics[key]
        claimed = (
            0
            if score and voice.uniform() < 0.6
            else voice.pick([other for other in range(4) if other != score])
        )
        self.first_claims[key] = claimed
        first = self._statement(topic, claimed)
        why = "too_little" if claimed < score else "too_much"
        truth = self._statement(topic, score, like=first.about)
        later = voice.phrase(
            "says",
            "takes_back",
            claim=self._claim(first, claimed),
            noun=voice.fill(topic.noun),
            why=voice.fill(voice.bank.phrases["says"]["whys"][why]),
            truth=" ".join(truth.sentences),
        )
        self._say_twice(key, first, later, truth)

    def _contradict(self, key: str, score: int) -> None:
        """Say none at all and often, in either order, and withdraw neither; one of them is true."""
        voice, topic = self.voice, self.voice.bank.topics[key]
        # None at all against often: two symptoms of one item cannot explain that.
        often = score or voice.whole(2, 3)
        chances = _CHANCES_OF_REASONS["statements_contradict"]
        at_often = tuple(chances[often] * (other == often) for other in range(1, N_SCORES))
        self.evidence[key] = (chances[0] / 2, *at_often)
        first, second = voice.shuffled((0, often))
        one = self._statement(topic, first)
        other = self._statement(topic, second)
        noun, truth = voice.fill(topic.noun), " ".join(other.sentences)
        self._say_twice(key, one, voice.phrase("says", "wavers", noun=noun, truth=truth), other)

    def _claim(self, first: _Statement, score: int) -> str:
        """Recall what was claimed: in its own words where they are few, else by the score."""
        voice, claims = self.voice, self.voice.bank.phrases["says"]["claims"]
        if first.about is None:
            return voice.fill(claims[first.recalled])
        often = first.recalled.partition(",")[0]
        if often.count(" ") < _MOST_WORDS_RECALLED:
            return voice.fill(claims["often"], often=often)
        return voice.fill(claims[str(score)])

    def _say_twice(self, key: str, first: _Statement, later: str, truth: _Statement) -> None:
        voice, topic = self.voice, self.voice.bank.topics[key]
        question, said = self._answer(topic, first)
        said += self._colour(topic, first)[:1]
        self.early.append([Exchange(question, voice.spoken(said), key)])
        self._come_back([capital(later), *self._colour(topic, truth)[:1]], key)

    def _come_back(self, said: list[str], key: str = "") -> None:
        """Add something at the end, in words that do not tell whether it is about an item."""
        voice = self.voice
        kind = "follow_ups" if self.late else "last_asks"
        question = voice.asked(voice.bank.phrases["interviewer"][kind])
        opener = [voice.phrase("says", "returns")] if voice.uniform() < 0.5 else []
        self.late.append(Exchange(question, voice.spoken([*opener, *said]), key))

    def _statement(self, topic: Topic, score: int, like: Said | None = None) -> _Statement:
        """Say how often the symptom was there, in one sentence or two."""
        return self._presence(topic, score, like) if score else self._absence(topic)

    def _presence(self, topic: Topic, score: int, like: Said | None = None) -> _Statement:
        """Say that the symptom was there; who ate too little before has not eaten too much."""
        voice, kind = self.voice, like.kind if like else ""
        if voice.uniform() < 0.45:
            chosen = voice.fresh([one for one in topic.says if kind in ("", one.kind)])
            often = voice.often(score, chosen.unit)
            text = chosen.text
            if text.startswith(_OFTEN_FIRST) and not _begins(often):
                text = f"{capital(text.removeprefix(_OFTEN_FIRST)).removesuffix('.')}, {{often}}."
            sentences = [capital(voice.fill([text], often=often))]
        else:
            chosen = voice.fresh([one for one in topic.did if kind in ("", one.kind)])
            did, often = voice.predicate(chosen), voice.often(score, chosen.unit)
            way = voice.uniform()
            if way < 0.3 and _begins(often):
                sentences = [f"{capital(often)} I've been {did}."]
            elif way < 0.8:
                sentences = [f"I've been {did}, {often}."]
            else:
                sentences = [f"I've been {did}.", f"{capital(often)}."]
        return _Statement([*sentences, *self._plays_down(topic)], often, chosen)

    def _plays_down(self, topic: Topic) -> list[str]:
        """Make light of a symptom: as often whatever the score, so that it tells nothing."""
        voice = self.voice
        return [capital(voice.fill(topic.plays_down))] if voice.uniform() < 0.2 else []

    def _absence(self, topic: Topic) -> _Statement:
        """Say that the symptom was not there, or on one day only."""
        voice = self.voice
        well = voice.fill(topic.well)
        way = voice.uniform()
        if way < 0.15:
            chosen = voice.fresh(topic.did)
            did, units = voice.predicate(chosen), units_of(chosen.unit)
            once = voice.phrase("says", "once", did=did, well=well, **units)
            return _Statement([capital(once)], _ONCE)
        steady = [capital(voice.phrase("says", "steady"))] if way < 0.5 else []
        return _Statement([f"{capital(well)}.", *steady], _NEVER)

    def _colour(self, topic: Topic, stated: _Statement) -> list[str]:
        """Add sentences that tell of the symptom and not how often; talkative people say more."""
        voice, about = self.voice, stated.about
        n_sentences = int(2 * voice.verbosity + 0.8 * voice.uniform())
        kinds = ("", about.kind) if about and about.kind else ("",)
        lines = [
            line
            for line in (topic.more if about else topic.fine)
            if line.kind in kinds and line.text not in voice.said
        ]
        return [capital(voice.fill([one.text])) for one in voice.shuffled(lines)[:n_sentences]]

    def withhold(self, key: str, score: int) -> None:
        """Talk about the topic, or not, so that the score cannot be known."""
        reason = self._reason(score)
        self.withheld[key], self.evidence[key] = reason, _CHANCES_OF_REASONS[reason]
        if reason == "topic_not_raised":
            return
        voice, topic = self.voice, self.voice.bank.topics[key]
        if reason == "statements_contradict":
            self._contradict(key, score)
            return
        _, question = self._question(topic)
        if reason == "participant_declined":
            said = [voice.phrase("says", "refusals")]
        else:
            of_other = reason == "about_someone_else"
            chosen = voice.fresh(topic.did)
            slots = {"did": voice.predicate(chosen, of_other=of_other), **units_of(chosen.unit)}
            if reason == "frequency_not_stated":
                stated = _Statement([voice.phrase("says", "unclear", **slots)], "", chosen)
                said = [*stated.sentences, *self._colour(topic, stated)]
            elif of_other:
                often = voice.phrase("often", "of_others", **units_of(chosen.unit))
                said = [voice.phrase("says", "someone_else", often=often, **slots)]
                said.append(voice.phrase("says", "unknown"))
            else:
                often = voice.phrase("often", "then", **units_of(chosen.unit))
                said = [voice.phrase("says", "era", often=often, **slots)]
                said.append(voice.phrase("says", "unknown"))
        self.early.append([Exchange(question, voice.spoken([capital(one) for one in said]), key)])

    def _reason(self, score: int) -> str:
        """Draw why an item of this score is withheld."""
        drawn, reasons = self.voice.uniform(), list(_CHANCES_OF_REASONS)
        up_to = np.cumsum([_CHANCES_OF_REASONS[reason][score] for reason in reasons])
        return reasons[int(np.searchsorted(up_to, drawn * up_to[-1], side="right"))]

    def interview(self, participant_id: str) -> Interview:
        """Put greeting, small talk and farewell around and between the exchanges on the items."""
        voice, phrases = self.voice, self.voice.bank.phrases
        body = voice.shuffled([*self.early, *self._small_talk()])
        if voice.uniform() < 0.3:  # a correction that bears on no item
            self._come_back([voice.phrase("says", "slips")])
        opening, closing = (
            Exchange(
                voice.asked(phrases["interviewer"][place]),
                voice.spoken([capital(voice.phrase("participant", place))]),
            )
            for place in ("openings", "closings")
        )
        exchanges = [opening, *(one for group in body for one in group), *self.late, closing]
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
        """Talk about work, home and people; talkative people cover more and say more of each."""
        voice, phrases = self.voice, self.voice.bank.phrases
        n_subjects = 2 + int(3.5 * voice.verbosity)
        groups = []
        for subject in voice.shuffled(phrases["small_talk"])[:n_subjects]:
            answer = voice.fresh([tuple(one) for one in subject["answers"]])
            n_sentences = 1 + int(2 * voice.verbosity + voice.uniform())
            lines = voice.tell(answer[:n_sentences])
            if subject["about"] == "work":
                lines.append(voice.fill(voice.job_lines))
            lines += self._trap(subject["about"])
            said = voice.spoken([capital(line) for line in lines])
            groups.append([Exchange(voice.asked(subject["ask"]), said)])
        return groups

    def _trap(self, subject: str) -> list[str]:
        """Use the words of a symptom for something else, unless the item is withheld."""
        traps = self.voice.bank.phrases["traps"].get(subject)
        if traps is None or self.voice.uniform() > 0.35:
            return []
        trap = self.voice.fill(traps)
        touches = any(item.bears_on(trap) for item in ITEMS if item.key in self.withheld)
        return [] if touches else [capital(trap)]

"""Synthetic participants with NHANES margins, and interviews that withhold some evidence."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from krisis.data.phq8.items import ITEM_KEYS, ITEMS
from krisis.data.phq8.transcripts import Transcript, Turn
from krisis.json_values import JsonObject

# Each purpose has a stream of its own: a new draw in one never moves the draws of another.
_SCORES, _INTERVIEW, SPLIT = 1, 2, 3
_LOADINGS = np.array([item.loading for item in ITEMS])
_THRESHOLDS = np.array([item.thresholds() for item in ITEMS])


@dataclass(frozen=True, slots=True)
class Participant:
    """A synthetic person: the latent severity and the eight scores that follow from it."""

    participant_id: str
    severity: float
    scores: tuple[int, ...]


def draw_participant(index: int, *, seed: int) -> Participant:
    """Draw one participant; the same index and seed give the same person in any cohort size.

    Ordinal probit: liability = loading · severity + √(1 − loading²) · noise, and the score is the
    number of NHANES cut points that lie below it.
    """
    normals = np.random.default_rng([seed, _SCORES, index]).standard_normal(1 + len(ITEMS))
    severity, noise = float(normals[0]), normals[1:]
    scores = scores_of(_LOADINGS * severity + np.sqrt(1 - _LOADINGS**2) * noise)
    return Participant(f"S{index:04d}", severity, tuple(int(score) for score in scores))


def scores_of(liability: NDArray[np.float64]) -> NDArray[np.int64]:
    """Turn liabilities of the eight items (last axis) into scores 0 to 3."""
    return np.asarray((liability[..., None] > _THRESHOLDS).sum(axis=-1))


def draw_cohort(n_participants: int, *, seed: int) -> list[Participant]:
    """Draw participants 0 to n − 1."""
    return [draw_participant(index, seed=seed) for index in range(n_participants)]


# Why an item cannot be scored from the interview, each about as likely as the next.
WITHHELD_REASONS = (
    "topic_not_raised",
    "participant_declined",
    "about_someone_else",
    "outside_two_weeks",
    "frequency_not_stated",
    "statements_contradict",
)
_STYLES = ("plain", "plain", "hedged", "corrected")

# What is asked and what is replied.
Exchange = Sequence[str]
Option = TypeVar("Option")


@dataclass(frozen=True, slots=True)
class Topic:
    """The sentences for one item; ``{often}`` is where the frequency of the symptom stands.

    ``present`` states the symptom, ``absent`` its absence over the two weeks, ``bare`` names it
    without saying how often, ``someone_else`` gives it to another person and ``past`` to a time
    before the two weeks.
    """

    ask: Sequence[str]
    present: Sequence[str]
    absent: Sequence[str]
    bare: Sequence[str]
    someone_else: Sequence[str]
    past: Sequence[str]


_SAID: JsonObject = tomllib.loads(
    (files("krisis.data.phq8") / "interviews.toml").read_text(encoding="utf-8")
)
TOPICS: Mapping[str, Topic] = {key: Topic(**said) for key, said in _SAID["topics"].items()}
OFTEN: Mapping[int, Sequence[str]] = {int(score): said for score, said in _SAID["often"].items()}


@dataclass(frozen=True, slots=True)
class Interview:
    """A transcript with, for each item whose evidence was withheld, the reason."""

    transcript: Transcript
    withheld: Mapping[str, str]


def write_interview(participant: Participant, *, seed: int, withheld_rate: float) -> Interview:
    """Write the interview of one participant; score and withholding are drawn independently.

    Independence matters: were severe items withheld more often, a model could score by the gap.
    """
    index = int(participant.participant_id[1:])
    author = _Author(np.random.default_rng([seed, _INTERVIEW, index]))
    early: list[Exchange] = []
    late: list[Exchange] = []
    withheld: dict[str, str] = {}
    for position in author.rng.permutation(len(ITEM_KEYS)):
        key, score = ITEM_KEYS[position], participant.scores[position]
        if author.rng.random() < withheld_rate:
            withheld[key] = author.pick(WITHHELD_REASONS)
            first, second = author.withhold(TOPICS[key], withheld[key])
        else:
            first, second = author.state(TOPICS[key], score)
        early += first
        late += second
    transcript = author.assemble(participant.participant_id, early, late)
    return Interview(transcript, {key: withheld[key] for key in ITEM_KEYS if key in withheld})


class _Author:
    """Chooses among the wordings with one generator."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng

    def pick(self, options: Sequence[Option]) -> Option:
        return options[int(self.rng.integers(len(options)))]

    def sentence(self, topic: Topic, score: int) -> str:
        """Say in one sentence how often the symptom was there."""
        if score == 0:
            return self.pick(topic.absent)
        often = self.pick(OFTEN[score])
        return _capital(_tidy(self.pick(topic.present).format(often=often)))

    def state(self, topic: Topic, score: int) -> tuple[list[Exchange], list[Exchange]]:
        """Give the evidence for a score, at once or as a later correction of a denial."""
        truth, style = self.sentence(topic, score), self.pick(_STYLES)
        if style == "corrected" and score > 0:
            correction = self.pick(_SAID["corrections"]).format(truth=truth)
            return (
                [(self.pick(topic.ask), self.pick(_SAID["denials"]))],
                [(self.pick(_SAID["follow_ups"]), correction)],
            )
        if style == "hedged":
            truth = self.pick(_SAID["hedges"]) + _small(truth)
        return [(self.pick(topic.ask), truth)], []

    def withhold(self, topic: Topic, reason: str) -> tuple[list[Exchange], list[Exchange]]:
        """Talk about the topic, or not, so that the score cannot be known."""
        if reason == "topic_not_raised":
            return [], []
        question = self.pick(topic.ask)
        if reason == "statements_contradict":
            low, high = self.pick(topic.absent), self.sentence(topic, 3)
            first, second = (low, high) if self.rng.random() < 0.5 else (high, low)
            again = self.pick(_SAID["contradictions"]).format(other=_small(second))
            return [(question, first)], [(self.pick(_SAID["follow_ups"]), again)]
        unclear = self.pick(_SAID["no_record"])
        answers: dict[str, Callable[[], str]] = {
            "participant_declined": lambda: self.pick(_SAID["deflections"]),
            "about_someone_else": lambda: f"{self.pick(topic.someone_else)} {unclear}",
            "outside_two_weeks": lambda: f"{self.pick(topic.past)} {unclear}",
            "frequency_not_stated": lambda: self.pick(topic.bare),
        }
        return [(question, answers[reason]())], []

    def assemble(
        self, participant_id: str, early: list[Exchange], late: list[Exchange]
    ) -> Transcript:
        """Put small talk around and between the exchanges about the items."""
        small_talk = [
            _SAID["small_talk"][i] for i in self.rng.permutation(len(_SAID["small_talk"]))[:5]
        ]
        body = early + small_talk[:3]
        body = [body[i] for i in self.rng.permutation(len(body))]
        tail = late + small_talk[3:]
        tail = [tail[i] for i in self.rng.permutation(len(tail))]
        opening = [_SAID["openings"][0], self.pick(_SAID["openings"][1:])]
        turns = [
            turn
            for question, answer in [*opening, *body, *tail, self.pick(_SAID["closings"])]
            for turn in (Turn("interviewer", question), Turn("participant", answer))
        ]
        return Transcript(participant_id, tuple(turns))


def _tidy(sentence: str) -> str:
    for wrong, right in ((",,", ","), (",.", "."), (":.", "."), (", ;", ";")):
        sentence = sentence.replace(wrong, right)
    return sentence


def _capital(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]


def _small(sentence: str) -> str:
    """Continue a sentence: lower the first letter unless the word is the pronoun I."""
    first = sentence.split(maxsplit=1)[0]
    return sentence if first in {"I", "I'm", "I've"} else sentence[:1].lower() + sentence[1:]

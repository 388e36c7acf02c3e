"""The `lexicon` rule: reads PHQ-8 items off an interview by keywords and frequency phrases."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np

from krisis.data.base import Features, Judgement, content_hash
from krisis.data.phq8.transcripts import (
    MIN_QUOTE_WORDS,
    SENTENCE_END,
    Transcript,
    plain_words,
)
from krisis.errors import InvalidValue

Kind = Literal["count", "phrase", "denial", "bare"]
KeepsSentence = Callable[[int], bool]


@dataclass(frozen=True, slots=True)
class Finding:
    """A sentence about the symptom; ``score`` is None where it does not say how often."""

    score: int | None
    quote: str
    kind: Kind
    hedged: bool = False
    takes_back: bool = False


@dataclass(frozen=True, slots=True)
class ItemScore:
    """What the rules make of one item; ``score`` is None when they abstain."""

    score: int | None
    quotes: tuple[str, ...]
    verbalized_confidence: int


def _any(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(rf"\b(?:{pattern})" for pattern in patterns), re.IGNORECASE)


_TOPICS = {
    "interest": _any("interest", "enjoy", "fun\\b", "hobb", "pastime", "pleasure", "joy\\b",
                     "keen", "look(?:ing)? forward", "enthusias", "excit", "bored", "motivat"),
    "mood": _any("mood", "depress", "hope", "sad", "(?:feel\\w*|felt).* (?:down|low)", "spirits",
                 "miserabl", "cry", "cried", "tear", "weep", "cheerful", "happy", "unhapp",
                 "gloom", "despair", "emotional"),
    "sleep": _any("sleep", "slept", "asleep", "awake", "insomnia", "wak(?:e|ing)\\b", "woke\\b",
                  "bed\\b", "nights?\\b"),
    "fatigue": _any("tired", "energy", "exhaust", "drained", "worn out", "fatigue",
                    "wear(?:y|iness)", "strength"),
    "appetite": _any("appetite", "eat(?:ing)?\\b", "ate\\b", "overeat", "food", "meals?",
                     "breakfast", "lunch", "dinner", "supper", "hung(?:er|ry)", "weight"),
    "failure": _any("failure", "worthless", "asham", "blam", "let .+ down", "guilt", "proud",
                    "useless", "(?:about|of) yourself", "disappoint", "regret"),
    "concentration": _any("concentrat", "focus", "mind wander", "same page", "distract",
                          "attention", "mind on", "forgetful"),
    "psychomotor": _any("restless", "(?:sit|keep) still", "slow", "fidget", "pac(?:ed|ing)",
                        "agitat", "sluggish"),
}  # fmt: skip
_ASKS_HOW_OFTEN = _any("how (?:often|many|much)", "frequen")
_RELATIVE = (
    "(?:mother|father|mum|dad|parents|brother|sister|wife|husband|son|daughter|friend|flatmate|"
    "roommate|neighbour|dog|cat|colleague|boss|nephew|niece|cousin|grandson|granddaughter|grandmother|"
    "grandfather|aunt|uncle|partner|girlfriend|boyfriend|kids?|children)"
)
_SOMEONE_ELSE = re.compile(
    rf"^(?:he|she|they|everyone|nobody slept)\b|^(?:[\w',]+ ){{0,4}}my (?:best )?{_RELATIVE}\b"
    r"(?! (?:says|thinks|tells))|\bthe baby\b",
    re.IGNORECASE,
)
_ANOTHER_TIME = _any("ago\\b", "(?:years|decades) back", "when i (?:was|worked)", "used to",
                     "as a (?:student|teenager|child)", "last (?:year|winter|summer)",
                     "back (?:at|in|then)", "in my (?:first|last|old|teens|twenties)")  # fmt: skip
_CANNOT_SAY = _any("couldn't (?:tell|say)", "can't (?:really )?(?:say|tell)", "haven't kept track",
                   "no idea how", "i don't know how", "who knows")  # fmt: skip
_HEDGE = _any("i guess", "hard to say", "maybe", "i don't know", "i'd say", "if i think about it",
              "i'm no doctor", "perhaps", "probably", "i suppose", "i think")  # fmt: skip
_TAKES_BACK = _any("take (?:something|that) back", "wasn't straight", "isn't right", "to be honest"
                   " now", "what i said (?:before|earlier)", "correct myself", "the truth",
                   "i lied", "wasn't true", "was wrong")  # fmt: skip
_COMPLAINT = _any("couldn't", "can't (?:sit|focus|concentrate|sleep|enjoy)", "trouble sleeping",
                  "no (?:energy|appetite|interest|joy)", "nothing felt", "don't feel like",
                  "not (?:been )?(?:the same|what it was|the best)", "hardly", "i do (?:get|blame)",
                  "felt? (?:sad|down|worthless|hopeless|drained|like a)")  # fmt: skip
_DENIAL = _any("no (?:trouble|problem|change|bad|sadness|reason|complaints)", "at all\\b", "never",
               "not once", "haven't", "don't feel like a", "not really", "all fine", "nothing to",
               "as (?:\\w+ )?(?:as )?ever", "same as", "as i always", "as usual", "fine\\b",
               "good\\b", "eat well", "normal", "cheerful", "plenty", "still (?:enjoy|like)",
               "happy\\b", "proud", "can (?:sit|concentrate)", "like a log",
               "no, nobody")  # fmt: skip
_NUMBERS = {"couple": 2, "once": 1, "twice": 2, "one": 1, "two": 2, "three": 3, "four": 4,
            "five": 5, "six": 6, "seven": 7, "eight": 8, "nine": 9, "ten": 10, "eleven": 11,
            "twelve": 12, "thirteen": 13, "fourteen": 14}  # fmt: skip
_NUMBER = "(" + "|".join([*_NUMBERS, r"\d{1,2}"]) + ")"
_OF_FOURTEEN = re.compile(
    rf"\b{_NUMBER}(?: or \w+)?(?: (?:days|nights))?(?: out)? (?:of|in|over) (?:the |these )?"
    r"(?:last |past )?(?:fourteen|14|two weeks|fortnight)",
    re.IGNORECASE,
)
_A_WEEK = re.compile(
    rf"\b{_NUMBER}(?: or \w+)?(?: of)?(?: days| nights| times)? (?:a|per|each|every) week",
    re.IGNORECASE,
)
_PHRASES = (
    (2, _any("most (?:days|nights|of the time)", "more than half", "(?:over|about) half",
             "(?:more (?:days|nights)|more often) than not", "usually")),
    (1, _any("a (?:few|couple of) (?:days|times|nights)", "several (?:days|times|nights)",
             "sometimes", "now and then", "on and off", "once in a while", "occasionally",
             "once or twice")),
    (3, re.compile(r"(?<!not )\b(?:every (?:single )?(?:day|night|morning)|(?:almost )?daily"
                   r"|all the time|(?:day|night) in,? (?:day|night) out|constantly)\b",
                   re.IGNORECASE)),
)  # fmt: skip
_VERBALIZED = {"count": 5, "phrase": 4, "denial": 4, "bare": 2}


def findings(item_words: str, transcript: Transcript, keeps: KeepsSentence) -> Iterator[Finding]:
    """Yield what the participant says about an item, sentence by sentence.

    ``keeps`` decides by its number whether a sentence is read at all.
    """
    topic = _TOPICS[item_words]
    asked = False
    number = 0
    for turn in transcript.turns:
        if turn.speaker == "interviewer":
            asked = bool(topic.search(turn.text) or (asked and _ASKS_HOW_OFTEN.search(turn.text)))
            continue
        sentences = _sentences(turn.text)
        if not (asked or topic.search(turn.text)):
            number += len(sentences)
            continue
        takes_back = bool(_TAKES_BACK.search(turn.text))
        for sentence in sentences:
            number += 1
            finding = _finding(sentence, topic, asked) if keeps(number) else None
            if finding is not None:
                kind, score = finding
                hedged = bool(_HEDGE.search(sentence))
                # "Most days." is too short to be found as a quote; the whole turn is.
                is_short = len(plain_words(sentence).split()) < MIN_QUOTE_WORDS
                yield Finding(score, turn.text if is_short else sentence, kind, hedged, takes_back)


@lru_cache(maxsize=4096)
def _sentences(text: str) -> list[str]:
    return SENTENCE_END.split(text)


def _finding(sentence: str, topic: re.Pattern[str], asked: bool) -> tuple[Kind, int | None] | None:
    is_about_it = bool(topic.search(sentence))
    passed_over = (_SOMEONE_ELSE, _ANOTHER_TIME, _CANNOT_SAY)
    if not (is_about_it or asked) or any(cue.search(sentence) for cue in passed_over):
        return None
    frequency = _frequency(sentence)
    if frequency is not None:
        return frequency
    if _DENIAL.search(sentence) and not _COMPLAINT.search(sentence):
        return "denial", 0
    return ("bare", None) if is_about_it or _COMPLAINT.search(sentence) else None


def _frequency(sentence: str) -> tuple[Kind, int] | None:
    counted = _counted_days(sentence)
    if counted is not None:
        return "count", score_of_days(counted)
    for score, phrase in _PHRASES:
        if phrase.search(sentence):
            return "phrase", score
    return None


def _counted_days(sentence: str) -> int | None:
    for pattern, weight in ((_OF_FOURTEEN, 1), (_A_WEEK, 2)):
        match = pattern.search(sentence)
        if match:
            word = match.group(1).lower()
            return weight * (_NUMBERS[word] if word in _NUMBERS else int(word))
    return None


def score_of_days(n_days: int) -> int:
    """Return the score of a number of days out of fourteen.

    >>> [score_of_days(n) for n in (0, 1, 2, 6, 7, 11, 12, 14)]
    [0, 0, 1, 1, 2, 2, 3, 3]
    """
    return sum(n_days >= first for first in (2, 7, 12))


def judge(found: list[Finding], references: list[int]) -> ItemScore:
    """Decide on a score: the last statement holds, and without any the rules abstain.

    A symptom named without a frequency gets the score of the references, where several agree.
    """
    scored = [finding for finding in found if finding.score is not None]
    bare = tuple(finding.quote for finding in found if finding.score is None)
    if not scored:
        if bare and len(references) > 1 and len(set(references)) == 1:
            return ItemScore(references[0], bare, 3)
        return ItemScore(None, (), 2 if bare else 4)
    last = scored[-1]
    quotes = tuple(finding.quote for finding in scored)
    sure = _VERBALIZED[last.kind] - last.hedged
    disagree = len({finding.score for finding in scored}) > 1
    if disagree and not last.takes_back:
        sure = 2
    return ItemScore(last.score, quotes, max(1, sure))


_REFERENCE = re.compile(r"\(score ([0-3])\) «")
_OVERLOOKED_AT_ONE = 0.3
# What the rules state as probability of being right; whether it is one is for the metrics to say.
_STATED = {1: 0.4, 2: 0.5, 3: 0.7, 4: 0.8, 5: 0.9}


@dataclass(frozen=True, slots=True)
class Lexicon:
    """Scores PHQ-8 items by keywords and frequency phrases, and abstains without evidence.

    It reads what a model reads, the transcript and the item. With a ``temperature`` above 0 it
    reads less carefully: each repeat overlooks sentences of its own choice, each with probability
    0.3 · temperature.
    """

    temperature: float = 0.0
    sample_index: int = 0

    def __post_init__(self) -> None:
        number = isinstance(self.temperature, int | float)
        if not number or not 0 <= self.temperature <= 1:
            raise InvalidValue(f"temperature must be between 0 and 1, not {self.temperature!r}")

    def __call__(self, features: Features, context: str) -> Judgement:
        """Score the item that the features name from the transcript."""
        overlooked = self._overlooked(context)
        transcript = Transcript.parse(context)
        found = list(findings(_item_words(features), transcript, lambda n: n not in overlooked))
        references = _REFERENCE.findall(str(features.get("references", "")))
        read = judge(found, [int(score) for score in references])
        signals = {
            "evidence_quotes": list(read.quotes),
            "verbalized_confidence": read.verbalized_confidence,
        }
        if read.score is None:
            return Judgement(None, signals=signals, abstain=True)
        return Judgement(read.score, _STATED[read.verbalized_confidence], signals)

    def _overlooked(self, context: str) -> frozenset[int]:
        """Draw the sentences that this repeat does not read, the same for every item."""
        if not self.temperature:
            return frozenset()
        rng = np.random.default_rng([int(content_hash(context)[:12], 16), self.sample_index])
        draws = rng.random(len(context))  # no text has more sentences than characters
        return frozenset(np.flatnonzero(draws < _OVERLOOKED_AT_ONE * self.temperature).tolist())


def _item_words(features: Features) -> str:
    words = str(features.get("item", "no item")).partition(":")[0]
    if words not in _TOPICS:
        raise InvalidValue(f"the lexicon reads PHQ-8 items only, not {words!r:.60}")
    return words

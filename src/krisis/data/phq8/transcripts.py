"""What is said in an interview, and whether a quote was really said."""

from __future__ import annotations

import re
import unicodedata
from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal

Speaker = Literal["interviewer", "participant"]

_SAME_CHARACTER = str.maketrans(dict.fromkeys("’‘ʼ′´`", "'") | dict.fromkeys("“”„", '"'))
SENTENCE_END = re.compile(r"(?<=[.!?;])\s+")
MIN_QUOTE_WORDS = 3
_WORD = re.compile(r"[^\W_]+")
_NO_WORD = re.compile(r"'|<[^<>]{1,30}>")  # apostrophes, and marks such as <laughter>
_ELLIPSIS = re.compile(r"\[?\(?(?:…|\.\s?\.\s?\.)\)?\]?")
_SPEAKER_LABEL = re.compile(r"^\s*(?:interviewer|ellie|participant)\s*:\s*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Turn:
    """One thing said by one speaker."""

    speaker: Speaker
    text: str


@dataclass(frozen=True)  # no slots: what was said is brought into comparable form once
class Transcript:
    """All that was said in the interview of one participant, in order."""

    participant_id: str
    turns: tuple[Turn, ...]

    def text(self) -> str:
        """Return the transcript as a model reads it, one turn per line."""
        return "\n".join(f"{turn.speaker.capitalize()}: {turn.text}" for turn in self.turns)

    @classmethod
    @lru_cache(maxsize=256)
    def parse(cls, text: str) -> Transcript:
        """Return the transcript that `text` wrote; a line without a speaker is the participant's.

        >>> Transcript.parse("Interviewer: Well?\\nParticipant: Yes.").turns[1].text
        'Yes.'
        """
        return cls("", tuple(_parsed_turn(line) for line in text.splitlines() if line.strip()))

    def find(self, quote: str) -> frozenset[int] | None:
        """Return the numbers of the participant's sentences that a quote is from, if it is found.

        Case, spacing and punctuation are ignored. A quote has at least three words in a row or is
        a whole turn; it may run over turns with no question between; the parts beside an ellipsis
        must follow one another. Words of the interviewer are never found.

        >>> turns = (Turn("interviewer", "Do you sleep?"), Turn("participant", "Never  well. No."))
        >>> transcript = Transcript("P1", turns)
        >>> transcript.find("“never well no”"), transcript.find("Do you sleep?")
        (frozenset({0, 1}), None)
        """
        parts = [plain_words(part) for part in _ELLIPSIS.split(_SPEAKER_LABEL.sub("", quote))]
        parts = [words for words in parts if words]
        whole = " ".join(parts)
        if whole in self._said.turns:
            return self._said.turns[whole]
        # The ellipsis may be a pause of the speaker's, with nothing left out.
        found = self._in_order([whole]) if len(parts) > 1 else None
        return found or self._in_order(parts)

    def _in_order(self, parts: list[str]) -> frozenset[int] | None:
        """Return the sentences of parts that follow one another, one of them long enough."""
        if not any(words.count(" ") + 1 >= MIN_QUOTE_WORDS for words in parts):
            return None
        sentences: set[int] = set()
        position = 0
        for words in parts:
            position = self._said.text.find(f" {words} ", position)
            if position < 0:
                return None
            end = position + len(words) + 1
            first = bisect_right(self._said.starts, position + 1) - 1
            sentences.update(range(first, bisect_left(self._said.starts, end)))
            position = end
        return frozenset(sentences)

    @cached_property
    def _said(self) -> _Said:
        """Return the participant's words as quotes are compared, with a bar at every question."""
        text = " "
        starts: list[int] = []
        turns: dict[str, frozenset[int]] = {}
        for turn in self.turns:
            if turn.speaker == "interviewer":
                text += "| "
                continue
            first = len(starts)
            for sentence in SENTENCE_END.split(turn.text):
                if words := plain_words(sentence):
                    starts.append(len(text))
                    text += f"{words} "
            turns.setdefault(plain_words(turn.text), frozenset(range(first, len(starts))))
        return _Said(text, starts, turns)


@dataclass(frozen=True, slots=True)
class _Said:
    """Words with one space between, where each sentence starts, and the sentences of each turn."""

    text: str
    starts: list[int]
    turns: dict[str, frozenset[int]]


def _parsed_turn(line: str) -> Turn:
    speaker, colon, said = line.partition(": ")
    if colon and speaker == "Interviewer":
        return Turn("interviewer", said)
    return Turn("participant", said if colon and speaker == "Participant" else line)


def plain_words(text: str) -> str:
    """Return the words of a text with one space between, without case, signs and marks.

    >>> plain_words("It’s <laughter> — OK…")
    'its ok'
    """
    return " ".join(_WORD.findall(_NO_WORD.sub("", normalized(text))))


def normalized(text: str) -> str:
    """Bring text into the form in which quotes are compared."""
    same = unicodedata.normalize("NFKC", text.translate(_SAME_CHARACTER))
    return " ".join(same.casefold().split())


@dataclass(frozen=True, slots=True)
class CheckedQuotes:
    """The quotes of one answer: one for each piece of evidence, and those that are not found."""

    found: tuple[str, ...]
    not_found: tuple[str, ...]


def check_quotes(transcript: Transcript, quotes: list[str]) -> CheckedQuotes:
    """Divide quotes by whether the participant said them.

    Quotes that share a sentence are one piece of evidence, and the longest of them is kept.
    """
    groups: list[tuple[frozenset[int], str]] = []
    not_found: list[str] = []
    for quote in {normalized(quote): quote for quote in quotes if quote.strip()}.values():
        sentences = transcript.find(quote)
        if sentences is None:
            not_found.append(quote)
            continue
        touched = [group for group in groups if group[0] & sentences]
        merged = sentences.union(*(group[0] for group in touched))
        longest = max(
            [*(group[1] for group in touched), quote], key=lambda one: len(plain_words(one))
        )
        groups = [*(group for group in groups if group not in touched), (merged, longest)]
    groups.sort(key=lambda group: min(group[0]))
    return CheckedQuotes(tuple(quote for _, quote in groups), tuple(not_found))

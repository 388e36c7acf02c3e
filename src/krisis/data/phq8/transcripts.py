"""What is said in an interview, and whether a quote was really said."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal

Speaker = Literal["interviewer", "participant"]

_SAME_CHARACTER = str.maketrans({"’": "'", "‘": "'", "“": '"', "”": '"', "–": "-", "—": "-"})
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

    def contains(self, quote: str) -> bool:
        """Say whether the participant said this, ignoring case, spacing and kind of quote mark.

        A quote may run over several turns; words of the interviewer alone are not evidence.

        >>> turns = (Turn("interviewer", "Do you sleep?"), Turn("participant", "Never  well."))
        >>> transcript = Transcript("P1", turns)
        >>> transcript.contains("“never well”"), transcript.contains("Do you sleep?")
        (True, False)
        """
        wanted = normalized(_SPEAKER_LABEL.sub("", quote)).strip("\"' .…")
        if not wanted:
            return False
        if wanted in self._said_by["participant"]:
            return True
        return wanted in self._said_by["all"] and wanted not in self._said_by["interviewer"]

    @cached_property
    def _said_by(self) -> dict[str, str]:
        """Return everything, and the words of each side alone, as quotes are compared."""
        said = {
            speaker: [turn.text for turn in self.turns if speaker in ("all", turn.speaker)]
            for speaker in ("all", "participant", "interviewer")
        }
        return {speaker: normalized(" ".join(texts)) for speaker, texts in said.items()}


def _parsed_turn(line: str) -> Turn:
    speaker, colon, said = line.partition(": ")
    if colon and speaker == "Interviewer":
        return Turn("interviewer", said)
    return Turn("participant", said if colon and speaker == "Participant" else line)


def normalized(text: str) -> str:
    """Bring text into the form in which quotes are compared."""
    return " ".join(text.translate(_SAME_CHARACTER).casefold().split())


@dataclass(frozen=True, slots=True)
class CheckedQuotes:
    """The quotes of one answer, divided into those that were said and those that were not."""

    found: tuple[str, ...]
    not_found: tuple[str, ...]


def check_quotes(transcript: Transcript, quotes: list[str]) -> CheckedQuotes:
    """Divide quotes by whether the participant said them; a repeated quote counts once."""
    distinct = list({normalized(quote): quote for quote in quotes if quote.strip()}.values())
    found = tuple(quote for quote in distinct if transcript.contains(quote))
    return CheckedQuotes(found, tuple(quote for quote in distinct if quote not in found))

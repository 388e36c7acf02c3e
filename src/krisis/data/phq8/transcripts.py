"""What is said in an interview, and whether a quote was really said."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Literal

Speaker = Literal["interviewer", "participant"]

_SAME_CHARACTER = str.maketrans({"’": "'", "‘": "'", "“": '"', "”": '"', "–": "-", "—": "-"})
_SPEAKER_LABEL = re.compile(r"^\s*(?:interviewer|ellie|participant)\s*:\s*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Turn:
    """One thing said by one speaker."""

    speaker: Speaker
    text: str


@dataclass(frozen=True, slots=True)
class Transcript:
    """All that was said in the interview of one participant, in order."""

    participant_id: str
    turns: tuple[Turn, ...]
    # For quotes: everything, and the words of each side alone.
    _spoken: dict[str, str] = field(default_factory=dict, repr=False, compare=False)

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
        spoken = self._said()
        if wanted in spoken["participant"]:
            return True
        return wanted in spoken["all"] and wanted not in spoken["interviewer"]

    def _said(self) -> dict[str, str]:
        if not self._spoken:
            for name, speakers in (
                ("all", ("interviewer", "participant")),
                ("participant", ("participant",)),
                ("interviewer", ("interviewer",)),
            ):
                said = (turn.text for turn in self.turns if turn.speaker in speakers)
                self._spoken[name] = normalized(" ".join(said))
        return self._spoken


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

"""One transcript in a file: columns, turns, and passages where nobody asks."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from krisis.data.phq8.findings import Findings, Place, table_rows
from krisis.data.phq8.transcripts import Speaker, Transcript, Turn

TRANSCRIPT_COLUMNS = ("start_time", "stop_time", "speaker", "value")
_OTHER_NAMES = {"end_time": "stop_time", "text": "value"}  # those of E-DAIC
_SPEAKERS: Mapping[str, Speaker] = {
    "ellie": "interviewer",
    "interviewer": "interviewer",
    "participant": "participant",
}
# In DAIC-WOZ a prompt of the interviewer is "name_of_prompt (what was said)".
_NAMED_PROMPT = re.compile(r"^\w+ \((.+)\)$")
# Where nobody asks, a pause in which a question fits parts two passages, and no passage is longer
# than a long answer.
PAUSE_SECONDS = 3.0
MAX_PASSAGE_WORDS = 120


@dataclass(frozen=True, slots=True)
class Spoken:
    """A turn with the seconds at which it starts and stops."""

    start: float
    stop: float
    turn: Turn


def read_transcript(file: Path, participant_id: str, findings: Findings) -> Transcript | None:
    """Read one transcript, tabs or commas between its columns; None where it has faults."""
    place = Place(findings, file)
    n_before = place.n_faults
    delimiter, rows = table_rows(place)
    line, header = next(rows, (1, []))
    names = _columns(place.at(line), header) if header else []
    if not names:
        return None
    spoken: list[Spoken] = []
    for line, row in rows:
        cells = _cells(place.at(line), names, row, delimiter)
        turn = _timed(place.at(line), cells) if cells else None
        if turn is not None:
            spoken.append(turn)
    if place.n_faults > n_before:
        return None
    turns = [one.turn for one in spoken if one.turn.text]
    if all(turn.speaker == "participant" for turn in turns):
        turns = parted_by_pauses(spoken)
    return _checked(place.at(line), Transcript(participant_id, tuple(turns)))


def _columns(place: Place, header: Sequence[str]) -> list[str]:
    """Return what each column is read as, or nothing where one is missing."""
    spelt = [re.sub(r"\W+", "_", name.strip().lower()) for name in header]
    names = [_OTHER_NAMES.get(name, name) for name in spelt]
    # E-DAIC holds what was recognised of the participant alone, and no column says so.
    needed = [one for one in TRANSCRIPT_COLUMNS if one != "speaker" or "text" not in spelt]
    missing = [name for name in needed if name not in names]
    for name in missing:
        place.fault(
            f"the column is missing, found {', '.join(spelt)[:80]}; the first line must name "
            f"{', '.join(TRANSCRIPT_COLUMNS)} with tabs, or Start_Time, End_Time, Text with commas",
            name,
        )
    return [] if missing else names


def _cells(place: Place, names: Sequence[str], row: list[str], delimiter: str) -> Mapping[str, str]:
    """Return the cells of a line by column, or none where their number is wrong."""
    if len(row) > len(names) and names[-1] == "value":
        row = [*row[: len(names) - 1], delimiter.join(row[len(names) - 1 :])]
    if any(cell.strip() for cell in row[len(names) :]):
        problem = f"{len(row)} values for {len(names)} columns; put text with commas in quote marks"
        place.fault(problem, names[-1], str(len(row)))
        return {}
    cells = dict(zip(names, row, strict=False))
    absent = [name for name in names if name in TRANSCRIPT_COLUMNS and name not in cells]
    if absent == ["value"]:  # somebody who says nothing
        place.add("left_out", "the line has no text and is left out", "value")
    elif absent:
        place.fault("the line ends before this column", absent[0])
    return {} if absent else cells


def _timed(place: Place, cells: Mapping[str, str]) -> Spoken | None:
    times = [_seconds(place, name, cells[name]) for name in ("start_time", "stop_time")]
    turn = _turn(place, cells.get("speaker", "participant"), cells["value"])
    return Spoken(times[0], times[1], turn) if turn else None


def _seconds(place: Place, column: str, cell: str) -> float:
    try:
        seconds = float(cell)
    except ValueError:
        seconds = math.nan
    if not math.isfinite(seconds):
        place.fault(f"must be a number of seconds, not {cell[:40]!r}", column, cell[:40])
    return seconds


def _turn(place: Place, speaker: str, value: str) -> Turn | None:
    """Return what was said by whom; None where nobody knows by whom."""
    called = speaker[:40]
    name = _SPEAKERS.get(called.strip().lower())
    if name is None:
        problem = f"unknown speaker {called!r}; use Participant, Ellie or Interviewer"
        place.fault(problem, "speaker", called)
    text = " ".join(value.split())
    prompt = _NAMED_PROMPT.match(text) if name == "interviewer" else None
    return Turn(name, prompt.group(1) if prompt else text) if name else None


def parted_by_pauses(spoken: Sequence[Spoken]) -> list[Turn]:
    """Join what the participant says into passages that end at a pause or at their longest.

    >>> times = {"a": 0.0, "b": 3.0, "c": 9.0}
    >>> said = [Spoken(at, at + 2, Turn("participant", word)) for word, at in times.items()]
    >>> [turn.text for turn in parted_by_pauses(said)]
    ['a b', 'c']
    """
    passages: list[list[str]] = []
    last = -math.inf
    for one in spoken:
        words = one.turn.text.split()
        if not words:
            continue
        paused = one.start - last >= PAUSE_SECONDS
        if paused or len(passages[-1]) + len(words) > MAX_PASSAGE_WORDS:
            passages.append([])
        passages[-1] += words[:MAX_PASSAGE_WORDS]
        longer = range(MAX_PASSAGE_WORDS, len(words), MAX_PASSAGE_WORDS)
        passages += [words[start : start + MAX_PASSAGE_WORDS] for start in longer]
        last = one.stop
    return [Turn("participant", " ".join(words)) for words in passages]


def _checked(place: Place, transcript: Transcript) -> Transcript | None:
    """Return a transcript without empty turns; one without a word of the participant is a fault."""
    name, said = transcript.participant_id, tuple(turn for turn in transcript.turns if turn.text)
    if any(turn.speaker == "participant" for turn in said):
        return Transcript(name, said)
    problem = (
        f"the transcript of {name} ends without one word of the participant; remove it or restore "
        "its content"
    )
    place.fault(problem)
    return None

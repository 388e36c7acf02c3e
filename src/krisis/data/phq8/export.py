"""Write the synthetic interviews as a directory that `readers` reads, and sum up any such data."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from krisis.data.phq8.cohort import draw_cohort
from krisis.data.phq8.interviews import write_interview
from krisis.data.phq8.items import ITEM_KEYS, N_SCORES
from krisis.data.phq8.readers import TRANSCRIPT_COLUMNS, LabelledInterview
from krisis.data.phq8.transcripts import Transcript
from krisis.errors import InvalidFile

_SECONDS_PER_TURN = 4


def synthetic_interviews(
    n_participants: int, *, seed: int, withheld_rate: float
) -> list[LabelledInterview]:
    """Return the interviews of the embedded cohort with their scores."""
    return [
        LabelledInterview(
            write_interview(person, seed=seed, withheld_rate=withheld_rate).transcript,
            person.scores,
        )
        for person in draw_cohort(n_participants, seed=seed)
    ]


def write_directory(folder: Path, interviews: Sequence[LabelledInterview]) -> None:
    """Write transcripts and labels into a folder that does not exist yet or is empty."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InvalidFile(f"{folder} exists and is not empty; choose another folder")
    for interview in interviews:
        name = interview.transcript.participant_id
        place = folder / f"{name}_P"
        place.mkdir(parents=True)
        (place / f"{name}_TRANSCRIPT.csv").write_text(
            transcript_text(interview.transcript), encoding="utf-8"
        )
    (folder / "labels.csv").write_text(labels_text(interviews), encoding="utf-8")


def transcript_text(transcript: Transcript) -> str:
    """Return a transcript as tab-separated text, with made-up times."""
    lines = ["\t".join(TRANSCRIPT_COLUMNS)]
    for number, turn in enumerate(transcript.turns):
        speaker = "Ellie" if turn.speaker == "interviewer" else "Participant"
        start = number * _SECONDS_PER_TURN
        lines.append(f"{start}\t{start + _SECONDS_PER_TURN - 1}\t{speaker}\t{turn.text}")
    return "\n".join(lines) + "\n"


def labels_text(interviews: Sequence[LabelledInterview]) -> str:
    """Return the scores as a labels file."""
    stream = io.StringIO()
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(["Participant_ID", *(f"PHQ8_{key}" for key in ITEM_KEYS)])
    writer.writerows(
        [interview.transcript.participant_id, *interview.scores] for interview in interviews
    )
    return stream.getvalue()


def summary(interviews: Sequence[LabelledInterview]) -> dict[str, Any]:
    """Count what interviews hold, without a word of them."""
    n_turns = [len(interview.transcript.turns) for interview in interviews]
    n_characters = [len(interview.transcript.text()) for interview in interviews]
    totals = [sum(interview.scores) for interview in interviews]
    return {
        "n_participants": len(interviews),
        "n_turns": {"least": min(n_turns), "median": median(n_turns), "most": max(n_turns)},
        "n_characters": {
            "least": min(n_characters),
            "median": median(n_characters),
            "most": max(n_characters),
        },
        "splits": dict(Counter(interview.split or "not named" for interview in interviews)),
        "n_total_10_or_more": sum(total >= 10 for total in totals),
        "scores": {
            key: [
                sum(one.scores[column] == score for one in interviews) for score in range(N_SCORES)
            ]
            for column, key in enumerate(ITEM_KEYS)
        },
    }

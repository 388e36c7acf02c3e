"""Interviews in files: a DAIC-WOZ-style directory with a labels file, or JSON lines."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from krisis.data.phq8.items import ITEM_KEYS
from krisis.data.phq8.transcripts import Speaker, Transcript, Turn
from krisis.errors import InvalidFile
from krisis.json_values import JsonValue

# About 250,000 tokens: ten times the longest interview known, less than any model's window.
MAX_TRANSCRIPT_BYTES = 1_000_000
_SECONDS_PER_TURN = 4
TRANSCRIPT_COLUMNS = ("start_time", "stop_time", "speaker", "value")
_SPEAKERS: Mapping[str, Speaker] = {
    "ellie": "interviewer",
    "interviewer": "interviewer",
    "participant": "participant",
}
# In DAIC-WOZ a prompt of the interviewer is "name_of_prompt (what was said)".
_NAMED_PROMPT = re.compile(r"^\w+ \((.+)\)$")
_WIDE_MARKS = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True, slots=True)
class LabelledInterview:
    """A transcript with its eight scores; ``split`` is empty where the file does not say."""

    transcript: Transcript
    scores: tuple[int, ...]
    split: str = ""


def read_interviews(path: Path, labels: Path | None = None) -> list[LabelledInterview]:
    """Read a directory of transcripts or a .jsonl file, sorted by participant."""
    if path.is_dir():
        interviews = _read_directory(path, labels or path / "labels.csv")
    elif path.is_file():
        interviews = _read_json_lines(path)
    else:
        raise InvalidFile(f"{path} does not exist; give a directory of transcripts or a .jsonl")
    return sorted(interviews, key=lambda interview: interview.transcript.participant_id)


def _read_directory(directory: Path, labels: Path) -> list[LabelledInterview]:
    files = _transcript_files(directory)
    if not files:
        raise InvalidFile(
            f"{directory} contains no transcript; expected folders such as 300_P/300_TRANSCRIPT.csv"
        )
    scores = read_labels(labels)
    unlabelled = sorted(files.keys() - scores.keys())
    if unlabelled:
        raise InvalidFile(
            f"{labels} has no line for participant {unlabelled[0]} (and {len(unlabelled) - 1} "
            f"more); add the scores or remove {files[unlabelled[0]]}"
        )
    return [
        LabelledInterview(read_transcript(file, participant_id), *scores[participant_id])
        for participant_id, file in files.items()
    ]


def _transcript_files(directory: Path) -> dict[str, Path]:
    files: dict[str, Path] = {}
    for found in sorted(directory.glob("*_P/*_TRANSCRIPT.csv")):
        participant_id = found.parent.name.removesuffix("_P")
        if found.name.startswith("."):  # what file managers leave behind
            continue
        if participant_id in files:
            raise InvalidFile(
                f"{found.parent} holds two transcripts, {files[participant_id].name} and "
                f"{found.name}; keep one for each participant"
            )
        files[participant_id] = found
    return files


def read_transcript(file: Path, participant_id: str) -> Transcript:
    """Read one tab-separated transcript, or say in which line it is broken."""
    rows = _numbered_rows(file, delimiter="\t")
    line, header = next(rows, (1, []))
    names = [name.strip().lower() for name in header]
    missing = [name for name in TRANSCRIPT_COLUMNS if name not in names]
    if missing:
        raise InvalidFile(
            f"{file} line {line}: column {missing[0]!r} is missing, found {names[:8]}; the first "
            f"line must name {', '.join(TRANSCRIPT_COLUMNS)}, separated by tabs"
        )
    turns = []
    for line, row in rows:
        turns.append(_turn(file, line, dict(zip(names, row, strict=False))))
    return _checked_transcript(participant_id, turns, f"{file} line {line}")


def _turn(file: Path, line: int, cells: Mapping[str, str]) -> Turn:
    absent = [name for name in TRANSCRIPT_COLUMNS if name not in cells]
    if absent:
        raise InvalidFile(
            f"{file} line {line}: the line ends before column {absent[0]!r}; "
            "every line needs four tab-separated values"
        )
    for name in ("start_time", "stop_time"):
        _seconds(cells[name], f"{file} line {line}: {name}")
    return _spoken(cells["speaker"], cells["value"], f"{file} line {line}")


def _seconds(cell: str, place: str) -> None:
    try:
        float(cell)
    except ValueError:
        raise InvalidFile(f"{place} must be a number of seconds, not {cell[:40]!r}") from None


def _spoken(speaker: object, value: object, place: str) -> Turn:
    name = _SPEAKERS.get(str(speaker).strip().lower())
    if name is None:
        raise InvalidFile(
            f"{place}: unknown speaker {str(speaker)[:40]!r}; use Participant, Ellie or Interviewer"
        )
    if not isinstance(value, str):
        raise InvalidFile(f"{place}: what was said must be text, not {value!r:.40}")
    if any("\ud800" <= character <= "\udfff" for character in value):
        raise InvalidFile(f"{place}: the text holds half a character; write it as UTF-8 again")
    text = " ".join(value.split())
    prompt = _NAMED_PROMPT.match(text) if name == "interviewer" else None
    return Turn(name, prompt.group(1) if prompt else text)


def _checked_transcript(participant_id: str, turns: Sequence[Turn], place: str) -> Transcript:
    said = tuple(turn for turn in turns if turn.text)
    if not any(turn.speaker == "participant" for turn in said):
        raise InvalidFile(
            f"{place}: the transcript of {participant_id} ends without one word of the "
            "participant; remove the file or restore its content"
        )
    return Transcript(participant_id, said)


def read_labels(file: Path) -> dict[str, tuple[tuple[int, ...], str]]:
    """Read the eight scores, and the split where a column names it, by participant."""
    if not file.is_file():
        raise InvalidFile(
            f"the labels file {file} does not exist; name one with the columns Participant_ID "
            f"and PHQ8_{ITEM_KEYS[0]} … PHQ8_{ITEM_KEYS[-1]}"
        )
    rows = _numbered_rows(file, delimiter=",")
    line, header = next(rows, (1, []))
    names = [name.strip().lower().removeprefix("phq8_") for name in header]
    for wanted in ("participant_id", *(key.lower() for key in ITEM_KEYS)):
        if wanted not in names:
            raise InvalidFile(f"{file} line {line}: column {wanted!r} is missing, found {names}")
    labels: dict[str, tuple[tuple[int, ...], str]] = {}
    for line, row in rows:
        cells = dict(zip(names, row, strict=False))
        participant_id = cells.get("participant_id", "").strip()
        if not participant_id or participant_id in labels:
            raise InvalidFile(
                f"{file} line {line}: participant {participant_id!r} is empty or appears "
                "twice; keep one line for each"
            )
        place = f"{file} line {line}: participant {participant_id}"
        scores = tuple(_score(cells.get(key.lower()), key, place) for key in ITEM_KEYS)
        labels[participant_id] = scores, cells.get("split", "").strip().lower()
    return labels


def _score(cell: object, key: str, place: str) -> int:
    text = str(cell).strip()
    if isinstance(cell, bool) or text not in {"0", "1", "2", "3", "0.0", "1.0", "2.0", "3.0"}:
        raise InvalidFile(f"{place}, item {key}: the score must be 0, 1, 2 or 3, not {cell!r:.40}")
    return int(text[0])


def _read_json_lines(file: Path) -> list[LabelledInterview]:
    interviews: dict[str, LabelledInterview] = {}
    for line, text in _numbered_lines(file, limit=None):
        if not text.strip():
            continue
        place = f"{file} line {line}"
        if len(text) > MAX_TRANSCRIPT_BYTES:
            raise InvalidFile(_too_long(place))
        interview = _json_interview(text, place)
        participant_id = interview.transcript.participant_id
        if participant_id in interviews:
            raise InvalidFile(f"{place}: participant {participant_id} appears twice")
        interviews[participant_id] = interview
    if not interviews:
        raise InvalidFile(f"{file} line 1: the file is empty; expected one participant per line")
    return list(interviews.values())


def _json_interview(text: str, place: str) -> LabelledInterview:
    try:
        data: JsonValue = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        raise InvalidFile(f"{place}: not JSON ({error}); write one object per line") from None
    for key in ("participant_id", "transcript", "labels"):
        if not isinstance(data, dict) or key not in data:
            raise InvalidFile(f"{place}: key {key!r} is missing; see the docs of the phq8 suite")
    participant_id = str(data["participant_id"]).strip()
    if not participant_id.isprintable() or not 0 < len(participant_id) <= 100:
        raise InvalidFile(
            f"{place}: participant_id must be a short name on one line, not {participant_id!r:.60}"
        )
    transcript, labels = data["transcript"], data["labels"]
    if not isinstance(transcript, list) or not all(isinstance(turn, dict) for turn in transcript):
        raise InvalidFile(f"{place}: transcript must be a list of objects with speaker and value")
    if not isinstance(labels, dict):
        raise InvalidFile(
            f"{place}: labels must be an object of item and score, not {labels!r:.40}"
        )
    turns = [_spoken(turn.get("speaker"), turn.get("value"), place) for turn in transcript]
    scores = tuple(_score(labels.get(key), key, f"{place}: {participant_id}") for key in ITEM_KEYS)
    split = str(data.get("split", "")).strip().lower()
    return LabelledInterview(_checked_transcript(participant_id, turns, place), scores, split)


def _numbered_rows(file: Path, *, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    # What people say holds quote marks; in the labels file they may hold a field together.
    quoting: Literal[0, 3] = csv.QUOTE_NONE if delimiter == "\t" else csv.QUOTE_MINIMAL
    lines = list(_numbered_lines(file, limit=MAX_TRANSCRIPT_BYTES))
    if not any(text.strip() for _, text in lines):
        raise InvalidFile(f"{file} line 1: the file is empty; restore its content or remove it")
    reader = csv.reader((text for _, text in lines), delimiter=delimiter, quoting=quoting)
    try:
        for row in reader:
            if any(cell.strip() for cell in row):
                yield reader.line_num, row
    except csv.Error as error:
        raise InvalidFile(f"{file} line {reader.line_num}: not a table ({error})") from None


def _numbered_lines(file: Path, *, limit: int | None) -> Iterator[tuple[int, str]]:
    size = 0
    with file.open("rb") as stream:
        for number, line in enumerate(_without_mark(stream, file), start=1):
            size += len(line)
            place = f"{file} line {number}"
            if limit is not None and size > limit:
                raise InvalidFile(_too_long(place))
            yield number, _decoded(line, place)


def _without_mark(stream: io.BufferedReader, file: Path) -> Iterator[bytes]:
    start = stream.peek(4)
    if start.startswith(_WIDE_MARKS):
        raise InvalidFile(f"{file} line 1: the text is UTF-16; save the file as UTF-8")
    if start.startswith(b"\xef\xbb\xbf"):
        stream.read(3)
    # A line without an end must not fill the memory.
    while line := stream.readline(64 * MAX_TRANSCRIPT_BYTES):
        yield line


def _decoded(line: bytes, place: str) -> str:
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidFile(
            f"{place}: byte 0x{line[error.start]:02x} is not UTF-8; save the file as UTF-8"
        ) from None
    if "\x00" in text:
        raise InvalidFile(f"{place}: the text contains a NUL byte; save the file as UTF-8 text")
    return text


def _too_long(place: str) -> str:
    return (
        f"{place}: the transcript is longer than {MAX_TRANSCRIPT_BYTES:,} bytes here, more than "
        "a model can read; check that the file holds one interview, or cut it"
    )


def write_directory(folder: Path, interviews: Sequence[LabelledInterview]) -> None:
    """Write transcripts and labels into a folder that does not exist yet or is empty."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InvalidFile(f"{folder} exists and is not empty; choose another folder")
    for interview in interviews:
        name = interview.transcript.participant_id
        place = folder / f"{name}_P"
        place.mkdir(parents=True)
        (place / f"{name}_TRANSCRIPT.csv").write_text(
            transcript_text(interview.transcript), encoding="utf-8", newline=""
        )
    (folder / "labels.csv").write_text(labels_text(interviews), encoding="utf-8", newline="")


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
    writer.writerow(["Participant_ID", *(f"PHQ8_{key}" for key in ITEM_KEYS), "split"])
    writer.writerows(
        [interview.transcript.participant_id, *interview.scores, interview.split]
        for interview in interviews
    )
    return stream.getvalue()

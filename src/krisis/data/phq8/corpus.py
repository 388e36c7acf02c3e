"""Interviews in folders: DAIC-WOZ, E-DAIC and those like them, and what is wrong in them."""

from __future__ import annotations

import csv
import io
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from krisis.data.phq8.findings import Findings, Place
from krisis.data.phq8.items import ITEM_KEYS
from krisis.data.phq8.labels import PersonLabels, read_labels
from krisis.data.phq8.transcript_files import (
    MAX_PASSAGE_WORDS,
    PAUSE_SECONDS,
    TRANSCRIPT_COLUMNS,
    read_transcript,
)
from krisis.data.phq8.transcripts import Transcript
from krisis.errors import InvalidFile

_SECONDS_PER_TURN = 4
_TRANSCRIPT = re.compile(r"(.+)_transcript\.csv", re.IGNORECASE)
_LABELS = re.compile(r".*(?:split|labels?|lables).*\.csv", re.IGNORECASE)
_ARCHIVE = re.compile(r".+_P\.(?:zip|tar|tar\.gz|tgz)", re.IGNORECASE)
_DEPTH = 3


@dataclass(frozen=True, slots=True)
class LabelledInterview:
    """A transcript with its eight scores, None where the file has none for the item.

    ``split`` is empty where the file does not say.
    """

    transcript: Transcript
    scores: tuple[int | None, ...]
    split: str = ""

    @property
    def items(self) -> dict[str, int]:
        """The scores that are there, by item."""
        pairs = zip(ITEM_KEYS, self.scores, strict=True)
        return {key: score for key, score in pairs if score is not None}


@dataclass(slots=True)
class Corpus:
    """The interviews that can be used, sorted by participant, and all that was found."""

    path: Path
    labels: Path | None = None
    interviews: list[LabelledInterview] = field(default_factory=list)
    findings: Findings = field(default_factory=Findings)

    def usable(self) -> list[LabelledInterview]:
        """Return the interviews, or refuse where something must be corrected first."""
        faults = self.findings.of_kind("fault")
        if not faults:
            return self.interviews
        if len(faults) == 1:
            raise InvalidFile(str(faults[0]))
        first = "; ".join(map(str, faults[:3]))
        raise InvalidFile(
            f"{self.path}: {len(faults)} faults must be corrected, the first of them: {first}; "
            f"to see all, type: {self.command}"
        )

    @property
    def command(self) -> str:
        """What to type to see everything that was found."""
        labels = f" --labels {self.labels}" if self.labels else ""
        return f"krisis data check-interviews {self.path}{labels}"

    @property
    def left_out(self) -> list[str]:
        """The participants that are named in the files and not used."""
        used = {one.transcript.participant_id for one in self.interviews}
        found = self.findings.of_kind("left_out")
        return sorted({name for one in found for name in one.participants} - used)

    def account(self) -> str:
        """Say in a sentence who and what is left out."""
        people = self.left_out
        n_items = sum(len(ITEM_KEYS) - len(one.items) for one in self.interviews)
        told = [
            f"participants left out: {len(people)} ({_first(people)})" if people else "",
            f"items left out for want of a score: {n_items}" if n_items else "",
        ]
        known = "; ".join(filter(None, told))
        return f"{known}; to see why, type: {self.command}" if known else ""


def _first(names: Sequence[str]) -> str:
    return ", ".join(names[:3]) + (", …" if len(names) > 3 else "")


def read_corpus(path: Path, labels: Path | None = None) -> Corpus:
    """Read a directory of transcripts to its end, whatever is wrong in it."""
    corpus = Corpus(path, labels)
    findings = corpus.findings
    if not path.is_dir():
        what = "is a single file" if path.is_file() else "does not exist"
        raise InvalidFile(f"{path} {what}; give a directory of transcripts")
    found = _read_directory(path, labels, findings)
    corpus.interviews = sorted(
        _with_splits(path, found, findings), key=lambda one: one.transcript.participant_id
    )
    if not corpus.interviews and not findings.of_kind("fault"):
        left_out = "; ".join(map(str, findings.of_kind("left_out")[:2]))
        problem = f"no participant has both a transcript and item scores ({left_out})"
        Place(findings, path).fault(problem)
    return corpus


def _with_splits(
    path: Path, interviews: Sequence[LabelledInterview], findings: Findings
) -> list[LabelledInterview]:
    """Leave out whoever has no split where others have one: nobody knows who may see them."""
    if not any(one.split for one in interviews):
        return list(interviews)
    without = [one.transcript.participant_id for one in interviews if not one.split]
    problem = "participants {} are in no split although others are; left out"
    findings.of_people("left_out", path, without, problem)
    return [one for one in interviews if one.split]


def _read_directory(
    directory: Path, labels: Path | None, findings: Findings
) -> list[LabelledInterview]:
    files = sorted(_files_below(directory))
    people = read_labels(_label_files(directory, labels, files, findings), findings)
    transcripts = {
        name: read_transcript(file, name, findings)
        for name, file in _transcript_files(directory, files, findings).items()
    }
    alone = [
        name
        for name, one in transcripts.items()
        if one and not any(turn.speaker == "interviewer" for turn in one.turns)
    ]
    findings.of_people(
        "note",
        directory,
        alone,
        "the interviews of {} have no turn of an interviewer and are parted at pauses of "
        f"{PAUSE_SECONDS:g} seconds and after {MAX_PASSAGE_WORDS} words",
    )
    return _labelled(directory, transcripts, people, findings)


def _labelled(
    directory: Path,
    transcripts: Mapping[str, Transcript | None],
    people: Mapping[str, PersonLabels],
    findings: Findings,
) -> list[LabelledInterview]:
    scored = {name for name, person in people.items() if person.scores}
    for problem, names in (
        ("have a transcript and are in no labels file", transcripts.keys() - people.keys()),
        ("are in a labels file without item scores", transcripts.keys() & people.keys() - scored),
        ("have item scores and no transcript", scored - transcripts.keys()),
        (
            "have neither item scores nor a transcript",
            people.keys() - scored - transcripts.keys(),
        ),
    ):
        told = f"participants {{}} {problem}; left out"
        findings.of_people("left_out", directory, sorted(names), told)
    return [
        LabelledInterview(transcript, tuple(map(person.scores.get, ITEM_KEYS)), person.split)
        for name, person in people.items()
        if name in scored and not person.contradicts and (transcript := transcripts.get(name))
    ]


def _files_below(directory: Path) -> Iterator[Path]:
    """Return all files up to three folders down, without what file managers leave behind."""
    seen: set[Path] = set()
    for folder, folders, names in os.walk(directory, followlinks=True):
        place = Path(folder)
        if (real := place.resolve()) in seen:  # a link back to a folder above
            folders.clear()
            continue
        seen.add(real)
        deep = len(place.relative_to(directory).parts) >= _DEPTH
        hidden = {one for one in folders if one.startswith((".", "__MACOSX"))}
        folders[:] = [] if deep else [one for one in folders if one not in hidden]
        yield from (place / name for name in names if not name.startswith("."))


def _label_files(
    directory: Path, labels: Path | None, files: Sequence[Path], findings: Findings
) -> list[Path]:
    """Return the labels file that is named, else labels.csv, else all that look like one."""
    chosen = labels or directory / "labels.csv"
    if chosen.is_file():
        return [chosen]
    if labels is not None:
        if not labels.is_dir():
            problem = "the labels file does not exist; name a file or a folder with label files"
            Place(findings, labels).fault(problem)
            return []
        directory, files = labels, sorted(_files_below(labels))
    names = [one for one in files if not _TRANSCRIPT.fullmatch(one.name)]
    found = [one for one in names if _LABELS.fullmatch(one.name)]
    if not found:
        Place(findings, directory).fault(
            "there is no labels file; expected labels.csv, or files such as "
            "train_split_Depression_AVEC2017.csv or Detailed_PHQ8_Labels.csv"
        )
    return found


def _transcript_files(
    directory: Path, files: Sequence[Path], findings: Findings
) -> dict[str, Path]:
    found: dict[str, Path] = {}
    for file in files:
        named = _TRANSCRIPT.fullmatch(file.name)
        if not named:
            continue
        name, folder = named[1], file.parent.name
        if folder.endswith("_P") and folder != f"{name}_P":
            problem = f"the transcript of {name} is in the folder {folder}; move or rename it"
            Place(findings, file).fault(problem)
        elif name in found:
            problem = f"a second transcript of {name}, beside {found[name]}; keep one"
            Place(findings, file).fault(problem)
        else:
            found[name] = file
    if not found:
        packed = [file.name for file in files if _ARCHIVE.fullmatch(file.name)]
        unpack = f"; unpack {packed[0]} and its like first" if packed else ""
        expected = "expected folders such as 300_P/300_TRANSCRIPT.csv"
        Place(findings, directory).fault(f"the folder contains no transcript; {expected}{unpack}")
    return found


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

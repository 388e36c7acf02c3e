"""What people noted about the cases of a run: a file next to it, never the run itself.

``NAME.review.jsonl`` holds one JSON object a line, only ever added to: which case, which of four
marks, a note, who and when. The latest line of a case counts. The run file does not change, so its
hash, its scores and its certificates stay what they were.
"""

from __future__ import annotations

import getpass
import json
import os
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from krisis.errors import InvalidFile, InvalidValue, UnknownName
from krisis.metrics.base import EvaluationResult
from krisis.runs.places import refuse_links
from krisis.runs.schema import SUFFIX

Mark: TypeAlias = Literal["agree", "disagree", "label_wrong", "unclear"]
MARKS: dict[str, str] = {
    "agree": "agree",
    "disagree": "disagree",
    "label_wrong": "the label is wrong",
    "unclear": "unclear",
}
LONGEST_NOTE = 5000
_LARGEST_FILE = 200_000_000

# A case and which asking of it, from 1.
CaseKey: TypeAlias = tuple[str, int]


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewNote:
    """What somebody noted about the answer to a case."""

    record_id: str
    asking: int
    mark: Mark
    note: str
    by: str
    at: str

    @property
    def key(self) -> CaseKey:
        """Return the case that the note is about."""
        return self.record_id, self.asking


@dataclass(frozen=True, slots=True)
class Reviews:
    """The latest note of every case, and how many lines could not be read."""

    notes: Mapping[CaseKey, ReviewNote]
    n_unreadable: int = 0

    def renamed(self, name: Callable[[str], str]) -> Reviews:
        """Return the notes under the names by which records are shown."""
        notes = {(name(record), asking): note for (record, asking), note in self.notes.items()}
        return Reviews(notes, self.n_unreadable)


def case_key(row: EvaluationResult) -> CaseKey:
    """Return the case and asking that a row is of."""
    asking = row.metadata.get("sample_index")
    return row.record_id, 1 + (asking if isinstance(asking, int) else 0)


def review_file(run: Path) -> Path:
    """Return where the notes about a run are.

    >>> review_file(Path("runs/a.krisis")).name
    'a.review.jsonl'
    """
    return run.with_name(f"{run.name.removesuffix(SUFFIX)}.review.jsonl")


def read_reviews(run: Path) -> Reviews:
    """Read the notes about a run; a line that was cut or edited is counted and left out."""
    read = [_note(line) for line in _lines(review_file(run))]
    found = {note.key: note for note in read if note is not None}
    return Reviews(found, sum(note is None for note in read))


def without_records(
    run: Path, names: Collection[str], mentions: Callable[[str], bool], instead: str
) -> tuple[bytes, int, int]:
    """Return the notes without those about some records, nor what others say of them.

    A text that mentions them is replaced. The numbers are those of notes left out and of notes
    with a replaced text. A line that cannot be read may be about any record, so it is left out, and
    so is whatever a line holds that is no part of a note.
    """
    kept, n_replaced = list[bytes](), 0
    lines = _lines(review_file(run))
    for note in map(_note, lines):
        if note is None or note.record_id in names:
            continue
        texts = ("note", "by", "at")
        new = {name: instead for name in texts if mentions(getattr(note, name))}
        n_replaced += bool(new)
        kept.append(_line(replace(note, **new)))  # type: ignore[arg-type] # texts alone
    return b"".join(kept), len(lines) - len(kept), n_replaced


def _line(note: ReviewNote) -> bytes:
    return json.dumps(asdict(note)).encode() + b"\n"


def _lines(path: Path) -> list[bytes]:
    if not path.exists() and not path.is_symlink():
        return []
    refuse_links(path)
    try:
        if path.stat().st_size > _LARGEST_FILE:
            raise InvalidFile(f"{path} is larger than any notes are; move it away")
        return [line for line in path.read_bytes().splitlines() if line.strip()]
    except OSError as error:
        raise InvalidFile(f"{path} cannot be read: {error.strerror}") from None


def _note(line: bytes) -> ReviewNote | None:
    try:
        held = json.loads(line)
        note = ReviewNote(**{name: held[name] for name in ReviewNote.__slots__})
    except (ValueError, KeyError, TypeError, RecursionError):
        return None
    texts = (note.record_id, note.mark, note.note, note.by, note.at)
    whole = all(isinstance(one, str) for one in texts) and type(note.asking) is int
    return note if whole and note.mark in MARKS else None


def add_review(run: Path, *, record_id: str, asking: int, mark: str, note: str = "") -> ReviewNote:
    """Add a note about a case; it is on disk when this returns."""
    if mark not in get_args(Mark):
        raise UnknownName.among("mark", mark, MARKS)
    if len(note) > LONGEST_NOTE:
        raise InvalidValue(
            f"a note has at most {LONGEST_NOTE:,} letters, and this one {len(note):,}"
        )
    added = ReviewNote(
        record_id=record_id,
        asking=asking,
        mark=mark,  # type: ignore[arg-type] # checked above
        note=note.strip(),
        by=_user(),
        at=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    path = review_file(run)
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
    try:
        refuse_links(path, may_be_missing=True)
        handle = os.open(path, flags, 0o600)
        try:
            cut = False
            if os.fstat(handle).st_size:
                os.lseek(handle, -1, os.SEEK_END)
                cut = os.read(handle, 1) != b"\n"
            # One write: the line of another process cannot come between.
            os.write(handle, b"\n" * cut + _line(added))
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError as error:
        raise InvalidFile(f"{path} cannot be written: {error.strerror}") from None
    return added


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container without a name for its user
        return "unknown"


def keys_in_state(reviews: Reviews, state: str, keys: Iterable[CaseKey]) -> set[CaseKey]:
    """Return the cases in a state: a mark, ``any`` or ``none``."""
    if state == "none":
        return {key for key in keys if key not in reviews.notes}
    return {key for key, note in reviews.notes.items() if state in ("any", note.mark)}

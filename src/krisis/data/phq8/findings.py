"""What is wrong in files of one's own, all of it, and their text read line by line."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

from krisis.json_values import JsonObject

# About 250,000 tokens: ten times the longest interview known, less than any model's window.
MAX_TRANSCRIPT_BYTES = 1_000_000
_WIDE_MARKS = (b"\xff\xfe", b"\xfe\xff")
Kind = Literal["fault", "left_out", "note"]
Row = tuple[int, list[str]]


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing to know: a fault must be corrected, what is left out and notes need not be."""

    kind: Kind
    file: str
    problem: str
    line: int | None = None
    column: str = ""
    value: str | None = None
    participants: tuple[str, ...] = ()

    def __str__(self) -> str:
        """Return the place and the problem as one sentence."""
        line = "" if self.line is None else f" line {self.line}"
        column = f", column {self.column}" if self.column else ""
        return f"{self.file}{line}{column}: {self.problem}"

    def as_json(self) -> JsonObject:
        """Return the finding with its place in parts."""
        return {**asdict(self), "participants": list(self.participants)}


class Findings(list[Finding]):
    """All that was found so far, in the order of the files."""

    def of_people(self, kind: Kind, file: Path, participants: Sequence[str], problem: str) -> None:
        """Add one finding for several participants, or none for nobody; ``{}`` is their names."""
        if participants:
            told = problem.format(", ".join(participants))
            self.append(Finding(kind, str(file), told, participants=tuple(participants)))

    def of_kind(self, kind: Kind) -> list[Finding]:
        """Return the faults, what is left out, or the notes."""
        return [finding for finding in self if finding.kind == kind]


@dataclass(frozen=True, slots=True)
class Place:
    """A file, or a line of it, to which findings are added."""

    findings: Findings
    file: Path
    line: int | None = None

    def at(self, line: int) -> Place:
        """Return a line of the file."""
        return Place(self.findings, self.file, line)

    def fault(self, problem: str, column: str = "", value: str | None = None) -> None:
        """Add something that must be corrected."""
        self.add("fault", problem, column, value)

    def add(
        self,
        kind: Kind,
        problem: str,
        column: str = "",
        value: str | None = None,
        participant: str = "",
    ) -> None:
        """Add a finding of any kind."""
        people = (participant,) if participant else ()
        self.findings.append(
            Finding(kind, str(self.file), problem, self.line, column, value, people)
        )

    @property
    def n_faults(self) -> int:
        """Count the faults found so far, in all files."""
        return len(self.findings.of_kind("fault"))


def table_rows(place: Place) -> tuple[str, Iterator[Row]]:
    """Return the delimiter of a table, as its first line has it, and its rows that are not empty.

    Lines that cannot be read are faults and left out of the rows.
    """
    n_before = place.n_faults
    lines = list(_numbered_lines(place))
    written = [text for _, text in lines if text.strip()]
    if not written:
        if place.n_faults == n_before:
            place.at(1).fault("the file is empty; restore its content or remove it")
        return ",", iter(())
    # A table from a spreadsheet may have semicolons, where the comma is the decimal sign.
    delimiter = next((sign for sign in "\t,;" if sign in written[0]), ",")
    return delimiter, _rows(place, lines, delimiter)


_QUOTES = "correct the quote marks"


def _rows(place: Place, lines: Sequence[tuple[int, str]], delimiter: str) -> Iterator[Row]:
    # What people say holds quote marks; between commas they may hold a field together.
    quoting: Literal[0, 3] = csv.QUOTE_NONE if delimiter == "\t" else csv.QUOTE_MINIMAL
    texts = (text for _, text in lines)
    reader = csv.reader(texts, delimiter=delimiter, quoting=quoting, strict=True)
    while reader.line_num < len(lines):
        number = lines[reader.line_num][0]
        try:
            row = next(reader)
        except csv.Error as error:
            # Line ends of another kind look like one long line.
            advice = "save it with usual line ends" if "new-line" in str(error) else _QUOTES
            place.at(number).fault(f"not a table ({error}); {advice}")
            continue
        if any(cell.strip() for cell in row):
            yield number, row


def _numbered_lines(place: Place) -> Iterator[tuple[int, str]]:
    """Return the lines of UTF-8 text with their numbers; others are faults, reading goes on."""
    size = 0
    try:
        with place.file.open("rb") as stream:
            start = stream.peek(4)
            if start.startswith(_WIDE_MARKS):
                place.at(1).fault("the text is UTF-16; save the file as UTF-8")
                return
            if start.startswith(b"\xef\xbb\xbf"):
                stream.read(3)
            # A line without an end must not fill the memory.
            lines = iter(lambda: stream.readline(2 * MAX_TRANSCRIPT_BYTES), b"")
            for number, line in enumerate(lines, start=1):
                size += len(line)
                if size > MAX_TRANSCRIPT_BYTES:
                    place.at(number).fault(TOO_LONG)
                    return
                text = _decoded(place.at(number), line)
                if text is not None:
                    yield number, text
    except OSError as error:
        place.fault(f"the file cannot be read: {error.strerror}; correct that")


TOO_LONG = (
    f"the file is longer than {MAX_TRANSCRIPT_BYTES:,} bytes here, more than a model can read; "
    "check that it holds one interview, or cut it"
)


def _decoded(place: Place, line: bytes) -> str | None:
    try:
        text = line.decode("utf-8")
    except UnicodeDecodeError as error:
        byte = f"0x{line[error.start]:02x}"
        place.fault(f"byte {byte} is not UTF-8; save the file as UTF-8", value=byte)
        return None
    if "\x00" in text:
        place.fault("the text contains a NUL byte; save the file as UTF-8 text", value="NUL")
        return None
    return text

"""Invented tables of hospitals: columns named in two lists of headers, and one messy export."""

from __future__ import annotations

import csv
import random
import re
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

HEADERS = Path(__file__).parent / "headers.toml"
MORE_HEADERS = Path(__file__).parent / "more_headers.toml"
N_ROWS = 60
Draw = Callable[[random.Random, int], object]


def _gap(rng: random.Random, value: object, share: float = 0.15, gap: str = "") -> object:
    return gap if rng.random() < share else value


def _comma(value: object) -> str:
    return str(value).replace(".", ",")


def _words(rng: random.Random) -> str:
    known = ["fever", "cough", "pain", "stable", "tired", "oedema", "since", "after", "surgery"]
    return " ".join(rng.choice(known) for _ in range(12))


def _day(row: int) -> tuple[int, int]:
    return 1 + row % 28, 1 + row % 12


def _clock(row: int) -> str:
    return f"{row % 24:02}:{7 * row % 60:02}"


CONTENT: dict[str, Draw] = {
    "i": lambda rng, row: 100_000 + 7 * row,
    "p": lambda rng, row: 5_000 + row // 3,
    "u": lambda rng, row: f"ab{row:05}x",
    "N": lambda rng, row: f"{3_000_019 * (row + 1) % 10**8:08}",
    "P": lambda rng, row: f"{3_000_019 * (row // 3 + 1) % 10**8:08}",
    "d": lambda rng, row: "2023-{1:02}-{0:02}".format(*_day(row)),
    "D": lambda rng, row: "2023-{1:02}-{0:02} {2}:00".format(*_day(row), _clock(row)),
    "g": lambda rng, row: "{:02}.{:02}.2023".format(*_day(row)),
    "G": lambda rng, row: "{:02}.{:02}.2023 {}".format(*_day(row), _clock(row)),
    "f": lambda rng, row: "{:02}/{:02}/2023".format(*_day(row)),
    "U": lambda rng, row: "{1:02}/{0:02}/2023".format(*_day(row)),
    "H": lambda rng, row: _clock(row),
    "n": lambda rng, row: rng.randint(20, 120),
    "R": lambda rng, row: f"1.{rng.randint(100, 999)}",
    "r": lambda rng, row: round(rng.uniform(3, 90), 1),
    "v": lambda rng, row: _gap(rng, round(rng.uniform(0.3, 9), 2)),
    "k": lambda rng, row: _comma(round(rng.uniform(3, 90), 1)),
    "l": lambda rng, row: _gap(rng, _comma(round(rng.uniform(0.6, 90), 1)), gap="<0,5"),
    "M": lambda rng, row: f"{rng.randint(90, 180)}/{rng.randint(50, 100)}",
    "s": lambda rng, row: rng.choice("MF"),
    "F": lambda rng, row: rng.choice(["female", "male", "female", "male", "unknown"]),
    "c": lambda rng, row: rng.choice(["alpha", "beta", "gamma", "delta", "other"]),
    "X": lambda rng, row: rng.choice(["A1", "A2", "B1", "B2", "C7", "K3"]),
    "q": lambda rng, row: rng.choice([1, 2]),
    "h": lambda rng, row: rng.choice([0, 0, 1, 2, 3]),
    "t": lambda rng, row: _words(rng),
    "e": lambda rng, row: "",
    "m": lambda rng, row: _gap(rng, rng.randint(1, 400), gap="NA"),
    "z": lambda rng, row: f"2023-05-{1 + row % 28:02}" if rng.random() < 0.25 else "",
}
# Two words each: of the event, and of its absence.
PAIRS: dict[str, tuple[object, object]] = {
    "b": (1, 0),
    "C": (1, 0),
    "y": ("Y", "N"),
    "Y": ("Yes", "No"),
    "j": ("J", "N"),
    "J": ("ja", "nein"),
    "o": ("O", "N"),
    "O": ("oui", "non"),
    "S": ("SI", "NO"),
    "w": ("true", "false"),
    "x": ("yes", "no"),
    "a": ("Expired", "Alive"),
    "A": ("Expired", "Alive"),
    "L": ("dead", "alive"),
    "Q": ("A", "B"),
}
WORDS = {
    "german": ("verstorben", "lebend"),
    "french": ("décédé", "vivant"),
    "dutch": ("overleden", "levend"),
    "spanish": ("fallecido", "vivo"),
    "italian": ("deceduto", "vivo"),
    "messy": ("malignant", "benign"),
}
# What follows from the outcome, and so must not be shown.
AFTER: dict[str, Callable[[random.Random, int, bool], object]] = {
    "!c": lambda rng, row, case: rng.choice(["20", "41"] if case else ["01", "03", "62"]),
    "!d": lambda rng, row, case: f"2023-06-{1 + row % 28:02}" if case else "",
    "!n": lambda rng, row, case: rng.randint(1, 40),
}
# Contents that name somebody or a time, or follow from the outcome.
NEVER_SHOWN = ("i", "p", "u", "N", "P", "d", "D", "g", "G", "f", "U", "H", "z", *AFTER)


@dataclass(frozen=True)
class Header:
    style: str
    columns: tuple[tuple[str, str], ...]
    outcome: str | None
    held_out: bool = False

    @property
    def names(self) -> list[str]:
        return [name for name, _ in self.columns]

    @property
    def content(self) -> str:
        return dict(self.columns)[str(self.outcome)]

    @property
    def pair(self) -> tuple[object, object] | None:
        """Return the values of event and no event, where the outcome has these two."""
        return WORDS[self.style] if self.content == "W" else PAIRS.get(self.content)

    @property
    def never_shown(self) -> list[str]:
        return [name for name, content in self.columns if content in NEVER_SHOWN]


def _columns(line: str) -> list[tuple[str, str]]:
    return [(found[1], found[2]) for found in re.finditer(r"(.+?):(!?\w)(?: |$)", line)]


def headers(file: Path = HEADERS) -> list[Header]:
    found = []
    for style, given in tomllib.loads(file.read_text(encoding="utf-8")).items():
        if style in ("labels", "survival"):
            continue
        blocks = [_columns(block) for block in given["blocks"]]
        for number, outcome in enumerate(given["outcomes"]):
            columns = list(blocks[number % len(blocks)])
            # Outcomes come last, in the middle and early.
            place = (len(columns), len(columns) // 2 + 1, 3)[number // 2 % 3]
            ((name, content),) = _columns(outcome)
            columns.insert(place, (name, content))
            found.append(Header(style, tuple(columns), name, bool(number % 2)))
        for number, line in enumerate(given["without"]):
            found.append(Header(style, tuple(_columns(line)), None, bool(number % 2)))
    return found


def names_of_survival() -> list[str]:
    return list(tomllib.loads(MORE_HEADERS.read_text(encoding="utf-8"))["survival"]["names"])


def expected_labels() -> dict[str, str]:
    return dict(tomllib.loads(MORE_HEADERS.read_text(encoding="utf-8"))["labels"])


def write_table(header: Header, file: Path, seed: int = 1) -> Path:
    rng = random.Random(seed)
    kinds = [content for _, content in header.columns]
    with file.open("w", encoding="utf-8", newline="") as opened:
        rows = csv.writer(opened, delimiter=";" if {"k", "l", "R"} & {*kinds} else ",")
        rows.writerow(header.names)
        for row in range(N_ROWS):
            case = rng.random() < 0.3
            rows.writerow([_cell(header, one, case, rng, row) for one in header.columns])
    return file


def _cell(
    header: Header, column: tuple[str, str], case: bool, rng: random.Random, row: int
) -> object:
    name, content = column
    if content in AFTER:
        return AFTER[content](rng, row, case)
    if content in PAIRS or content == "W":
        yes, no = WORDS[header.style] if content == "W" else PAIRS[content]
        is_case = case if name == header.outcome else rng.random() < 0.4
        return yes if is_case else no
    return CONTENT[content](rng, row)


MESSY = (
    "Fallnr;PatNr;Aufnahmedatum;Alter;Größe_cm;Geschlecht;RR_sys;Kreatinin_mg_dl;CRP;Laktat;Station;"
    "Arztbrief;Entlassart;Sepsis_48h"
)


def write_messy_export(file: Path, n_rows: int = 600) -> Path:
    """Write an export as hospitals do: cp1252, semicolons, commas, <0,5, mmHg in the cells."""
    rng = random.Random(7)
    lines = [MESSY]
    for row in range(n_rows):
        sick = rng.random() < 0.3
        cells = [
            10_000 + row,
            1_000 + row // 2,
            f"{1 + row % 28:02}.{1 + row % 12:02}.2023",
            rng.randint(19, 95),
            rng.randint(150, 195),
            rng.choice(["M", "m", "W", "w"]),
            f"{rng.gauss(112 if sick else 130, 18):.0f} mmHg",
            _comma(f"{abs(rng.gauss(1.4 if sick else 1, 0.4)) + 0.3:.2f}"),
            _gap(rng, _comma(f"{abs(rng.gauss(60 if sick else 30, 25)):.1f}"), 0.1, "<0,5"),
            _gap(rng, _comma(f"{abs(rng.gauss(2 if sick else 1.3, 0.9)):.1f}"), 0.1, "NA"),
            rng.choice(["ITS1", "ITS2", "N3"]),
            f"Aufnahme wegen Fieber und Übelkeit, Zustand reduziert, Verlauf Nummer {row}",
            rng.choice(["07", "79"] if sick else ["01", "02", "06"]),
            "J" if sick else "N",
        ]
        lines.append(";".join(map(str, cells)))
    file.write_bytes(("\r\n".join(lines) + "\r\n").encode("cp1252"))
    return file

"""Invented tables of hospitals: columns named in `headers.toml`, and one messy export."""

from __future__ import annotations

import csv
import random
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

HEADERS = Path(__file__).parent / "headers.toml"
N_ROWS = 60
Draw = Callable[[random.Random, int], object]


def _gap(rng: random.Random, value: object, share: float = 0.15, gap: str = "") -> object:
    return gap if rng.random() < share else value


def _comma(value: object) -> str:
    return str(value).replace(".", ",")


def _words(rng: random.Random) -> str:
    known = ["fever", "cough", "pain", "stable", "tired", "oedema", "since", "after", "surgery"]
    return " ".join(rng.choice(known) for _ in range(12))


CONTENT: dict[str, Draw] = {
    "i": lambda rng, row: 100_000 + 7 * row,
    "p": lambda rng, row: 5_000 + row // 3,
    "u": lambda rng, row: f"ab{row:05}x",
    "d": lambda rng, row: f"2023-{1 + row % 12:02}-{1 + row % 28:02}",
    "g": lambda rng, row: f"{1 + row % 28:02}.{1 + row % 12:02}.2023",
    "f": lambda rng, row: f"{1 + row % 28:02}/{1 + row % 12:02}/2023",
    "n": lambda rng, row: rng.randint(20, 120),
    "r": lambda rng, row: round(rng.uniform(3, 90), 1),
    "v": lambda rng, row: _gap(rng, round(rng.uniform(0.3, 9), 2)),
    "k": lambda rng, row: _comma(round(rng.uniform(3, 90), 1)),
    "l": lambda rng, row: _gap(rng, _comma(round(rng.uniform(0.6, 90), 1)), gap="<0,5"),
    "b": lambda rng, row: int(rng.random() < 0.3),
    "y": lambda rng, row: rng.choice("YN"),
    "j": lambda rng, row: rng.choice("JNN"),
    "o": lambda rng, row: rng.choice(["O", "N", "N"]),
    "w": lambda rng, row: rng.choice(["true", "false", "false"]),
    "x": lambda rng, row: rng.choice(["yes", "no"]),
    "s": lambda rng, row: rng.choice("MF"),
    "c": lambda rng, row: rng.choice(["alpha", "beta", "gamma", "delta", "other"]),
    "a": lambda rng, row: rng.choice(["Alive", "Alive", "Expired"]),
    "q": lambda rng, row: rng.choice([1, 2]),
    "h": lambda rng, row: rng.choice([0, 0, 1, 2, 3]),
    "t": lambda rng, row: _words(rng),
    "e": lambda rng, row: "",
    "m": lambda rng, row: _gap(rng, rng.randint(1, 400), gap="NA"),
    "z": lambda rng, row: f"2023-05-{1 + row % 28:02}" if rng.random() < 0.25 else "",
}


@dataclass(frozen=True)
class Header:
    style: str
    columns: tuple[str, ...]
    outcome: str | None

    @property
    def names(self) -> list[str]:
        return [column.rpartition(":")[0] for column in self.columns]


def headers() -> list[Header]:
    found = []
    for style, given in tomllib.loads(HEADERS.read_text(encoding="utf-8")).items():
        blocks = [block.split() for block in given["blocks"]]
        for number, outcome in enumerate(given["outcomes"]):
            columns = list(blocks[number % len(blocks)])
            # Outcomes come last, in the middle and early.
            place = (len(columns), len(columns) // 2 + 1, 3)[number % 3]
            columns.insert(place, outcome)
            found.append(Header(style, tuple(columns), outcome.rpartition(":")[0]))
        found += [Header(style, tuple(line.split()), None) for line in given["without"]]
    return found


def write_table(header: Header, file: Path, seed: int = 1) -> Path:
    rng = random.Random(seed)
    kinds = [column.rpartition(":")[2] for column in header.columns]
    with file.open("w", encoding="utf-8", newline="") as opened:
        rows = csv.writer(opened, delimiter=";" if "k" in kinds or "l" in kinds else ",")
        rows.writerow(header.names)
        for row in range(N_ROWS):
            rows.writerow([CONTENT[kind](rng, row) for kind in kinds])
    return file


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

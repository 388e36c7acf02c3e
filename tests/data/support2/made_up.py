"""A made-up file with the columns of SUPPORT2: nobody in it exists."""

from __future__ import annotations

import csv
import io

import numpy as np

from krisis.data.support2.file import DISEASES

COLUMNS = [
    "sno",
    "age",
    "death",
    "sex",
    "hospdead",
    "slos",
    "d.time",
    "dzgroup",
    "dzclass",
    "num.co",
    "edu",
    "income",
    "scoma",
    "charges",
    "totcst",
    "totmcst",
    "avtisst",
    "race",
    "sps",
    "aps",
    "surv2m",
    "surv6m",
    "hday",
    "diabetes",
    "dementia",
    "ca",
    "prg2m",
    "prg6m",
    "dnr",
    "dnrday",
    "meanbp",
    "wblc",
    "hrt",
    "resp",
    "temp",
    "pafi",
    "alb",
    "bili",
    "crea",
    "sod",
    "ph",
    "glucose",
    "bun",
    "urine",
    "adlp",
    "adls",
    "sfdm2",
    "adlsc",
]
RACES = ("white", "black", "hispanic", "asian", "other", "")
_OFTEN_MISSING = ("pafi", "alb", "bili", "ph", "glucose", "bun", "urine", "adls", "adlp")


def made_up_rows(n: int = 240, seed: int = 7) -> list[dict[str, str]]:
    """Return invented patients; the sicker, the sooner they die, and doctors half know it."""
    rng = np.random.default_rng(seed)
    rows = []
    for number in range(1, n + 1):
        sick = rng.normal()
        dies = rng.random() < 1 / (1 + np.exp(-1.2 * sick))
        days = int(rng.integers(3, 340)) if dies else int(rng.integers(344, 2000))
        alive = 1 / (1 + np.exp(sick + rng.normal()))
        row = {name: f"{rng.integers(1, 90)}.{rng.integers(1, 99_999):05d}" for name in COLUMNS}
        row |= {
            "sno": str(number),
            "age": f"{rng.uniform(18, 99):.5f}",
            "death": str(int(dies)),
            "d.time": str(days),
            "hospdead": str(int(dies and days < 30)),
            "sex": str(rng.choice(["male", "female"])),
            "dzgroup": list(DISEASES)[number % len(DISEASES)],
            "race": RACES[int(rng.integers(len(RACES)))],
            "num.co": str(rng.integers(0, 6)),
            "ca": str(rng.choice(["no", "yes", "metastatic"])),
            "diabetes": str(rng.integers(0, 2)),
            "dementia": str(rng.integers(0, 2)),
            "alb": f"{3.2 - 0.5 * sick:.7f}",
            "crea": f"{np.exp(0.3 * sick):.8f}",
            "surv2m": f"{alive:.10f}",
            "surv6m": f"{alive * 0.8:.10f}",
            "prg2m": "" if number % 5 == 0 else f"{round(alive, 1):.9f}",
            "prg6m": "" if number % 7 == 0 else f"{round(alive * 0.8, 1):.9f}",
            "dnr": str(rng.choice(["no dnr", "dnr after sadm"])),
        }
        for name in _OFTEN_MISSING:
            if rng.random() < 0.4:
                row[name] = ""
        rows.append(row)
    return rows


def file_of(rows: list[dict[str, str]]) -> bytes:
    """Write patients as the file has them."""
    out = io.StringIO()
    writer = csv.DictWriter(out, COLUMNS, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue().encode()

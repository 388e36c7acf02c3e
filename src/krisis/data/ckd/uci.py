"""Read the UCI chronic kidney disease file as it circulates, CSV or ARFF, and write its schema.

Source: Rubini, Soundarapandian, Eswaran (2015), UCI Machine Learning Repository 336,
doi 10.24432/C5G020, CC BY 4.0. Blemishes are normalised and counted, implausible values are kept
and listed, anything else is refused with its column and row.
"""

from __future__ import annotations

import csv
import hashlib
import io
import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, NoReturn, TypeVar

import typer

from krisis.data.ckd.cohort import SyntheticPatient, draw_cohort
from krisis.data.ckd.schema import CONTEXT, FEATURES, Value, is_implausible
from krisis.errors import InvalidFile, InvalidValue
from krisis.json_values import write_text

Patient = TypeVar("Patient")
MAX_BYTES = 20_000_000
LICENCE = "CC BY 4.0"
SOURCE = "UCI Machine Learning Repository 336, doi 10.24432/C5G020"
COLUMNS = ("id", *FEATURES, "class")
SEX_COLUMN = "sex"

_OTHER_NAMES = {"wc": "wbcc", "rc": "rbcc", "classification": "class"}
MISSING = {"", "?", "na", "n/a", "nan", "null", "none"}
_SHIFTED = {"appet": {"yes", "no"}, "pe": {"good", "poor"}}
_CLASSES = {"ckd": True, "notckd": False, "not ckd": False}
_FEMALE = {"f": 1, "female": 1, "w": 1, "woman": 1, "m": 0, "male": 0, "man": 0}


@dataclass(frozen=True, slots=True)
class UciPatient:
    """One row of the file: its name, the 24 values by column, the diagnosis, sex where given."""

    patient_id: str
    values: dict[str, Value]
    has_ckd: bool
    female: int | None = None


@dataclass(slots=True)
class PatientFile(Generic[Patient]):
    """What was read of a file, what had to be put right on the way, and who is left out and why."""

    path: Path
    sha256: str
    n_bytes: int
    patients: list[Patient] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)
    n_missing: Counter[str] = field(default_factory=Counter)
    anomalies: Counter[str] = field(default_factory=Counter)
    implausible: list[tuple[str, str, float]] = field(default_factory=list)
    row_of: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Row:
    """The cells of one line with the line number a person would look for."""

    line: int
    cells: list[str]


def read_uci(path: str | Path, *, sex_column: str | None = None) -> PatientFile[UciPatient]:
    """Read and check a file; `InvalidFile` names the column and row of what cannot be read."""
    place = Path(path)
    header, rows, found = _header_and_rows(place)
    columns = _column_positions(place, header, sex_column)
    for row in rows:
        found.patients.append(_patient(row, columns, found))
    _check_patients(found)
    return found


def is_uci_table(place: Path) -> bool:
    """Say whether a file has the creatinine and the diagnosis of the UCI file: one visit each."""
    return {"sc", "class"} <= set(_names(_header_and_rows(place)[0]))


def _header_and_rows(place: Path) -> tuple[list[str], Iterator[Row], PatientFile[Any]]:
    text, found = read_file(place)
    header, rows = _arff(place, text) if _is_arff(text) else csv_rows(place, text, found)
    return header, rows, found


def read_file(place: Path) -> tuple[str, PatientFile[Any]]:
    """Read a file as text, or say in one sentence why it cannot be read."""
    if place.is_dir():
        raise InvalidFile(f"{place} is a directory; give the path of the CSV or ARFF file in it")
    if not place.is_file():
        raise InvalidFile(f"there is no file {place}; give the path of your file")
    n_bytes = place.stat().st_size
    if n_bytes > MAX_BYTES:
        raise InvalidFile(
            f"{place} has {n_bytes:,} bytes, more than the {MAX_BYTES:,} a file of this schema "
            "may have; give the UCI file or an extract of it"
        )
    try:
        data = place.read_bytes()
    except OSError as error:
        raise InvalidFile(f"{place} cannot be read: {error.strerror}; check its rights") from error
    if not data.strip():
        raise InvalidFile(f"{place} is empty; give a file with a header row and patients")
    found: PatientFile[Any] = PatientFile(place, hashlib.sha256(data).hexdigest(), n_bytes)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise InvalidFile(f"{place} is not a text file; give the UCI file as CSV or ARFF")
    if "\r" in text:
        found.anomalies["line ends of Windows"] += 1
    return text, found


def _is_arff(text: str) -> bool:
    lines = (line.strip().lower() for line in text.splitlines())
    return any(line.startswith(("@relation", "@data")) for line in lines)


def _arff(place: Path, text: str) -> tuple[list[str], Iterator[Row]]:
    lines = text.splitlines()
    starts = [n for n, line in enumerate(lines) if line.strip().lower().startswith("@data")]
    if not starts:
        raise InvalidFile(f"{place} has no @data line; give the complete ARFF file")
    attributes = [line.split(None, 2) for line in lines[: starts[0]]]
    header = [part[1] for part in attributes if len(part) > 1 and part[0].lower() == "@attribute"]
    body = [
        (n, line)
        for n, line in enumerate(lines[starts[0] + 1 :], starts[0] + 2)
        if line.strip() and not line.lstrip().startswith("%")
    ]
    return header, _rows(place, body, len(header), None)


def csv_rows(place: Path, text: str, found: PatientFile[Any]) -> tuple[list[str], Iterator[Row]]:
    """Return the header and the filled rows, each with its line."""
    lines = list(enumerate(text.splitlines(), 1))
    filled = [(n, line) for n, line in lines if line.strip().strip(",")]
    if len(filled) < len(lines):
        found.anomalies["blank lines"] += len(lines) - len(filled)
    if not filled:
        raise InvalidFile(f"{place} is empty; give a file with a header row and patients")
    header = _cells(place, *filled[0])
    while header and not header[-1].strip():
        header.pop()
    return header, _rows(place, filled[1:], len(header), found)


def _rows(
    place: Path, lines: Sequence[tuple[int, str]], n_columns: int, found: PatientFile[Any] | None
) -> Iterator[Row]:
    for line, text in lines:
        cells = _cells(place, line, text)
        if len(cells) == n_columns + 1 and not cells[-1].strip():
            cells = cells[:-1]
            if found is not None:
                found.anomalies["trailing commas"] += 1
        if len(cells) != n_columns:
            raise InvalidFile(
                f"{place} row {line} has {len(cells)} fields where the header has {n_columns}; "
                "put the missing or surplus comma right"
            )
        yield Row(line, cells)


def _cells(place: Path, line: int, text: str) -> list[str]:
    try:
        return next(csv.reader([text], skipinitialspace=True), [])
    except csv.Error as error:
        raise InvalidFile(f"{place} row {line} is not CSV ({error}); check the file") from error


def _column_positions(place: Path, header: list[str], sex_column: str | None) -> dict[str, int]:
    names = _names(header)
    twice = sorted(name for name, count in Counter(names).items() if count > 1 and name in COLUMNS)
    if twice:
        raise InvalidFile(f"{place} has the column {twice[0]!r} twice; remove one of them")
    missing = [name for name in COLUMNS if name not in names and name != "id"]
    if missing:
        raise InvalidFile(
            f"{place} row 1 lacks the column{'s' * (len(missing) > 1)} {', '.join(missing)}; "
            f"it must have {', '.join(COLUMNS)}{_separator_hint(header)}"
        )
    positions = {name: names.index(name) for name in COLUMNS if name in names}
    if sex_column is not None:
        wanted = sex_column.strip().lower()
        if wanted not in names:
            raise InvalidFile(f"{place} row 1 lacks the column {sex_column!r} named for sex")
        positions["sex"] = names.index(wanted)
    return positions


def _names(header: list[str]) -> list[str]:
    names = [clean(name).lower() for name in header]
    return [_OTHER_NAMES.get(name, name) for name in names]


def _separator_hint(header: list[str]) -> str:
    """Tell a file that separates with something else from one that lacks columns."""
    text = ",".join(header)
    for separator, word in ((";", "semicolons"), ("\t", "tabs")):
        if text.count(separator) > text.count(","):
            return f" (the header is separated by {word}; save the file with commas)"
    return ""


def clean(cell: str) -> str:
    """Return a cell without the spaces and quotes around it."""
    return cell.strip().strip("'\"").strip()


def _patient(row: Row, columns: dict[str, int], found: PatientFile[UciPatient]) -> UciPatient:
    cells = {name: row.cells[position] for name, position in columns.items()}
    patient_id = clean(cells.get("id", "")) or str(len(found.patients))
    _check_new(patient_id, row, found)
    values = {name: _value(name, cells[name], row, found) for name in FEATURES}
    for name, value in values.items():
        found.n_missing[name] += value is None
        if value is not None and is_implausible(name, value):
            found.implausible.append((patient_id, name, float(value)))
    diagnosis = clean(cells["class"]).lower()
    _count_blemish(cells["class"], "class", found)
    if diagnosis not in _CLASSES:
        refuse(found.path, row, "class", cells["class"], "write ckd or notckd")
    return UciPatient(patient_id, values, _CLASSES[diagnosis], sex_of(cells.get("sex"), row, found))


def _check_new(patient_id: str, row: Row, found: PatientFile[Any]) -> None:
    earlier = found.row_of.setdefault(patient_id, row.line)
    if earlier != row.line:
        raise InvalidFile(
            f"{found.path} row {row.line}, column id: {_short(patient_id)} is already in "
            f"row {earlier}; give every patient an id of its own"
        )


def _value(name: str, cell: str, row: Row, found: PatientFile[Any]) -> Value:
    text = clean(cell).lower()
    _count_blemish(cell, name, found)
    if text in MISSING:
        return None
    feature = FEATURES[name]
    if text in _SHIFTED.get(name, ()):
        found.anomalies[f"{name}: words of another column, taken as missing"] += 1
        return None
    if not feature.codes:
        return number_of(name, text, row, found)
    code = feature.codes.get(text.removesuffix(".0"))
    if code is None:
        refuse(found.path, row, name, cell, f"write one of {', '.join(feature.codes)}")
    return code


def number_of(name: str, text: str, row: Row, found: PatientFile[Any]) -> Value:
    """Return the number in a cell, whole where the finding is measured in whole numbers."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        refuse(found.path, row, name, text, "write a number, or leave the cell empty")
    feature = FEATURES.get(name)
    if feature is not None and feature.decimals and number <= feature.high:
        return number
    return int(number) if number.is_integer() else number


def sex_of(cell: str | None, row: Row, found: PatientFile[Any]) -> int | None:
    """Return 1 for female, 0 for male, None where nothing is stated."""
    if cell is None or clean(cell).lower() in MISSING:
        return None
    sex = _FEMALE.get(clean(cell).lower())
    if sex is None:
        refuse(found.path, row, "sex", cell, "write female or male")
    return sex


def _count_blemish(cell: str, name: str, found: PatientFile[Any]) -> None:
    if cell.strip() == "?":
        found.anomalies["question marks for missing values"] += 1
    elif cell != cell.strip():
        found.anomalies[f"{name}: surplus spaces or tabs"] += 1


def refuse(place: Path, row: Row, column: str, value: str, advice: str) -> NoReturn:
    """Refuse a cell, naming its row and column."""
    raise InvalidFile(
        f"{place} row {row.line}, column {column}: {_short(value)} is not valid; {advice}"
    )


def _short(text: str) -> str:
    return repr(text if len(text) <= 40 else text[:40] + "…")


def _check_patients(found: PatientFile[UciPatient]) -> None:
    if not found.patients:
        raise InvalidFile(f"{found.path} has a header but no patients; give the complete file")
    if len(found.patients) == 1:
        raise InvalidFile(
            f"{found.path} holds one patient; give two or more, so that one can be held out"
        )


def refuse_single_class(found: PatientFile[UciPatient]) -> None:
    """Refuse a file in which everybody has the same diagnosis, which detection cannot ask about."""
    if len({patient.has_ckd for patient in found.patients}) == 1:
        only = "ckd" if found.patients[0].has_ckd else "notckd"
        raise InvalidFile(
            f"{found.path} column class: every row is {only!r} and detection needs both classes; "
            "add patients of the other class, or ask for staging"
        )


def uci_text(patients: Iterable[SyntheticPatient], *, with_sex: bool = False) -> str:
    """Return the CSV: 26 columns, and sex as one more where wanted."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*COLUMNS, *([SEX_COLUMN] if with_sex else [])])
    for patient in patients:
        cells = [_word(name, patient.visible[name]) for name in FEATURES]
        diagnosis = "ckd" if patient.truth.has_ckd else "notckd"
        sex = [_word(SEX_COLUMN, patient.visible[SEX_COLUMN])] if with_sex else []
        writer.writerow([patient.number, *cells, diagnosis, *sex])
    return out.getvalue()


def _word(name: str, value: Value) -> str:
    if value is None:
        return ""
    codes = (FEATURES.get(name) or CONTEXT[name]).codes
    return next((word for word, code in codes.items() if code == value), str(value))


def write(
    out: Path = typer.Option(..., "--output", metavar="FILE", help="The CSV file to write."),
    n_patients: int = typer.Option(400, "--n-patients", help="How many patients."),
    seed: int = typer.Option(42, "--seed", help="The same seed gives the same bytes."),
    with_sex: bool = typer.Option(False, "--with-sex", help="Add sex as a 27th column."),
    overwrite: bool = typer.Option(False, "--overwrite", help="Replace an existing file."),
) -> None:
    """Write patients of the embedded cohort in the 26 columns of the UCI file.

    Example:  krisis data ckd --output cohort.csv --n-patients 400 --seed 42
    """
    if n_patients < 2:
        raise InvalidValue(f"--n-patients must be 2 or more, not {n_patients}")
    if seed < 0:
        raise InvalidValue(f"--seed must be 0 or more, not {seed}")
    if out.is_dir():
        raise InvalidFile(f"{out} is a directory; give the name of a file in it")
    if not out.parent.is_dir():
        raise InvalidFile(f"there is no directory {out.parent}; create it or choose another")
    text = uci_text(draw_cohort(n_patients, seed=seed), with_sex=with_sex)
    write_text(out, text, overwrite=overwrite, private=False)
    typer.echo(f"Wrote {n_patients} synthetic patients to {out}")

"""Write patients of the embedded cohort in the schema of the UCI file."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Iterable
from pathlib import Path

from krisis.data.ckd.cohort import SyntheticPatient
from krisis.data.ckd.schema import CONTEXT, FEATURES, Value
from krisis.data.ckd.uci import COLUMNS
from krisis.errors import InvalidFile

SEX_COLUMN = "sex"


def uci_text(patients: Iterable[SyntheticPatient], *, with_sex: bool = False) -> str:
    """Return the CSV: 26 columns, and sex as one more where wanted."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*COLUMNS, *([SEX_COLUMN] if with_sex else [])])
    for patient in patients:
        cells = [_word(name, patient.visible[name]) for name in FEATURES]
        diagnosis = "ckd" if patient.has_ckd else "notckd"
        sex = [_word(SEX_COLUMN, patient.visible[SEX_COLUMN])] if with_sex else []
        writer.writerow([patient.number, *cells, diagnosis, *sex])
    return out.getvalue()


def write_uci(path: Path, text: str, *, overwrite: bool = False) -> None:
    """Write the file whole or not at all; an existing one stays unless ``overwrite`` is set."""
    if path.is_dir():
        raise InvalidFile(f"{path} is a directory; give the name of a file in it")
    if path.exists() and not overwrite:
        raise InvalidFile(f"{path} exists; choose another name, or replace it with --overwrite")
    if not path.parent.is_dir():
        raise InvalidFile(f"there is no directory {path.parent}; create it or choose another")
    part = path.with_name(path.name + ".part")
    try:
        part.write_text(text, encoding="utf-8", newline="")
        os.replace(part, path)
    except OSError as error:
        raise InvalidFile(f"{path} cannot be written: {error.strerror}; choose another") from error


def _word(name: str, value: Value) -> str:
    if value is None:
        return ""
    codes = (FEATURES.get(name) or CONTEXT[name]).codes
    return next((word for word, code in codes.items() if code == value), str(value))

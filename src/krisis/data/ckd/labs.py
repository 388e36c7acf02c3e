"""Read a laboratory table: id, age, sex, creatinine with its unit, ACR and dates if there are any.

CSV, or FHIR resources (Patient; Observation with LOINC 2160-0 for creatinine and 9318-7 for the
ratio of albumin to creatinine). One row is one measurement; the last of a patient is staged.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from datetime import date
from pathlib import Path

from krisis.data.ckd.egfr import MICROMOL_PER_MG_DL
from krisis.data.ckd.schema import Value
from krisis.data.ckd.uci import (
    MISSING,
    Row,
    UciFile,
    clean,
    csv_rows,
    number_of,
    read_file,
    refuse,
    sex_of,
)
from krisis.data.fhir.columns import PathColumn
from krisis.data.fhir.records import fhir_table
from krisis.errors import InvalidFile

CREATININE_COLUMNS = {"creatinine_umol_l": 1 / MICROMOL_PER_MG_DL, "creatinine_mg_dl": 1.0}
ACR_COLUMNS = {"acr_mg_g": 1.0, "acr_mg_mmol": 8.84}
_UNITS = {"umol/l": 1 / MICROMOL_PER_MG_DL, "µmol/l": 1 / MICROMOL_PER_MG_DL, "mg/dl": 1.0}
_IDS, _SEXES = ("id", "patient_id", "patient"), ("sex", "gender")
FHIR_SUFFIXES = (".ndjson", ".jsonl", ".json", ".ndjson.gz")
_LOINC = "Observation.where(code.coding.exists(system = 'http://loinc.org' and code = '{}'))"


@dataclass(frozen=True, slots=True)
class LabPatient:
    """The last measurement of one patient: creatinine in mg/dL, ACR in mg/g."""

    patient_id: str
    age: Value
    female: int | None
    creatinine: float | None
    acr: float | None


@dataclass(frozen=True, slots=True)
class LabFile:
    """What was read of a laboratory table."""

    path: Path
    sha256: str
    patients: list[LabPatient]
    anomalies: Counter[str]
    implausible: list[tuple[str, str, float]]


def is_fhir(place: Path) -> bool:
    """Say whether a place holds FHIR resources."""
    return place.is_dir() or place.name.endswith(FHIR_SUFFIXES)


def is_lab_table(place: Path) -> bool:
    """Say whether a file has a column of creatinine in a stated unit."""
    if is_fhir(place):
        return True
    text, found = read_file(place)
    header, _ = csv_rows(place, text, found)
    return any(clean(name).lower().startswith("creatinine") for name in header)


def read_labs(place: Path) -> LabFile:
    """Read a laboratory table; `InvalidFile` names the column and row of what cannot be read."""
    return _read_fhir(place) if is_fhir(place) else _read_csv(place)


def _read_csv(place: Path) -> LabFile:
    text, found = read_file(place)
    header, rows = csv_rows(place, text, found)
    names = [clean(name).lower() for name in header]
    id_column = next((name for name in _IDS if name in names), None)
    sex_column = next((name for name in _SEXES if name in names), None)
    creatinine = next((name for name in (*CREATININE_COLUMNS, "creatinine") if name in names), None)
    if id_column is None or "age" not in names or creatinine is None:
        raise InvalidFile(
            f"{place} row 1 must have the columns id, age, sex and creatinine_umol_l or "
            f"creatinine_mg_dl; it has {', '.join(names)}"
        )
    if creatinine == "creatinine" and "unit" not in names:
        raise InvalidFile(
            f"{place} states no unit of creatinine; name the column creatinine_umol_l or "
            "creatinine_mg_dl, or add a column unit"
        )
    latest: dict[str, tuple[date, LabPatient]] = {}
    for row in rows:
        cells = dict(zip(names, row.cells, strict=True))
        patient_id = clean(cells[id_column])
        if not patient_id:
            refuse(place, row, id_column, cells[id_column], "name the patient")
        patient = LabPatient(
            patient_id,
            _number("age", cells["age"], row, found),
            sex_of(cells[sex_column], row, found) if sex_column else None,
            _creatinine(cells, creatinine, row, found),
            _acr(cells, row, found),
        )
        when = _date(cells.get("date", ""), row, place)
        if patient_id not in latest or when >= latest[patient_id][0]:
            latest[patient_id] = (when, patient)
    if len(latest) < 2:
        raise InvalidFile(f"{place} holds {len(latest)} patients; give two or more")
    patients = [patient for _, patient in latest.values()]
    return LabFile(place, found.sha256, patients, found.anomalies, found.implausible)


def _number(name: str, cell: str, row: Row, found: UciFile) -> Value:
    text = clean(cell).lower()
    return None if text in MISSING else number_of(name, text, row, found)


def _creatinine(cells: dict[str, str], column: str, row: Row, found: UciFile) -> float | None:
    value = _number(column, cells[column], row, found)
    if column == "creatinine":
        unit = clean(cells["unit"]).lower()
        if value is not None and unit not in _UNITS:
            refuse(found.path, row, "unit", cells["unit"], "write µmol/L or mg/dL")
        factor = _UNITS.get(unit, 1.0)
    else:
        factor = CREATININE_COLUMNS[column]
    return None if value is None else round(value * factor, 2)


def _acr(cells: dict[str, str], row: Row, found: UciFile) -> float | None:
    for column, factor in ACR_COLUMNS.items():
        if column in cells:
            value = _number(column, cells[column], row, found)
            return None if value is None else round(value * factor, 1)
    return None


def _date(cell: str, row: Row, place: Path) -> date:
    text = clean(cell)
    if text.lower() in MISSING:
        return date.min
    try:
        return date.fromisoformat(text[:10])
    except ValueError:
        return refuse(place, row, "date", cell, "write the date as 2026-01-31")


def _read_fhir(place: Path) -> LabFile:
    creatinine, ratio = _LOINC.format("2160-0"), _LOINC.format("9318-7")
    factors = {"umol/L": 1 / MICROMOL_PER_MG_DL, "µmol/L": 1 / MICROMOL_PER_MG_DL}
    table = fhir_table(
        place,
        {
            "age": PathColumn("Patient.birthDate"),
            "sex": PathColumn("Patient.gender"),
            "creatinine": PathColumn(
                f"{creatinine}.value", pick="latest", unit="mg/dL", factor=factors
            ),
            "acr": PathColumn(
                f"{ratio}.value",
                pick="latest",
                unit="mg/g",
                factor={"mg/mmol": 8.84},
                optional=True,
            ),
        },
        index_date=PathColumn(f"{creatinine}.effective", pick="latest"),
    )
    names = list(table.columns)
    patients = []
    for row in table.rows:
        cells = dict(zip(names, row, strict=True))
        value, acr = cells["creatinine"], cells.get("acr")
        patients.append(
            LabPatient(
                str(cells["patient_id"]),
                _plain(cells["age"]),
                {"female": 1, "male": 0}.get(str(cells["sex"])),
                None if not isinstance(value, int | float) else round(value, 2),
                None if not isinstance(acr, int | float) else round(acr, 1),
            )
        )
    if len(patients) < 2:
        raise InvalidFile(f"{place} holds {len(patients)} patients; give two or more")
    return LabFile(place, "", patients, Counter(), [])


def _plain(value: object) -> Value:
    return value if isinstance(value, int | float) else None

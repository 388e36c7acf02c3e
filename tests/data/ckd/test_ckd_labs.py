"""A laboratory table is enough: CSV in either unit."""

from __future__ import annotations

import pytest

from krisis.data.base import SuiteConfig
from krisis.data.ckd.labs import read_lab_courses, read_labs
from krisis.data.ckd.suite import CKDSuite
from krisis.errors import InvalidFile

PEOPLE = [
    ("a", 55, "male", 106.0, None),
    ("b", 70, "female", 200.0, 45.0),
    ("c", 70, "male", 100.0, 350.0),
    ("d", 30, "female", 60.0, 4.0),
]
STAGES = {"a": 2, "b": 4, "c": 2, "d": 1}


def csv_file(path, unit="umol"):
    column, factor = {"umol": ("creatinine_umol_l", 1.0), "mg": ("creatinine_mg_dl", 1 / 88.4)}[
        unit
    ]
    lines = [f"id,age,sex,{column},acr_mg_g,date"]
    for name, age, sex, creatinine, acr in PEOPLE:
        lines.append(f"{name},{age},{sex},400,,2019-05-01")  # an older measurement
        lines.append(f"{name},{age},{sex},{creatinine * factor:.4f},{acr or ''},2020-05-01")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


# Creatinine in µmol/L by date: a falls by 31 % into G3b, b by 26 % just after a drug, c is stable,
# d recovers; e was measured once.
COURSES = {
    "a": (1958, "male", {"2018-03-01": 115, "2018-09-17": 133, "2019-07-14": 159}, ""),
    "b": (1958, "female", {"2018-03-01": 97, "2018-11-06": 124}, "2018-09-17"),
    "c": (1968, "female", {"2018-03-01": 71, "2019-04-05": 71}, ""),
    "d": (1978, "male", {"2018-03-01": 212, "2019-07-14": 124}, ""),
    "e": (1978, "male", {"2018-03-01": 212}, ""),
}
OUTCOMES = {"a": "worsening", "b": "stable", "c": "stable", "d": "improving"}


def dated_csv(path):
    lines = ["id,date,age,sex,creatinine_umol_l,drug_date"]
    for name, (born, sex, values, drug) in COURSES.items():
        for day, value in values.items():
            age = int(day[:4]) - born - (day[5:] < "02-01")
            lines.append(f"{name},{day},{age},{sex},900,")  # corrected later on the same day
            lines.append(f"{name},{day},{age},{sex},{value},{drug}")
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def courses(path):
    suite = CKDSuite(SuiteConfig(task="progression", test_size=0.5), path)
    records = (*suite.load(), *suite.training_records())
    return {record.record_id.removeprefix("visits-"): record for record in records}, suite


def test_a_dated_table_is_a_course_of_each_patient(tmp_path):
    found, suite = courses(dated_csv(tmp_path / "labs.csv"))
    assert {name: record.label for name, record in found.items()} == OUTCOMES
    shown = found["a"].features
    assert [shown[f"visit_{k}_day"] for k in (1, 2, 3)] == [0, 200, 500]
    assert [shown[f"visit_{k}_sc"] for k in (1, 2, 3)] == [1.3, 1.5, 1.8]
    assert (found["b"].features["drug_started"], found["b"].features["drug_day"]) == (1, 200)
    assert found["c"].features["drug_started"] is None
    assert "1 left out, their truth unknown (one visit: 1)" in suite.notice
    assert len(suite.describe()["provenance"][0]["sha256"]) == 64


def test_a_course_without_dates_is_refused(tmp_path):
    path = tmp_path / "labs.csv"
    path.write_text("id,age,sex,creatinine_mg_dl\n1,50,m,1.0\n2,50,f,1.1\n", encoding="utf-8")
    with pytest.raises(InvalidFile, match="row 2 has no date, which progression needs"):
        read_lab_courses(path)


def staged(path):
    suite = CKDSuite(SuiteConfig(task="staging", test_size=0.5), path)
    records = (*suite.load(), *suite.training_records())
    return {record.record_id.removeprefix("lab-"): record for record in records}


@pytest.mark.parametrize("unit", ["umol", "mg"])
def test_a_table_is_staged_by_its_last_creatinine_in_either_unit(tmp_path, unit):
    found = staged(csv_file(tmp_path / "labs.csv", unit))
    assert {name: record.label for name, record in found.items()} == STAGES
    assert found["a"].metadata["egfr"] == pytest.approx(71, abs=1)
    assert found["b"].features["acr"] == 45.0
    assert "acr" not in found["a"].features
    assert not found["a"].metadata["synthetic"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id,age,sex,creatinine\n1,50,m,100\n2,50,m,90\n", "states no unit of creatinine"),
        ("id,age,sex,creatinine,unit\n1,50,m,100,g/L\n2,50,m,90,\n", "write µmol/L or mg/dL"),
        ("id,sex,creatinine_mg_dl\n1,m,1\n2,m,1\n", "must have the columns id, age, sex"),
        ("id,age,creatinine_mg_dl\n1,50,1.0\n", "holds 1 patients; give two or more"),
        ("id,age,creatinine_mg_dl,date\n1,50,1,May\n2,50,1,\n", "write the date as 2026-01-31"),
        ("id,age,creatinine_mg_dl\n,50,1\n2,50,1\n", "name the patient"),
    ],
)
def test_a_table_that_cannot_be_read_is_refused_in_one_sentence(tmp_path, text, message):
    path = tmp_path / "labs.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(InvalidFile, match=message):
        read_labs(path)

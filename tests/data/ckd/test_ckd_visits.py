"""A laboratory table with dates: which courses are read, left out, refused and asked about."""

from __future__ import annotations

from datetime import date, timedelta

import pytest

from krisis.data.base import SuiteConfig
from krisis.data.ckd.egfr import ckd_epi_2021
from krisis.data.ckd.labs import read_lab_courses
from krisis.data.ckd.suite import CKDSuite
from krisis.errors import InvalidFile, InvalidValue

HEADER = "id,date,age,sex,creatinine_mg_dl,drug_date"
# a: 61 falls to 42, below 45 and by 30 %; b: 26 % just after the drug; c: unchanged; d: improves.
# Days are written as dates from 2020 on.
ROWS = (
    "a,100,60,m,1.3", "a,300,60,m,1.5", "a,600,61,m,1.8",
    "b,0,60,female,1.1", "b,250,60,female,1.4,200",
    "c,0,50,f,0.8", "c,400,51,f,0.8",
    "d,0,40,male,2.4", "d,500,41,male,1.4",
)  # fmt: skip


def dated(day):
    return str(date(2020, 1, 1) + timedelta(days=int(day))) if day.isdigit() else day


def write(path, *rows, header=HEADER):
    lines = [header]
    for row in rows:
        cells = (row + ",,,,,").split(",")[:6]
        lines.append(",".join([cells[0], dated(cells[1]), *cells[2:5], dated(cells[5])]))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return path


def records(path):
    suite = CKDSuite(SuiteConfig(task="progression", test_size=0.5), path)
    return {r.record_id: r for r in (*suite.load(), *suite.training_records())}, suite


def test_courses_are_read_in_the_order_of_their_days_and_labelled_by_the_definition(tmp_path):
    found, suite = records(write(tmp_path / "v.csv", *reversed(ROWS)))
    labels = {name.removeprefix("visits-"): record.label for name, record in found.items()}
    assert labels == {"a": "worsening", "b": "stable", "c": "stable", "d": "improving"}
    shown = found["visits-a"].features
    assert [shown[f"visit_{k}_day"] for k in (1, 2, 3)] == [0, 200, 500]
    assert [shown[f"visit_{k}_sc"] for k in (1, 2, 3)] == [1.3, 1.5, 1.8]
    then = 61 - 500 / 365.25
    assert shown["visit_1_egfr"] == pytest.approx(
        float(ckd_epi_2021(1.3, then, female=False)), abs=0.1
    )
    assert (shown["age"], shown["sex"], shown["drug_started"]) == (61, 0, None)
    assert found["visits-b"].features["drug_started"] == 1
    assert found["visits-c"].features["drug_started"] is None
    ratio = found["visits-b"].features["visit_2_egfr"] / found["visits-b"].features["visit_1_egfr"]
    assert 0.73 < ratio < 0.75  # from G3a to G3b: the drug alone keeps b from worsening
    assert suite.notice == (
        "v.csv: 4 patients read; 2 held out and evaluated; 2 kept for fitting baselines "
        "(test_size 0.5)"
    )
    for record in found.values():
        assert not record.metadata["synthetic"]
        assert {"should_abstain", "ambiguous_trajectory", "rules"} <= set(record.metadata)


def test_patients_without_a_course_are_left_out_and_counted(tmp_path):
    more = ("e,0,50,m,1.0", "f,0,50,m,9000", "f,90,50,m,1.0", "g,0,,m,1.0", "g,90,,m,1.0",
            "k,0,50,,1.0", "k,90,50,,1.0")  # fmt: skip
    file = read_lab_courses(write(tmp_path / "v.csv", *ROWS, *more))
    assert [patient.patient_id for patient in file.patients] == ["a", "b", "c", "d"]
    assert file.left_out == {
        "one visit": 1,
        "no usable creatinine at the first or last visit": 1,
        "no usable age": 1,
        "sex not stated, or both sexes": 1,
    }
    _, suite = records(file.path)
    assert "8 patients read; 4 left out" in suite.notice
    assert suite.describe()["account"] == suite.notice


@pytest.mark.parametrize(
    ("first", "last", "reason"),
    [
        ("140", "140", "no usable age"),
        ("-4", "-3", "no usable age"),
        ("50", "140", "no usable age"),
        ("120", "", "no usable age"),  # 121 at the last visit
        ("50", "49.5", "ages that contradict the days"),
        ("50", "54", "ages that contradict the days"),  # 4 years in 1.1
        ("50", "53", ""),  # 1.9 years too many
        ("50", "50", ""),
        ("", "0", "ages that contradict the days"),  # not born at the first visit
        ("0", "", ""),
    ],
)
def test_a_patient_whose_ages_cannot_be_right_is_left_out(tmp_path, first, last, reason):
    odd = (f"o,0,{first},m,1.0", f"o,400,{last},m,1.0")
    found, suite = records(write(tmp_path / "v.csv", *ROWS, *odd))
    assert ("visits-o" in found) == (not reason)
    assert suite.describe()["provenance"][0]["left_out"] == ({reason: 1} if reason else {})


def test_a_drug_started_long_before_the_last_visit_explains_no_fall(tmp_path):
    early = [row.replace("1.4,200", "1.4,100") for row in ROWS]  # 150 days before the last visit
    assert records(write(tmp_path / "w.csv", *early))[0]["visits-b"].label == "worsening"


def test_of_many_visits_the_ends_and_three_between_are_shown(tmp_path):
    many = [f"h,{30 * k},50,m,{1 + k / 10}" for k in range(10)]
    file = read_lab_courses(write(tmp_path / "v.csv", *ROWS, *many))
    assert file.patients[-1].days == (0, 60, 120, 210, 270)
    assert file.patients[-1].creatinine == (1.0, 1.2, 1.4, 1.7, 1.9)


def test_an_impossible_creatinine_between_the_ends_is_kept_and_breaks_a_rule(tmp_path):
    odd = ("i,0,50,m,1.0", "i,200,50,m,9000", "i,400,51,m,1.0")
    found, _ = records(write(tmp_path / "v.csv", *ROWS, *odd))
    record = found["visits-i"]
    assert record.features["visit_2_sc"] == 9000
    assert record.features["visit_2_egfr"] is None
    assert "implausible_value" in record.metadata["rules"]


@pytest.mark.parametrize(
    ("rows", "header", "message"),
    [
        (ROWS, "id,time,age,sex,sc,drug", r"row 1 must have the columns id, age, sex and creat"),
        (ROWS, "id,time,age,sex,creatinine_mg_dl,drug", r"row 2 has no date, which progression"),
        (("a,x,50,m,1.0", "b,0,50,m,1.0"), HEADER, r"row 2, column date: 'x' is not valid"),
        (("a,,50,m,1.0", "b,0,50,m,1.0"), HEADER, r"row 2 has no date"),
        (("a,1,50,m,1.0,maybe",), HEADER, r"column drug_date: 'maybe' .* write the date as"),
        (("a,1,50,q,1.0",), HEADER, r"column sex"),
        ((",1,50,m,1.0",), HEADER, r"column id: '' .* name the patient"),
        (("a,1,50,m,1.0", "b,1,50,m,1.0"), HEADER, r"has 0 patients with a course"),
    ],
)
def test_what_cannot_be_read_is_refused_in_one_sentence(tmp_path, rows, header, message):
    with pytest.raises(InvalidFile, match=message):
        read_lab_courses(write(tmp_path / "v.csv", *rows, header=header))


def test_a_file_with_one_visit_per_patient_is_refused_and_never_ignored(tmp_path):
    wide = write(tmp_path / "wide.csv", "1,48,1.2,ckd", header="id,age,sc,class")
    suite = CKDSuite(SuiteConfig(task="progression"), wide)
    said = r"wide.csv has one visit per patient.*leave the file out, or type --preset v0.1"
    with pytest.raises(InvalidFile, match=said):
        suite.load()
    other = write(tmp_path / "other.csv", "1,48,1.2", header="id,age,sc")
    with pytest.raises(InvalidFile, match=r"must have the columns id, age, sex and creatinine"):
        CKDSuite(SuiteConfig(task="progression"), other).load()
    with pytest.raises(InvalidValue, match="not offered for visits"):
        CKDSuite(SuiteConfig(task="progression"), wide, impute="median")

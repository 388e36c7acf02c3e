"""A file with several visits per patient: what is read, left out, refused and asked."""

from __future__ import annotations

import pytest

from krisis.backends.prompt import build_prompt
from krisis.data.base import SuiteConfig
from krisis.data.ckd.egfr import ckd_epi_2021
from krisis.data.ckd.suite import CKDSuite
from krisis.data.ckd.visits import read_visits
from krisis.errors import InvalidFile, InvalidValue

HEADER = "id,day,age,sex,sc,drug_started,drug_day"
# a: 61 falls to 42, below 45 and by 30 %; b: 26 % just after the drug; c: unchanged; d: improves.
ROWS = (
    "a,100,60,m,1.3,no,", "a,300,60,m,1.5,no,", "a,600,61,m,1.8,no,",
    "b,0,60,female,1.1,no,", "b,250,60,female,1.4,yes,200",
    "c,0,50,f,0.8,,", "c,400,51,f,0.8,,",
    "d,0,40,male,2.4,no,", "d,500,41,male,1.4,no,",
)  # fmt: skip


def write(path, *rows, header=HEADER):
    n_cells = header.count(",")
    rows = [row + "," * (n_cells - row.count(",")) for row in rows]
    path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
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
    assert (shown["age"], shown["sex"], shown["drug_started"]) == (61, 0, 0)
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
    more = ("e,0,50,m,1.0,no", "f,0,50,m,,no", "f,90,50,m,1.0,no", "g,0,,m,1.0,no", "g,90,,m,1.0,",
            "k,0,50,,1.0,no", "k,90,50,,1.0,no")  # fmt: skip
    file = read_visits(write(tmp_path / "v.csv", *ROWS, *more))
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
    odd = (f"o,0,{first},m,1.0,no", f"o,400,{last},m,1.0,no")
    found, suite = records(write(tmp_path / "v.csv", *ROWS, *odd))
    assert ("visits-o" in found) == (not reason)
    assert suite.describe()["provenance"][0]["left_out"] == ({reason: 1} if reason else {})


def test_a_drug_without_a_day_explains_no_fall(tmp_path):
    rows = [row.replace("yes,200", "yes,") for row in ROWS]
    found, suite = records(write(tmp_path / "v.csv", *rows))
    assert found["visits-b"].label == "worsening"  # stable where it was started on day 200
    shown = build_prompt(suite.task, [found["visits-b"].features])
    assert "SGLT2 inhibitor started after the first visit: yes" in shown.user
    early = [row.replace("yes,200", "yes,100") for row in ROWS]  # 150 days before the last visit
    assert records(write(tmp_path / "w.csv", *early))[0]["visits-b"].label == "worsening"


def test_of_many_visits_the_ends_and_three_between_are_shown(tmp_path):
    many = [f"h,{30 * k},50,m,{1 + k / 10},no" for k in range(10)]
    file = read_visits(write(tmp_path / "v.csv", *ROWS, *many))
    assert file.patients[-1].days == (0, 60, 120, 210, 270)
    assert file.patients[-1].creatinine == (1.0, 1.2, 1.4, 1.7, 1.9)


def test_an_impossible_creatinine_between_the_ends_is_kept_and_breaks_a_rule(tmp_path):
    odd = ("i,0,50,m,1.0,no", "i,200,50,m,9000,no", "i,400,51,m,1.0,no")
    found, _ = records(write(tmp_path / "v.csv", *ROWS, *odd))
    record = found["visits-i"]
    assert record.features["visit_2_sc"] == 9000
    assert record.features["visit_2_egfr"] is None
    assert "implausible_value" in record.metadata["rules"]


@pytest.mark.parametrize(
    ("rows", "header", "message"),
    [
        (ROWS, "id,time,age,sex,sc,drug", r"lacks the column day; .* one row per visit"),
        (("a,0,50,m,1.0,no", "a,0,50,m,1.2,no"), HEADER, r"row 3, column day: .* row 2 already"),
        (("a,x,50,m,1.0,no",), HEADER, r"row 2, column day: 'x' is not valid"),
        (
            ("a,20200101,50,m,1.0,no",),
            HEADER,
            r"v.csv row 2, .* '20200101' .* such as 0 .* no date",
        ),
        (("a,-100001,50,m,1.0,no",), HEADER, r"number of days up to 100,000"),
        (("a,,50,m,1.0,no",), HEADER, r"write a whole number of days"),
        (("a,1,50,m,1.0,maybe",), HEADER, r"column drug_started: 'maybe' .* yes or no"),
        (("a,1,50,q,1.0,no",), HEADER, r"column sex"),
        ((",1,50,m,1.0,no",), HEADER, r"column id: '' .* name the patient"),
        (("a,1,50,m,1.0,no",), HEADER, r"has 0 patients with a course"),
    ],
)
def test_what_cannot_be_read_is_refused_in_one_sentence(tmp_path, rows, header, message):
    with pytest.raises(InvalidFile, match=message):
        read_visits(write(tmp_path / "v.csv", *rows, header=header))


def test_a_file_with_one_visit_per_patient_is_refused_and_never_ignored(tmp_path):
    wide = write(tmp_path / "wide.csv", "1,48,1.2,ckd", header="id,age,sc,class")
    suite = CKDSuite(SuiteConfig(task="progression"), wide)
    with pytest.raises(InvalidFile, match=r"lacks the columns day, sex; progression reads"):
        suite.load()
    with pytest.raises(InvalidValue, match="not offered for visits"):
        CKDSuite(SuiteConfig(task="progression"), wide, impute="median")

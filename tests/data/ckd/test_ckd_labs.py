"""A laboratory table is enough: CSV in either unit, the same people as FHIR."""

from __future__ import annotations

import json

import pytest

from krisis.data.base import SuiteConfig
from krisis.data.ckd.labs import read_labs
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


def fhir_file(path):
    entries = []
    for name, age, sex, creatinine, acr in PEOPLE:
        entries.append(
            {
                "resourceType": "Patient",
                "id": name,
                "gender": sex,
                "birthDate": f"{2020 - age}-01-01",
            }
        )
        for code, value, unit in (("2160-0", creatinine, "umol/L"), ("9318-7", acr, "mg/g")):
            if value is not None:
                entries.append(
                    {
                        "resourceType": "Observation",
                        "id": f"{name}-{code}",
                        "status": "final",
                        "code": {"coding": [{"system": "http://loinc.org", "code": code}]},
                        "subject": {"reference": f"Patient/{name}"},
                        "effectiveDateTime": "2020-05-01",
                        "valueQuantity": {"value": value, "unit": unit, "code": unit},
                    }
                )
    path.write_text("\n".join(map(json.dumps, entries)) + "\n", encoding="utf-8")
    return path


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


def test_the_same_people_as_fhir_have_the_same_stages(tmp_path):
    pytest.importorskip("fhirpathpy")
    by_table = staged(csv_file(tmp_path / "labs.csv"))
    by_fhir = staged(fhir_file(tmp_path / "labs.ndjson"))
    assert {n.rpartition("/")[2]: r.label for n, r in by_fhir.items()} == STAGES
    shown = {n.rpartition("/")[2]: r.features for n, r in by_fhir.items()}
    assert shown == {name: record.features for name, record in by_table.items()}


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

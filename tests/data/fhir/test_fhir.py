"""FHIR resources become one row per record, and nothing becomes a value by accident."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path

import pytest
from tests.data.fhir.invented_fhir import (
    CREATININE,
    HBA1C,
    as_bundle,
    condition,
    encounter,
    observation,
    patient,
    write_ndjson,
)

from krisis.data.fhir.columns import PathColumn
from krisis.data.fhir.paths import checked_path
from krisis.data.fhir.records import fhir_table
from krisis.errors import InvalidFile, InvalidValue, MissingExtra, UserError

OF_CREATININE = (
    f"Observation.where(code.coding.exists(system='http://loinc.org' and code='{CREATININE}'))"
)
LATEST = PathColumn(f"{OF_CREATININE}.value", pick="latest", unit="mg/dL")


def creatinine(**changes: object) -> dict[str, PathColumn]:
    return {
        "creatinine": PathColumn(**{**{n: getattr(LATEST, n) for n in LATEST.__slots__}, **changes})
    }


def read(place: Path, columns: dict[str, PathColumn], **options: object) -> list[dict[str, object]]:
    table = fhir_table(place, columns, **options)
    return [dict(zip(table.columns, row, strict=True)) for row in table.rows]


def value(place: Path, columns: dict[str, PathColumn], **options: object) -> object:
    [row] = read(place, columns, **options)
    return row[next(iter(columns))]


THREE = [
    patient("p"),
    observation("o1", "p", 1.0, at="2024-01-10"),
    observation("o2", "p", 3.0, at="2024-01-20T08:00:00+02:00"),
    observation("o3", "p", 2.0, at="2023-12-31"),
    observation("other", "p", 99.0, code=HBA1C, unit="%"),
]


@pytest.mark.parametrize(
    ("pick", "expected"),
    [("latest", 3.0), ("earliest", 2.0), ("highest", 3.0), ("lowest", 1.0), ("mean", 2.0),
     ("count", 3), ("all", "2.0; 1.0; 3.0")],
)  # fmt: skip
def test_each_choice_by_hand(tmp_path, pick, expected):
    assert value(write_ndjson(tmp_path, *THREE), creatinine(pick=pick)) == expected


def test_bulk_export_bundles_and_compressed_lines_give_the_same_rows(tmp_path):
    resources = [*THREE, patient("q", sex="male"), observation("o9", "q", 0.8)]
    columns = {**creatinine(), "sex": PathColumn("Patient.gender")}
    rows = read(write_ndjson(tmp_path / "bulk", *resources), columns)
    assert rows == [
        {"patient_id": "p", "creatinine": 3.0, "sex": "female"},
        {"patient_id": "q", "creatinine": 0.8, "sex": "male"},
    ]
    for kind in ("transaction", "collection"):
        bundle = tmp_path / f"{kind}.json"
        bundle.write_text(json.dumps(as_bundle(*resources, kind=kind)))
        assert read(bundle, columns) == rows
    packed = tmp_path / "packed"
    packed.mkdir()
    for file in (tmp_path / "bulk").iterdir():
        # Several files of one type, as large exports have.
        for number, line in enumerate(file.read_bytes().splitlines()):
            (packed / f"{file.stem}.{number:02}.ndjson.gz").write_bytes(gzip.compress(line))
    assert read(packed, columns) == rows


@pytest.mark.parametrize(
    "reference",
    ["Patient/p", "Patient/p/_history/2", "https://server.example/fhir/Patient/p"],
)
def test_a_patient_is_found_by_every_form_of_reference(tmp_path, reference):
    one = observation("o", "p", 1.5) | {"subject": {"reference": reference}}
    assert value(write_ndjson(tmp_path, patient("p"), one), creatinine()) == 1.5


def test_resources_without_ids_are_found_by_their_full_url(tmp_path):
    bundle = as_bundle(patient("p"), observation("o", "p", 1.5))
    for entry in bundle["entry"]:
        del entry["resource"]["id"]
    (tmp_path / "b.json").write_text(json.dumps(bundle))
    [row] = read(tmp_path, creatinine())
    assert row == {"patient_id": "urn:uuid:00000000", "creatinine": 1.5}


@pytest.mark.parametrize(
    ("at", "index", "counts"),
    [
        ("2024-01-10", "2024-01-11", True),
        ("2024-01-10", "2024-01-10", False),
        ("2024-01-10", "2024-01-10T23:00:00Z", False),
        ("2024-01-10T08:00:00Z", "2024-01-10T08:00:00Z", False),
        ("2024-01-10T08:00:00Z", "2024-01-10T08:00:01Z", True),
        ("2024-01-10T23:30:00-05:00", "2024-01-11", False),
        ("2024-01-11T00:30:00+02:00", "2024-01-11", True),
        ("2024-01", "2024-01-31", False),
        ("2024-01", "2024-02-01", True),
        ("2023", "2024-01-01", True),
        (None, "2024-02-01", False),
    ],
)
def test_only_what_is_certainly_before_the_index_date_counts(tmp_path, at, index, counts):
    place = write_ndjson(
        tmp_path,
        patient("p"),
        encounter("e", "p", index),
        observation("o", "p", 1.5, at=at),
        observation("dated", "p", 9.0, at="2030-01-01"),
    )
    found = value(
        place,
        creatinine(before="index_date"),
        index_date=PathColumn("Encounter.period.start", pick="earliest"),
    )
    assert found == (1.5 if counts else None)


def test_a_period_counts_at_its_end_and_issued_where_nothing_else_is_stated(tmp_path):
    period = {"start": "2024-01-01", "end": "2024-03-01"}
    place = write_ndjson(
        tmp_path,
        patient("p"),
        observation("o1", "p", 1.0, at=None, effectivePeriod=period),
        observation("o2", "p", 2.0, at="2024-02-01"),
        observation("o3", "p", 3.0, at=None, issued="2024-02-15T00:00:00Z"),
    )
    assert value(place, creatinine()) == 1.0
    assert value(place, creatinine(pick="all")) == "2.0; 3.0; 1.0"


def test_values_of_one_moment_are_told_apart_by_issued_then_updated_then_id(tmp_path):
    tied = [
        observation("o1", "p", 1.0, issued="2024-01-11T00:00:00Z"),
        observation("o2", "p", 2.0, issued="2024-01-12T00:00:00Z"),
    ]
    place = write_ndjson(tmp_path / "issued", patient("p"), *tied[::-1])
    assert value(place, creatinine()) == 2.0
    plain = [observation("o2", "p", 2.0), observation("o1", "p", 1.0)]
    place = write_ndjson(tmp_path / "ids", patient("p"), *plain)
    assert value(place, creatinine()) == 2.0
    notes = fhir_table(place, creatinine()).notes
    assert notes == {"choices between values of one moment": 1}


def test_withdrawn_resources_are_no_findings(tmp_path):
    refuted = {"verificationStatus": {"coding": [{"code": "refuted"}]}}
    place = write_ndjson(
        tmp_path,
        *THREE,
        observation("o4", "p", 50.0, at="2024-05-01", status="entered-in-error"),
        observation("o5", "p", 60.0, at="2024-05-01", status="cancelled"),
        condition("c", "p", **refuted),
    )
    columns = {**creatinine(), "diabetes": PathColumn("Condition.exists()", optional=True)}
    assert read(place, columns) == [{"patient_id": "p", "creatinine": 3.0, "diabetes": False}]
    [count] = fhir_table(place, columns).notes.values()
    assert count == 3


def test_without_a_choice_the_path_sees_the_whole_record(tmp_path):
    place = write_ndjson(tmp_path, *THREE, patient("q"), condition("c", "q"))
    columns = {
        "diabetes": PathColumn("Condition.where(code.coding.code='44054006').exists()"),
        "tested": PathColumn(f"{OF_CREATININE}.count()"),
        "both": PathColumn("Condition.exists() and Patient.gender = 'female'"),
    }
    rows = [tuple(row.values())[1:] for row in read(place, columns)]
    assert rows == [(False, 3, False), (True, 0, True)]


def test_an_age_is_that_of_the_index_date_and_the_birth_date_is_no_column(tmp_path):
    born = [
        patient("a", born="1960-03-01"),
        patient("b", born="1960-03-02"),
        patient("c", born="1960"),
    ]
    visits = [encounter(f"e{who}", who, "2024-03-01") for who in "abc"]
    place = write_ndjson(tmp_path, *born, *visits)
    rows = read(
        place,
        {"age": PathColumn("Patient.birthDate")},
        index_date=PathColumn("Encounter.period.start"),
    )
    assert [row["age"] for row in rows] == [64, 63, 63]
    assert "1960" not in str(rows)


def test_a_row_can_be_an_encounter(tmp_path):
    first, second = encounter("e1", "p", "2024-01-01"), encounter("e2", "p", "2024-06-01")
    place = write_ndjson(
        tmp_path,
        patient("p", born="1960-03-01"),
        first,
        second,
        observation("o1", "p", 1.0, encounter={"reference": "Encounter/e1"}),
        observation("o2", "p", 2.0, encounter={"reference": "Encounter/e2"}),
        observation("o3", "p", 3.0),
    )
    columns = {**creatinine(), "age": PathColumn("Patient.birthDate")}
    assert [tuple(row.values()) for row in read(place, columns, per="encounter")] == [
        ("p", "e1", "2024-01-01", 1.0, 63),
        ("p", "e2", "2024-06-01", 2.0, 64),
    ]


def test_a_record_without_an_index_date_is_left_out_and_counted(tmp_path):
    place = write_ndjson(tmp_path, patient("p"), patient("q"), encounter("e", "q", "2024-01-01"))
    table = fhir_table(place, {"sex": PathColumn("Patient.gender")},
                       index_date=PathColumn("Encounter.period.start"))  # fmt: skip
    assert [row[0] for row in table.rows] == ["q"]
    assert table.notes == {"records without an index date, left out": 1}


def test_units_are_those_of_the_code_and_converted_by_a_stated_factor_alone(tmp_path):
    place = write_ndjson(tmp_path, patient("p"), observation("o", "p", 88.4, unit="umol/L"))
    with pytest.raises(InvalidValue, match=r"Observation.ndjson, line 1 .*umol/L.*mg/dL.*factor"):
        read(place, creatinine())
    assert value(place, creatinine(factor={"umol/L": 0.0113})) == pytest.approx(0.99892)
    # The text of the unit counts only where there is no code.
    one = observation("o", "p", 1.0)
    del one["valueQuantity"]["code"]
    assert value(write_ndjson(tmp_path / "text", patient("p"), one), creatinine()) == 1.0
    one["valueQuantity"] |= {"code": "g/L"}
    with pytest.raises(InvalidValue, match="g/L"):
        read(write_ndjson(tmp_path / "code", patient("p"), one), creatinine())


@pytest.mark.parametrize(
    ("path", "named"),
    [
        ("Patient.name.family", "name"),
        ("Patient.`name`.family", "name"),
        ("Patient.identifier.value", "identifier"),
        ("Patient.address.city", "address"),
        ("Patient.telecom.value", "telecom"),
        ("Patient.photo.url", "photo"),
        ("Patient.contact.gender", "contact"),
        ("Patient.text.`div`", "text"),
        ("Observation.where(text.exists()).value", "text"),
        ("Patient.id", "id"),
        ("Observation.subject.display", "subject"),
        ("Patient.children().given", "children"),
        ("Patient.toString()", "whole resources"),
        ("Observation.performer.display", "performer"),
        ("Patient.birthDate = @1960", "birth"),
        ("Patient.where(birthDate < today()).gender", "today"),
    ],
)  # fmt: skip
def test_a_path_to_who_somebody_is_is_refused(path, named):
    with pytest.raises(InvalidValue, match=named):
        checked_path(path, "feature 'x'")


@pytest.mark.parametrize(
    "path",
    [
        "Observation.code.text",
        "Observation.where(code.coding.code='name').value",
        "Condition.note.text",
    ],
)
def test_words_that_only_look_like_an_identity_are_not_refused(path):
    assert checked_path(path, "feature 'x'").kinds


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("Observation.where(", "not FHIRPath"),
        ("Patient..gender", "not FHIRPath"),
        ("Patient.gender 'x'", "not FHIRPath"),
        ("", "not FHIRPath"),
        ("Patient.gendr()", "unknown function"),
        ("gender", "must begin with a type"),
        ("Pateint.gender", "must begin with a type"),
        ("%resource.gender", "must begin with a type"),
    ],
)
def test_what_is_not_a_path_is_refused_before_anything_is_read(path, said):
    with pytest.raises(UserError, match=said):
        checked_path(path, "feature 'x'")


@pytest.mark.parametrize(
    "path",
    [
        f"{OF_CREATININE}.value.value",
        f"Observation.where(code.coding.code = '{CREATININE}' or status = 'amended').value.value",
        f"Observation.where((code.coding.code = '{CREATININE}') and status != 'final').value.value",
        f"Observation.where(code.coding.where(code = '{HBA1C}').empty()).value.value",
        f"Observation.where(value.value > 1 and code.coding.code='{CREATININE}').value.value",
        f"Observation.where(exists()).where(code.coding.code='{CREATININE}').exists()",
        f"Observation.where($this.code.coding.code='{CREATININE}').count()",
        f"(Observation.where(code.coding.code='{CREATININE}').value.value)",
        f"Observation.where(code.coding.code='{CREATININE}').exists() or Patient.exists()",
    ],
)
def test_the_shortcut_for_the_first_criterion_changes_no_value(path):
    import fhirpathpy
    from fhirpathpy.models import models

    resources = [*THREE, observation("o5", "p", 0.4, status="amended")]
    for some in (resources, resources[:1], resources[4:], []):
        plain = fhirpathpy.evaluate(some, path, model=models["r4"])
        assert checked_path(path, "feature").values(some, "here") == plain


BROKEN = {
    "no unit": ([patient("p"), observation("o", "p", 1.0, unit=None)], {}, "line 1.*no unit"),
    "mixed units": (
        [patient("p"), observation("o", "p", 1.0), observation("u", "p", 90.0, unit="umol/L")],
        {},
        "line 2.*'creatinine' is in umol/L",
    ),
    "comparator": (
        [patient("p"), observation("o", "p", 1.0, valueQuantity={"value": 1, "comparator": "<"})],
        {},
        "comparator.empty",
    ),
    "missing patient": ([patient("p"), observation("o", "x", 1.0)], {}, "'Patient/x'.*not in"),
    "contained patient": (
        [patient("p"), observation("o", "p", 1.0) | {"subject": {"reference": "#p"}}],
        {},
        "a contained resource",
    ),
    "no subject": (
        [patient("p"), {k: v for k, v in observation("o", "p", 1.0).items() if k != "subject"}],
        {},
        "names no patient",
    ),
    "patient twice": ([patient("p"), patient("p")], {}, "Patient/p.*appears twice"),
    "value twice": (
        [patient("p"), observation("o", "p", 1.0), observation("o", "p", 1.0)],
        {},
        "Observation/o.*appears twice",
    ),
    "several values": (
        [patient("p"), observation("o", "p", 1.0), observation("u", "p", 2.0)],
        {"pick": None},
        "2 values; say which",
    ),
    "an object": (
        [patient("p"), observation("o", "p", 1.0)],
        {"fhirpath": "Observation.code"},
        "is an object .*coding",
    ),
    "a number where a unit is asked for": (
        [patient("p"), observation("o", "p", 1.0)],
        {"fhirpath": "Observation.value.value"},
        "carries no unit",
    ),
    "no unit stated": (
        [patient("p"), observation("o", "p", 1.0)], {"unit": ""}, "no unit is stated; write unit:",
    ),
    "two values in one resource": (
        [patient("p"), observation("o", "p", 1.0)],
        {"fhirpath": "Observation.status | Observation.code.coding.code", "unit": ""},
        "line 1.*has 2 values in this one resource",
    ),
    "an error that would print the resource": (
        [patient("p") | {"name": [{"family": "Doe"}]}],
        {"fhirpath": "Patient.upper()", "pick": None, "unit": ""},
        "cannot be evaluated: [^{]*$",
    ),
    "no resource of the type": ([patient("p")], {}, "no resource of the type Observation"),
    "a date that is none": (
        [patient("p"), observation("o", "p", 1.0, at="10.1.2024")],
        {},
        "'10.1.2024' is not a FHIR date",
    ),
    "no dates": (
        [patient("p"), observation("o", "p", 1.0, at=None)],
        {},
        "none of its 1 values has one",
    ),
    "index date not stated": (
        [patient("p"), observation("o", "p", 1.0)],
        {"before": "index_date"},
        "states none",
    ),
    "text where numbers are needed": (
        [patient("p"), observation("o", "p", 1.0)],
        {"fhirpath": "Observation.status", "pick": "mean", "unit": ""},
        "needs numbers",
    ),
    "a misspelt element": (
        [patient("p"), observation("o", "p", 1.0)],
        {"fhirpath": "Patient.gendre", "pick": None, "unit": ""},
        "the path 'Patient.gendre' finds nothing in any record; correct it, or write optional",
    ),
    "a code that nobody has": (
        [patient("p"), observation("o", "p", 1.0)],
        {"fhirpath": LATEST.fhirpath.replace(CREATININE, "2160-O")},
        "2160-O.* finds nothing in any record",
    ),
    "a code that nobody has, counted": (
        [patient("p"), observation("o", "p", 1.0)],
        {"fhirpath": f"{OF_CREATININE.replace(CREATININE, '9')}.exists()",
         "pick": None, "unit": ""},
        "finds nothing in any record",
    ),
    "STU3": (
        [patient("p"), observation("o", "p", 1.0), condition("c", "p", clinicalStatus="active")],
        {"fhirpath": "Condition.exists()", "pick": None, "unit": ""},
        "STU3",
    ),
    "R5": (
        [patient("p"), encounter("e", "p", "2024") | {"class": [{}]}],
        {"fhirpath": "Encounter.exists()", "pick": None, "unit": ""},
        "R5",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_bad_data_are_told_in_one_sentence(tmp_path, name):
    resources, changes, said = BROKEN[name]
    with pytest.raises(UserError, match=said) as caught:
        read(write_ndjson(tmp_path, *resources), creatinine(**changes))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("path", "pick", "expected"),
    [("Patient.gendre", None, None), ("Observation.where(status='x').status", "count", 0)],
)
def test_an_optional_path_may_find_nothing(tmp_path, path, pick, expected):
    place = write_ndjson(tmp_path, patient("p"), observation("o", "p", 1.0))
    assert value(place, creatinine(fhirpath=path, pick=pick, unit="", optional=True)) == expected


def test_files_that_are_not_fhir_are_named(tmp_path):
    with pytest.raises(InvalidFile, match="does not exist"):
        read(tmp_path / "none", creatinine())
    with pytest.raises(InvalidFile, match="holds no FHIR file"):
        read(tmp_path, creatinine())
    place = write_ndjson(tmp_path / "cut", *THREE) / "Observation.ndjson"
    place.write_text(place.read_text()[:-40])
    with pytest.raises(InvalidFile, match=r"Observation.ndjson, line 4 is not complete JSON"):
        read(place.parent, creatinine())
    for content, said in [
        ("[]", "not an object"),
        ("{}", "no resourceType"),
        ('{"resourceType": "Bundle", "type": "history"}', "'history'"),
        ('{"resourceType": "Bundle", "type": "batch", "entry": [3]}', "entry 1"),
        ('{"resourceType": "Bundle", "type": "batch", "entry": [{"resource": 3}]}', "no resourceT"),
    ]:
        bundle = tmp_path / "b.json"
        bundle.write_text(content)
        with pytest.raises(InvalidFile, match=said):
            read(bundle, creatinine())


def test_without_the_extra_the_command_to_install_it_is_told(monkeypatch):
    monkeypatch.setitem(sys.modules, "fhirpathpy", None)
    with pytest.raises(MissingExtra, match=r"\.\[fhir\]"):
        checked_path("Patient.gender", "feature 'sex'")

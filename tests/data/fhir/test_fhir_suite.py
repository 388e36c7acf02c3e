"""The example suite over FHIR resources is checked and run from the command line."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import yaml
from tests.data.fhir.invented_fhir import as_bundle, clinic, write_ndjson
from typer.testing import CliRunner

from krisis.data.table.declaration import checked_declaration
from krisis.data.table.suite import TableSuite
from krisis.errors import InvalidFile
from krisis.verbs.info.data_command import app

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "tables" / "fhir.yaml"


@pytest.fixture
def suite_file(tmp_path: Path) -> Path:
    write_ndjson(tmp_path / "fhir", *clinic())
    return Path(shutil.copy(EXAMPLE, tmp_path))


def test_the_page_shows_the_example_file() -> None:
    page = (ROOT / "docs" / "how-to" / "fhir.md").read_text(encoding="utf-8")
    assert f"```yaml\n{EXAMPLE.read_text(encoding='utf-8')}```" in page


def test_records_hold_the_named_paths_and_nothing_of_who_it_is(suite_file: Path) -> None:
    suite = TableSuite(suite_file)
    records = suite.records()
    assert len(records) == 30
    assert {tuple(record.features) for record in records} == {("age", "sex", "hba1c", "creatinine")}
    assert all(record.record_id == record.cluster_id for record in records)
    text = repr([*records, *suite.training_records()])
    for secret in ("Invented", "MRN", "Nowhere", "<div", "1960-06-15", "birth"):
        assert secret not in text
    # The label is the condition that the clinic gives to those with a high HbA1c.
    rows = suite.source.query("select diabetes, avg(hba1c) from records group by 1 order by 1")
    assert rows[0][1] < 6.5 < rows[1][1]


def test_bundle_and_bulk_export_make_the_same_suite(suite_file: Path) -> None:
    bulk = TableSuite(suite_file).records()
    shutil.rmtree(suite_file.parent / "fhir")
    (suite_file.parent / "fhir").mkdir()
    bundle = json.dumps(as_bundle(*clinic()))
    (suite_file.parent / "fhir" / "all.json").write_text(bundle, encoding="utf-8")
    assert [(r.features, r.label) for r in TableSuite(suite_file).records()] == [
        (r.features, r.label) for r in bulk
    ]


def test_the_sheet_counts_what_was_left_out(suite_file: Path) -> None:
    resources = clinic()
    for resource in resources[2:40]:
        if resource["resourceType"] == "Observation":
            resource["status"] = "entered-in-error"
    write_ndjson(suite_file.parent / "fhir", *resources)
    done = CliRunner().invoke(app, ["check", str(suite_file)], catch_exceptions=False)
    assert done.exit_code == 0
    assert "entered in error, cancelled, refuted or not done" in done.output
    assert "- HbA1c:" in done.output


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"features": {"age": {"label": "Age"}}}, "features.age.fhirpath is missing"),
        ({"source": {"fhir": "fhir", "per": "visit"}}, "source.per"),
        ({"source": {"fhir": "fhir", "files": ["a.csv"]}}, "not two of them"),
        ({"source": {"files": ["a.csv"], "per": "patient"}}, "belong to"),
        ({"source": "a.csv"}, "needs source: {fhir"),
        ({"source": {"fhir": "fhir", "index_date": {"pick": "latest"}}}, "fhirpath is missing"),
        ({"features": {"age": {"fhirpath": "Patient.gender", "pick": "last"}}}, "pick"),
        ({"features": {"age": {"fhirpath": "Patient.gender", "factor": {"g": -1}}}}, "factor"),
    ],
)
def test_wrong_keys_are_told_in_one_sentence(change, said):
    content = yaml.safe_load(EXAMPLE.read_text(encoding="utf-8")) | change
    with pytest.raises(InvalidFile, match=said.replace("{", r"\{")) as caught:
        checked_declaration(content, "fhir.yaml")
    assert "\n" not in str(caught.value)

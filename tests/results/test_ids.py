"""What is made to be shared shows numbers in place of patients' ids, and the same figures."""

from __future__ import annotations

import json
import stat
from dataclasses import replace
from pathlib import Path

import pytest
from tests.invented_runs import ANSWERS, invented_rows, result_of, write_run
from typer.testing import CliRunner

from krisis.cli.app import app
from krisis.data.table.check import look_like_record_numbers
from krisis.formats.parquet import load_parquet
from krisis.json_values import dumps
from krisis.metrics import BootstrapOptions, usual_metrics
from krisis.metrics.base import EvaluationResult, Rows
from krisis.results.base import BenchmarkResult
from krisis.results.ids import ShownIds, is_synthetic, shareable
from krisis.results.rows import scores_to_dict
from krisis.runs.load import load_run

N = 120
OPTIONS = BootstrapOptions(n_resamples=200)


def patients(*, synthetic: bool | None = None, skill: float = 1.0) -> Rows:
    """Return rows of patients with two visits each, filed under numbers in no order."""
    rows = []
    for i, row in enumerate(invented_rows(N, skill=skill)):
        patient = f"MRN{(i // 2) * 7919 % 100_003 + 4_000_000}"
        metadata = {**row.metadata, "filed_as": patient}
        if synthetic is not None:
            metadata["synthetic"] = synthetic
        name = f"{patient}/{i % 2}"
        rows.append(replace(row, record_id=name, cluster_id=patient, metadata=metadata))
    return Rows(rows, ANSWERS)


def run_of(folder: Path, name: str = "clinic", **made: object) -> Path:
    return write_run(folder / name, result_of(patients(**made), name))  # type: ignore[arg-type]


def krisis(*words: object) -> str:
    done = CliRunner().invoke(app, list(map(str, words)), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.mark.parametrize("kind", ["csv", "jsonl", "inspect"])
def test_an_export_holds_no_id_unless_it_is_asked_for(tmp_path: Path, kind: str) -> None:
    run, out = run_of(tmp_path), tmp_path / f"rows.{kind}"
    krisis("export", run, "--to", kind, "-o", out)
    assert "MRN" not in out.read_text(encoding="utf-8")
    assert "case 001" in out.read_text(encoding="utf-8")
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    krisis("export", run, "--to", kind, "-o", out, "--with-ids", "--overwrite")
    assert "MRN4000000/0" in out.read_text(encoding="utf-8")


def test_numbers_count_in_the_order_of_the_ids() -> None:
    rows = [
        EvaluationResult(1, 1, record_id=record, cluster_id=patient)
        for record, patient in [("r9", "zoe"), ("r2", "anna"), ("r1", "zoe"), ("", "anna")]
    ]
    ids = ShownIds.of(BenchmarkResult(rows, {}, {}))
    assert ids.patients == {"anna": "patient 1", "zoe": "patient 2"}
    assert ids.records == {"r2": "case 1", "r1": "case 2", "r9": "case 3"}


def test_an_exported_run_that_is_read_again_has_the_same_figures(tmp_path: Path) -> None:
    run, out = run_of(tmp_path), tmp_path / "rows.parquet"
    krisis("export", run, "--to", "parquet", "-o", out)
    assert b"MRN" not in out.read_bytes()
    before, after = (
        one.scored(usual_metrics(), OPTIONS) for one in (load_run(run), load_parquet(out))
    )
    assert dumps(scores_to_dict(after.metric_scores)) == dumps(scores_to_dict(before.metric_scores))
    assert after.rows.table.patients.n == before.rows.table.patients.n == N // 2 - _n_lost(before)


def _n_lost(result: BenchmarkResult) -> int:
    return len(result.rows.table.missing_patients)


def test_an_export_that_is_imported_again_has_the_same_figures(tmp_path: Path) -> None:
    run, out = run_of(tmp_path), tmp_path / "rows.csv"
    krisis("export", run, "--to", "csv", "-o", out)
    columns = "--truth ground_truth --prediction prediction --confidence confidence --id record_id"
    more = "--patient cluster_id --abstained abstained --answers 0=no,1=yes --positive 1"
    words = f"{columns} {more} --as csv --output {tmp_path / 'again'}".split()
    krisis("import", out, *words)
    (again,) = (tmp_path / "again").glob("*.krisis")
    shown = [
        json.loads(krisis("show", one, "--format", "json", "--metric", "selective_accuracy"))
        for one in (run, again)
    ]
    first, second = (next(iter(one["metric_scores"].values())) for one in shown)
    assert first["value"] == second["value"]
    assert first["interval"] == second["interval"]


def test_pages_show_numbers_and_the_ids_of_synthetic_patients(tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    for made, is_shown in (({}, False), ({"synthetic": False}, False), ({"synthetic": True}, True)):
        name = f"run-{made.get('synthetic', 'unstated')}"
        run = run_of(tmp_path, name, **made)
        other = run_of(tmp_path, f"{name}-other", skill=0.6, **made)
        krisis("report", run, "-o", page, "--overwrite")
        assert ("MRN4" in page.read_text(encoding="utf-8")) == is_shown
        page.unlink()
        krisis("compare", run, other, "--html", page)
        text = page.read_text(encoding="utf-8")
        assert ("MRN4" in text) == is_shown
        assert ("case 0" in text) != is_shown
        page.unlink()
    krisis("report", tmp_path / "run-unstated.krisis", "-o", page, "--with-ids")
    assert "MRN4" in page.read_text(encoding="utf-8")


def test_the_run_its_copy_and_the_full_json_keep_the_ids(tmp_path: Path) -> None:
    run = run_of(tmp_path)
    krisis("export", run, "--to", "krisis", "-o", tmp_path / "copy.krisis")
    krisis("show", run, "--save", tmp_path / "full.json")
    for file in (run, tmp_path / "copy.krisis", tmp_path / "full.json"):
        assert b"MRN4000000/0" in file.read_bytes()
        assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_suite_says_for_all_its_patients_whether_they_are_synthetic() -> None:
    result = result_of(patients())
    assert not is_synthetic(result)
    result.suite_description["synthetic"] = True
    assert is_synthetic(result)
    assert shareable(result) is result
    mixed = Rows([*patients(synthetic=True), *patients(synthetic=False)], ANSWERS)
    assert not is_synthetic(result_of(mixed))


def test_numbers_of_a_hospital_are_told_from_numbers_that_count() -> None:
    assert look_like_record_numbers(row.cluster_id for row in patients())
    assert not look_like_record_numbers(range(1_000_000, 1_000_100))
    assert not look_like_record_numbers(["4471203"])  # too few to say
    assert not look_like_record_numbers(f"p{i:03d}" for i in range(200))

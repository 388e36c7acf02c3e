"""Rows in Parquet are scored as the run that they come from, with rows in memory and without."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import duckdb
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.invented_runs import TASK, invented_rows, task_facts
from typer.testing import CliRunner

from krisis.cli.app import app
from krisis.errors import InvalidFile, InvalidValue, UserError
from krisis.formats import parquet
from krisis.formats.parquet import load_parquet
from krisis.formats.parquet_tables import write_parquet
from krisis.formats.tidy_table import tidy_table
from krisis.json_values import dumps
from krisis.metrics import BootstrapOptions, score_all, usual_metrics
from krisis.metrics.base import EvaluationResult
from krisis.metrics.items import RunItems, Source
from krisis.results.account import Provenance, RunFacts
from krisis.results.base import BenchmarkResult
from krisis.results.rows import scores_to_dict
from krisis.results.run_items import read_items

OPTIONS = BootstrapOptions(n_resamples=200)


def exported(rows: list[EvaluationResult], path: Path, **known: object) -> BenchmarkResult:
    facts = RunFacts(provenance=Provenance(task_facts=task_facts({**TASK, **known})))
    result = BenchmarkResult(rows, {}, {"suite": "invented", "task": "detection"}, "m", facts=facts)
    write_parquet(tidy_table(result), path, result)
    return result


def written(path: Path, columns: str, rows: str) -> Path:
    with duckdb.connect() as base:
        base.execute(f"copy (select * from (values {rows}) v({columns})) to '{path}'")
    return path


def test_an_exported_run_has_the_scores_of_the_run(tmp_path: Path) -> None:
    result = exported(list(invented_rows(240)), tmp_path / "rows.parquet")
    again = load_parquet(tmp_path / "rows.parquet")
    assert again.attrition == result.attrition
    assert again.attrition.n_lost > 0
    metrics = usual_metrics()
    expected = score_all(metrics, result.rows, intervals=OPTIONS)
    found = score_all(metrics, again.rows, intervals=OPTIONS)
    assert dumps(scores_to_dict(found)) == dumps(scores_to_dict(expected))  # NaN is null there
    assert expected["accuracy"].breakdown
    assert expected["deferral_alignment"].details["by_reason"]


def test_four_rows_counted_by_hand(tmp_path: Path) -> None:
    path = written(
        tmp_path / "four.parquet",
        "ground_truth, prediction, confidence, failed",
        "(1, 1, 0.9, 0), (0, 1, 0.6, 0), (1, null, 0.5, 0), (1, null, null, 1)",
    )
    result = load_parquet(path)
    scores = score_all(usual_metrics(), result.rows)
    assert str(result.attrition).endswith("2 answered / 1 abstained / 1 not evaluated")
    assert scores["accuracy"].value == pytest.approx(1 / 3)
    assert scores["selective_accuracy"].value == 0.5
    assert scores["brier_score"].value == pytest.approx((0.1**2 + 0.6**2) / 2)
    assert result.rows.table.patients.n == 3


LABELS = st.sampled_from([0, 1, "1 ", "Stable", "stable", 2])


@st.composite
def some_rows(draw: st.DrawFn) -> list[EvaluationResult]:
    return [
        EvaluationResult(
            None if (abstained := draw(st.booleans())) else draw(LABELS),
            draw(LABELS),
            abstained,
            draw(st.none() | st.floats(0, 1)),
            record_id=draw(st.sampled_from(["", "a", "b", "c"])),
            cluster_id=draw(st.sampled_from(["", "p", "q"])),
            metadata=draw(
                st.fixed_dictionaries(
                    {},
                    optional={
                        "should_abstain": st.booleans(),
                        "ckd_stage": st.integers(1, 3),
                        "synthetic": st.booleans(),
                    },
                )
            ),
            error=draw(st.none() | st.just("no answer")),
        )
        for _ in range(draw(st.integers(1, 12)))
    ]


@settings(
    max_examples=12,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(rows=some_rows())
def test_the_columns_of_a_file_are_the_table_of_its_rows(
    rows: list[EvaluationResult], tmp_path: Path
) -> None:
    result = exported(rows, tmp_path / "rows.parquet")
    ours, table = load_parquet(tmp_path / "rows.parquet").rows.table, result.rows.table
    assert ours.labels == table.labels
    for name in ("truth", "prediction", "abstained", "confidence", "should_abstain"):
        np.testing.assert_array_equal(getattr(ours, name), getattr(table, name), name)
    np.testing.assert_array_equal(ours.patients.code, table.patients.code)
    assert (ours.n_not_evaluated, ours.n_rows) == (table.n_not_evaluated, table.n_rows)
    assert sorted(map(str, ours.missing_truths)) == sorted(map(str, table.missing_truths))
    assert ours.repeats_cases == table.repeats_cases
    names, groups = table.grouped("stage")
    assert ours.grouped("stage")[0] == names
    np.testing.assert_array_equal(ours.grouped("stage")[1], groups)
    assert ours.metadata("ckd_stage") == table.metadata("ckd_stage")
    kept = table.answered & (table.truth == 0)
    part, other = ours.restricted(kept), table.restricted(kept)
    np.testing.assert_array_equal(part.confidence, other.confidence)
    np.testing.assert_array_equal(part.patients.code, other.patients.code)
    for code, name in enumerate(other.patient_names):
        assert part.patient_names[code] == name or part.patient_names[code].startswith("row ")


def test_selective_prediction_of_a_file_has_the_figures_of_its_rows(tmp_path: Path) -> None:
    rows = [
        EvaluationResult(**{**_fields(row), "signals": {"token_msp": 0.5 + 0.4 * (i % 7) / 7}})
        for i, row in enumerate(invented_rows(120))
    ]
    exported(rows, tmp_path / "rows.parquet").save(tmp_path / "rows.json")
    found = []
    for name in ("rows.parquet", "rows.json"):
        command = ["selective", str(tmp_path / name), "--format", "json"]
        command += ["--confidence", "stated,token_msp", "--bootstrap-resamples", "0"]
        done = CliRunner().invoke(app, command, catch_exceptions=False)
        assert done.exit_code == 0, done.output
        found.append({**json.loads(done.stdout), "created_at": "", "inputs": ""})
    assert found[0] == found[1]
    assert found[0]["population"]["items_not_evaluated"] > 0


def _fields(row: EvaluationResult) -> dict[str, object]:
    return {name: getattr(row, name) for name in EvaluationResult.__slots__}


def test_a_file_with_more_rows_than_fit_in_memory_is_scored_and_not_listed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parquet, "MOST_LISTED", 10)
    path = tmp_path / "rows.parquet"
    exported(list(invented_rows(20)), path)
    result = load_parquet(path)
    score_all(usual_metrics(), result.rows, intervals=OPTIONS)
    assert result.rows[3].record_id  # one row may be looked at
    for listed in (lambda: list(result.rows), result.to_json, lambda: result.rows.table.rows):
        with pytest.raises(InvalidValue, match=r"every row in memory, and .*rows\.parquet has 20"):
            listed()
    done = CliRunner().invoke(app, ["show", str(path), "--save", str(tmp_path / "scored.json")])
    assert "works on files of up to 10 rows" in str(done.exception)
    assert not (tmp_path / "scored.json").exists()


def test_records_that_were_asked_several_times_are_one_item_each(tmp_path: Path) -> None:
    repeated = [
        EvaluationResult(
            answer, 1, record_id="a", cluster_id="p", confidence=0.5, metadata={"sample_index": i}
        )
        for i, answer in enumerate((1, 0, 1))
    ]
    exported(repeated, tmp_path / "thrice.parquet")
    items = read_items(tmp_path / "thrice.parquet")
    assert (items.n_items, items.table.correct.tolist()) == (1, [True])


def test_real_and_synthetic_patients_are_scored_apart(tmp_path: Path) -> None:
    rows = [
        EvaluationResult(i % 2, 1, confidence=0.5, metadata={"synthetic": i < 4}) for i in range(10)
    ]
    exported(rows, tmp_path / "rows.parquet")
    found = load_parquet(tmp_path / "rows.parquet").scored(usual_metrics(), OPTIONS)
    parts = {
        name: scores["accuracy"].n_evaluated for name, scores in found.scores_by_source.items()
    }
    assert parts == {"real": 6, "synthetic": 4}


@pytest.mark.parametrize(
    ("columns", "rows", "sentence"),
    [
        ("truth, prediction", "(1, 1)", "no column 'ground_truth'"),
        ("ground_truth, prediction", "(1, 1), (null, 1)", "row 2: ground_truth is None"),
        ("ground_truth, prediction, confidence", "(1, 1, 1.2)", "row 1: confidence is"),
        ("ground_truth, prediction, confidence", "(1, 1, 'nan'::double)", "row 1: confidence is"),
        ("ground_truth, prediction, abstained", "(1, 1, 2)", "row 1: abstained is 2"),
        ("ground_truth, prediction, outcome", "(1, 1, 'right')", "row 1: outcome is 'right'"),
        ("ground_truth, prediction, run_id", "(1, 1, 'a'), (1, 1, 'b')", "several runs"),
        ("ground_truth, prediction", "(1.5, 1.0)", "1.5"),
    ],
)
def test_a_file_that_cannot_be_scored_is_one_sentence(
    tmp_path: Path, columns: str, rows: str, sentence: str
) -> None:
    path = written(tmp_path / "bad.parquet", columns, rows)
    done = CliRunner().invoke(app, ["show", str(path)])
    assert isinstance(done.exception, UserError)
    assert sentence in str(done.exception)
    assert "\n" not in str(done.exception)


@pytest.mark.parametrize(
    "make",
    [
        lambda path: path.write_bytes(b"PAR1 cut"),
        lambda path: path.write_bytes(b""),
        lambda path: written(path, "ground_truth, prediction", "(1, 1)").write_bytes(
            path.read_bytes()[:40]
        ),
    ],
)
def test_a_broken_file_is_one_sentence(tmp_path: Path, make: Callable[[Path], object]) -> None:
    make(tmp_path / "cut.parquet")
    with pytest.raises(InvalidFile, match="cannot be read as Parquet"):
        load_parquet(tmp_path / "cut.parquet")


@pytest.mark.parametrize(
    ("columns", "rows"),
    [
        ("ground_truth, prediction, failed", "(1, 1, 'false'), (1, 0, 'false'), (0, 0, 'true')"),
        (
            "ground_truth, prediction, abstained",
            "(1, 1, 'false'), (1, 0, 'false'), (0, null, 'true')",
        ),
        ("ground_truth, prediction, failed", "(1.0::decimal(3,1), 1, false), (1, 0, false)"),
        (
            "ground_truth, prediction, meta_when",
            "(1, 1, '2020-01-01 00:00:00+00'::timestamptz), (1, 0, null)",
        ),
    ],
)
def test_columns_as_other_programs_write_them(tmp_path: Path, columns: str, rows: str) -> None:
    path = written(tmp_path / "rows.parquet", columns, rows)
    scores = load_parquet(path).scored(usual_metrics(), OPTIONS).metric_scores
    found = scores["selective_accuracy"]
    assert (found.value, found.n_evaluated) == (0.5, 2)
    assert 1 in load_parquet(path).rows.table.labels


@pytest.mark.parametrize("truth", ["{'a': 1}", "[1]", "'x'::blob"])
def test_a_label_that_is_none_is_one_sentence(tmp_path: Path, truth: str) -> None:
    path = written(tmp_path / "rows.parquet", "ground_truth, prediction", f"({truth}, 1)")
    with pytest.raises(UserError, match="is not a label"):
        load_parquet(path).scored(usual_metrics(), OPTIONS)


def test_some_rows_of_a_file_keep_their_other_columns(tmp_path: Path) -> None:
    path = written(
        tmp_path / "part.parquet",
        "record_id, cluster_id, ground_truth, prediction, meta_should_abstain, signal_token_msp, "
        "meta_ward, failed",
        "('a', 'p', 1, 1, 'maybe', 0.5, 'x', 0), ('b', 'q', 0, 1, null, null, null, 0), "
        "('b', 'q', 1, 1, null, 0.25, 'y', 0), ('c', 'r', 0, null, null, null, 'x', 1)",
    )
    items = RunItems(load_parquet(path).rows.table, Source(str(path)))
    table = items.table
    assert table.unreadable_deferral.startswith("row 1: metadata['should_abstain']")
    assert table.should_abstain.tolist() == [-1, -1, -1]
    assert table.patient_names == ["p", "q"]
    assert items.given("token_msp").tolist() == [True, False, True]
    assert items.place(1) == "patient q"
    part = table.restricted(np.array([False, True, True]))
    assert part.metadata("ward") == [None, "y"]
    assert part.metadata("bed") == [None, None]
    assert RunItems(part, Source("")).signal("token_msp").tolist()[1] == 0.25  # type: ignore[union-attr]
    assert not RunItems(part, Source("")).given("token_pe").any()
    assert part.columns.signal_names() == ["token_msp"]
    assert part.columns.row_name(int(part.positions[0])) == "row 2"
    assert part.missing_patients == ["r"]
    assert part.missing_truths == [0]
    assert part.repeats_cases
    assert [row.record_id for row in part.rows] == ["b", "b"]


def test_a_file_in_which_all_failed_has_no_groups(tmp_path: Path) -> None:
    path = written(tmp_path / "f.parquet", "ground_truth, prediction, failed", "(1, null, 1)")
    assert load_parquet(path).rows.table.grouped("stage")[0] == []

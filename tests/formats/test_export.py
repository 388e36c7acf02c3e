"""A run leaves krisis as a tidy table with a dictionary, and comes back as the same rows."""

from __future__ import annotations

import csv
import io
import json
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from typer.testing import CliRunner, Result

from krisis.cli.app import app
from krisis.errors import UserError
from krisis.formats.base import ImportOptions
from krisis.formats.imported_run import read_file
from krisis.formats.inspect_writer import inspect_log
from krisis.formats.tidy_table import (
    count_guarded,
    csv_parts,
    dictionary_text,
    jsonl_parts,
    tidy_table,
)
from krisis.json_values import write_text
from krisis.metrics.base import EvaluationResult
from krisis.results.account import Provenance, RunFacts
from krisis.results.result import BenchmarkResult
from krisis.results.rows import rows_fingerprint

ROWS = [
    EvaluationResult(
        1,
        1,
        confidence=0.875,
        record_id="a",
        cluster_id="p1",
        raw_response="=HYPERLINK(1)",
        metadata={"should_abstain": False, "Age band (years)": "60+", "codes": ["x", 1]},
        signals={"token_msp": 0.8},
        input_tokens=10,
        output_tokens=2,
        total_tokens=12,
        model="m-2",
        finish_reason="stop",
        latency_seconds=0.5,
    ),
    EvaluationResult(0, 1, confidence=0.6, record_id="b", raw_response='two\nlines, "quoted"'),
    EvaluationResult(None, 0, True, record_id="c", metadata={"should_abstain": True}),
    EvaluationResult(
        None, 1, record_id="d", error="no answer in 60 s", failure_class="timeout", model="m-2"
    ),
    EvaluationResult(1, 1, record_id="a", cluster_id="p1", metadata={"sample_index": 1}),
    EvaluationResult("++", "++", record_id="e"),
]
BACK: dict[str, Any] = {
    "truth": "ground_truth",
    "prediction": "prediction",
    "id": "record_id",
    "repeat": "asking",
    "patient": "cluster_id",
    "confidence": "confidence",
    "abstained": "abstained",
    "error": "error",
}


def krisis(*arguments: object) -> Result:
    return CliRunner().invoke(app, [str(one) for one in arguments])


@pytest.fixture
def result() -> BenchmarkResult:
    facts = RunFacts(provenance=Provenance(run_id="abc123"))
    return BenchmarkResult(ROWS, {}, {"suite": "ward", "task": "triage"}, "some/model", facts=facts)


@pytest.fixture
def saved(result: BenchmarkResult, tmp_path: Path) -> Path:
    return result.save(tmp_path / "result.json")


def test_one_line_per_asking_with_stated_conventions(result: BenchmarkResult) -> None:
    table = tidy_table(result)
    lines = [dict(zip(table.names, line, strict=True)) for line in table.lines]
    assert [line["outcome"] for line in lines] == [row.outcome for row in ROWS]
    assert [line["correct"] for line in lines] == [1, 0, None, None, 1, 1]
    assert [line["abstained"] for line in lines] == [0, 0, 1, None, 0, 0]
    assert [line["asking"] for line in lines] == [1, 1, 1, 1, 2, 1]
    assert [line["should_abstain"] for line in lines] == [0, None, 1, None, None, None]
    assert (lines[3]["failure_class"], lines[3]["error"]) == ("timeout", "no answer in 60 s")
    assert lines[0]["meta_age_band_years_"] == "60+"
    assert lines[0]["meta_codes"] == '["x", 1]'
    assert lines[0]["signal_token_msp"] == 0.8


def test_names_fit_stata_and_the_dictionary_has_every_column() -> None:
    long = "x" * 40
    row = EvaluationResult(1, 1, metadata={long + "1": 1, long + "2": 2, "é": 3, "É": 4})
    table = tidy_table(BenchmarkResult([row], {}, {}, ""))
    assert len(set(table.names)) == len(table.names)
    assert all(len(name) <= 32 and name.isascii() and name.isidentifier() for name in table.names)
    described = list(csv.DictReader(io.StringIO(dictionary_text(table))))
    assert [line["column"] for line in described] == table.names
    assert all(line["meaning"] and line["type"] for line in described)


def test_a_spreadsheet_computes_nothing_that_a_model_wrote(result: BenchmarkResult) -> None:
    table = tidy_table(result)
    lines = list(csv.DictReader(csv_parts(table)))
    assert (count_guarded(table), lines[0]["raw_response"]) == (1, "'=HYPERLINK(1)")
    assert lines[5]["prediction"] == "++"  # a dipstick, not a formula
    assert lines[1]["raw_response"] == ROWS[1].raw_response


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_a_text_that_many_rows_share_is_held_once(tmp_path: Path, kind: str) -> None:
    reply = "x" * 1_000_000
    rows = [EvaluationResult(1, 1, record_id=str(i), raw_response=reply) for i in range(60)]
    table = tidy_table(BenchmarkResult(rows, {}, {}, ""))
    parts = {"csv": csv_parts, "jsonl": jsonl_parts}[kind]
    path = tmp_path / "rows"
    tracemalloc.start()
    try:
        write_text(path, parts(table))
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert path.stat().st_size > 60_000_000
    assert peak < 30_000_000


def test_a_file_whose_parts_fail_is_not_left_behind(tmp_path: Path) -> None:
    def parts() -> Iterator[str]:
        yield "a"
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        write_text(tmp_path / "rows", parts())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_the_table_comes_back_as_the_same_rows(
    kind: str, saved: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("krisis.formats.parquet_tables._LINES_AT_ONCE", 4)
    path = tmp_path / f"rows.{kind}"
    done = krisis("export", saved, "--to", kind, "-o", path, "--with-ids")
    assert done.exit_code == 0, done.exception
    assert "wrote 6 rows" in done.output
    options = {**BACK, "error": "failure_class"} if kind == "csv" else BACK
    if kind == "csv":  # a failed row says nothing of abstaining: 1, 0 or empty
        text = path.read_text(encoding="utf-8")
        frame = pd.read_csv(io.StringIO(text), dtype=str, keep_default_na=False)
        assert list(frame["abstained"]) == ["0", "0", "1", "", "0", "0"]
    back = read_file(path, kind, ImportOptions(**options)).taken
    assert back.not_taken == []
    given = sorted(ROWS, key=lambda row: row.metadata.get("sample_index", 0))
    assert rows_fingerprint(back.rows) == rows_fingerprint(given)


def test_an_inspect_log_comes_back_as_the_same_rows(saved: Path, tmp_path: Path) -> None:
    path = tmp_path / "log.json"
    assert krisis("export", saved, "--to", "inspect", "-o", path, "--with-ids").exit_code == 0
    options = ImportOptions(confidence="score:krisis.confidence", patient="cluster_id")
    back = read_file(path, "inspect", options).taken.rows
    given = sorted(ROWS, key=lambda row: row.metadata.get("sample_index", 0))
    assert rows_fingerprint(back) == rows_fingerprint(given)
    for name in ("failure_class", "error", "input_tokens", "finish_reason", "latency_seconds"):
        assert [getattr(row, name) or None for row in back] == [
            getattr(row, name) or None for row in given
        ]


def test_nothing_leaves_that_a_run_does_not_hold(result: BenchmarkResult) -> None:
    content = inspect_log(result)
    assert {sample["input"] for sample in content["samples"]} == {""}
    assert "messages" not in json.dumps(content)


def test_files_are_replaced_only_when_asked(saved: Path, tmp_path: Path) -> None:
    path = tmp_path / "rows.csv"
    first = krisis("export", saved, "--to", "csv", "-o", path)
    assert first.exit_code == 0
    written = path.read_bytes()
    again = krisis("export", saved, "--to", "csv", "-o", path)
    assert isinstance(again.exception, UserError)
    assert path.read_bytes() == written
    (tmp_path / "rows.dictionary.csv").write_text("mine", encoding="utf-8")
    other = krisis("export", saved, "--to", "jsonl", "-o", tmp_path / "rows.jsonl")
    assert "rows.dictionary.csv exists already" in str(other.exception)
    assert not (tmp_path / "rows.jsonl").exists()
    forced = krisis("export", saved, "--to", "csv", "-o", path, "--overwrite")
    assert forced.exit_code == 0
    assert path.read_bytes() == written

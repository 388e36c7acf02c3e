"""A result is written as strict JSON and read back as it was."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from krisis.metrics import EvaluationResult, Interval, score_all, usual_metrics
from krisis.results.result import SCHEMA_VERSION, BenchmarkResult

ROWS = [
    EvaluationResult(
        1, 1, False, 0.9, '{"prediction": 1}', "template", "batch", {"ckd_stage": 3}, 10, 2, 12, "a"
    ),
    EvaluationResult(
        "stable", "worsening", confidence=0.6, record_id="b", signals={"token_msp": 0.5}
    ),
    EvaluationResult(None, 0, abstained=True, record_id="c"),
    EvaluationResult(None, 0, record_id="d", error="no answer in 30 s", failure_class="timeout"),
]


@pytest.fixture
def result() -> BenchmarkResult:
    scores = score_all(usual_metrics(), ROWS)
    scores["accuracy"].interval = Interval(0.1, 0.9, method="wilson")
    return BenchmarkResult(ROWS, scores, {"suite": "toy", "seed": 1}, "rule", {"n_loaded": 5})


def test_what_is_loaded_is_what_was_saved(result: BenchmarkResult, tmp_path: Path) -> None:
    path = result.save(tmp_path / "deep" / "result.json")
    loaded = BenchmarkResult.load(path)
    assert loaded.evaluation_results == ROWS
    assert loaded.to_json() == result.to_json()
    assert math.isnan(loaded.metric_scores["brier_score"].value)
    assert loaded.metric_scores["accuracy"].interval == Interval(0.1, 0.9, method="wilson")


def test_the_json_is_strict_and_undefined_is_null(result: BenchmarkResult) -> None:
    content = json.loads(result.to_json(), parse_constant=pytest.fail)
    assert content["metric_scores"]["Brier Score"]["value"] is None
    assert content["attrition"] == {
        "n_loaded": 5,
        "n_sent": 4,
        "n_answered": 2,
        "n_abstained": 1,
        "n_no_answer": 0,
        "n_not_evaluated": 1,
        "failures": {"timeout": {"n": 1, "example": "no answer in 30 s"}},
    }
    assert [row["outcome"] for row in content["evaluation_results"]] == [
        "answered",
        "answered",
        "abstained",
        "not_evaluated",
    ]


def test_a_metrics_only_file_holds_no_rows_but_all_that_a_comparison_needs(
    result: BenchmarkResult, tmp_path: Path
) -> None:
    path = tmp_path / "metrics.json"
    path.write_text(result.metrics_to_json(), encoding="utf-8")
    loaded = BenchmarkResult.load(path)
    assert loaded.evaluation_results == []
    assert loaded.attrition == result.attrition
    assert loaded.backend_name == "rule"
    assert loaded.suite_description == {"suite": "toy", "seed": 1}
    assert loaded.metric_scores["accuracy"].value == result.metric_scores["accuracy"].value


def test_a_frame_has_one_line_per_row(result: BenchmarkResult) -> None:
    frame = result.to_frame()
    assert frame["outcome"].tolist() == ["answered", "answered", "abstained", "not_evaluated"]
    assert frame["metadata.ckd_stage"].tolist()[0] == 3
    assert frame["signals.token_msp"].tolist()[1] == 0.5


def test_saving_replaces_nothing_unless_told(result: BenchmarkResult, tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    path.write_text("precious", encoding="utf-8")
    with pytest.raises(ValueError, match="exists already"):
        result.save(path)
    assert path.read_text(encoding="utf-8") == "precious"
    result.save(path, overwrite=True)
    assert BenchmarkResult.load(path).to_json() == result.to_json()
    assert [p.name for p in tmp_path.iterdir()] == ["result.json"]


def change(content: dict[str, Any], *keys: Any, value: Any) -> None:
    for key in keys[:-1]:
        content = content[key]
    content[keys[-1]] = value


BROKEN: list[tuple[str, Callable[[dict[str, Any]], object], str]] = [
    ("other kind", lambda c: change(c, "kind", value="x"), "not a krisis result"),
    ("other version", lambda c: change(c, "schema_version", value=99), "schema version 99"),
    ("extras", lambda c: change(c, "extras", value=[]), "extras must be a dict"),
    ("rows", lambda c: change(c, "evaluation_results", value={}), "must be a list"),
    ("row", lambda c: change(c, "evaluation_results", 2, value=7), "row 2 is a int"),
    (
        "label",
        lambda c: change(c, "evaluation_results", 1, "ground_truth", value=None),
        "row 1: ground_truth holds a NoneType",
    ),
    (
        "confidence",
        lambda c: change(c, "evaluation_results", 0, "confidence", value=1.2),
        "row 0: confidence must be between 0 and 1, not 1.2",
    ),
    (
        "text",
        lambda c: change(c, "evaluation_results", 0, "confidence", value="high"),
        "row 0: confidence holds a str",
    ),
    (
        "prediction",
        lambda c: change(c, "evaluation_results", 0, "prediction", value=[1]),
        "row 0: prediction holds a list",
    ),
    (
        "boolean",
        lambda c: change(c, "evaluation_results", 0, "input_tokens", value=True),
        "row 0: input_tokens holds a bool",
    ),
    (
        "missing",
        lambda c: c["evaluation_results"][3].pop("ground_truth"),
        "row 3 lacks the field 'ground_truth'",
    ),
    (
        "unknown",
        lambda c: change(c, "evaluation_results", 3, "gt", value=1),
        "row 3 has the unknown field 'gt'",
    ),
    (
        "outcome",
        lambda c: change(c, "evaluation_results", 2, "outcome", value="answered"),
        "row 2: outcome 'answered' contradicts",
    ),
    (
        "score",
        lambda c: change(c, "metric_scores", "Accuracy", value={}),
        "metric 'Accuracy' cannot be read",
    ),
]


@pytest.mark.parametrize(("name", "break_it", "sentence"), BROKEN, ids=[b[0] for b in BROKEN])
def test_a_broken_file_is_refused_with_its_row_and_field(
    result: BenchmarkResult, name: str, break_it: Callable[[dict[str, Any]], object], sentence: str
) -> None:
    content = json.loads(result.to_json())
    break_it(content)
    with pytest.raises(ValueError, match=sentence):
        BenchmarkResult.from_dict(content, place="file.json")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "not complete JSON"),
        (b"[1]", "holds a JSON list"),
        (b'{"kind": NaN}', "NaN is not JSON"),
        (b"\xff\xfe\x00", "not text in UTF-8"),
        (b"[" * 100_000, "JSON"),
    ],
)
def test_what_is_no_json_object_is_refused(tmp_path: Path, content: bytes, sentence: str) -> None:
    path = tmp_path / "file.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=sentence):
        BenchmarkResult.load(path)


def test_a_file_cut_anywhere_is_refused(result: BenchmarkResult, tmp_path: Path) -> None:
    text = result.to_json()
    path = tmp_path / "cut.json"
    for length in range(0, len(text) - 1, 97):
        path.write_text(text[:length], encoding="utf-8")
        with pytest.raises(ValueError, match=r"cut\.json"):
            BenchmarkResult.load(path)


def test_an_absent_file_and_a_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="does not exist"):
        BenchmarkResult.load(tmp_path / "none.json")
    with pytest.raises(ValueError, match="is a folder"):
        BenchmarkResult.load(tmp_path)


def test_the_schema_version_is_written(result: BenchmarkResult) -> None:
    assert result.to_dict()["schema_version"] == SCHEMA_VERSION

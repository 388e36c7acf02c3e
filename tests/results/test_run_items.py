"""Any run is read as items of patients: a file of a suite, a result, a run directory."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from krisis.data.phq8.items import ITEM_KEYS as PHQ8_ITEMS
from krisis.data.phq8.run_file import PHQ8RunFile
from krisis.errors import UserError
from krisis.metrics import EvaluationResult
from krisis.metrics.items import Source
from krisis.metrics.scoring import score_all
from krisis.metrics.totals import totals_report
from krisis.results.result import BenchmarkResult
from krisis.results.run_items import _of_plain_run, items_of_result, read_items


def person(number=301, **changes):
    base = {
        "participant_id": number,
        "success": True,
        "ground_truth_items": dict.fromkeys(PHQ8_ITEMS, 1),
        "predicted_items": {**dict.fromkeys(PHQ8_ITEMS, 2), "Moving": None},
        "item_signals": {key: {"llm_evidence_count": 1} for key in PHQ8_ITEMS},
    }
    return {**base, **changes}


def run(*people, mode="few_shot"):
    return {
        "run_metadata": {"run_id": "r1", "git_commit": "abc"},
        "experiments": [
            {"provenance": {"mode": mode}, "results": {"mode": mode, "results": list(people)}}
        ],
    }


def items(content, mode=None):
    return _of_plain_run(PHQ8RunFile.experiment(content, mode, "run.json"), Path("run.json"))


def test_items_are_read_in_the_order_of_participant_and_item():
    table = items(run(person(310), person(302), person(305, success=False)))
    assert table.participants == ["302", "310"]
    assert [row.metadata["item"] for row in table.table.rows[:8]] == sorted(PHQ8_ITEMS)
    assert table.failed == ["305"]
    assert table.table.n_not_evaluated == 8
    answered = [item != PHQ8_ITEMS[-1] for item in sorted(PHQ8_ITEMS)]
    assert [row.prediction == 2 for row in table.table.rows[:8]] == answered
    assert table.predicted[:8].tolist() == answered
    assert (table.default_confidence, table.words) == ("llm", ("participant", "item"))
    assert table.source == Source("run.json", "r1", "abc", "few_shot", "phq8")
    np.testing.assert_array_equal(table.losses("abs"), np.ones(14))
    np.testing.assert_allclose(table.losses("abs_norm"), np.full(14, 1 / 3))
    np.testing.assert_array_equal(table.losses("error"), np.ones(14))


def test_a_failed_participant_needs_nothing_but_a_name():
    table = items(run(person(), {"participant_id": 302, "success": False}))
    assert table.failed == ["302"]


def test_another_questionnaire_brings_its_scale():
    answers = {"A": 4, "B": 0}
    content = run(person(ground_truth_items=answers, predicted_items=answers, item_signals={}))
    content["scale"] = {"items": ["A", "B"], "lowest": 0, "highest": 4}
    table = items(content)
    assert (table.n_items, table.scale) == (2, 4.0)


def test_files_that_are_no_run(tmp_path):
    path = tmp_path / "x.json"
    for text, message in (
        ("{", "not complete JSON"),
        ("[]", "not an object"),
        ("{}", "not a krisis result"),
    ):
        path.write_text(text)
        with pytest.raises(UserError, match=message):
            read_items(path)
    with pytest.raises(UserError, match="does not exist"):
        read_items(tmp_path / "none.json")


ROWS = [
    EvaluationResult(1, 1, confidence=0.9, cluster_id="b", record_id="1"),
    EvaluationResult(3, 1, confidence=0.5, cluster_id="a", record_id="2"),
    EvaluationResult(None, 5, True, cluster_id="a", record_id="3"),
    EvaluationResult(None, 2, error="timeout", cluster_id="c", record_id="4"),
]


def test_a_krisis_result_is_read_as_items(tmp_path):
    path = tmp_path / "result.json"
    BenchmarkResult(ROWS, score_all([], ROWS), {}, "b").save(path)
    table = read_items(path)
    assert table.participants == ["a", "b"]
    assert table.failed == ["c"]
    assert table.table.n_not_evaluated == 1
    assert table.scale == 4.0
    assert table.default_confidence == "stated"
    assert sorted(table.losses("abs").tolist()) == [0.0, 2.0]
    BenchmarkResult([], {}, {}, "b").save(tmp_path / "empty.json")
    with pytest.raises(UserError, match="no rows"):
        read_items(tmp_path / "empty.json")


def test_rows_without_a_patient_are_patients_of_their_own_failed_ones_included():
    rows = [
        EvaluationResult(None, 1, error="timeout"),
        EvaluationResult(1, 1, confidence=0.9),
        EvaluationResult(None, 1, error="timeout"),
    ]
    table = items_of_result(BenchmarkResult(rows, {}, {}, "b"), Source("r"))
    assert len(table.participants) == 1
    assert len(table.failed) == 2


def test_labels_without_an_order_are_right_or_wrong():
    rows = [
        EvaluationResult("Stable ", "stable", confidence=0.9, cluster_id="a"),
        EvaluationResult("rapid", "stable", confidence=0.9, cluster_id="b"),
        EvaluationResult(None, "stable", confidence=0.9, cluster_id="c"),
    ]
    table = items_of_result(BenchmarkResult(rows, {}, {}, "b"), Source("r"))
    assert table.losses("error").tolist() == [0.0, 1.0, 1.0]
    with pytest.raises(UserError, match="needs answers with an order"):
        table.losses("abs")
    with pytest.raises(UserError, match="unknown loss"):
        table.losses("squared")  # type: ignore[arg-type]


def test_items_are_put_on_the_scale_of_other_answers():
    rows = [
        EvaluationResult("none", "mild", confidence=0.9, cluster_id="a"),
        EvaluationResult("none", "severe", confidence=0.9, cluster_id="b"),
    ]
    table = items_of_result(BenchmarkResult(rows, {}, {}, "b"), Source("r"))
    assert not table.ordered
    ordered = table.with_answers(("none", "mild", "severe"))
    assert (ordered.ordered, ordered.scale) == (True, 2.0)
    assert ordered.losses("abs").tolist() == [1.0, 2.0]


def test_restricting_keeps_the_items_of_the_named_participants_only():
    table = items(run(person(301), person(302), person(303)))
    part = table.restricted({"303", "301"})
    assert part.participants == ["301", "303"]
    assert len(part.left_out) == 1
    assert part.n_items == 16
    assert part.place(8) == "participant 303, item Appetite"
    assert np.bincount(part.participant).tolist() == [8, 8]


def test_a_run_file_survives_the_disk(tmp_path):
    path = tmp_path / "run.json"
    path.write_text(json.dumps(run(person())))
    assert read_items(path).n_items == 8


def test_participants_are_sorted_as_text():
    table = items(run(person(99), person(1000)))
    assert table.participants == ["1000", "99"]


def test_the_totals_of_a_run_are_those_of_its_task(tmp_path):
    path = tmp_path / "run.json"
    path.write_text(json.dumps(run(person(predicted_items=dict.fromkeys(PHQ8_ITEMS, 2)))))
    assert totals_report(read_items(path).table)["total"]["mae"] == 8.0
    result = tmp_path / "result.json"
    BenchmarkResult(ROWS, {}, {"suite": "mine"}, "b").save(result)
    assert totals_report(read_items(result).table) is None

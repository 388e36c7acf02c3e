"""Run files: what is read, and one sentence for everything that is wrong with one."""

from __future__ import annotations

import copy
import json
import math
from dataclasses import replace

import numpy as np
import pytest

from krisis.data.phq8.items import ITEMS as SUITE_ITEMS
from krisis.errors import UserError
from krisis.metrics import EvaluationResult
from krisis.metrics.base import score_all
from krisis.metrics.items import Source
from krisis.results.phq8_run import PHQ8_ITEMS, experiment_of
from krisis.results.result import BenchmarkResult
from krisis.results.run_items import items_of, read_items


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
    return experiment_of(content, mode, place="run.json").items()


def test_items_are_read_in_the_order_of_participant_and_questionnaire():
    table = items(run(person(310), person(302), person(305, success=False)))
    assert table.participants == [302, 310]
    assert list(table.item_names[:8]) == list(PHQ8_ITEMS)
    assert table.failed == [305]
    assert table.n_failed_items == 8
    assert table.prediction[:7].tolist() == [2.0] * 7
    assert math.isnan(table.prediction[7])
    assert table.source == Source("run.json", "r1", "abc", "few_shot")
    np.testing.assert_array_equal(table.losses("abs"), np.ones(14))
    np.testing.assert_allclose(table.losses("abs_norm"), np.full(14, 1 / 3))
    np.testing.assert_array_equal(table.losses("error"), np.ones(14))


def test_the_items_are_those_of_the_suite():
    assert tuple(item.key for item in SUITE_ITEMS) == PHQ8_ITEMS


def test_a_failed_participant_needs_nothing_but_a_name():
    table = items(run(person(), {"participant_id": 302, "success": False}))
    assert table.failed == [302]


def test_another_questionnaire_brings_its_scale():
    answers = {"A": 4, "B": 0}
    content = run(person(ground_truth_items=answers, predicted_items=answers, item_signals={}))
    content["scale"] = {"items": ["A", "B"], "lowest": 0, "highest": 4}
    table = items(content)
    assert (table.n_items, table.scale) == (2, 4.0)


def test_the_mode_is_required_and_checked():
    content = run(person())
    content["experiments"] += run(person(), mode="zero_shot")["experiments"]
    assert items(content, "zero_shot").source.mode == "zero_shot"
    with pytest.raises(UserError, match="several experiments; name one by --mode: few_shot, zero_"):
        items(content)
    with pytest.raises(UserError, match="no experiment of mode 'other'; it has: few_shot, zero_"):
        items(content, "other")
    content["experiments"] += run(person())["experiments"]
    with pytest.raises(UserError, match="2 experiments of mode 'few_shot'"):
        items(content, "few_shot")


def _in_person(path, value):
    def change(content):
        target = content["experiments"][0]["results"]["results"][0]
        for part in path[:-1]:
            target = target[part]
        if value is ...:
            del target[path[-1]]
        else:
            target[path[-1]] = value

    return change


def _at(path, value):
    def change(content):
        target = content
        for part in path[:-1]:
            target = target[part]
        target[path[-1]] = value

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_in_person(["predicted_items", "Sleep"], 4), "participant 301.*Sleep.*0 to 3, not 4"),
        (_in_person(["predicted_items", "Sleep"], -1), "Sleep: prediction.*not -1"),
        (_in_person(["predicted_items", "Sleep"], 1.5), r"not 1\.5"),
        (_in_person(["predicted_items", "Sleep"], True), "not True"),
        (_in_person(["predicted_items", "Sleep"], "2"), "not '2'"),
        (_in_person(["predicted_items", "Sleep"], ...), "301.*item Sleep: prediction is missing"),
        (_in_person(["ground_truth_items", "Tired"], ...), "Tired: ground truth is missing"),
        (_in_person(["ground_truth_items", "Tired"], None), "Tired: ground truth must.*not None"),
        (_in_person(["ground_truth_items"], None), "ground_truth_items must be an object"),
        (_in_person(["predicted_items"], [1]), "predicted_items must be an object and is a list"),
        (_in_person(["success"], "yes"), "success must be true or false, not 'yes'"),
        (_in_person(["success"], ...), "success must be true or false, not None"),
        (_in_person(["participant_id"], None), "participant_id must be a number or a text"),
        (_in_person(["participant_id"], True), "participant_id must be a number or a text"),
        (_in_person(["participant_id"], "p1"), "a number here and a text there"),
        (_in_person(["participant_id"], 302), "participant 302 stands there twice"),
        (_in_person(["item_signals", "Sleep"], 3), "item Sleep: item_signals must be"),
        (_at(["run_metadata"], None), "run_metadata must be an object and is missing"),
        (_at(["experiments"], []), "at least one experiment"),
        (_at(["experiments"], [3]), "experiment 0 is not an object"),
        (_at(["experiments", 0, "provenance"], None), "provenance must be an object"),
        (_at(["experiments", 0, "provenance", "mode"], "zero_shot"), "mixes two experiments"),
        (_at(["experiments", 0, "results", "results"], {}), "must be a list of participants"),
        (_at(["experiments", 0, "results", "results"], [5]), "result 0 is not an object"),
        (_at(["scale"], {"items": ["A"]}), "scale must look like"),
        (_at(["scale"], {"items": [], "lowest": 0, "highest": 3}), "scale must look like"),
        (_at(["scale"], {"items": ["A"], "lowest": 3, "highest": 3}), "scale must look like"),
        (_at(["scale"], 3), "scale must look like"),
    ],
)
def test_a_bad_file_is_one_sentence_that_names_the_place(change, message):
    content = copy.deepcopy(run(person(301), person(302)))
    change(content)
    with pytest.raises(UserError, match=message) as caught:
        items(content)
    assert "\n" not in str(caught.value)


def test_a_mode_that_nobody_names_is_refused():
    content = run(person())
    for part in ("provenance", "results"):
        content["experiments"][0][part]["mode"] = None
    with pytest.raises(UserError, match="names no mode"):
        items(content)


def test_files_that_are_no_run(tmp_path):
    path = tmp_path / "x.json"
    for text, message in (("{", "not complete JSON"), ("[]", "not an object"), ("{}", "neither")):
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
    assert table.n_failed_items == 1
    assert table.scale == 4.0
    assert table.source.kind == "krisis_run"
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
    table = items_of(rows, Source("r", kind="krisis_run"))
    assert len(table.participants) == 1
    assert len(table.failed) == 2


def test_labels_without_an_order_are_right_or_wrong():
    rows = [
        EvaluationResult("Stable ", "stable", confidence=0.9, cluster_id="a"),
        EvaluationResult("rapid", "stable", confidence=0.9, cluster_id="b"),
        EvaluationResult(None, "stable", confidence=0.9, cluster_id="c"),
    ]
    table = items_of(rows, Source("r", kind="krisis_run"))
    assert table.losses("error").tolist() == [0.0, 1.0, 1.0]
    with pytest.raises(UserError, match="needs scores with an order"):
        table.losses("abs")
    with pytest.raises(UserError, match="unknown loss"):
        table.losses("squared")  # type: ignore[arg-type]


def test_restricting_keeps_the_items_of_the_named_participants_only():
    table = items(run(person(301), person(302), person(303)))
    part = table.restricted({303, 301})
    assert part.participants == [301, 303]
    assert part.n_items == 16
    assert part.place(8) == "participant 303, item NoInterest"
    assert replace(part).items_per_participant.tolist() == [8.0, 8.0]


def test_a_run_file_survives_the_disk(tmp_path):
    path = tmp_path / "run.json"
    path.write_text(json.dumps(run(person())))
    assert read_items(path).n_items == 8

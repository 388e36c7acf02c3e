"""The PHQ-8 run file: what is read and written, one sentence for everything that is wrong."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from krisis import registry
from krisis.backends.baselines.rules import Lexicon
from krisis.backends.chat import ChatRequest
from krisis.backends.scripted import ScriptedBackend
from krisis.benchmark import Benchmark
from krisis.cli.run_file import plain_row
from krisis.data.base import SuiteConfig
from krisis.data.phq8.items import ITEM_KEYS
from krisis.data.phq8.run_file import PHQ8RunFile
from krisis.data.phq8.suite import PHQ8Suite
from krisis.data.phq8.task import TASK
from krisis.errors import BackendError, ContentFiltered, InvalidValue, UserError
from krisis.execution.options import Execution
from krisis.metrics.repeats import collapse_repeats
from krisis.plain_run import PlainRow, PlainRun
from krisis.results.plain_runs import result_of_plain_run

CONFIG = SuiteConfig(n_synthetic=20)


def person(number: int = 301, **changes: Any) -> dict[str, Any]:
    base = {
        "participant_id": number,
        "success": True,
        "ground_truth_items": dict.fromkeys(ITEM_KEYS, 1),
        "predicted_items": {**dict.fromkeys(ITEM_KEYS, 2), "Moving": None},
        "item_signals": {key: {"llm_evidence_count": 1} for key in ITEM_KEYS},
    }
    return {**base, **changes}


def run(*people: dict[str, Any], mode: str = "few_shot") -> dict[str, Any]:
    return {
        "run_metadata": {"run_id": "r1", "git_commit": "abc"},
        "experiments": [
            {"provenance": {"mode": mode}, "results": {"mode": mode, "results": list(people)}}
        ],
    }


def read(content: dict[str, Any], mode: str | None = None) -> PlainRun:
    return PHQ8RunFile.experiment(content, mode, "run.json")


def test_the_format_is_found_by_what_is_in_the_file() -> None:
    assert registry.find("formats", "phq8-run") is PHQ8RunFile
    assert PHQ8RunFile.recognises(Path(), run(person()))
    assert not PHQ8RunFile.recognises(Path(), {"kind": "krisis.result"})
    assert PHQ8Suite.run_format in registry.names("formats")


def test_rows_are_those_of_the_file_with_the_task_and_its_defaults() -> None:
    found = read(run(person(310), person(302)))
    assert (found.suite, found.run_id, found.git_commit, found.mode) == (
        "phq8",
        "r1",
        "abc",
        "few_shot",
    )
    assert found.task == TASK.facts()
    assert (found.task.default_loss, found.task.default_confidence) == ("abs_norm", "llm")
    assert [row.cluster_id for row in found.rows] == [310] * 8 + [302] * 8
    assert [row.item for row in found.rows[:8]] == list(ITEM_KEYS)
    assert found.rows[0] == PlainRow(310, "NoInterest", 1, 2, {"llm_evidence_count": 1})
    assert found.rows[7].prediction is None
    assert found.rows[7].failed is None


def test_a_failed_participant_needs_nothing_but_a_name_and_keeps_what_is_known() -> None:
    told = {**person(303, success=False, error="timeout"), "predicted_items": {}}
    found = read(run({"participant_id": 302, "success": False}, told))
    assert [row.failed for row in found.rows[:8]] == ["the run of this participant failed"] * 8
    assert {row.truth for row in found.rows[:8]} == {None}
    assert {(row.failed, row.truth) for row in found.rows[8:]} == {("timeout", 1)}


def test_another_questionnaire_brings_its_scale_and_is_not_called_phq8() -> None:
    answers = {"A": 4, "B": 0}
    content = run(person(ground_truth_items=answers, predicted_items=answers, item_signals={}))
    content["scale"] = {"items": ["A", "B"], "lowest": 0, "highest": 4}
    found = read(content)
    assert found.suite == found.task.name == "questionnaire"
    assert list(dict(found.task.answers)) == [0, 1, 2, 3, 4]
    assert (found.task.ordered, found.task.default_loss) == (True, "abs_norm")
    assert len(found.rows) == 2


def test_the_mode_is_required_and_checked() -> None:
    content = run(person())
    content["experiments"] += run(person(), mode="zero_shot")["experiments"]
    assert read(content, "zero_shot").mode == "zero_shot"
    with pytest.raises(UserError, match="several experiments; name one by --mode: few_shot, zero_"):
        read(content)
    with pytest.raises(UserError, match="no experiment of mode 'other'; it has: few_shot, zero_"):
        read(content, "other")
    content["experiments"] += run(person())["experiments"]
    with pytest.raises(UserError, match="2 experiments of mode 'few_shot'"):
        read(content, "few_shot")


def _in_person(path: list[Any], value: Any) -> Any:
    def change(content: Any) -> None:
        target = content["experiments"][0]["results"]["results"][0]
        for part in path[:-1]:
            target = target[part]
        if value is ...:
            del target[path[-1]]
        else:
            target[path[-1]] = value

    return change


def _at(path: list[Any], value: Any) -> Any:
    def change(content: Any) -> None:
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
        (_in_person(["participant_id"], 302), "participant 302 appears twice"),
        (_in_person(["item_signals", "Sleep"], 3), "item Sleep: item_signals must be"),
        (
            _in_person(["items_without_answer"], {"Sleep": "malformed_reply: cut off"}),
            "item Sleep: items_without_answer must name an item whose prediction is null",
        ),
        (_in_person(["items_without_answer"], {"Moving": "timeout: x"}), "malformed_reply, .*not"),
        (_in_person(["items_without_answer"], ["Moving"]), "items_without_answer must be an obj"),
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
        (_at(["scale"], {"items": ["A"], "lowest": 0, "highest": 10**9}), "scale must look like"),
    ],
)
def test_a_bad_file_is_one_sentence_that_names_the_place(change: Any, message: str) -> None:
    content = copy.deepcopy(run(person(301), person(302)))
    change(content)
    with pytest.raises(UserError, match=message) as caught:
        read(content)
    assert "\n" not in str(caught.value)


def test_a_mode_that_nobody_names_is_refused() -> None:
    content = run(person())
    for part in ("provenance", "results"):
        content["experiments"][0][part]["mode"] = None
    with pytest.raises(UserError, match="names no mode"):
        read(content)


def finished(mode: str, repeats: int = 1, backend: Any = None) -> PlainRun:
    suite = PHQ8Suite(CONFIG, mode=mode)
    backend = backend or Lexicon(temperature=0.7 if repeats > 1 else 0.0)
    benchmark = Benchmark(suite, backend, execution=Execution(repeats=repeats))
    rows = collapse_repeats(benchmark.run().evaluation_results)
    return PlainRun(
        "phq8", suite.task.facts(), [plain_row(row) for row in rows], "run-1", "abc", mode
    )


def test_the_file_has_the_form_of_the_run_format() -> None:
    content = PHQ8RunFile.content([finished("zero_shot"), finished("few_shot", 3)])
    assert content["run_metadata"]["run_id"] == "run-1"
    assert content["run_metadata"]["git_commit"] == "abc"
    assert [one["provenance"]["mode"] for one in content["experiments"]] == [
        "zero_shot",
        "few_shot",
    ]
    few_shot = content["experiments"][1]["results"]
    assert few_shot["mode"] == "few_shot"
    assert len(few_shot["results"]) == 4
    for result in few_shot["results"]:
        assert result["success"] is True
        for part in ("ground_truth_items", "predicted_items", "item_signals"):
            assert list(result[part]) == list(ITEM_KEYS)
        for key in ITEM_KEYS:
            signals = result["item_signals"][key]
            assert signals["verbalized_confidence"] in {1, 2, 3, 4, 5}
            assert len(signals["consistency_samples"]) == 3
            assert signals["llm_evidence_count"] >= (result["predicted_items"][key] is not None)
            assert {"retrieval_reference_count", "retrieval_similarity_mean"} <= set(signals)
            assert "evidence_quotes" not in signals


def test_what_is_written_is_read_back() -> None:
    written = finished("few_shot", 3)
    found = read(json.loads(json.dumps(PHQ8RunFile.content([written]))))
    assert (found.mode, found.run_id, found.task) == (written.mode, written.run_id, TASK.facts())
    for row, original in zip(found.rows, written.rows, strict=True):
        assert (row.cluster_id, row.item) == (original.cluster_id, original.item)
        assert (row.truth, row.prediction) == (original.truth, original.prediction)
        assert row.signals["stated_confidence"] == original.signals["stated_confidence"]


def test_a_participant_with_a_failed_call_is_not_a_success() -> None:
    rows = [
        PlainRow("300", key, 1, None, failed="no\nanswer", failure_class="timeout")
        if key == "Moving"
        else PlainRow("300", key, 1, None)
        for key in ITEM_KEYS
    ]
    content = PHQ8RunFile.content([PlainRun("phq8", TASK.facts(), rows, mode="zero_shot")])
    (result,) = content["experiments"][0]["results"]["results"]
    assert result["success"] is False
    assert result["error"] == "Moving: timeout: no answer"
    assert result["ground_truth_items"] == dict.fromkeys(ITEM_KEYS, 1)
    assert content["experiments"][0]["results"]["n_failed"] == 1


def test_a_failing_model_makes_participants_without_success() -> None:
    def broken(request: ChatRequest) -> str:
        raise BackendError("unreachable")

    content = PHQ8RunFile.content([finished("zero_shot", backend=ScriptedBackend(broken))])
    found = content["experiments"][0]["results"]["results"]
    assert [one["success"] for one in found] == [False] * 4
    assert "unreachable (and 7 more items)" in found[0]["error"]


def test_a_reply_without_an_answer_is_no_failure_of_the_participant() -> None:
    def broken(request: ChatRequest) -> str:
        raise ContentFiltered("reply withheld")

    written = finished("zero_shot", backend=ScriptedBackend(broken))
    content = json.loads(json.dumps(PHQ8RunFile.content([written])))
    found = content["experiments"][0]["results"]["results"]
    assert [one["success"] for one in found] == [True] * 4
    assert found[0]["predicted_items"] == dict.fromkeys(ITEM_KEYS)
    assert set(found[0]["items_without_answer"]) == set(ITEM_KEYS)
    rows = result_of_plain_run(read(content)).evaluation_results
    assert {(row.outcome, row.failure_class) for row in rows} == {("no_answer", "content_filter")}


def test_two_experiments_of_one_mode_and_rows_of_other_suites_are_refused() -> None:
    nothing = PlainRun("phq8", TASK.facts(), [], mode="a")
    for runs in ([nothing, nothing], [], [PlainRun("phq8", TASK.facts(), [])]):
        with pytest.raises(InvalidValue, match="one experiment for each mode"):
            PHQ8RunFile.content(runs)
    with pytest.raises(InvalidValue, match="names no item"):
        PHQ8RunFile.content([PlainRun("phq8", TASK.facts(), [PlainRow("x", "", 1, 1)], mode="a")])


def test_the_runs_of_a_file_are_named_in_it() -> None:
    runs = [PlainRun("phq8", TASK.facts(), [], mode="a", provenance={"run": "A"})]
    assert PHQ8RunFile.run_names(PHQ8RunFile.content(runs)) == ["A"]
    assert PHQ8RunFile.run_names({}) == []

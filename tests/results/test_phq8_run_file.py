from __future__ import annotations

import json
from pathlib import Path

import pytest

from krisis.backends.baselines.rules import Lexicon
from krisis.backends.chat import ChatRequest
from krisis.backends.scripted import ScriptedBackend
from krisis.benchmark import Benchmark
from krisis.data.base import SuiteConfig
from krisis.data.phq8.items import ITEM_KEYS
from krisis.data.phq8.suite import PHQ8Suite
from krisis.errors import ContentFiltered, InvalidFile, InvalidValue
from krisis.execution.options import Execution
from krisis.metrics.base import EvaluationResult
from krisis.results.phq8_run_file import Experiment, run_file_content, write_run_file

CONFIG = SuiteConfig(n_synthetic=20)


def rows(mode: str, repeats: int = 1) -> list[EvaluationResult]:
    suite = PHQ8Suite(CONFIG, mode=mode)
    backend = Lexicon(temperature=0.7 if repeats > 1 else 0.0)
    benchmark = Benchmark(suite, backend, execution=Execution(repeats=repeats))
    return list(benchmark.run().evaluation_results)


def test_the_file_has_the_form_of_the_run_format() -> None:
    content = run_file_content(
        "run-1",
        [Experiment("zero_shot", rows("zero_shot")), Experiment("few_shot", rows("few_shot", 3))],
        metadata={"git_commit": "abc"},
    )
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


def test_a_participant_with_a_failed_call_is_not_a_success() -> None:
    failed = [
        EvaluationResult(
            None, 1, record_id=f"300-{key}", cluster_id="300", metadata={"item": key},
            error="no\nanswer" if key == "Moving" else None, failure_class="timeout",
            abstained=key != "Moving",
        )
        for key in ITEM_KEYS
    ]  # fmt: skip
    content = run_file_content("r", [Experiment("zero_shot", failed)])
    (result,) = content["experiments"][0]["results"]["results"]
    assert result["success"] is False
    assert result["error"] == "Moving: timeout: no answer"
    assert result["ground_truth_items"] == dict.fromkeys(ITEM_KEYS, 1)
    assert content["experiments"][0]["results"]["n_failed"] == 1


def test_a_failing_model_makes_participants_without_success() -> None:
    def broken(request: ChatRequest) -> str:
        raise ContentFiltered("no answer for you")

    suite = PHQ8Suite(CONFIG)
    results = Benchmark(suite, ScriptedBackend(broken)).run().evaluation_results
    content = run_file_content("r", [Experiment("zero_shot", results)])
    found = content["experiments"][0]["results"]["results"]
    assert [one["success"] for one in found] == [False] * 4
    assert "content_filter: no answer for you (and 7 more items)" in found[0]["error"]


def test_the_file_is_strict_json_and_never_overwritten_unasked(tmp_path: Path) -> None:
    content = run_file_content("r", [Experiment("zero_shot", rows("zero_shot"))])
    path = tmp_path / "run.json"
    write_run_file(path, content)
    assert json.loads(path.read_text())["experiments"][0]["results"]["n_participants"] == 4
    with pytest.raises(InvalidFile, match="exists already"):
        write_run_file(path, content)


def test_two_experiments_of_one_mode_and_rows_of_other_suites_are_refused() -> None:
    with pytest.raises(InvalidValue, match="one experiment for each mode"):
        run_file_content("r", [Experiment("a", []), Experiment("a", [])])
    with pytest.raises(InvalidValue, match="names no item"):
        run_file_content("r", [Experiment("a", [EvaluationResult(1, 1, record_id="x")])])

from __future__ import annotations

import json
from pathlib import Path

import pytest

from krisis import BenchmarkResult
from krisis.backends.catalogue import backend_from_name
from krisis.backends.chat import ChatReply, ChatRequest
from krisis.backends.scripted import ScriptedBackend
from krisis.benchmark import Benchmark
from krisis.data.base import PatientRecord, RecordListSuite
from krisis.errors import BackendError, InvalidFile, InvalidValue, RequestRefused
from krisis.execution.options import Execution
from krisis.execution.recorder import Recorder
from krisis.execution.replay import ReplayBackend


def by_turns(request: ChatRequest) -> ChatReply:
    if "0.93" in request.user:
        return ChatReply('{"abstained": true, "prediction": null, "confidence": null}', "stop")
    if "6.87" in request.user:
        raise RequestRefused("too ill", status=422)
    return ChatReply('{"abstained": false, "prediction": 3, "confidence": 0.7}', "stop", "m", 9, 4)


@pytest.fixture
def saved(suite: RecordListSuite, tmp_path: Path) -> tuple[Path, object]:
    result = Benchmark(suite, ScriptedBackend(by_turns), batch_size=1).run()
    path = tmp_path / "result.json"
    path.write_text(result.to_json(), encoding="utf-8")
    return path, result


def test_a_saved_result_is_replayed_row_by_row(
    suite: RecordListSuite, saved: tuple[Path, object]
) -> None:
    path, result = saved
    for backend in (backend_from_name(f"replay/{path}"), ReplayBackend(result.evaluation_results)):
        again = Benchmark(suite, backend, batch_size=2).run()
        assert [row.outcome for row in again.evaluation_results] == [
            *("answered", "abstained", "not_evaluated")
        ]
        for old, new in zip(result.evaluation_results, again.evaluation_results, strict=True):
            assert (old.prediction, old.confidence, old.prompt, old.signals, old.input_tokens) == (
                *(new.prediction, new.confidence, new.prompt, new.signals, new.input_tokens),
            )
    assert backend_from_name(f"replay/{path}").name == "replay/result.json"


def test_a_run_is_replayed(suite: RecordListSuite, tmp_path: Path) -> None:
    execution = Execution(recorder=Recorder(tmp_path))
    result = Benchmark(suite, ScriptedBackend(by_turns), batch_size=1, execution=execution).run()
    (run,) = list(tmp_path.glob("*.krisis"))
    again = Benchmark(suite, ReplayBackend(run)).run()
    assert [row.outcome for row in again.evaluation_results] == [
        row.outcome for row in result.evaluation_results
    ]
    assert again.evaluation_results[0].prompt == result.evaluation_results[0].prompt != ""
    for old, new in zip(result.evaluation_results, again.evaluation_results, strict=True):
        assert (old.model, old.finish_reason) == (new.model, new.finish_reason)
        assert old.failure_class == new.failure_class


def test_a_record_that_was_not_asked_is_a_failure_not_a_guess(saved: tuple[Path, object]) -> None:
    with pytest.raises(BackendError, match="has no record"):
        ReplayBackend(saved[0]).evaluate(PatientRecord({"sc": 1.0}, 2))


def test_what_is_not_a_saved_run_is_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(InvalidFile, match="does not exist"):
        ReplayBackend(tmp_path / "none.json")
    with pytest.raises(InvalidFile, match="is a folder"):
        ReplayBackend(tmp_path)
    path = tmp_path / "other.json"
    path.write_text(json.dumps({"metrics": {}}), encoding="utf-8")
    with pytest.raises(InvalidFile, match="is not a krisis result"):
        ReplayBackend(path)
    path.write_text(BenchmarkResult([], {}, {}).to_json(False), encoding="utf-8")
    with pytest.raises(InvalidFile, match="no evaluation_results"):
        ReplayBackend(path)
    with pytest.raises(InvalidValue, match="no rows"):
        ReplayBackend([])

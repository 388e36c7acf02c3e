"""What a suite takes out of responses, and what may not be kept of restricted records."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from krisis.backends.base import BackendResponse, BaseBackend
from krisis.backends.chat import ChatReply
from krisis.backends.elicitation import Asking, Elicitation, Way
from krisis.backends.scripted import ScriptedBackend
from krisis.benchmark import Benchmark
from krisis.data.base import PatientRecord, RecordListSuite, Task
from krisis.errors import RequestRefused
from krisis.execution.cache import ReplyCache
from krisis.execution.options import Execution

RECORDS = [PatientRecord({"x": x}, 1, record_id=f"r{x}") for x in range(3)]


class Quoting(BaseBackend):
    """Answers with text that quotes the record, and fails on the last one."""

    name = "quoting"

    def evaluate(self, record: PatientRecord) -> BackendResponse:
        if record.record_id == "r2":
            raise RequestRefused("secret words")
        return BackendResponse(1, raw_response="secret words", signals={"n_quotes": 2})


class Halving(RecordListSuite):
    def review(self, record: PatientRecord, signals: Mapping[str, Any]) -> Mapping[str, Any]:
        return {"n_quotes": signals["n_quotes"] / 2, "seen": record.record_id}


class Restricted(RecordListSuite):
    stores_text = False


def test_a_suite_sees_the_signals_of_every_response() -> None:
    result = Benchmark(Halving(RECORDS), Quoting()).run()
    assert [row.signals for row in result.evaluation_results[:2]] == [
        {"n_quotes": 1.0, "seen": "r0"},
        {"n_quotes": 1.0, "seen": "r1"},
    ]


def test_nothing_that_was_written_about_restricted_records_is_kept() -> None:
    result = Benchmark(Restricted(RECORDS), Quoting()).run()
    assert "secret" not in result.to_json()
    assert result.evaluation_results[2].error is not None
    assert result.evaluation_results[2].error.startswith("(text not stored")
    assert result.evaluation_results[2].failure_class == "refused_request"


@pytest.mark.parametrize(("kind", "n_kept"), [(Restricted, 0), (RecordListSuite, 3)])
def test_replies_about_restricted_records_are_not_cached(
    tmp_path: Path, kind: type[RecordListSuite], n_kept: int
) -> None:
    task = Task("sepsis", "Will this patient have sepsis?", {0: "no", 1: "yes"}, positive=1)
    text = '{"abstained": false, "prediction": 1, "confidence": 0.7}'
    backend = ScriptedBackend(lambda request: ChatReply(text, "stop", "script"))
    cache = ReplyCache(tmp_path / "replies.sqlite")
    Benchmark(
        kind(RECORDS, task=task), backend, batch_size=1, execution=Execution(cache=cache)
    ).run()
    assert cache.info().n_replies == n_kept
    cache.close()


def test_reasoning_about_restricted_records_is_not_kept() -> None:
    task = Task("sepsis", "Will this patient have sepsis?", {0: "no", 1: "yes"}, positive=1)
    text = '{"rationale": "secret", "abstained": false, "prediction": 1, "confidence": 0.7}'
    backend = ScriptedBackend(lambda request: ChatReply(text, "stop", "script"))
    backend.asking = Asking(elicit=Elicitation(Way.RATIONALE))
    kept = Benchmark(RecordListSuite(RECORDS, task=task), backend, [], 1).run()
    assert kept.evaluation_results[0].signals["rationale"] == "secret"
    result = Benchmark(Restricted(RECORDS, task=task), backend, [], 1).run()
    assert "secret" not in result.to_json()
    assert [row.signals["rationale_confidence"] for row in result.evaluation_results] == [0.7] * 3


def test_other_suites_keep_the_text() -> None:
    result = Benchmark(RecordListSuite(RECORDS), Quoting()).run()
    assert result.to_json().count("secret words") == 4  # three rows, one example

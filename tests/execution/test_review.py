from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from krisis.backends.base import BackendResponse, BaseBackend
from krisis.benchmark import Benchmark
from krisis.data.base import PatientRecord, RecordListSuite
from krisis.errors import RequestRefused

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


def test_other_suites_keep_the_text() -> None:
    result = Benchmark(RecordListSuite(RECORDS), Quoting()).run()
    assert result.to_json().count("secret words") == 4  # three rows, one example

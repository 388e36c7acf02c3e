"""The journal gives back what was written, whatever cut it off, and counts it while it grows."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from krisis.data.base import PatientRecord
from krisis.errors import InvalidFile
from krisis.metrics.base import EvaluationResult
from krisis.results.journal import Journal, JournalTail, Spent, read_journal
from krisis.results.stops import AccountRefused


@dataclass
class At:
    position: int
    record: PatientRecord = field(
        default_factory=lambda: PatientRecord({"x": 1}, 1, context="letter")
    )


ANSWERED = EvaluationResult(
    1, 1, confidence=0.5, prompt="template", record_id="a", input_tokens=3,
    model="m-2026-01", finish_reason="stop", latency_seconds=0.125, signals={"n": 1},
)  # fmt: skip
FAILED = EvaluationResult(
    None, 1, record_id="b", error="cut", failure_class="malformed_reply",
    model="m-2026-01", finish_reason="length", latency_seconds=2.0,
)  # fmt: skip


def written(path: Path) -> None:
    journal = Journal(path, stores_features=True)
    journal.append([At(0), At(1)], [ANSWERED, FAILED], Spent(n_calls=2, latencies_seconds=[0.1]))
    journal.note_spent(Spent(n_calls=1, lost_input_tokens=7))
    journal.note_stop(AccountRefused("402: the monthly budget is used up"))
    journal.close()


def test_rows_features_spending_and_stop_come_back_as_they_were(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    written(path)
    contents = read_journal(path)
    assert contents.in_order() == [ANSWERED, FAILED]
    assert contents.features[0] == {"x": 1, "context": "letter"}
    assert contents.spent == Spent(n_calls=3, lost_input_tokens=7, latencies_seconds=[0.1])
    assert contents.stop == AccountRefused("402: the monthly budget is used up")
    assert type(contents.stop) is AccountRefused


def test_a_later_session_forgets_the_stop_of_the_earlier_one(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    written(path)
    Journal(path).close()
    contents = read_journal(path)
    assert contents.stop is None
    assert contents.rows[1] == FAILED


def test_what_was_lost_was_paid_and_what_was_cached_was_not() -> None:
    spent = Spent(input_tokens=10, lost_input_tokens=3, cached_input_tokens=100)
    spent.add(Spent(output_tokens=5, lost_output_tokens=2, cached_output_tokens=100))
    assert spent.paid_tokens == (13, 7)


def test_the_time_of_a_run_is_that_of_all_its_sessions(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    times = [("session", 0.0), ("calls", 2.0), ("calls", 2.5), ("session", 0.0), ("calls", 4.0)]
    lines = [json.dumps({"kind": kind, "at": at, "calls": {}}) for kind, at in times]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert read_journal(path).elapsed_seconds == 6.5


def test_the_last_row_of_a_position_counts(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    written(path)
    journal = Journal(path)
    journal.append([At(1)], [ANSWERED], Spent())
    journal.close()
    assert read_journal(path).in_order() == [ANSWERED, ANSWERED]


def test_a_journal_that_is_not_there_is_empty(tmp_path: Path) -> None:
    assert read_journal(tmp_path / "none.jsonl").rows == {}


def test_an_unknown_kind_or_cause_is_refused_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    path.write_text('{"kind": "gossip"}\n')
    with pytest.raises(InvalidFile, match="line 1 is of the unknown kind 'gossip'"):
        read_journal(path)
    path.write_text('{"kind": "stop", "at": 1, "cause": "Boredom", "sentence": "x"}\n')
    with pytest.raises(InvalidFile, match="line 1: unknown stop cause 'Boredom'"):
        read_journal(path)


def test_a_tail_counts_outcomes_as_the_file_grows_and_reads_no_byte_twice(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    written(path)
    whole = path.read_bytes()
    tail = JournalTail()
    path.write_bytes(whole[: whole.index(b'"position": 1') + 5])
    assert tail.read_on(path) == {"answered": 1, "abstained": 0, "failed": 0}
    path.write_bytes(whole + b"not JSON\n")
    assert tail.read_on(path) == {"answered": 1, "abstained": 0, "failed": 1}
    assert tail.read_on(path) == {"answered": 1, "abstained": 0, "failed": 1}

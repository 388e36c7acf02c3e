"""The journal gives back what was written, whatever cut it off, and counts it while it grows."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from krisis.data.base import PatientRecord
from krisis.metrics.base import EvaluationResult
from krisis.results.cases import Cases
from krisis.results.journal import Journal, CallTotals
from krisis.results.journal_lines import pieces, sealed
from krisis.results.journal_reading import JournalTail, mend, read_journal
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
    journal.append([At(0), At(1)], [ANSWERED, FAILED], CallTotals(n_calls=2, latencies_seconds=[0.1]))
    journal.note_spent(CallTotals(n_calls=1, lost_input_tokens=7))
    journal.note_stop(AccountRefused("402: the monthly budget is used up"))
    journal.close()


def test_rows_features_spending_and_stop_come_back_as_they_were(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    written(path)
    contents = read_journal(path)
    assert contents.in_order() == [ANSWERED, FAILED]
    assert contents.features[0] == {"x": 1, "context": "letter"}
    assert contents.spent == CallTotals(n_calls=3, lost_input_tokens=7, latencies_seconds=[0.1])
    assert contents.stop == AccountRefused("402: the monthly budget is used up")
    assert type(contents.stop) is AccountRefused


def test_a_call_of_which_no_line_tells_the_end_is_charged_at_its_bound(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    journal = Journal(path)
    spent = CallTotals(input_tokens=50, output_tokens=5)
    for bound in ((900, 100), (700.5, 100)):
        journal.note_sent(*bound)
        spent.send(*bound)
    journal.note_sent(600, 80)  # in progress when the process is killed
    journal.append([At(0)], [ANSWERED], spent)
    journal.close()
    found = read_journal(path).spent
    assert (found.n_calls, found.n_calls_without_usage) == (3, 1)
    assert (found.paid_tokens, found.most_tokens) == ((50, 5), (650, 85))

    text = path.read_bytes()
    path.write_bytes(text.replace(b'"record_id": "a"', b'"record_id": "b"'))
    found = read_journal(path).spent  # what the damaged row says of its calls is not believed
    assert (found.n_calls, found.most_tokens) == (3, (2201, 280))


def test_a_later_session_forgets_the_stop_of_the_earlier_one(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    written(path)
    Journal(path).close()
    contents = read_journal(path)
    assert contents.stop is None
    assert contents.rows[1] == FAILED


def test_what_was_lost_was_paid_and_what_was_cached_was_not() -> None:
    spent = CallTotals(input_tokens=10, lost_input_tokens=3, cached_input_tokens=100)
    spent.add(CallTotals(output_tokens=5, lost_output_tokens=2, cached_output_tokens=100))
    assert spent.paid_tokens == (13, 7)


def test_the_time_of_a_run_is_that_of_all_its_sessions(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    times = [("session", 0.0), ("calls", 2.0), ("calls", 2.5), ("session", 0.0), ("calls", 4.0)]
    path.write_bytes(b"".join(sealed({"kind": kind, "at": at}) for kind, at in times))
    assert read_journal(path).elapsed_seconds == 6.5


def test_the_last_row_of_a_position_counts(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    written(path)
    journal = Journal(path)
    journal.append([At(1)], [ANSWERED], CallTotals())
    journal.close()
    assert read_journal(path).in_order() == [ANSWERED, ANSWERED]


def test_a_journal_that_is_not_there_is_empty(tmp_path: Path) -> None:
    assert read_journal(tmp_path / "none.jsonl").rows == {}


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (sealed({"kind": "gossip"}), "it is of an unknown kind"),
        (
            sealed({"kind": "stop", "at": 1, "cause": "Boredom", "sentence": "x"}),
            "its content is not that of a journal line",
        ),
        (sealed({"kind": "row"}), "its content is not that of a journal line"),
        (b'{"kind": "session", "at": 0.0}\n', "its checksum is wrong"),
        (b"[1]\n", "its checksum is wrong"),
        (b"\xff\xfe\n", "its checksum is wrong"),
    ],
)
def test_what_is_no_line_of_a_journal_is_damage_and_the_rest_counts(
    tmp_path: Path, line: bytes, reason: str
) -> None:
    path = tmp_path / "rows.jsonl"
    written(path)
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join([*lines[:2], line, *lines[2:]]))
    contents = read_journal(path)
    assert [(one.line, one.reason) for one in contents.damage] == [(3, reason)]
    assert contents.in_order() == [ANSWERED, FAILED]
    assert contents.spent.n_calls == 3


CASES = Cases.of((row.record_id, row.cluster_id, row.ground_truth) for row in (ANSWERED, FAILED))


@pytest.mark.parametrize(
    ("position", "row", "reason"),
    [
        (10_000, ANSWERED, "its position is outside the run"),
        (-1, ANSWERED, "its position is outside the run"),
        (True, ANSWERED, "its position is outside the run"),
        (1, ANSWERED, "its record, patient or right answer is not the one of its position"),
        (0, replace(ANSWERED, ground_truth=0), "its record, patient or right answer"),
        (0, replace(ANSWERED, ground_truth="1"), "its record, patient or right answer"),
        (0, replace(ANSWERED, cluster_id="other"), "its record, patient or right answer"),
    ],
)
def test_a_row_of_another_run_is_damage_though_its_line_is_intact(
    tmp_path: Path, position: int, row: EvaluationResult, reason: str
) -> None:
    path = tmp_path / "rows.jsonl"
    written(path)
    journal = Journal(path)
    journal.append([At(position)], [row], CallTotals(n_calls=5))
    journal.close()
    contents = read_journal(path, CASES)
    assert [one.reason.startswith(reason) for one in contents.damage] == [True]
    assert contents.in_order() == [ANSWERED, FAILED]
    assert contents.spent.n_calls == 3


def test_lines_whose_newline_was_lost_are_both_intact(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    written(path)
    whole = path.read_bytes()
    (*_, last) = [piece for piece in pieces(path) if (piece.content or {})["kind"] == "row"]
    path.write_bytes(whole[: last.start - 1] + b"x" + whole[last.start :])
    contents = read_journal(path, CASES)
    assert contents.in_order() == [ANSWERED, FAILED]
    assert len(contents.damage) == 1
    path.write_bytes(whole[: last.start - 1] + whole[last.start :])
    assert read_journal(path, CASES).in_order() == [ANSWERED, FAILED]
    assert read_journal(path, CASES).damage == []


def test_mending_moves_damage_beside_the_journal_and_loses_no_byte(tmp_path: Path) -> None:
    path, aside = tmp_path / "rows.jsonl", tmp_path / "rows.damaged.jsonl"
    written(path)
    whole = path.read_bytes()
    spoiled = whole.replace(b'"record_id": "b"', b'"record_id": "B"')
    path.write_bytes(spoiled + b"torn")
    damage = read_journal(path, CASES).damage
    before = path.read_bytes()
    mend(path, damage, aside)
    assert aside.read_bytes().split(b"\n")[1:] == [b"torn", b""]
    contents = read_journal(path, CASES)
    assert (contents.damage, contents.n_set_aside, contents.in_order()) == ([], 2, [ANSWERED])
    assert contents.loss.startswith("Mended: 2 damaged lines of rows.jsonl set aside")
    kept = sorted([*path.read_bytes().splitlines()[:-1], *aside.read_bytes().splitlines()])
    assert kept == sorted(before.splitlines())
    # A mending that was cut off before its last step is repeated: nothing is set aside twice.
    path.write_bytes(before)
    mend(path, damage, aside)
    assert len(aside.read_bytes().splitlines()) == 2


def test_a_template_survives_damage_to_one_of_its_lines(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    written(path)
    path.write_bytes(path.read_bytes().replace(b"template", b"Template", 1))
    contents = read_journal(path)
    assert len(contents.damage) == 1
    assert contents.rows[0].prompt == "template"


def counts(n_no_answer: int) -> dict[str, int]:
    return {"answered": 1, "abstained": 0, "no_answer": n_no_answer, "not_evaluated": 0}


def test_a_tail_counts_outcomes_as_the_file_grows_and_reads_no_byte_twice(tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl"
    written(path)
    whole = path.read_bytes()
    tail = JournalTail()
    path.write_bytes(whole[: whole.index(b'"position": 1') + 5])
    assert tail.read_on(path) == counts(0)
    path.write_bytes(whole + b"not JSON\n")
    assert tail.read_on(path) == counts(1)
    assert tail.read_on(path) == counts(1)
    path.write_bytes(whole[: whole.index(b'"position": 1') + 5])
    assert tail.read_on(path) == counts(0)

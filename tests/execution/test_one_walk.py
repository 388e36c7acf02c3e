"""What one record passes on its way, each thing done once: load, hash, prompt, row."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from tests.invented_runs import edit_run

from krisis import Benchmark, PatientRecord
from krisis.backends import chat
from krisis.backends.chat import ChatReply, ChatRequest
from krisis.backends.scripted import ScriptedBackend
from krisis.data import patient_record
from krisis.data.base import RecordListSuite, Task
from krisis.data.ckd.suite import CKDSuite
from krisis.errors import AuthenticationFailed, OutOfCredit, RequestRefused
from krisis.execution.assembly import assemble
from krisis.execution.config import checked_config
from krisis.execution.options import Execution
from krisis.execution.pacing.prices import Price
from krisis.execution.recorder import Recorder
from krisis.results.stops import AccountRefused, KeyRefused, RequestsRefused, StopCause, Unfinished
from krisis.runs.load import list_runs, load_run, read_description
from krisis.runs.read import open_run

TASK = Task("sepsis", "Will this patient have sepsis?", {0: "no", 1: "yes"}, positive=1)
ANSWER = '{"abstained": false, "prediction": 1, "confidence": 0.7}'


def suite_of(n: int) -> RecordListSuite:
    records = [PatientRecord({"lactate": 1 + i}, 1, record_id=f"r{i}") for i in range(n)]
    return RecordListSuite(records, task=TASK)


def reply(text: str = ANSWER, **fields: object) -> ChatReply:
    return ChatReply(text, "stop", "script-2026-01", **fields)  # type: ignore[arg-type]


def test_the_prompt_of_a_call_is_built_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[tuple[object, ...]] = []
    build = chat.build_prompt

    def counting(task, cases, **options):  # type: ignore[no-untyped-def]
        built.append(tuple(case["lactate"] for case in cases))
        return build(task, cases, **options)

    monkeypatch.setattr(chat, "build_prompt", counting)
    execution = Execution(recorder=Recorder(tmp_path))
    Benchmark(
        suite_of(5), ScriptedBackend(lambda r: reply()), batch_size=1, execution=execution
    ).run()
    # Each prompt once; and once the text without any value, for the identity and the leak check.
    assert Counter(built) == {(1,): 1, (2,): 1, (3,): 1, (4,): 1, (5,): 1, (None,): 1}


def test_the_suite_is_loaded_once_and_hashed_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loads, hashes = [], []
    load, records_hash = CKDSuite.load, patient_record.records_hash
    monkeypatch.setattr(CKDSuite, "load", lambda self: loads.append(1) or load(self))
    monkeypatch.setattr(
        patient_record, "records_hash", lambda r: hashes.append(1) or records_hash(r)
    )
    config = checked_config({"suite": "ckd", "model": "guideline"}, "here")
    parts = assemble(config)
    execution = Execution(recorder=Recorder(tmp_path))
    benchmark = Benchmark(parts.suite, parts.backend, execution=execution)
    result = benchmark.run(parts.records, suite_description=parts.description)
    assert (len(loads), len(hashes)) == (1, 1)
    (run,) = list_runs(tmp_path)
    assert read_description(run).identity.data == result.provenance.content_hash
    assert result.provenance.suite_content_hash == result.provenance.content_hash


def test_model_finish_reason_and_latency_of_each_reply_reach_row_journal_and_result(
    tmp_path: Path,
) -> None:
    def script(request: ChatRequest) -> ChatReply:
        if "2" in request.user:
            return ChatReply('{"abst', "length", "script-2026-02", latency_seconds=0.5)
        return reply(latency_seconds=0.25)

    execution = Execution(recorder=Recorder(tmp_path))
    result = Benchmark(
        suite_of(3), ScriptedBackend(script), batch_size=1, execution=execution
    ).run()
    (run,) = list_runs(tmp_path)
    for rows in (result.evaluation_results, load_run(run).evaluation_results):
        first, cut, _ = rows
        assert (first.model, first.finish_reason) == ("script-2026-01", "stop")
        assert (first.latency_seconds, first.failure_class) == (0.25, "")
        assert (cut.model, cut.finish_reason) == ("script-2026-02", "length")
        assert (cut.latency_seconds, cut.failure_class) == (0.5, "malformed_reply")
    assert result.provenance.models_answered == {"script-2026-01": 2, "script-2026-02": 1}
    assert result.provenance.model == "scripted"


def test_the_facts_of_the_task_are_kept_with_the_run(tmp_path: Path) -> None:
    execution = Execution(recorder=Recorder(tmp_path))
    result = Benchmark(suite_of(1), ScriptedBackend(lambda r: reply()), execution=execution).run()
    (run,) = list_runs(tmp_path)
    edit_run(run, "DELETE FROM scores")
    for made in (result.provenance, load_run(run).provenance):
        assert made.task == "sepsis"
        assert made.task_facts is not None
        assert made.task_facts.answers == ((0, "no"), (1, "yes"))
        assert made.task_facts.positive == 1
        assert made.task_facts.default_loss == "error"


def test_without_usage_tokens_and_cost_are_unknown_and_not_zero() -> None:
    prices = {"scripted/*": Price(1.0, 2.0)}
    silent = Benchmark(
        suite_of(2),
        ScriptedBackend(lambda r: reply()),
        batch_size=1,
        execution=Execution(prices=prices),
    ).run()
    assert silent.spending.token_total is None
    assert silent.spending.cost is None
    assert str(silent.spending.cost_unknown).endswith("2 of 2 calls did not report their tokens")
    assert silent.extras["cost"] is None
    speaking = Benchmark(
        suite_of(2),
        ScriptedBackend(lambda r: reply(input_tokens=10, output_tokens=5)),
        batch_size=1,
        execution=Execution(prices=prices),
    ).run()
    assert (speaking.spending.token_total, speaking.spending.cost_unknown) == (30, None)
    assert speaking.spending.cost == pytest.approx((20 * 1 + 10 * 2) / 1e6)


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (OutOfCredit("402: monthly budget used up"), AccountRefused),
        (AuthenticationFailed("403: no budget for this key"), KeyRefused),
    ],
)
def test_a_refusal_in_the_middle_is_kept_by_its_type_in_the_run_and_its_result(
    tmp_path: Path, error: Exception, cause: type[StopCause]
) -> None:
    def script(request: ChatRequest) -> ChatReply:
        if "4" in request.user:
            raise error
        return reply()

    execution = Execution(recorder=Recorder(tmp_path))
    result = Benchmark(
        suite_of(6), ScriptedBackend(script), batch_size=1, execution=execution
    ).run()
    (run,) = list_runs(tmp_path)
    assert type(result.stop) is cause
    assert "budget" in result.stop.sentence
    with open_run(run) as opened:
        assert opened.contents().stop == result.stop
    assert load_run(run).stop == result.stop
    edit_run(run, "DELETE FROM scores")  # as if it had been killed before the scores
    assert load_run(run).stop == result.stop


def test_a_first_request_that_is_refused_is_kept_as_the_cause(tmp_path: Path) -> None:
    def script(request: ChatRequest) -> ChatReply:
        raise RequestRefused("404: no such model")

    execution = Execution(recorder=Recorder(tmp_path))
    with pytest.raises(RequestRefused):
        Benchmark(suite_of(6), ScriptedBackend(script), execution=execution).run()
    (run,) = list_runs(tmp_path)
    assert isinstance(load_run(run).stop, RequestsRefused)


def test_the_cause_quotes_no_provider_where_no_text_may_be_stored(tmp_path: Path) -> None:
    def script(request: ChatRequest) -> ChatReply:
        raise RequestRefused("400: the patient said odd things")

    suite = suite_of(2)
    suite.stores_text = False
    execution = Execution(recorder=Recorder(tmp_path))
    with pytest.raises(RequestRefused):
        Benchmark(suite, ScriptedBackend(script), execution=execution).run()
    assert b"odd things" not in list_runs(tmp_path)[0].read_bytes()


def test_a_run_without_scores_or_cause_is_unfinished(tmp_path: Path) -> None:
    execution = Execution(recorder=Recorder(tmp_path))
    Benchmark(suite_of(2), ScriptedBackend(lambda r: reply()), execution=execution).run()
    (run,) = list_runs(tmp_path)
    assert load_run(run).stop is None
    edit_run(run, "DELETE FROM scores")
    assert isinstance(load_run(run).stop, Unfinished)
    assert load_run(run).spending.n_api_calls == 3  # a batch, then its halves

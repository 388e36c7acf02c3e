"""`Benchmark`: order, batches, halving, failures as rows, the figures of a run."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from krisis import BackendResponse, BaseBackend, Benchmark, BenchmarkResult, PatientRecord, Task
from krisis.backends.chat import ChatBackend, ChatReply, ChatRequest, PromptMode
from krisis.data.base import RecordListSuite
from krisis.errors import (
    AuthenticationFailed,
    BackendError,
    ContentFiltered,
    InvalidValue,
    MalformedReply,
    MissingKey,
    OutOfCredit,
    PromptWithheld,
    RequestRefused,
    TruncatedReply,
)
from krisis.execution.cache import ReplyCache
from krisis.execution.options import Execution
from krisis.results.stops import AccountRefused, Interrupted, KeyRefused, UnusableConfidence


def some_records(n: int) -> list[PatientRecord]:
    return [PatientRecord({"x": i}, i % 2, record_id=f"r{i}") for i in range(n)]


def failure(result: BenchmarkResult, position: int) -> tuple[str, str]:
    row = result.evaluation_results[position]
    return row.failure_class, str(row.error)


class Parity(BaseBackend):
    """Implements `evaluate` alone."""

    name = "parity"

    def evaluate(self, record: PatientRecord) -> BackendResponse:
        return BackendResponse(record.features["x"] % 2, confidence=0.9)


class BatchParity(Parity):
    """Takes batches, and can be told which of them to spoil."""

    def __init__(self, spoil: int = 0) -> None:
        self.sizes: list[int] = []
        self.spoil = spoil

    def evaluate_batch(self, records: Sequence[PatientRecord]) -> list[BackendResponse]:
        self.sizes.append(len(records))
        if len(records) > self.spoil > 0:
            raise MalformedReply("spoiled", input_tokens=10, output_tokens=2)
        return [
            BackendResponse(
                record.features["x"] % 2, input_tokens=5, output_tokens=1, prompt_mode="batch"
            )
            for record in records
        ]


def test_a_backend_with_evaluate_alone_runs_and_keeps_the_order() -> None:
    records = some_records(21)
    result = Benchmark(RecordListSuite(records), Parity(), max_concurrency=4).run()
    assert [row.record_id for row in result.evaluation_results] == [r.record_id for r in records]
    assert result.metric_scores["accuracy"].value == 1.0
    assert result.extras["n_api_batches"] == 3
    assert result.extras["n_api_calls"] == 21


def test_it_runs_inside_a_running_event_loop() -> None:
    async def notebook() -> int:
        return len(Benchmark(RecordListSuite(some_records(3)), Parity()).run().evaluation_results)

    assert asyncio.run(notebook()) == 3


def test_the_stop_button_of_a_notebook_keeps_what_is_finished() -> None:
    class Slow(Parity):
        def evaluate(self, record: PatientRecord) -> BackendResponse:
            if record.features["x"] == 5:
                main = threading.main_thread().ident
                assert main is not None
                signal.pthread_kill(main, signal.SIGINT)
            time.sleep(0.01)
            return super().evaluate(record)

    async def notebook() -> Any:
        return Benchmark(RecordListSuite(some_records(500)), Slow()).run()

    def interrupt(number: int, frame: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        result = asyncio.run(notebook())
    finally:
        signal.signal(signal.SIGINT, before)
    assert result.stop == Interrupted("interrupted")
    assert result.extras["stopped"] == "interrupted"
    assert result.extras["stop_cause"] == "Interrupted"
    assert 5 <= len(result.evaluation_results) < 500


def test_run_async_can_be_awaited() -> None:
    result = asyncio.run(Benchmark(RecordListSuite(some_records(3)), Parity()).run_async())
    assert len(result.evaluation_results) == 3


def test_output_order_is_input_order_when_later_batches_finish_first() -> None:
    class Slowest(Parity):
        def evaluate(self, record: PatientRecord) -> BackendResponse:
            time.sleep(0.05 if record.features["x"] == 0 else 0.0)
            return super().evaluate(record)

    result = Benchmark(RecordListSuite(some_records(9)), Slowest(), None, 1, 3).run()
    assert [row.record_id for row in result.evaluation_results] == [f"r{i}" for i in range(9)]


def test_at_most_max_concurrency_calls_are_in_flight() -> None:
    class Counting(Parity):
        def __init__(self) -> None:
            self.lock, self.now, self.most = threading.Lock(), 0, 0

        def evaluate(self, record: PatientRecord) -> BackendResponse:
            with self.lock:
                self.now += 1
                self.most = max(self.most, self.now)
            time.sleep(0.005)
            with self.lock:
                self.now -= 1
            return super().evaluate(record)

    backend = Counting()
    Benchmark(RecordListSuite(some_records(24)), backend, None, 2, 3).run()
    assert backend.most == 3


def test_a_malformed_batch_is_halved_until_it_can_be_read() -> None:
    backend = BatchParity(spoil=2)
    result = Benchmark(RecordListSuite(some_records(8)), backend, batch_size=8).run()
    assert backend.sizes == [8, 4, 2, 2, 4, 2, 2]
    assert [row.outcome for row in result.evaluation_results] == ["answered"] * 8
    assert result.extras["n_batch_splits"] == 3
    assert (result.extras["lost_input_tokens"], result.extras["lost_output_tokens"]) == (30, 6)
    # 40 and 8 of the replies that were read, with those of the three that were not.
    assert (result.extras["input_tokens"], result.extras["output_tokens"]) == (70, 14)


def test_a_wrong_number_of_responses_is_malformed() -> None:
    class Short(BatchParity):
        def evaluate_batch(self, records: Sequence[PatientRecord]) -> list[BackendResponse]:
            return super().evaluate_batch(records)[: 1 if len(records) > 1 else None]

    result = Benchmark(RecordListSuite(some_records(5)), Short(), batch_size=5).run()
    assert [row.prediction for row in result.evaluation_results] == [0, 1, 0, 1, 0]


def test_a_failure_is_a_row_and_takes_no_other_record_with_it() -> None:
    class Moody(Parity):
        def evaluate(self, record: PatientRecord) -> BackendResponse:
            if record.features["x"] == 2:
                raise ZeroDivisionError("no creatinine")
            return super().evaluate(record)

    result = Benchmark(RecordListSuite(some_records(5)), Moody()).run()
    assert [row.outcome for row in result.evaluation_results].count("not_evaluated") == 1
    assert failure(result, 2) == ("backend", "ZeroDivisionError: no creatinine")
    assert result.attrition.n_lost == 1
    assert result.metric_scores["accuracy"].n_evaluated == 4


def test_an_error_inside_a_users_batch_fails_only_its_record() -> None:
    class Moody(BatchParity):
        def evaluate(self, record: PatientRecord) -> BackendResponse:
            if record.features["x"] == 3:
                raise KeyError("sc")
            return super().evaluate(record)

        def evaluate_batch(self, records: Sequence[PatientRecord]) -> list[BackendResponse]:
            return [self.evaluate(record) for record in records]

    result = Benchmark(RecordListSuite(some_records(8)), Moody()).run()
    failed = [row.record_id for row in result.evaluation_results if row.outcome == "not_evaluated"]
    assert failed == ["r3"]


def test_a_missing_key_ends_the_run_at_once() -> None:
    class Keyless(Parity):
        def evaluate(self, record: PatientRecord) -> BackendResponse:
            raise MissingKey("set OPENAI_API_KEY")

    with pytest.raises(MissingKey, match="OPENAI_API_KEY"):
        Benchmark(RecordListSuite(some_records(5)), Keyless()).run()


@pytest.mark.parametrize("name", ["batch_size", "max_concurrency"])
@pytest.mark.parametrize("value", [0, -1, 1.5, True])
def test_sizes_below_one_are_refused(name: str, value: Any) -> None:
    with pytest.raises(ValueError, match=name):
        Benchmark(RecordListSuite(some_records(1)), Parity(), **{name: value})


def test_equal_records_get_distinct_names_and_a_name_given_twice_is_refused() -> None:
    twins = [PatientRecord({"x": 1}, 0), PatientRecord({"x": 1}, 0)]
    rows = Benchmark(RecordListSuite(twins), Parity()).run().evaluation_results
    first, second = rows
    assert second.record_id == f"{first.record_id}-2"
    assert second.cluster_id == second.record_id
    same = [PatientRecord({"x": x}, 0, record_id="p1") for x in (1, 2)]
    with pytest.raises(ValueError, match="record_id 'p1' appears twice"):
        Benchmark(RecordListSuite(same), Parity()).run()


def test_no_records_is_an_error() -> None:
    with pytest.raises(ValueError, match="no records"):
        Benchmark(RecordListSuite([]), Parity()).run()


def test_repeats_ask_every_record_again_under_its_own_cluster() -> None:
    benchmark = Benchmark(
        RecordListSuite(some_records(3)), Parity(), execution=Execution(repeats=2)
    )
    rows = benchmark.run().evaluation_results
    assert [row.record_id for row in rows] == ["r0", "r1", "r2"] * 2
    assert [row.metadata.get("sample_index", 0) for row in rows] == [0, 0, 0, 1, 1, 1]
    assert {row.cluster_id for row in rows} == {"r0", "r1", "r2"}


class Chat(ChatBackend):
    """A model on this side of the wire: it answers the parity of x."""

    name = "chat"
    provider = "test"
    model = "parity-1"
    retry_base_seconds = 0.001

    def __init__(self, *, leak: bool = False) -> None:
        self.leak = leak
        self.contexts: list[str] = []
        self.failures: list[BackendError] = []

    def build(
        self,
        cases: Sequence[Mapping[str, Any]],
        *,
        mode: PromptMode,
        sample_index: int = 0,
        context: str = "",
    ) -> ChatRequest:
        user = context + ";".join(str(case["x"]) for case in cases)
        template = user if self.leak else f"x of {len(cases)} cases, 1234 words"
        self.contexts.append(context)
        return ChatRequest(self.provider, self.model, "", user, {}, {}, mode, template, len(cases))

    async def complete(self, request: ChatRequest) -> ChatReply:
        if self.failures:
            raise self.failures.pop()
        return ChatReply(request.user, input_tokens=10 * request.n_records, output_tokens=1)

    def read(self, request: ChatRequest, reply: ChatReply) -> list[BackendResponse]:
        return [
            BackendResponse(
                int(float(x)) % 2,
                prompt=request.template,
                prompt_mode=request.mode,
                input_tokens=10,
                output_tokens=1,
            )
            for x in reply.text.split(";")
        ]


def test_a_chat_backend_is_driven_step_by_step_and_its_template_is_kept_once() -> None:
    result = Benchmark(RecordListSuite(some_records(5)), Chat(), batch_size=2).run()
    assert result.metric_scores["accuracy"].value == 1.0
    extras = result.extras
    assert extras["prompt_templates"] == ["x of 2 cases, 1234 words", "x of 1 cases, 1234 words"]
    assert extras["prompt_modes"] == ["batch", "single"]
    assert extras["n_prompts_captured"] == 5
    assert extras["prompt_data_policy"] == "redacted"
    rows = result.evaluation_results
    assert rows[0].prompt is rows[3].prompt


def test_a_value_that_the_template_holds_by_chance_is_no_leak() -> None:
    records = [PatientRecord({"x": 1234}, 0)]
    result = Benchmark(RecordListSuite(records), Chat()).run()
    assert result.evaluation_results[0].outcome == "answered"


@pytest.mark.parametrize("value", [121.4, 7125])
def test_a_prompt_that_shows_a_patient_value_is_withheld(value: float) -> None:
    records = [PatientRecord({"x": value}, 0, record_id="r7")]
    with pytest.warns(PromptWithheld, match=r"r7.*'x'"):
        Benchmark(RecordListSuite(records), Chat(leak=True)).run()


def test_a_prompt_that_shows_the_text_about_a_patient_is_withheld() -> None:
    class Quoting(Parity):
        def evaluate(self, record: PatientRecord) -> BackendResponse:
            return BackendResponse(0, prompt=f"Read this: {record.context}")

    records = [PatientRecord({"x": 1}, 0, record_id="r7", context="I sleep badly.")]
    with pytest.warns(PromptWithheld, match=r"r7.*'context'"):
        Benchmark(RecordListSuite(records), Quoting()).run()


def test_a_plain_backend_may_not_store_a_patient_value_either() -> None:
    class Telling(Parity):
        def evaluate(self, record: PatientRecord) -> BackendResponse:
            return BackendResponse(0, prompt=f"creatinine {record.features['x']}?")

    with pytest.warns(PromptWithheld):
        Benchmark(RecordListSuite([PatientRecord({"x": 1.234}, 0)]), Telling()).run()


def test_retryable_errors_are_retried_and_counted() -> None:
    backend = Chat()
    backend.failures = [_retryable(), _retryable()]
    result = Benchmark(RecordListSuite(some_records(1)), backend).run()
    assert result.evaluation_results[0].outcome == "answered"
    assert (result.extras["n_api_calls"], result.extras["n_retries"]) == (3, 2)
    assert result.extras["lost_input_tokens"] == 14


def _retryable() -> BackendError:
    from krisis.errors import ProviderUnavailable

    return ProviderUnavailable("503", input_tokens=7)


def test_a_single_case_that_is_malformed_is_asked_once_more() -> None:
    backend = Chat()
    backend.failures = [MalformedReply("no JSON")]
    result = Benchmark(RecordListSuite(some_records(1)), backend).run()
    assert result.evaluation_results[0].outcome == "answered"
    backend.failures = [MalformedReply("no JSON"), MalformedReply("no JSON")]
    result = Benchmark(RecordListSuite(some_records(1)), backend).run()
    assert failure(result, 0) == ("malformed_reply", "no JSON")


def test_a_single_truncated_reply_is_not_asked_again() -> None:
    backend = Chat()
    backend.failures = [TruncatedReply("cut; raise the cap")]
    result = Benchmark(RecordListSuite(some_records(1)), backend).run()
    assert failure(result, 0) == ("malformed_reply", "cut; raise the cap")
    assert result.extras["n_api_calls"] == 1


def test_a_key_that_is_revoked_during_the_run_leaves_the_rest_for_later() -> None:
    class Revoked(Chat):
        async def complete(self, request: ChatRequest) -> ChatReply:
            if request.user == "3":
                raise AuthenticationFailed("401: check the key", status=401)
            return await super().complete(request)

    result = Benchmark(RecordListSuite(some_records(9)), Revoked(), batch_size=1).run()
    assert isinstance(result.stop, KeyRefused)
    assert "does not accept the key" in result.extras["stopped"]
    assert [row.record_id for row in result.evaluation_results] == ["r0", "r1", "r2"]
    assert result.attrition.n_loaded == 9


def test_an_account_that_runs_dry_leaves_the_rest_for_later() -> None:
    class Dry(Chat):
        async def complete(self, request: ChatRequest) -> ChatReply:
            if request.user == "3":
                raise OutOfCredit("402: add credit", status=402)
            return await super().complete(request)

    result = Benchmark(RecordListSuite(some_records(9)), Dry(), batch_size=1).run()
    assert isinstance(result.stop, AccountRefused)
    assert "does not accept the account: 402: add credit" in result.extras["stopped"]
    assert len(result.evaluation_results) == 3
    assert result.attrition.n_lost == 0


@pytest.mark.parametrize("batch", [False, True])
def test_a_backend_that_runs_out_of_answers_fails_its_rows_and_does_not_hang(batch: bool) -> None:
    class Finite(Parity):
        def __init__(self) -> None:
            self.answers = iter([1, 0])

        def evaluate(self, record: PatientRecord) -> BackendResponse:
            return BackendResponse(next(self.answers))

    class FiniteBatch(Finite):
        def evaluate_batch(self, records: Sequence[PatientRecord]) -> list[BackendResponse]:
            return [self.evaluate(record) for record in records]

    result = Benchmark(RecordListSuite(some_records(4)), FiniteBatch() if batch else Finite()).run()
    assert result.attrition.n_lost >= 2
    errors = [str(row.error) for row in result.evaluation_results if row.error]
    assert all("StopIteration: the backend gave no answer" in error for error in errors)


def test_something_else_than_a_response_is_a_failed_row() -> None:
    class Forgetful(Parity):
        def evaluate(self, record: PatientRecord) -> BackendResponse:
            if record.features["x"] == 2:
                return None  # type: ignore[return-value]
            return super().evaluate(record)

    result = Benchmark(RecordListSuite(some_records(4)), Forgetful()).run()
    assert [row.outcome for row in result.evaluation_results].count("not_evaluated") == 1
    assert "returned NoneType" in str(result.evaluation_results[2].error)


@pytest.mark.parametrize(
    ("given", "kept"), [(True, 1), (np.int64(2), 2), (1.0, 1), (np.str_("a"), "a"), (None, None)]
)
def test_a_prediction_is_kept_as_a_row_can_be_read_back(given: Any, kept: Any) -> None:
    prediction = BackendResponse(given).prediction
    assert prediction == kept
    assert type(prediction) is type(kept)


@pytest.mark.parametrize(
    ("given", "kept"), [(1.5, "1.5"), (np.float32(1.5), "1.5"), (float("inf"), "inf")]
)
def test_a_number_that_is_not_whole_is_kept_and_is_no_answer(given: Any, kept: str) -> None:
    class Between(Parity):
        def evaluate(self, record: PatientRecord) -> BackendResponse:
            return BackendResponse(given) if record.record_id == "r1" else super().evaluate(record)

    suite = RecordListSuite(some_records(3), Task("parity", "Odd?", {0: "no", 1: "yes"}))
    rows = Benchmark(suite, Between()).run().evaluation_results
    assert [row.outcome for row in rows] == ["answered", "no_answer", "answered"]
    assert rows[1].prediction == kept
    assert kept in str(rows[1].error)


@pytest.mark.parametrize(
    "fields",
    [
        {"prediction": [1]},
        {"prediction": 1, "raw_response": {"answer": 1}},
    ],
)
def test_a_response_that_no_row_can_hold_is_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidValue):
        BackendResponse(**fields)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("input_tokens", 2.5),
        ("output_tokens", -1),
        ("latency_seconds", "fast"),
    ],
)
def test_a_side_field_that_cannot_be_used_is_dropped_and_counted(name: str, value: Any) -> None:
    class Odd(Parity):
        def evaluate(self, record: PatientRecord) -> BackendResponse:
            return BackendResponse(0, **{name: value})

    result = Benchmark(RecordListSuite([PatientRecord({"x": 1}, 0)]), Odd()).run()
    (row,) = result.evaluation_results
    assert (row.outcome, row.prediction, getattr(row, name, None)) == ("answered", 0, None)
    assert result.spending.n_dropped_fields == 1


class Sure(BaseBackend):
    """States one confidence on every case, and remembers which it was asked about."""

    def __init__(self, confidence: object) -> None:
        self.confidence, self.asked = confidence, list[str]()

    def evaluate(self, record: PatientRecord) -> BackendResponse:
        self.asked.append(record.record_id)
        return BackendResponse(0, confidence=self.confidence)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("confidence", "named"),
    [
        (80, "80"),
        (-1, "-1"),
        ("0.8", "'0.8'"),
        (float("nan"), "nan"),
        (True, "True"),
        ({"patient": "Jane Doe"}, "a dict"),
        ("Jane Doe, born 1950", "a str"),
    ],
)
def test_a_confidence_that_cannot_be_used_ends_the_run_before_its_next_call(
    confidence: object, named: str
) -> None:
    records = [PatientRecord({"x": x}, 0, record_id=f"p{x}") for x in range(3)]
    backend = Sure(confidence)
    result = Benchmark(RecordListSuite(records), backend).run()
    assert backend.asked == ["p0"]
    (row,) = result.evaluation_results
    assert (row.outcome, row.prediction, row.confidence) == ("answered", 0, None)
    assert isinstance(result.stop, UnusableConfidence)
    assert result.stop.exit_code == 2
    assert str(result.stop) == (
        f"the backend gave the confidence {named} for the record 'p0'; return a number between 0 "
        "and 1, or None where there is none"
    )


@pytest.mark.parametrize("confidence", [None, 0, 1.0, np.float32(0.5)])
def test_a_confidence_that_can_be_used_or_is_missing_ends_nothing(confidence: object) -> None:
    records = [PatientRecord({"x": x}, 0, record_id=f"p{x}") for x in range(3)]
    result = Benchmark(RecordListSuite(records), Sure(confidence)).run()
    assert (result.stop, result.attrition.n_answered) == (None, 3)


def test_a_refused_request_after_a_success_is_that_records_own() -> None:
    class Picky(Chat):
        async def complete(self, request: ChatRequest) -> ChatReply:
            if request.user == "3":
                raise RequestRefused("400: too long", status=400)
            return await super().complete(request)

    result = Benchmark(RecordListSuite(some_records(9)), Picky(), batch_size=1).run()
    assert failure(result, 3) == ("refused_request", "400: too long")
    assert result.attrition.n_lost == 1


@pytest.mark.parametrize(
    ("error", "failure_class", "words"),
    [
        (ContentFiltered("withheld"), "content_filter", "withheld"),
        (
            ZeroDivisionError("odd"),
            "malformed_reply",
            "the reply cannot be read: ZeroDivisionError",
        ),
    ],
)
def test_whatever_happens_while_reading_a_reply_is_a_row(
    error: Exception, failure_class: str, words: str
) -> None:
    class Unreadable(Chat):
        def read(self, request: ChatRequest, reply: ChatReply) -> list[BackendResponse]:
            raise error

    result = Benchmark(RecordListSuite(some_records(1)), Unreadable()).run()
    assert failure(result, 0)[0] == failure_class
    assert failure(result, 0)[1].startswith(words)


def test_a_reply_that_the_reader_stumbles_over_was_paid_all_the_same() -> None:
    class Unreadable(Chat):
        def read(self, request: ChatRequest, reply: ChatReply) -> list[BackendResponse]:
            raise ZeroDivisionError("odd")

    spending = Benchmark(RecordListSuite(some_records(1)), Unreadable()).run().spending
    assert spending.n_api_calls == 2  # a single case is asked once more
    assert (spending.lost_input_tokens, spending.lost_output_tokens) == (20, 2)


def test_a_kept_reply_that_can_no_longer_be_read_is_asked_for_again(tmp_path: Path) -> None:
    execution = Execution(cache=ReplyCache(tmp_path / "replies.sqlite"))
    suite = RecordListSuite(some_records(3))
    Benchmark(suite, Chat(), execution=execution).run()

    class Stricter(Chat):
        def read(self, request: ChatRequest, reply: ChatReply) -> list[BackendResponse]:
            if reply.headers.get("fresh") is None:
                raise MalformedReply("of an older kind")
            return super().read(request, reply)

        async def complete(self, request: ChatRequest) -> ChatReply:
            reply = await super().complete(request)
            reply.headers = {"fresh": "yes"}
            return reply

    result = Benchmark(suite, Stricter(), execution=execution).run()
    assert (result.extras["n_api_calls"], result.extras["n_cache_hits"]) == (1, 0)
    assert result.attrition.n_lost == 0


def test_groups_travel_whole_under_their_own_context() -> None:
    records = [
        PatientRecord({"x": i}, 0, record_id=f"r{i}", group=group)
        for i, group in enumerate("aabbb")
    ]
    backend = BatchParity()
    Benchmark(RecordListSuite(records), backend, batch_size=4).run()
    assert backend.sizes == [2, 3]


def test_a_context_is_handed_to_the_prompt_once_per_batch() -> None:
    class Contextual(Chat):
        def read(self, request: ChatRequest, reply: ChatReply) -> list[BackendResponse]:
            return [BackendResponse(0, prompt=request.template) for _ in range(request.n_records)]

    records = [
        PatientRecord({"x": i}, 0, record_id=f"r{i}", context=text)
        for i, text in enumerate(["one", "one", "two"])
    ]
    backend = Contextual()
    Benchmark(RecordListSuite(records), backend, batch_size=8).run()
    assert [text for text in backend.contexts if text != "withheld"] == ["one", "two"]


def test_bad_values_in_a_record_raise_before_anything_is_sent() -> None:
    with pytest.raises(InvalidValue):
        Execution(repeats=0)

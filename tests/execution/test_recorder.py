"""Run directories: what is in them, taking them up again, and refusing the wrong ones."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.invented_runs import edit_run, only_run

from krisis import BackendResponse, BaseBackend, Benchmark, BenchmarkResult, PatientRecord
from krisis.data.base import RecordListSuite, SuiteConfig
from krisis.errors import (
    InvalidFile,
    InvalidValue,
    MalformedReply,
    ProviderUnavailable,
    RunConflict,
    RunFailed,
)
from krisis.execution.options import Execution
from krisis.execution.pacing.budget import Limits
from krisis.execution.recorder import Recorder
from krisis.execution.stopping import Stop
from krisis.results.call_totals import CallTotals
from krisis.results.report import format_report
from krisis.results.stops import BudgetReached, Interrupted, Unfinished
from krisis.runs.load import list_runs, load_run, read_description
from krisis.runs.places import WriterLock
from krisis.runs.read import open_run


def some_records(n: int) -> list[PatientRecord]:
    return [PatientRecord({"x": i, "note": "febrile"}, i % 2, record_id=f"r{i}") for i in range(n)]


class Parity(BaseBackend):
    """Answers the parity of x, remembers whom it was asked about, fails or stops on demand."""

    name, retry_base_seconds = "parity", 0.001

    def __init__(self, *, failing: frozenset[int] = frozenset(), model: str = "a") -> None:
        self.asked: list[int] = []
        self.failing = failing
        self.model = model
        self.stop_at: tuple[int, Stop] | None = None

    def identity(self) -> dict[str, object]:
        return {"backend": self.name, "model": self.model}

    def evaluate(self, record: PatientRecord) -> BackendResponse:
        x = record.features["x"]
        self.asked.append(x)
        if self.stop_at is not None and x == self.stop_at[0]:
            self.stop_at[1].request_from_outside(Interrupted("the test had enough"))
        if x in self.failing:
            raise ProviderUnavailable("gone")
        return BackendResponse(
            x % 2, abstained=x % 5 == 4, confidence=0.75, prompt="a template", input_tokens=3
        )


def run(
    backend: BaseBackend,
    recorder: Recorder,
    *,
    n: int = 20,
    stop: Stop | None = None,
    **options: int,
) -> BenchmarkResult:
    suite = RecordListSuite(some_records(n), config=SuiteConfig(seed=options.pop("seed", 42)))
    batch_size = options.pop("batch_size", 4)
    execution = Execution(recorder=recorder, stop=stop, **options)
    return Benchmark(suite, backend, batch_size=batch_size, execution=execution).run()


def has_scores(path: Path) -> bool:
    with open_run(path) as opened:
        return opened.scores() is not None


def totals_of(path: Path) -> CallTotals:
    with open_run(path) as opened:
        return opened.contents().totals


def start_and_stop(out: Path, at: int = 9) -> Path:
    stop, backend = Stop(), Parity()
    backend.stop_at = at, stop
    result = run(backend, Recorder(out), stop=stop)
    assert result.extras["stopped"] == "the test had enough"
    return only_run(out)


def test_a_run_reads_back_as_the_result_that_was_returned(tmp_path: Path) -> None:
    result = run(Parity(failing=frozenset({3})), Recorder(tmp_path))
    path = only_run(tmp_path)
    loaded = load_run(path)
    assert loaded.evaluation_results == list(result.evaluation_results)
    assert loaded.to_dict()["metric_scores"] == result.to_dict()["metric_scores"]
    assert loaded.attrition == result.attrition
    assert format_report(loaded).startswith("1 of 20 records NOT EVALUATED")


def test_the_path_is_named_after_time_suite_model_and_an_id(tmp_path: Path) -> None:
    run(Parity(), Recorder(tmp_path))
    time, suite, model, run_id = only_run(tmp_path).stem.split("_")
    assert (len(time), suite, model, len(run_id)) == (16, "records", "parity", 6)


def test_the_run_says_what_was_run(tmp_path: Path) -> None:
    run(Parity(model="b"), Recorder(tmp_path, config={"suite": "records"}))
    manifest = read_description(only_run(tmp_path))
    assert manifest.identity.backend == {"backend": "parity", "model": "b"}
    assert manifest.config == {"suite": "records"}
    assert manifest.n_cases == 20
    assert manifest.versions["krisis"]


def test_rows_hold_no_features_unless_asked_for(tmp_path: Path) -> None:
    run(Parity(), Recorder(tmp_path / "without"))
    assert b"febrile" not in only_run(tmp_path / "without").read_bytes()
    run(Parity(), Recorder(tmp_path / "with", store_features=True))
    with open_run(only_run(tmp_path / "with")) as opened:
        assert opened.features()[7] == {"x": 7, "note": "febrile"}


def test_a_stopped_run_is_resumed_without_asking_anyone_twice(tmp_path: Path) -> None:
    whole = run(Parity(), Recorder(tmp_path / "whole"))
    path = start_and_stop(tmp_path / "cut")
    settled = {row.record_id for row in load_run(path).evaluation_results}
    assert 0 < len(settled) < 20
    backend = Parity()
    result = run(backend, Recorder.resume(path))
    assert not settled & {f"r{x}" for x in backend.asked}
    assert list(result.evaluation_results) == list(whole.evaluation_results)
    assert result.to_dict()["metric_scores"] == whole.to_dict()["metric_scores"]
    assert result.extras["n_api_calls"] == 20
    assert result.extras["input_tokens"] == 60
    assert "stopped" not in result.extras


def test_resuming_a_finished_run_asks_nobody(tmp_path: Path) -> None:
    run(Parity(), Recorder(tmp_path))
    backend = Parity()
    result = run(backend, Recorder.resume(only_run(tmp_path)))
    assert backend.asked == []
    assert len(result.evaluation_results) == 20


def test_retry_failed_asks_only_the_failed_ones(tmp_path: Path) -> None:
    run(Parity(failing=frozenset({3, 12})), Recorder(tmp_path))
    path = only_run(tmp_path)
    backend = Parity()
    result = run(backend, Recorder.resume(path, retry_failed=True))
    assert sorted(backend.asked) == [3, 12]
    assert result.attrition.n_lost == 0
    assert load_run(path).attrition.n_lost == 0


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"backend": Parity(model="b")}, "backend.model was 'a' and is 'b'"),
        ({"seed": 1}, "seed was 42 and is 1"),
        ({"n": 19}, "n_records was 20 and is 19"),
        ({"repeats": 2}, "repeats was 1 and is 2"),
        ({"batch_size": 2}, "batch_size was 4 and is 2"),
    ],
)
def test_another_run_is_refused_with_what_differs(
    tmp_path: Path, change: dict[str, object], field: str
) -> None:
    path = start_and_stop(tmp_path)
    before = path.read_bytes()
    with pytest.raises(RunConflict, match=field):
        run(**{"backend": Parity(), "recorder": Recorder.resume(path), **change})
    assert path.read_bytes() == before


def test_a_run_has_one_writer_at_a_time(tmp_path: Path) -> None:
    path = start_and_stop(tmp_path)
    code = (
        "import sys, time; from pathlib import Path; "
        "from krisis.runs.places import WriterLock; "
        "lock = WriterLock(Path(sys.argv[1])); print('held', flush=True); time.sleep(60)"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(RunConflict, match="is being written by another process"):
            run(Parity(), Recorder.resume(path))
    finally:
        holder.kill()
        holder.communicate()
    assert len(run(Parity(), Recorder.resume(path)).evaluation_results) == 20


def test_a_lock_is_free_after_its_release(tmp_path: Path) -> None:
    lock = WriterLock(tmp_path / "a.krisis")
    lock.release()
    WriterLock(tmp_path / "a.krisis").release()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidFile, match="is a folder"):
        run(Parity(), Recorder.resume(tmp_path))
    with pytest.raises(InvalidFile, match="does not exist"):
        read_description(tmp_path / "absent")


def test_a_damaged_row_is_taken_out_and_its_record_asked_again(tmp_path: Path) -> None:
    whole = run(Parity(), Recorder(tmp_path))
    path = only_run(tmp_path)
    edit_run(path, "UPDATE rows SET confidence = 0.25 WHERE position = 4")
    edit_run(path, "UPDATE usage SET counts = '{}' WHERE id = 1")
    told: list[str] = []
    again = Parity()
    result = run(again, Recorder.resume(path, announce=told.append))
    assert again.asked == [4]
    assert list(result.evaluation_results) == list(whole.evaluation_results)
    assert told == [f"1 damaged row of {path} taken out; the records are asked again"]
    assert result.damage == "1 damaged line: calls, tokens and cost lack what was in them"
    assert load_run(path).evaluation_results == list(whole.evaluation_results)


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidFile, match="choose another folder"):
        run(Parity(), Recorder(tmp_path / "file" / "runs"))


def test_repeats_are_resumed_by_asking_not_by_record(tmp_path: Path) -> None:
    result = run(Parity(), Recorder(tmp_path), n=4, repeats=3)
    assert len(result.evaluation_results) == 12
    assert result.extras["agreement"]["mean_agreement"] == 1.0
    loaded = load_run(only_run(tmp_path))
    assert loaded.evaluation_results[0].signals["sample_agreement"] == 1.0


def test_what_a_model_wrote_cannot_break_the_run_file(tmp_path: Path) -> None:
    class Wild(Parity):
        def evaluate(self, record: PatientRecord) -> BackendResponse:
            return BackendResponse(0, raw_response='\ud800 \u2028 \x00 \n "')

    result = run(Wild(), Recorder(tmp_path), n=2)
    told = {row.raw_response for row in load_run(only_run(tmp_path)).evaluation_results}
    assert told == {'\\ud800 \u2028 \x00 \n "'}
    assert len(result.evaluation_results) == 2


def test_a_run_file_deleted_at_the_last_moment_is_noticed_too(tmp_path: Path) -> None:
    class Deleting(Parity):
        def evaluate(self, record: PatientRecord) -> BackendResponse:
            if record.features["x"] == 2:
                os.unlink(only_run(tmp_path))
            return super().evaluate(record)

    with pytest.raises(RunFailed, match="was deleted while the run"):
        run(Deleting(), Recorder(tmp_path), n=3)
    assert list_runs(tmp_path) == []


def test_a_deleted_run_file_ends_the_run_with_one_sentence(tmp_path: Path) -> None:
    import time

    class Deleting(Parity):
        def evaluate(self, record: PatientRecord) -> BackendResponse:
            if record.features["x"] == 2:
                os.unlink(only_run(tmp_path))
            time.sleep(0.05)
            return super().evaluate(record)

    with pytest.raises(Exception, match="was deleted while the run"):
        run(Deleting(), Recorder(tmp_path), n=60)


def test_what_was_paid_for_a_batch_that_is_left_for_later_is_not_forgotten(tmp_path: Path) -> None:
    stop = Stop()

    class Spoiled(Parity):
        def evaluate_batch(self, records: Sequence[PatientRecord]) -> list[BackendResponse]:
            stop.request(Interrupted("the test had enough"))
            raise MalformedReply("spoiled", input_tokens=100, output_tokens=7)

    result = run(Spoiled(), Recorder(tmp_path), stop=stop)
    assert (result.extras["n_api_calls"], result.extras["lost_input_tokens"]) == (1, 100)
    again = run(Parity(), Recorder.resume(only_run(tmp_path)))
    assert (again.extras["n_api_calls"], again.extras["lost_output_tokens"]) == (21, 7)


def test_a_resumed_run_has_only_what_is_left_of_its_budget(tmp_path: Path) -> None:
    """Ten rows took 3 tokens each, and the next may take as many: 33 in all."""
    path = start_and_stop(tmp_path)
    assert totals_of(path).paid_tokens == (30, 0)
    suite, backend = RecordListSuite(some_records(20), config=SuiteConfig(seed=42)), Parity()
    recorder = Recorder.resume(path)
    execution = Execution(recorder=recorder, limits=Limits(max_tokens=32))
    result = Benchmark(suite, backend, batch_size=4, execution=execution).run()
    assert isinstance(result.stop, BudgetReached)
    assert backend.asked == []


def test_old_scores_go_when_a_retry_changes_the_rows_and_stay_when_it_does_not(
    tmp_path: Path,
) -> None:
    run(Parity(failing=frozenset({3})), Recorder(tmp_path))
    path = only_run(tmp_path)
    run(Parity(), Recorder.resume(path))
    assert has_scores(path)

    class Seen(Parity):
        def evaluate(self, record: PatientRecord) -> BackendResponse:
            assert has_scores(path)
            return super().evaluate(record)

    recorder = Recorder.resume(path, retry_failed=True)
    recorder.finish = lambda result: None  # type: ignore[method-assign]  # killed before the end
    assert run(Seen(), recorder).attrition.n_lost == 0
    assert not has_scores(path)
    assert isinstance(load_run(path).stop, Unfinished)


def test_features_that_may_not_be_stored_leave_no_folder_behind(tmp_path: Path) -> None:
    suite = RecordListSuite(some_records(2))
    suite.stores_text = False
    recorder = Recorder(tmp_path / "runs", store_features=True)
    with pytest.raises(InvalidValue, match="may not be copied"):
        Benchmark(suite, Parity(), execution=Execution(recorder=recorder)).run()
    assert not (tmp_path / "runs").exists()

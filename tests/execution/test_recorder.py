"""Run directories: what is in them, taking them up again, and refusing the wrong ones."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

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
from krisis.results.journal_reading import read_journal
from krisis.results.lock import RunLock
from krisis.results.report import format_report
from krisis.results.stops import BudgetReached, Interrupted, Unfinished
from krisis.results.store import RunDirectory, list_runs, load_run, read_manifest


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


def only_run(out: Path) -> RunDirectory:
    (path,) = list_runs(out)
    return RunDirectory(path)


def start_and_stop(out: Path, at: int = 9) -> RunDirectory:
    stop, backend = Stop(), Parity()
    backend.stop_at = at, stop
    result = run(backend, Recorder(out), stop=stop)
    assert result.extras["stopped"] == "the test had enough"
    return only_run(out)


def test_a_run_directory_reads_back_as_the_result_that_was_returned(tmp_path: Path) -> None:
    result = run(Parity(failing=frozenset({3})), Recorder(tmp_path))
    directory = only_run(tmp_path)
    loaded = load_run(directory.path)
    assert loaded.evaluation_results == list(result.evaluation_results)
    assert loaded.to_dict()["metric_scores"] == result.to_dict()["metric_scores"]
    assert loaded.attrition == result.attrition
    assert format_report(loaded).startswith("1 of 20 records NOT EVALUATED")


def test_the_directory_is_named_after_time_suite_model_and_an_id(tmp_path: Path) -> None:
    run(Parity(), Recorder(tmp_path))
    time, suite, model, run_id = only_run(tmp_path).path.name.split("_")
    assert (len(time), suite, model, len(run_id)) == (16, "records", "parity", 6)


def test_the_manifest_says_what_was_run(tmp_path: Path) -> None:
    run(Parity(model="b"), Recorder(tmp_path, config={"suite": "records"}))
    manifest = read_manifest(only_run(tmp_path).path)
    assert manifest.identity.backend == {"backend": "parity", "model": "b"}
    assert manifest.config == {"suite": "records"}
    assert manifest.n_cases == 20
    assert manifest.versions["krisis"]


def test_rows_hold_no_features_unless_asked_for(tmp_path: Path) -> None:
    run(Parity(), Recorder(tmp_path / "without"))
    assert "febrile" not in only_run(tmp_path / "without").rows.read_text()
    run(Parity(), Recorder(tmp_path / "with", store_features=True))
    contents = read_journal(only_run(tmp_path / "with").rows)
    assert contents.features[7] == {"x": 7, "note": "febrile"}


def test_a_stopped_run_is_resumed_without_asking_anyone_twice(tmp_path: Path) -> None:
    whole = run(Parity(), Recorder(tmp_path / "whole"))
    directory = start_and_stop(tmp_path / "cut")
    settled = {row.record_id for row in load_run(directory.path).evaluation_results}
    assert 0 < len(settled) < 20
    backend = Parity()
    result = run(backend, Recorder.resume(directory.path))
    assert not settled & {f"r{x}" for x in backend.asked}
    assert list(result.evaluation_results) == list(whole.evaluation_results)
    assert result.to_dict()["metric_scores"] == whole.to_dict()["metric_scores"]
    assert result.extras["n_api_calls"] == 20
    assert result.extras["input_tokens"] == 60
    assert "stopped" not in result.extras


@pytest.mark.parametrize("cut", [1, 7, 60])
def test_a_torn_last_line_is_repaired(tmp_path: Path, cut: int) -> None:
    directory = start_and_stop(tmp_path)
    content = directory.rows.read_bytes()
    lines = content.splitlines(keepends=True)
    whole = b"".join(lines[:-2])
    directory.rows.write_bytes(whole + lines[-2][:-cut])  # the last row; -1 is the stop line
    n_before = len(read_journal(directory.rows).rows)
    result = run(Parity(), Recorder.resume(directory.path))
    assert len(result.evaluation_results) == 20
    assert n_before == whole.count(b'"kind": "row"') + (cut == 1)
    for line in directory.rows.read_bytes().splitlines():
        json.loads(line)


def test_every_cut_of_the_journal_can_be_resumed(tmp_path: Path) -> None:
    run(Parity(), Recorder(tmp_path))
    directory = only_run(tmp_path)
    content = directory.rows.read_bytes()
    for length in range(0, len(content), 397):
        directory.rows.write_bytes(content[:length])
        result = run(Parity(), Recorder.resume(directory.path))
        assert [row.record_id for row in result.evaluation_results] == [f"r{i}" for i in range(20)]


def test_resuming_a_finished_run_asks_nobody(tmp_path: Path) -> None:
    run(Parity(), Recorder(tmp_path))
    backend = Parity()
    result = run(backend, Recorder.resume(only_run(tmp_path).path))
    assert backend.asked == []
    assert len(result.evaluation_results) == 20


def test_retry_failed_asks_only_the_failed_ones(tmp_path: Path) -> None:
    run(Parity(failing=frozenset({3, 12})), Recorder(tmp_path))
    directory = only_run(tmp_path)
    backend = Parity()
    result = run(backend, Recorder.resume(directory.path, retry_failed=True))
    assert sorted(backend.asked) == [3, 12]
    assert result.attrition.n_lost == 0
    assert load_run(directory.path).attrition.n_lost == 0


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
    directory = start_and_stop(tmp_path)
    before = directory.rows.read_bytes()
    with pytest.raises(RunConflict, match=field):
        run(**{"backend": Parity(), "recorder": Recorder.resume(directory.path), **change})
    assert directory.rows.read_bytes() == before


def test_a_run_has_one_writer_at_a_time(tmp_path: Path) -> None:
    directory = start_and_stop(tmp_path)
    code = (
        "import sys, time; from pathlib import Path; "
        "from krisis.results.lock import RunLock; "
        "lock = RunLock(Path(sys.argv[1])); print('held', flush=True); time.sleep(60)"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", code, str(directory.path)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(RunConflict, match=f"pid {holder.pid}"):
            run(Parity(), Recorder.resume(directory.path))
    finally:
        holder.kill()
        holder.communicate()
    assert len(run(Parity(), Recorder.resume(directory.path)).evaluation_results) == 20


def test_a_lock_is_free_after_its_release(tmp_path: Path) -> None:
    lock = RunLock(tmp_path)
    lock.release()
    RunLock(tmp_path).release()


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidFile, match=r"no manifest\.json"):
        run(Parity(), Recorder.resume(tmp_path))
    with pytest.raises(InvalidFile, match="does not exist"):
        read_manifest(tmp_path / "absent")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema_version": 99}, "schema version 99"),
        ({"n_cases": 0}, "n_cases"),
        ({"surprise": 1}, "surprise"),
    ],
)
def test_an_edited_manifest_is_refused_by_field(
    tmp_path: Path, change: dict[str, object], message: str
) -> None:
    run(Parity(), Recorder(tmp_path))
    path = only_run(tmp_path).manifest
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))
    with pytest.raises(InvalidFile, match=message):
        read_manifest(path.parent)


@pytest.mark.parametrize("line", ['{"kind": "surprise"}', "[1]", '{"kind": "row"}', "nonsense"])
def test_a_damaged_line_is_set_aside_and_its_record_asked_again(tmp_path: Path, line: str) -> None:
    whole = run(Parity(), Recorder(tmp_path))
    directory = only_run(tmp_path)
    lines = directory.rows.read_text().splitlines()
    damaged, lines[4] = lines[4], line
    directory.rows.write_text("\n".join(lines) + "\n")
    assert [one.line for one in read_journal(directory.rows).damage] == [5]
    told: list[str] = []
    again = Parity()
    result = run(again, Recorder.resume(directory.path, announce=told.append))
    assert again.asked == [json.loads(damaged)["position"]]
    assert list(result.evaluation_results) == list(whole.evaluation_results)
    assert directory.damaged.read_text() == line + "\n"
    what = f"1 damaged line of {directory.rows} set aside in rows.damaged.jsonl"
    assert told == [f"{what}; records without a row are asked again"]
    assert result.damage.startswith("Mended: 1 damaged line of rows.jsonl set aside in")
    assert load_run(directory.path).damage == result.damage


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidFile, match="choose another folder"):
        run(Parity(), Recorder(tmp_path / "file" / "runs"))


def test_repeats_are_resumed_by_asking_not_by_record(tmp_path: Path) -> None:
    result = run(Parity(), Recorder(tmp_path), n=4, repeats=3)
    assert len(result.evaluation_results) == 12
    assert result.extras["agreement"]["mean_agreement"] == 1.0
    loaded = load_run(only_run(tmp_path).path)
    assert loaded.evaluation_results[0].signals["sample_agreement"] == 1.0


def test_what_a_model_wrote_cannot_break_the_journal(tmp_path: Path) -> None:
    class Wild(Parity):
        def evaluate(self, record: PatientRecord) -> BackendResponse:
            return BackendResponse(0, raw_response='\ud800 \u2028 \x00 \n "')

    result = run(Wild(), Recorder(tmp_path), n=2)
    assert load_run(only_run(tmp_path).path).evaluation_results == list(result.evaluation_results)


def test_a_journal_deleted_at_the_last_moment_is_noticed_too(tmp_path: Path) -> None:
    class Deleting(Parity):
        def evaluate(self, record: PatientRecord) -> BackendResponse:
            if record.features["x"] == 2:
                os.unlink(only_run(tmp_path).rows)
            return super().evaluate(record)

    with pytest.raises(RunFailed, match="was deleted while the run"):
        run(Deleting(), Recorder(tmp_path), n=3)
    assert not only_run(tmp_path).metrics.exists()


def test_a_deleted_journal_ends_the_run_with_one_sentence(tmp_path: Path) -> None:
    import time

    class Deleting(Parity):
        def evaluate(self, record: PatientRecord) -> BackendResponse:
            if record.features["x"] == 2:
                os.unlink(only_run(tmp_path).rows)
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
    again = run(Parity(), Recorder.resume(only_run(tmp_path).path))
    assert (again.extras["n_api_calls"], again.extras["lost_output_tokens"]) == (21, 7)


def test_a_resumed_run_has_only_what_is_left_of_its_budget(tmp_path: Path) -> None:
    """Ten rows took 3 tokens each, and the next may take as many: 33 in all."""
    directory = start_and_stop(tmp_path)
    assert read_journal(directory.rows).spent.paid_tokens == (30, 0)
    suite, backend = RecordListSuite(some_records(20), config=SuiteConfig(seed=42)), Parity()
    recorder = Recorder.resume(directory.path)
    execution = Execution(recorder=recorder, limits=Limits(max_tokens=32))
    result = Benchmark(suite, backend, batch_size=4, execution=execution).run()
    assert isinstance(result.stop, BudgetReached)
    assert backend.asked == []


def test_old_scores_go_when_a_retry_changes_the_rows_and_stay_when_it_does_not(
    tmp_path: Path,
) -> None:
    run(Parity(failing=frozenset({3})), Recorder(tmp_path))
    directory = only_run(tmp_path)
    run(Parity(), Recorder.resume(directory.path))
    assert directory.metrics.exists()

    class Seen(Parity):
        def evaluate(self, record: PatientRecord) -> BackendResponse:
            assert directory.metrics.exists()
            return super().evaluate(record)

    recorder = Recorder.resume(directory.path, retry_failed=True)
    recorder.finish = lambda result: None  # type: ignore[method-assign]  # killed before the end
    assert run(Seen(), recorder).attrition.n_lost == 0
    assert not directory.metrics.exists()
    assert isinstance(load_run(directory.path).stop, Unfinished)


def test_features_that_may_not_be_stored_leave_no_folder_behind(tmp_path: Path) -> None:
    suite = RecordListSuite(some_records(2))
    suite.stores_text = False
    recorder = Recorder(tmp_path / "runs", store_features=True)
    with pytest.raises(InvalidValue, match="may not be copied"):
        Benchmark(suite, Parity(), execution=Execution(recorder=recorder)).run()
    assert not (tmp_path / "runs").exists()

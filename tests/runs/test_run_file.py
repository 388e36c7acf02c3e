"""A run as one file: written by one thread, read by anybody, believed only where it is whole."""

from __future__ import annotations

import json
import os
import random
import shutil
import sqlite3
import stat
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from tests.commands import krisis

from krisis.errors import InvalidFile, KrisisError, RunConflict, RunFailed
from krisis.metrics.base import EvaluationResult
from krisis.results.call_totals import CallTotals
from krisis.results.stops import Interrupted
from krisis.runs import places, read, write
from krisis.runs.description import Identity, RunDescription
from krisis.runs.provider_batches import BatchRequest, ProviderBatch
from krisis.runs.read import open_run
from krisis.runs.schema import APPLICATION_ID, MAJOR, USER_VERSION
from krisis.runs.write import RowPlace, RunWriter, StoredCase, write_briefly

N = 40


def some_cases(n: int = N) -> list[StoredCase]:
    return [
        StoredCase(
            record_id=f"r{i}",
            cluster_id=f"p{i // 2}",
            label=i % 2,
            metadata={"should_abstain": i % 5 == 0, "sex": "female"},
            features={"creatinine": 1.0 + i},
            context="one visit",
        )
        for i in range(n)
    ]


def some_row(i: int) -> EvaluationResult:
    failed = i % 7 == 6
    return EvaluationResult(
        prediction=None if failed else (i + (i % 3 == 0)) % 2,
        ground_truth=i % 2,
        confidence=None if failed else 0.5 + (i % 5) / 10,
        raw_response="" if failed else f'{{"answer": {i}}}',
        prompt="A template with {creatinine}",
        prompt_mode="single",
        metadata=some_cases()[i].metadata,
        input_tokens=10 + i,
        output_tokens=3,
        record_id=f"r{i}",
        cluster_id=f"p{i // 2}",
        signals={"stated": 0.25, "why": "because"} if i % 2 else {},
        error="time-out" if failed else None,
        failure_class="timeout" if failed else "",
        model="m-1",
        finish_reason="stop",
        latency_seconds=0.5,
    )


def described(**changed: object) -> RunDescription:
    made = RunDescription(
        run_id="3fa94c",
        created_at="2026-01-02T03:04:05+00:00",
        backend_name="openai/m-1",
        n_cases=N,
        identity=Identity(n_records=N),
        suite_description={"suite": "ckd"},
        stores_features=True,
    )
    return made.model_copy(update=changed)


def written(path: Path, n_rows: int = N) -> Path:
    writer = RunWriter.create(path, described(), some_cases())
    writer.begin_session({"input_per_million": 1.0, "output_per_million": 2.0})
    for start in range(0, n_rows, 8):
        places_ = range(start, min(start + 8, n_rows))
        writer.note_call(100, 50).result()
        askings = [RowPlace(i, i) for i in places_]
        took = CallTotals(n_calls=1, input_tokens=7)
        took.reserved_input_tokens, took.reserved_output_tokens = 100, 50
        writer.append(askings, [some_row(i) for i in places_], took)
    writer.close()
    return path


@pytest.fixture
def run_file(tmp_path: Path) -> Path:
    return written(tmp_path / "runs" / "a.krisis")


@pytest.fixture
def network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write, "is_local", lambda folder: False)


def test_whoever_sees_a_new_file_sees_a_run(tmp_path: Path) -> None:
    """A reader that looks all the time while runs are made never finds something else."""
    found: list[str] = []
    seen: set[Path] = set()
    over = threading.Event()

    def look() -> None:
        while not over.is_set():
            for path in set(tmp_path.glob("*.krisis")) - seen:
                try:
                    with open_run(path) as run:
                        assert run.description.n_cases == N
                except KrisisError as error:
                    found.append(str(error))
                seen.add(path)

    thread = threading.Thread(target=look)
    thread.start()
    for number in range(40):
        RunWriter.create(tmp_path / f"{number}.krisis", described(), some_cases()).close()
    over.set()
    thread.join()
    assert found == []
    assert seen


def test_a_new_run_gets_its_name_when_it_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, seen = tmp_path / "a.krisis", []
    rename = Path.rename

    def look(self: Path, target: Path) -> Path:
        assert not path.exists()
        header = self.read_bytes()[:72]
        seen.append(int.from_bytes(header[68:72], "big"))
        assert stat.S_IMODE(self.stat().st_mode) == 0o600
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", look)
    (tmp_path / ".a.krisis.new").write_bytes(b"of a process that was killed")
    RunWriter.create(path, described(), some_cases()).close()
    assert seen == [APPLICATION_ID]
    assert [one.name for one in tmp_path.iterdir()] == ["a.krisis"]
    before = path.read_bytes()
    with pytest.raises(FileExistsError):
        RunWriter.create(path, described(), some_cases())
    assert path.read_bytes() == before


def test_what_was_written_is_read(run_file: Path) -> None:
    with open_run(run_file) as run:
        assert run.rows() == [some_row(i) for i in range(N)]
        assert run.row(3) == some_row(3)
        assert run.row(N) is None
        assert run.damage == ""
        assert run.description == described()
        case = run.case(4)
        assert case is not None
        assert case.features == {"creatinine": 5.0}
        assert case.context == "one visit"
        contents = run.contents()
        assert contents.totals.n_calls == 5
        assert contents.totals.n_calls_without_usage == 0
        assert contents.stop is None


def test_a_closed_run_is_one_private_file(run_file: Path) -> None:
    assert [one.name for one in run_file.parent.iterdir()] == ["a.krisis"]
    assert stat.S_IMODE(run_file.stat().st_mode) == 0o600
    assert stat.S_IMODE(run_file.parent.stat().st_mode) == 0o700
    header = run_file.read_bytes()[:100]
    assert header[18:20] == b"\1\1"  # no write-ahead log is needed to read it
    assert int.from_bytes(header[68:72], "big") == APPLICATION_ID


def test_the_settings_that_survive_a_power_cut(tmp_path: Path) -> None:
    writer = RunWriter.create(tmp_path / "a.krisis", described(), some_cases())
    found = {
        name: writer._connection.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("journal_mode", "synchronous", "fullfsync", "checkpoint_fullfsync")
    }
    writer.close()
    # 2 is FULL: https://www.sqlite.org/pragma.html#pragma_synchronous
    assert found == {
        "journal_mode": "wal",
        "synchronous": 2,
        "fullfsync": 1,
        "checkpoint_fullfsync": 1,
    }


@pytest.mark.usefixtures("network")
def test_on_a_network_there_is_no_write_ahead_log(tmp_path: Path) -> None:
    path = tmp_path / "a.krisis"
    writer = RunWriter.create(path, described(), some_cases())
    writer.begin_session({})
    writer.append([RowPlace(0, 0)], [some_row(0)], CallTotals())
    writer.flush()
    assert writer._connection.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    assert writer._connection.execute("PRAGMA synchronous").fetchone() == (3,)
    with open_run(path) as run:
        assert run.n_rows == 1
    writer.close()
    assert [one.name for one in tmp_path.iterdir()] == ["a.krisis"]


def test_what_is_not_known_counts_as_a_network(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(places, "_linux_type", lambda path: "nfs4")
    if sys.platform == "linux":
        assert not places.is_local(Path("/"))


def test_a_run_that_goes_on_is_read_from_another_process(tmp_path: Path) -> None:
    path = tmp_path / "a.krisis"
    writer = RunWriter.create(path, described(), some_cases())
    writer.begin_session({"input_per_million": 1e6, "output_per_million": 0.0})
    writer.append([RowPlace(6, 6)], [some_row(6)], CallTotals(n_calls=1, input_tokens=3))
    writer.append([RowPlace(1, 1)], [some_row(1)], CallTotals(n_calls=1, input_tokens=4))
    writer.flush()
    code = (
        "import sys; from krisis.runs.read import open_run\n"
        "with open_run(sys.argv[1]) as run:\n"
        "    seen = run.progress()\n"
        "    print(run.is_live, run.n_rows, dict(seen.outcomes)['answered'], seen.cost,"
        " dict(seen.failures))"
    )
    told = subprocess.run(
        [sys.executable, "-c", code, str(path)], capture_output=True, text=True, check=True
    )
    assert told.stdout.split(maxsplit=4) == ["True", "2", "1", "7.0", "{'timeout': 1}\n"]
    writer.append([RowPlace(2, 2)], [some_row(2)], CallTotals())
    writer.close()
    with open_run(path) as run:
        assert run.n_rows == 3
        assert not run.is_live


def test_a_second_writer_is_refused_and_the_first_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.krisis"
    writer = RunWriter.create(path, described(), some_cases())
    writer.begin_session({})
    with pytest.raises(RunConflict, match=f"pid {os.getpid()} on .+, since 20"):
        RunWriter.resume(path, described(), some_cases())
    writer.close()
    RunWriter.resume(path, described(), some_cases()).close()
    assert not list(tmp_path.glob("*-lock"))


def test_rows_of_a_later_session_replace_earlier_ones(run_file: Path) -> None:
    writer = RunWriter.resume(run_file, described(), some_cases())
    writer.begin_session({})
    writer.note_stop(Interrupted("enough"))
    writer.append([RowPlace(6, 6)], [replace(some_row(6), error=None, prediction=1)], CallTotals())
    writer.close()
    with open_run(run_file) as run:
        contents = run.contents()
    assert contents.rows[6].prediction == 1
    assert len(contents.rows) == N
    assert contents.stop == Interrupted("enough")


def test_repeats_and_other_forms_have_the_name_of_their_case(tmp_path: Path) -> None:
    path = tmp_path / "a.krisis"
    writer = RunWriter.create(path, described(n_cases=2 * N), some_cases())
    writer.begin_session({})
    again = replace(some_row(3), metadata={**some_row(3).metadata, "sample_index": 1})
    own = replace(some_row(3), metadata={"only": "here"})
    writer.append([RowPlace(N + 3, 3, 1), RowPlace(3, 3)], [again, own], CallTotals())
    writer.close()
    with open_run(path) as run:
        assert run.rows() == [own, again]
        assert [one["creatinine"] for one in run.features()] == [4.0, 4.0]
        # Only what its case does not say is kept with a row.
        assert run.select("SELECT count(*) FROM rows WHERE metadata IS NOT NULL") == [(1,)]


def test_a_text_is_stored_once(run_file: Path) -> None:
    with open_run(run_file) as run:
        n_replies = len({row.raw_response for row in run.rows()} - {""})
        assert run.select("SELECT count(*) FROM texts") == [(n_replies + 2,)]


def test_half_a_character_and_huge_numbers_do_not_stop_a_run(tmp_path: Path) -> None:
    path = tmp_path / "a.krisis"
    writer = RunWriter.create(path, described(), some_cases())
    writer.begin_session({})
    odd = replace(
        some_row(0), raw_response="half \ud83d", prediction=10**30, signals={"x": "\ud83d"}
    )
    writer.append([RowPlace(0, 0)], [odd], CallTotals())
    writer.close()
    with open_run(path) as run:
        row = run.row(0)
    assert row is not None
    assert row.raw_response == "half \\ud83d"
    assert row.prediction == str(10**30)
    assert row.signals == {"x": "\ud83d"}


def test_calls_without_an_end_are_charged_with_their_bound(tmp_path: Path) -> None:
    path = tmp_path / "a.krisis"
    writer = RunWriter.create(path, described(), some_cases())
    writer.begin_session({})
    writer.note_call(99.5, 20).result()
    writer.close()
    with open_run(path) as run:
        totals = run.contents().totals
    assert totals.most_tokens == (100, 20)
    assert totals.n_calls_without_usage == 1


def test_provider_batches_are_on_disk_when_noted(tmp_path: Path) -> None:
    path = tmp_path / "a.krisis"
    writer = RunWriter.create(path, described(), some_cases())
    writer.begin_session({})
    requests = (BatchRequest((0, 1), 10, 5), BatchRequest((2,), 20, 5))
    batch = ProviderBatch("marker", requests, "text", 1.5, number=1)
    writer.note_provider_batch(batch)
    batch.batch_id = "batch_7"
    writer.note_provider_batch(batch)
    with open_run(path) as run:
        log = run.contents().provider_batches
        assert log.open == [batch]
        assert log.pending({0: None, 1: None}) == (1, 20, 5)
    batch.end, batch.again = "collected", (requests[1],)
    writer.note_provider_batch(batch, CallTotals(n_calls=2))
    writer.close()
    with open_run(path) as run:
        log = run.contents().provider_batches
    assert log.open == []
    assert log.left({}) == [requests[1]]


def test_a_killed_run_opens_at_once_with_everything_that_was_committed(tmp_path: Path) -> None:
    code = (
        "import os, sys; from pathlib import Path\n"
        "sys.path.insert(0, sys.argv[2])\n"
        "from test_run_file import *\n"
        "writer = RunWriter.create(Path(sys.argv[1]), described(), some_cases())\n"
        "writer.begin_session({})\n"
        "writer.append([RowPlace(i, i) for i in range(9)], [some_row(i) for i in range(9)],"
        " CallTotals())\n"
        "writer.flush()\n"
        "os.kill(os.getpid(), 9)"
    )
    path = tmp_path / "a.krisis"
    subprocess.run([sys.executable, "-c", code, str(path), str(Path(__file__).parent)], check=False)
    assert (tmp_path / "a.krisis-wal").exists()
    with open_run(path) as run:
        assert run.n_rows == 9
        assert not run.is_live
    left = sorted(one.name for one in tmp_path.iterdir())
    assert left in (["a.krisis"], ["a.krisis", "a.krisis-lock"])


def test_a_copy_without_its_side_files_has_what_was_merged(tmp_path: Path) -> None:
    path = tmp_path / "a.krisis"
    writer = RunWriter.create(path, described(), some_cases())
    writer.begin_session({})
    writer.append([RowPlace(0, 0)], [some_row(0)], CallTotals())
    writer.flush()
    writer._connection.execute("PRAGMA wal_checkpoint(PASSIVE)")
    copy = Path(shutil.copy(path, tmp_path / "copy.krisis"))
    writer.close()
    with open_run(copy) as run:
        assert run.n_rows == 1


def test_the_main_file_is_never_far_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(write, "CHECKPOINT_SECONDS", 0.05)
    path = tmp_path / "a.krisis"
    writer = RunWriter.create(path, described(), some_cases())
    writer.begin_session({})
    writer.append([RowPlace(0, 0)], [some_row(0)], CallTotals())
    for _ in range(200):
        copy = Path(shutil.copy(path, tmp_path / "copy.krisis"))
        try:
            with open_run(copy) as run:
                if run.n_rows == 1:
                    break
        except InvalidFile:
            pass
        writer._thread.join(0.02)
    else:
        pytest.fail("nothing was merged")
    writer.close()


def test_somebody_elses_run_is_not_touched(run_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file with a log beside it, in a folder that may not be written."""
    connection = sqlite3.connect(run_file)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("DELETE FROM rows WHERE position = 0")
    connection.commit()
    copies = [
        Path(shutil.copy(one, run_file.parent.parent / one.name))
        for one in (run_file, run_file.with_name("a.krisis-wal"))
    ]
    connection.close()
    monkeypatch.setattr(read, "_may_write", lambda path: False)
    before = {one: one.read_bytes() for one in copies}
    with open_run(copies[0]) as run:
        assert run.n_rows == N - 1
    assert {one: one.read_bytes() for one in copies} == before
    assert not copies[0].with_name("a.krisis-shm").exists()


@pytest.mark.skipif(
    sys.platform == "win32" or os.geteuid() == 0, reason="root may write everywhere"
)
def test_a_run_in_a_read_only_folder_is_read(run_file: Path) -> None:
    run_file.parent.chmod(0o500)
    try:
        with open_run(run_file) as run:
            assert run.n_rows == N
    finally:
        run_file.parent.chmod(0o700)


def test_a_log_without_side_files_in_a_folder_that_cannot_be_written(
    run_file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    connection = sqlite3.connect(run_file)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.close()
    monkeypatch.setattr(read, "_may_write", lambda path: False)
    with open_run(run_file) as run:
        assert run.n_rows == N
    assert [one.name for one in run_file.parent.iterdir()] == ["a.krisis"]


def test_a_newer_minor_version_is_read(run_file: Path) -> None:
    with sqlite3.connect(run_file) as connection:
        connection.execute(f"PRAGMA user_version = {USER_VERSION + 7}")
        connection.execute("ALTER TABLE rows ADD COLUMN mood TEXT")
        connection.execute("CREATE TABLE moods (id INTEGER PRIMARY KEY)")
    connection.close()
    with open_run(run_file) as run:
        assert run.rows() == [some_row(i) for i in range(N)]
        assert run.damage == ""


def test_a_key_that_is_not_known_is_ignored() -> None:
    content = {key: json.loads(value) for key, value in described().entries()}
    content["weather"] = "fine"
    content["identity"]["mood"] = 1
    assert RunDescription.of(content, "a run") == described()


def not_a_run(path: Path) -> None:
    path.write_text("hello")


def empty(path: Path) -> None:
    path.write_bytes(b"")


def other_database(path: Path) -> None:
    path.unlink()
    with sqlite3.connect(path) as connection:
        connection.execute("CREATE TABLE t (x)")
    connection.close()


def newer(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute(f"PRAGMA user_version = {(MAJOR + 1) * 1000}")
    connection.close()


def link(path: Path) -> None:
    path.rename(path.with_name("other"))
    path.symlink_to("other")


def view_for_rows(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("ALTER TABLE rows RENAME TO old_rows")
        connection.execute("CREATE VIEW rows AS SELECT * FROM old_rows")
    connection.close()


def without_rows(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("DROP VIEW signals")
        connection.execute("DROP TABLE rows")
    connection.close()


@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        (not_a_run, "is not a krisis run"),
        (empty, "is empty"),
        (other_database, "is a database, but not a krisis run"),
        (newer, "has version 2.0 of the run file"),
        (link, "is a link or a device"),
        (view_for_rows, "has a table with more than plain columns"),
        (without_rows, "has no table rows"),
        (Path.unlink, "does not exist"),
    ],
)
def test_what_is_refused_is_refused_in_one_sentence(
    run_file: Path, spoil: object, sentence: str
) -> None:
    spoil(run_file)  # type: ignore[operator]
    with pytest.raises(InvalidFile, match=sentence) as refused:
        open_run(run_file)
    assert "\n" not in str(refused.value)


def test_a_folder_of_the_format_before_this_one_is_refused(tmp_path: Path) -> None:
    (tmp_path / "manifest.json").write_text("{}")
    with pytest.raises(InvalidFile, match="is a run of the format before this one") as refused:
        open_run(tmp_path)
    assert "\n" not in str(refused.value)


def test_a_file_with_a_trigger_is_not_written(run_file: Path) -> None:
    with sqlite3.connect(run_file) as connection:
        connection.execute(
            "CREATE TRIGGER t AFTER INSERT ON rows BEGIN DELETE FROM rows WHERE position = 1; END"
        )
    connection.close()
    with pytest.raises(InvalidFile, match="has a trigger"):
        RunWriter.resume(run_file, described(), some_cases())
    assert not write_briefly(run_file, lambda connection: None)


def test_every_column_of_a_row_is_covered_by_its_checksum(run_file: Path) -> None:
    for column in ("outcome", "truth", "confidence", "case_position", "signals", "model", "reply"):
        copy = Path(shutil.copy(run_file, run_file.with_name(f"{column}.krisis")))
        with sqlite3.connect(copy) as connection:
            connection.execute(f"UPDATE rows SET {column} = 77 WHERE position = 3")
        connection.close()
        with open_run(copy) as run:
            rows = run.rows()
            assert [row.record_id for row in rows] == [f"r{i}" for i in range(N) if i != 3]
            assert run.damage.startswith("DAMAGED: 1 damaged row left out")
            assert run.contents().damaged == [3]


def test_a_row_of_another_run_is_not_believed(run_file: Path) -> None:
    other = run_file.with_name("b.krisis")
    writer = RunWriter.create(other, described(run_id="ffffff"), some_cases())
    writer.begin_session({})
    writer.append([RowPlace(3, 3)], [some_row(3)], CallTotals())
    writer.close()
    with sqlite3.connect(run_file) as connection:
        connection.execute("ATTACH ? AS other", (str(other),))
        connection.execute("REPLACE INTO rows SELECT * FROM other.rows")
    connection.close()
    with open_run(run_file) as run:
        assert run.row(3) is None


def test_no_flip_changes_a_row_silently(run_file: Path) -> None:
    right = {i: some_row(i) for i in range(N)}
    whole, draw = run_file.read_bytes(), random.Random(7)
    outcomes = {"refused": 0, "left out": 0, "unchanged": 0}
    for _ in range(60):
        spoiled = bytearray(whole)
        spoiled[draw.randrange(len(whole))] ^= 1 << draw.randrange(8)
        run_file.write_bytes(spoiled)
        try:
            with open_run(run_file) as run:
                rows = run.contents().rows
                is_damaged = bool(run.damage)
        except InvalidFile:
            outcomes["refused"] += 1
            continue
        for position, row in rows.items():
            texts = replace(row, raw_response="", prompt="")
            assert texts == replace(right[position], raw_response="", prompt="")
            assert row.raw_response in (right[position].raw_response, "")
        assert is_damaged or len(rows) == N
        outcomes["left out" if is_damaged else "unchanged"] += 1
    assert outcomes["left out"]


def test_a_cut_file_names_the_way_to_save_it(run_file: Path) -> None:
    whole = run_file.read_bytes()
    for n_bytes in (1, 99, 4096, len(whole) // 2, len(whole) - 1):
        run_file.write_bytes(whole[:n_bytes])
        with pytest.raises(InvalidFile, match="krisis doctor"):
            open_run(run_file)


def test_a_full_disk_ends_the_run_in_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "a.krisis"
    writer = RunWriter.create(path, described(), some_cases())
    writer.begin_session({})
    writer.append([RowPlace(0, 0)], [some_row(0)], CallTotals())
    writer.flush()
    (n_pages,) = writer._connection.execute("PRAGMA page_count").fetchone()
    writer._connection.execute(f"PRAGMA max_page_count = {n_pages}")
    long = replace(some_row(1), raw_response="x" * 100_000)
    writer.append([RowPlace(1, 1)], [long], CallTotals())
    with pytest.raises(RunFailed, match="free some space"):
        writer.flush()
    with pytest.raises(RunFailed, match="rows already in it are whole"):
        writer.append([RowPlace(2, 2)], [some_row(2)], CallTotals())
    writer.close()
    with open_run(path) as run:
        assert run.n_rows == 1


def test_scores_are_kept_by_the_hash_of_the_rows(run_file: Path) -> None:
    writer = RunWriter.resume(run_file, described(), some_cases())
    writer.finish('{"n": 1}', '{"accuracy": 0.5}', "1.2.3")
    writer.close()
    with open_run(run_file) as run:
        kept = run.scores()
        assert kept is not None
        assert kept.rows_hash == run.rows_hash
        assert kept.scores == {"accuracy": 0.5}
    with sqlite3.connect(run_file) as connection:
        connection.execute("DELETE FROM rows WHERE position = 0")
    connection.close()
    with open_run(run_file) as run:
        assert kept.rows_hash != run.rows_hash
    with sqlite3.connect(run_file) as connection:
        connection.execute("UPDATE scores SET scores = '{\"accuracy\": 0.99}'")
    connection.close()
    with open_run(run_file) as run:
        assert run.scores() is None


def test_columns_are_read_by_sql(run_file: Path) -> None:
    with open_run(run_file) as run:
        found = run.columns(
            "rows", ["confidence", "outcome"], where="outcome = ?", values=("not_evaluated",)
        )
        assert len(found["outcome"]) == len([i for i in range(N) if i % 7 == 6])
        assert all(value != value for value in found["confidence"])
        named = run.select("SELECT name, value FROM signals WHERE position = 3 ORDER BY name")
        assert named == [("stated", 0.25), ("why", "because")]


def test_nothing_that_a_file_says_is_run(run_file: Path) -> None:
    with open_run(run_file) as run:
        for sql in ("DELETE FROM rows", "ATTACH 'other' AS x", "CREATE TABLE t (x)"):
            with pytest.raises(InvalidFile):
                run.select(sql)


def test_a_run_that_goes_on_is_copied_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.krisis"
    writer = RunWriter.create(path, described(), some_cases())
    writer.begin_session({})
    writer.append([RowPlace(0, 0)], [some_row(0)], CallTotals())
    writer.flush()
    assert "krisis export" in places.copy_warning(path)
    shown = krisis("show", str(path), cwd=tmp_path)
    assert "part of it is in files beside it" in shown.stderr
    assert krisis("export", "a.krisis", "--to", "krisis", "-o", "b.krisis", cwd=tmp_path)[0] == 0
    writer.close()
    assert places.copy_warning(path) == ""
    with open_run(tmp_path / "b.krisis") as run:
        assert run.rows() == [some_row(0)]
    assert sorted(one.name for one in tmp_path.iterdir()) == ["a.krisis", "b.krisis"]

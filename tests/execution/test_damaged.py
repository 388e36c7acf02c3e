"""A journal that was damaged: the run stays readable, nothing wrong counts, the rest is asked."""

from __future__ import annotations

import json
import os
import random
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.documents import unwrapped
from tests.invented_runs import edited_line
from typer.testing import CliRunner

from krisis import BackendResponse, BaseBackend, Benchmark, PatientRecord
from krisis.cli.check import app as check
from krisis.cli.compare import app as compare
from krisis.cli.doctor import app as doctor
from krisis.cli.show import app as show
from krisis.data.base import RecordListSuite
from krisis.errors import RunConflict
from krisis.execution.options import Execution
from krisis.execution.recorder import Recorder
from krisis.metrics import Accuracy, BootstrapOptions, SelectiveAccuracy
from krisis.metrics.scoring import score_all
from krisis.results.base import BenchmarkResult
from krisis.results.loading import load_result
from krisis.results.lock import RunLock
from krisis.results.store import RunDirectory, list_runs, load_run

N_RECORDS = 500
METRICS = [Accuracy(), SelectiveAccuracy()]
WORDS = "the patient named Amalie wept"


class Noting(BaseBackend):
    """Answers most parities right and remembers whom it was asked about."""

    name = "noting"

    def __init__(self) -> None:
        self.asked: list[int] = []

    def evaluate(self, record: PatientRecord) -> BackendResponse:
        x = record.features["x"]
        self.asked.append(x)
        return BackendResponse(
            (x + (x % 7 == 0)) % 2,
            abstained=x % 11 == 3,
            confidence=0.5 + x % 50 / 100,
            raw_response=WORDS,
            prompt="a template",
        )


def run(recorder: Recorder, n: int = N_RECORDS) -> tuple[BenchmarkResult, list[int]]:
    records = [PatientRecord({"x": i}, i % 2, record_id=f"r{i}") for i in range(n)]
    backend = Noting()
    execution = Execution(recorder=recorder)
    suite = RecordListSuite(records)
    result = Benchmark(suite, backend, METRICS, batch_size=8, execution=execution).run()
    return result, sorted(backend.asked)


@pytest.fixture
def ended(tmp_path: Path) -> tuple[RunDirectory, BenchmarkResult]:
    whole, _ = run(Recorder(tmp_path / "runs"))
    (path,) = list_runs(tmp_path / "runs")
    return RunDirectory(path), whole


def check_healing(directory: RunDirectory, whole: BenchmarkResult, damaged: bytes) -> int:
    """Read the damaged run, resume it, compare both with the whole; return how many were asked."""
    kept = {path: path.read_bytes() for path in directory.path.iterdir() if path.is_file()}
    directory.rows.write_bytes(damaged)
    seen = load_result(directory.path)
    rows = list(whole.evaluation_results)
    places = [int(row.record_id[1:]) for row in seen.evaluation_results]
    assert seen.evaluation_results == [rows[place] for place in places]
    if places:
        fresh = score_all(METRICS, seen.rows, intervals=BootstrapOptions())
        assert {name: seen.metric_scores[name].value for name in fresh} == {
            name: one.value for name, one in fresh.items()
        }
    assert bool(seen.damage) == (damaged != kept[directory.rows])
    assert WORDS not in seen.damage

    healed, asked = run(Recorder.resume(directory.path))
    assert asked == sorted(set(range(N_RECORDS)) - set(places))
    assert list(healed.evaluation_results) == rows
    assert healed.to_dict()["metric_scores"] == whole.to_dict()["metric_scores"]
    again = load_run(directory.path)
    assert again.evaluation_results == rows
    assert again.metric_scores["accuracy"].value == whole.metric_scores["accuracy"].value
    for path in set(directory.path.iterdir()):
        path.unlink()
    for path, content in kept.items():
        path.write_bytes(content)
    return len(asked)


SOME_AND_A_HUNDRED = pytest.mark.parametrize("n", [6, pytest.param(100, marks=pytest.mark.slow)])


@SOME_AND_A_HUNDRED
def test_a_flipped_byte_costs_one_record_at_most(
    ended: tuple[RunDirectory, BenchmarkResult], n: int
) -> None:
    directory, whole = ended
    content = directory.rows.read_bytes()
    draw = random.Random(13)
    for _ in range(n):
        at, bit = draw.randrange(len(content)), 1 << draw.randrange(8)
        flipped = content[:at] + bytes([content[at] ^ bit]) + content[at + 1 :]
        assert check_healing(directory, whole, flipped) <= 1


@SOME_AND_A_HUNDRED
def test_a_cut_costs_only_what_it_cuts_off(
    ended: tuple[RunDirectory, BenchmarkResult], n: int
) -> None:
    directory, whole = ended
    content = directory.rows.read_bytes()
    draw = random.Random(31)
    for _ in range(n // 2):  # the end is gone
        at = draw.randrange(len(content))
        n_whole = sum(b'"kind": "row"' in line for line in content[:at].split(b"\n")[:-1])
        n_asked = check_healing(directory, whole, content[:at])
        assert N_RECORDS - n_whole - n_asked in (0, 1)  # 1: only the newline of a row was cut
    for _ in range(n // 2):  # a stretch inside is gone
        at, n_bytes = draw.randrange(len(content)), draw.randrange(1, 3000)
        hit = content[:at].count(b"\n"), content[: at + n_bytes].count(b"\n")
        n_asked = check_healing(directory, whole, content[:at] + content[at + n_bytes :])
        assert n_asked <= hit[1] - hit[0] + 1


FOREIGN: list[tuple[str, Callable[[bytes], bytes]]] = [
    ("a position of 10,000", lambda line: edited_line(line, position=10_000)),
    ("the position of another record", lambda line: edited_line(line, position=7)),
    ("a foreign record", lambda line: changed_row(line, record_id="x1")),
    ("another right answer", lambda line: changed_row(line, ground_truth=1)),
    ("a right answer of another type", lambda line: changed_row(line, ground_truth="0")),
    ("a field that no row has", lambda line: changed_row(line, verdict=1)),
]


def changed_row(line: bytes, **changes: object) -> bytes:
    return edited_line(line, row=json.loads(line)["row"] | changes)


@pytest.mark.parametrize("change", [one[1] for one in FOREIGN], ids=[one[0] for one in FOREIGN])
def test_a_row_that_is_not_of_the_run_never_counts_though_its_checksum_is_right(
    ended: tuple[RunDirectory, BenchmarkResult], change: Callable[[bytes], bytes]
) -> None:
    directory, whole = ended
    lines = directory.rows.read_bytes().splitlines(keepends=True)
    place = next(i for i, line in enumerate(lines) if b'"record_id": "r4"' in line)
    lines[place] = change(lines[place])
    assert check_healing(directory, whole, b"".join(lines)) == 1


def test_an_ended_run_whose_rows_were_cut_is_scored_again_and_says_so_everywhere(
    ended: tuple[RunDirectory, BenchmarkResult],
) -> None:
    directory, _ = ended
    lines = directory.rows.read_bytes().splitlines(keepends=True)
    directory.rows.write_bytes(b"".join(lines[:202]))
    n_rows = sum(b'"kind": "row"' in line for line in lines[:202])
    sentence = (
        "DAMAGED: metrics.json does not fit rows.jsonl, so the scores are computed again from the "
        f"{n_rows} of {N_RECORDS} rows that are intact; type: krisis doctor {directory.path}"
    )
    seen = load_result(directory.path)
    assert seen.damage == sentence
    assert seen.metric_scores["accuracy"].n_evaluated == n_rows
    first, second, *_ = seen.document().lead
    assert first == sentence
    assert second.startswith(f"Records: {N_RECORDS} loaded → {n_rows} sent")
    for words in ([], ["-m", "accuracy"]):
        printed = CliRunner().invoke(show, [str(directory.path), *words])
        assert unwrapped(printed.output).startswith(sentence), printed.output
    printed = CliRunner().invoke(show, [str(directory.path), "--json"])
    assert json.loads(printed.output)["extras"]["damage"] == sentence
    other = shutil.copytree(directory.path, directory.path.parent / "copy")
    runs = [str(directory.path), str(other)]
    for command, words in (
        (compare, runs),
        (check, [runs[0], "--require", "accuracy >= 0.1"]),
    ):
        printed = CliRunner().invoke(command, words)
        # Half a run can be looked at, but no gate judges it.
        assert printed.exit_code == (2 if command is check else 0), printed.output
        assert printed.stderr.startswith(sentence)


def test_the_page_of_a_damaged_run_says_so(ended: tuple[RunDirectory, BenchmarkResult]) -> None:
    reporting = pytest.importorskip("krisis.reporting.report")
    directory, _ = ended
    directory.rows.write_bytes(directory.rows.read_bytes()[:20_000])
    page = reporting.report_html(reporting.build_report(load_result(directory.path)))
    assert 'role="alert">DAMAGED: 1 damaged line of rows.jsonl left out; metrics.json does' in page


def test_the_list_of_runs_says_so_without_reading_the_rows_of_whole_ones(
    ended: tuple[RunDirectory, BenchmarkResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    catalogues = pytest.importorskip("krisis.viewer.catalogue")
    entries = pytest.importorskip("krisis.viewer.entries")
    pages = pytest.importorskip("krisis.viewer.pages.runs")
    directory, _ = ended
    name, n_read, read = directory.path.name, [], entries.read_run

    def counted(path: Path) -> object:
        n_read.append(path)
        return read(path)

    monkeypatch.setattr(entries, "read_run", counted)
    catalogue = catalogues.Catalogue(directory.path.parent)
    whole = catalogue.entry(name)
    assert (whole.n_done, whole.damage, n_read) == (N_RECORDS, "", [])

    lines = directory.rows.read_bytes().splitlines(keepends=True)
    flipped = lines[300].replace(b'"kind"', b'"kinD"')
    directory.rows.write_bytes(b"".join([*lines[:300], flipped, *lines[301:]]))
    os.utime(directory.rows, (time.time() + 100, time.time() + 100))  # an edit of later, same size
    for _ in range(3):
        edited = catalogue.entry(name)
        assert (edited.state, edited.n_done) == ("ended", N_RECORDS - 1)
    assert edited.damage.startswith("DAMAGED: 1 damaged line of rows.jsonl left out")
    assert len(n_read) == 1

    directory.rows.write_bytes(b"".join(lines[:202]))
    (shown,) = pages.page(catalogue, {}, []).content["runs"]
    assert shown["damage"].startswith("DAMAGED: metrics.json does not fit rows.jsonl")
    assert shown["n_done"] == sum(b'"kind": "row"' in line for line in lines[:202])


def test_doctor_finds_nothing_in_a_whole_run(
    ended: tuple[RunDirectory, BenchmarkResult],
) -> None:
    directory, _ = ended
    for words in ([], ["--mend"]):
        told = CliRunner().invoke(doctor, [str(directory.path), *words])
        assert told.exit_code == 0
        assert told.output == (
            f"{directory.path}: 500 of 500 records have an intact row\nNothing is damaged\n"
        )


def test_doctor_tells_first_and_mends_only_when_asked(
    ended: tuple[RunDirectory, BenchmarkResult],
) -> None:
    directory, whole = ended
    content = directory.rows.read_bytes()
    directory.rows.write_bytes(content.replace(b'"record_id": "r9"', b'"record_id": "q9"'))
    before = {path.name: path.read_bytes() for path in directory.path.iterdir()}
    findings = [
        f"{directory.path}: 499 of 500 records have an intact row",
        "rows.jsonl, line 13: its checksum is wrong",
        "metrics.json cannot be read, or holds the scores of other rows",
    ]
    told = CliRunner().invoke(doctor, [str(directory.path)])
    assert told.exit_code == 1
    change = f"Nothing was changed; to mend it, type: krisis doctor {directory.path} --mend"
    assert told.output.splitlines() == [*findings, change]
    assert {path.name: path.read_bytes() for path in directory.path.iterdir()} == before

    mended = CliRunner().invoke(doctor, [str(directory.path), "--mend"])
    assert mended.exit_code == 0, mended.output
    assert mended.output.splitlines() == [
        *findings,
        "1 damaged line set aside in rows.damaged.jsonl",
        "metrics.json set aside as metrics.stale.json",
        f"To ask records without a row again, type: krisis resume {directory.path}",
    ]
    assert (directory.path / "metrics.stale.json").read_bytes() == before["metrics.json"]
    assert CliRunner().invoke(doctor, [str(directory.path)]).exit_code == 0
    healed, asked = run(Recorder.resume(directory.path))
    assert asked == [9]
    assert healed.to_dict()["metric_scores"] == whole.to_dict()["metric_scores"]


def test_doctor_mends_no_run_that_is_being_written(
    ended: tuple[RunDirectory, BenchmarkResult],
) -> None:
    directory, _ = ended
    lock = RunLock(directory.path)
    told = CliRunner().invoke(doctor, [str(directory.path), "--mend"])
    lock.release()
    assert isinstance(told.exception, RunConflict)


def test_a_damaged_list_of_cases_is_written_again_by_a_resume(
    ended: tuple[RunDirectory, BenchmarkResult],
) -> None:
    directory, whole = ended
    directory.cases.write_text("z" + directory.cases.read_text()[1:])
    assert load_run(directory.path).damage.startswith("DAMAGED: cases.txt is missing or damaged")
    assert CliRunner().invoke(doctor, [str(directory.path)]).exit_code == 1
    healed, asked = run(Recorder.resume(directory.path))
    assert asked == []
    assert list(healed.evaluation_results) == list(whole.evaluation_results)
    assert load_run(directory.path).damage == ""

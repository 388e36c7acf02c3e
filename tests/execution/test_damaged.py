"""A run that was damaged: it stays readable, nothing wrong counts, the rest is asked or saved."""

from __future__ import annotations

import json
import random
import shutil
from collections import Counter
from pathlib import Path

import pytest
from tests.documents import unwrapped
from tests.invented_runs import edit_run, forge_run, only_run
from typer.testing import CliRunner

from krisis import BackendResponse, BaseBackend, Benchmark, PatientRecord
from krisis.cli.show import app as show
from krisis.data.base import RecordListSuite
from krisis.errors import InvalidFile, RunConflict
from krisis.execution.options import Execution
from krisis.execution.recorder import Recorder
from krisis.metrics import Accuracy, BootstrapOptions, SelectiveAccuracy
from krisis.metrics.scoring import score_all
from krisis.pages.run import run_document
from krisis.pages.shell import page as page_of
from krisis.results.base import BenchmarkResult
from krisis.results.loading import load_result
from krisis.runs.load import load_run
from krisis.runs.places import WriterLock
from krisis.verbs.check.command import app as check
from krisis.verbs.compare.command import app as compare
from krisis.verbs.maintain.doctor_command import app as doctor
from krisis.verbs.maintain.repair import Salvage, repair

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
            raw_response=f"{WORDS} {x}",
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
def ended(tmp_path: Path) -> tuple[Path, BenchmarkResult]:
    whole, _ = run(Recorder(tmp_path / "runs"))
    return only_run(tmp_path / "runs"), whole


def check_figures(seen: BenchmarkResult, whole: BenchmarkResult) -> int:
    """Every row that is shown is right, every figure is of the rows that are shown."""
    rows = {row.record_id: row for row in whole.evaluation_results}
    for row in seen.evaluation_results:
        right = rows[row.record_id]
        row.raw_response = row.raw_response or right.raw_response  # a text may be lost
        row.prompt = row.prompt or right.prompt
        assert row == right
    if seen.evaluation_results:
        fresh = score_all(METRICS, seen.rows, intervals=BootstrapOptions())
        for name, score in fresh.items():
            assert seen.metric_scores[name].value == score.value
    assert WORDS not in seen.damage
    return len(seen.evaluation_results)


def shown_rows(saved: Salvage) -> int:
    return saved.n_rows - saved.n_without_case


SOME_AND_ALL = pytest.mark.parametrize("n", [8, pytest.param(200, marks=pytest.mark.slow)])


@SOME_AND_ALL
def test_no_flip_gives_a_wrong_figure_silently(
    ended: tuple[Path, BenchmarkResult], n: int, tmp_path: Path
) -> None:
    path, whole = ended
    content, draw, found = path.read_bytes(), random.Random(13), Counter[str]()
    saved, refusals = [], list[str]()
    for number in range(n):
        at, bit = draw.randrange(len(content)), 1 << draw.randrange(8)
        path.write_bytes(content[:at] + bytes([content[at] ^ bit]) + content[at + 1 :])
        try:
            seen = load_result(path)
        except InvalidFile as error:
            found["refused"] += 1
            refusals.append(str(error))
        else:
            n_rows = check_figures(seen, whole)
            assert seen.damage or n_rows == N_RECORDS
            found["left out" if seen.damage else "without effect"] += 1
            found["rows left out"] += N_RECORDS - n_rows
        try:
            target = tmp_path / f"{number}.krisis"
            saved.append(shown_rows(repair(path, target)))
            assert check_figures(load_result(target), whole) == saved[-1]
        except InvalidFile:
            found["not saved"] += 1
    print(dict(found), "fewest rows saved:", min(saved), "of", N_RECORDS)
    assert not any(WORDS in sentence for sentence in refusals)
    assert found["left out"]
    assert len(saved) == n  # no flip costs the run


@pytest.mark.parametrize("n", [8, pytest.param(100, marks=pytest.mark.slow)])
def test_a_cut_is_refused_and_what_is_left_is_saved(
    ended: tuple[Path, BenchmarkResult], n: int, tmp_path: Path
) -> None:
    path, whole = ended
    content, draw, n_saved, n_lost = path.read_bytes(), random.Random(31), [], 0
    for number in range(n):
        at = draw.randrange(len(content))
        path.write_bytes(content[:at])
        with pytest.raises(InvalidFile, match=r"krisis doctor|is empty"):
            load_result(path)
        target = tmp_path / f"{number}.krisis"
        try:
            saved = shown_rows(repair(path, target))
        except InvalidFile:
            n_lost += 1
            continue
        assert check_figures(load_result(target), whole) == saved
        n_saved.append((at / len(content), saved))
    print(f"{n_lost} of {n} cuts leave nothing to save; rows by share kept: {sorted(n_saved)}")
    assert n_saved
    assert max(saved for _, saved in n_saved) > N_RECORDS / 2


def test_damaged_rows_are_asked_again_by_a_resume(ended: tuple[Path, BenchmarkResult]) -> None:
    path, whole = ended
    edit_run(path, "UPDATE rows SET prediction = 1 - prediction WHERE position IN (4, 9, 20)")
    healed, asked = run(Recorder.resume(path))
    assert asked == [4, 9, 20]
    assert list(healed.evaluation_results) == list(whole.evaluation_results)
    assert healed.to_dict()["metric_scores"] == whole.to_dict()["metric_scores"]
    again = load_run(path)
    assert again.evaluation_results == list(whole.evaluation_results)
    assert again.damage == ""


def test_damaged_cases_are_written_again_by_a_resume(ended: tuple[Path, BenchmarkResult]) -> None:
    path, whole = ended
    edit_run(path, "UPDATE cases SET record_id = 'x' WHERE position = 4")
    edit_run(path, "DELETE FROM cases WHERE position = 5")
    assert load_result(path).damage.startswith("DAMAGED: 1 damaged case left out, 2 damaged rows")
    healed, asked = run(Recorder.resume(path))
    assert asked == []
    assert list(healed.evaluation_results) == list(whole.evaluation_results)
    assert load_run(path).damage == ""


@pytest.mark.parametrize(
    ("change", "where"),
    [
        ({"position": 10_000}, "position = 4"),
        ({"case_position": 7}, "position = 4"),
        ({"repeat": 1}, "position = 4"),
        ({"outcome": "abstained"}, "position = 5"),
        ({"truth": None}, "position = 4"),
        ({"confidence": 7.5}, "position = 4"),
        ({"model": b"bytes"}, "position = 4"),
        ({"signals": "[1"}, "position = 4"),
    ],
)
def test_a_row_that_cannot_be_of_the_run_never_counts_though_its_checksum_is_right(
    ended: tuple[Path, BenchmarkResult], change: dict[str, object], where: str
) -> None:
    path, whole = ended
    forge_run(path, "rows", where, **change)
    seen = load_result(path)
    assert check_figures(seen, whole) == N_RECORDS - 1
    assert seen.damage.startswith("DAMAGED: 1 damaged row left out")


def test_an_ended_run_whose_rows_are_gone_is_scored_again_and_says_so_everywhere(
    ended: tuple[Path, BenchmarkResult],
) -> None:
    path, _ = ended
    edit_run(path, "UPDATE rows SET truth = 1 - truth WHERE position >= 200")
    sentence = f"DAMAGED: 300 damaged rows left out; type: krisis doctor {path}"
    seen = load_result(path)
    assert seen.damage == sentence
    assert seen.metric_scores["accuracy"].n_evaluated == 200
    first, second, *_ = seen.document().lead
    assert first == sentence
    assert second.startswith(f"Records: {N_RECORDS} loaded → 200 sent")
    for words in ([], ["-m", "accuracy"]):
        printed = CliRunner().invoke(show, [str(path), *words])
        assert unwrapped(printed.output).startswith(sentence), printed.output
    printed = CliRunner().invoke(show, [str(path), "--format", "json"])
    assert json.loads(printed.output)["extras"]["damage"] == sentence
    other = shutil.copy(path, path.with_name("copy.krisis"))
    for command, words in (
        (compare, [str(path), str(other)]),
        (check, [str(path), "--require", "accuracy >= 0.1"]),
    ):
        printed = CliRunner().invoke(command, words)
        # Half a run can be looked at, but no gate judges it.
        assert printed.exit_code == (2 if command is check else 0), printed.output
        assert printed.stderr.startswith(sentence)


def test_scores_that_were_edited_are_not_believed(ended: tuple[Path, BenchmarkResult]) -> None:
    path, whole = ended
    edit_run(path, "UPDATE scores SET scores = replace(scores, '0.', '0.9')")
    seen = load_result(path)
    assert seen.metric_scores["accuracy"].value == whole.metric_scores["accuracy"].value


def test_scores_of_another_version_are_computed_again(
    ended: tuple[Path, BenchmarkResult],
) -> None:
    path, whole = ended
    right = whole.metric_scores["accuracy"].value
    wrong = json.dumps({"Accuracy": {**scores_of(path)["Accuracy"], "value": 0.99}})
    forge_run(path, "scores", scores=wrong)
    assert load_result(path).metric_scores["accuracy"].value == right  # nobody computed it here
    forge_run(path, "scores", scores=wrong, version="0.0.0")
    assert load_result(path).metric_scores["accuracy"].value == right
    # They were kept for the next look, by this version.
    assert scores_of(path)["Accuracy"]["value"] == right


def scores_of(path: Path) -> dict[str, dict[str, object]]:
    from krisis.runs.read import open_run

    with open_run(path) as opened:
        kept = opened.scores()
    assert kept is not None
    return kept.scores


def test_the_page_of_a_damaged_run_says_so(ended: tuple[Path, BenchmarkResult]) -> None:
    path, _ = ended
    edit_run(path, "UPDATE rows SET truth = 5 WHERE position = 3")
    page = page_of(run_document(load_result(path)))
    assert '<p class="warning" role="status">DAMAGED: 1 damaged row left out' in page


def test_doctor_finds_nothing_in_a_whole_run(ended: tuple[Path, BenchmarkResult]) -> None:
    path, _ = ended
    before = path.read_bytes()
    told = CliRunner().invoke(doctor, [str(path)])
    assert told.exit_code == 0
    said = " ".join(told.output.split())
    assert said == f"{path}: 500 of 500 records have an intact row Nothing is damaged"
    assert path.read_bytes() == before


def test_doctor_tells_first_and_saves_into_a_new_file_when_asked(
    ended: tuple[Path, BenchmarkResult],
) -> None:
    path, whole = ended
    edit_run(path, "UPDATE rows SET truth = 5 WHERE position = 9")
    before = path.read_bytes()
    told = CliRunner().invoke(doctor, [str(path)])
    assert told.exit_code == 1
    said = " ".join(told.output.split())
    assert said.startswith(f"{path}: 499 of 500 records have an intact row")
    assert "nothing was changed" in said
    assert "rows 1" in said
    assert told.output.endswith(f"krisis doctor {path} --repair\n")  # to copy, never broken
    assert path.read_bytes() == before

    saved = path.with_name(f"{path.stem}.repaired.krisis")
    repaired = CliRunner().invoke(doctor, [str(path), "--repair"])
    assert repaired.exit_code == 0, repaired.output
    assert repaired.output.splitlines() == [
        f"Saved 499 of 500 rows into {saved}; 1 is lost; {path} was not changed",
        f"To ask only the records without a row, type: krisis resume {saved}",
    ]
    assert path.read_bytes() == before
    assert CliRunner().invoke(doctor, [str(saved)]).exit_code == 0
    healed, asked = run(Recorder.resume(saved))
    assert asked == [9]
    assert healed.to_dict()["metric_scores"] == whole.to_dict()["metric_scores"]
    again = CliRunner().invoke(doctor, [str(path), "--repair"])
    assert isinstance(again.exception, InvalidFile)  # nothing is overwritten


def test_a_repaired_run_asks_for_nothing_that_was_saved(
    ended: tuple[Path, BenchmarkResult],
) -> None:
    path, whole = ended
    edit_run(path, "UPDATE cases SET record_id = 'x' WHERE position = 4")
    content = path.read_bytes()
    path.write_bytes(b"\0" * 4096 + content[4096:])
    saved = path.with_name("saved.krisis")
    found = repair(path, saved)
    assert (found.n_rows, found.n_missing, found.n_without_case) == (N_RECORDS, 0, 1)
    healed, asked = run(Recorder.resume(saved))
    assert asked == []
    assert list(healed.evaluation_results) == list(whole.evaluation_results)
    assert load_run(saved).damage == ""


def test_doctor_repairs_no_run_that_is_being_written(
    ended: tuple[Path, BenchmarkResult],
) -> None:
    path, _ = ended
    lock = WriterLock(path)
    told = CliRunner().invoke(doctor, [str(path), "--repair"])
    lock.release()
    assert isinstance(told.exception, RunConflict)

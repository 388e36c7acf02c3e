from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.invented_runs import edit_run, rows_in

from krisis.backends.baselines.constant import AlwaysAbstain
from krisis.backends.baselines.rules import Lexicon
from krisis.benchmark import Benchmark
from krisis.cli import app as command_line
from krisis.data.base import PatientRecord, RecordListSuite, SuiteConfig
from krisis.data.phq8.suite import PHQ8Suite
from krisis.execution.options import Execution
from krisis.execution.recorder import Recorder


def run(out: Path, mode: str) -> Path:
    recorder = Recorder(out)
    suite = PHQ8Suite(SuiteConfig(n_synthetic=10), mode=mode)
    backend = Lexicon(temperature=0.7)
    Benchmark(suite, backend, execution=Execution(repeats=2, recorder=recorder)).run()
    assert recorder.path is not None
    return recorder.path


def call(monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    monkeypatch.setattr("sys.argv", ["krisis", *map(str, arguments)])
    with pytest.raises(SystemExit) as caught:
        command_line.main()
    return int(caught.value.code or 0)


def test_runs_of_two_modes_make_one_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    runs = [run(tmp_path, "zero_shot"), run(tmp_path, "few_shot")]
    monkeypatch.chdir(tmp_path)
    assert call(monkeypatch, "export", *runs, "--to", "run-file") == 0
    content = json.loads((tmp_path / f"{runs[0].stem}.json").read_text())
    assert [one["results"]["mode"] for one in content["experiments"]] == ["zero_shot", "few_shot"]
    signals = content["experiments"][1]["results"]["results"][0]["item_signals"]["Sleep"]
    assert len(signals["consistency_samples"]) == 2
    assert content["experiments"][0]["provenance"]["n_items_planned"] == 16
    assert call(monkeypatch, "export", *runs, "--to", "run-file") == 2
    assert call(monkeypatch, "export", *runs, "--to", "run-file", "--overwrite") == 0
    assert call(monkeypatch, "export", *runs, "--to", "csv") == 2


def test_taking_up_one_run_keeps_the_other_mode_in_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ["--model", "lexicon", "--n-synthetic", "10", "-o", tmp_path, "--no-baselines"]
    modes = ["--mode", "zero_shot", "--mode", "few_shot", "--display", "none"]
    assert call(monkeypatch, "run", "phq8", *options, *modes) == 0
    (path,) = tmp_path.glob("*.json")
    before = json.loads(path.read_text())
    assert (
        call(monkeypatch, "resume", path.with_suffix(".krisis"), "--failed", "--display", "none")
        == 0
    )
    after = json.loads(path.read_text())
    assert [one["results"]["mode"] for one in after["experiments"]] == ["zero_shot", "few_shot"]
    assert after["experiments"][1]["results"] == before["experiments"][1]["results"]


def test_a_run_that_ended_early_has_participants_without_success(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = run(tmp_path, "zero_shot")
    (moving,) = [at for at, row in rows_in(path).items() if at > 15 and at % 16 == 15]
    edit_run(path, "DELETE FROM rows WHERE position IN (?, ?)", moving, moving - 16)
    assert call(monkeypatch, "export", path, "--to", "run-file", "-o", tmp_path / "x.json") == 0
    results = json.loads((tmp_path / "x.json").read_text())["experiments"][0]["results"]
    assert results["n_failed"] == 1
    (failed,) = [one for one in results["results"] if not one["success"]]
    assert failed["error"] == "Moving: not asked, the run ended early"


def test_a_run_of_another_suite_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    recorder = Recorder(tmp_path)
    suite = RecordListSuite([PatientRecord({"item": "sleep: x"}, 0, context="Participant: hi")])
    Benchmark(suite, AlwaysAbstain(), execution=Execution(recorder=recorder)).run()
    assert recorder.path is not None
    assert call(monkeypatch, "export", recorder.path, "--to", "run-file") == 2
    assert "of these suites: phq8" in capsys.readouterr().err


def test_a_run_has_the_same_figures_as_a_directory_and_as_a_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = run(tmp_path, "zero_shot")
    assert call(monkeypatch, "export", path, "--to", "run-file", "-o", tmp_path / "run.json") == 0
    found = []
    for place in (path, tmp_path / "run.json"):
        out = tmp_path / f"figures-{len(found)}.json"
        options = ["--bootstrap-resamples", 50, "--output", out]
        assert call(monkeypatch, "selective", place, *options) == 0
        found.append(json.loads(out.read_text()))
    assert found[0]["loss"]["name"] == "abs_norm"
    for part in ("loss", "confidence_variants", "totals", "population"):
        assert found[0][part] == found[1][part], part
    assert list(found[0]["confidence_variants"]) == ["llm"]

"""The first commands, run as a user runs them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests import commands

from krisis import __version__
from krisis.metrics import EvaluationResult, score_all, usual_metrics
from krisis.results.result import BenchmarkResult


def krisis(*arguments: object) -> commands.Done:
    return commands.krisis(*map(str, arguments), cwd=Path.cwd())


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    rows = [EvaluationResult(1, 1, confidence=0.9), EvaluationResult(0, 1, confidence=0.6)]
    scores = score_all(usual_metrics(), rows)
    return BenchmarkResult(rows, scores, {"suite": "toy"}, "rule").save(tmp_path / "result.json")


def test_version_and_help() -> None:
    assert krisis("--version").stdout == f"krisis {__version__}\n"
    shown = krisis("--help").stdout
    for command in ("info", "show"):
        assert command in shown


def test_show_prints_the_report(saved: Path) -> None:
    done = krisis("show", saved)
    assert done.returncode == 0
    assert done.stdout.startswith("Records: 2 loaded → 2 sent → 2 answered")


def test_show_scores_the_chosen_metrics_again_without_a_model(saved: Path, tmp_path: Path) -> None:
    rescored, written = tmp_path / "rescored.json", tmp_path / "scores.json"
    done = krisis("show", saved, "--metric", "accuracy", "--format", "json", "--save", rescored)
    scores = json.loads(done.stdout)["metric_scores"]
    assert list(scores) == ["Accuracy"]
    assert scores["Accuracy"]["value"] == 0.5
    again = BenchmarkResult.load(rescored)
    assert list(again.metric_scores) == ["Accuracy"]
    assert len(again.evaluation_results) == 2
    # --output is what is printed, as in every other command.
    assert krisis("show", saved, "-m", "accuracy", "-o", written).returncode == 0
    assert written.read_text(encoding="utf-8") == done.stdout
    usual = json.loads(krisis("show", saved, "--metric", "default", "--format", "json").stdout)
    stored = json.loads(krisis("show", saved, "--format", "json").stdout)
    assert list(usual["metric_scores"]) == list(stored["metric_scores"])
    assert usual["metric_scores"]["Accuracy"]["interval"] is not None  # which was not stored


def test_every_user_error_is_one_sentence_and_exit_code_two(saved: Path, tmp_path: Path) -> None:
    cut = tmp_path / "cut.json"
    cut.write_bytes(saved.read_bytes()[:500])
    metrics_only = tmp_path / "metrics.json"
    metrics_only.write_text(BenchmarkResult.load(saved).metrics_to_json(), encoding="utf-8")
    for arguments, sentence in [
        (("show", tmp_path / "none.json"), "does not exist"),
        (("show", cut), "not complete JSON"),
        (("show", metrics_only, "-m", "accuracy"), "holds scores but no rows"),
        (("show", metrics_only, "--save", tmp_path / "new.json"), "holds scores but no rows"),
        (("show", saved, "-m", "acuracy"), "did you mean 'accuracy'?"),
        (("show", saved, "-o", saved), "exists already"),
        (("show", saved, "--save", saved), "exists already"),
        (("sho", saved), "show"),
    ]:
        done = krisis(*arguments)
        assert done.returncode == 2, arguments
        assert sentence in done.stderr, done.stderr
        assert "Traceback" not in done.stderr
        assert done.stdout == ""

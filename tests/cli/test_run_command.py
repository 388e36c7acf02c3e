"""`krisis run` and its kin, from the words typed to the files left behind."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.commands import krisis
from tests.invented_runs import edit_run, forge_description, rows_in

from krisis import registry
from krisis.backends.base import BackendResponse, BaseBackend
from krisis.backends.chat import ChatRequest
from krisis.backends.schema import case_name
from krisis.backends.scripted import ScriptedBackend
from krisis.data.base import PatientRecord
from krisis.errors import AuthenticationFailed, OutOfCredit
from krisis.execution.config import checked_config, config_text
from krisis.execution.grid import read_settings
from krisis.runs.load import list_runs, load_run, read_description

SMALL = ["run", "phq8", "--model", "lexicon", "--limit", "16", "--no-cache"]
ASKING = ["run", "phq8", "--model", "abstainer", "--limit", "16"]


class Abstainer(ScriptedBackend):
    """A chat model that abstains from everything it is asked."""

    name = "abstainer"

    def __init__(self) -> None:
        reply = {"abstained": True, "prediction": None, "confidence": None}
        nothing = {**reply, "evidence_quotes": [], "verbalized_confidence": 1}

        def script(request: ChatRequest) -> str:
            names = [case_name(i) for i in range(request.n_records)]
            return json.dumps({"results": [{"id": name, **nothing} for name in names]})

        super().__init__(script)


class Failing(BaseBackend):
    """A model that answers so often and raises its error at every later call."""

    name = "failing"
    n_answers = 0
    error: Exception

    def evaluate(self, record: PatientRecord) -> BackendResponse:
        if Failing.n_answers <= 0:
            raise Failing.error
        Failing.n_answers -= 1
        return BackendResponse(0)


@pytest.fixture
def models(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Let the models of this file be named on the command line."""
    for model in (Abstainer, Failing):
        place = f"{__name__}:{model.__name__}"
        monkeypatch.setitem(registry.BUILT_IN["backends"], model.name, place)
    registry.table.cache_clear()
    yield
    registry.table.cache_clear()


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder in which one small run was carried out."""
    folder = tmp_path_factory.mktemp("finished")
    done = krisis(*SMALL, "--display", "plain", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Records: 16 loaded → 16 sent")
    assert "16/16" in done.stderr
    return folder


def test_a_run_leaves_one_file_behind(finished: Path) -> None:
    (path,) = list_runs(finished / "runs")
    run_files = {file.name for file in path.parent.iterdir() if file.suffix != ".json"}
    assert run_files == {path.name}
    assert load_run(path).attrition.n_sent == 16
    assert load_run(path).backend_name == "lexicon"


def test_a_run_is_repeated_from_its_settings(finished: Path, tmp_path: Path) -> None:
    (path,) = list_runs(finished / "runs")
    done = krisis("run", "--config", str(path), "--display", "none", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (again,) = list_runs(tmp_path / "runs")
    assert read_description(again).identity == read_description(path).identity
    first, second = load_run(path), load_run(again)
    assert first.evaluation_results == second.evaluation_results
    assert first.metric_scores == second.metric_scores or (
        first.to_dict()["metric_scores"] == second.to_dict()["metric_scores"]
    )


def test_the_printed_configuration_is_one_that_can_be_used(tmp_path: Path) -> None:
    printed = krisis(*SMALL, "--suite-option", "withheld_rate=0.5", "--print-config", cwd=tmp_path)
    assert printed.returncode == 0, printed.stderr
    (tmp_path / "run.yaml").write_text(printed.stdout)
    config = checked_config(read_settings(tmp_path / "run.yaml"), "run.yaml")
    assert config.suite_options == {"withheld_rate": 0.5}
    assert config.limit == 16
    assert yaml.safe_load(config_text(config)) == config.model_dump(mode="json")
    assert not (tmp_path / "runs").exists()


def test_options_win_over_the_file(tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text("suite: phq8\nmodel: lexicon\nlimit: 99\nbatch_size: 3\n")
    done = krisis("run", "--config", "run.yaml", "--limit", "5", "--print-config", cwd=tmp_path)
    effective = yaml.safe_load(done.stdout)
    assert (effective["limit"], effective["batch_size"]) == (5, 3)


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", "phq8"], "model is missing"),
        (["run", "--model", "lexicon"], "suite is missing"),
        (["run", "phq9", "--model", "lexicon"], "did you mean 'phq8'"),
        (["run", "phq8", "--model", "lexikon"], "did you mean 'lexicon'"),
        ([*SMALL, "--batch-size", "0"], "batch_size"),
        ([*SMALL, "--suite-option", "withheld_rat=0.5"], "withheld_rate"),
        ([*SMALL, "--suite-option", "nonsense"], "NAME=VALUE"),
        ([*SMALL, "--model-option", "api_key=sk-1"], "looks like a secret"),
        ([*SMALL, "--base-url", "https://me:pw@host/v1"], "login"),
        ([*SMALL, "--display", "loud"], "display"),
        ([*SMALL, "--max-cost", "1"], "price"),
        ([*SMALL, "--prices", "absent.yaml"], "absent.yaml does not exist; check --prices"),
        (["run", "--config", "absent.yaml"], "does not exist"),
        (["resume", "absent"], "absent does not exist; give a run"),
    ],
)
def test_a_mistake_is_one_sentence_and_exit_2(
    words: list[str], message: str, tmp_path: Path
) -> None:
    done = krisis(*words, cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("suite: a\nmodell: b\n", "did you mean 'model'"),
        ("- 1\n", "must hold options"),
        ("suite: [\n", "is not YAML: line 2"),
    ],
)
def test_a_bad_file_is_refused(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "run.yaml").write_text(text)
    with pytest.raises(ValueError, match=message) as caught:
        checked_config(read_settings(tmp_path / "run.yaml"), "run.yaml")
    assert "\n" not in str(caught.value)


@pytest.mark.usefixtures("models")
def test_a_dry_run_shows_the_prompt_twice_and_sends_nothing(tmp_path: Path) -> None:
    done = krisis(*ASKING, "--dry-run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    stored, sent = done.stdout.split("as it would be sent")
    assert "[redacted]" in stored
    assert "Participant:" in sent
    assert "Participant:" not in stored
    assert "16 records in 2 calls" in sent
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("model", "lacks"),
    [
        ("openai/x", "OPENAI_API_KEY is not set; type: export OPENAI_API_KEY="),
        ("anthropic/x", "ANTHROPIC_API_KEY is not set"),
        ("gemini/x", "GEMINI_API_KEY or GOOGLE_API_KEY is not set"),
        ("grok/x", "XAI_API_KEY is not set"),
        ("openrouter/a/b", "OPENROUTER_API_KEY is not set"),
        ("local/smollm2", "krisis pull smollm2"),
    ],
)
def test_a_dry_run_needs_neither_key_nor_model(
    model: str, lacks: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for variable in ("OPENAI", "ANTHROPIC", "GEMINI", "GOOGLE", "XAI", "OPENROUTER"):
        monkeypatch.delenv(f"{variable}_API_KEY", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    words = ("run", "ckd", "--model", model, "--limit", "3", "--n-synthetic", "20")
    done = krisis(*words, "--dry-run", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "as it would be sent" in done.stdout
    assert "3 records in 1 calls" in done.stdout
    assert lacks in done.stdout.splitlines()[-1]
    refused = krisis(*words, "--no-cache", cwd=tmp_path)
    assert refused.returncode == 2
    assert lacks in refused.stderr


def test_a_dry_run_without_the_sdk_names_the_extra_and_shows_the_prompt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ("run", "ckd", "--model", "openai/x", "--limit", "3", "--n-synthetic", "20")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-anything")
    with_sdk = krisis(*words, "--dry-run", cwd=tmp_path)
    monkeypatch.setattr("krisis.backends.provider.is_installed", lambda package: False)
    without = krisis(*words, "--dry-run", cwd=tmp_path)
    named = "before a run   the backend 'openai' needs the extra 'openai'; type: pip install"
    assert without.stdout.startswith(with_sdk.stdout + named)
    refused = krisis(*words, "--model-option", "topp=1", "--dry-run", cwd=tmp_path)
    assert "has no option 'topp'" in refused.stderr  # no dry run for what no run would take
    cells = krisis(*words, "--model", "anthropic/y", "--dry-run", cwd=tmp_path)
    assert "2 cells" in cells.stdout, cells.stderr


def has_rows(out: Path) -> bool:
    return any(len(rows_in(path)) > 4 for path in out.glob("*.krisis") if path.stat().st_size)


SLOW_PLUGIN = """
import sys, time
from krisis import BackendResponse, BaseBackend, registry

class Slow(BaseBackend):
    name = "slow"
    def evaluate(self, record):
        time.sleep(0.02)
        return BackendResponse(0)

registry.BUILT_IN["backends"]["slow"] = "__main__:Slow"
from krisis.cli.app import main
main()
"""


@pytest.mark.parametrize(
    "number", [signal.SIGINT, pytest.param(signal.SIGTERM, marks=pytest.mark.slow)]
)
def test_ctrl_c_keeps_the_rows_and_names_the_command_that_resumes(
    tmp_path: Path, number: signal.Signals
) -> None:
    script = tmp_path / "slow.py"
    script.write_text(SLOW_PLUGIN)
    words: list[Any] = [sys.executable, script, "run", "phq8", "--model", "slow", "--no-cache"]
    run = subprocess.Popen(
        [*words, "--display", "none"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 60
    while not has_rows(tmp_path / "runs"):
        assert time.monotonic() < deadline
        time.sleep(0.05)
    run.send_signal(number)
    _, errors = run.communicate(timeout=60)
    assert run.returncode == 130, errors
    (path,) = list_runs(tmp_path / "runs")
    n_before = len(load_run(path).evaluation_results)
    assert 0 < n_before < 320
    assert f"krisis resume runs/{path.name}" in errors
    again = subprocess.run(
        [
            *words[:2],
            "resume",
            f"runs/{path.name}",
            "--no-cache",
            "--max-concurrency",
            "8",
            "--display",
            "none",
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert again.returncode == 0, again.stderr
    result = load_run(path)
    assert len(result.evaluation_results) == 320
    assert result.extras["n_api_calls"] == 320


def test_run_resume_takes_up_the_newest_unfinished_run(finished: Path, tmp_path: Path) -> None:
    krisis(*SMALL, "--display", "none", cwd=tmp_path)
    (path,) = list_runs(tmp_path / "runs")
    edit_run(path, "DELETE FROM rows WHERE position > 4")
    done = krisis(*SMALL, "--resume", "--display", "none", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert list_runs(tmp_path / "runs") == [path]
    assert len(load_run(path).evaluation_results) == 16
    assert f"Continuing runs/{path.name}" in done.stderr


@pytest.mark.parametrize(
    "change",
    [
        ["--seed", "7"],
        ["--mode", "few_shot"],
        ["--suite-option", "split=train"],
        ["--repeats", "2"],
        ["--batch-size", "1"],
    ],
)
def test_run_resume_leaves_an_unfinished_run_with_other_settings_alone(
    tmp_path: Path, change: list[str]
) -> None:
    krisis(*SMALL, "--display", "none", cwd=tmp_path)
    (path,) = list_runs(tmp_path / "runs")
    edit_run(path, "DELETE FROM rows WHERE position > 4")
    before = path.read_bytes()
    done = krisis(*SMALL, *change, "--resume", "--display", "none", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "No unfinished run with these settings in runs; starting a new one" in done.stderr
    assert path.read_bytes() == before
    assert len(list_runs(tmp_path / "runs")) == 2


def test_run_resume_compares_the_task_and_picks_by_the_time_in_the_run(tmp_path: Path) -> None:
    words = ["run", "ckd", "--model", "guideline", "--limit", "6", "--no-baselines"]
    for task in ("staging", "staging", "detection"):
        krisis(*words, "--task", task, "--display", "none", cwd=tmp_path)
    detection, newer, older = list_runs(tmp_path / "runs")
    for path in (detection, newer, older):
        edit_run(path, "DELETE FROM rows WHERE position >= 3")
    # By their names the older run is the newest of all: the name is not what counts.
    renamed = older.rename(older.with_name(f"99990101T000000Z_{older.name}"))
    assert list_runs(tmp_path / "runs") == [detection, newer, renamed]
    done = krisis(*words, "--task", "staging", "--resume", "--display", "none", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    sent = [len(load_run(path).evaluation_results) for path in (detection, newer, renamed)]
    assert sent == [3, 6, 3]
    told = "3 of 6 records done, of 2 unfinished runs the furthest"
    assert f"Continuing runs/{newer.name} ({told})" in done.stderr


def test_run_resume_takes_the_furthest_run_whatever_a_clock_that_was_ahead_says(
    tmp_path: Path,
) -> None:
    words = ["run", "ckd", "--model", "guideline", "--limit", "6", "--no-baselines"]
    for _ in range(3):
        krisis(*words, "--display", "none", cwd=tmp_path)
    latest, middle, first = list_runs(tmp_path / "runs")
    for path, n_rows in ((latest, 1), (middle, 4), (first, 4)):
        edit_run(path, "DELETE FROM rows WHERE position >= ?", n_rows)
    for ahead in (latest, first):  # one with fewer rows, and one with as many as the right one
        forge_description(ahead, created_at="2999-01-01T00:00:00+00:00")
    done = krisis(*words, "--resume", "--display", "none", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"Continuing runs/{middle.name} (" in done.stderr
    assert "of 3 unfinished runs the furthest)" in done.stderr


@pytest.mark.usefixtures("models")
def test_a_run_in_which_every_record_fails_exits_1_and_shows_no_accuracy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Failing, "error", OSError("gone"), raising=False)
    words = ("run", "phq8", "--model", "failing", "--limit", "3", "--no-cache")
    done = krisis(*words, cwd=tmp_path)
    assert done.returncode == 1
    assert done.stdout.startswith("8 of 8 records NOT EVALUATED")
    assert "Accuracy" not in done.stdout
    named = re.search(r"krisis resume (runs/\S+) --failed\n", done.stderr)
    assert named is not None
    monkeypatch.setattr(Failing, "n_answers", 8)  # the server is back
    for options, n_answered in (([], 0), (["--failed"], 8)):
        krisis("resume", named[1], *options, cwd=tmp_path)
        assert load_run(tmp_path / named[1]).attrition.n_answered == n_answered


@pytest.mark.usefixtures("models")
def test_the_cache_commands_say_what_is_there_and_forget_it(tmp_path: Path) -> None:
    words = ("--cache-path", "replies.sqlite")
    krisis(*ASKING, *words, "--display", "none", cwd=tmp_path)
    about = krisis("cache", "info", *words, cwd=tmp_path)
    assert "replies  2" in about.stdout, about.stderr
    again = krisis(*ASKING, *words, "--display", "none", cwd=tmp_path)
    assert again.returncode == 0
    newest = load_run(list_runs(tmp_path / "runs")[0])
    assert (newest.extras["n_cache_hits"], newest.extras["n_api_calls"]) == (2, 0)
    assert krisis("cache", "clear", *words, cwd=tmp_path).stdout == "removed 2 replies\n"


@pytest.mark.usefixtures("models")
@pytest.mark.parametrize(
    ("error", "cause"),
    [
        (OutOfCredit("402: monthly budget used up"), "AccountRefused"),
        (AuthenticationFailed("403: the budget of this key is spent"), "KeyRefused"),
    ],
    ids=["account", "key"],
)
def test_a_provider_that_speaks_of_a_budget_still_exits_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, cause: str
) -> None:
    monkeypatch.setattr(Failing, "error", error, raising=False)
    monkeypatch.setattr(Failing, "n_answers", 3)
    words = ("run", "ckd", "--model", "failing", "--limit", "10", "--no-cache", "--no-baselines")
    done = krisis(*words, cwd=tmp_path)
    assert done.returncode == 1, done.stderr
    assert "7 records left" in done.stderr
    assert "budget" in done.stderr
    (run,) = list_runs(tmp_path / "runs")
    assert len(load_run(run).evaluation_results) == 3
    assert load_run(run).extras["stop_cause"] == cause
    edit_run(run, "DELETE FROM scores")
    assert load_run(run).extras["stop_cause"] == cause
    shown = krisis("show", str(run), cwd=tmp_path).stdout
    assert shown.splitlines()[1].startswith("INCOMPLETE: 7 records not")


def test_a_cut_run_is_shown_and_scored_with_the_metrics_it_was_asked_for(tmp_path: Path) -> None:
    words = ["run", "ckd", "--model", "guideline", "--limit", "12", "--no-baselines"]
    krisis(*words, "--metric", "brier_score", "--metric", "accuracy", cwd=tmp_path)
    (run,) = list_runs(tmp_path / "runs")
    edit_run(run, "DELETE FROM rows WHERE position >= 8")
    edit_run(run, "DELETE FROM scores")
    done = krisis("show", str(run), "--format", "json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert list(json.loads(done.stdout)["metric_scores"]) == ["Brier Score", "Accuracy"]
    chosen = krisis("show", str(run), "-m", "answer_rate", "--format", "json", cwd=tmp_path)
    assert list(json.loads(chosen.stdout)["metric_scores"]) == ["Answer Rate (Coverage)"]


def test_a_folder_is_no_run(tmp_path: Path) -> None:
    done = krisis("resume", str(tmp_path), cwd=tmp_path)
    assert done.returncode == 2
    assert "is a folder; name a run file in it" in done.stderr

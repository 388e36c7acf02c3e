"""`krisis run clinic.yaml` and every command that takes a suite by its name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.documents import facts
from tests.invented_runs import edit_run

from krisis import registry
from krisis.cli.app import main
from krisis.data.table.suite import TableSuite
from krisis.runs.load import load_run

EXAMPLES = Path(__file__).parents[2] / "examples" / "tables"
LAB = str(EXAMPLES / "lab.yaml")


@pytest.fixture
def krisis(monkeypatch: pytest.MonkeyPatch, capsys: Any, tmp_path: Path) -> Any:
    monkeypatch.chdir(tmp_path)

    def call(*words: object) -> tuple[int, str, str]:
        monkeypatch.setattr("sys.argv", ["krisis", *map(str, words)])
        code = 0
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
        printed = capsys.readouterr()
        return code, printed.out, printed.err

    return call


def only_run(folder: Path) -> Path:
    (run,) = folder.glob("*.krisis")
    return run


@pytest.mark.parametrize(
    ("example", "model", "n_records"),
    [
        ("lab.yaml", "rule/declared", 23),
        ("questions.yaml", "always-abstain", 12),
    ],
)
def test_the_examples_run(krisis: Any, example: str, model: str, n_records: int) -> None:
    code, printed, error = krisis("run", EXAMPLES / example, "--model", model, "-o", "runs")
    assert code == 0, error
    assert f"Records: {n_records} loaded" in printed
    path = only_run(Path("runs"))
    assert facts(load_run(path).document())["Data"]
    described = load_run(only_run(Path("runs"))).suite_description
    assert described["provenance"][0]["licence"] == "Apache-2.0"


def test_a_run_of_a_file_is_resumed_repeated_and_printed(krisis: Any, tmp_path: Path) -> None:
    options = (
        "--task",
        "band",
        "--limit",
        6,
        "--seed",
        3,
        "--test-size",
        0.4,
        "--model",
        "majority",
    )
    assert krisis("run", LAB, *options, "-o", "runs")[0] == 0
    run = only_run(Path("runs"))
    result = load_run(run)
    assert len(result.evaluation_results) == 6
    assert "(first 6 of" in krisis("show", run)[1]
    edit_run(run, "DELETE FROM rows WHERE position >= 2")
    assert krisis("resume", run)[0] == 0
    again = load_run(run)
    assert [r.record_id for r in again.evaluation_results] == [
        r.record_id for r in result.evaluation_results
    ]
    assert krisis("resume", run, "--failed")[0] == 0
    code, _, error = krisis("run", "--config", run, "-o", "again")
    assert code == 0, error
    repeated = load_run(only_run(Path("again")))
    assert repeated.suite_description == result.suite_description
    code, printed, _ = krisis("run", LAB, *options, "--print-config")
    (tmp_path / "run.yaml").write_text(printed)
    assert yaml.safe_load(printed)["suite"] == LAB
    assert krisis("run", "--config", "run.yaml", "-o", "third")[0] == 0


def test_a_dry_run_shows_the_prompt(krisis: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    code, printed, _ = krisis("run", LAB, "--model", "openai/x", "--dry-run", "--limit", 4)
    assert code == 0
    assert "- Referral letter:\n  | [redacted]" in printed
    assert "4 records in 1 calls" in printed


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (
            ("run", "none.yaml", "--model", "majority"),
            "none.yaml does not exist; check",
        ),
        (("run", "--config", LAB, "--model", "majority"), "is a suite, not the settings of a run"),
        (("run", "run.yaml", "--model", "majority"), "settings of a run, not a suite"),
        (("run", "table", "--model", "majority"), "is a YAML file of your own"),
        (("run", LAB, "--task", "bend", "--model", "majority"), "did you mean 'band'"),
        (("run", LAB, "--features", "full", "--model", "majority"), "features='full' is no choice"),
    ],
)
def test_mistakes_are_one_sentence(
    krisis: Any, tmp_path: Path, words: tuple[str, ...], sentence: str
) -> None:
    (tmp_path / "run.yaml").write_text("suite: ckd\nmodel: majority\n")
    code, _, error = krisis(*words)
    assert code == 2
    assert sentence in error
    assert error.count("\n") == 1
    assert not (tmp_path / "runs").exists()


def test_the_suite_is_listed(krisis: Any) -> None:
    printed = krisis("info")[1]
    assert "table" in printed
    assert "krisis run clinic.yaml" in " ".join(printed.split())
    assert registry.find("suites", "any.yaml") is TableSuite

"""What is named in the wrong place gets a sentence with the right command."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import pytest
from typer.testing import CliRunner

from krisis.backends.base import BaseBackend
from krisis.cli.app import app
from krisis.data.table.suite import TableSuite
from krisis.errors import InvalidValue, UnknownName, UserError
from krisis.execution.assembly import third_party_notice
from krisis.registry import names

YAML = """suite: table
name: t
source: t.csv
tasks:
  main: {question: 'Is it?', label: {column: y}, answers: {0: 'no', 1: 'yes'}, features: [x]}
"""


def refused(*words: str) -> str:
    done = CliRunner().invoke(app, list(words))
    assert isinstance(done.exception, InvalidValue), done.exception
    return str(done.exception)


def test_a_table_is_no_suite(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("a,b\n1,2\n")
    assert f"type: krisis init {tmp_path / 'x.csv'}" in refused("run", str(tmp_path / "x.csv"))
    missing = CliRunner().invoke(app, ["run", str(tmp_path / "y.csv")])
    assert str(missing.exception).endswith("y.csv does not exist")


def test_a_report_of_two_runs_names_both_cures() -> None:
    said = refused("report", "runs/A", "runs/B")
    assert "krisis compare runs/A runs/B --html" in said
    assert "krisis report runs/A runs/B -o FOLDER" in said
    said = refused("report", "runs/A", "runs/B", "runs/C")
    assert "krisis report runs/* -o FOLDER" in said


def test_several_runs_become_a_page_each_and_none_is_replaced(tmp_path: Path) -> None:
    for seed in ("1", "2"):
        words = ["run", "ckd", "--model", "guideline", "--limit", "12", "--seed", seed]
        done = CliRunner().invoke(app, [*words, "--output", str(tmp_path / "runs")])
        assert done.exit_code == 0, done.output
    runs = sorted((tmp_path / "runs").glob("*.krisis"))
    pages = tmp_path / "pages"
    done = CliRunner().invoke(app, ["report", *map(str, runs), "-o", str(pages)])
    assert done.exit_code == 0, done.exception
    assert sorted(page.stem for page in pages.iterdir()) == [run.stem for run in runs]
    (pages / f"{runs[0].stem}.html").unlink()
    done = CliRunner().invoke(app, ["report", *map(str, runs), "-o", str(pages)])
    assert "exists already" in str(done.exception)
    assert [page.stem for page in pages.iterdir()] == [runs[1].stem]


def test_a_mistyped_run_is_answered_with_one_that_is_there(tmp_path: Path) -> None:
    for name in ("20260101_ckd_rule.krisis", "20260102_phq8_rule.krisis"):
        (tmp_path / name).touch()
    near, newest = tmp_path / "20260101_ckd_rle.krisis", tmp_path / "other"
    for command in ("selective", "show"):
        done = CliRunner().invoke(app, [command, str(near)])
        assert f"such as {tmp_path / '20260101_ckd_rule.krisis'}" in str(done.exception)
        done = CliRunner().invoke(app, [command, str(newest)])
        assert f"such as {tmp_path / '20260102_phq8_rule.krisis'}" in str(done.exception)


@pytest.mark.parametrize(
    ("words", "cure"),
    [
        (["init", "."], "name one table in it"),
        (["init", "t.yaml"], "type: krisis data check t.yaml"),
        (["data", "check", "t.csv"], "type: krisis init t.csv"),
        (["data", "check", "t.krisis"], "t.krisis is a run"),
        (["show", "t.csv"], "krisis import t.csv --as csv"),
        (["report", "t.csv"], "krisis init t.csv"),
        (["import", "t.csv"], "--as is missing (what the files are: inspect, lm-eval, csv"),
        (["certify", "t.krisis", "--risk", "5"], "for 5 % write 0.05"),
    ],
)
def test_other_wrong_places(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str], cure: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_text("a,b\n1,2\n")
    Path("t.yaml").write_text(YAML)
    Path("t.krisis").touch()
    done = CliRunner().invoke(app, words)
    assert isinstance(done.exception, UserError), done.exception
    assert cure in str(done.exception)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("auc", "disease_auroc"),
        ("ECE", "expected_calibration_error"),
        ("recall", "disease_sensitivity"),
    ],
)
def test_metrics_are_found_by_their_other_names(name: str, meant: str) -> None:
    assert f"did you mean {meant!r}?" in str(UnknownName.among("metric", name, names("metrics")))


def test_selective_without_a_run_says_what_to_name() -> None:
    assert "RUN is missing" in refused("selective")


def test_a_shortened_name_is_completed() -> None:
    said = str(UnknownName.among("metric", "acc", ["aurc", "accuracy", "answer_rate"]))
    assert "did you mean 'accuracy'?" in said


class _Own(BaseBackend):
    name = "own"

    def evaluate(self, *arguments: object, **options: object) -> NoReturn:
        raise AssertionError("nothing is asked here")


class _InProcess(_Own):
    name = "rule"
    __module__ = "krisis.backends.rule"


@pytest.mark.parametrize(
    ("kind", "receiver", "is_told"),
    [(_InProcess, "", False), (_InProcess, "openai at api", True), (_Own, "", True)],
)
def test_the_notice_appears_only_where_rows_may_leave(
    tmp_path: Path, kind: type[BaseBackend], receiver: str, is_told: bool
) -> None:
    (tmp_path / "t.csv").write_text("x,y\n1,0\n2,1\n")
    (tmp_path / "t.yaml").write_text(YAML)
    backend = object.__new__(kind)
    backend.third_party = receiver
    suite = TableSuite(tmp_path / "t.yaml")
    assert bool(third_party_notice(suite, backend)) is is_told
    (tmp_path / "t.yaml").write_text(f"{YAML}provenance: {{synthetic: true}}\n")
    assert not third_party_notice(TableSuite(tmp_path / "t.yaml"), backend)

"""What is named in the wrong place gets a sentence with the right command."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import pytest
from typer.testing import CliRunner

from krisis.backends.base import BaseBackend
from krisis.cli.app import app
from krisis.data.table.suite import TableSuite
from krisis.errors import InvalidValue, UnknownName
from krisis.execution.assembly import third_party_notice

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


def test_a_report_of_two_runs_names_compare() -> None:
    assert "krisis compare runs/A runs/B --html" in refused("report", "runs/A", "runs/B")


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

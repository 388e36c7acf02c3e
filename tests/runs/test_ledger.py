"""The ledger of a run: every explicit decision on its rows, an identical question once."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.commands import krisis
from tests.invented_runs import edit_run, invented_rows, only_run, result_of, write_run

from krisis.metrics.base import Rows
from krisis.runs.read import LedgerEntry, open_run


@pytest.fixture
def run(tmp_path: Path) -> Path:
    rows = (row for row in invented_rows(200) if row.outcome != "not_evaluated")
    return write_run(tmp_path / "run", result_of(Rows(rows)))


def ledger_of(path: Path) -> list[LedgerEntry]:
    with open_run(path) as opened:
        return opened.ledger()


def test_certificates_say_how_many_were_requested_on_these_rows(run: Path, tmp_path: Path) -> None:
    for risk in ("0.05", "0.08", "0.08"):
        told = krisis("certify", str(run), "--risk", risk, cwd=tmp_path)
        assert told.returncode in (0, 1), told.stderr
    third = krisis("certify", str(run), "--risk", "0.1", "-o", "c.json", cwd=tmp_path)
    sentence = "third certificate requested on these rows: risk 0.05, 0.08, 0.1"
    assert sentence in third.stdout
    assert sentence in json.loads((tmp_path / "c.json").read_text())["assumptions"]
    assert [one.question["risk"] for one in ledger_of(run)] == [0.05, 0.08, 0.1]
    assert {one.kind for one in ledger_of(run)} == {"certificate"}
    with open_run(run) as opened:
        assert {one.rows_hash for one in opened.ledger()} == {opened.rows_hash}


def test_other_rows_are_counted_anew(run: Path, tmp_path: Path) -> None:
    krisis("certify", str(run), "--risk", "0.05", cwd=tmp_path)
    edit_run(run, "DELETE FROM rows WHERE position = 0")
    told = krisis("certify", str(run), "--risk", "0.08", cwd=tmp_path)
    assert "requested on these rows" not in told.stdout


def test_a_run_that_cannot_be_written_says_not_recorded(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = run.read_bytes()
    monkeypatch.setattr("krisis.runs.write.is_own", lambda path: False)
    told = krisis("certify", str(run), "--risk", "0.05", cwd=tmp_path)
    assert "not recorded" in told.stdout
    assert run.read_bytes() == before


def test_checks_are_noted_and_looking_is_not(run: Path, tmp_path: Path) -> None:
    krisis("show", str(run), cwd=tmp_path)
    assert ledger_of(run) == []
    passed = krisis("check", str(run), "--require", "accuracy >= 0.1", cwd=tmp_path)
    assert passed.returncode == 0, passed.stderr
    krisis("check", str(run), "--require", "accuracy >= 0.99", cwd=tmp_path)
    assert [(one.kind, one.answer) for one in ledger_of(run)] == [
        ("check", "passed"),
        ("check", "failed"),
    ]


def test_a_stopping_rule_is_noted_by_the_run_itself(tmp_path: Path) -> None:
    words = ("run", "ckd", "--model", "guideline", "--stop-when", "accuracy >= 0.5")
    assert krisis(*words, "--no-baselines", cwd=tmp_path).returncode == 0
    (noted,) = ledger_of(only_run(tmp_path / "runs"))
    assert (noted.kind, noted.question) == ("stopping rule", {"rule": "accuracy >= 0.5"})
    assert noted.answer

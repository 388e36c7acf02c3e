"""A suite of one's own is called by its own names from the run to the viewer, and by no others."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from krisis import (
    BackendResponse,
    BaseBackend,
    BaseDataSuite,
    Benchmark,
    PatientRecord,
    SuiteConfig,
    Task,
)
from krisis.cli.app import main
from krisis.execution.options import Execution
from krisis.execution.recorder import Recorder
from krisis.runs.load import load_run
from krisis.viewer.app import create_app

FOREIGN = ("detection", "staging", "reduced", "ckd", "phq8")


class SepsisSuite(BaseDataSuite):
    """A user's suite with a task that krisis has never heard of."""

    tasks = {  # noqa: RUF012
        "sepsis-onset": Task(
            "sepsis-onset",
            "Will this patient develop sepsis within six hours?",
            {0: "no sepsis", 1: "sepsis"},
            positive=1,
            groups={"ward": "ward"},
        ),
        "septic-shock": Task("septic-shock", "Is this shock?", {0: "no", 1: "yes"}, positive=1),
    }

    def load(self) -> list[PatientRecord]:
        return [
            PatientRecord({"lactate": 0.7 * i}, int(i > 5), {"ward": "ICU" if i % 2 else "ED"})
            for i in range(12)
        ]


class Lactate(BaseBackend):
    name = "lactate"

    def evaluate(self, record: PatientRecord) -> BackendResponse:
        lactate = record.features["lactate"]
        assert isinstance(lactate, float)
        return BackendResponse(int(lactate > 3), confidence=0.8)


@pytest.fixture
def runs(tmp_path: Path) -> list[Path]:
    """Return the runs of the same model on either task."""
    found = []
    for task in SepsisSuite.tasks:
        suite = SepsisSuite(SuiteConfig(task=task))
        recorder = Recorder(tmp_path / "runs")
        Benchmark(suite, Lactate(), execution=Execution(recorder=recorder)).run()
        assert recorder.path is not None
        found.append(recorder.path)
    return found


def krisis(*words: str, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> tuple[int, str, str]:
    monkeypatch.setattr("sys.argv", ["krisis", *words])
    code = 0
    try:
        main()
    except SystemExit as end:
        code = int(end.code or 0)
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def test_a_sepsis_suite_keeps_its_names_everywhere(
    runs: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    onset, shock = runs
    assert "_sepsis-sepsis-onset_" in onset.name
    result = load_run(onset)
    described = result.suite_description
    assert (described["suite"], described["task"]) == ("sepsis", "sepsis-onset")
    assert result.document().title.startswith("sepsis / sepsis-onset · ")

    def command(*words: str) -> tuple[int, str, str]:
        return krisis(*words, monkeypatch=monkeypatch, capsys=capsys)

    code, text, _ = command("show", str(onset))
    assert code == 0
    assert "\nsepsis / sepsis-onset · " in text

    page = tmp_path / "report.html"
    assert command("report", str(onset), "--output", str(page))[0] == 0
    assert "<h1>sepsis / sepsis-onset · " in page.read_text()
    assert '<th scope="row">ward: ICU</th>' in page.read_text()

    code, _, refusal = command("compare", str(onset), str(shock))
    assert code == 2
    assert "task differs" in refusal
    assert "sepsis-onset" in refusal
    assert "septic-shock" in refusal

    with TestClient(create_app(tmp_path / "runs"), base_url="http://127.0.0.1") as client:
        listed, home = client.get("/index.json").text, client.get("/").text
        one = client.get(f"/runs/{onset.stem}.json").text
        explorer = client.get(f"/runs/{onset.stem}/cases").text
        found = client.get(f"/runs/{onset.stem}/cases.json?group=ward:+ICU").json()
    assert '<option value="ward: ED">' in explorer
    assert "stage" not in explorer
    assert found["n_found"] == 6
    assert "sepsis · sepsis-onset" in home
    assert '"sepsis / sepsis-onset · ' in one
    for shown in (text, json.dumps(described), refusal, listed):
        assert not any(word in shown for word in FOREIGN), shown

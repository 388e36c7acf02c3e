"""Why records failed is said wherever a run is shown: class, count and one example."""

from __future__ import annotations

from html import unescape
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from tests.documents import line_of

from krisis import BackendResponse, BaseBackend, Benchmark, PatientRecord, Task
from krisis.data.base import RecordListSuite
from krisis.execution.options import Execution
from krisis.execution.recorder import Recorder
from krisis.pages.run import run_document
from krisis.pages.shell import page as page_of
from krisis.pages.terminal import terminal_text
from krisis.runs.load import load_run
from krisis.viewer.app import create_app


class Ailing(BaseBackend):
    """Fails in its own way on some records."""

    name, max_retries = "ailing", 0

    def evaluate(self, record: PatientRecord) -> BackendResponse:
        number = int(str(record.features["x"]))
        if number % 4 == 1:
            raise TimeoutError("the ward's server is slow")
        if number == 2:
            raise ConnectionResetError(104, "reset by <b>peer</b>")
        return BackendResponse(number % 2)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    records = [PatientRecord({"x": i}, i % 2, record_id=f"r{i}") for i in range(9)]
    suite = RecordListSuite(records, Task("parity", "Odd?", {0: "no", 1: "yes"}))
    folder = tmp_path_factory.mktemp("runs")
    result = Benchmark(suite, Ailing(), execution=Execution(recorder=Recorder(folder))).run()
    return Path(str(result.provenance.run_file))


SAID = ("timeout", "TimeoutError: the ward's server is slow", "unavailable", "reset by")


def test_in_the_text_report(run: Path) -> None:
    document = load_run(run).document()
    assert "3 of 9 records NOT EVALUATED" in document.lead[0]
    timeout, reset = line_of(document, "timeout"), line_of(document, "unavailable")
    assert list(timeout.values())[1:] == [2, "TimeoutError: the ward's server is slow"]
    assert list(reset.values())[1:] == [1, "ConnectionResetError: [Errno 104] reset by <b>peer</b>"]
    assert "TimeoutError: the ward's server is slow" in terminal_text(document, verbose=False)


def test_in_the_page_and_the_viewer(run: Path) -> None:
    client = TestClient(create_app(run.parent), base_url="http://127.0.0.1")
    page = client.get(f"/runs/{run.stem}").text
    for html in (page_of(run_document(load_run(run))), page):
        assert "Records without an answer" in html
        assert "reset by &lt;b&gt;peer&lt;/b&gt;" in html
        assert "the ward's server is slow" in unescape(html)
    found = client.get(f"/runs/{run.stem}.json").json()["failures"]
    assert {name: kind["n"] for name, kind in found.items()} == {"timeout": 2, "unavailable": 1}

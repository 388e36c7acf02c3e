"""The example notebook runs in a real kernel, and so does what a notebook needs of a run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

EXAMPLE = Path(__file__).parents[1] / "examples" / "first_evaluation.ipynb"
# One call that takes longer than the moment after which a notebook shows a bar.
LONG_RUN = """
import asyncio, time
from krisis import BackendResponse, BaseBackend, PatientRecord
from krisis.data.base import RecordListSuite, Task

class Slow(BaseBackend):
    def evaluate(self, record):
        time.sleep(1.3)
        return BackendResponse(1, confidence=0.9)

asyncio.get_running_loop()
answered = Benchmark(RecordListSuite([PatientRecord({"x": 1}, 1)], Task("triage")), Slow()).run()
"""


@pytest.fixture(scope="module")
def cells(tmp_path_factory: pytest.TempPathFactory) -> list[Any]:
    """Return the executed code cells; one kernel for all, because to start one takes seconds."""
    notebook = nbformat.read(EXAMPLE, as_version=4)
    assert not any(cell.get("outputs") for cell in notebook.cells), "clear the outputs"
    notebook.cells.append(nbformat.v4.new_code_cell(LONG_RUN))
    folder = tmp_path_factory.mktemp("kernel")
    with pytest.MonkeyPatch.context() as patch:
        for name in ("IPYTHONDIR", "JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR"):
            patch.setenv(name, str(folder / name.lower()))
        resources = {"metadata": {"path": str(folder)}}
        NotebookClient(notebook, timeout=120, kernel_name="python3", resources=resources).execute()
    return [cell for cell in notebook.cells if cell.cell_type == "code"]


def html(cell: Any) -> str:
    (output,) = cell.outputs
    return str(output["data"]["text/html"])


def test_every_cell_of_the_example_shows_its_table_or_curve(cells: list[Any]) -> None:
    result, scores, rows, curve, compared, _ = cells
    first = '<p class="muted">Records: 200 loaded → 200 sent → 98 answered / 102 abstained'
    assert html(result).startswith(first)
    assert "selective_accuracy" in html(scores)
    assert "abstained" in html(rows)
    assert "<svg" in html(curve)
    assert "majority minus guideline" in html(compared)


def test_a_short_run_shows_no_bar_and_a_long_one_does(cells: list[Any]) -> None:
    assert not any("<progress" in html(cell) for cell in cells[:-1])
    assert html(cells[-1]) == (
        '<progress value="1" max="1"></progress> 1/1 · 1 answered / 0 abstained · 1 concurrent'
    )

"""Charts come from a process of their own, which may end at any time."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.invented_runs import invented_rows, result_of, write_run
from tests.viewer.conftest import Site

from krisis.errors import MissingExtra
from krisis.reporting import figure
from krisis.reporting.confidence_charts import histogram_figure
from krisis.reporting.figure import Figure
from krisis.viewer import drawing

POINT = {
    "mark": "point",
    "data": {"values": [{"a": 1}]},
    "encoding": {"x": {"field": "a", "type": "quantitative"}},
}


@pytest.fixture
def chart() -> Figure:
    found = histogram_figure(invented_rows(40).table)
    assert found is not None
    return found


def test_no_chart_of_a_page_is_drawn_in_the_server(
    serve: Callable[..., Site], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        raise AssertionError("drawn in the server")

    for name in "ab":
        write_run(tmp_path / name, result_of(invented_rows(60), name))
    monkeypatch.setattr(figure, "_converter", refuse)
    site = serve(tmp_path)
    assert site.get("/runs/a").text.count('<svg role="graphics-document"') > 5
    assert (
        '<svg role="img" aria-label="Risk against coverage' in site.get("/compare?run=a&run=b").text
    )


def test_the_process_draws_what_the_library_draws(chart: Figure) -> None:
    assert chart.drawn(drawing.draw).inline_svg == chart.inline_svg


def test_a_process_that_was_ended_is_started_again() -> None:
    before = drawing.draw(POINT)
    assert drawing._drawing._process is not None
    drawing._drawing._process.kill()
    assert drawing.draw(POINT) == before


def test_a_process_that_cannot_draw_is_no_endless_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    drawing._drawing.close()
    monkeypatch.setattr(drawing.sys, "executable", "/bin/false")
    with pytest.raises(RuntimeError, match="ended"):
        drawing.draw(POINT)


def test_without_the_library_the_page_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drawing, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=re.escape("pip install '.[charts]'")):
        drawing.draw(POINT)


def test_the_process_ends_with_its_input() -> None:
    command = [sys.executable, "-m", "krisis.viewer.drawing"]
    ended = subprocess.run(command, input=b"", capture_output=True, timeout=60, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"", b"")


def test_a_kept_chart_needs_no_charting_library(chart: Figure) -> None:
    kept = pickle.dumps(chart)
    assert b"altair" not in kept
    again = pickle.loads(kept)
    assert again.svg == chart.svg
    assert again.table == chart.table

"""What is shown while a run goes on."""

from __future__ import annotations

import io
import sys
from collections.abc import Mapping
from contextvars import ContextVar
from threading import Event
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from krisis import BackendResponse, BaseBackend, Benchmark, PatientRecord
from krisis.data.base import RecordListSuite
from krisis.execution import progress
from krisis.execution.options import Execution
from krisis.execution.progress import (
    NoProgress,
    NotebookProgress,
    PlainProgress,
    RichProgress,
    Tally,
    progress_display,
)

TALLY = Tally(
    n_cases=10,
    n_answered=4,
    n_abstained=1,
    n_not_evaluated=1,
    n_retries=2,
    n_tokens=1234,
    cost=0.5,
    limit=8,
)


def test_a_tally_in_one_line() -> None:
    assert TALLY.n_done == 6
    assert TALLY.text() == (
        "4 answered / 1 abstained / 1 not evaluated · 1,234 tokens · $0.50 · 2 retries · "
        "8 concurrent"
    )


def test_plain_lines_say_how_far_and_how_long() -> None:
    lines: list[str] = []
    plain = PlainProgress(lines.append, every_seconds=0)
    plain.begin(Tally(n_cases=10, limit=8))
    plain.advance(TALLY)
    plain.end(Tally(n_cases=10, n_answered=10, limit=8))
    assert lines[0] == "0/10 · 0 answered / 0 abstained · 8 concurrent"
    assert lines[1].startswith("6/10 · 4 answered")
    assert lines[1].endswith("s left")
    assert lines[2].startswith("10/10")
    assert "left" not in lines[2]


def test_plain_lines_are_few() -> None:
    lines: list[str] = []
    plain = PlainProgress(lines.append, every_seconds=60)
    plain.begin(TALLY)
    for _ in range(100):
        plain.advance(TALLY)
    assert len(lines) == 1


def test_the_live_bar_shows_the_tally() -> None:
    out = io.StringIO()
    bar = RichProgress(Console(file=out, force_terminal=True, width=160))
    bar.begin(Tally(n_cases=10))
    bar.advance(TALLY)
    bar.end(TALLY)
    assert "6/10" in out.getvalue()
    assert "1,234 tokens" in out.getvalue()


def test_a_display_is_chosen_by_name_and_by_terminal() -> None:
    assert isinstance(progress_display("none"), NoProgress)
    assert isinstance(progress_display("plain"), PlainProgress)
    assert isinstance(progress_display("rich"), RichProgress)
    assert isinstance(progress_display("auto"), PlainProgress)  # tests have no terminal


def test_a_run_tells_its_display_about_every_row() -> None:
    class Even(BaseBackend):
        def evaluate(self, record: PatientRecord) -> BackendResponse:
            x = record.features["x"]
            if x == 0:
                raise OSError("gone")
            return BackendResponse(0, abstained=x == 1, input_tokens=7)

    lines: list[str] = []
    records = [PatientRecord({"x": x}, 0) for x in range(4)]
    execution = Execution(progress=PlainProgress(lines.append, every_seconds=0))
    Benchmark(RecordListSuite(records), Even(), execution=execution).run()
    assert lines[-1].startswith("4/4 · 2 answered / 1 abstained / 1 not evaluated · 21 tokens")


class Shown:
    """A notebook that remembers what it was told to show, and to show in its place."""

    def __init__(self) -> None:
        self.contents: list[Mapping[str, str]] = []
        self.appeared = Event()

    def __call__(self, content: Mapping[str, str]) -> Any:
        self.contents.append(content)
        self.appeared.set()
        return self.contents.append


def test_a_notebook_shows_a_bar_where_a_run_takes_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: 100.0))
    shown = Shown()
    bar = NotebookProgress(shown, after_seconds=0)
    bar.begin(Tally(n_cases=10, limit=8))
    assert shown.appeared.wait(30)  # before any call has come back
    for _ in range(100):
        bar.advance(TALLY)
    bar.end(TALLY)
    first, last = shown.contents  # a hundred rows in a moment are not drawn one by one
    assert first["text/plain"].startswith("0/10")
    assert last == {
        "text/html": f'<progress value="6" max="10"></progress> 6/10 · {TALLY.text()}',
        "text/plain": f"6/10 · {TALLY.text()}",
    }


def test_a_benchmark_that_is_run_again_has_a_bar_of_its_own_in_the_other_cell() -> None:
    shown = Shown()
    bar = NotebookProgress(shown, after_seconds=0)
    for _ in range(2):
        shown.appeared.clear()
        bar.begin(Tally(n_cases=3))
        assert shown.appeared.wait(30)
        bar.end(Tally(n_cases=3, n_answered=3))
    assert [one["text/plain"][:3] for one in shown.contents] == ["0/3", "3/3"] * 2


def test_a_bar_belongs_to_the_cell_that_began_the_run() -> None:
    cell = ContextVar("cell", default="another")
    shown_in: list[str] = []
    shown = Shown()

    def show(content: Mapping[str, str]) -> Any:
        shown_in.append(cell.get())
        return shown(content)

    cell.set("this one")
    bar = NotebookProgress(show, after_seconds=0)
    bar.begin(TALLY)
    assert shown.appeared.wait(30)
    bar.end(TALLY)
    assert shown_in == ["this one"]


def test_a_notebook_shows_nothing_of_a_short_run() -> None:
    shown = Shown()
    bar = NotebookProgress(shown, after_seconds=3600)
    bar.begin(TALLY)
    bar.advance(TALLY)
    timer = bar._timer
    bar.end(TALLY)
    assert timer is not None
    assert timer.finished.is_set()
    bar._appear()  # a timer that fired while the run ended
    assert shown.contents == []


def test_a_bar_is_for_notebooks_alone_unless_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(Execution().progress, NoProgress)
    for shell, kind in (
        (None, NoProgress),
        (SimpleNamespace(), NoProgress),  # IPython in a terminal
        (SimpleNamespace(kernel=object()), NotebookProgress),
    ):
        module = SimpleNamespace(get_ipython=lambda shell=shell: shell)
        monkeypatch.setitem(sys.modules, "IPython", module)
        assert isinstance(Execution().progress, kind)
    assert isinstance(progress_display("auto"), NotebookProgress)
    assert isinstance(progress_display("plain"), PlainProgress)

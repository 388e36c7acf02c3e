"""Charts are drawn in a process of their own: it may die, hang or be killed, and pages go on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from krisis.errors import ChartFailed, MissingExtra
from krisis.pages import renderer as module
from krisis.pages.document import Chart, Document, Section, Sentences
from krisis.pages.figure import Figure, alt, check_charts, data
from krisis.pages.html import html_fragment
from krisis.pages.renderer import Renderer

pytest.importorskip("vl_convert", reason="the extra charts is not installed")

HOSTILE = "a\x00b\x1b[31mc\x85d\u202ee\ufffef\ud800<g&"
SPELLED = "a[U+0000]b[U+001B][31mc[U+0085]d[U+202E]e[U+FFFE]f[U+D800]<g&"


def bar(name: str) -> dict[str, Any]:
    return {
        "data": {"values": [{"name": name, "n": 1}]},
        "mark": "bar",
        "encoding": {
            "x": {"field": "name", "type": "nominal", "title": name, "sort": [name]},
            "y": {"field": "n", "type": "quantitative"},
        },
    }


def texts(svg: str) -> set[str]:
    return {one.text for one in ElementTree.fromstring(svg).iter() if one.text}


@pytest.fixture
def renderer() -> Any:
    made = Renderer()
    yield made
    made.close()


def test_hidden_characters_of_any_text_of_a_chart_are_spelled_out(renderer: Renderer) -> None:
    assert SPELLED in texts(renderer.draw("svg", bar(HOSTILE)).decode())
    assert renderer.draw("png", bar(HOSTILE)).startswith(b"\x89PNG")
    assert renderer.draw("pdf", bar(HOSTILE)).startswith(b"%PDF")


def test_hidden_characters_in_every_part_of_a_figure_are_spelled_out() -> None:
    rows = [{"run": HOSTILE, "n": 1}]
    chart = (
        alt.Chart(data(rows))
        .mark_bar()
        .encode(x=alt.X("run:N", title=HOSTILE, sort=[HOSTILE]), y="n:Q")
    )
    figure = Figure("bars", HOSTILE, HOSTILE, chart, rows, about=[HOSTILE])
    assert SPELLED in texts(figure.svg)
    ElementTree.fromstring(figure.inline_svg)
    assert "\x1b" not in figure.inline_svg
    assert figure.png().startswith(b"\x89PNG")


def test_a_chart_that_kills_the_renderer_is_refused_and_the_next_is_drawn(
    renderer: Renderer, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = renderer.draw("svg", bar("fine"))
    monkeypatch.setattr(module, "spelled_out", lambda text: text)
    with pytest.raises(ChartFailed, match="drawn: the program that draws charts stopped"):
        renderer.draw("svg", bar("a\x1bb"))
    assert renderer.draw("svg", bar("fine")) == before


def test_a_chart_that_takes_too_long_is_given_up_and_the_next_is_drawn() -> None:
    hasty = Renderer(seconds=0.001)
    with pytest.raises(ChartFailed, match="stopped"):
        hasty.draw("svg", bar("a"))
    hasty._seconds = 60.0
    assert "a" in texts(hasty.draw("svg", bar("a")).decode())
    hasty.close()


def test_what_the_converter_refuses_is_said_and_its_process_lives_on(renderer: Renderer) -> None:
    renderer.draw("svg", bar("a"))
    process = renderer._process
    with pytest.raises(ChartFailed, match=r"could not be drawn: \w") as caught:
        renderer.draw("svg", {"mark": {"type": "no such mark"}, "encoding": 3})
    assert "\n" not in str(caught.value)
    renderer.draw("svg", bar("a"))
    assert renderer._process is process


def test_a_process_that_was_killed_in_between_costs_no_chart(renderer: Renderer) -> None:
    renderer.draw("svg", bar("a"))
    assert renderer._process is not None
    renderer._process.kill()
    renderer._process.wait()
    assert "b" in texts(renderer.draw("svg", bar("b")).decode())


def test_charts_and_drawings_are_bounded() -> None:
    narrow = Renderer(max_bytes=1_000)
    with pytest.raises(ChartFailed, match="its data take more than"):
        narrow.draw("svg", bar("a" * 1_000))
    with pytest.raises(ChartFailed, match="stopped"):
        narrow.draw("png", bar("a"), scale=4.0)
    narrow._max_bytes = 10**6
    assert "b" in texts(narrow.draw("svg", bar("b")).decode())  # not the rest of the one before
    narrow.close()


def test_threads_get_each_their_own_chart(renderer: Renderer) -> None:
    names = [f"chart-{number}" for number in range(12)]
    with ThreadPoolExecutor(4) as pool:
        drawn = list(pool.map(lambda name: renderer.draw("svg", bar(name)).decode(), names))
    assert [name in texts(svg) for name, svg in zip(names, drawn, strict=True)] == [True] * 12


def test_a_page_shows_the_rest_where_one_chart_cannot_be_drawn(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def figure(name: str) -> Figure:
        rows = [{"run": name, "n": 7}]
        chart = alt.Chart(data(rows)).mark_bar().encode(x=alt.X("run:N", title=name), y="n:Q")
        return Figure(name, f"Title of {name}", "How to read it.", chart, rows)

    monkeypatch.setattr(module, "spelled_out", lambda text: text)
    parts = [
        Chart(key="one", draw=lambda: figure("bad\x1b")),
        Chart(key="two", draw=lambda: figure("good")),
        Sentences(["The last sentence."]),
    ]
    page = html_fragment(
        Document(title="t", sections=[Section(key="charts", title="Charts", parts=parts)])
    )
    assert page.count("this chart could not be drawn") == 1
    assert page.count("<svg") == 1
    assert page.count("<td>7</td>") == 2  # the numbers of both
    assert "The last sentence." in page
    assert "\x1b" not in page


@pytest.mark.skipif(os.name == "nt", reason="asks for a process by its number")
def test_the_process_ends_with_the_program_that_started_it(tmp_path: Path) -> None:
    script = (
        "import sys, time\n"
        "from krisis.pages.renderer import RENDERER\n"
        "RENDERER.draw('svg', {'mark': 'point', 'data': {'values': [{}]}})\n"
        "print(RENDERER._process.pid, flush=True)\n"
        "time.sleep(600)\n"
    )
    program = subprocess.Popen(
        [sys.executable, "-c", script], stdout=subprocess.PIPE, text=True, cwd=tmp_path
    )
    assert program.stdout is not None
    number = int(program.stdout.readline())
    program.send_signal(signal.SIGKILL)
    program.communicate()
    deadline = time.monotonic() + 60
    with suppress(ProcessLookupError):
        while time.monotonic() < deadline:
            os.kill(number, 0)
            if Path(f"/proc/{number}/stat").is_file():  # where nobody collects it, it is a zombie
                state = Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0]
                if state == "Z":
                    return
            time.sleep(0.02)
        pytest.fail("the renderer outlived its program")


def test_nothing_is_imported_from_the_folder_one_works_in(
    renderer: Renderer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("json", "vl_convert", "faulthandler"):
        (tmp_path / f"{name}.py").write_text("open('executed', 'w')")
    monkeypatch.chdir(tmp_path)
    renderer.draw("svg", bar("a"))
    assert not (tmp_path / "executed").exists()
    assert renderer._process is not None
    assert "-P" in list(renderer._process.args)  # type: ignore[arg-type]  # nor from its own folder


def test_without_the_converter_one_is_told_what_to_install(
    renderer: Renderer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    with pytest.raises(MissingExtra, match="charts"):
        renderer.draw("svg", bar("a"))
    with pytest.raises(MissingExtra, match="charts"):
        check_charts()

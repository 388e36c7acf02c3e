"""Nothing that a stranger wrote steers the terminal: not in tables, errors, progress or CSV."""

from __future__ import annotations

import errno
import io
import json
import logging
import os
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import typer
from tests.commands import krisis
from tests.hostile_names import NASTY, hostile_run
from tests.invented_runs import invented_rows, result_of, write_run
from tests.terminals import shown_by

from krisis.cli.streams import echo_data, echo_error, echo_json, echo_lines
from krisis.display import HIDDEN
from krisis.execution.progress import RichProgress, Tally
from krisis.terminal_edge import TerminalEdge, guard_streams, live_console, unescaped

OWN = re.compile(r"\x1b\[(?:[0-9;]*m|\?25[lh]|\d*[AK])|\r")
posix = pytest.mark.skipif(sys.platform == "win32", reason="needs a pseudo-terminal")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("hostile")
    hostile_run(place, "a")
    hostile_run(place, "b", seed=1)
    write_run(place / "c", result_of(invented_rows(30), "plain"))
    (place / f"{NASTY.replace(chr(0), '')}.krisis").write_bytes(b"not a run")
    return place


COMMANDS = {
    "show": ["show", "a.krisis"],
    "show all": ["show", "a.krisis", "--verbose"],
    "csv": ["show", "a.krisis", "--format", "csv"],
    "markdown": ["show", "a.krisis", "--format", "markdown"],
    "json": ["show", "a.krisis", "--format", "json"],
    "compare": ["compare", "a.krisis", "b.krisis", "--permutations", "99"],
    "compare refused": ["compare", "a.krisis", "c.krisis"],
    "doctor": ["doctor", "a.krisis"],
    "audit": ["audit", "a.krisis"],
    "no such file": ["show", NASTY.replace("\x00", "")],
    "no such model": ["run", "ckd", "--model", NASTY.replace("\x00", "")],
    "debug": ["show", f"{NASTY.replace(chr(0), '')}.krisis", "--debug"],
}

NAMELESS = ("doctor", "audit")  # they show nothing that the file says


@pytest.fixture(scope="module")
def terminal(folder: Path) -> Mapping[str, str]:
    return shown_by(COMMANDS, folder)


@posix
@pytest.mark.parametrize("name", COMMANDS)
def test_no_command_lets_a_name_steer_the_terminal(terminal: Mapping[str, str], name: str) -> None:
    shown = terminal[name]
    assert shown.strip()
    assert "\x1b[45m" not in shown
    assert HIDDEN.search(OWN.sub("", shown)) is None
    assert "U+001B" in shown or r"\x1b" in shown or r"\u001b" in shown or name in NAMELESS


@posix
def test_colours_of_krisis_itself_reach_the_terminal(terminal: Mapping[str, str]) -> None:
    assert "\x1b[1m" in terminal["show"]


def test_a_pipe_gets_the_data_of_a_csv_as_they_are_and_everything_else_escaped(
    folder: Path,
) -> None:
    done = krisis("show", "a.krisis", "--format", "csv", cwd=folder)
    assert "\x1b[2J" in done.stdout
    for words in (["show", "a.krisis"], ["show", "a.krisis", "--format", "json"]):
        done = krisis(*words, cwd=folder)
        assert done.returncode == 0
        assert HIDDEN.search(done.stdout + done.stderr) is None
    assert NASTY in json.loads(done.stdout)["backend_name"]


class Written(io.TextIOWrapper):
    """A stream that is, or is not, a terminal."""

    def __init__(self, *, terminal: bool = True) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8", newline="\n")
        self.terminal = terminal

    def getvalue(self) -> str:
        self.flush()
        written: bytes = self.buffer.getvalue()  # type: ignore[attr-defined]
        return written.decode()

    def isatty(self) -> bool:
        return self.terminal


def guarded(monkeypatch: pytest.MonkeyPatch) -> Written:
    """Return the terminal that both streams lead to; pytest sets its own before every test."""
    written = Written()
    monkeypatch.setattr(sys, "stdout", written)
    monkeypatch.setattr(sys, "stderr", written)
    guard_streams()
    return written


def test_tables_are_escaped_on_a_terminal_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = guarded(monkeypatch)
    echo_data("a\x85b")
    assert terminal.getvalue() == "a[U+0085]b\n"
    pipe = Written(terminal=False)
    monkeypatch.setattr(sys, "stdout", TerminalEdge(pipe))
    echo_data("a\x85b")
    assert pipe.getvalue() == "a\x85b\n"


def test_json_keeps_its_values_in_escapes(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = guarded(monkeypatch)
    text = json.dumps({"name": "a\u202eb\x85\U000e0041"}, ensure_ascii=False)
    echo_json(text)
    assert HIDDEN.search(terminal.getvalue()) is None
    assert json.loads(terminal.getvalue()) == json.loads(text)


def test_no_line_of_an_error_passes_for_another_error(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = guarded(monkeypatch)
    echo_error("no run 'a\nkrisis: all is well\n  as it was\rx'")
    assert terminal.getvalue() == ("krisis: no run 'a\n  krisis: all is well\n  as it was\n  x'\n")


def test_a_line_of_several_stays_one(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = guarded(monkeypatch)
    echo_lines(["  a\nb\x1b", "c"])
    assert terminal.getvalue() == "  a b[U+001B]\nc\n"


def test_logs_and_tracebacks_are_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = guarded(monkeypatch)
    logging.StreamHandler().emit(logging.makeLogRecord({"msg": "w\x1b[2J"}))
    sys.excepthook(ValueError, ValueError("e\x1b[2J"), None)
    sys.stderr.writelines(["l\x1b[2J"])
    assert "\x1b" not in terminal.getvalue()
    assert [f"{one}[U+001B]" in terminal.getvalue() for one in "wel"] == [True] * 3


def test_what_is_printed_between_live_lines_is_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = guarded(monkeypatch)
    monkeypatch.setenv("TERM", "xterm")
    bar = RichProgress(live_console(), name="n\x9b")
    bar.begin(Tally(n_cases=3, waiting="[red]batch\x1b[45m"))
    print("between\x1b[45m\u202e", file=sys.stderr)
    print("and out\x9b")
    typer.echo("by click\x9b", err=True)
    bar.advance(Tally(n_cases=3, waiting="later\x1b[45m"))
    bar.end(Tally(n_cases=3, waiting="last\x1b[45m"))
    shown = terminal.getvalue()
    assert "\x1b[?25l" in shown  # the bar is live
    assert "\x1b[45m" not in shown
    assert HIDDEN.search(OWN.sub("", shown)) is None
    assert [word in shown for word in ("between", "and out", "by click", "[red]batch")] == [
        True
    ] * 4


def test_the_edge_is_put_before_a_stream_once(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = guarded(monkeypatch)
    edge = sys.stdout
    guard_streams()
    assert sys.stdout is edge
    unescaped(sys.stdout).write("\x1b[1m")
    assert terminal.getvalue() == "\x1b[1m"


class Broken(Written):
    """A stream whose every byte fails."""

    def __init__(self, number: int, *, terminal: bool) -> None:
        super().__init__(terminal=terminal)
        self.number = number
        self.ours, self.theirs = os.pipe()

    def fileno(self) -> int:
        return self.theirs

    def fail(self, *_: Any) -> int:
        raise OSError(self.number, os.strerror(self.number))

    write = fail  # type: ignore[assignment]
    flush = fail  # type: ignore[assignment]


def test_only_a_terminal_that_is_gone_is_written_to_no_more() -> None:
    gone = Broken(errno.EIO, terminal=True)
    assert TerminalEdge(gone).write("abc") == 3
    TerminalEdge(gone).flush()
    assert os.path.samestat(os.fstat(gone.theirs), os.stat(os.devnull))
    for broken in (Broken(errno.EIO, terminal=False), Broken(errno.ENOSPC, terminal=True)):
        edge = TerminalEdge(broken)
        with pytest.raises(OSError, match=os.strerror(broken.number)):
            edge.write("abc")
        with pytest.raises(OSError, match=os.strerror(broken.number)):
            edge.flush()
        os.close(broken.theirs)
    os.close(gone.theirs)
    os.close(gone.ours)

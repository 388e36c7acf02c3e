"""Documents on a terminal: a first screen with all of it, 80 columns, nothing lost."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.commands import krisis
from tests.fixture_reports import FIXTURES
from tests.invented_runs import write_run

from krisis.pages.document import Column, Document, Facts, Section, Sentences, Table
from krisis.pages.terminal import WIDTH, terminal_text

QUESTIONS = (
    "Worth using?",
    "Knew when not to answer?",
    "Right when it answered?",
    "Missed disease",
    "Confidence trustworthy?",
    "Usable alone at 5 %?",
    "Left for people",
    "Groups to watch",
)


def too_wide(text: str) -> list[str]:
    """Return the lines over 80 columns that hold no path and no command to copy."""
    return [
        line
        for line in text.splitlines()
        if len(line) > WIDTH and not re.search(r"/\S{20}|krisis |SHA-256", line)
    ]


def test_a_run_prints_one_screen(tmp_path: Path) -> None:
    """30 lines were aimed at; the lines with a path to copy are longer than a terminal is wide."""
    done = krisis("run", "ckd", "--model", "guideline", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) <= 35
    assert lines[0].startswith("Records: 200 loaded")
    for question in QUESTIONS:
        assert any(line.startswith(question) for line in lines[2:20]), (question, done.stdout)
    eight = next(at for at, line in enumerate(lines) if line.startswith("Metrics"))
    assert all(len(line.split()) >= 4 for line in lines[eight + 1 : eight + 9])
    assert " s" in lines[eight + 10]
    assert "--verbose" in done.stdout
    assert not too_wide(done.stdout)


@pytest.mark.parametrize("name", FIXTURES)
@pytest.mark.parametrize("verbose", [False, True])
def test_no_line_is_wider_than_a_terminal(name: str, verbose: bool) -> None:
    text = terminal_text(FIXTURES[name]().document(), verbose=verbose)
    assert not too_wide(text)
    assert all(question in text for question in QUESTIONS)


def test_show_prints_the_verdict_and_with_verbose_every_figure(tmp_path: Path) -> None:
    path = str(write_run(tmp_path / "run", FIXTURES["plain"]()))
    brief = krisis("show", path, cwd=tmp_path)
    whole = krisis("show", path, "--verbose", cwd=tmp_path)
    assert (brief.returncode, whole.returncode) == (0, 0)
    assert len(brief.stdout.splitlines()) <= 45
    assert "Expected Calibration Error" in brief.stdout
    assert "Cases to look at first" not in brief.stdout
    assert "Time, tokens" not in brief.stdout
    assert len(whole.stdout.splitlines()) > 2 * len(brief.stdout.splitlines())
    assert "\x1b[" not in brief.stdout  # no terminal, no colour


def test_answers_have_their_colours_only_where_the_terminal_has_them() -> None:
    document = FIXTURES["with_kinds"]().document()
    coloured = terminal_text(document, colour=True)
    assert "\x1b[1;3" in coloured
    assert re.sub(r"\x1b\[[\d;]*m", "", coloured) == terminal_text(document)


def test_words_of_strangers_cannot_steer_the_terminal_from_anywhere() -> None:
    hostile = "a\x1b[2Jb\x9bc\x07"
    document = Document(
        title=hostile,
        lead=[hostile],
        sections=[
            Section(
                key="s",
                title=hostile,
                parts=[
                    Sentences([hostile]),
                    Facts([(hostile, hostile)]),
                    Table(
                        columns=[Column("name", hostile)],
                        rows=[[hostile]],
                        title=hostile,
                        note=hostile,
                    ),
                ],
            )
        ],
        commands=[hostile],
    )
    for colour in (False, True):
        assert not re.search(r"[\x07\x9b]|\x1b\[2J", terminal_text(document, colour=colour))


def test_a_command_to_copy_is_on_one_line() -> None:
    path = "/a/long/place/" + "/".join(["deep"] * 30)
    sentence = f"{'DAMAGED ' * 12}; type: krisis doctor {path}"
    text = terminal_text(Document(title="t", lead=[sentence], commands=[f"krisis show {path}"]))
    assert f"krisis doctor {path}" in text.splitlines()
    assert f"krisis show {path}" in text.splitlines()


def test_a_percent_sign_stays_with_its_number() -> None:
    words = ["x" * n + " 5 % of all" for n in range(60, 80)]
    text = terminal_text(Document(title="t", lead=words))
    assert not any(line.startswith("%") for line in text.splitlines())

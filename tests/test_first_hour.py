"""The first commands that a stranger types, from README and tutorial, print what is shown there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from tests.data.phq8.test_phq8_tutorial import assert_shown_in_order
from tests.data.table.test_own_data_tutorial import typed
from tests.test_docs import ROOT, blocks

PAGE = ROOT / "docs" / "tutorials" / "first-hour.md"
COMMANDS = [content for kind, content in blocks(PAGE) if kind == "bash"]
PICTURE = ROOT / "docs" / "images" / "report.png"


@pytest.fixture
def clone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with what the commands need of the repository."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "examples").mkdir()
    shutil.copy(ROOT / "examples" / "ward_model.py", tmp_path / "examples")
    return tmp_path


def test_the_way_to_a_comparison_takes_ten_commands_and_begins_with_a_clone() -> None:
    lines = "".join(COMMANDS).splitlines()
    assert len(lines) <= 10
    assert lines[:5] == [
        "git clone ADDRESS krisis",
        "cd krisis",
        "python3 -m venv .venv",
        ". .venv/bin/activate",
        "pip install -c constraints.txt '.[report]'",
    ]
    assert all(line.startswith("krisis ") for line in lines[5:])


def test_the_commands_after_the_installation_compare_three_models_on_a_page(
    clone: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    _, runs, compared = (typed_after_installation(c, monkeypatch, capsys) for c in COMMANDS)
    shown = [content for kind, content in blocks(PAGE) if kind == "output"]
    for content, printed in zip(shown, (runs, compared), strict=True):
        assert_shown_in_order(content, printed)
    page = re.sub(r"<[^>]+>|\s+", " ", (clone / "comparison.html").read_text(encoding="utf-8"))
    page = re.sub(" +", " ", page)
    for pair in ("guideline minus majority", "ward minus majority", "ward minus guideline"):
        assert pair in page
    # The README begins with the second of these runs.
    (_, install), (_, command), (kind, output), *_ = blocks(ROOT / "README.md")
    assert install.endswith("\npip install .\n")
    assert command in COMMANDS[1]
    assert kind == "output"
    assert_shown_in_order(output, runs)


def typed_after_installation(
    commands: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> str:
    printed = "" if commands.startswith("git") else typed(commands, monkeypatch, capsys)
    assert "exit" not in printed
    return printed


def test_the_picture_of_the_report_is_small() -> None:
    assert PICTURE.read_bytes().startswith(b"\x89PNG")
    assert PICTURE.stat().st_size <= 200_000


@pytest.mark.slow
def test_the_ten_commands_work_from_a_clone_in_a_new_environment(tmp_path: Path) -> None:
    script = "".join(COMMANDS).replace("ADDRESS", str(ROOT))
    hidden = ("_API_KEY", "PYTHONPATH", "VIRTUAL_ENV")
    kept = {name: value for name, value in os.environ.items() if not name.endswith(hidden)}
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", script],
        cwd=tmp_path,
        env={**kept, "XDG_CACHE_HOME": str(tmp_path / "cache")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "krisis" / "comparison.html").stat().st_size > 10_000

"""The tutorial is typed in as it stands, in an empty folder, and must print what it shows."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[3] / "docs" / "tutorials" / "phq8.md"
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.DOTALL | re.MULTILINE)


def typed(commands: str, folder: Path) -> str:
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", commands],
        cwd=folder,
        env={
            **{name: value for name, value in os.environ.items() if not name.endswith("_API_KEY")},
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "XDG_CACHE_HOME": str(folder / "cache"),
            "HOME": str(folder),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def assert_shown_in_order(shown: str, printed: str) -> None:
    lines = iter(line.strip() for line in printed.splitlines())
    for wanted in shown.strip().splitlines():
        if wanted.strip() != "…":
            assert any(line == wanted.strip() for line in lines), f"not printed: {wanted}"


@pytest.mark.slow
def test_the_tutorial_runs_from_an_empty_folder_and_prints_what_it_shows(tmp_path: Path) -> None:
    printed = ""
    n_shown = 0
    for kind, content in BLOCK.findall(PAGE.read_text(encoding="utf-8")):
        if kind == "bash":
            printed = typed(content, tmp_path)
        elif kind == "output":
            assert_shown_in_order(content, printed)
            n_shown += 1
    assert n_shown == 5
    figures = json.loads((tmp_path / "figures.json").read_text())
    assert set(figures["confidence_variants"]) == {"verbalized", "calibrated"}
    assert (tmp_path / "curves.svg").stat().st_size > 1000

"""The first commands that a stranger types, from README and tutorial, print what is shown there."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from itertools import combinations
from pathlib import Path

import pytest
from tests.pages import ROOT, assert_shown_in_order, blocks_of, typed

PAGE = ROOT / "docs" / "tutorials" / "first-hour.md"
INSTALL, RUNS, COMPARE = (block for block in blocks_of(PAGE) if block.kind == "bash")
PICTURE = ROOT / "docs" / "images" / "report.png"


def test_the_way_to_a_comparison_takes_ten_commands_and_begins_with_a_clone() -> None:
    assert INSTALL.text.splitlines() == [
        "git clone ADDRESS krisis",
        "cd krisis",
        "python3 -m venv .venv",
        ". .venv/bin/activate",
        "pip install -c constraints.txt '.[report]'",
    ]
    others = (RUNS.text + COMPARE.text).splitlines()
    assert len(others) <= 5
    assert all(line.startswith("krisis ") for line in others)


def test_the_commands_after_the_installation_compare_three_models_on_a_page(tmp_path: Path) -> None:
    (tmp_path / "examples").mkdir()
    shutil.copy(ROOT / "examples" / "ward_model.py", tmp_path / "examples")
    runs, compared = (typed(block.text, tmp_path) for block in (RUNS, COMPARE))
    assert_shown_in_order(RUNS.shown, runs)
    assert_shown_in_order(COMPARE.shown, compared)
    page = (tmp_path / "comparison.html").read_text(encoding="utf-8")
    words = re.sub(r"(<[^>]+>|\s)+", " ", page)
    # The shell lists runs by the second they began in, and those of one second by name.
    for one, other in combinations(("majority", "guideline", "ward"), 2):
        assert f"{one} compared with {other}" in words or f"{other} compared with {one}" in words
    # The README begins with the second of these runs.
    install, first, *_ = blocks_of(ROOT / "README.md")
    assert install.text.endswith("\npip install .\n")
    assert first.text in RUNS.text
    assert first.shown
    assert_shown_in_order(first.shown, runs)
    # So do the other pages for strangers, and `krisis --help`.
    for page in ("index.md", "tutorials/first-number.md", "how-to/install.md"):
        assert first.text.strip() in (ROOT / "docs" / page).read_text(encoding="utf-8")
    assert f"Type: {first.text.strip()} " in typed("krisis --help", tmp_path)


def test_the_picture_of_the_report_is_small() -> None:
    assert PICTURE.read_bytes().startswith(b"\x89PNG")
    assert PICTURE.stat().st_size <= 200_000


@pytest.mark.slow
def test_the_ten_commands_work_from_a_clone_in_a_new_environment(tmp_path: Path) -> None:
    script = (INSTALL.text + RUNS.text + COMPARE.text).replace("ADDRESS", str(ROOT))
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

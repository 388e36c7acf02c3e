"""The first commands that a stranger types, from README and tutorial, print what is shown there."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
from glob import glob
from pathlib import Path

import pytest
from tests.commands import krisis
from tests.data.phq8.test_phq8_tutorial import assert_shown_in_order

ROOT = Path(__file__).parents[1]
PICTURE = ROOT / "docs" / "images" / "report.png"


def blocks(page: str, kind: str) -> list[str]:
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.findall(rf"^```{kind}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


INSTALL, RUNS, COMPARE = blocks("docs/tutorials/first-hour.md", "bash")


def typed(commands: str, folder: Path) -> str:
    """Run commands in this process and return what they print."""
    printed = ""
    for line in commands.splitlines():
        files = [sorted(glob(w, root_dir=folder)) if "*" in w else [w] for w in shlex.split(line)]
        done = krisis(*[word for some in files for word in some][1:], cwd=folder)
        assert done.returncode == 0, f"{line}: {done.stderr}"
        printed += done.stdout
    return printed


def test_the_way_to_a_comparison_takes_ten_commands_and_begins_with_a_clone() -> None:
    assert INSTALL.splitlines() == [
        "git clone ADDRESS krisis",
        "cd krisis",
        "python3 -m venv .venv",
        ". .venv/bin/activate",
        "pip install -c constraints.txt '.[report]'",
    ]
    others = (RUNS + COMPARE).splitlines()
    assert len(others) <= 5
    assert all(line.startswith("krisis ") for line in others)


def test_the_commands_after_the_installation_compare_three_models_on_a_page(tmp_path: Path) -> None:
    (tmp_path / "examples").mkdir()
    shutil.copy(ROOT / "examples" / "ward_model.py", tmp_path / "examples")
    runs, compared = typed(RUNS, tmp_path), typed(COMPARE, tmp_path)
    shown = blocks("docs/tutorials/first-hour.md", "output")
    for output, printed in zip(shown, (runs, compared), strict=True):
        assert_shown_in_order(output, printed)
    page = (tmp_path / "comparison.html").read_text(encoding="utf-8")
    words = re.sub(r"(<[^>]+>|\s)+", " ", page)
    for pair in ("guideline minus majority", "ward minus majority", "ward minus guideline"):
        assert pair in words
    # The README begins with the second of these runs.
    install, first, *_ = blocks("README.md", "bash")
    assert install.endswith("\npip install .\n")
    assert first in RUNS
    assert_shown_in_order(blocks("README.md", "output")[0], runs)


def test_the_picture_of_the_report_is_small() -> None:
    assert PICTURE.read_bytes().startswith(b"\x89PNG")
    assert PICTURE.stat().st_size <= 200_000


@pytest.mark.slow
def test_the_ten_commands_work_from_a_clone_in_a_new_environment(tmp_path: Path) -> None:
    script = (INSTALL + RUNS + COMPARE).replace("ADDRESS", str(ROOT))
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

"""ARCHITECTURE.md says what is there: the folders, the registered kinds, the walk of a record."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from krisis import registry

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "krisis"
PAGE = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")


def folders(place: str) -> list[str]:
    return sorted(one.parent.name for one in (SOURCE / place).glob("*/__init__.py"))


def test_the_tree_of_the_page_has_every_folder_and_no_other() -> None:
    tree = PAGE.split("```")[1]
    suites = re.search(r"  data/(\w.*?) {2,}", tree)
    assert suites is not None
    assert suites[1].split() == folders("data")
    named = set(re.findall(r"\b(\w+)/", tree)) - {"krisis"}
    assert named == set(folders("."))


def test_every_place_that_the_page_names_exists() -> None:
    for place in re.findall(r"`((?:tests/)?[\w/]+(?:/|\.py))`", PAGE):
        if "NAME" not in place and place not in ("page.py", "chart.py", "command.py"):
            below = ROOT if place.startswith("tests/") else SOURCE
            known = [below / place.removeprefix("krisis/"), *(SOURCE / "verbs").glob(f"*/{place}")]
            assert any(one.exists() for one in known), place


def test_the_page_names_the_registered_kinds() -> None:
    assert f"kinds of names: {', '.join(registry.BUILT_IN)}." in PAGE


def test_one_record_walks_as_the_page_says() -> None:
    """In a process of its own: watching every call slows all that runs beside it."""
    words = [sys.executable, "-m", "benchmarks.walk"]
    done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    counted = [int(line.split()[0]) for line in done.stdout.splitlines()[:3]]
    stated = re.search(r"(\d+) functions, (\d+) pairs of modules.*?(\d+) kinds of", PAGE, re.DOTALL)
    assert stated is not None
    # A function or two are called or not, as the display of progress is fast or slow.
    assert counted == pytest.approx([int(one) for one in stated.groups()], abs=3)

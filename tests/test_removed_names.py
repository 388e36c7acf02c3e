"""What left has left: no page, help text or line of source names it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
NAMES = (ROOT / "tests" / "removed_names.txt").read_text(encoding="utf-8").splitlines()
TEXTS = {".css", ".html", ".js", ".md", ".py", ".toml", ".yaml", ".yml"}
PAGES = [
    path
    for place in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "ARCHITECTURE.md", "mkdocs.yml")
    for path in [ROOT / place]
] + [
    path
    for folder in ("docs", "src", "examples", "scripts")
    for path in sorted((ROOT / folder).rglob("*"))
    if path.suffix in TEXTS
]


def lines_with(names: list[str], text: str) -> list[str]:
    """Return the lines that name any of these, as whole words."""
    named = "|".join(re.escape(name) for name in names)
    found = re.compile(rf"(?<![\w-])(?:{named})(?![\w-])")
    return [line for line in text.splitlines() if found.search(line)]


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_nothing_names_what_left(path: Path) -> None:
    assert lines_with(NAMES, path.read_text(encoding="utf-8")) == []


def test_a_name_that_came_back_is_seen() -> None:
    assert lines_with(["--deferral", "e50"], "a --deferral\nno e505\nE50 and e50") == [
        "a --deferral",
        "E50 and e50",
    ]

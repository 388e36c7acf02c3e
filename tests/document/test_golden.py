"""One file per verb and medium holds the sentences: what changes here changes for readers.

To accept a change, look at the difference, delete the file and run this test twice.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.fixture_reports import FIXTURES

from krisis.pages.document import Document
from krisis.pages.html import html_fragment
from krisis.pages.terminal import terminal_text

GOLDEN = Path(__file__).parents[1] / "golden"
MEDIA: dict[str, Callable[[Document], str]] = {
    "brief.txt": lambda document: terminal_text(document, verbose=False),
    "verbose.txt": terminal_text,
    "html": lambda document: without_drawings(html_fragment(document)).replace("><", ">\n<"),
}


def without_drawings(page: str) -> str:
    """Leave out drawings and their numbers: what they show has tests of its own."""
    page = re.sub(r"<svg role=\"img\" aria-label=\"[^\"]*\" class=\"chart\".*?</svg>", "", page)
    return re.sub(r"<details><summary>The numbers of this chart.*?</details>", "", page)


def held(name: str, text: str) -> None:
    """Compare a text with the file that holds it."""
    path = GOLDEN / name
    if not path.exists():
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"{text}\n", encoding="utf-8")
        pytest.fail(f"{path} did not exist; it is written, look at it and run again")
    assert path.read_text(encoding="utf-8") == f"{text}\n"


@pytest.mark.parametrize("medium", MEDIA)
def test_show(medium: str) -> None:
    held(f"show.{medium}", MEDIA[medium](FIXTURES["with_kinds"]().document()))

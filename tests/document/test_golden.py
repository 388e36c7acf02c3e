"""One file per verb and medium holds the sentences: what changes here changes for readers.

To accept a change, look at the difference, delete the file and run this test twice.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.fixture_reports import FIXTURES
from tests.fixture_results import RESULTS

from krisis.pages.document import Document
from krisis.pages.html import html_fragment
from krisis.pages.latex import latex_tables
from krisis.pages.markdown import markdown_text
from krisis.pages.terminal import WIDTH, terminal_text

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


# Of every verb the result that says most; the terminal holds all of it, the others their markup.
HELD = {
    "compare": "compare",
    "compare-many": "compare.three",
    "sweep": "sweep",
    "selective": "selective.two",
    "certify": "certify.groups",
    "verify": "verify.groups",
    "plan": "plan.certify",
    "check": "check",
    "decide": "decide.moved",
    "decide-curve": "decide.curve",
    "decide-reader": "decide.reader",
    "audit": "audit.against",
}
EVERY_MEDIUM = {
    **MEDIA,
    "md": markdown_text,
    "tex": latex_tables,
}


@pytest.mark.parametrize("verb", HELD)
@pytest.mark.parametrize("medium", EVERY_MEDIUM)
def test_every_verb_in_every_medium(verb: str, medium: str) -> None:
    held(f"{verb}.{medium}", EVERY_MEDIUM[medium](RESULTS[HELD[verb]]().document()))


@pytest.mark.parametrize("name", RESULTS)
def test_no_line_of_a_verb_is_wider_than_a_terminal(name: str) -> None:
    document = RESULTS[name]().document()
    for verbose in (False, True):
        lines = terminal_text(document, verbose=verbose).splitlines()
        assert not [line for line in lines if len(line) > WIDTH]

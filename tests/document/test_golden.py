"""One file per verb and medium holds the sentences: what changes here changes for readers.

To accept a change, look at the difference, delete the file and run this test twice.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest
from tests.fixture_reports import FIXTURES
from tests.fixture_results import OF_VERBS, RESULTS

from krisis.display import Documented
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
    "md": markdown_text,
    "tex": latex_tables,
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


# Of every verb the result that says most; the terminal holds all of it, the others their markup.
HELD = {
    "compare": "compare",
    "compare-many": "compare.three",
    "grid": "grid",
    "selective": "selective.two",
    "certify": "certify.groups",
    "verify": "verify.groups",
    "plan": "plan.certify",
    "check": "check",
    "decide": "decide.moved",
    "decide-curve": "decide.curve",
    "decide-reader": "decide.reader",
    "audit": "audit.against",
    **OF_VERBS,
    "scores": "scores",
    "curve": "curve",
}


@cache
def shown(verb: str) -> Documented:
    """Return the result of a verb, and of show a run with kinds of deferral."""
    found: Documented = (FIXTURES["with_kinds"] if verb == "show" else RESULTS[HELD[verb]])()
    return found


@pytest.mark.parametrize("verb", ["show", *HELD])
@pytest.mark.parametrize("medium", MEDIA)
def test_every_verb_in_every_medium(verb: str, medium: str) -> None:
    held(f"{verb}.{medium}", MEDIA[medium](shown(verb).document()))


def test_every_result_that_shows_itself_is_held() -> None:
    kinds = {type(shown(verb)).builder for verb in ("show", *HELD)}
    assert kinds == {
        kind.builder for kind in Documented.__subclasses__() if "krisis" in kind.__module__
    }


@pytest.mark.parametrize("name", RESULTS)
def test_no_line_of_a_verb_is_wider_than_a_terminal(name: str) -> None:
    document = RESULTS[name]().document()
    for verbose in (False, True):
        lines = terminal_text(document, verbose=verbose).splitlines()
        assert not [line for line in lines if len(line) > WIDTH]

"""What is seen first, without scrolling: the verdict, on the page of a run and in its report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.fixture_reports import FIXTURES
from tests.viewer.conftest import Site, Watched

from krisis.pages.run import run_document
from krisis.pages.shell import page as page_of

pytestmark = pytest.mark.browser


def is_seen(page: Any, height: int) -> None:
    """Fail unless the verdict, on a telephone its first lines, is on the first screen."""
    lines = page.locator(".verdict .verdict-line")
    assert lines.count() == 8
    box = (lines.last if page.viewport_size["width"] > 600 else lines.nth(2)).bounding_box()
    assert box is not None
    assert box["y"] + box["height"] <= height
    assert page.evaluate("document.documentElement.scrollWidth") <= page.viewport_size["width"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(("width", "height"), [(1280, 900), (390, 844)])
def test_the_verdict_is_on_the_first_screen_of_a_report(
    watched: Watched, tmp_path: Path, width: int, height: int, scheme: str
) -> None:
    path = tmp_path / "report.html"
    path.write_text(page_of(run_document(FIXTURES["with_kinds"]())), encoding="utf-8")
    page = watched.page
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": height})
    page.goto(path.as_uri())
    watched.picture(f"report-{scheme}-{width}")
    is_seen(page, height)


@pytest.mark.parametrize(("width", "height"), [(1280, 900), (390, 844)])
def test_the_answers_are_on_the_first_screen_of_the_page_of_a_run(
    watched: Watched, shown_site: Site, width: int, height: int
) -> None:
    page = watched.page
    page.set_viewport_size({"width": width, "height": height})
    page.goto(f"{shown_site.address}/runs/run-a")
    lines = page.locator(".verdict .verdict-line")
    last = (lines.last if width > 600 else lines.nth(2)).bounding_box()
    assert last is not None
    assert last["y"] + last["height"] <= height

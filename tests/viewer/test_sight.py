"""What a reader sees: the answer on the first screen, no column cut, and names that stay."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.fixture_results import RESULTS
from tests.viewer.conftest import Site, Watched

from krisis.pages.shell import page as page_of

pytestmark = pytest.mark.browser

SIZES = [(1280, 900), (390, 844)]
# A page → what it answers with.
ANSWERS_OF = {
    "/": ".finding",
    "/runs/run-a": ".verdict-line",
    "/compare?run=run-a&run=run-b": ".finding",
    "/runs/run-a/decide?max_not_evaluated=0.1": ".verdict-line",
    "/runs/run-a/decide?wrong=45&max_not_evaluated=0.1": ".verdict-line",
}
PAGES = [
    *ANSWERS_OF,
    "/runs/run-a/cases",
    "/runs/run-a/cases/3",
    "/compare/cases?run=run-a&run=run-b",
]


def opened(page: Any, site: Site, path: str, size: tuple[int, int]) -> Any:
    page.set_viewport_size({"width": size[0], "height": size[1]})
    page.goto(site.address + path)
    return page


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("path", ANSWERS_OF)
def test_the_answer_is_on_the_first_screen(
    watched: Watched, shown_site: Site, path: str, size: tuple[int, int]
) -> None:
    page = opened(watched.page, shown_site, path, size)
    box = page.locator(ANSWERS_OF[path]).first.bounding_box()
    assert box is not None
    assert box["y"] + box["height"] <= size[1]
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= size[0]


CUT_TABLES = (
    "[...document.querySelectorAll('.table-frame')]"
    ".filter((one) => one.checkVisibility() && one.scrollWidth > one.clientWidth + 1)"
    ".map((one) => one.textContent.slice(0, 80))"
)


@pytest.mark.parametrize("path", PAGES)
def test_no_table_cuts_a_column_on_a_wide_screen(
    watched: Watched, shown_site: Site, path: str
) -> None:
    page = opened(watched.page, shown_site, path, SIZES[0])
    assert page.evaluate(CUT_TABLES) == []


def test_a_grid_begins_with_its_finding_and_cuts_no_column(
    watched: Watched, tmp_path: Path
) -> None:
    grid = RESULTS["grid"]()
    (tmp_path / "grid.html").write_text(page_of(grid.document()), encoding="utf-8")
    watched.page.set_viewport_size({"width": 1280, "height": 900})
    watched.page.goto((tmp_path / "grid.html").as_uri())
    assert watched.page.evaluate(CUT_TABLES) == []
    text = watched.page.inner_text("main")
    # The best model is named before any table, and where runs are kept comes last.
    assert text.index("ckd · detection:") < text.index("Deferral Alignment")
    assert text.index("Deferral Alignment") < text.index("20260102T_careful")


@pytest.mark.parametrize("path", PAGES)
def test_a_narrow_page_does_not_scroll_and_names_stay_where_tables_do(
    watched: Watched, shown_site: Site, path: str
) -> None:
    page = opened(watched.page, shown_site, path, SIZES[1])
    assert page.evaluate("document.documentElement.scrollWidth") <= SIZES[1][0]
    lost = page.evaluate(
        """[...document.querySelectorAll('.table-frame')].filter((one) => {
          const name = one.querySelector('tbody tr > th:first-child');
          if (!one.checkVisibility() || !name) return false;
          one.scrollLeft = one.scrollWidth;
          return name.getBoundingClientRect().left < one.getBoundingClientRect().left - 1;
        }).map((one) => one.textContent.slice(0, 80))"""
    )
    assert lost == []


def test_home_shows_name_figure_and_tags_on_a_narrow_screen(
    watched: Watched, shown_site: Site
) -> None:
    page = opened(watched.page, shown_site, "/", SIZES[1])
    row = page.locator("table.forest tr[data-key=run-a]")
    row.scroll_into_view_if_needed()
    for part in ("th a", "td strong", ".tag", ".strip"):
        box = row.locator(part).first.bounding_box()
        assert box is not None, part
        assert box["x"] >= 0, part
        assert box["x"] + box["width"] <= SIZES[1][0], part

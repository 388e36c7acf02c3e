"""What a reader sees: the answer on the first screen, no column cut, and names that stay."""

from __future__ import annotations

from typing import Any

import pytest
from tests.viewer.conftest import Site, Watched

pytestmark = pytest.mark.browser

SIZES = [(1280, 900), (390, 844)]
# A page → what it answers with.
ANSWERS_OF = {
    "/": ".finding",
    "/runs/run-a": ".verdict .reply",
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


@pytest.mark.parametrize("path", PAGES)
def test_no_table_cuts_a_column_on_a_wide_screen(
    watched: Watched, shown_site: Site, path: str
) -> None:
    page = opened(watched.page, shown_site, path, SIZES[0])
    cut = page.evaluate(
        "[...document.querySelectorAll('.table-frame')]"
        ".filter((one) => one.checkVisibility() && one.scrollWidth > one.clientWidth + 1)"
        ".map((one) => one.textContent.slice(0, 80))"
    )
    assert cut == []


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

"""Every page is read without barriers: axe-core finds nothing, narrow or wide, light or dark."""

from __future__ import annotations

from typing import Any

import pytest
from tests.viewer.conftest import Site, example

from krisis.viewer.app import PAGES

pytestmark = pytest.mark.browser

# Beside the pages: an error, results that are filtered, and the list of keys open.
EVERY = [(width, scheme) for width in (1280, 390) for scheme in ("light", "dark")]
OTHERS = ["/nowhere", "/?sort=-accuracy&text=model&metric=accuracy", "/#keys"]


def found_on(chromium: Any, address: str, looks: list[tuple[int, str]]) -> list[str]:
    context = chromium.new_context()
    page = context.new_page()
    page.goto(address)
    if address.endswith("#keys"):
        page.keyboard.press("?")
    found = []
    for width, scheme in looks:
        page.set_viewport_size({"width": width, "height": 900})
        page.emulate_media(color_scheme=scheme)
        found += [f"{width} {scheme}: {one}" for one in violations(page)]
    context.close()
    return found


def violations(page: Any) -> list[str]:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    found = axe.Axe().run(page).response["violations"]
    return [
        f"{rule['id']}: {rule['help']}: {node['html'][:160]}"
        for rule in found
        for node in rule["nodes"][:3]
    ]


@pytest.mark.parametrize(
    ("path", "look"), [("/", (390, "dark")), ("/runs/run-a/decide", (1280, "light"))]
)
def test_results_and_decide_have_no_barrier(
    chromium: Any, shown_site: Site, path: str, look: tuple[int, str]
) -> None:
    assert found_on(chromium, shown_site.address + path, [look]) == []


@pytest.mark.slow
@pytest.mark.parametrize("path", [*PAGES, *OTHERS])
def test_axe_finds_nothing_in_any_width_or_light(
    chromium: Any, shown_site: Site, path: str
) -> None:
    address = path if path in OTHERS else example(path, "run-a", "run-b")
    assert shown_site.get(address).status == (404 if path == "/nowhere" else 200)
    assert found_on(chromium, shown_site.address + address, EVERY) == []


@pytest.mark.slow
@pytest.mark.parametrize("page_of", ["", "/cases", "/progress"])
def test_axe_finds_nothing_while_a_run_goes_on(
    chromium: Any, shown_site: Site, page_of: str
) -> None:
    assert found_on(chromium, f"{shown_site.address}/runs/run-c{page_of}", EVERY[-1:]) == []

"""Every page is read without barriers: axe-core finds nothing, narrow or wide, light or dark."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.invented_runs import invented_rows, result_of, write_run
from tests.viewer.conftest import Site, example

from krisis.viewer.app import PAGES

pytestmark = pytest.mark.browser

# Beside the pages: an error, results that are filtered, and the list of keys open.
EVERY = [(width, scheme) for width in (1280, 390) for scheme in ("light", "dark")]
OTHERS = ["/nowhere", "/?sort=-accuracy&text=model&metric=accuracy", "/#keys"]


@pytest.fixture(scope="module")
def site(serve: Callable[..., Site], tmp_path_factory: pytest.TempPathFactory) -> Site:
    folder = tmp_path_factory.mktemp("runs")
    shown = {"serum creatinine (mg/dL)": 1.9, "age (years)": 61}
    write_run(folder / "run-a", result_of(invented_rows(), "openai/model-a"), features=shown)
    write_run(folder / "run-b", result_of(invented_rows(skill=0.8), "local/model-b"))
    write_run(folder / "run-c", result_of(invented_rows(30), "local/model-c"), n_cases=160)
    (folder / "broken").mkdir()
    (folder / "broken" / "manifest.json").write_text("{", encoding="utf-8")
    return serve(folder)


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


def test_the_results_have_no_barrier_on_a_narrow_dark_screen(chromium: Any, site: Site) -> None:
    assert found_on(chromium, site.address + "/", [(390, "dark")]) == []


@pytest.mark.slow
@pytest.mark.parametrize("path", [*PAGES, *OTHERS])
def test_axe_finds_nothing_in_any_width_or_light(chromium: Any, site: Site, path: str) -> None:
    address = path if path in OTHERS else example(path, "run-a", "run-b")
    assert site.get(address).status == (404 if path == "/nowhere" else 200)
    assert found_on(chromium, site.address + address, EVERY) == []


@pytest.mark.slow
@pytest.mark.parametrize("page_of", ["", "/cases", "/progress"])
def test_axe_finds_nothing_while_a_run_goes_on(chromium: Any, site: Site, page_of: str) -> None:
    assert found_on(chromium, f"{site.address}/runs/run-c{page_of}", EVERY[-1:]) == []

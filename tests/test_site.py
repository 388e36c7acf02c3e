"""The built documentation site: strict, alone, found by a search, without barriers."""

from __future__ import annotations

import functools
import http.server
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import pytest
from tests.pages import ROOT
from tests.viewer import conftest

pytestmark = pytest.mark.slow
chromium = conftest.chromium

LOADED = re.compile(
    r"<(?:script|img|iframe|source|audio|video)\b[^>]*?\bsrc=[\"']?([^\"'\s>]+)"
    r"|<link\b[^>]*?\brel=[\"']?(?:stylesheet|icon|preload|preconnect|dns-prefetch)[^>]*?"
    r"\bhref=[\"']?([^\"'\s>]+)|url\([\"']?(https?:[^\"')]+)"
)
LINK = re.compile(r"<a\b[^>]*?\bhref=[\"']?([^\"'\s>]+)")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    class Quiet(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_: Any) -> None:
            """Say nothing."""

    handler = functools.partial(Quiet, directory=str(site))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def pages(site: Path) -> dict[str, str]:
    """Return the pages of the documentation by their addresses."""
    found = (path for path in site.rglob("index.html"))
    return {
        f"/{path.parent.relative_to(site).as_posix()}/".replace("/./", "/"): path.read_text("utf-8")
        for path in found
    }


def test_nothing_is_loaded_from_another_host(site: Path) -> None:
    texts = {**pages(site), **{p.name: p.read_text("utf-8") for p in site.rglob("*.css")}}
    loaded = {one for text in texts.values() for found in LOADED.findall(text) for one in found}
    assert {one for one in loaded if re.match("(https?:)?//", one)} == set()
    assert any("assets/" in one for one in loaded)


def test_every_page_is_reached_from_the_first(site: Path) -> None:
    known, reached, waiting = pages(site), set[str](), ["/"]
    while waiting:
        here = waiting.pop()
        if here in known and here not in reached:
            reached.add(here)
            links = (urljoin(here, link).partition("#")[0] for link in LINK.findall(known[here]))
            waiting += [link for link in links if link.startswith("/")]
    assert set(known) - reached == set()


def test_formulas_are_mathml_and_pictures_were_made(site: Path) -> None:
    text = pages(site)["/reference/suites/table/"]
    assert "<math " in text
    assert not any("arithmatex" in page for page in pages(site).values())
    for name in ("risk_coverage.svg", "reliability.svg", "audit_gaps.svg", "report.html"):
        assert (site / "how-to" / "gallery" / name).stat().st_size > 1000


def test_decisions_weigh_less_than_other_pages_in_the_search(site: Path) -> None:
    entries = json.loads((site / "search" / "search_index.json").read_text())["docs"]
    boosts = {e["location"]: e.get("boost", 1) for e in entries if "#" not in e["location"]}
    records = {place: boost for place, boost in boosts.items() if "decisions/0" in place}
    assert len(records) > 20
    assert max(records.values()) < 0.1


FIRST = ".md-search-result__item:first-child > a.md-search-result__link"
SEARCHES = {
    "evaluate my own data": "/how-to/own-data/",
    "install": "/how-to/install/",
    "interval": "/explanation/intervals/",
    "abstain": "/reference/glossary/",
    "krisis compare": "/how-to/compare/",
}


@pytest.mark.browser
def test_a_search_finds_the_right_page_first(chromium: Any, address: str) -> None:
    page = chromium.new_page()
    page.goto(address)
    for words, wanted in SEARCHES.items():
        page.keyboard.press("Escape")
        page.keyboard.press("/")
        field = page.get_by_role("textbox", name="Search")
        field.fill(words[:-1])
        field.press_sequentially(words[-1])
        conftest.eventually(page.locator(FIRST).first).to_have_attribute("href", re.compile(wanted))
    page.close()


LOOKS = [(1280, "light"), (390, "dark")]
GRAVE = ("serious", "critical")
READ = ["/", "/tutorials/first-number/", "/reference/suites/table/", "/how-to/gallery/"]
READ += ["/reference/api/", "/reference/metrics/", "/how-to/which-metric/"]


@pytest.mark.browser
@pytest.mark.parametrize("path", READ)
def test_a_page_has_no_barrier_and_nothing_is_cut(chromium: Any, address: str, path: str) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    for width, scheme in LOOKS:
        context = chromium.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme
        )
        page = context.new_page()
        asked: list[str] = []
        page.on("request", lambda request, asked=asked: asked.append(request.url))
        page.goto(address + path)
        page.wait_for_load_state("networkidle")
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert [url for url in asked if not url.startswith((address, "data:", "blob:"))] == []
        found = axe.Axe().run(page).response["violations"]
        assert [rule for rule in found if rule["impact"] in GRAVE] == []
        context.close()

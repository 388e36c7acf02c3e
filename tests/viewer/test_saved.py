"""Every page can be saved as one file and linked to: what is seen is what is kept."""

from __future__ import annotations

import html
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from tests.viewer.conftest import Site, Watched, eventually, examples


@pytest.mark.parametrize("address", examples("run-a", "run-b"))
def test_a_saved_page_is_one_file_that_leads_nowhere(shown_site: Site, address: str) -> None:
    joined = "&" if "?" in address else "?"
    saved = shown_site.get(f"{address}{joined}save=1")
    assert saved.status == 200
    assert re.fullmatch(
        r'attachment; filename="[A-Za-z0-9._-]+\.html"', saved.headers["content-disposition"]
    )
    assert "<style>" in saved.text
    assert "<script" not in saved.text
    assert not re.search(r' href="[/?]', saved.text)
    shown = shown_site.get(address).text
    assert "content-disposition" not in shown_site.get(address).headers
    words = [re.findall(r"<h1>(.*?)</h1>", text, re.DOTALL) for text in (saved.text, shown)]
    assert words[0] == words[1] != []


def test_a_refused_page_is_not_saved(shown_site: Site) -> None:
    answer = shown_site.get("/runs/nothing?save=1")
    assert (answer.status, "content-disposition" in answer.headers) == (404, False)


@pytest.mark.parametrize("address", ["/runs/run-a", "/compare?run=run-a&run=run-b"])
def test_every_chart_can_be_downloaded_without_a_script(shown_site: Site, address: str) -> None:
    text = shown_site.get(address).text
    n_charts = text.count('class="chart-frame"')
    files = [html.unescape(one) for one in re.findall(r'href="([^"]+)" download aria-label', text)]
    assert n_charts
    assert len(files) == 2 * n_charts
    for place in files[:2]:
        answer = shown_site.get(place)
        assert answer.status == 200
        assert answer.headers["content-disposition"].startswith('attachment; filename="')
        if ".svg" in place:
            assert answer.headers["content-type"] == "image/svg+xml"
            ElementTree.fromstring(answer.text)
        else:
            assert answer.headers["content-type"] == "image/png"


@pytest.mark.parametrize("file", ["nothing.svg", "reliability.exe", "reliability", "..%2Fx.svg"])
def test_no_other_file_is_a_chart(shown_site: Site, file: str) -> None:
    assert shown_site.get(f"/runs/run-a/charts/{file}").status == 404


@pytest.mark.browser
def test_a_saved_page_looks_like_the_page_and_links_can_be_copied(
    watched: Watched, shown_site: Site, tmp_path: Path
) -> None:
    page = watched.page
    page.goto(f"{shown_site.address}/compare?run=run-a&run=run-b")
    finding = page.locator(".finding").inner_text()
    with page.expect_download() as download:
        page.click("text=save this page")
    path = tmp_path / download.value.suggested_filename
    download.value.save_as(path)
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.click("#copy-link")
    eventually(page.locator("#copy-link")).to_have_text("Link copied")
    assert page.evaluate("navigator.clipboard.readText()") == page.url
    page.goto(path.as_uri())
    assert page.locator(".finding").inner_text() == finding
    assert page.locator("form:visible, button:visible, a[href]:visible").count() == 0

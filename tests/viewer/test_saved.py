"""Every page can be saved as one file and linked to: what is seen is what is kept."""

from __future__ import annotations

import re
from pathlib import Path

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

"""The pages in a real Chromium: they work, stay quiet, reach nobody, and show payloads as text."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.invented_runs import invented_rows, result_of
from tests.viewer.conftest import (
    ARTIFACTS,
    PAYLOADS,
    Site,
    Watched,
    eventually,
    examples,
    payload_run,
)

from krisis.pages.numbers import threshold
from krisis.pages.run import run_document
from krisis.pages.shell import page as page_of

pytestmark = pytest.mark.browser


@pytest.fixture
def site(shown_site: Site) -> Site:
    return shown_site


PAGES = {
    "runs": "/",
    "run": "/runs/run-a",
    "cases": "/runs/run-a/cases",
    "case": "/runs/run-a/cases/3",
    "decide": "/runs/run-a/decide?wrong=20",
    "compare": "/compare?run=run-a&run=run-b",
}


@pytest.mark.parametrize(
    ("name", "pictured"),
    [("run", False), *(pytest.param(name, True, marks=pytest.mark.slow) for name in PAGES)],
)
def test_every_page_is_quiet_in_light_dark_and_narrow_windows(
    watched: Watched, site: Site, name: str, pictured: bool
) -> None:
    page = watched.page
    picture = watched.picture if pictured else print
    page.goto(site.address + PAGES[name])
    picture(f"viewer-{name}-light")
    page.emulate_media(color_scheme="dark")
    background = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert background == "rgb(21, 25, 30)"
    picture(f"viewer-{name}-dark")
    page.emulate_media(color_scheme="light")
    page.set_viewport_size({"width": 390, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    picture(f"viewer-{name}-narrow")
    page.emulate_media(media="print")
    # A folded section is printed open, with its title; other folded parts are left out.
    folded = "details:not([open]):not(.section) summary"
    left_out = (".top-bar", ".filters", ".pager", "button", folded)
    assert page.locator(", ".join(f"{one}:visible" for one in left_out)).count() == 0


def test_filters_act_at_once_and_stand_in_the_address(watched: Watched, site: Site) -> None:
    page = watched.page
    page.goto(f"{site.address}/runs/run-a/cases")
    n_abstained = sum(row.outcome == "abstained" for row in invented_rows())
    page.select_option("select[name=outcome]", "abstained")
    eventually(page.locator("#n-found")).to_have_text(str(n_abstained))
    assert set(page.locator("#results .tag").all_text_contents()) == {"abstained"}
    page.fill("input[name=text]", "case-00000")
    page.wait_for_url("**text=case-00000*")
    kept = sum(
        row.outcome == "abstained" and row.record_id.startswith("case-00000")
        for row in invented_rows()
    )
    assert 0 < kept < n_abstained
    eventually(page.locator("#results tbody tr")).to_have_count(kept)
    page.reload()
    eventually(page.locator("#results tbody tr")).to_have_count(kept)
    page.goto(f"{site.address}/runs/run-a/cases?confidence_min=0.9&correct=no&sort=-confidence")
    stated = page.locator("#results tbody td:nth-child(6)").all_text_contents()
    assert stated == sorted(stated, reverse=True)
    assert float(stated[-1]) >= 0.9


def test_the_confidently_wrong_are_two_clicks_away_and_each_is_one_more(
    watched: Watched, site: Site
) -> None:
    page = watched.page
    page.goto(site.address)
    wrong = [
        row
        for row in invented_rows()
        if row.outcome == "answered"
        and row.prediction != row.ground_truth
        and row.confidence >= 0.8
    ]
    assert len(wrong) > 4
    page.click("main a:has-text('model-a')")  # the first click
    page.click(".presets >> text=confidently wrong")  # the second
    eventually(page.locator("#n-found")).to_have_text(str(len(wrong)))
    listed = page.locator("#results tbody a").all_text_contents()
    assert sorted(listed) == sorted(row.record_id for row in wrong)

    def place_is(place: int) -> None:
        words = f"{place} of {len(wrong)} confidently wrong"
        eventually(page.locator(".case-pager")).to_contain_text(words)
        assert page.text_content("h1") == listed[place - 1]

    page.locator("#results tbody a").nth(len(wrong) - 3).click()
    for place in (len(wrong) - 2, len(wrong) - 1):
        place_is(place)
        page.click("a[rel=next]")  # one click for each patient
    place_is(len(wrong))
    assert page.locator("a[rel=next]").count() == 0
    page.click(".case-pager >> text=confidently wrong")
    eventually(page.locator("#n-found")).to_have_text(str(len(wrong)))


@pytest.mark.slow
def test_a_case_is_copied_and_a_filter_is_downloaded(watched: Watched, site: Site) -> None:
    page = watched.page
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.goto(f"{site.address}/runs/run-a/cases/3")
    page.click("text=Copy the case as text")
    eventually(page.locator("[data-copy-from] + [role=status]")).to_have_text("copied")
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied == page.text_content("#case-text")
    assert copied.startswith("case-000003 in run-a\nAnswer: ")
    page.goto(f"{site.address}/runs/run-a/cases?outcome=abstained")
    with page.expect_download() as started:
        page.click("text=Download these as CSV")
    lines = Path(started.value.path()).read_text(encoding="utf-8").splitlines()
    assert len(lines) == 1 + sum(row.outcome == "abstained" for row in invented_rows())


@pytest.mark.slow
def test_a_filter_that_cannot_be_says_so_at_once(watched: Watched, site: Site) -> None:
    page = watched.page
    page.goto(f"{site.address}/runs/run-a/cases")
    page.fill("input[name=confidence_min]", "2")
    eventually(page.locator(".notice")).to_contain_text("between 0 and 1")
    watched.problems.clear()  # the browser notes the refusal


@pytest.mark.slow
def test_the_next_page_of_rows_follows_the_filters(watched: Watched, site: Site) -> None:
    page = watched.page
    page.goto(f"{site.address}/runs/run-a/cases?outcome=answered")
    page.click("a[rel=next]")
    eventually(page.locator(".pager")).to_contain_text("page 2 of")
    assert page.input_value("select[name=outcome]") == "answered"


def test_one_click_and_one_number_give_the_threshold(watched: Watched, site: Site) -> None:
    page = watched.page
    page.goto(f"{site.address}/runs/run-a")
    page.click("text=Decide")
    page.fill("#ask-wrong input[name=wrong]", "45")
    facts = site.get("/runs/run-a/decide.json?wrong=45&max_not_evaluated=0.1").json
    page.wait_for_url("**?wrong=45")
    page.click("summary:has-text('Score, delta and price')")
    page.fill("input[name=max_not_evaluated]", "0.1")
    eventually(page.locator("#threshold")).to_have_text(threshold(facts["certified"]["threshold"]))
    command = page.locator(".command pre", has_text="krisis certify")
    eventually(command).to_have_text(facts["commands"]["certify"])
    assert "?wrong=45&" in page.url
    assert page.input_value("#ask-wrong input[name=wrong]") == "45"  # what is typed stays
    page.fill("#ask-wrong input[name=wrong]", "200")
    eventually(page.locator("#decision .warning")).to_contain_text("from 0 to 100")
    watched.problems.clear()  # the console names the refused address


def test_the_slider_explores_a_threshold_that_the_curve_and_the_counts_show(
    watched: Watched, site: Site
) -> None:
    page = watched.page
    page.goto(f"{site.address}/runs/run-a/decide")
    page.click("summary:has-text('Explore')")
    page.focus("#slider")
    for _ in range(3):
        page.keyboard.press("PageDown")
    page.wait_for_url("**answer=*")
    page.wait_for_load_state("networkidle")
    wanted = float(page.input_value("#slider"))
    point = site.get(f"/runs/run-a/decide.json?answer={wanted}").json["point"]
    assert point["coverage"] >= wanted / 100
    shown = page.locator("#explored-threshold")
    eventually(shown).to_have_text(threshold(point["threshold"]))
    eventually(page.locator("#explored td a").first).to_have_text(f"{point['n_kept']}")
    eventually(page.locator("#explored figcaption")).to_contain_text("threshold that is explored")


def test_two_runs_are_chosen_compared_and_followed_to_a_row(watched: Watched, site: Site) -> None:
    page = watched.page
    page.goto(site.address)
    page.check("input[value=run-a]")
    page.check("input[value=run-b]")
    page.click("text=Compare the chosen runs")
    eventually(page.locator("h1")).to_contain_text("compared with")
    page.locator("table a").first.click()
    page.wait_for_url("**/compare/cases?run=**")
    page.locator("#results tbody a").first.click()
    page.wait_for_url("**/compare/cases/**")


@pytest.mark.slow
def test_a_bar_and_a_cell_of_a_chart_are_clicked_through_to_their_cases(
    watched: Watched, site: Site
) -> None:
    page = watched.page
    page.goto(f"{site.address}/runs/run-a")
    page.locator("#figure-groups .chart a").first.click(force=True)
    page.wait_for_url("**/cases?outcome=answered&group=*")
    n_found = page.locator("#n-found").inner_text()
    page.go_back()
    cell = page.locator("#figure-groups td a", has_text=n_found)
    assert cell.count() > 0
    page.locator("#figure-risk_coverage .chart a").nth(3).click(force=True)
    page.wait_for_url("**/cases?outcome=answered&confidence_min=*")
    page.goto(f"{site.address}/runs/run-a")
    reached = page.evaluate("[...document.querySelectorAll('.chart a')].map((a) => a.tabIndex)")
    assert len(reached) > 50
    assert set(reached) == {-1}  # the table under a chart has the same links for the keyboard


HOSTILE = [
    *examples("run-payload", "run-payload-2"),
    "/runs/run-payload/cases?size=500",
    "/?text=%3Cscript%3Ewindow.harmed=1%3C/script%3E%22onfocus=harmed=1",
]


@pytest.mark.parametrize(
    "paths",
    [
        HOSTILE,
        *(
            pytest.param([f"/runs/run-payload/cases/{11 * i}"], marks=pytest.mark.slow)
            for i in range(len(PAYLOADS) + 1)
        ),
    ],
    ids=lambda paths: f"{len(paths)} from {paths[0]}",
)
def test_payloads_are_text_on_every_page(watched: Watched, site: Site, paths: list[str]) -> None:
    page = watched.page
    for path in paths:
        page.goto(site.address + path)
        assert page.evaluate("window.harmed") is None, path
        foreign = page.locator("main img, main iframe, main textarea, main script")
        assert foreign.count() == 0, path
        assert page.locator("main a[href^='javascript']").count() == 0, path
        text, hidden = page.evaluate("document.body.textContent"), "\u202e\u200b\u2060\ufeff\x07"
        assert not any(character in text for character in hidden), path


@pytest.mark.slow
def test_a_reply_is_shown_to_the_last_character(watched: Watched, site: Site) -> None:
    page = watched.page
    names = list(PAYLOADS)
    page.goto(f"{site.address}/runs/run-payload/cases/{11 * names.index('script')}")
    assert page.text_content("#reply") == PAYLOADS["script"]
    page.goto(f"{site.address}/runs/run-payload/cases/{11 * names.index('long')}")
    assert len(page.text_content("#reply")) == 50_000
    page.click("text=Show all")
    page.wait_for_function("document.querySelector('#reply').textContent.length > 50000")
    assert page.text_content("#reply") == PAYLOADS["long"]
    page.goto(f"{site.address}/runs/run-payload/cases/{11 * names.index('zero-width')}")
    assert "inU+200BvisU+2060ible" in page.text_content("#reply")
    assert page.locator("#reply .hidden-character").count() == 5
    watched.picture("viewer-row-hidden-characters")


@pytest.mark.slow
def test_the_report_reads_from_disk_in_every_light(watched: Watched, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text(page_of(run_document(result_of(invented_rows()))), encoding="utf-8")
    page = watched.page
    page.goto(path.as_uri())
    watched.picture("report-light")
    page.emulate_media(color_scheme="dark")
    watched.picture("report-dark")
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(254, 254, 254)"
    ARTIFACTS.mkdir(exist_ok=True)
    pdf = page.pdf(path=ARTIFACTS / "report.pdf", format="A4")
    assert pdf.startswith(b"%PDF")
    page.emulate_media(media="screen", color_scheme="light")
    page.set_viewport_size({"width": 390, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    watched.picture("report-narrow")


@pytest.mark.slow
def test_the_report_is_read_with_the_keyboard_alone(watched: Watched, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text(page_of(run_document(result_of(invented_rows(60)))), encoding="utf-8")
    page = watched.page
    page.goto(path.as_uri())
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    page.keyboard.press("Enter")
    page.wait_for_url("**#content")
    page.locator("summary").first.focus()
    page.keyboard.press("Enter")
    page.wait_for_function("document.querySelector('details').open")


@pytest.mark.slow
def test_a_hostile_run_makes_a_harmless_report(watched: Watched, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text(page_of(run_document(payload_run())), encoding="utf-8")
    page = watched.page
    page.goto(path.as_uri())
    assert page.evaluate("window.harmed") is None
    assert PAYLOADS["script"] in page.evaluate("document.body.textContent")
    watched.picture("report-payload")

"""Home shows the results of all runs, found, sorted, chosen and followed while they come in."""

from __future__ import annotations

import json
import math
import os
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.invented_runs import (
    ANSWERS,
    begin_run,
    invented_rows,
    result_of,
    rows_of_every_outcome,
    write_run,
)
from tests.viewer.conftest import Site, Watched, eventually

from krisis.metrics.base import Rows
from krisis.outcomes import OUTCOMES
from krisis.pages.numbers import Estimate, figure
from krisis.pages.strip import Strip
from krisis.results.call_totals import CallTotals
from krisis.runs.write import RowPlace


def described(result: Any, **words: str) -> Any:
    result.suite_description.update(words)
    return result


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("runs")
    for i, skill in enumerate((1.0, 0.6, 0.8)):
        rows = invented_rows(60 + i, skill=skill)
        write_run(folder / f"run-{i}", result_of(rows, f"maker/Model-{i}"))
    write_run(folder / "other", described(result_of(invented_rows(40), "maker/x"), task="staging"))
    live = begin_run(folder / "live", result_of(invented_rows(20), "maker/live"), n_cases=40)
    (folder / "odd.krisis").write_text("{", encoding="utf-8")
    yield folder
    live.close()


@pytest.fixture(scope="module")
def site(serve: Callable[..., Site], folder: Path) -> Site:
    return serve(folder)


def names(site: Site, query: str = "") -> list[str]:
    """Return the runs of the table of detection in the order shown."""
    tables = site.get(f"/index.json{query}").json["tables"]
    return [
        row["name"] for table in tables if table["task"] == "detection" for row in table["rows"]
    ]


def test_each_task_has_its_table_and_the_odd_and_running_ones_stand_apart(site: Site) -> None:
    facts = site.get("/index.json").json
    assert [(t["suite"], t["task"], t["n_runs"]) for t in facts["tables"]] == [
        ("ckd", "detection", 3),
        ("ckd", "staging", 1),
    ]
    assert [run["name"] for run in facts["running"]] == ["live"]
    assert [run["name"] for run in facts["odd"]] == ["odd"]
    assert "odd.krisis is not a krisis run" in facts["odd"][0]["problem"]


def test_a_line_holds_the_stored_scores_with_intervals_and_every_denominator(site: Site) -> None:
    rows, result = invented_rows(60), result_of(invented_rows(60))
    (table, _) = site.get("/index.json?metric=brier_score&metric=accuracy").json["tables"]
    line = next(row for row in table["rows"] if row["name"] == "run-0")
    score = result.metric_scores["accuracy"]
    assert line["figures"]["accuracy"]["value"] == score.value
    assert line["figures"]["accuracy"]["interval"] == [score.interval.low, score.interval.high]
    assert set(line["figures"]) == {"accuracy", "brier_score"}
    outcomes = [row.outcome for row in rows]
    assert line["counts"] == {o: outcomes.count(o) for o in OUTCOMES}
    assert line["n_done"] == 60


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("?sort=accuracy", ["run-1", "run-2", "run-0"]),
        ("?sort=-accuracy", ["run-0", "run-2", "run-1"]),
        ("?sort=-n", ["run-2", "run-1", "run-0"]),
        ("?sort=model", ["run-0", "run-1", "run-2"]),
        ("?text=MODEL-1", ["run-1"]),
        ("?text=maker+model-2", ["run-2"]),
        ("?model=maker/Model-0&suite=ckd", ["run-0"]),
        ("?state=running", []),
        ("?size=2&task=detection&sort=run&page=2", ["run-2"]),
        ("?size=2&task=detection&sort=run&page=9", ["run-2"]),
    ],
)
def test_search_filters_order_and_page_are_in_the_address(
    site: Site, query: str, expected: list[str]
) -> None:
    assert names(site, query) == expected


@pytest.mark.parametrize(
    ("query", "status"),
    [("sort=wrong", 404), ("metric=wrong", 404), ("state=x", 404), ("page=0", 400)],
)
def test_what_the_address_cannot_ask_for_is_said(site: Site, query: str, status: int) -> None:
    assert site.get(f"/?{query}").status == status


def test_a_run_without_the_figure_comes_last_in_either_order(
    serve: Callable[..., Site], tmp_path: Path
) -> None:
    for name in ("a", "b", "c"):
        result = result_of(invented_rows(30, skill=0.5 if name == "b" else 1.0), name)
        if name == "a":
            del result.metric_scores["Accuracy"]
        write_run(tmp_path / name, result)
    site = serve(tmp_path)
    assert names(site, "?sort=accuracy") == ["b", "c", "a"]
    assert names(site, "?sort=-accuracy") == ["c", "b", "a"]


def test_baselines_stand_below_the_models_and_a_model_is_not_its_own(
    serve: Callable[..., Site], tmp_path: Path
) -> None:
    result = result_of(invented_rows(30), "guideline")
    scores = result_of(invented_rows(30, skill=0.1)).metric_scores
    result.baselines = {"majority": scores, "guideline": scores}
    write_run(tmp_path / "run", result)
    (table,) = serve(tmp_path).get("/index.json").json["tables"]
    assert [one["name"] for one in table["baselines"]] == ["majority"]
    assert table["baselines"][0]["figures"]["accuracy"]["value"] == scores["accuracy"].value


def scored(rows: Rows, model: str, accuracy: dict[str, float]) -> Any:
    """Return a run with accuracy as its headline, and baselines of a given accuracy."""
    result = result_of(rows, model)
    own = result.metric_scores["accuracy"]
    result.baselines = {
        name: {"Accuracy": replace(own, value=value, interval=None)}
        for name, value in accuracy.items()
    }
    facts = result.provenance.task_facts
    result.provenance = replace(
        result.provenance, task_facts=replace(facts, metrics=("selective_accuracy", "accuracy"))
    )
    return result


def test_a_task_begins_with_its_finding_and_tags_say_what_to_know_of_a_run(
    serve: Callable[..., Site], tmp_path: Path
) -> None:
    known = {"majority": 0.6, "guideline": 0.7, "ideal": 1.0}
    bold = Rows((replace(row, abstained=False) for row in invented_rows(200, skill=0.2)), ANSWERS)
    bold = Rows(
        (replace(r, prediction=1 - r.ground_truth) if r.prediction is None else r for r in bold),
        ANSWERS,
    )
    write_run(tmp_path / "bold", scored(bold, "maker/bold", known))
    write_run(tmp_path / "a", scored(invented_rows(200), "maker/careful", known))
    write_run(tmp_path / "b", scored(invented_rows(200, skill=0.9), "maker/careful", known))
    site = serve(tmp_path)
    (task,) = site.get("/index.json?sort=-accuracy").json["tables"]
    lines = {row["name"]: row for row in task["rows"]}
    assert [row["name"] for row in task["rows"]][-1] == "bold"
    assert lines["bold"]["tags"][:2] == ["never defers", "worse than majority"]
    n_lost = lines["a"]["counts"]["not_evaluated"]
    assert n_lost
    assert lines["a"]["tags"] == [f"{n_lost} not evaluated"]
    assert {name: (r["short_name"], r["is_ambiguous"]) for name, r in lines.items()} == {
        "bold": ("bold", False),
        "a": ("careful", True),
        "b": ("careful", True),
    }
    best = max(lines.values(), key=lambda row: row["figures"]["accuracy"]["value"])
    low, high = best["figures"]["accuracy"]["interval"]
    written = figure(Estimate(best["figures"]["accuracy"]["value"], low, high))
    n = sum(row["figures"]["accuracy"]["interval"][0] > 0.7 for row in lines.values())
    assert task["finding"] == (
        f"careful has the best Accuracy: {written}. Best baseline: guideline 0.700; {n} of 3 runs "
        "are better with their whole interval."
    )
    page = site.get("/?sort=-accuracy").text
    assert page.count('class="strip"') == 1 + 3 + 3  # the scale, the runs and the baselines
    assert task["finding"] in page
    assert written in page


def test_a_strip_holds_every_interval_and_points_to_a_baseline_that_is_far_off() -> None:
    strip = Strip.over([Estimate(0.5, 0.4, 0.6), Estimate(0.8)], [0.3, -7.0])
    assert (strip.low, strip.high, strip.ticks) == (0.3, 0.8, (0.3,))
    assert "polygon" in strip.row(Estimate(-7.0), tick=True)
    assert 'cx="12.0"' in strip.row(Estimate(0.3))
    assert 'cx="288.0"' in strip.row(Estimate(0.8))
    labels = re.findall(r">([^<>]+)</text>", strip.axis())
    assert labels == ["0.3", "0.4", "0.5", "0.6", "0.7", "0.8"]
    assert "circle" not in strip.row(Estimate(math.nan))


def test_a_certificate_beside_a_run_is_named_and_a_changed_one_not_believed(
    serve: Callable[..., Site], tmp_path: Path
) -> None:
    from krisis.decisions.certify import CertifyOptions, certify_run
    from krisis.results.run_items import read_items

    rows = Rows((r for r in invented_rows(400) if r.outcome != "not_evaluated"), ANSWERS)
    run = write_run(tmp_path / "run", result_of(rows))
    content = certify_run(read_items(run), CertifyOptions(risk=0.5)).to_json()
    (tmp_path / "run.certificate.json").write_text(json.dumps(content), encoding="utf-8")
    (tmp_path / "run.edited.json").write_text(
        json.dumps(content | {"risk": 0.01}), encoding="utf-8"
    )
    (tmp_path / "run.notes.json").write_text("not JSON", encoding="utf-8")
    (table,) = serve(tmp_path).get("/index.json").json["tables"]
    marks = {one["file"]: one["words"] for one in table["rows"][0]["certificates"]}
    assert marks == {
        "run.certificate.json": "certified: risk ≤ 0.5",
        "run.edited.json": "certificate not valid",
    }


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such files")
def test_home_opens_no_pipe_link_or_folder_beside_a_run(
    serve: Callable[..., Site], tmp_path: Path
) -> None:
    folder = tmp_path / "runs"
    write_run(folder / "run", result_of(invented_rows(20)))
    content = '{"kind": "krisis.certificate"}'
    (tmp_path / "elsewhere.json").write_text(content, encoding="utf-8")
    (folder / "run.folder.json").mkdir()
    (folder / "run.link.json").symlink_to(tmp_path / "elsewhere.json")
    os.mkfifo(folder / "run.pipe.json")
    (folder / "run.own.json").write_text(content, encoding="utf-8")
    site = serve(folder)
    shown = site.get("/index.json").json["tables"][0]["rows"][0]["certificates"]
    assert [one["file"] for one in shown] == ["run.own.json"]
    shown = site.get("/runs/run/decide.json").json["found_in_the_folder"]
    assert [one["file"] for one in shown] == ["run.own.json"]


def test_a_long_table_shows_its_first_runs_and_leads_to_the_others(
    serve: Callable[..., Site], tmp_path: Path
) -> None:
    result = result_of(invented_rows(4))
    for i in range(13):
        task = "detection" if i else "staging"
        write_run(tmp_path / f"run-{i:02}", described(result, task=task))
    site = serve(tmp_path)
    assert len(names(site)) == 10
    assert 'href="?suite=ckd&amp;task=detection"' in site.get("/").text
    assert len(names(site, "?suite=ckd&task=detection")) == 12


def test_the_live_page_tells_failures_tokens_and_cost(
    serve: Callable[..., Site], tmp_path: Path
) -> None:
    row, lost = invented_rows(1)[0], rows_of_every_outcome()[7]
    writer = begin_run(tmp_path / "run", result_of(Rows([row] * 9)), n_cases=9)
    writer.drop_rows(range(9))
    writer.begin_session({"input_per_million": 2.0, "output_per_million": 10.0})
    writer.note_totals(CallTotals(n_calls=1, n_retries=2, lost_input_tokens=1000))
    used = CallTotals(n_calls=1, input_tokens=4000, output_tokens=200)
    for position, one in enumerate((row, lost, lost)):
        writer.append([RowPlace(position, position)], [one], used)
    writer.flush()
    site = serve(tmp_path)
    facts = site.get("/runs/run/progress.json").json
    assert (facts["state"], facts["n_done"], facts["failures"]) == ("running", 3, {"timeout": 2})
    assert (facts["n_calls"], facts["n_retries"]) == (4, 2)
    assert (facts["input_tokens"], facts["output_tokens"]) == (13000, 600)
    assert facts["cost"] == pytest.approx(13000 * 2e-6 + 600 * 10e-6)
    assert facts["per_minute"] > 0
    writer.append([RowPlace(2, 2)], [row], CallTotals())  # asked again, and answered
    writer.flush()
    assert site.get("/runs/run/progress.json").json["failures"] == {"timeout": 1}
    writer.close()


def test_the_live_page_says_what_a_run_took_so_far(site: Site) -> None:
    facts = site.get("/runs/live/progress.json").json
    assert (facts["n_done"], facts["n_cases"], facts["state"]) == (20, 40, "running")
    n_failed = sum(row.outcome == "not_evaluated" for row in invented_rows(20))
    assert sum(facts["failures"].values()) == facts["counts"]["not_evaluated"] == n_failed
    assert facts["cost"] is None
    page = site.get("/runs/live/progress").text
    assert all(words in page for words in ("records a minute", "time left", "no price known"))


@pytest.mark.browser
def test_ticks_focus_and_search_survive_new_rows_and_lead_to_the_comparison(
    watched: Watched, serve: Callable[..., Site], tmp_path: Path
) -> None:
    rows = invented_rows(21)
    live = begin_run(tmp_path / "live", result_of(rows, "m/live"), n_cases=40)
    live.drop_rows([20])
    live.flush()
    for name in ("a", "b", "c"):
        write_run(tmp_path / name, result_of(invented_rows(40), f"m/{name}"))
    site = serve(tmp_path)
    page = watched.page
    page.goto(site.address)
    page.check("input[value=a]")
    pair = page.locator("tr[data-key=b] .with-it")
    assert pair.get_attribute("href") == "/compare?run=a&run=b"
    assert page.locator("tr[data-key=a] .with-it").count() == 0
    page.check("input[value=b]")
    assert page.locator(".with-it").count() == 0
    page.focus("tr[data-key=b] a")
    live.append([RowPlace(20, 20)], [rows[20]], CallTotals())
    page.wait_for_selector("progress[value='21']", state="attached", timeout=15_000)
    assert page.is_checked("input[value=a]")
    assert page.evaluate("document.activeElement.textContent") == "b"
    page.keyboard.press("/")
    page.keyboard.type("m/c")
    eventually(page.locator("table.forest tbody tr")).to_have_count(1)
    eventually(page.locator("#n-chosen")).to_contain_text("2 chosen (2 not shown here)")
    assert page.url.endswith("?text=m%2Fc")
    page.click("text=Compare the chosen runs")
    page.wait_for_url("**/compare?run=a&run=b")
    live.close()


@pytest.mark.browser
def test_keys_go_through_the_list_and_stay_out_of_fields(watched: Watched, site: Site) -> None:
    page = watched.page
    page.goto(site.address)
    focused = "document.activeElement.textContent"
    page.keyboard.press("j")
    assert page.evaluate(focused) == "maker/live"
    page.keyboard.press("j")
    first = page.evaluate(focused)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("k")
    assert page.evaluate(focused) == first
    page.keyboard.press("x")
    assert page.locator("table.forest input:checked").count() == 1
    page.keyboard.press("?")
    assert page.locator("dialog[open]").count() == 1
    page.keyboard.press("Escape")
    page.keyboard.press("/")
    page.keyboard.type("j?t")
    assert page.input_value("input[type=search]") == "j?t"
    assert page.locator("dialog[open]").count() == 0


@pytest.mark.browser
def test_the_theme_is_kept_and_there_before_the_page_is_drawn(watched: Watched, site: Site) -> None:
    page = watched.page
    page.goto(site.address)
    colour = "getComputedStyle(document.body).backgroundColor"
    page.select_option("#theme", "dark")
    assert page.evaluate(colour) == "rgb(21, 25, 30)"
    page.reload()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    assert page.evaluate(colour) == "rgb(21, 25, 30)"
    page.emulate_media(color_scheme="dark")
    page.select_option("#theme", "light")
    assert page.evaluate(colour) == "rgb(254, 254, 254)"
    page.select_option("#theme", "dark")
    page.emulate_media(media="print")
    assert page.evaluate(colour) == "rgb(254, 254, 254)"
    for hidden in (".top-bar", ".page-footer", "dialog", "#choice"):
        assert not page.locator(hidden).first.is_visible()


@pytest.mark.browser
def test_a_viewer_that_does_not_answer_is_said_in_one_line(chromium: Any, site: Site) -> None:
    context = chromium.new_context()
    page = context.new_page()
    page.goto(site.address)
    context.set_offline(True)
    page.fill("input[type=search]", "x")
    eventually(page.locator("#notice")).to_contain_text("Is krisis view still running")
    context.set_offline(False)
    page.fill("input[type=search]", "model")
    eventually(page.locator("#notice")).to_be_empty()
    context.close()


@pytest.mark.slow
@pytest.mark.browser
def test_the_page_of_a_run_follows_it_to_the_end_without_moving_the_reader(
    watched: Watched, serve: Callable[..., Site], tmp_path: Path
) -> None:
    rows = invented_rows(21)
    live = begin_run(tmp_path / "live", result_of(rows, "m/live"), n_cases=21)
    live.drop_rows([20])
    live.flush()
    page = watched.page
    page.emulate_media(reduced_motion="reduce")  # no smooth scrolling
    page.goto(f"{serve(tmp_path).address}/runs/live")
    details = page.locator("figure details").first
    details.locator("summary").focus()
    page.keyboard.press("Enter")
    place = page.evaluate("scrollY")
    assert place > 100
    live.append([RowPlace(20, 20)], [rows[20]], CallTotals())
    page.wait_for_selector("#live progress[value='21']", state="attached", timeout=30_000)
    eventually(page.locator("main > .warning, main > .muted").first).to_contain_text("21 sent")
    assert details.get_attribute("open") is not None
    assert page.evaluate("document.activeElement.nodeName") == "SUMMARY"
    assert page.evaluate("scrollY") == pytest.approx(place, abs=60)
    live.close()


def test_a_run_that_has_just_begun_has_its_pages(
    serve: Callable[..., Site], tmp_path: Path
) -> None:
    write_run(tmp_path / "new", result_of(invented_rows(0), "m/new"), n_cases=9)
    site = serve(tmp_path)
    for path in ("/", "/runs/new", "/runs/new/progress"):
        assert site.get(path).status == 200
    facts = site.get("/runs/new/progress.json").json
    assert (facts["n_done"], facts["n_cases"]) == (0, 9)

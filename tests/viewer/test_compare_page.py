"""Runs beside each other: which can be, oldest first, where they differ, and both replies."""

from __future__ import annotations

import html
import json
import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from tests.invented_runs import forge_description, invented_rows, result_of, write_run
from tests.viewer.conftest import Site, Watched, eventually

from krisis.errors import InvalidValue
from krisis.json_values import dumps
from krisis.metrics.base import EvaluationResult, Rows
from krisis.metrics.partition import verdict
from krisis.metrics.table import Table
from krisis.results.loading import load_results
from krisis.verbs.compare.pairs import CompareOptions, compare_runs
from krisis.viewer.catalogue import Catalogue
from krisis.viewer.pages import compare, pair
from krisis.viewer.pages.compare import MOST_RUNS, N_OFFERED, in_order, options_for, page


def rows_of(*, worse_in_stage: int | None = None, surer: float = 0.0) -> Rows:
    """Return the rows of one model, wrong wherever the stage is the given one."""
    rows = invented_rows(240)
    for row in rows:
        if row.error is None and row.confidence is not None:
            row.confidence = round(min(0.99, row.confidence + surer), 2)
            if row.metadata["ckd_stage"] == worse_in_stage and not row.abstained:
                row.prediction = 1 - int(row.ground_truth)
    return rows


LEFT, RIGHT = rows_of(), rows_of(worse_in_stage=3, surer=0.04)
PAIR = "run=z-old&run=a-new"
FEW = CompareOptions(n_permutations=119)


def written(folder: Path, name: str, rows: Rows, model: str, day: int, **described: str) -> None:
    result = result_of(rows, model)
    result.suite_description |= described
    path = write_run(folder / name, result)
    forge_description(path, created_at=f"2026-01-{day:02d}T03:04:05Z")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    written(folder, "z-old", LEFT, "m/old", 1)
    written(folder, "a-new", RIGHT, "m/new", 9)
    written(folder, "b-middle", rows_of(), "m/new", 5)
    written(folder, "other-cases", rows_of(), "m/new", 6, content_hash="cd" * 32)
    written(folder, "other-task", rows_of(), "m/new", 7, task="staging")
    return folder


@pytest.fixture(scope="module")
def site(serve: Callable[..., Site], folder: Path) -> Iterator[Site]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compare, "options_for", lambda *_: FEW)
        yield serve(folder)


def test_the_page_draws_as_many_permutations_as_the_command_unless_that_would_take_long() -> None:
    usual = CompareOptions()
    assert options_for(20_000, 2) == options_for(1_300, 6) == usual
    assert options_for(20_001, 2).n_permutations < usual.n_permutations
    assert options_for(1_400, 6).n_permutations < usual.n_permutations


@pytest.mark.parametrize(
    ("chosen", "reference", "order"),
    [
        ("a-new z-old", "", "z-old a-new"),
        ("a-new z-old b-middle", "", "z-old b-middle a-new"),
        ("a-new z-old b-middle", "a-new", "a-new z-old b-middle"),
        ("z-old z-old", "a-new", "a-new z-old"),
    ],
)
def test_runs_stand_oldest_first_behind_the_reference(
    folder: Path, chosen: str, reference: str, order: str
) -> None:
    entries = {entry.name: entry for entry in Catalogue(folder).entries()}
    assert in_order(entries, ["", *chosen.split()], reference) == order.split()


def test_the_page_and_the_command_have_the_same_numbers(site: Site, folder: Path) -> None:
    names = ("z-old", "b-middle", "a-new")
    told = compare_runs(load_results([folder / f"{name}.krisis" for name in names]), FEW).to_dict()
    query = "&".join(f"run={name}" for name in names)
    shown = site.get(f"/compare.json?{query}").json["comparison"]
    assert shown == json.loads(dumps(told))
    assert len(shown["pairs"]) == 3
    assert shown["pairs"][0]["right"] == "new (b-middle)"
    n_replied = sum(row.outcome != "not_evaluated" for row in LEFT)
    assert [one["n_compared"] for one in shown["pairs"]] == [n_replied] * 3
    text = site.get(f"/compare?{query}").text
    places = [text.index(f"/runs/{name}") for name in names]
    assert places == sorted(places)
    assert "the page draws 119 permutations" in text


def test_runs_with_more_rows_than_the_server_may_hold_are_left_to_the_command(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pair, "MOST_ROWS", 479)
    for path in ("/compare.json", "/compare/cases.json", "/compare/cases/3.json"):
        answer = site.get(f"{path}?run=a-new&run=z-old&reference=a-new")
        assert answer.status == 400
        said = answer.json.get("problem") or answer.json["error"]
        assert "480 rows together and a page compares at most 479; type: krisis compare" in said
    text = site.get("/compare?run=a-new&run=z-old&reference=a-new").text
    assert "Compare the 2 that can be" not in text  # which would lead here again


def test_the_cases_of_a_group_on_which_they_differ_are_found(site: Site) -> None:
    found = site.get(f"/compare/cases.json?{PAIR}&group=stage%3A%203&size=500").json
    rows = [
        i
        for i, (a, b) in enumerate(zip(LEFT, RIGHT, strict=True))
        if a.metadata["ckd_stage"] == 3 and verdict(a) != verdict(b)
    ]
    assert [case["position"] for case in found["cases"]] == rows
    assert found["n_found"] == len(rows) > 10
    text = site.get(f"/compare/cases?{PAIR}&group=stage%3A%203").text
    assert "<option selected>stage: 3</option><option>stage: 4</option>" in text


def test_every_count_of_the_outcomes_leads_to_as_many_cases(site: Site) -> None:
    text = site.get(f"/compare?{PAIR}").text
    links = re.findall(r'<a href="(/compare/cases\?[^"]*(?:left|right)=[^"]*)">([\d,]+)</a>', text)
    for address, n in links:
        place = html.unescape(address).replace("/cases?", "/cases.json?")
        assert site.get(place).json["n_found"] == int(n.replace(",", "")), address
    outcomes = [(verdict(a), verdict(b)) for a, b in zip(LEFT, RIGHT, strict=True)]
    n_both_right = sum(one == ("right", "right") for one in outcomes)
    assert any(n == str(n_both_right) and "left=right&amp;right=right" in a for a, n in links)
    assert len(links) > 9
    assert 'href="/compare/cases?run=z-old&amp;run=a-new"' in text  # those on which they differ


def test_runs_differ_in_what_they_answered_or_in_whether_they_did() -> None:
    replies = {"one": (1, False), "two": (2, False), "none": (None, False), "left": (1, True)}
    replies["left too"] = (2, True)

    def table_of(name: str) -> Table:
        answer, abstained = replies[name]
        row = EvaluationResult(answer, 1, abstained, record_id="a")
        if answer is None:
            row.error, row.failure_class = "cut off", "malformed_reply"
        assert (row.outcome == "no_answer") == (answer is None)
        return Rows([row]).table

    alike = [{"left", "left too"}, *({name} for name in replies)]
    for left, right in product(replies, replies):
        (found,) = pair.differing(table_of(left), table_of(right))
        assert found == ({left, right} not in alike), (left, right)


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ("run=z-old&run=other-cases", "different cases (abababababab and cdcdcdcdcdcd)"),
        ("run=z-old&run=other-task&run=a-new", "different task (detection and staging)"),
    ],
)
def test_runs_on_other_cases_say_so_and_those_that_fit_are_offered(
    site: Site, query: str, reason: str
) -> None:
    answer = site.get(f"/compare.json?{query}")
    assert answer.status == 400
    assert reason in answer.json["problem"]
    assert answer.json["comparison"] is None
    assert {run["name"] for run in answer.json["offered"]} >= {"b-middle"}
    assert not {"other-cases", "other-task"} & {run["name"] for run in answer.json["offered"]}
    page = site.get(f"/compare?{query}")
    assert page.status == 400
    assert 'href="/compare?run=z-old' in page.text


def test_one_run_offers_all_that_can_be_compared_with_it_by_words(site: Site) -> None:
    facts = site.get("/compare.json?run=z-old").json
    assert [run["name"] for run in facts["offered"]] == ["a-new", "b-middle"]
    assert [
        run["name"] for run in site.get("/compare.json?run=z-old&text=M/NEW%20mid").json["offered"]
    ] == ["b-middle"]
    assert len(site.get("/compare.json").json["offered"]) == 5
    assert site.get("/compare.json?run=nothing").status == 404
    many = "&".join(f"run=x{i}" for i in range(MOST_RUNS + 1))
    assert site.get(f"/compare.json?{many}").status == 404


def test_of_many_runs_the_newest_are_shown_and_more_than_six_are_refused(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run-000", result_of(invented_rows(4), "m/x"))
    for number in range(1, N_OFFERED + 5):
        (tmp_path / f"run-{number:03d}.krisis").write_bytes(run.read_bytes())
    catalogue = Catalogue(tmp_path)
    content = page(catalogue, ["run-000"], {}).content
    assert (content["n_offered"], len(content["offered"])) == (N_OFFERED + 4, N_OFFERED)
    found = page(catalogue, ["run-000"], {"text": "run-007"}).content
    assert [one["name"] for one in found["offered"]] == ["run-007"]
    with pytest.raises(Exception, match="two to 6 runs and 7 were chosen"):
        page(catalogue, [f"run-{n:03d}" for n in range(7)], {})


@pytest.mark.parametrize(
    ("query", "passes"),
    [
        ("", lambda a, b: verdict(a) != verdict(b)),
        ("show=all", lambda a, b: True),
        ("left=right&right=wrong", lambda a, b: (verdict(a), verdict(b)) == ("right", "wrong")),
        ("show=all&right=abstained", lambda a, b: b.abstained),
        ("show=all&surer=left", lambda a, b: a.confidence > b.confidence),
    ],
)
def test_a_filter_keeps_exactly_the_cases_that_pass(
    site: Site, query: str, passes: Callable[[Any, Any], bool]
) -> None:
    pairs = enumerate(zip(LEFT, RIGHT, strict=True))
    expected = [i for i, (a, b) in pairs if a.error is None and passes(a, b)]
    found = site.get(f"/compare/cases.json?{PAIR}&{query}&size=500").json
    assert [case["position"] for case in found["cases"]] == expected
    assert expected or query.endswith("surer=left")


def test_both_replies_stand_beside_each_other_within_the_filter(site: Site) -> None:
    queue = site.get(f"/compare/cases.json?{PAIR}&left=right&right=wrong").json["cases"]
    first, second = (case["position"] for case in queue[:2])
    facts = site.get(f"/compare/cases/{first}.json?{PAIR}&left=right&right=wrong").json
    assert (facts["place"], facts["previous"], facts["next"]) == (1, None, second)
    assert [side["tone"] for side in facts["sides"]] == ["correct", "wrong"]
    assert facts["truth"].startswith("the disease is")
    assert facts["sides"][0]["answer"] == facts["truth"] != facts["sides"][1]["answer"]
    text = site.get(f"/compare/cases/{first}?{PAIR}&left=right&right=wrong").text
    assert f"/compare/cases/{second}?run=z-old&amp;run=a-new&amp;left=right&amp;right=wrong" in text
    assert f"/runs/z-old/cases/{first}" in text
    failed = next(i for i, row in enumerate(LEFT) if row.error is not None)
    for position in (failed, 10**6):
        assert site.get(f"/compare/cases/{position}.json?{PAIR}").status == 400


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("run=z-old", 400),
        ("run=z-old&run=b-middle&run=a-new", 400),
        ("run=z-old&run=other-cases", 400),
        ("run=z-old&run=nothing", 404),
        (f"{PAIR}&left=maybe", 404),
        (f"{PAIR}&group=no%20such%20group", 200),
    ],
)
def test_what_the_address_cannot_ask_for_is_said(site: Site, query: str, status: int) -> None:
    answer = site.get(f"/compare/cases.json?{query}")
    assert answer.status == status
    assert "error" in answer.json or answer.json["n_found"] == 0


def test_a_long_comparison_is_worked_out_once_and_waited_for(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    go_on, begun = threading.Event(), []

    def slow(asked: Any) -> Any:
        begun.append(asked)
        assert go_on.wait(30)
        raise InvalidValue("worked out")

    monkeypatch.setattr(compare, "_made", {})
    monkeypatch.setattr(compare, "_compare", slow)
    monkeypatch.setattr(compare, "_WAIT_SECONDS", 0.05)
    catalogue, names = Catalogue(folder), ["z-old", "a-new"]
    with ThreadPoolExecutor(2) as pool:
        pages = list(pool.map(lambda _: compare.page(catalogue, names, {}), range(2)))
    assert [page.status for page in pages] == [202, 202]
    assert pages[0].content["comparing"] == names
    assert len(begun) == 1
    go_on.set()
    monkeypatch.setattr(compare, "_WAIT_SECONDS", 30.0)
    end = compare.page(catalogue, names, {})
    assert (end.status, end.content["problem"]) == (400, "worked out")
    assert len(begun) <= 2  # a failure is not kept


def test_the_page_of_a_comparison_that_takes_long_loads_itself_again(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compare, "_compared", _never)
    answer = site.get("/compare?run=z-old&run=a-new")
    assert answer.status == 202
    assert "2 runs are being compared: z-old, a-new" in answer.text
    assert "data-waiting" in answer.text
    assert site.get("/compare.json?run=z-old&run=a-new").json["comparing"] == ["z-old", "a-new"]


def _never(asked: Any) -> Any:
    raise TimeoutError


@pytest.mark.browser
def test_two_clicks_from_home_compare_two_runs(watched: Watched, site: Site) -> None:
    page = watched.page
    page.goto(site.address)
    page.check("input[value=z-old]")
    page.click("tr[data-key=a-new] .with-it")
    eventually(page.locator(".verdict")).to_contain_text("Better?")
    page.click("a:has-text('old and new')")
    page.select_option("select[name=surer]", "right")
    page.wait_for_url("**surer=right**")
    page.locator("#results tbody a").first.click()
    eventually(page.locator(".two-replies section")).to_have_count(2)
    page.click("a[rel=next]")
    assert "surer=right" in page.url

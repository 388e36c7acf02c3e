"""Every page of the viewer shows what the runs hold, in HTML and in JSON."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.invented_runs import begin_run, forge_run, invented_rows, result_of, write_run
from tests.viewer.conftest import Site

from krisis.metrics.base import EvaluationResult, Rows
from krisis.metrics.partition import verdict
from krisis.pages.cases import OneCase, RowFilter
from krisis.pages.tabs import case_address
from krisis.results.call_totals import CallTotals
from krisis.runs.write import RowPlace
from krisis.viewer.catalogue import Catalogue


@pytest.fixture(scope="module")
def site(serve: Callable[[Path], Site], tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    folder = tmp_path_factory.mktemp("runs")
    shown = {"serum creatinine": 1.9}
    write_run(folder / "run-a", result_of(invented_rows(), "openai/a"), features=shown)
    write_run(folder / "run-b", result_of(invented_rows(skill=0.8), "openai/b"))
    going_on = begin_run(folder / "run-c", result_of(invented_rows(30), "openai/c"), n_cases=160)
    result_of(invented_rows(40), "saved/d").save(folder / "saved.json")
    (folder / "broken.krisis").write_text("{", encoding="utf-8")
    (folder / "notes.json").write_text("{}", encoding="utf-8")
    yield serve(folder)
    going_on.close()


def test_the_list_names_every_run_and_how_far_it_has_come(site: Site) -> None:
    runs = {run["name"]: run for run in site.get("/index.json").json["runs"]}
    assert set(runs) == {"run-a", "run-b", "run-c", "saved", "broken"}
    assert (runs["run-c"]["state"], runs["run-c"]["n_done"]) == ("running", 30)
    assert (runs["run-a"]["state"], runs["run-a"]["n_cases"]) == ("ended", 160)
    assert runs["broken"]["state"] == "unreadable"
    page = site.get("/")
    assert page.status == 200
    assert "openai/a" in page.text


@pytest.mark.parametrize(
    "path",
    ["/runs/run-a", "/runs/run-a/cases", "/runs/run-a/cases/3", "/runs/run-a/decide"],
)
def test_every_page_has_its_twin(site: Site, path: str) -> None:
    page, twin = site.get(path), site.get(f"{path}.json")
    assert (page.status, twin.status) == (200, 200)
    assert page.headers["content-type"].startswith("text/html")
    assert twin.json["name"] == "run-a"
    assert f'href="{path}.json' in page.text


def test_an_unfinished_run_is_scored_as_far_as_it_has_come(site: Site) -> None:
    facts = site.get("/runs/run-c.json").json
    assert facts["progress"]["n_done"] == 30
    assert facts["metric_scores"]["Accuracy"]["n_evaluated"] == sum(
        row.error is None for row in invented_rows(30)
    )


def test_progress_follows_a_growing_run(tmp_path: Path) -> None:
    rows = invented_rows(11)
    writer = begin_run(tmp_path / "run", result_of(rows), n_cases=50)
    catalogue = Catalogue(tmp_path)
    assert (catalogue.entry("run").n_done, catalogue.entry("run").state) == (11, "running")
    writer.append([RowPlace(11, 10)], [rows[10]], CallTotals())
    writer.flush()
    assert catalogue.entry("run").n_done == 12
    assert catalogue.load("run").count(RowFilter()) == 12
    writer.close()
    assert catalogue.entry("run").state == "stopped"


@pytest.mark.parametrize(
    ("query", "passes"),
    [
        ("outcome=abstained", lambda row: row.outcome == "abstained"),
        ("outcome=not_evaluated", lambda row: row.outcome == "not_evaluated"),
        ("correct=yes", lambda row: verdict(row) == "right"),
        ("correct=no", lambda row: verdict(row) == "wrong"),
        ("group=stage:+3", lambda row: row.metadata["ckd_stage"] == 3),
        ("text=CASE-00001", lambda row: row.record_id.startswith("case-00001")),
        (
            "cell=answer_when_should_defer",
            lambda row: row.outcome == "answered" and row.metadata["should_abstain"],
        ),
        (
            "confidence_min=0.5&confidence_max=0.8",
            lambda row: row.confidence is not None and 0.5 <= row.confidence <= 0.8,
        ),
    ],
)
def test_a_filter_keeps_exactly_the_rows_that_pass(
    site: Site, query: str, passes: Callable[[EvaluationResult], bool]
) -> None:
    expected = [i for i, row in enumerate(invented_rows()) if passes(row)]
    found = site.get(f"/runs/run-a/cases.json?{query}&size=500").json
    assert [row["position"] for row in found["rows"]] == expected
    assert expected


def test_pages_of_rows_neither_overlap_nor_miss_any(site: Site) -> None:
    pages = [site.get(f"/runs/run-a/cases.json?size=30&page={n}").json for n in range(1, 7)]
    assert pages[0]["n_pages"] == 6
    assert [r["position"] for page in pages for r in page["rows"]] == list(range(160))


def test_rows_without_confidence_come_last_in_either_order(tmp_path: Path) -> None:
    stated = [0.5, None, 0.9, 0.1]
    write_run(
        tmp_path / "run", result_of(Rows(EvaluationResult(1, 1, confidence=c) for c in stated))
    )
    run = Catalogue(tmp_path).load("run")
    assert run.select(RowFilter(sort="confidence")) == [3, 0, 2, 1]
    assert run.select(RowFilter(sort="-confidence")) == [2, 0, 3, 1]


def test_the_row_page_shows_features_only_where_the_run_stored_them(site: Site) -> None:
    assert site.get("/runs/run-a/cases/3.json").json["features"] == {"serum creatinine": 1.9}
    assert site.get("/runs/run-b/cases/3.json").json["features"] is None
    assert "did not store the features" in site.get("/runs/run-b/cases/3").text


def test_the_row_page_names_model_finish_reason_latency_and_failure_class(
    tmp_path: Path, serve: Callable[[Path], Site]
) -> None:
    rows = Rows(
        [
            EvaluationResult(1, 1, model="m-2026-01", finish_reason="stop", latency_seconds=0.25),
            EvaluationResult(None, 1, error="no reply", failure_class="timeout"),
        ]
    )
    write_run(tmp_path / "run", result_of(rows))
    site = serve(tmp_path)
    page = site.get("/runs/run/cases/0").text
    assert all(words in page for words in ("m-2026-01", "finish reason", "0.25"))
    assert "Not evaluated (timeout)" in site.get("/runs/run/cases/1").text
    assert site.get("/runs/run/cases/1.json").json["row"]["failure_class"] == "timeout"


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/runs/nothing", 404),
        ("/runs/..%2F..%2Fetc", 404),
        ("/runs/notes", 404),
        ("/runs/run-a/cases/160", 400),
        ("/runs/run-a/cases?outcome=maybe", 404),
        ("/runs/run-a/cases?confidence_min=2", 400),
        ("/runs/run-a/cases?page=-1", 400),
        ("/runs/run-a/cases?page=x", 400),
        ("/runs/run-a/decide?wrong=nan", 400),
        ("/runs/broken", 400),
        ("/elsewhere", 404),
    ],
)
def test_a_wrong_address_gets_a_sentence(site: Site, path: str, status: int) -> None:
    answer = site.get(path)
    assert answer.status == status
    assert '<p class="warning"' in answer.text
    assert '<a class="button" href="/">' in answer.text
    assert site.get(f"{path.partition('?')[0]}.json?{path.partition('?')[2]}").json["error"]


def test_the_filters_agree_with_the_columns(tmp_path: Path) -> None:
    rows = invented_rows(500)
    write_run(tmp_path / "run", result_of(rows))
    run = Catalogue(tmp_path).load("run")
    assert run.count(RowFilter(correct="yes")) == rows.table.correct.sum()
    assert run.count(RowFilter(outcome="scored")) == rows.table.n_scored


def test_two_runs_stand_side_by_side_with_the_rows_that_changed(site: Site) -> None:
    facts = site.get("/compare.json?run=run-a&run=run-b").json
    (pair,) = facts["comparison"]["pairs"]
    assert pair["deltas"]["accuracy"]["delta"] < 0
    first = pair["changes"]["right → wrong"][0]
    page = site.get("/compare?run=run-a&run=run-b").text
    assert 'href="/compare/cases?run=run-a&amp;run=run-b"' in page
    listed = site.get("/compare/cases?run=run-a&run=run-b").text
    assert first["record_id"] in listed
    assert "Time, tokens and cost" in page
    assert all(took["token_total"] for took in facts["comparison"]["spending"].values())
    assert site.get("/compare").status == 200
    assert site.get("/compare?run=run-a&run=run-b&run=run-c").status == 200
    assert site.get("/compare?run=run-a&run=nothing").status == 404


def test_a_row_of_a_run_with_gaps_has_its_own_features_and_address(tmp_path: Path) -> None:
    rows = invented_rows(60)
    writer = begin_run(tmp_path / "run", result_of(rows), features={"x": 0}, n_cases=60)
    writer.drop_rows([1, 7])  # these were never asked
    writer.close()
    for position in range(60):
        shown = json.dumps({"x": position})
        forge_run(tmp_path / "run.krisis", "cases", f"position = {position}", features=shown)
    catalogue = Catalogue(tmp_path)
    run = catalogue.load("run")
    found = [run.case(position) for position in run.places]
    assert [case.features["x"] for case in found if case and case.features] == run.places
    assert run.places[:2] == [0, 2]
    address, linked = case_address(run), 0
    for _, table in run.document.tables():
        for (at, place), behind in table.cases.items():
            if isinstance(behind, OneCase):
                position = int(address(behind).partition("/cases/")[2].partition("?")[0])
                assert run.row(position).record_id == table.rows[at][place]
                linked += 1
    assert linked


def test_a_row_with_an_unknown_outcome_does_not_take_the_list_down(tmp_path: Path) -> None:
    path = write_run(tmp_path / "run", result_of(invented_rows(3)), n_cases=50)
    forge_run(path, "rows", "position = 1", outcome="guessed")
    assert Catalogue(tmp_path).entry("run").n_done == 2
    run = Catalogue(tmp_path).load("run")
    assert [position for position, _ in run.rows([0, 1, 2])] == [0, 2]
    assert run.places == [0, 2]
    assert len(run.result.evaluation_results) == 2

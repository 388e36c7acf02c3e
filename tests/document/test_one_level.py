"""Headings and charts take their level and bins from the scores, in every medium."""

from __future__ import annotations

import html
import re
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from tests.commands import krisis, offered
from tests.documents import line_of
from tests.invented_runs import ANSWERS, invented_rows, result_of, write_run

from krisis import registry
from krisis.metrics.base import MetricScores, Rows
from krisis.metrics.scoring import metrics_from_names
from krisis.pages import numbers
from krisis.pages.document import Table
from krisis.pages.media import MEDIA as MEDIA_OF_A_DOCUMENT
from krisis.pages.numbers import Estimate
from krisis.pages.run import run_document
from krisis.pages.shell import page
from krisis.pages.shell import page as page_of
from krisis.results.report import format_report
from krisis.results.result import BenchmarkResult
from krisis.statistics.bootstrap import BootstrapOptions
from krisis.verbs.compare.comparison import Comparison
from krisis.verbs.compare.pairs import CompareOptions, compare_runs
from krisis.verbs.report.figures import FigureOptions, runs_figure
from krisis.viewer.app import create_app

METRICS = ["accuracy", "aurc", "expected_calibration_error[n_bins=3]"]
METRICS += ["disease_sensitivity", "disease_specificity", "deferral_alignment"]


@pytest.fixture(scope="module")
def runs() -> dict[str, BenchmarkResult]:
    """Two runs scored with 80 % intervals and three bins."""
    skills = {"left": 1.0, "right": 0.5}
    found = {name: result_of(invented_rows(160, skill=skill)) for name, skill in skills.items()}
    options = BootstrapOptions(n_resamples=200, level=0.8)
    return {name: run.scored(metrics_from_names(METRICS), options) for name, run in found.items()}


def _compared(runs: dict[str, BenchmarkResult]) -> str:
    comparison = compare_runs(runs, CompareOptions(n_permutations=199, level=0.8))
    media = "".join(comparison.written(medium) for medium in MEDIA_OF_A_DOCUMENT)
    return media + page_of(comparison.document())


def _tables(runs: dict[str, BenchmarkResult]) -> str:
    return "".join(runs["left"].written(medium) for medium in ("latex", "markdown"))


def _commands(runs: dict[str, BenchmarkResult]) -> str:
    """Return what a saved run shows at the command line."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_run(folder / "run", runs["left"])
        found = [
            krisis(*words, cwd=folder)
            for words in offered(
                [
                    ("show", "run.krisis"),
                    ("sheet", "run.krisis"),
                    ("show", "run.krisis", "--format", "latex"),
                    ("report", "run.krisis", "-o", "page.html"),
                ]
            )
        ]
        assert [one.returncode for one in found] == [0] * len(found), found
        return "".join(one.stdout for one in found) + (folder / "page.html").read_text()


def _viewer(runs: dict[str, BenchmarkResult]) -> str:
    with tempfile.TemporaryDirectory() as name:
        for run, result in runs.items():
            write_run(Path(name) / run, result)
        client = TestClient(create_app(Path(name)), base_url="http://127.0.0.1")
        answer = client.get("/runs/left")
        assert answer.status_code == 200, answer.text
        return answer.text


def _figures(runs: dict[str, BenchmarkResult]) -> str:
    drawn = [
        runs_figure(runs, FigureOptions(kind=kind))
        for kind in registry.BUILT_IN["figures"]
        if kind not in ("cost", "decision-curve")
    ]
    return "".join(one.reading + str(one.about) + one.svg for one in drawn)


MEDIA: dict[str, Callable[[dict[str, BenchmarkResult]], str]] = {
    "text report": lambda runs: format_report(runs["left"]),
    "notebook": lambda runs: runs["left"]._repr_html_(),
    "HTML report": lambda runs: page(run_document(runs["left"])),
    "tables": _tables,
    "figures": _figures,
    "comparison": _compared,
    "commands": _commands,
    "viewer": _viewer,
}


@pytest.mark.parametrize("medium", MEDIA)
def test_a_run_scored_at_80_percent_is_nowhere_headed_95(
    medium: str, runs: dict[str, BenchmarkResult]
) -> None:
    text = MEDIA[medium](runs).replace("\u00a0", " ").replace("\\%", "%").replace("&nbsp;", " ")
    # The rules of the verdict have a level of their own, and it is named.
    text = text.replace("95 % intervals", "").replace("Intervals of the verdict: 95 %", "")
    text = re.sub(r"answered (\\\\ )?\(95 % (\\\\ )?interval\)", "", text)  # of its groups
    assert re.search(r"80 ?%", text)
    assert not re.findall(r".{30}95 ?%.{30}", text)


def test_levels_that_differ_are_all_named() -> None:
    result = result_of(invented_rows(60))
    narrow = result.scored(metrics_from_names(["accuracy"]), BootstrapOptions(level=0.8))
    both = MetricScores({**result.metric_scores, "Accuracy": narrow.metric_scores["Accuracy"]})
    assert "80 or 95 % interval" in str(both)
    assert "80 % intervals: Accuracy." in str(both)


def test_the_paper_figure_has_the_bins_and_the_error_of_the_score(
    runs: dict[str, BenchmarkResult],
) -> None:
    """Scored with three bins, the figure draws three and states that error."""
    score = runs["left"].metric_scores.get("expected_calibration_error")
    assert score is not None
    drawn = runs_figure({"left": runs["left"]}, FigureOptions(kind="reliability"))
    assert f"ECE {score.value:.3f}, n = {score.n_evaluated:,}" in drawn.svg
    assert all(row["high"] - row["low"] == pytest.approx(1 / 3) for row in drawn.table)
    charts = {chart.key: chart for chart in run_document(runs["left"]).charts()}
    own = [{**row, "run": runs["left"].backend_name} for row in drawn.table]
    assert own == charts["reliability"].draw().table
    fifteen = result_of(invented_rows(160)).metric_scores["Expected Calibration Error"]
    assert abs(fifteen.value - score.value) > 0.01


def _framed(comparison: Comparison) -> dict[str, list[bool]]:
    """Return which figures of both runs are marked as best, by the key of the metric."""
    (table,) = comparison.document().section("scores").parts
    assert isinstance(table, Table)
    return {
        key: [(at, place) in table.best for place in (1, 2)] for at, key in enumerate(table.keys)
    }


def test_the_best_figure_is_framed_by_direction_with_ties_and_never_where_undefined() -> None:
    """A lower error and a higher accuracy are best; a tie frames both; an undefined one none."""
    runs = {
        "weak": result_of(invented_rows(160, skill=0.3)),
        "strong": result_of(invented_rows(160)),
    }
    tested = ("accuracy", "brier_score", "answer_rate")  # what is not tested has no best
    options = CompareOptions(n_permutations=199, metrics=tested)
    comparison = compare_runs(runs, options)
    framed = _framed(comparison)
    assert framed["accuracy"] == framed["brier_score"] == [False, True]
    assert framed["answer_rate"] == [False, False]  # neither way is better
    n_framed = sum(map(sum, framed.values()))
    assert page_of(comparison.document()).count('class="figure best"') == n_framed > 0
    alike = {"first": runs["strong"], "second": runs["strong"]}
    tied = compare_runs(alike, options)
    assert _framed(tied)["accuracy"] == [True, True]
    silent = Rows([replace(row, confidence=None) for row in invented_rows(160)], ANSWERS)
    undefined = compare_runs({"stated": runs["strong"], "silent": result_of(silent)}, options)
    assert _framed(undefined)["brier_score"] == [False, False]


def test_every_medium_names_the_parameters_and_shows_the_same_figures(
    runs: dict[str, BenchmarkResult],
) -> None:
    """One idea, one place: every medium has the figures that the scores have."""
    named = "Expected Calibration Error [n_bins=3]"
    document = runs["left"].document()
    for key in ("accuracy", "aurc", "expected_calibration_error"):
        score = runs["left"].metric_scores.get(key)
        assert score is not None
        cell = line_of(document, score.name)["value (80 % interval)"]
        assert cell == Estimate.of(score.value, score.interval)
        # The text report is the first screen, which has the eight metrics of every run.
        text_report = ("text report",) if key != "aurc" else ()
        for medium in (*text_report, "notebook", "HTML report"):
            text = html.unescape(re.sub(r"</?(span|strong)[^>]*>", "", MEDIA[medium](runs)))
            assert numbers.figure(cell) in text, (medium, key)
            assert named in text, medium
    for medium in ("tables", "comparison"):
        text = html.unescape(MEDIA[medium](runs)).replace("{]}", "]").replace("{[}", "[")
        assert named in text.replace("\\_", "_"), medium
    assert named in html.unescape(MEDIA["commands"](runs))

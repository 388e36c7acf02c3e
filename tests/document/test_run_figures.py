"""Figures of several runs: what is drawn, what is said of gaps, and that nothing is overwritten."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from tests.commands import krisis
from tests.invented_runs import ANSWERS, TASK, invented_rows, result_of

from krisis import registry
from krisis.errors import UserError
from krisis.metrics.base import EvaluationResult, Rows
from krisis.pages.charts.files import write_figure
from krisis.pages.charts.forest import deferral, forest
from krisis.pages.charts.spec import n_columns, panel_titles
from krisis.pages.figure import Figure
from krisis.pages.style import MOST_RUNS, series, style_of
from krisis.results.account import RunFacts, brief_scores
from krisis.results.result import BenchmarkResult
from krisis.verbs.report.figures import FigureOptions, runs_figure

pytest.importorskip("vl_convert", reason="the extra charts is not installed")
ROWS = invented_rows(60)
SILENT = Rows((replace(row, confidence=None) for row in ROWS), ANSWERS)
ABSTAINING = Rows((replace(row, prediction=None, abstained=True) for row in ROWS), ANSWERS)
RUNS = {"provider/first-model": result_of(ROWS), "second": result_of(ROWS, "second")}
GAPS = {**RUNS, "silent": result_of(SILENT, "silent"), "mute": result_of(ABSTAINING, "mute")}
KINDS = tuple(registry.BUILT_IN["figures"])


def texts(svg: str) -> str:
    return " | ".join(re.sub(r"<[^>]+>", "\n", svg).split("\n"))


@pytest.mark.parametrize("kind", KINDS)
def test_a_figure_names_models_suite_task_and_n(kind: str) -> None:
    shown = texts(runs_figure(RUNS, FigureOptions(kind, title="A title of my own")).svg)
    for said in ("A title of my own", "ckd · detection", "2 runs", "n = ", "second", "95 %"):
        assert said in shown


def test_a_run_that_cannot_be_drawn_is_named_with_the_reason() -> None:
    figure = runs_figure(GAPS, FigureOptions("risk-coverage"))
    assert figure.about[-2:] == [
        "Not drawn: silent: no answer states a confidence.",
        "Not drawn: mute: nothing was answered.",
    ]
    assert {row["run"] for row in figure.table} == set(RUNS)


@pytest.mark.parametrize(
    ("runs", "options", "told"),
    [
        ({"silent": GAPS["silent"]}, {"kind": "reliability"}, "no answer states a confidence"),
        ({"mute": GAPS["mute"]}, {"kind": "risk-coverage"}, "nothing was answered"),
        (RUNS, {"kind": "pie"}, "unknown kind of figure 'pie'"),
        (RUNS, {"kind": "forest", "metrics": ["acuracy"]}, "did you mean 'accuracy'"),
        (RUNS, {"kind": "deferral", "metrics": ["accuracy"]}, "chooses the panels of a forest"),
        (RUNS, {"style": "paper"}, "unknown style 'paper'"),
        (RUNS, {"style": "print", "width": 3.0}, "--width must be 40 to 400 mm, not 3"),
        (RUNS, {"width": 85.0}, "add --style print"),
        ({}, {}, f"1 to {MOST_RUNS} runs, not 0"),
    ],
)
def test_what_cannot_be_drawn_is_refused_in_one_sentence(
    runs: dict[str, BenchmarkResult], options: dict[str, object], told: str
) -> None:
    with pytest.raises(UserError, match=re.escape(told)):
        runs_figure(runs, FigureOptions(**options))  # type: ignore[arg-type]


def test_runs_of_other_tasks_and_scores_without_rows_are_refused() -> None:
    other = result_of(ROWS)
    other.suite_description = {**other.suite_description, "task": "staging"}
    with pytest.raises(UserError, match="task differs"):
        runs_figure({**RUNS, "other": other}, FigureOptions("forest"))
    bare = BenchmarkResult([], other.metric_scores, RUNS["second"].suite_description, "bare")
    with pytest.raises(UserError, match="bare has scores but no rows"):
        runs_figure({"bare": bare}, FigureOptions("deferral"))
    assert runs_figure({"bare": bare}, FigureOptions("forest")).table


def test_deferral_by_hand() -> None:
    cases = [(True, True)] * 3 + [(True, False)] + [(False, True)] + [(False, False)] * 4
    rows = [
        EvaluationResult(None if did else 1, 1, did, 0.5, metadata={"should_abstain": due})
        for due, did in cases
    ]
    run = BenchmarkResult([replace(row, record_id=str(i)) for i, row in enumerate(rows)], {}, {})
    drawing = deferral({"m": run}, style_of("screen"))
    due, safe = drawing.table
    assert (due["value"], due["n"], safe["value"], safe["n"]) == (0.75, 4, 0.8, 5)
    assert due["low"] < 0.75 < due["high"]


def test_a_forest_shows_the_numbers_of_the_runs_in_the_metrics_chosen() -> None:
    drawing = forest(RUNS, style_of("print", 85), ["brier_score", "accuracy"])
    scores = RUNS["second"].metric_scores
    found = {(row["panel"].split(" (")[0], row["run"]): row for row in drawing.table}
    assert len(found) == 4
    for heading, key in (("Accuracy", "accuracy"), ("Brier", "brier_score")):
        row, score = found[heading, "second"], scores[key]
        ends = (score.interval.low, score.interval.high)
        assert (row["value"], row["low"], row["high"]) == (score.value, *ends)


def test_people_are_beside_every_model_with_how_many_cases_they_read() -> None:
    scores = brief_scores(RUNS["second"].metric_scores)
    people = {"physician (read 40 of 60)": scores, "reader/dr_a": scores, "majority": scores}
    facts = RunFacts(baselines=people)
    model = BenchmarkResult(ROWS, RUNS["second"].metric_scores, {"suite": "ckd"}, "m", facts=facts)
    figure = runs_figure({"m": model}, FigureOptions("forest", metrics=("accuracy", "aurc")))
    found = {(row["panel"].split(" (")[0], row["run"]): row for row in figure.table}
    assert {run for panel, run in found if panel == "Accuracy"} == {"m", *people}
    assert "Grey ticks: majority." in " ".join(figure.about)
    assert {run for panel, run in found if panel != "Accuracy"} == {"m"}
    assert found["Accuracy", "reader/dr_a"]["value"] == scores["Accuracy"].value
    assert found["Accuracy", "reader/dr_a"]["low"] is None
    assert "their own run has intervals" in " ".join(figure.about)
    shown = {**model.suite_description, "read": "40 of 60"}
    own = BenchmarkResult(ROWS, RUNS["second"].metric_scores, shown, "physician")
    for kind in KINDS:
        drawn = runs_figure({"m": model, "physician": own}, FigureOptions(kind))
        assert "physician (read 40 of 60)" in texts(drawn.svg).replace("\u00a0", " ")
    rows = runs_figure({"m": model, "physician": own}, FigureOptions("forest")).table
    assert [row["run"] for row in rows].count("physician (read 40 of 60)") == len(
        {row["panel"] for row in rows}
    )


def test_a_long_name_costs_height_in_its_own_row_alone() -> None:
    style = style_of("screen")
    titles = {str(number): ["name", "n"] for number in range(5)} | {"0": [*"name", "n"]}
    found = panel_titles(titles, style)
    assert n_columns(style, 5) == 4
    assert [len(found[name].text) for name in titles] == [5, 5, 5, 5, 2]


def test_a_forest_of_long_names_shows_fewer_metrics_so_that_a_page_holds_it() -> None:
    style = style_of("print", 170)
    long = "provider/" + "a-very-long-name-of-a-model-" * 4
    many = {f"{name}{number}": RUNS["second"] for number in range(6) for name in ("m", long)}
    short = {f"m{number}": RUNS["second"] for number in range(12)}
    panels = [{row["panel"] for row in forest(runs, style).table} for runs in (short, many)]
    assert (len(panels[0]), len(panels[1])) == (3, 1)


def test_no_two_runs_share_dash_and_mark() -> None:
    looks = list(series([str(i) for i in range(MOST_RUNS)]).values())
    assert len({(tuple(one.dash), one.shape) for one in looks}) == MOST_RUNS
    assert len({(one.tone.name, one.shape) for one in looks}) == MOST_RUNS


@pytest.mark.parametrize("kind", KINDS)
def test_print_has_the_width_asked_for_and_the_same_bytes_again(kind: str, tmp_path: Path) -> None:
    options = FigureOptions(kind, "print", 85)
    first, again = (runs_figure(RUNS, options) for _ in range(2))

    def file(figure: Figure, suffix: str) -> bytes:
        path = tmp_path / f"figure{suffix}"
        write_figure(figure, path, "print")
        return path.read_bytes()

    svg = file(first, ".svg").decode()
    width = re.search(r'width="([\d.]+)mm"', svg)
    assert width is not None
    assert float(width[1]) == pytest.approx(85, abs=1.5)
    for suffix, start in ((".svg", b"<svg"), (".pdf", b"%PDF"), (".png", b"\x89PNG")):
        made = file(first, suffix)
        assert made.startswith(start)
        assert made == file(again, suffix)
    assert first._repr_svg_() == first.svg


def test_a_long_name_is_broken_and_no_letter_lost() -> None:
    style = style_of("print", 85)
    name = "provider/some-model_with:many-parts-and-a-very-long-name"
    lines = style.broken(name, 60)
    assert "".join(lines) == name
    assert lines[0] == "provider/some-"  # as much of a name as fits
    assert max(map(len, lines)) <= 60 / (0.5 * style.font)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("figures")
    for name in ("provider/first-model", "second"):
        RUNS[name].save(made / f"{name.partition('/')[0]}.json")
    return made


def test_the_command_writes_a_new_file_and_never_over_an_old_one(folder: Path) -> None:
    asked = ("figure", "provider.json", "second.json", "--kind", "deferral", "-o")
    done = krisis(*asked, "new/figure.pdf", cwd=folder)
    assert (done.returncode, done.stdout) == (0, "wrote new/figure.pdf\n")
    before = (folder / "new" / "figure.pdf").read_bytes()
    for name, told in (
        ("new/figure.pdf", "new/figure.pdf exists already"),
        ("figure.tiff", "a figure is a .pdf, .svg or .png file, not 'figure.tiff'"),
    ):
        done = krisis(*asked, name, cwd=folder)
        assert (done.returncode, done.stdout) == (2, "")
        assert told in done.stderr
    assert (folder / "new" / "figure.pdf").read_bytes() == before
    assert not (folder / "figure.tiff").exists()


def test_the_points_of_a_curve_are_those_of_the_run() -> None:
    figure = runs_figure({"second": RUNS["second"]}, FigureOptions("risk-coverage"))
    table = ROWS.table
    wrong = table.answered & ~table.correct
    last = figure.table[-1]
    assert last["coverage"] == pytest.approx(table.answered.mean())
    assert last["selective_risk"] == pytest.approx(wrong.sum() / table.answered.sum())
    assert np.isfinite(last["threshold"])


def test_a_run_with_one_confidence_is_a_point_with_its_interval_and_says_so() -> None:
    rows = Rows((replace(row, confidence=0.8) for row in ROWS), ANSWERS)
    figure = runs_figure({"second": result_of(rows, "second")}, FigureOptions("risk-coverage"))
    ends = [row for row in figure.table if row["selective_low"] is not None]
    assert [row["coverage"] for row in ends] == [pytest.approx(rows.table.answered.mean())]
    assert "All answers state one confidence, so there is one point: second." in texts(figure.svg)


def test_the_resources_of_a_pdf_are_in_one_order(monkeypatch: pytest.MonkeyPatch) -> None:
    figure = runs_figure(RUNS, FigureOptions("risk-coverage"))
    page = figure.pdf()
    entries = re.search(rb"/ExtGState <<\n((?: +/gs\d+ \d+ 0 R\n){2,})", page)
    # Otherwise the converter writes in another way, and its order must be looked at.
    assert entries is not None
    lines = entries[1].splitlines(keepends=True)
    turned = page.replace(entries[1], b"".join(reversed(lines)))
    assert turned != page
    renderer = SimpleNamespace(draw=lambda *_: turned)
    monkeypatch.setattr("krisis.pages.figure.RENDERER", renderer)
    assert figure.pdf() == page


@pytest.mark.parametrize(("name", "width"), [("screen", None), ("print", 85.0)])
def test_names_and_numbers_at_the_edges_have_room_for_a_wider_font(
    name: str, width: float | None
) -> None:
    style = style_of(name, width)
    svg = runs_figure(RUNS, FigureOptions("forest", style=name, width=width)).svg
    drawn_from = float(re.findall(r"translate\(([\d.]+),", svg)[0])
    found = re.findall(r"translate\(([\d.]+),[^>]*>(0\.\d+ \([^<]*)", svg)
    assert found
    # Digits take 0.5 em on average in Helvetica and 0.55 em in DejaVu Sans.
    ends = [float(x) + 0.55 * len(words) * style.font for x, words in found]
    right = float(re.findall(r'viewBox="0 0 ([\d.]+)', svg)[0])
    assert drawn_from + max(ends) <= right


def priced(n_runs: int) -> dict[str, BenchmarkResult]:
    """Return runs of a task that has a price, all of them on the same cases."""
    facts = {
        **TASK,
        "costs": {"wrong": {"0": {"1": 0.25}, "1": {"0": 1}}, "price": 0.1},
    }
    found = {}
    for number in range(n_runs):
        rows = invented_rows(60, skill=1 - number / 16)
        made = result_of(rows, f"model-{number}")
        extras = {**made.extras, "task_facts": facts}
        found[f"model-{number}"] = BenchmarkResult(
            rows, made.metric_scores, made.suite_description, f"model-{number}", extras
        )
    return found


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_runs", [1, 3, 8])
def test_every_kind_is_drawn_for_one_run_and_for_many(kind: str, n_runs: int) -> None:
    runs = priced(n_runs)
    figure = runs_figure(runs, FigureOptions(kind, "print", 170))
    shown = texts(figure.svg)
    assert " ".join(figure.title.split()[:3]) in shown.replace(" | ", " ")
    for name in runs:
        assert name in shown
    if n_runs > 1:
        assert f"{n_runs} runs" in shown
    assert figure.table


def test_the_title_of_a_curve_is_true_for_the_data() -> None:
    def title(*answers: tuple[bool, float]) -> str:
        rows = [
            EvaluationResult(int(right), 1, confidence=c, record_id=str(i))
            for i, (right, c) in enumerate(answers)
        ]
        run = BenchmarkResult(Rows(rows), {}, {}, "m")
        return runs_figure({"m": run}, FigureOptions("risk-coverage")).title

    ranked = title((True, 0.9), (True, 0.8), (False, 0.7), (False, 0.6))
    assert ranked == "Wrong in 50 % of all answers, 0 % of the most confident 50 %"
    tied = title((True, 0.9), (False, 0.9))
    assert tied == "Wrong in 50 % of all answers; one confidence for all, so nothing can be ranked"
    half = title((True, 0.9), (True, 0.5), (False, 0.5), (False, 0.5))
    assert half == "Wrong in 50 % of all answers; half of them or more state one confidence"


def test_costs_by_two_tables_are_not_drawn_as_one_figure() -> None:
    runs = {**priced(1), "second": result_of(invented_rows(60), "second")}
    some = runs_figure(runs, FigureOptions("cost"))
    assert "Not drawn: second: it is judged by other costs." in some.about

"""Every chart shows the numbers that it says it shows."""

from __future__ import annotations

import csv
import html
import io
import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom
from tests.invented_runs import ANSWERS, invented_rows, result_of

from krisis.metrics import BootstrapOptions, ExpectedCalibrationError
from krisis.metrics.base import EvaluationResult, MetricScores, Rows
from krisis.metrics.table import Answers
from krisis.pages.charts.curves import Curve
from krisis.pages.charts.forest import forest, group_forest
from krisis.pages.charts.reliability import (
    confidence_histogram,
    histogram_table,
    reliability,
    reliability_table,
)
from krisis.pages.figure import Figure
from krisis.pages.groups import RIGHT, GroupFigures, group_figures, overall_figures
from krisis.pages.numbers import Estimate
from krisis.pages.palette import TONES
from krisis.pages.run import run_document
from krisis.pages.shell import style_sheet
from krisis.pages.style import Style
from krisis.results.result import BenchmarkResult
from krisis.statistics.group_gaps import SMALLEST_GROUP

PAGE = Style()


def charts_of(result: BenchmarkResult) -> dict[str, Figure]:
    """Return the charts of the page of a run."""
    return {chart.key: chart.draw() for chart in run_document(result).charts()}


def right_of(group: GroupFigures) -> Estimate:
    found = group.figures[RIGHT]
    assert isinstance(found, Estimate)
    return found


def test_reliability_bins_hold_hand_counted_rows() -> None:
    rows = Rows(
        [EvaluationResult(1, 1, confidence=0.95)] * 3
        + [EvaluationResult(0, 1, confidence=0.95)]
        + [EvaluationResult(1, 1, confidence=0.55), EvaluationResult(None, 1, True, 0.55)]
    )
    low, high = reliability_table(rows.table, n_bins=10)
    assert (low["low"], low["n"], low["accuracy"]) == (0.5, 1, 1.0)
    assert (high["n"], high["n_correct"], high["accuracy"]) == (4, 3, 0.75)
    assert high["mean_confidence"] == pytest.approx(0.95)


def test_the_consistency_band_is_the_binomial_range_of_a_calibrated_model() -> None:
    rows = Rows([EvaluationResult(1, 1, confidence=0.75)] * 200)
    (only,) = reliability_table(rows.table)
    expected = binom.ppf([0.025, 0.975], 200, 0.75) / 200
    assert [only["band_low"], only["band_high"]] == pytest.approx(expected, abs=0.011)


def test_many_distinct_confidences_give_the_same_band_as_few() -> None:
    generator = np.random.default_rng(1)
    stated = generator.uniform(0.700001, 0.799999, 4000)
    many = Rows([EvaluationResult(1, 1, confidence=float(c)) for c in stated])
    few = Rows([EvaluationResult(1, 1, confidence=float(round(c, 3))) for c in stated])
    (wide,), (narrow, *_) = (reliability_table(rows.table, n_bins=10) for rows in (many, few))
    assert wide["band_low"] == pytest.approx(narrow["band_low"], abs=0.004)
    assert wide["band_high"] == pytest.approx(narrow["band_high"], abs=0.004)


@pytest.mark.slow
def test_a_calibrated_model_leaves_the_band_as_seldom_as_it_says_also_with_alike_rows() -> None:
    """One confidence per patient, all rows of a patient right or wrong together."""
    generator, n_outside, n_bins = np.random.default_rng(2), 0, 0
    for _ in range(150):
        stated = generator.uniform(0.5, 1.0, 60)
        right = generator.random(60) < stated
        rows = Rows(
            EvaluationResult(int(right[i]), 1, confidence=float(stated[i]), cluster_id=f"p{i}")
            for i in range(60)
            for _ in range(4)
        )
        for row in reliability_table(rows.table):
            n_outside += not row["band_low"] <= row["accuracy"] <= row["band_high"]
            n_bins += 1
    assert 0.02 <= n_outside / n_bins <= 0.08


def test_the_reliability_diagram_has_the_bins_of_the_calibration_error() -> None:
    rows = invented_rows()
    score = ExpectedCalibrationError()(rows)
    filled = [b for b in score.details["bins"] if b["count"]]
    shown = reliability_table(rows.table)
    assert [(row["low"], row["n"]) for row in shown] == [(b["low"], b["count"]) for b in filled]


def test_the_histogram_counts_every_row_that_states_a_confidence_once() -> None:
    rows = invented_rows()
    table = histogram_table(rows.table)
    assert sum(row["n"] for row in table) == sum(r.confidence is not None for r in rows)
    wrong = [
        row for row in rows if row.outcome == "answered" and row.prediction != row.ground_truth
    ]
    assert sum(row["n"] for row in table if row["outcome"] == "wrong") == len(wrong)


def test_small_groups_are_named_but_neither_counted_nor_scored() -> None:
    rows = Rows(
        [EvaluationResult(1, 1, metadata={"sex": "female"})] * 30
        + [EvaluationResult(0, 1, metadata={"sex": "male"})] * (SMALLEST_GROUP - 1)
    )
    female, male = group_figures(rows)
    assert (female.name, female.n, right_of(female).value) == ("female", 30, 1.0)
    assert (male.name, male.n) == ("male", None)
    assert set(male.figures.values()) == {"fewer than 20 patients"}


def test_groups_of_few_patients_with_many_rows_have_wide_intervals() -> None:
    def width(n_patients: int) -> float:
        rows = Rows(
            EvaluationResult(
                int(i % n_patients % 2),
                1,
                metadata={"sex": sex},
                cluster_id=f"{sex}{i % n_patients}",
            )
            for sex in ("female", "male")
            for i in range(200)
        )
        first = right_of(group_figures(rows)[0])
        assert first.value == 0.5
        return first.high - first.low

    assert width(20) > 2 * width(200)


def test_a_group_of_one_patient_is_not_shown_however_many_its_rows() -> None:
    rows = Rows(
        EvaluationResult(1, 1, metadata={"sex": sex}, cluster_id=sex)
        for sex in ("female", "male") * 40
    )
    first = group_figures(rows)[0]
    assert first.figures[RIGHT] == "fewer than 20 patients"


def test_ages_fall_into_bands_and_missing_ones_are_said_to_be_missing() -> None:
    ages: list[object] = [18, 39, 40, 74, 75, None, "old"]
    rows = Rows([EvaluationResult(1, 1, metadata={"age": age}) for age in ages for _ in range(20)])
    groups = {group.name: group.n for group in group_figures(rows)}
    assert groups == {"18–39": 40, "40–59": 20, "60–74": 20, "75+": 20, "not stated": 40}


def test_the_groups_of_a_task_come_first_under_their_own_names() -> None:
    answers = Answers(groups={"care_unit": "ward"})
    rows = Rows(
        (
            EvaluationResult(1, 1, metadata={"ward": ward, "sex": "female" if i % 2 else "male"})
            for ward in ("ICU", "ED", None)
            for i in range(40)
        ),
        answers,
    )
    assert [(group.by, group.name) for group in group_figures(rows)] == [
        ("care unit", "ED"),
        ("care unit", "ICU"),
        ("care unit", "not stated"),
        ("sex", "female"),
        ("sex", "male"),
    ]


def test_the_figures_of_a_group_by_hand() -> None:
    """Ten of forty cases wrong, ten deferred, five of these needlessly."""
    rows = Rows(
        EvaluationResult(
            None if i < 10 else int(i >= 20),
            1,
            i < 10,
            metadata={"sex": sex, "should_abstain": i < 5},
            cluster_id=f"{sex}{i}",
        )
        for sex in ("female", "male")
        for i in range(40)
    )
    first = group_figures(rows)[0]
    shown = {name: one.value for name, one in first.figures.items() if isinstance(one, Estimate)}
    right, answered, aligned = 20 / 30, 30 / 40, 35 / 40
    assert list(shown.values()) == pytest.approx([right, answered, aligned])
    assert list(first.among.values()) == [30, 40, 40]
    assert list(overall_figures(rows).values()) == pytest.approx([right, answered, aligned])


def test_charts_without_data_are_not_drawn() -> None:
    silent = BenchmarkResult(Rows([EvaluationResult(None, 1, True)] * 3), {}, {}, "m")
    assert charts_of(silent) == {}
    assert not reliability({"m": silent}, PAGE).table
    assert not confidence_histogram(silent, PAGE).table
    assert group_figures(silent.rows) == []


def test_a_figure_is_saved_as_picture_pixels_and_numbers(tmp_path: Path) -> None:
    figure = reliability({"m": result_of(invented_rows())}, PAGE).figure(PAGE)
    paths = figure.save(tmp_path / "figures")
    assert [path.suffix for path in paths] == [".svg", ".png", ".csv"]
    ElementTree.fromstring(paths[0].read_text(encoding="utf-8"))
    assert paths[1].read_bytes().startswith(b"\x89PNG")
    lines = list(csv.DictReader(io.StringIO(paths[2].read_text(encoding="utf-8"))))
    assert [int(line["n"]) for line in lines] == [row["n"] for row in figure.table]


def test_an_inline_drawing_takes_every_colour_from_the_page() -> None:
    figure = confidence_histogram(result_of(invented_rows()), PAGE).figure(PAGE)
    drawing = figure.inline_svg
    ElementTree.fromstring(drawing)
    assert not any(f'"{tone.light}"' in drawing for tone in TONES)
    assert "var(--wrong" in drawing
    assert "style=" not in drawing
    assert drawing.count("aria-label=") == 1


def test_group_names_cannot_break_out_of_a_drawing() -> None:
    names = [
        "<script>alert(1)</script>",
        ' aria-label="',
        '"><img src=x onerror=alert(1)>',
        "&lt;b>",
    ]
    rows = Rows(
        [EvaluationResult(1, 1, metadata={"sex": name}) for name in names for _ in range(20)]
    )
    figure = group_forest(group_figures(rows), overall_figures(rows), PAGE).figure(PAGE)
    tags = {
        element.tag.split("}")[-1] for element in ElementTree.fromstring(figure.inline_svg).iter()
    }
    assert tags <= {"svg", "g", "path", "line", "text", "rect", "circle"}


@pytest.mark.parametrize("one_level", [False, True])
def test_an_exported_chart_says_whose_it_is_and_what_its_marks_mean(one_level: bool) -> None:
    rows = Rows(
        (replace(row, confidence=0.9) if one_level else row for row in invented_rows(60)), ANSWERS
    )
    result = result_of(rows, "openai/<a>")
    content = result.to_dict()
    content["extras"] |= {"started_at": "2026-01-02T03:04:05Z"}
    drawn = charts_of(BenchmarkResult.from_dict(content, place="here"))
    n_scored = rows.table.n_scored
    for figure in drawn.values():
        said = " ".join(re.sub(r"<[^>]+>", " ", figure.svg).split())
        for words in (figure.title, "openai/&lt;a&gt; · ckd · detection", "2026-01-02"):
            assert words in said, (figure.name, words)
        assert f"n = {n_scored} cases" in said
        assert all(mark.words in html.unescape(said) for mark in figure.key)
        assert figure.title not in re.sub(r'aria-label="[^"]*"', "", figure.inline_svg)
    risk = drawn["risk_coverage"]
    assert ("one confidence" in risk.svg) == ("one confidence" in risk.title) == one_level
    # Where nothing can be ranked, no better order can avoid anything.
    assert ("a better order would avoid" in risk.reading) != one_level
    kinds = [mark.kind for mark in risk.key]
    assert kinds == (["dot", "line", "box"] if one_level else ["line", "line", "box", "dot"])
    assert 'fill="#0072b2"' in risk.svg  # the point of the model, not only the ideal line


def test_print_shows_no_toggle() -> None:
    printed = style_sheet().split("@media print{")[1]
    assert "details:not([open]):not(.section){display:none}" in printed


def test_the_band_of_a_curve_allows_for_errors_that_were_not_seen() -> None:
    """At each threshold the limits are those of a share: of 0 in n, 0 and 1 - 0.05^(1/n)."""
    levels = [0.9] * 30 + [0.6] * 14
    table = Rows([EvaluationResult(1, 1, confidence=c) for c in levels]).table
    first, last = Curve.of("m", table, options=BootstrapOptions()).points
    assert (first["coverage"], last["coverage"]) == (30 / 44, 1)
    assert [first["selective_low"], last["selective_low"]] == [0, 0]
    assert first["selective_high"] == pytest.approx(1 - 0.05 ** (1 / 30))
    assert last["selective_high"] == pytest.approx(1 - 0.05 ** (1 / 44))
    assert first["generalized_high"] == pytest.approx(1 - 0.05 ** (1 / 44))


def test_a_baseline_off_the_scale_of_its_panel_is_named_and_does_not_shrink_the_plots() -> None:
    result = result_of(invented_rows(60))
    accuracy = result.metric_scores["accuracy"]
    result.baselines = {
        name: MetricScores({accuracy.name: replace(accuracy, value=value, interval=None)})
        for name, value in (("near", 0.4), ("far", -4.0))
    }
    found = forest({"model": result}, PAGE, ["accuracy"])
    assert "Off the scale: far." in found.reading
    assert {row["run"] for row in found.table} == {"model", "near", "far"}  # the numbers have both
    drawn = found.draw(400).to_dict(validate=False)
    ticks = [rows for rows in drawn["datasets"].values() if '"near"' in str(rows)]
    assert ticks
    assert '"far"' not in str(ticks)

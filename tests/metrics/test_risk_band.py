"""One band: report, paper figure, `selective --plot` and viewer draw the same limits."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.invented_runs import invented_rows, result_of

from krisis.decisions.run_sample import ScoreOptions
from krisis.metrics.base import EvaluationResult, Rows
from krisis.metrics.curve_form import CurvePlan, curve_intervals
from krisis.metrics.risk_band import risk_band
from krisis.pages.charts.curves import Curve, risk_coverage
from krisis.pages.style import Style
from krisis.results.run_items import read_items
from krisis.statistics.bootstrap import BootstrapOptions
from krisis.verbs.decide.working_point import ScoredRun


def test_forty_right_answers_have_a_band_in_every_drawing() -> None:
    """Of 0 errors in 40 patients the upper limit is 1 - 0.05^(1/40), about 7 %."""
    table = Rows([EvaluationResult(1, 1, confidence=0.5 + i / 80) for i in range(40)]).table
    most = 1 - 0.05 ** (1 / 40)
    assert risk_band(table)[-1].selective.high == pytest.approx(most)
    drawn = Curve.of("stated", table, options=BootstrapOptions())
    assert drawn.points[-1]["selective_high"] == pytest.approx(most)
    figure = risk_coverage({"stated": drawn}, Style()).figure(Style())
    assert f"{most:.4f}"[:5] in str(figure.chart.to_dict())


def test_the_band_is_the_same_in_report_selective_and_viewer(tmp_path: Path) -> None:
    path = result_of(invented_rows(120)).save(tmp_path / "run.json")
    run = read_items(path, None)
    band = risk_band(run.table)
    assert len(band) > 2
    drawn = Curve.of("stated", run.table, options=BootstrapOptions())
    limits = [row["selective_high"] for row in drawn.points if row["selective_high"] is not None]
    assert limits == [point.selective.high for point in band]
    assert ScoredRun.of(run, ScoreOptions()).band == band
    text = str(risk_coverage({"stated": drawn}, Style()).figure(Style()).chart.to_dict())
    assert all(str(point.selective.high) in text for point in band)


def test_a_graded_loss_has_the_interval_of_its_risk_and_none_of_width_0() -> None:
    """With 40 right scores nothing was lost, and the risk may still be above 0."""
    rows = [EvaluationResult(i % 4, i % 4, confidence=1 - i / 100) for i in range(40)]
    rows += [EvaluationResult(0, 3, confidence=0.5), EvaluationResult(1, 2, confidence=0.4)]
    table = Rows(rows).table
    band = risk_band(table, loss="abs")
    assert all(point.selective.low <= point.risk < point.selective.high for point in band)
    assert band[10].selective.low == 0
    plan = CurvePlan("abs", (1.0,))
    found = curve_intervals(table, plan, ["risk_at_1.00"], options=BootstrapOptions())
    ends = found["risk_at_1.00"]
    assert (band[-1].selective.low, band[-1].selective.high) == pytest.approx((ends.low, ends.high))
    assert band[10].generalized.high == band[10].selective.high * band[10].coverage


def test_the_level_of_a_band_is_the_one_asked_for() -> None:
    table = Rows([EvaluationResult(1, 1, confidence=0.9) for _ in range(40)]).table
    (point,) = risk_band(table, options=BootstrapOptions(level=0.8))
    assert point.selective.high == pytest.approx(1 - 0.2 ** (1 / 40))
    assert (point.selective.level, point.generalized.level) == (0.8, 0.8)

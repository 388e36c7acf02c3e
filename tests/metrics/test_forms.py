"""A form gives the score under weights of one, and everything else under other weights."""

from __future__ import annotations

import inspect
from collections.abc import Callable

import numpy as np
import pytest
from tests.invented_runs import ANSWERS, invented_rows

from krisis.errors import InvalidValue, UnknownName
from krisis.metrics import (
    BalancedAccuracy,
    BootstrapOptions,
    score_all,
)
from krisis.metrics.base import BaseMetric, EvaluationResult, Rows
from krisis.metrics.curve_form import MOST_ITEMS, CurveFigure, CurvePlan
from krisis.metrics.forms import Form, Mean, Share, Undefined
from krisis.metrics.scoring import check_metrics, metrics_from_names
from krisis.metrics.table import Table, Units

METRICS = metrics_from_names(["default", "selective", "classification"])


def form_of(metric: BaseMetric, table: Table) -> Form:
    form = metric.form(table)
    assert isinstance(form, Form), metric.name
    return form


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.key)
def test_weights_of_one_give_the_score(metric: BaseMetric) -> None:
    table = invented_rows(300).table
    form = form_of(metric, table)
    weighted = form.on(table.patients)
    assert weighted.values(np.ones((table.patients.n, 1)))[0] == pytest.approx(
        form.value(), abs=1e-12
    )


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.key)
def test_counting_a_patient_twice_equals_repeating_the_rows(metric: BaseMetric) -> None:
    table = invented_rows(60).table
    weights = np.ones((table.patients.n, 1))
    weights[3], weights[5] = 2, 0
    times = weights[table.patients.code, 0].astype(int)
    repeated = [row for row, n in zip(table.rows, times, strict=True) for _ in range(n)]
    expected = metric.scored(Rows(repeated, ANSWERS).table)[0].value
    found = form_of(metric, table).on(table.patients).values(weights)[0]
    assert found == pytest.approx(expected, abs=1e-12, nan_ok=True)


@pytest.mark.parametrize("metric", METRICS, ids=lambda metric: metric.key)
def test_influences_are_the_derivatives_by_the_weight_of_a_unit(metric: BaseMetric) -> None:
    table = Rows((row for row in invented_rows(80) if not row.abstained), ANSWERS).table
    form = metric.comparison_form(table)
    assert isinstance(form, Form)
    weighted = form.on(table.patients)
    n_units = table.patients.n
    weights = np.ones((n_units, 1))
    weights[1], weights[4] = 3, 0
    influences = weighted.influences(weights)
    if influences is None:
        assert metric.key == "risk_at_80_coverage"
        return
    step = 1e-6
    for unit in range(n_units):
        above, below = weights.copy(), weights.copy()
        above[unit] += step
        below[unit] -= step
        slope = (weighted.values(above) - weighted.values(below))[0] / (2 * step)
        assert influences[unit, 0] == pytest.approx(weights[unit, 0] * slope, abs=1e-6), unit


def test_influences_on_a_curve_start_flat_where_the_surest_answers_have_no_weight() -> None:
    rows = [
        EvaluationResult(int(right), 1, confidence=c, record_id=f"r{i}")
        for i, (right, c) in enumerate([(1, 0.9), (0, 0.8), (1, 0.7), (0, 0.6), (1, 0.5)])
    ]
    table = Rows(rows).table
    weights = np.array([[0.0], [1.0], [2.0], [1.0], [1.0]])
    for name in ("aurc_normalized", "augrc_normalized"):
        weighted = CurveFigure(name, table, CurvePlan()).on(table.patients)
        influences = weighted.influences(weights)
        assert influences is not None
        for unit in range(1, 5):
            above, below = weights.copy(), weights.copy()
            above[unit] += 1e-6
            below[unit] -= 1e-6
            slope = (weighted.values(above) - weighted.values(below))[0] / 2e-6
            assert influences[unit, 0] == pytest.approx(weights[unit, 0] * slope, abs=1e-7)


def test_groups_are_weights_of_zero_and_one() -> None:
    table = invented_rows(200).table
    form = Share(table.correct, among=table.answered)
    names, codes = table.grouped("stage")
    for code, name in enumerate(names):
        inside = codes == code
        rows = table.answered & inside
        expected = table.correct[rows].mean()
        assert form.by_group(codes, len(names))[code] == pytest.approx(expected), name
        slow = Form.by_group(form, codes, len(names))[code]
        assert slow == pytest.approx(expected)


def test_balanced_accuracy_of_one_class_is_undefined_under_any_weights() -> None:
    rows = [
        EvaluationResult(1, truth, record_id=f"r{truth}{i}") for truth in (0, 1) for i in (0, 1)
    ]
    table = Rows(rows).table
    weights = np.array([[1.0, 1, 0, 0], [0, 0, 1, 2], [1, 1, 1, 1]]).T
    values = form_of(BalancedAccuracy(), table).on(table.patients).values(weights)
    assert values.tolist() == pytest.approx([np.nan, np.nan, 0.5], nan_ok=True)


def test_every_area_has_its_own_sensitivity() -> None:
    """One wrong answer in place of a right one at place u moves AURC by −ln u, AUGRC by 1 − u.

    Their means over u are 1 and ½; up to the coverage ½ they are ½ and ⅛, as only u < ½ counts.
    """
    rows = [EvaluationResult(1, 1, confidence=i / 2000, record_id=str(i)) for i in range(2000)]
    table = Rows(rows).table
    plan = CurvePlan("error", (0.8,), (0.5,))
    names = ("aurc", "augrc", "aurc_until_0.5", "augrc_until_0.5")
    slopes = [CurveFigure(name, table, plan).slope for name in names]
    assert slopes == pytest.approx([1.0, 0.5, 0.5, 0.125], rel=0.05)
    assert CurveFigure("cmax", table, plan).slope == 0.0


def test_a_mean_by_hand_and_by_unit() -> None:
    form = Mean(np.array([1.0, 2.0, 9.0, 4.0]), among=np.array([True, True, False, True]))
    assert form.value() == pytest.approx(7 / 3)
    assert form.n_evaluated == 3
    weighted = form.on(Units(np.array([0, 0, 1, 1]), 2))
    assert weighted.values(np.array([[1.0, 0.0], [0.0, 1.0]])).tolist() == [1.5, 4.0]


def scripted(value: Callable[[list[EvaluationResult]], float]) -> BaseMetric:
    from krisis.metrics.base import MetricScore

    class Scripted(BaseMetric):
        name, direction = "Scripted", "higher"

        def compute(self, results: list[EvaluationResult]) -> MetricScore:  # type: ignore[override]
            return MetricScore(self.name, value(list(results)), n_evaluated=len(results))

    return Scripted()


def test_a_metric_computed_from_rows_has_the_weights_of_a_form() -> None:
    table = invented_rows(40).table
    metric = scripted(lambda rows: sum(row.prediction == 1 for row in rows) / len(rows))
    weighted = form_of(metric, table).on(table.patients)
    share = Share(np.array([row.prediction == 1 for row in table.rows]), among=table.everyone)
    weights = np.random.default_rng(0).integers(0, 3, (table.patients.n, 5)).astype(float)
    assert weighted.values(weights) == pytest.approx(share.on(table.patients).values(weights))


def test_a_metric_computed_from_rows_may_be_undefined() -> None:
    score = score_all([scripted(lambda rows: float("nan"))], invented_rows(20))["Scripted"]
    assert np.isnan(score.value)
    form = scripted(lambda rows: float("nan")).form(invented_rows(20).table)
    assert isinstance(form, Undefined)
    assert form.reason == "the metric gave no reason"


def test_a_metric_without_form_and_compute_says_what_it_lacks() -> None:
    class Empty(BaseMetric):
        name, direction = "Empty", "higher"

    with pytest.raises(TypeError, match=r"abstract class Empty .*compute"):
        Empty()
    assert inspect.isabstract(BaseMetric)


def test_one_metric_twice_is_refused() -> None:
    with pytest.raises(InvalidValue, match="'Balanced Accuracy' appears twice"):
        check_metrics([BalancedAccuracy(), BalancedAccuracy()])


def test_very_many_confidences_are_grouped_without_moving_the_figure() -> None:
    generator = np.random.default_rng(4)
    confidence = generator.random(MOST_ITEMS + 1000)
    right = generator.random(confidence.size) < confidence
    table = Rows(
        EvaluationResult(
            int(hit), 1, False, float(stated), record_id=f"{i}", cluster_id=f"{i % 50}"
        )
        for i, (hit, stated) in enumerate(zip(right, confidence, strict=True))
    ).table
    form = CurveFigure("aurc", table, CurvePlan())
    weighted = form.on(table.patients)
    weights = np.ones((50, 2))
    weights[:5, 1] = 0
    whole, part = weighted.values(weights)
    assert whole == pytest.approx(form.value(), abs=1e-12)
    kept = [row for row, code in zip(table.rows, table.patients.code, strict=True) if code >= 5]
    exact = CurveFigure("aurc", Rows(kept).table, CurvePlan()).value()
    assert part == pytest.approx(exact, abs=1e-4)


def test_a_figure_that_the_curve_does_not_have_is_refused() -> None:
    with pytest.raises(UnknownName, match="aurk"):
        CurvePlan().value("aurk", invented_rows(20).table)


def test_a_mean_of_equal_values_without_a_range_has_no_interval() -> None:
    rows = Rows(EvaluationResult(1, 1, record_id=f"{i}") for i in range(4))
    form = Mean(np.ones(4), among=rows.table.everyone)
    interval = form.uncertainty(rows.table, BootstrapOptions()).interval
    assert (interval.defined, interval.reason) == (False, "every_resample_gives_the_same_value")
    alone = Rows([EvaluationResult(1, 1, record_id="0")]).table
    interval = (
        Mean(np.ones(1), among=alone.everyone).uncertainty(alone, BootstrapOptions()).interval
    )
    assert interval.reason == "needs_at_least_two_clusters"
    bounded = Mean(np.ones(4), among=rows.table.everyone, low=0.0, high=2.0)
    assert bounded.uncertainty(rows.table, BootstrapOptions()).interval.defined
    bounded = Mean(np.ones(1), among=alone.everyone, low=0.0, high=2.0)
    interval = bounded.uncertainty(alone, BootstrapOptions()).interval
    assert (interval.low, interval.high, interval.method) == (0.0, 2.0, "whole_range")

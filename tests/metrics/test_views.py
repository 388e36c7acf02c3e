"""What is asked of a table beside its metrics: other confidences, risks out of reach, points."""

from __future__ import annotations

import math

import numpy as np
import pytest

from krisis import registry
from krisis.metrics import BrierScore, EvaluationResult, MetricScore
from krisis.metrics.base import Rows
from krisis.metrics.curve_form import CurvePlan, risk_key
from krisis.metrics.items import RunItems, Source
from krisis.metrics.risk_coverage import spread_evenly
from krisis.metrics.scoring import metric_of

ROWS = [
    EvaluationResult(1, 1, confidence=0.9, record_id="a"),
    EvaluationResult(None, 1, True, record_id="b"),
    EvaluationResult(None, 0, error="no JSON", failure_class="malformed_reply", record_id="c"),
]


def test_a_reply_without_an_answer_is_counted_apart_from_an_abstention() -> None:
    table = Rows(ROWS).table
    assert (table.n_answered, table.n_abstained, table.n_no_answer) == (1, 1, 1)


def test_another_confidence_leaves_the_table_it_came_from_as_it_is() -> None:
    items = RunItems(Rows(ROWS).table, Source("a run"))
    assert items.table.usable.sum() == 1
    changed = items.with_confidence(np.array([0.25]))
    assert changed.confidence[changed.answered].tolist() == [0.25]
    assert np.isnan(changed.confidence[~changed.answered]).all()
    assert items.table.confidence[items.table.answered].tolist() == [0.9]


def test_the_risk_at_a_coverage_that_was_not_reached_is_undefined() -> None:
    plan, table = CurvePlan(coverages=(0.8, 0.2)), Rows(ROWS).table
    assert math.isnan(plan.value(risk_key(0.8), table))
    assert plan.value(risk_key(0.2), table) == 0.0


def test_points_are_spread_from_the_first_to_the_last() -> None:
    assert spread_evenly(9, 3).tolist() == [0, 4, 8]
    assert spread_evenly(2, 3).tolist() == [0, 1]


def test_a_class_with_another_key_is_not_the_metric_of_a_score(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    score = MetricScore("Accuracy", 0.5)
    found = metric_of(score)
    assert found is not None
    assert found.key == "accuracy"
    monkeypatch.setattr(registry, "find", lambda kind, name: BrierScore)
    assert metric_of(score) is None

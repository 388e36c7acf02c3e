"""AURC, AUGRC and risk at 80 % coverage as metrics of a run."""

from __future__ import annotations

import math

import numpy as np
import pytest

from krisis import registry
from krisis.errors import UserError
from krisis.metrics import (
    AUGRC,
    AURC,
    BootstrapOptions,
    EvaluationResult,
    RiskAtCoverage,
    curve_form,
    score_all,
)
from krisis.metrics.base import Rows
from krisis.metrics.scoring import metrics_from_names
from krisis.metrics.selective_prediction import risk_coverage_curve
from krisis.metrics.table import Answers

ALL = (AURC(), AUGRC(), RiskAtCoverage())


def make_rows(n, *, seed=0, levels=20, abstain=0.2):
    rng = np.random.default_rng(seed)
    return [
        EvaluationResult(
            int(rng.random() < 0.5),
            int(rng.random() < 0.5),
            bool(rng.random() < abstain),
            float(rng.integers(0, levels) / levels),
            cluster_id=f"p{i // 2}",
        )
        for i in range(n)
    ]


def test_a_row_curve_is_the_curve_of_its_errors():
    rows = make_rows(200)
    answered = [row for row in rows if not row.abstained]
    losses = [float(row.prediction != row.ground_truth) for row in answered]
    curve = risk_coverage_curve(losses, [row.confidence for row in answered], len(rows))
    assert AURC()(rows).value == pytest.approx(curve.aurc(), abs=1e-14)
    assert AUGRC()(rows).value == pytest.approx(curve.augrc(), abs=1e-14)
    assert AURC()(rows).details["cmax"] == curve.cmax
    assert AURC()(rows).n_evaluated == len(answered)


def test_the_order_in_which_a_task_lists_its_answers_is_no_scale_unless_it_says_so():
    names = ("viral", "bacterial", "fungal")
    rows = [EvaluationResult("viral", "fungal", confidence=0.9)]
    listed, ordered = (Answers(allowed=names, ordered=ordered) for ordered in (False, True))
    score = AURC(loss="abs").compute(Rows(rows, listed))
    assert math.isnan(score.value)
    assert score.details["reason"] == "labels_have_no_order"
    assert AURC(loss="abs").compute(Rows(rows, ordered)).value == 2.0
    assert AURC(loss="abs_norm").compute(Rows(rows, ordered)).value == 1.0


def test_failed_rows_are_not_in_the_curve():
    rows = make_rows(50)
    failed = [EvaluationResult(None, 1, error="timeout")] * 9
    for metric in ALL:
        assert metric(rows + failed).value == pytest.approx(metric(rows).value, nan_ok=True)


def test_all_abstained_all_failed_and_no_rows_are_undefined_with_a_reason():
    silent = [EvaluationResult(None, 1, abstained=True)] * 4
    failed = [EvaluationResult(None, 1, error="timeout")] * 4
    for metric in ALL:
        for rows, reason in (
            (silent, "no_non_abstained_predictions"),
            (failed, "no_scored_rows"),
            ([], "no_scored_rows"),
        ):
            score = metric.compute(rows)
            assert math.isnan(score.value)
            assert score.details["reason"] == reason


def test_an_answer_without_confidence_leaves_the_area_undefined():
    rows = [*make_rows(10, abstain=0), EvaluationResult(1, 1)]
    score = AURC()(rows)
    assert score.details["reason"] == "answered_rows_without_confidence"
    assert score.details["n_without_confidence"] == 1


def test_an_abstention_may_carry_any_confidence():
    rows = make_rows(20, abstain=0)
    for confidence in (None, 0.0, 1.0):
        silent = EvaluationResult(None, 1, abstained=True, confidence=confidence)
        assert AURC()([*rows, silent]).value == pytest.approx(AURC()(rows).value * 20 / 21)


def test_risk_at_a_coverage_that_is_never_reached_says_so():
    rows = make_rows(100, abstain=0.5)
    assert RiskAtCoverage()(rows).details["reason"] == "coverage_is_never_reached"


def test_ordinal_loss_counts_the_stages_between():
    rows = [EvaluationResult(5, 1, confidence=0.9), EvaluationResult(2, 2, confidence=0.1)]
    assert AUGRC(loss="abs")(rows).value == pytest.approx(4 * AUGRC()(rows).value)
    words = [EvaluationResult("stable", "rapid", confidence=0.9)]
    ordered = Rows(words, Answers(("stable", "slow", "rapid"), ordered=True, default_loss="abs"))
    assert AURC()(ordered).value == 2
    assert AURC(loss="abs_norm")(ordered).value == 1
    assert AURC(loss="abs")(words).details["reason"] == "labels_have_no_order"
    with pytest.raises(UserError, match="unknown loss 'squared'"):
        AURC(loss="squared")  # type: ignore[arg-type]


def test_they_are_in_the_registry_alone_and_together():
    keys = ["aurc", "augrc", "risk_at_80_coverage"]
    assert [registry.find("metrics", key)().key for key in keys] == keys
    assert [metric.key for metric in metrics_from_names(["selective"])] == keys


def test_grouped_confidences_give_nearly_the_interval_of_all(monkeypatch):
    rng = np.random.default_rng(4)
    rows = []
    for i in range(3000):
        c = float(rng.random())
        rows.append(
            EvaluationResult(1, int(rng.random() < c), confidence=c, cluster_id=f"p{i // 3}")
        )
    options = BootstrapOptions(n_resamples=2000)
    exact = score_all(ALL, rows, intervals=options)
    monkeypatch.setattr(curve_form, "MOST_ITEMS", 100)
    grouped = score_all(ALL, rows, intervals=options)
    for name in ("AURC", "AUGRC", "Risk at 80 % coverage"):
        one, other = exact[name], grouped[name]
        width = one.interval.high - one.interval.low
        assert other.value == one.value
        assert other.interval.low == pytest.approx(one.interval.low, abs=0.05 * width)
        assert other.interval.high == pytest.approx(one.interval.high, abs=0.05 * width)


def test_risk_at_another_coverage_has_an_interval_of_its_own():
    class RiskAtHalf(RiskAtCoverage):
        name = "Risk at 50 % coverage"
        coverage = 0.5

    rng = np.random.default_rng(0)
    rows = [
        EvaluationResult(int(rng.random() < c), 1, confidence=c, record_id=str(i))
        for i, c in enumerate(rng.random(60).tolist())
    ]
    scores = score_all([RiskAtCoverage(), RiskAtHalf()], rows, intervals=BootstrapOptions(200))
    half = scores["Risk at 50 % coverage"]
    assert half.interval.low <= half.value <= half.interval.high
    assert half.interval != scores["Risk at 80 % coverage"].interval

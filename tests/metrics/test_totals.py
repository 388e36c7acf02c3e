"""Totals, bands and screening by hand, with scikit-learn as oracle."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.metrics import f1_score, precision_score, recall_score, roc_auc_score

from krisis.errors import UserError
from krisis.metrics import (
    BootstrapOptions,
    EvaluationResult,
    ScreeningSensitivity,
    ScreeningSpecificity,
    TotalBias,
    TotalCorrelation,
    TotalMAE,
    score_all,
)
from krisis.metrics.base import Rows
from krisis.metrics.paired import Exchanges, paired_differences
from krisis.metrics.scoring import metric_from_name
from krisis.metrics.table import Answers
from krisis.metrics.totals import totals_of, totals_report
from krisis.task_facts import TotalScale

PHQ8 = TotalScale(8, 2, 10, (5, 10, 15, 20))
TASK = Answers((0, 1, 2, 3), ordered=True, groups={"item": "item"}, total=PHQ8)
METRICS = (TotalMAE, TotalBias, TotalCorrelation, ScreeningSensitivity, ScreeningSpecificity)
NONE = None


def rows_of(truth, prediction, *, task=TASK, repeats=1):
    return Rows(
        [
            EvaluationResult(
                answer,
                true,
                answer is None,
                record_id=f"P{person}-{item}",
                cluster_id=f"P{person}",
                metadata={"item": f"i{item}", "sample_index": repeat},
            )
            for repeat in range(repeats)
            for person, (trues, answers) in enumerate(zip(truth, prediction, strict=True))
            for item, (true, answer) in enumerate(zip(trues, answers, strict=True))
        ],
        task,
    )


def totals(truth, prediction, missing="prorate", max_missing=None):
    return totals_of(rows_of(truth, prediction).table, missing, max_missing)


def test_a_total_is_prorated_with_two_missing_items_and_not_with_three():
    answers = [[2] * 6 + [NONE] * 2, [2] * 5 + [NONE] * 3, [1] * 7 + [NONE], [NONE] * 8]
    found = totals([[2] * 8] * 4, answers)
    assert found.total.tolist()[::2] == [16.0, 8.0]
    assert np.isnan(found.total).tolist() == [False, True, False, True]
    assert found.truth.tolist() == [16.0] * 4
    assert found.decision.tolist() == [1, -1, 0, -1]
    generous = totals([[2] * 8] * 4, answers, max_missing=8)
    assert generous.total[:3].tolist() == [16.0, 16.0, 8.0]
    assert math.isnan(generous.total[3])


def test_with_missing_items_as_zero_a_total_is_the_plain_sum_and_needs_half_of_them():
    found = totals([[2] * 8] * 2, [[2] * 4 + [NONE] * 4, [3] * 3 + [NONE] * 5], "zero")
    assert found.total[0] == 8.0
    assert math.isnan(found.total[1])


@pytest.mark.parametrize(
    ("prediction", "decision"),
    [
        ([3, 3, 3, 1] + [NONE] * 4, 1),
        ([3, 3, 3, 0] + [NONE] * 4, -1),
        ([0] * 5 + [NONE] * 3, 0),
        ([0] * 4 + [NONE] * 4, -1),
        ([1] * 8, 0),
        ([2] * 5 + [0] * 3, 1),
    ],
)
def test_as_zero_screening_decides_only_what_the_missing_items_cannot_change(prediction, decision):
    assert totals([[1] * 8], [prediction], "zero").decision[0] == decision


def test_every_figure_by_hand():
    """Totals 16, 4 and none against 12, 8 and 24; the cut-off is 10."""
    truth = [[3] * 4 + [0] * 4, [1] * 8, [3] * 8]
    prediction = [[2] * 8, [0] * 4 + [1] * 4, [3] * 5 + [NONE] * 3]
    scores = score_all([kind() for kind in METRICS], rows_of(truth, prediction))
    assert scores["total_bias"].value == 0.0
    assert scores["total_mae"].value == 4.0
    assert scores["total_correlation"].details["reason"] == "needs_at_least_10_totals"
    sensitivity, specificity = scores["screening_sensitivity"], scores["screening_specificity"]
    assert (sensitivity.value, sensitivity.n_evaluated) == (1.0, 1)
    assert sensitivity.details["end_to_end"] == 0.5
    assert sensitivity.details["note"] == "2 of 3 truly reach 10, 1 decided, 1 rightly"
    assert (specificity.value, specificity.n_evaluated) == (1.0, 1)
    details = scores["total_mae"].details
    assert (details["n_totals_due"], details["n_totals"], details["n_positive"]) == (3, 2, 2)
    assert details["n_positive_with_total"] == 1
    assert details["note"] == "2 of 3 have a total; 2 of 3 truly reach 10"
    assert scores["total_mae"].n_evaluated == 2


def test_prorating_takes_the_bias_away_that_missing_items_as_zero_make():
    """A perfect reader who leaves out two items of everybody: 12 of 16 points."""
    rows = rows_of([[2] * 8] * 3, [[2] * 6 + [NONE] * 2] * 3)
    assert TotalBias()(rows).value == 0.0
    assert TotalBias(missing="zero")(rows).value == -4.0
    assert metric_from_name("total_bias[missing=zero]")(rows).value == -4.0


@pytest.mark.parametrize(
    ("truth", "prediction", "reasons"),
    [
        ([[0] * 8], [[0] * 8], {"screening_sensitivity": "no_true_total_reaches_the_cut_off"}),
        ([[3] * 8], [[3] * 8], {"screening_specificity": "every_true_total_reaches_the_cut_off"}),
        (
            [[3] * 8],
            [[NONE] * 8],
            {
                "total_mae": "no_patient_with_enough_answers",
                "screening_sensitivity": "nobody_on_this_side_is_decided",
            },
        ),
        ([[1] * 8] * 10, [[1] * 8] * 10, {"total_correlation": "all_totals_are_equal"}),
        ([[1] * 7], [[1] * 7], {"total_bias": "no_patient_with_all_items"}),
    ],
)
def test_what_is_undefined_says_why(truth, prediction, reasons):
    scores = score_all([kind() for kind in METRICS], rows_of(truth, prediction))
    for key, reason in reasons.items():
        assert math.isnan(scores[key].value)
        assert scores[key].details["reason"] == reason


def test_other_tasks_have_no_total():
    without = Answers((0, 1, 2, 3), ordered=True)
    words = Answers(("low", "high"), total=PHQ8)
    rows = [[1] * 8], [[1] * 8]
    assert TotalMAE()(rows_of(*rows, task=without)).details["reason"] == "task_has_no_total"
    assert totals_report(rows_of(*rows, task=without).table) is None
    lows = [["low"] * 8]
    assert TotalMAE()(rows_of(lows, lows, task=words)).details["reason"] == "labels_have_no_order"


def test_a_rule_for_missing_items_is_refused_by_name():
    with pytest.raises(UserError, match="unknown rule for missing items 'mean'"):
        TotalMAE(missing="mean")
    with pytest.raises(UserError, match="max_missing must be a whole number of 0 or more, not -1"):
        TotalMAE(max_missing=-1)
    with pytest.raises(UserError, match="not True"):
        TotalMAE(max_missing=True)


def test_a_participant_with_a_failed_item_is_counted_and_has_no_total():
    truth = [[1] * 8, [3] * 8, [2] * 8]
    rows = rows_of(truth, [[1] * 8, [2] * 8, [2] * 8])
    rows[9].error = "timeout: no answer"
    rows = Rows(rows, TASK)
    score = TotalMAE()(rows)
    assert (score.value, score.n_evaluated, score.details["n_incomplete"]) == (0.0, 2, 1)
    assert score.details["note"].endswith("; 1 more lack an item")
    report = totals_report(rows.table, BootstrapOptions(200))
    assert report["n_incomplete"] == 1
    assert report["intervals"]["total_mae"][0] == 0.0
    assert report["intervals"]["total_correlation"] is None
    assert report["notes"]["total_mae"].endswith("; 1 more lack an item")


def test_the_order_of_the_rows_does_not_matter_and_repeats_are_totals_of_their_own():
    rng = np.random.default_rng(5)
    truth, prediction = rng.integers(0, 4, (12, 8)).tolist(), rng.integers(0, 4, (12, 8)).tolist()
    rows = rows_of(truth, prediction, repeats=2)
    mixed = Rows([rows[i] for i in rng.permutation(len(rows))], TASK)
    for kind in METRICS:
        once, twice, shuffled = (
            kind()(given) for given in (rows_of(truth, prediction), rows, mixed)
        )
        assert twice.value == pytest.approx(once.value)
        assert shuffled.value == pytest.approx(once.value)
        assert twice.n_evaluated == 2 * once.n_evaluated


def random_people(n, seed, missing=0.1):
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, 4, (n, 8))
    near = np.clip(truth + rng.integers(-1, 2, truth.shape), 0, 3)
    hidden = rng.random(truth.shape) < missing
    answers = [
        [None if gone else int(x) for x, gone in zip(*both, strict=True)]
        for both in zip(near, hidden, strict=True)
    ]
    return truth.tolist(), answers


@pytest.mark.parametrize("rule", ["prorate", "zero"])
def test_figures_agree_with_scikit_learn(rule):
    people = random_people(60, 3)
    found = totals(*people, rule)
    whole = totals_report(rows_of(*people).table)
    report = whole if rule == "prorate" else whole["missing_as_zero"]
    decided, actual, called = found.decision >= 0, found.truth >= 10, found.decision == 1
    screening = report["screening"]
    assert screening["n_evaluated"] == decided.sum()
    for name, function in (
        ("precision", precision_score),
        ("recall", recall_score),
        ("f1", f1_score),
    ):
        expected = function(actual[decided], called[decided])
        assert screening[name] == pytest.approx(expected), name
    assert screening["specificity"] == pytest.approx(
        recall_score(~actual[decided], ~called[decided])
    )
    assert screening["accuracy"] == pytest.approx((actual == called)[decided].mean())
    kept = found.usable
    assert screening["auroc"] == pytest.approx(roc_auc_score(actual[kept], found.total[kept]))
    error = found.total[kept] - found.truth[kept]
    expected = {
        "bias": error.mean(),
        "mae": np.abs(error).mean(),
        "rmse": np.sqrt((error**2).mean()),
        "pearson": np.corrcoef(found.total[kept], found.truth[kept])[0, 1],
        "coverage": kept.mean(),
    }
    for name, value in expected.items():
        assert report["total"][name] == pytest.approx(value), name
    keys = {
        "total_bias": report["total"]["bias"],
        "total_mae": report["total"]["mae"],
        "total_correlation": report["total"]["pearson"],
        "screening_sensitivity": screening["recall"],
        "screening_specificity": screening["specificity"],
    }
    for kind in METRICS:  # the metrics and the report are the same figures
        assert kind(missing=rule)(rows_of(*people)).value == pytest.approx(keys[kind.key])


@pytest.mark.parametrize(
    ("total", "band"),
    [(0, 0), (4, 0), (5, 1), (9, 1), (10, 2), (14, 2), (15, 3), (19, 3), (20, 4), (24, 4)],
)
def test_every_edge_of_a_band(total, band):
    """The answers give the lowest total of the band, and only there the bands are the same."""
    starts = [0, 5, 10, 15, 20]

    def items(score):
        return [min(3, max(0, score - 3 * place)) for place in range(8)]

    for place, start in enumerate(starts):
        report = totals_report(rows_of([items(total)], [items(start)]).table)
        assert report["total"]["band_accuracy"] == (place == band)


def test_screening_without_a_positive_is_not_accurate_but_undefined():
    report = totals_report(rows_of([[0] * 8] * 17, [[0] * 8] * 17).table)
    screening = report["screening"]
    assert (screening["n_positive"], screening["n_evaluated"]) == (0, 17)
    assert math.isnan(screening["accuracy"])
    assert screening["reason"] == "no_positive_patient_is_decided"
    assert screening["specificity"] == 1.0
    assert report["reasons"]["screening_sensitivity"] == "no_true_total_reaches_the_cut_off"


def test_nothing_predicted_is_undefined_with_a_reason():
    report = totals_report(rows_of([[1] * 8], [[NONE] * 8]).table)
    assert math.isnan(report["total"]["mae"])
    assert report["total"]["reason"] == "no_patient_with_enough_answers"
    assert report["screening"]["reason"] == "no_patient_is_decided"
    assert math.isnan(report["screening"]["accuracy"])
    assert math.isnan(report["screening"]["auroc"])


def test_every_figure_has_an_interval_by_participant():
    rows = rows_of(*random_people(40, 8))
    scores = score_all([kind() for kind in METRICS], rows, intervals=BootstrapOptions(500))
    for score in scores.values():
        assert score.interval.low < score.value < score.interval.high, score.key
    twice = score_all(
        [kind() for kind in METRICS],
        rows_of(*random_people(40, 8), repeats=2),
        intervals=BootstrapOptions(500),
    )
    for key, score in scores.items():  # a second asking of the same people is no second person
        width, again = (one.interval.high - one.interval.low for one in (score, twice[key]))
        assert again > 0.75 * width, key


def test_a_perfect_reader_has_intervals_that_allow_for_errors_not_seen():
    truth, _ = random_people(40, 8)
    scores = score_all(
        [kind() for kind in METRICS], rows_of(truth, truth), intervals=BootstrapOptions(500)
    )
    for score in scores.values():
        assert score.interval.high - score.interval.low > 0.01, score.key
        assert score.interval.low <= score.value <= score.interval.high


def test_two_runs_are_compared_by_the_totals_of_the_same_people():
    truth, answers = random_people(40, 11, missing=0)
    left, right = rows_of(truth, truth), rows_of(truth, answers)
    found, _ = paired_differences(
        left.table,
        right.table,
        {kind.key: kind().form for kind in METRICS},
        exchanges=Exchanges(n=199),
    )
    for kind in METRICS:
        expected = kind()(right).value - kind()(left).value
        assert found[kind.key].delta == pytest.approx(expected)
    assert found["total_mae"].p_value < 0.02
    assert found["total_mae"].interval.low > 0


def test_the_interval_of_one_patient_is_the_whole_scale():
    rows = rows_of([[1] * 8], [[2] * 8])
    (score,) = score_all([TotalBias()], rows, intervals=BootstrapOptions(99)).values()
    assert (score.interval.low, score.interval.high) == (-24.0, 24.0)
    assert score.interval.method == "whole_range"

"""PHQ-8 totals, bands and screening by hand, with scikit-learn as oracle."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from sklearn.metrics import f1_score, precision_score, recall_score, roc_auc_score

from krisis.errors import UserError
from krisis.metrics.items import ItemTable, Source
from krisis.metrics.phq8_totals import band_of, is_phq8, phq8_report, totals_of, totals_report


def table_of(truth, prediction):
    truth, prediction = np.array(truth, dtype=float), np.array(prediction, dtype=float)
    n, width = truth.shape
    return ItemTable(
        participants=list(range(n)),
        participant=np.repeat(np.arange(n), width),
        item_names=["x"] * truth.size,
        truth=truth.ravel(),
        prediction=prediction.ravel(),
        signals=[{}] * truth.size,
        scale=3.0,
        source=Source("run.json"),
    )


NAN = math.nan


def test_totals_and_their_bounds_by_hand():
    totals = totals_of(table_of([[1] * 8, [3] * 8], [[2] * 4 + [NAN] * 4, [3] * 3 + [NAN] * 5]))
    assert totals.truth.tolist() == [8.0, 24.0]
    assert totals.lowest.tolist() == [8.0, 9.0]
    assert totals.highest.tolist() == [20.0, 24.0]
    assert totals.usable.tolist() == [True, False]
    assert totals.decision.tolist() == [-1, -1]


@pytest.mark.parametrize(
    ("total", "band"),
    [(0, 0), (4, 0), (5, 1), (9, 1), (10, 2), (14, 2), (15, 3), (19, 3), (20, 4), (24, 4)],
)
def test_every_edge_of_a_band(total, band):
    assert band_of(np.array([float(total)]))[0] == band


@pytest.mark.parametrize(
    ("prediction", "decision"),
    [
        ([3, 3, 3, 1] + [NAN] * 4, 1),
        ([3, 3, 3, 0] + [NAN] * 4, -1),
        ([0] * 5 + [NAN] * 3, 0),
        ([0] * 4 + [NAN] * 4, -1),
        ([1] * 8, 0),
        ([2] * 5 + [0] * 3, 1),
    ],
)
def test_screening_decides_only_what_the_missing_items_cannot_change(prediction, decision):
    assert totals_of(table_of([[1] * 8], [prediction])).decision[0] == decision


def test_figures_agree_with_scikit_learn():
    rng = np.random.default_rng(3)
    truth = rng.integers(0, 4, (60, 8))
    prediction = np.clip(truth + rng.integers(-1, 2, truth.shape), 0, 3).astype(float)
    prediction[rng.random(truth.shape) < 0.1] = NAN
    table = table_of(truth, prediction)
    totals, report = totals_of(table), totals_report(table)
    decided = totals.decision >= 0
    actual, called = totals.truth >= 10, totals.decision == 1
    screening = report["screening"]
    assert screening["n_evaluated"] == decided.sum()
    assert screening["coverage"] == pytest.approx(decided.mean())
    for name, function in (
        ("precision", precision_score),
        ("recall", recall_score),
        ("f1", f1_score),
    ):
        expected = function(actual[decided], called[decided])
        assert screening[name] == pytest.approx(expected), name
    assert screening["accuracy"] == pytest.approx((actual == called)[decided].mean())
    kept = totals.usable
    assert screening["auroc"] == pytest.approx(roc_auc_score(actual[kept], totals.total[kept]))
    error = totals.total[kept] - totals.truth[kept]
    assert report["total"]["mae"] == pytest.approx(np.abs(error).mean())
    assert report["total"]["rmse"] == pytest.approx(np.sqrt((error**2).mean()))
    correlation = np.corrcoef(totals.total[kept], totals.truth[kept])[0, 1]
    assert report["total"]["pearson"] == pytest.approx(correlation)


def test_nothing_predicted_is_undefined_with_a_reason():
    report = totals_report(table_of([[1] * 8], [[NAN] * 8]))
    assert math.isnan(report["total"]["mae"])
    assert report["total"]["reason"] == "no_participant_with_enough_predicted_items"
    assert math.isnan(report["screening"]["accuracy"])
    assert report["screening"]["reason"] == "no_participant_is_decided"


def test_other_questionnaires_have_no_phq8_total():
    short = table_of([[1] * 5], [[1] * 5])
    assert not is_phq8(short)
    with pytest.raises(UserError, match="eight PHQ-8 items"):
        totals_of(short)
    with pytest.raises(UserError, match="min_coverage must lie between 0 and 1, not 2"):
        totals_of(table_of([[1] * 8], [[1] * 8]), min_coverage=2)


def test_a_participant_with_a_failed_item_is_counted_and_has_no_total():
    table = table_of([[1] * 8, [3] * 8, [2] * 8], [[1] * 8, [2] * 8, [2] * 8])
    keep = np.arange(24) != 9
    lacking = replace(
        table,
        participant=table.participant[keep],
        item_names=["x"] * 23,
        truth=table.truth[keep],
        prediction=table.prediction[keep],
        signals=[{}] * 23,
    )
    report = phq8_report(lacking)
    assert report["n_incomplete"] == 1
    assert report["total"]["n_participants"] == 2
    assert report["total"]["mae"] == 0.0
    assert phq8_report(table)["n_incomplete"] == 0


def test_other_questions_have_no_totals():
    nine = table_of([[1] * 9], [[1] * 9])
    assert phq8_report(nine) is None
    stages = replace(table_of([[1] * 8], [[1] * 8]), item_names=[""] * 8)
    assert phq8_report(stages) is None
    assert phq8_report(table_of([[1] * 5], [[1] * 5])) is None

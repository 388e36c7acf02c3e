"""PHQ-8 totals, bands and screening by hand, with scikit-learn as oracle."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.metrics import f1_score, precision_score, recall_score, roc_auc_score

from krisis.data.ckd.suite import CKDSuite
from krisis.data.phq8.items import ITEM_KEYS
from krisis.data.phq8.suite import PHQ8Suite
from krisis.data.phq8.totals import band_of, totals_of, totals_report
from krisis.errors import UserError


def columns_of(truth, prediction):
    truth, prediction = np.array(truth, dtype=float), np.array(prediction, dtype=float)
    n, width = truth.shape
    return np.repeat(np.arange(n), width), truth.ravel(), prediction.ravel()


def totals(truth, prediction, **options):
    return totals_of(*columns_of(truth, prediction), **options)


def report_of(truth, prediction, names=None):
    cluster, truth, prediction = columns_of(truth, prediction)
    return totals_report(cluster, names or ["x"] * truth.size, truth, prediction)


NAN = math.nan


def test_totals_and_their_bounds_by_hand():
    found = totals([[1] * 8, [3] * 8], [[2] * 4 + [NAN] * 4, [3] * 3 + [NAN] * 5])
    assert found.truth.tolist() == [8.0, 24.0]
    assert found.total.tolist() == [8.0, 9.0]
    assert found.highest.tolist() == [20.0, 24.0]
    assert found.usable.tolist() == [True, False]
    assert found.decision.tolist() == [-1, -1]


def test_a_coverage_between_two_numbers_of_items_asks_for_the_larger():
    """.55 · 8 = 4.4 items, so that four are too few."""
    truth, prediction = [[1] * 8, [1] * 8], [[1] * 4 + [NAN] * 4, [1] * 5 + [NAN] * 3]
    assert totals(truth, prediction, min_coverage=0.55).usable.tolist() == [False, True]


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
    assert totals([[1] * 8], [prediction]).decision[0] == decision


def test_figures_agree_with_scikit_learn():
    rng = np.random.default_rng(3)
    truth = rng.integers(0, 4, (60, 8))
    prediction = np.clip(truth + rng.integers(-1, 2, truth.shape), 0, 3).astype(float)
    prediction[rng.random(truth.shape) < 0.1] = NAN
    found, report = totals(truth, prediction), report_of(truth, prediction)
    decided = found.decision >= 0
    actual, called = found.truth >= 10, found.decision == 1
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
    kept = found.usable
    assert screening["auroc"] == pytest.approx(roc_auc_score(actual[kept], found.total[kept]))
    error = found.total[kept] - found.truth[kept]
    assert report["total"]["mae"] == pytest.approx(np.abs(error).mean())
    assert report["total"]["rmse"] == pytest.approx(np.sqrt((error**2).mean()))
    correlation = np.corrcoef(found.total[kept], found.truth[kept])[0, 1]
    assert report["total"]["pearson"] == pytest.approx(correlation)


def test_nothing_predicted_is_undefined_with_a_reason():
    report = report_of([[1] * 8], [[NAN] * 8])
    assert math.isnan(report["total"]["mae"])
    assert report["total"]["reason"] == "no_participant_with_enough_predicted_items"
    assert math.isnan(report["screening"]["accuracy"])
    assert report["screening"]["reason"] == "no_participant_is_decided"


def test_the_summary_says_the_same_in_one_sentence():
    report = report_of([[1] * 8, [2] * 8], [[1] * 8, [NAN] * 8])
    assert report["summary"] == (
        "MAE 0.0000, RMSE 0.0000, Pearson undefined, bands 1.0000 right on 1 of 2 participants; "
        "screening at 10: accuracy 1.0000, F1 undefined on 1, AUROC undefined."
    )


def test_other_questionnaires_have_no_phq8_total():
    with pytest.raises(UserError, match="eight PHQ-8 items"):
        totals([[1] * 5], [[1] * 5])
    with pytest.raises(UserError, match="eight PHQ-8 items"):
        totals([[4] * 8], [[1] * 8])
    with pytest.raises(UserError, match="min_coverage must lie between 0 and 1, not 2"):
        totals([[1] * 8], [[1] * 8], min_coverage=2)


def test_a_participant_with_a_failed_item_is_counted_and_has_no_total():
    truth = [[1] * 8, [3] * 8, [2] * 8]
    cluster, flat, prediction = columns_of(truth, [[1] * 8, [2] * 8, [2] * 8])
    keep = np.arange(24) != 9
    report = totals_report(cluster[keep], ["x"] * 23, flat[keep], prediction[keep])
    assert report["n_incomplete"] == 1
    assert "(1 more lack an item that failed)" in report["summary"]
    assert report["total"]["n_participants"] == 2
    assert report["total"]["mae"] == 0.0
    assert report_of(truth, truth)["n_incomplete"] == 0


def test_codes_of_participants_need_no_order():
    truth, prediction = [[1] * 8, [3] * 8], [[1] * 8, [2] * 8]
    cluster, flat, given = columns_of(truth, prediction)
    order = np.random.default_rng(1).permutation(16)
    shuffled = totals_report(cluster[order] * 7 + 3, ["x"] * 16, flat[order], given[order])
    assert shuffled == report_of(truth, prediction)


def test_other_questions_have_no_totals():
    assert report_of([[1] * 9], [[1] * 9]) is None
    assert report_of([[1] * 8], [[1] * 8], [""] * 8) is None
    assert report_of([[1] * 5], [[1] * 5]) is None
    assert report_of([[4] * 8], [[1] * 8]) is None


def test_the_suite_offers_its_totals_and_other_suites_have_none():
    cluster, truth, prediction = columns_of([[1] * 8], [[1] * 8])
    names = list(ITEM_KEYS)
    assert PHQ8Suite.totals(cluster, names, truth, prediction)["total"]["mae"] == 0.0
    assert CKDSuite.totals(cluster, names, truth, prediction) is None

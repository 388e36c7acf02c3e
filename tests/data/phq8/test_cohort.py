from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chisquare, multivariate_normal

from krisis.data.phq8.interviews import (
    Cohort,
    draw_cohort,
    draw_participant,
    draw_splits,
    scores_of,
)
from krisis.data.phq8.items import ITEM_KEYS, ITEMS

N = 12_000


@pytest.fixture(scope="module")
def scores() -> np.ndarray:
    return np.array([participant.scores for participant in draw_cohort(N, seed=7)])


@pytest.mark.parametrize("column", range(8), ids=ITEM_KEYS)
def test_margins_match_nhanes_within_sampling_error(scores: np.ndarray, column: int) -> None:
    counts = np.array(ITEMS[column].nhanes_counts)
    observed = np.bincount(scores[:, column], minlength=4)
    # Eight tests at 0.001: a wrong threshold of two percentage points fails by far.
    assert chisquare(observed, counts / counts.sum() * N).pvalue > 0.001


def test_a_shifted_margin_would_be_noticed(scores: np.ndarray) -> None:
    counts = np.array(ITEMS[2].nhanes_counts) + np.array([-100, 100, 0, 0])
    observed = np.bincount(scores[:, 2], minlength=4)
    assert chisquare(observed, counts / counts.sum() * N).pvalue < 0.001


def test_two_items_share_exactly_the_severity(scores: np.ndarray) -> None:
    """P(both items > 0) must be the bivariate normal orthant of the loadings' product."""
    sleep, tired = ITEMS[2], ITEMS[3]
    correlation = sleep.loading * tired.loading
    cuts = [sleep.thresholds()[0], tired.thresholds()[0]]
    both_zero = multivariate_normal.cdf(cuts, cov=[[1, correlation], [correlation, 1]])
    observed = np.mean((scores[:, 2] == 0) & (scores[:, 3] == 0))
    assert observed == pytest.approx(both_zero, abs=4 * np.sqrt(both_zero * (1 - both_zero) / N))


def test_scores_depend_on_one_another_as_questionnaires_do(scores: np.ndarray) -> None:
    total = scores.sum(axis=1)
    alpha = 8 / 7 * (1 - scores.var(axis=0).sum() / total.var())
    assert 0.80 < alpha < 0.90
    assert 0.06 < np.mean(total >= 10) < 0.12


def test_a_liability_at_the_cut_point_scores_as_computed_by_hand() -> None:
    liability = np.array([item.thresholds()[1] + 0.001 for item in ITEMS])
    assert scores_of(liability).tolist() == [2] * 8
    assert scores_of(np.full(8, -9.0)).tolist() == [0] * 8
    assert scores_of(np.full(8, 9.0)).tolist() == [3] * 8


def test_a_participant_does_not_depend_on_the_size_of_the_cohort() -> None:
    assert draw_cohort(3, seed=5) == draw_cohort(30, seed=5)[:3]
    assert draw_participant(2, seed=5) != draw_participant(2, seed=6)


def test_the_clinic_has_three_positives_in_ten_and_every_score_of_every_item() -> None:
    clinic = np.array([one.scores for one in draw_cohort(3000, seed=7, cohort=Cohort.CLINIC)])
    assert np.mean(clinic.sum(axis=1) >= 10) == pytest.approx(0.3, abs=0.03)
    default = np.array([one.scores for one in draw_cohort(200, seed=42, cohort=Cohort.CLINIC)])
    held_out = [split == "test" for split in draw_splits(200, seed=42, test_size=0.2)]
    for scores in (clinic, default, default[held_out]):
        assert all(set(column) == {0, 1, 2, 3} for column in scores.T.tolist())


def test_the_community_has_the_margins_of_nhanes_to_half_a_point(scores: np.ndarray) -> None:
    """The cut points give the margins exactly; the draws may add their sampling error."""
    for column, item in enumerate(ITEMS):
        share = np.array(item.nhanes_counts) / sum(item.nhanes_counts)
        observed = np.bincount(scores[:, column], minlength=4) / N
        assert np.abs(observed - share).max() < 0.005 + 2 * np.sqrt(0.25 / N)

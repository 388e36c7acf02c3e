from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import chisquare, multivariate_normal

from krisis.data.phq8.interviews import draw_cohort, draw_participant, scores_of
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

"""The interval of a sum of absolute gaps."""

from __future__ import annotations

import numpy as np
import pytest

from krisis.statistics.absolute_sum import absolute_sum_interval

RNG = np.random.default_rng(0)


def normal_world(gaps, spread, seed):
    """Observed gaps with known noise, and replicates around them with the same noise."""
    rng = np.random.default_rng(seed)
    observed = np.asarray(gaps) + rng.normal(0, spread, len(gaps))
    return observed, observed[:, None] + rng.normal(0, spread, (len(gaps), 1000))


@pytest.mark.parametrize("gaps", [[0.0] * 8, [0.02, -0.01, 0.0, 0.03], [0.3, -0.2]])
def test_it_contains_the_true_sum_about_as_often_as_it_says(gaps):
    truth = float(np.abs(gaps).sum())
    hits = []
    for seed in range(300):
        observed, replicates = normal_world(gaps, 0.02, seed)
        interval = absolute_sum_interval(observed, replicates, n_clusters=200)
        hits.append(interval.low <= truth <= interval.high)
    assert np.mean(hits) >= 0.9


def test_noise_around_nothing_reaches_down_to_zero():
    intervals = []
    for seed in range(100):
        observed, replicates = normal_world([0.0] * 10, 0.02, seed)
        intervals.append(absolute_sum_interval(observed, replicates, n_clusters=100))
    assert np.mean([interval.low == 0.0 for interval in intervals]) >= 0.93
    assert all(interval.method == "test_inversion" for interval in intervals)


def test_one_large_gap_gives_the_plain_normal_interval():
    observed, replicates = normal_world([0.5], 0.01, 4)
    interval = absolute_sum_interval(observed, replicates, n_clusters=10_000)
    assert interval.low == pytest.approx(abs(observed[0]) - 0.0196, abs=0.002)
    assert interval.high == pytest.approx(abs(observed[0]) + 0.0196, abs=0.002)


def test_fewer_clusters_give_a_wider_interval():
    observed, replicates = normal_world([0.2, 0.1], 0.02, 5)
    found = [absolute_sum_interval(observed, replicates, n_clusters=n) for n in (5, 20, 1000)]
    widths = [interval.high - interval.low for interval in found]
    assert widths[0] > widths[1] > widths[2]


@pytest.mark.parametrize(
    ("gaps", "replicates", "n_clusters", "reason"),
    [
        (np.array([0.1]), np.ones((1, 9)), 1, "needs_at_least_two_clusters"),
        (np.array([np.nan]), np.ones((1, 9)), 4, "the_figure_is_undefined"),
        (np.array([0.1]), np.full((1, 9), np.nan), 4, "fewer_than_two_valid_resamples"),
        (np.array([0.1]), np.ones((1, 9)), 4, "every_resample_gives_the_same_value"),
        (
            np.array([0.3]),
            0.3 + 1e-16 * np.arange(9)[None, :],
            4,
            "every_resample_gives_the_same_value",
        ),
        (np.array([0.0]), RNG.normal(size=(1, 9)), 4, "every_gap_is_zero"),
    ],
)
def test_what_has_no_interval_has_a_reason(gaps, replicates, n_clusters, reason):
    interval = absolute_sum_interval(gaps, replicates, n_clusters=n_clusters)
    assert not interval.defined
    assert interval.reason == reason


def test_undefined_resamples_are_left_out():
    observed, replicates = normal_world([0.2, 0.1], 0.02, 6)
    holed = np.concatenate([replicates, np.full((2, 50), np.nan)], axis=1)
    whole, part = (
        absolute_sum_interval(observed, values, n_clusters=30) for values in (replicates, holed)
    )
    assert whole == part

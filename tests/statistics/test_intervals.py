"""Intervals: textbook values, edges, and agreement with SciPy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from krisis.errors import UserError
from krisis.statistics.bootstrap import BootstrapOptions, cluster_bootstrap
from krisis.statistics.intervals import (
    Interval,
    Replicates,
)


def _mean_bootstrap(values: np.ndarray, n_resamples: int = 4000):
    def mean(counts):
        return {"mean": values @ counts / counts.sum(axis=0)}

    return cluster_bootstrap(
        mean, values.size, options=BootstrapOptions(n_resamples=n_resamples, seed=7)
    )


def test_percentiles_agree_with_scipy_on_many_resamples():
    values = np.random.default_rng(3).gamma(2.0, size=60)
    ours = _mean_bootstrap(values, 20_000)
    theirs = stats.bootstrap(
        (values,),
        np.mean,
        n_resamples=20_000,
        method="percentile",
        rng=np.random.default_rng(5),
    ).confidence_interval
    interval = ours.interval("mean", "percentile")
    width = theirs.high - theirs.low
    assert interval.low == pytest.approx(theirs.low, abs=0.03 * width)
    assert interval.high == pytest.approx(theirs.high, abs=0.03 * width)


def test_the_expanded_percentile_contains_the_percentile():
    result = _mean_bootstrap(np.random.default_rng(5).normal(size=15))
    narrow = result.interval("mean", "percentile")
    wide = result.interval("mean", "expanded_percentile")
    assert wide.low < narrow.low < narrow.high < wide.high


def test_the_expanded_percentile_by_hand():
    """Five clusters: Φ(√(5/4) · t₄) = Φ(1.118034 · −2.776445) = .000954, of uniform replicates."""
    replicates = Replicates(0.5, np.linspace(0, 1, 100_001), 5)
    interval = replicates.interval("expanded_percentile")
    assert (interval.low, interval.high) == pytest.approx((0.000954, 0.999046), abs=1e-6)


def test_replicates_that_never_move_give_a_reason_and_not_a_point():
    still = _mean_bootstrap(np.zeros(9))
    rounded = _mean_bootstrap(0.09 * (1 + 1e-15 * np.arange(9)))
    for result in (still, rounded):
        found = result.interval("mean", "expanded_percentile")
        assert found.reason == "every_resample_gives_the_same_value"
    published = still.interval("mean", "percentile")
    assert (published.low, published.high) == (0.0, 0.0)


def test_fewer_than_two_valid_replicates_give_a_reason():
    interval = Replicates(0.5, np.array([np.nan, 0.4, np.nan]), 3).interval("percentile")
    assert interval.reason == "fewer_than_two_valid_resamples"


def test_undefined_replicates_are_left_out():
    values = np.array([np.nan, 1.0, 2.0, 3.0, np.nan])
    interval = Replicates(2.0, values, 3).interval("percentile", level=0.5)
    assert (interval.low, interval.high) == (1.5, 2.5)


def test_an_unknown_method_is_named_with_a_suggestion():
    with pytest.raises(UserError, match="did you mean 'percentile'"):
        Replicates(1.0, np.ones(3), 3).interval("percentil")  # type: ignore[arg-type]


def test_clipping_leaves_an_undefined_interval_alone():
    assert Interval(-0.2, 1.3).clipped(0, 1) == Interval(0, 1)
    assert Interval.undefined("because").clipped(0, 1).reason == "because"


def test_one_cluster_alone_has_no_interval():
    alone = Replicates(0.5, np.ones(5), 1).interval("expanded_percentile")
    assert alone.reason == "needs_at_least_two_clusters"
    undefined = Replicates(math.nan, np.ones(5), 3).interval("percentile")
    assert undefined.reason == "the_figure_is_undefined"

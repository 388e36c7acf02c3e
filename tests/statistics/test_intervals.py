"""Intervals: textbook values, edges, and agreement with SciPy."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from krisis.errors import UserError
from krisis.statistics.bootstrap import BootstrapOptions, cluster_bootstrap
from krisis.statistics.intervals import (
    ClusteredShare,
    Interval,
    Replicates,
    clopper_pearson,
    wilson,
)


@given(st.integers(1, 400).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_and_clopper_pearson_agree_with_scipy(pair):
    successes, total = pair
    test = stats.binomtest(successes, total)
    for ours, method in ((wilson, "wilson"), (clopper_pearson, "exact")):
        expected = test.proportion_ci(0.95, method=method)
        interval = ours(successes, total)
        assert interval.low == pytest.approx(expected.low, abs=1e-9)
        assert interval.high == pytest.approx(expected.high, abs=1e-9)


def test_a_share_of_no_rows_has_no_interval_but_a_reason():
    for function in (wilson, clopper_pearson):
        interval = function(0, 0)
        assert math.isnan(interval.low)
        assert interval.reason == "no_rows"


def test_more_successes_than_rows_is_refused():
    with pytest.raises(UserError, match="between 0 and the total 3, not 4"):
        wilson(4, 3)


def test_one_row_per_cluster_gives_wilson_itself():
    hits = np.array([1.0, 0, 1, 1, 0, 1, 1, 1, 1, 1])
    assert ClusteredShare.of(hits, np.ones(10)).interval() == wilson(8, 10)


def test_rows_that_repeat_their_cluster_are_worth_one_row_each():
    hits = np.array([1.0, 0, 1, 1, 0, 1, 1, 1, 1, 1])
    tenfold = ClusteredShare.of(hits * 10, np.full(10, 10.0)).interval()
    # The between-cluster variance has 9 degrees of freedom, so the interval is a little wider.
    assert tenfold.method == "cluster_wilson"
    assert tenfold.high - tenfold.low > wilson(8, 10).high - wilson(8, 10).low
    assert tenfold.high - tenfold.low > 2 * (wilson(80, 100).high - wilson(80, 100).low)


def test_no_error_in_any_cluster_counts_every_cluster_once():
    interval = ClusteredShare.of(np.full(12, 5.0), np.full(12, 5.0)).interval()
    assert interval.high == 1.0
    assert interval.low < wilson(12, 12).low


def test_clusters_without_rows_change_nothing():
    hits, totals = np.array([3.0, 1, 2]), np.array([4.0, 2, 2])
    padded = ClusteredShare.of(np.append(hits, 0), np.append(totals, 0)).interval()
    assert padded == ClusteredShare.of(hits, totals).interval()


def _mean_bootstrap(values: np.ndarray, n_resamples: int = 4000):
    def mean(counts):
        return {"mean": values @ counts / counts.sum(axis=0)}

    return cluster_bootstrap(
        mean, values.size, options=BootstrapOptions(n_resamples=n_resamples, seed=7)
    )


def test_percentile_basic_and_bca_agree_with_scipy_on_many_resamples():
    values = np.random.default_rng(3).gamma(2.0, size=60)
    ours = _mean_bootstrap(values, 20_000)
    for method in ("percentile", "basic", "bca"):
        theirs = stats.bootstrap(
            (values,),
            np.mean,
            n_resamples=20_000,
            method="BCa" if method == "bca" else method,
            rng=np.random.default_rng(5),
        ).confidence_interval
        interval = ours.interval("mean", method)
        width = theirs.high - theirs.low
        assert interval.low == pytest.approx(theirs.low, abs=0.03 * width)
        assert interval.high == pytest.approx(theirs.high, abs=0.03 * width)


def test_jackknife_t_of_a_mean_is_students_interval():
    values = np.random.default_rng(4).normal(size=25)
    interval = _mean_bootstrap(values, 10).interval("mean", "jackknife_t")
    low, high = stats.t.interval(0.95, 24, values.mean(), stats.sem(values))
    assert (interval.low, interval.high) == pytest.approx((low, high))


def test_the_expanded_percentile_contains_the_percentile():
    result = _mean_bootstrap(np.random.default_rng(5).normal(size=15))
    narrow = result.interval("mean", "percentile")
    wide = result.interval("mean", "expanded_percentile")
    assert wide.low < narrow.low < narrow.high < wide.high


def test_replicates_that_never_move_give_a_reason_and_not_a_point():
    still = _mean_bootstrap(np.zeros(9))
    rounded = _mean_bootstrap(0.09 * (1 + 1e-15 * np.arange(9)))
    for method in ("expanded_percentile", "basic", "bca"):
        for result in (still, rounded):
            assert result.interval("mean", method).reason == "every_resample_gives_the_same_value"
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
    assert ClusteredShare.of(np.array([3.0]), np.array([4.0])).interval().reason == (
        "needs_at_least_two_clusters"
    )
    assert Replicates(0.5, np.ones(5), 1).interval("basic").reason == "needs_at_least_two_clusters"
    assert Replicates(math.nan, np.ones(5), 3).interval("basic").reason == "the_figure_is_undefined"


def test_methods_that_leave_clusters_out_need_their_values():
    for method in ("bca", "jackknife_t"):
        interval = Replicates(0.5, np.linspace(0, 1, 9), 3).interval(method)
        assert interval.reason == "fewer_than_two_jackknife_values"
    outside = Replicates(9.0, np.linspace(0, 1, 9), 3, np.array([0.1, 0.2])).interval("bca")
    assert outside.reason == "the_estimate_lies_outside_its_resamples"


def test_no_rows_at_all_have_no_share():
    assert ClusteredShare.of(np.zeros(3), np.zeros(3)).interval().reason == "no_rows"


def test_clusters_that_all_agree_count_once_whatever_rounding_leaves():
    # 1 / 49 * 49 is a little less than 1.
    rounded = ClusteredShare.of(np.ones(15), np.full(15, 49.0)).interval()
    exact = ClusteredShare.of(np.ones(15), np.full(15, 48.0)).interval()
    assert rounded.high == pytest.approx(exact.high, abs=0.01)

"""Resampled curves agree with the curve of every resample built item by item."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from krisis.metrics.selective_prediction import optimal_curve, risk_coverage_curve
from krisis.metrics.weighted_curve import (
    CurveItems,
    CurveStatistic,
    area_key,
    risk_key,
)
from krisis.statistics.bootstrap import BootstrapOptions, cluster_bootstrap, draw_clusters

COVERAGES = (0.1, 0.3, 0.5, 0.7, 0.9, 1.0)
CUTS = (0.25, 0.5, 1.0)


def items_from(seed: int, n_clusters: int, levels: int | None, *, even: bool) -> CurveItems:
    rng = np.random.default_rng(seed)
    per_cluster = np.full(n_clusters, 6) if even else rng.integers(1, 9, n_clusters)
    cluster = np.repeat(np.arange(n_clusters), per_cluster)
    n = cluster.size
    predicted = rng.random(n) > 0.35
    confidence = rng.random(n) if levels is None else rng.integers(0, levels, n) / levels
    losses = rng.integers(0, 4, n) / 3
    return CurveItems(
        losses[predicted], confidence[predicted], cluster[predicted], per_cluster.astype(float)
    )


def naive_figures(items: CurveItems, drawn: np.ndarray) -> dict[str, float]:
    """Gather the items of the drawn clusters one after the other and build their curve."""
    losses, confidence = [], []
    for cluster in drawn:
        for index in np.flatnonzero(items.clusters == cluster):
            losses.append(items.losses[index])
            confidence.append(items.confidence[index])
    n_items = int(sum(items.items_per_cluster[cluster] for cluster in drawn))
    curve, best = risk_coverage_curve(losses, confidence, n_items), optimal_curve(losses, n_items)
    figures = {
        "cmax": curve.cmax,
        "aurc": curve.aurc(),
        "augrc": curve.augrc(),
        "aurc_normalized": curve.aurc_normalized,
        "augrc_normalized": curve.augrc_normalized,
        "aurc_optimal": best.aurc(),
        "augrc_optimal": best.augrc(),
        "eaurc": curve.aurc() - best.aurc(),
        "eaugrc": curve.augrc() - best.augrc(),
    }
    for cut in CUTS:
        figures[area_key("aurc", cut)] = curve.aurc(cut)
        figures[area_key("augrc", cut)] = curve.augrc(cut)
    for coverage in COVERAGES:
        found = curve.risk_at(coverage)
        figures[risk_key(coverage)] = np.nan if found is None else found[0]
    return figures


@pytest.mark.parametrize("levels", [None, 5, 40])
@pytest.mark.parametrize("even", [True, False])
@pytest.mark.parametrize("n_clusters", [1, 3, 25])
@pytest.mark.parametrize("rng", ["default", "legacy"])
def test_every_figure_of_every_resample_is_that_of_its_own_curve(levels, even, n_clusters, rng):
    items = items_from(n_clusters, n_clusters, levels, even=even)
    options = BootstrapOptions(n_resamples=60, seed=9, rng=rng)
    statistic = CurveStatistic(items, COVERAGES, CUTS, optimal=True)
    replicates = cluster_bootstrap(statistic, n_clusters, options=options).replicates
    drawn = np.concatenate([block.copy() for block in draw_clusters(n_clusters, options)])
    expected = [naive_figures(items, row) for row in drawn]
    assert set(replicates) == set(expected[0])
    for name, values in replicates.items():
        np.testing.assert_allclose(
            values, [figures[name] for figures in expected], rtol=0, atol=1e-12, err_msg=name
        )


@settings(max_examples=60)
@given(st.integers(0, 10_000), st.integers(2, 8), st.sampled_from([None, 2, 5]), st.booleans())
def test_the_estimate_is_the_curve_itself(seed, n_clusters, levels, even):
    items = items_from(seed, n_clusters, levels, even=even)
    statistic = CurveStatistic(items, COVERAGES, CUTS, optimal=True)
    figures = statistic(np.ones((n_clusters, 1)))
    expected = naive_figures(items, np.arange(n_clusters))
    for name, value in figures.items():
        np.testing.assert_allclose(value[0], expected[name], rtol=0, atol=1e-12, err_msg=name)


def test_resamples_without_any_prediction_are_undefined_and_counted():
    items = CurveItems(np.array([1.0]), np.array([0.5]), np.array([0]), np.array([2.0, 2.0, 2.0]))
    result = cluster_bootstrap(CurveStatistic(items, (0.1,), (0.5,), optimal=True), 3)
    for name in ("aurc", "augrc", "aurc_optimal", "augrc_optimal", "risk_at_0.10"):
        assert result.drop_rate(name) == pytest.approx((2 / 3) ** 3, abs=0.02), name
    assert result.drop_rate("cmax") == 0.0


@pytest.mark.parametrize("coverage", [0.07, 0.14, 0.28, 0.55, 0.56, 0.57])
def test_a_coverage_that_rounds_up_in_a_product_is_still_reached_exactly(coverage):
    # 0.07 · 100 is 7.000000000000001, yet 7 of 100 items do cover 0.07.
    items = CurveItems(np.arange(100) / 100, 1 - np.arange(100) / 100, np.arange(100), np.ones(100))
    value = CurveStatistic(items, (coverage,))(np.ones((100, 1)))[risk_key(coverage)][0]
    curve = risk_coverage_curve(items.losses, items.confidence, 100)
    assert value == pytest.approx(curve.risk_at(coverage)[0], abs=1e-15)


def test_the_areas_alone_are_those_found_beside_other_figures():
    items = items_from(5, 7, 4, even=True)
    counts = np.ones((7, 1))
    alone, beside = CurveStatistic(items)(counts), CurveStatistic(items, COVERAGES, CUTS)(counts)
    assert set(alone) == {"cmax", "aurc", "augrc", "aurc_normalized", "augrc_normalized"}
    assert all(alone[name] == beside[name] for name in alone)

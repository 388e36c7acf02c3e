"""The cluster bootstrap: draws, sharing, pairing, dropping."""

from __future__ import annotations

import numpy as np
import pytest

from krisis.errors import UserError
from krisis.statistics import bootstrap
from krisis.statistics.bootstrap import (
    BootstrapOptions,
    cluster_bootstrap,
    draw_clusters,
    resample_counts,
)

SMALL = BootstrapOptions(n_resamples=500, seed=11)


def _mean_of(values: np.ndarray):
    return lambda counts: {"mean": values @ counts / counts.sum(axis=0)}


def test_legacy_draws_are_those_of_one_whole_matrix(monkeypatch):
    options = BootstrapOptions(n_resamples=1000, seed=42, rng="legacy")
    monkeypatch.setattr(bootstrap, "_CELLS_PER_DRAW", 37 * 41)
    drawn = np.concatenate([block.copy() for block in draw_clusters(41, options)])
    expected = np.random.RandomState(42).randint(0, 41, size=(1000, 41))
    np.testing.assert_array_equal(drawn, expected)


@pytest.mark.parametrize("rng", ["default", "legacy"])
def test_block_sizes_change_no_replicate(monkeypatch, rng):
    values = np.random.default_rng(0).random(17)
    options = BootstrapOptions(n_resamples=333, seed=5, rng=rng)
    whole = cluster_bootstrap(_mean_of(values), 17, options=options).replicates["mean"]
    monkeypatch.setattr(bootstrap, "_CELLS_PER_DRAW", 17)
    monkeypatch.setattr(bootstrap, "_CELLS_PER_BLOCK", 17 * 10)
    pieces = cluster_bootstrap(_mean_of(values), 17, options=options).replicates["mean"]
    np.testing.assert_allclose(pieces, whole, rtol=0, atol=1e-15)


def test_every_resample_draws_as_many_clusters_as_there_are():
    counts = np.concatenate(list(resample_counts(13, SMALL)), axis=1)
    assert counts.shape == (13, 500)
    np.testing.assert_array_equal(counts.sum(axis=0), 13)


def test_same_seed_same_replicates_and_another_seed_others():
    values = np.arange(10.0)
    first, second = (cluster_bootstrap(_mean_of(values), 10, options=SMALL) for _ in range(2))
    np.testing.assert_array_equal(first.replicates["mean"], second.replicates["mean"])
    other = cluster_bootstrap(_mean_of(values), 10, options=BootstrapOptions(500, seed=12))
    assert not np.array_equal(first.replicates["mean"], other.replicates["mean"])


def test_replicates_agree_with_a_plain_loop_over_the_same_draws():
    values = np.random.default_rng(1).random(9)
    result = cluster_bootstrap(_mean_of(values), 9, options=SMALL)
    drawn = np.random.default_rng(SMALL.seed).integers(0, 9, size=(500, 9))
    expected = [float(np.mean([values[i] for i in row])) for row in drawn]
    np.testing.assert_allclose(result.replicates["mean"], expected, atol=1e-14)


def test_the_drop_rate_counts_undefined_resamples():
    def share_of_first(counts):
        present = counts[0] > 0
        return {"value": np.where(present, 1.0 / np.maximum(counts[0], 1), np.nan)}

    result = cluster_bootstrap(share_of_first, 3, options=BootstrapOptions(20_000))
    assert result.drop_rate("value") == pytest.approx((2 / 3) ** 3, abs=0.01)


def test_progress_adds_up_to_the_number_of_resamples():
    done: list[int] = []
    cluster_bootstrap(_mean_of(np.arange(5.0)), 5, options=SMALL, progress=done.append)
    assert sum(done) == 500


@pytest.mark.parametrize(
    ("field", "value"),
    [("n_resamples", -1), ("seed", -1), ("rng", "pcg"), ("level", 1.0), ("n_resamples", True)],
)
def test_options_that_make_no_sense_are_refused(field, value):
    with pytest.raises(UserError, match=repr(value).strip("'")):
        BootstrapOptions(**{field: value})


def test_no_clusters_is_one_sentence():
    with pytest.raises(UserError, match="given no clusters"):
        cluster_bootstrap(_mean_of(np.empty(0)), 0)

"""Tests for two runs: hand-computed p-values, SciPy as oracle, laws."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from krisis.errors import UserError
from krisis.statistics.comparison import holm, mcnemar_exact, sign_flip_test


@given(st.integers(0, 60), st.integers(0, 60), st.integers(0, 5))
def test_mcnemar_is_the_two_sided_binomial_test_of_the_discordant_pairs(n_left, n_right, n_both):
    left = [True] * n_left + [False] * n_right + [True] * n_both
    right = [False] * n_left + [True] * n_right + [True] * n_both
    result = mcnemar_exact(left, right)
    assert (result.n_left_only, result.n_right_only) == (n_left, n_right)
    if n_left + n_right:
        expected = stats.binomtest(n_left, n_left + n_right).pvalue
        assert result.p_value == pytest.approx(expected, rel=1e-9)
    else:
        assert result.p_value == 1.0


def test_mcnemar_refuses_runs_of_different_length():
    with pytest.raises(UserError, match="3 and 2 rows"):
        mcnemar_exact([1, 0, 1], [1, 0])


def test_sign_flip_enumerates_every_pattern_of_few_clusters():
    differences = np.array([0.5, -0.25, 1.0, 0.125, 0.75])
    observed = abs(differences.sum())
    sums = [abs(np.dot(signs, differences)) for signs in itertools.product((-1, 1), repeat=5)]
    result = sign_flip_test(differences)
    assert result.exact
    assert result.p_value == sum(s >= observed - 1e-12 for s in sums) / 32


def test_rows_of_one_patient_flip_together():
    result = sign_flip_test([1.0] * 6, clusters=["a", "a", "b", "b", "c", "c"])
    assert (result.p_value, result.n_clusters) == (0.25, 3)
    assert sign_flip_test([1.0] * 6).p_value == 2 / 64


def test_drawn_flips_approach_the_exact_p_value_and_never_reach_zero():
    values = np.random.default_rng(0).normal(0.3, 1.0, size=40)
    drawn = sign_flip_test(values, n_flips=20_000, seed=1)
    expected = stats.permutation_test(
        (values,),
        np.mean,
        permutation_type="samples",
        n_resamples=20_000,
        rng=np.random.default_rng(2),
    ).pvalue
    assert not drawn.exact
    assert drawn.p_value == pytest.approx(expected, abs=0.01)
    assert sign_flip_test(np.full(40, 1.0), n_flips=99).p_value == 1 / 100


def test_no_difference_at_all_has_p_value_one():
    result = sign_flip_test(np.zeros(30))
    assert (result.mean_difference, result.p_value) == (0.0, 1.0)


def test_no_pairs_at_all_are_undefined():
    assert math.isnan(sign_flip_test([]).p_value)


@given(st.lists(st.floats(-5, 5, allow_subnormal=False), min_size=1, max_size=12))
def test_exchanging_the_runs_keeps_the_p_value(values):
    forward, backward = sign_flip_test(values), sign_flip_test([-v for v in values])
    assert forward.p_value == backward.p_value
    assert forward.mean_difference == -backward.mean_difference


def test_undefined_differences_are_refused():
    with pytest.raises(UserError, match="drop undefined pairs"):
        sign_flip_test([0.1, math.nan])


def test_holm_by_hand():
    adjusted = holm({"a": 0.01, "b": 0.04, "c": 0.03, "d": math.nan})
    assert adjusted["a"] == pytest.approx(0.03)
    assert adjusted["b"] == adjusted["c"] == pytest.approx(0.06)
    assert math.isnan(adjusted["d"])


@given(st.dictionaries(st.text(max_size=3), st.floats(0, 1), max_size=8))
def test_holm_only_raises_p_values_and_keeps_their_order(p_values):
    adjusted = holm(p_values)
    assert all(p <= adjusted[name] <= 1 for name, p in p_values.items())
    ranked = sorted(p_values, key=lambda name: p_values[name])
    assert [adjusted[name] for name in ranked] == sorted(adjusted.values())


def test_holm_refuses_what_is_no_probability():
    with pytest.raises(UserError, match=r"'a' must lie between 0 and 1, not 1\.5"):
        holm({"a": 1.5})

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from krisis.statistics.sum_of_ratios import SumOfRatios


def test_two_ratios_by_hand():
    """Both ratios are 2/3; patients 1 and 2 move them by ±1/9 and 1/9, patient 0 by 2/9."""
    found = SumOfRatios(np.array([[1.0, 1, 0], [1, 0, 1]]), np.ones((2, 3)))
    moved = np.array([2 / 9, -1 / 9, -1 / 9])
    error = math.sqrt(1.5 * float(moved @ moved))
    assert found.value == pytest.approx(4 / 3)
    assert found.standard_error == pytest.approx(error)
    assert found.upper() == pytest.approx(4 / 3 + stats.t.ppf(0.975, 2) * error)
    assert found.lower(0.8) == pytest.approx(4 / 3 - stats.t.ppf(0.9, 2) * error)


def test_a_patient_in_thought_has_the_average_base():
    pair = SumOfRatios(np.array([[2.0, 0], [0, 4]]), np.array([[2.0, 0], [0, 4]]))
    more = pair.with_one_more(0.5)
    assert more.base[:, -1].tolist() == [1.0, 2.0]
    assert more.top[:, -1].tolist() == [0.5, 1.0]
    assert pair.standard_error == 0
    assert more.standard_error > 0


def test_patients_without_part_do_not_count():
    pair = SumOfRatios(np.array([[1.0, 0, 1, 0]]), np.array([[1.0, 1, 1, 0]]))
    alone = SumOfRatios(np.array([[1.0, 0, 1]]), np.array([[1.0, 1, 1]]))
    assert pair.n_patients == 3
    assert pair.lower() == alone.lower()
    assert SumOfRatios(np.array([[1.0]]), np.array([[1.0]])).lower() == -math.inf


@given(st.integers(0, 10_000), st.sampled_from([0.25, 8.0]))
@settings(max_examples=40, deadline=None)
def test_order_and_scale_change_nothing(seed, scale):
    draw = np.random.default_rng(seed)
    base = draw.random((2, 12)) + 0.1
    top = base * draw.random((2, 12))
    found = SumOfRatios(top, base)
    order = draw.permutation(12)
    moved = SumOfRatios(scale * top[:, order], scale * base[:, order])
    assert moved.lower() == pytest.approx(found.lower())
    one_row = SumOfRatios(top[:1], np.ones((1, 12)))
    plain = top[0].std(ddof=1) / math.sqrt(12)
    assert one_row.standard_error == pytest.approx(plain)

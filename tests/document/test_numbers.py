"""The one place that rounds: never across a bound, with a true minus, and never minus nothing."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from krisis.pages import numbers
from krisis.pages.numbers import MINUS, Estimate

shares = st.floats(0, 1, allow_subnormal=False)
signed = st.floats(-1, 1, allow_subnormal=False)
figures = st.floats(-1e6, 1e6, allow_subnormal=False)
WRITERS: list[Callable[[Estimate], str]] = [
    numbers.share,
    numbers.difference,
    numbers.points,
    numbers.figure,
]


def read(text: str) -> float:
    """Return the number that a text begins with."""
    found = re.match(rf"[+{MINUS}]?[\d,]+(\.\d+)?", text)
    assert found is not None, text
    return float(found[0].replace(MINUS, "-").replace(",", ""))


@given(shares, shares)
def test_a_share_is_never_rounded_onto_or_over_the_bound_it_is_judged_by(
    value: float, bound: float
) -> None:
    shown = read(numbers.share(Estimate(value, bound=bound))) / 100
    if abs(value - bound) > 1e-7:  # six decimals of a percentage are the most that is written
        assert (shown < bound, shown > bound) == (value < bound, value > bound)
        assert not math.isclose(shown, bound, rel_tol=0, abs_tol=1e-10)


@given(figures, figures)
def test_no_figure_is_rounded_over_its_bound(value: float, bound: float) -> None:
    shown = read(numbers.figure(Estimate(value, bound=bound)))
    if abs(value - bound) > 1e-5:
        assert (shown < bound) == (value < bound)


@given(signed, signed, signed)
def test_no_number_is_minus_nothing_and_minus_is_a_true_minus(a: float, b: float, c: float) -> None:
    low, value, high = sorted((a, b, c))
    for write in WRITERS:
        for estimate in (Estimate(value), Estimate(value, low, high)):
            text = write(estimate)
            assert "-" not in text
            assert not re.search(rf"[+{MINUS}]0(\.0+)?(?![\d.])", text), text
            assert "nan" not in text


@given(shares, shares, shares)
def test_a_share_is_never_rounded_to_the_width_of_its_interval(
    a: float, b: float, c: float
) -> None:
    low, value, high = sorted((a, b, c))
    text = numbers.share(Estimate(value, low, high))
    half_width = 100 * (high - low) / 2
    digits = len((re.match(r"\d+\.?(\d*)", text) or [""])[1])
    if half_width >= 1e-6:
        near_an_end = 1e-9 < value < 0.1 or 0.9 < value < 1 - 1e-9
        least = max(int(near_an_end), -math.floor(math.log10(half_width)))
        assert digits == min(least, 6)
        assert abs(read(text) - 100 * value) <= 0.5 * 10**-digits + 1e-9


@pytest.mark.parametrize(
    ("value", "low", "high", "text"),
    [
        (0.7013, 0.656, 0.7469, "70 % (66–75)"),
        (0.6118, 0.5309, 0.6883, "61 % (53–69)"),
        (0.0123, 0.0081, 0.0187, "1.2 % (0.8–1.9)"),
        (0.5, 0.5, 0.5, "50 %"),
    ],
)
def test_a_share_with_its_interval(value: float, low: float, high: float, text: str) -> None:
    assert numbers.share(Estimate(value, low, high)) == text


def test_an_interval_below_nothing_has_a_word_in_place_of_the_dash() -> None:
    assert numbers.difference(Estimate(-0.021, -0.053, 0.011)) == "−2.1 points (−5.3 to 1.1)"
    assert numbers.difference(Estimate(0.021, -0.011, 0.053)) == "+2.1 points (−1.1 to 5.3)"
    assert numbers.difference(Estimate(0.0)) == "0.0 points"
    assert numbers.difference(Estimate(0.004)) == "+0.4 points"
    assert numbers.difference(Estimate(1e-9, -0.1, 0.1)) == "0.0 points (−10.0 to 10.0)"


def test_halves_are_rounded_away_from_0() -> None:
    shares = [numbers.share(Estimate(value), interval=False) for value in (0.865, 0.875, 0.325)]
    assert shares == ["87 %", "88 %", "33 %"]
    assert numbers.points(Estimate(-0.0005)) == "−0.1 points"


def test_rounding_never_hides_on_which_side_of_0_a_difference_ends() -> None:
    assert numbers.change(Estimate(0.26, 0.03, 0.5)) == "+0.26 (0.03–0.50)"
    assert numbers.change(Estimate(-0.16, -0.32, -0.006)) == "−0.16 (−0.32 to −0.01)"
    assert numbers.difference(Estimate(0.222, -0.002, 0.447)) == "+22.2 points (−0.2 to 44.7)"
    # Inside an interval on both sides of 0 the figure decides nothing; dust is 0.
    assert numbers.change(Estimate(0.004, -0.2, 0.2)) == "0.00 (−0.20 to 0.20)"
    assert numbers.change(Estimate(-0.3, -0.5, 1e-15)) == "−0.30 (−0.50 to 0.00)"


@given(shares)
def test_what_is_above_a_threshold_is_above_the_written_one(value: float) -> None:
    shown = float(numbers.threshold(value))
    assert 0 <= value - shown < 1e-6


@given(shares)
def test_a_p_value_is_never_nothing(p: float) -> None:
    text = numbers.p_value(p)
    assert text == "< 0.001" or float(text) >= 0.001


def test_what_is_undefined_says_so() -> None:
    assert {write(Estimate(math.nan)) for write in WRITERS} == {"undefined"}
    assert numbers.p_value(math.nan) == "undefined"

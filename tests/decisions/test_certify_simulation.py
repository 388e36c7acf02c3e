"""The promise is kept in simulated worlds, and as much is accepted as the contract asks."""

from __future__ import annotations

import math

import pytest
from benchmarks.certify import DELTA, DESIGNS, SIZES, WORLDS, cells, verified

# Coverage of the fixed sequence at 100, 300 and 1,000 patients, at least.
FLOORS = {
    ("reference", None): (0.16, 0.34, 0.53),
    ("distinct", None): (0.25, 0.44, 0.62),
    ("reference", 0.1): (0.26, 0.53, 0.57),
    ("reference", 0.4): (0.22, 0.44, 0.54),
}
BY_NAME = {world.name: world for world in WORLDS}


@pytest.mark.parametrize(
    ("name", "icc", "n", "n_runs"),
    [("reference", None, 300, 300), ("flat", None, 100, 300), ("flat", 0.4, 100, 200)],
)
def test_the_promise_is_kept_in_a_few_runs(
    name: str, icc: float | None, n: int, n_runs: int
) -> None:
    sequence, bisection, naive = cells(BY_NAME[name], icc, n, n_runs)
    assert sequence.violations <= sequence.limit
    assert bisection.violations <= bisection.limit
    assert naive.violations > 0.25
    floor = FLOORS[name, icc][SIZES.index(n)] if name != "flat" else 0.0
    # A share of runs: the coverage of one run has a standard deviation below 0.3.
    assert sequence.coverage >= floor - 2 * 0.3 / math.sqrt(n_runs)
    assert sequence.coverage >= bisection.coverage - 0.01


@pytest.mark.slow
@pytest.mark.parametrize("n", SIZES)
@pytest.mark.parametrize("icc", DESIGNS)
@pytest.mark.parametrize("name", ["reference", "distinct", "flat", "flat, distinct"])
def test_the_promise_is_kept_in_every_world(name: str, icc: float | None, n: int) -> None:
    sequence, bisection, _ = cells(BY_NAME[name], icc, n, 4000)
    assert sequence.violations <= sequence.limit
    assert bisection.violations <= bisection.limit
    assert sequence.coverage >= bisection.coverage - 0.01
    floors = FLOORS.get((name, icc))
    assert floors is None or sequence.coverage >= floors[SIZES.index(n)]


@pytest.mark.slow
@pytest.mark.parametrize("name", ["reference", "distinct", "flat"])
def test_certificates_are_rarely_called_broken_on_fresh_patients(name: str) -> None:
    found = verified(BY_NAME[name], None, 300, 1000)
    spread = 2 * math.sqrt(DELTA * (1 - DELTA) / 1000)
    assert found["true risk above"] <= DELTA + spread
    assert found["broken although true"] <= 0.025 + spread

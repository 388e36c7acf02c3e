"""How often a threshold in use is called broken by mistake, and how soon a doubled risk is found.

`python -m benchmarks.monitor` prints both tables of docs/how-to/monitor.md.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from krisis.statistics.risk_tests import exact_interval
from krisis.statistics.sequential import ALPHA, excess_evidence

FloatArray = NDArray[np.float64]
BOUND = 0.05
LOOKS = 2000
_ROWS = 8  # of a patient, in the clustered world
_ICC = 0.4
_GROUPS = 4
_ABSTAINED = 0.4
_AT_ONCE = 200

# Histories × patients → the surplus of every patient, at a risk.
World = Callable[[np.random.Generator, int, int, float], FloatArray]


def independent(draw: np.random.Generator, n: int, looks: int, risk: float) -> FloatArray:
    """Return one accepted row per patient."""
    return (draw.random((n, looks)) < risk) - BOUND


def clustered(draw: np.random.Generator, n: int, looks: int, risk: float) -> FloatArray:
    """Return eight rows per patient, of which a random number is accepted, wrong rows alike."""
    shape = risk * (1 / _ICC - 1), (1 - risk) * (1 / _ICC - 1)
    share = draw.beta(*shape, (n, looks))
    accepted = draw.binomial(_ROWS, 0.7, (n, looks))
    return (draw.binomial(accepted, share) - BOUND * accepted) / _ROWS


def abstaining(draw: np.random.Generator, n: int, looks: int, risk: float) -> FloatArray:
    """Return patients of whom four in ten are abstained on or below the threshold."""
    surplus = independent(draw, n, looks, risk)
    return np.where(draw.random((n, looks)) < _ABSTAINED, 0.0, surplus)


WORLDS: dict[str, World] = {
    "independent": independent,
    "clustered": clustered,
    "groups": independent,
    "abstentions": abstaining,
}


def first_alarms(
    world: str, *, risk: float = BOUND, n: int = 2000, looks: int = LOOKS, change: int = 0
) -> FloatArray:
    """Return after how many patients each history is called broken; infinity where it never is.

    With ``change`` the risk is at its bound for so many patients, then ``risk``; these are counted
    off. In the world of groups, any of four alarms at a quarter of the level is one.
    """
    draw = np.random.default_rng(7)
    n_groups = _GROUPS if world == "groups" else 1
    decisive = -math.log(ALPHA / n_groups)
    found = []
    for _ in range(0, n, _AT_ONCE):
        alarms = []
        for _ in range(n_groups):
            surplus = WORLDS[world](draw, _AT_ONCE, looks, risk)
            if change:
                surplus[:, :change] = WORLDS[world](draw, _AT_ONCE, change, BOUND)
            broken = excess_evidence(surplus, BOUND) >= decisive
            alarms.append(np.where(broken.any(axis=1), broken.argmax(axis=1) + 1.0, math.inf))
        found.append(np.min(alarms, axis=0))
    return np.concatenate(found) - change


def verified_monthly(months: int, per_month: int = 50, n: int = 4000) -> float:
    """Return how often the one-look interval says broken at any of the monthly looks."""
    wrong = np.random.default_rng(7).binomial(per_month, BOUND, (n, months)).cumsum(axis=1)
    sizes = per_month * np.arange(1, months + 1)
    limits = [
        next(k for k in range(size + 1) if exact_interval(k, size).low > BOUND) for size in sizes
    ]
    return float((wrong >= np.array(limits)).any(axis=1).mean())


def one_look_size(risk: float, power: float) -> int:
    """Return the patients with whom one exact test at 5 % finds a risk: the best one could do."""
    n = 1
    while stats.binom.sf(stats.binom.ppf(1 - ALPHA, n, BOUND), n, risk) < power:
        n += 1
    return n


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--histories", type=int, default=4000)
    n = parser.parse_args().histories
    for world in WORLDS:
        false = float(np.isfinite(first_alarms(world, n=n)).mean())
        print(f"false alarms, {world}: {100 * false:.1f} % of {n} histories, {LOOKS} looks each")
    for months in (1, 12, 36):
        print(f"verify looked at {months} times: {100 * verified_monthly(months):.1f} %")
    for change in (0, 300, 1000):
        delay = first_alarms("independent", risk=2 * BOUND, n=n, looks=4000, change=change)
        late = delay[delay > 0]
        print(f"doubled after {change}: {np.quantile(late, 0.5):g}, {np.quantile(late, 0.8):g}")
    print("one look:", one_look_size(2 * BOUND, 0.5), one_look_size(2 * BOUND, 0.8))


if __name__ == "__main__":
    main()

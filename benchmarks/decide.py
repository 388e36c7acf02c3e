"""How near a cross-fitted cost is to the truth, and how the intervals of costs cover."""

from __future__ import annotations

import argparse
import math
import zlib
from dataclasses import dataclass

import numpy as np

from benchmarks.certify import CONFIDENCE, ROWS_PER_PATIENT, SHARES, SPREAD, WORLDS, World
from krisis.decisions.sample import accepts
from krisis.metrics.table import FloatArray, Units
from krisis.statistics.bootstrap import BootstrapOptions
from krisis.verbs.decide.population import Population, Quantity
from krisis.verbs.decide.reader import best_threshold, cross_fitted

# A missed case costs 150, a false alarm 50, a deferral 20; 30 % are positive, and errors are 1.4
# times as frequent among them and 0.8 times as frequent among the others as the world says.
COSTS, DEFER = np.array([50.0, 150.0]), 20.0
POSITIVE, FACTORS = 0.3, np.array([0.8, 1.4])
FIXED = 0.8
DESIGNS = ((50, None), (100, None), (300, None), (50, 0.4), (100, 0.4))
CELLS = [
    (world, n_patients, icc, share)
    for world in WORLDS[:2]
    for n_patients, icc in DESIGNS
    for share in (POSITIVE, 0.1)
]


@dataclass(frozen=True)
class Cell:
    """Mean costs per row over the runs of a world, and how often intervals hold the truth.

    ``standard_error`` is that of the mean of cross-fitted cost − truth, over the truth.
    """

    world: str
    icc: float | None
    n_patients: int
    share: float
    truth: float
    cross_fitted: float
    in_sample: float
    covers_all: float
    covers_fixed: float
    covers_fitted: float
    standard_error: float

    def line(self) -> str:
        """Return the cell as a row of a Markdown table."""
        rows = "1" if self.icc is None else f"{ROWS_PER_PATIENT}, ICC {self.icc}"
        off = [f"{value:.2f} ({100 * (value / self.truth - 1):+.1f} %)" for value in self.means]
        off.insert(1, f"{100 * self.standard_error:.1f} %")
        held = (self.covers_all, self.covers_fixed, self.covers_fitted)
        words = [*off, *(f"{100 * value:.1f} %" for value in held)]
        place = f"{self.world} | {rows} | {self.n_patients} | {self.share:g}"
        return f"| {place} | {self.truth:.2f} | {' | '.join(words)} |"

    @property
    def means(self) -> tuple[float, float]:
        """The estimates that stand beside the truth."""
        return self.cross_fitted, self.in_sample


def true_cost(world: World, threshold: float | None, share: float) -> float:
    """Return the expected cost per row of answering from a threshold on."""
    thresholds, coverage, risk = world.truth()
    if threshold is None:
        return DEFER
    place = int(np.searchsorted(-thresholds, -threshold, side="right")) - 1
    per_error = float(np.array([1 - share, share]) @ (COSTS * FACTORS))
    if place < 0:
        return DEFER
    return float(coverage[place] * (risk[place] * per_error - DEFER) + DEFER)


def drawn(
    world: World, rng: np.random.Generator, shape: tuple[int, int], icc: float
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Return scores, classes and costs of answering, patients × rows, as `benchmarks.certify`."""
    level = rng.choice(CONFIDENCE.size, shape, p=SHARES)
    score = CONFIDENCE[level] + (rng.uniform(0, SPREAD, shape) if world.distinct else 0.0)
    place = rng.random(shape)
    if icc:
        place = np.where(rng.random(shape) < math.sqrt(icc), rng.random((shape[0], 1)), place)
    positive = (rng.random(shape) < POSITIVE).astype(np.int64)
    wrong = place < world.error(score, level) * FACTORS[positive]
    return score.ravel(), positive.ravel(), (wrong * COSTS[positive]).ravel()


def simulated(world: World, n_patients: int, icc: float | None, share: float, n_runs: int) -> Cell:
    """Draw runs, price each, and compare with the truth."""
    label = f"{world.name} {icc} {n_patients} {share}"
    rng = np.random.default_rng(zlib.crc32(label.encode()))
    shape = (n_patients, 1 if icc is None else ROWS_PER_PATIENT)
    patient = np.repeat(np.arange(n_patients), shape[1])
    found = []
    while len(found) < n_runs:
        score, positive, answering = drawn(world, rng, shape, icc or 0.0)
        moved = share != POSITIVE
        if moved and positive.sum() in (0, positive.size):
            continue
        population = Population(
            Units(patient, n_patients),
            positive if moved else np.zeros_like(positive),
            np.array([1 - share, share]) if moved else np.ones(1),
            ("0", "1") if moved else (),
        )
        extra = population.weights * (answering - DEFER)
        best = best_threshold(score, extra)
        masks = {
            "all": np.ones(score.size, dtype=np.bool_),
            "fixed": accepts(score, FIXED),
            "fitted": cross_fitted(score, extra, patient, n_folds=10, seed=len(found)),
            "in-sample": accepts(score, best),
        }
        costs = {name: np.where(mask, answering, DEFER) for name, mask in masks.items()}
        truths = {"all": true_cost(world, 0.0, share), "fixed": true_cost(world, FIXED, share)}
        truths["fitted"] = true_cost(world, best, share)
        intervals = population.intervals(
            {name: Quantity(costs[name], 0.0, COSTS.max()) for name in truths},
            BootstrapOptions(1000, seed=len(found)),
        )
        held = [
            intervals[name].low <= truth <= intervals[name].high for name, truth in truths.items()
        ]
        means = [population.mean(costs[name]) for name in ("fitted", "in-sample")]
        found.append([truths["fitted"], *means, *held])
    runs = np.array(found, dtype=float)
    spread = float(np.std(runs[:, 1] - runs[:, 0])) / math.sqrt(n_runs)
    means = runs.mean(axis=0).tolist()
    return Cell(world.name, icc, n_patients, share, *means, spread / means[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1000)
    asked = parser.parse_args()
    print(
        "| world | rows per patient | patients | share | true cost | cross-fitted | its "
        "standard error | in-sample | holds: answer all | holds: fixed threshold | "
        "holds: cross-fitted |\n" + "|---" * 11 + "|"
    )
    for world, n_patients, icc, share in CELLS:
        print(simulated(world, n_patients, icc, share, asked.runs).line(), flush=True)


if __name__ == "__main__":
    main()

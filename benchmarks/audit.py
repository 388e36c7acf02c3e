"""How often `krisis audit` flags a group, with and without a difference, over simulated runs."""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks.certify import CONFIDENCE, ERRORS, SHARES
from krisis.decisions.run_sample import ScoreOptions
from krisis.decisions.sample import Sample
from krisis.statistics.group_gaps import holm
from krisis.verbs.audit.groups import ALPHA, GroupOptions, Ratio, flag_tests, power_doubled

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

EQUAL = (67, 67, 67, 67, 66, 66)
UNEQUAL = (150, 100, 70, 40, 24, 16)
SITE = (20, 76, 76, 76, 76, 76)
ONE_OF_60 = (60, 68, 68, 68, 68, 68)


@dataclass(frozen=True)
class World:
    """Patients of six groups and how they are answered; the first group may have another risk.

    ``risk`` is the mean risk, ``slope`` how much it falls from the least to the most sure answer,
    ``coverage`` the share of rows answered in each group.
    """

    name: str
    sizes: Sequence[int] = EQUAL
    risk: float = 0.15
    slope: float = 0.2
    rows: Sequence[int] = (1, 1, 1, 1, 1, 1)
    icc: float = 0.0
    coverage: Sequence[float] = (0.9,) * 6
    discrete: bool = False
    within: bool = False
    factor: float = 1.0

    def draw(self, rng: np.random.Generator) -> tuple[Sample, list[BoolArray]]:
        """Return the rows of a run, and those of every group."""
        group = np.repeat(np.arange(6), self.sizes)
        patient = np.repeat(np.arange(group.size), np.asarray(self.rows)[group])
        group = group[patient]
        n = patient.size
        level = rng.choice(CONFIDENCE.size, n, p=SHARES)
        place = rng.random(n)
        score = CONFIDENCE[level] if self.discrete else place
        risk = ERRORS[level] if self.discrete else self.risk + self.slope * (0.5 - place)
        if self.within:
            group = np.arange(n) % 6
        risk = np.where(group == 0, self.factor * risk, risk)
        chance = rng.random(n)
        if self.icc:
            own = rng.random(patient[-1] + 1)[patient]
            chance = np.where(rng.random(n) < math.sqrt(self.icc), own, chance)
        answered = rng.random(n) < np.asarray(self.coverage)[group]
        score = np.where(answered, score, math.nan)
        loss = np.where(answered, chance < risk, 0.0).astype(np.float64)
        sample = Sample(score, loss, patient, int(patient[-1]) + 1)
        return sample, [group == code for code in range(6)]


NULL_WORLDS = (
    World("equal groups"),
    World("unequal groups", UNEQUAL),
    World("coverage differs", UNEQUAL, coverage=(0.95, 0.5, 0.9, 0.6, 1.0, 1.0)),
    World("discrete confidence", discrete=True),
    World("good model", risk=0.03, slope=0.04),
    World("confidence says nothing", UNEQUAL, slope=0.0),
    World("clusters of 4", rows=(4,) * 6, icc=0.4),
    World("clusters, confidence says nothing", UNEQUAL, rows=(4,) * 6, icc=0.4, slope=0.0),
    World("clusters in one group only", UNEQUAL, rows=(1, 1, 1, 8, 1, 1), icc=0.4),
    World("large clusters in one group only", SITE, rows=(20, 1, 1, 1, 1, 1), icc=0.4),
    World("groups within patients", rows=(6,) * 6, icc=0.4, within=True),
)
DOUBLED_WORLDS = tuple(
    World(name, ONE_OF_60, risk=risk, slope=slope, factor=2.0, rows=(rows,) * 6, icc=icc)
    for name, risk, slope, rows, icc in (
        ("risk 0.10", 0.10, 0.1, 1, 0.0),
        ("risk 0.15", 0.15, 0.2, 1, 0.0),
        ("risk 0.20", 0.20, 0.2, 1, 0.0),
        ("risk 0.15, confidence says nothing", 0.15, 0.0, 1, 0.0),
        ("risk 0.15, clusters of 4", 0.15, 0.2, 4, 0.4),
    )
)


def risk_of(sample: Sample) -> Ratio:
    """Return the risk of all answers."""
    answered = ~np.isnan(sample.score)
    return Ratio("risk", sample, sample.loss * answered, answered)


def flags(sample: Sample, parts: Sequence[BoolArray], n_draws: int, seed: int) -> BoolArray:
    """Return which groups are flagged by a higher risk (first row) and a rising one (second).

    A few draws come first: where no p-value of theirs is below 0.03, all draws would flag nothing.
    """
    found, risk = np.zeros((2, len(parts)), dtype=np.bool_), risk_of(sample)
    for n in (199, n_draws):
        options = GroupOptions(score=ScoreOptions(seed=seed), n_draws=n)
        gaps = risk.gap_tests(parts, options)
        tests = [flag_tests(risk, gaps, at, rows, options) for at, rows in enumerate(parts)]
        p = [[one.p_higher_risk for one in tests], [one.p_rise for one in tests]]
        if np.nanmin(p) > 0.03:
            break
        found = np.asarray(holm(np.ravel(p)) <= ALPHA).reshape(2, -1)
    return found


def simulate(world: World, n_runs: int, n_draws: int, seed: int = 0) -> dict[str, float]:
    """Return how often runs of a world are flagged, and the power that is stated."""
    n_any = n_higher = n_rising = n_first = 0
    stated = []
    for run in range(n_runs):
        rng = np.random.default_rng([seed, run])
        sample, parts = world.draw(rng)
        found = flags(sample, parts, n_draws, int(rng.integers(2**31)))
        n_any, n_higher = n_any + bool(found.any()), n_higher + bool(found[0].any())
        n_rising, n_first = n_rising + bool(found[1].any()), n_first + bool(found[0, 0])
        n_tests = 2 * sum(np.unique(sample.patient[rows]).size >= 20 for rows in parts)
        stated.append(power_doubled(risk_of(sample), parts[0], ALPHA / n_tests)[0])
    return {
        "flagged": n_any / n_runs,
        "higher": n_higher / n_runs,
        "rising": n_rising / n_runs,
        "first_group": n_first / n_runs,
        "stated_power": float(np.mean(stated)),
        "standard_error": math.sqrt(n_first / n_runs * (1 - n_first / n_runs) / n_runs),
    }


def main() -> None:
    """Print one line a world."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--draws", type=int, default=1999)
    parser.add_argument("--only", default="", help="worlds whose name holds this")
    parser.add_argument("--output", type=Path)
    chosen = parser.parse_args()
    found = {}
    for world in (*NULL_WORLDS, *DOUBLED_WORLDS):
        if chosen.only in world.name:
            start = time.perf_counter()
            found[world.name] = simulate(world, chosen.runs, chosen.draws)
            shown = ", ".join(f"{key} {value:.4f}" for key, value in found[world.name].items())
            seconds = time.perf_counter() - start
            print(f"{world.name}: {shown} ({seconds:.0f} s)", flush=True)
    if chosen.output:
        chosen.output.write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()

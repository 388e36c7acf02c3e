"""How often `krisis certify` breaks its promise, and how much it accepts, over simulated runs."""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from krisis.decisions.sample import Sample, find_threshold
from krisis.decisions.verify import Promise

FloatArray = NDArray[np.float64]
Generator = np.random.Generator

RISK, DELTA = 0.15, 0.10
CONFIDENCE = np.array([0.95, 0.9, 0.85, 0.8, 0.75, 0.7, 0.6, 0.5])
SHARES = np.array([0.10, 0.12, 0.16, 0.14, 0.15, 0.10, 0.11, 0.12])
ERRORS = np.array([0.05, 0.07, 0.13, 0.16, 0.25, 0.28, 0.39, 0.525])
FLAT_ERROR = 0.1501
# Distinct scores lie up to this far above their level; the error is linear between the levels.
SPREAD = 0.02
ROWS_PER_PATIENT = 8
SIZES = (100, 300, 1000)
DESIGNS: tuple[float | None, ...] = (None, 0.1, 0.4)  # ICC of clusters; None: one row per patient
_N_TRUTH = 2_000_000


@dataclass(frozen=True)
class World:
    """How scores and errors come about; ``errors`` are those at the levels of confidence."""

    name: str
    distinct: bool
    flat_error: float | None = None
    interpolated: bool = True

    def draw(self, rng: Generator, shape: tuple[int, int], icc: float) -> tuple[FloatArray, ...]:
        """Return scores and losses of patients × rows.

        Errors of one patient are correlated by copying: with probability √ICC a row takes the
        patient's own place between 0 and 1 in place of one of its own, and it is an error where
        that place lies below the error rate of its score. Margins are kept, and the correlation
        of two rows with one error rate is the ICC.
        """
        level = rng.choice(CONFIDENCE.size, shape, p=SHARES)
        score = CONFIDENCE[level] + (rng.uniform(0, SPREAD, shape) if self.distinct else 0.0)
        place = rng.random(shape)
        if icc:
            place = np.where(rng.random(shape) < math.sqrt(icc), rng.random((shape[0], 1)), place)
        return score, (place < self.error(score, level)).astype(np.float64)

    def error(self, score: FloatArray, level: NDArray[np.int64]) -> FloatArray:
        """Return the chance of an error."""
        if self.flat_error is not None:
            return np.full(score.shape, self.flat_error)
        if self.distinct and self.interpolated:
            return np.interp(-score, -CONFIDENCE, ERRORS)
        return ERRORS[level]

    @lru_cache  # noqa: B019 - a handful of worlds
    def truth(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Return thresholds from strict to lax with their true coverage and risk."""
        rng = np.random.default_rng(7)
        if not self.distinct:
            errors = self.error(CONFIDENCE, np.arange(CONFIDENCE.size))
            coverage = np.cumsum(SHARES)
            return CONFIDENCE, coverage, np.cumsum(SHARES * errors) / coverage
        level = rng.choice(CONFIDENCE.size, _N_TRUTH, p=SHARES)
        score = CONFIDENCE[level] + rng.uniform(0, SPREAD, _N_TRUTH)
        order = np.argsort(-score)
        chance = self.error(score, level)[order]
        n = np.arange(1, _N_TRUTH + 1)
        return score[order], n / _N_TRUTH, np.cumsum(chance) / n


WORLDS = (
    World("reference", distinct=False),
    World("distinct", distinct=True),
    World("flat", distinct=False, flat_error=FLAT_ERROR),
    World("flat, distinct", distinct=True, flat_error=FLAT_ERROR),
    World("reference, ties broken at random", distinct=True, interpolated=False),
)
# Of the thresholds that the fixed sequence accepts, a certificate recommends the cheapest
# (here every error costs 1); `any` is the accepted one of the highest true risk.
METHODS = ("laxest", "cheapest", "any", "sgr", "naive")
PRICE = 0.2


@dataclass(frozen=True)
class Cell:
    """One method in one world, at one number of patients."""

    world: str
    icc: float | None
    n_patients: int
    method: str
    n_runs: int
    violations: float
    coverage: float
    none: float

    @property
    def limit(self) -> float:
        """The largest share of violations that is compatible with delta: 2 standard errors."""
        return DELTA + 2 * math.sqrt(DELTA * (1 - DELTA) / self.n_runs)


def naive(sample: Sample) -> float | None:
    """Return the laxest threshold whose empirical risk is within the bound."""
    curve = sample.candidates
    within = np.flatnonzero(curve.loss_sum <= RISK * curve.n_accepted)
    return float(curve.threshold[within[-1]]) if within.size else None


def sample_of(score: FloatArray, loss: FloatArray, seed: int) -> Sample:
    """Return a simulated run as the sample that is certified."""
    n, size = score.shape
    patient = np.repeat(np.arange(n), size)
    losses = loss.ravel()
    saved = PRICE - losses
    return Sample(score.ravel(), losses, patient, n, most_rows=size, seed=seed, saved=saved)


def cells(world: World, icc: float | None, n_patients: int, n_runs: int) -> list[Cell]:
    """Return what every method does in one world."""
    thresholds, coverage, risk = world.truth()
    label = f"{world.name} {icc} {n_patients}"
    rng = np.random.default_rng(zlib.crc32(label.encode()))
    shape = (n_patients, 1 if icc is None else ROWS_PER_PATIENT)
    chosen: dict[str, list[float]] = {method: [] for method in METHODS}
    for number in range(n_runs):
        sample = sample_of(*world.draw(rng, shape, icc or 0.0), number)
        sequence = find_threshold(sample, "fixed-sequence", RISK, DELTA)
        passed = [one.candidate for one in sequence.tests if one.passed]
        accepted = sequence.tested.candidates.threshold[passed]
        found_by = {
            "laxest": sequence.laxest_threshold,
            "cheapest": sequence.threshold,
            "any": max(accepted, key=lambda t: risk[_place(thresholds, t)], default=None),
            "sgr": find_threshold(sample, "sgr", RISK, DELTA).threshold,
            "naive": naive(sample),
        }
        for method, threshold in found_by.items():
            chosen[method].append(math.inf if threshold is None else float(threshold))
    result = []
    for method, found in chosen.items():
        # How many thresholds of the truth are at least as strict.
        place = np.searchsorted(-thresholds, -np.array(found), side="right") - 1
        some = place >= 0
        result.append(
            Cell(
                world.name,
                icc,
                n_patients,
                method,
                n_runs,
                violations=float((some & (risk[place] > RISK)).mean()),
                coverage=float(np.where(some, coverage[place], 0.0).mean()),
                none=float(np.isinf(found).mean()),
            )
        )
    return result


def _place(thresholds: FloatArray, threshold: float) -> int:
    """Return the place of the laxest threshold of the truth that is at least as strict."""
    return int(np.searchsorted(-thresholds, -threshold, side="right")) - 1


def all_cells(n_runs: int, worlds: Iterable[World] = WORLDS) -> Iterator[list[Cell]]:
    """Yield every cell of the table, a world at a time."""
    for world in worlds:
        for icc in DESIGNS:
            for n_patients in SIZES:
                yield cells(world, icc, n_patients, n_runs)


def verified(world: World, icc: float | None, n_patients: int, n_runs: int) -> dict[str, float]:
    """Certify runs and verify each certificate on as many fresh patients."""
    thresholds, _, risk = world.truth()
    rng = np.random.default_rng(zlib.crc32(f"verify {world.name} {icc} {n_patients}".encode()))
    shape = (n_patients, 1 if icc is None else ROWS_PER_PATIENT)
    counts = {"certified": 0, "true risk above": 0, "held": 0, "broken": 0, "cannot tell": 0}
    counts["broken although true"] = 0
    for number in range(n_runs):
        made_on = sample_of(*world.draw(rng, shape, icc or 0.0), number)
        found = find_threshold(made_on, "fixed-sequence", RISK, DELTA).threshold
        fresh = sample_of(*world.draw(rng, shape, icc or 0.0), number)
        if found is None:
            continue
        place = _place(thresholds, found)
        above = bool(place >= 0 and risk[place] > RISK)
        verdict, _ = Promise(found, RISK, DELTA).judged(fresh)
        counts["certified"] += 1
        counts["true risk above"] += above
        counts[verdict] += 1
        counts["broken although true"] += verdict == "broken" and not above
    return {name: count / n_runs for name, count in counts.items()}


def flat_coverage(n_patients: int, error: float, n_runs: int) -> float:
    """Return the mean certified coverage where the confidence says nothing of the errors."""
    world = World("uninformative", distinct=True, flat_error=error)
    rng = np.random.default_rng(11)
    found = 0.0
    for number in range(n_runs):
        sample = sample_of(*world.draw(rng, (n_patients, 1), 0.0), number)
        certified = find_threshold(sample, "fixed-sequence", RISK, DELTA).laxest_threshold
        found += float(sample.accepts(certified).mean())
    return found / n_runs


def reasons(world: World, n_patients: int, n_runs: int) -> dict[str, float]:
    """Return how many runs have no threshold, and how many are told that no size helps."""
    rng = np.random.default_rng(zlib.crc32(f"why {world.name} {n_patients}".encode()))
    counts = {"none": 0, "no size helps": 0}
    for number in range(n_runs):
        sample = sample_of(*world.draw(rng, (n_patients, 1), 0.0), number)
        found = find_threshold(sample, "fixed-sequence", RISK, DELTA)
        if found.threshold is None:
            counts["none"] += 1
            counts["no size helps"] += found.exceeds_everywhere()
    return {name: count / n_runs for name, count in counts.items()}


def table(found: Iterable[Cell]) -> str:
    """Return the cells as Markdown, methods side by side."""
    lines = [
        "| world | rows per patient | patients | " + " | ".join(METHODS) + " |",
        "|---|---|---|" + "---|" * len(METHODS),
    ]
    rows: dict[tuple[str, float | None, int], list[str]] = {}
    for cell in found:
        words = f"{100 * cell.violations:.1f} % · {cell.coverage:.3f}"
        rows.setdefault((cell.world, cell.icc, cell.n_patients), []).append(words)
    for (world, icc, n_patients), words in rows.items():
        design = "1" if icc is None else f"{ROWS_PER_PATIENT}, ICC {icc}"
        lines.append(f"| {world} | {design} | {n_patients} | {' | '.join(words)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=4000)
    parser.add_argument("--world", default="", help="only the world of this name")
    parser.add_argument("--verify", action="store_true", help="verify on fresh patients instead")
    parser.add_argument("--output", type=Path)
    asked = parser.parse_args()
    if asked.verify:
        for world in WORLDS[:3]:
            for icc in DESIGNS[::2]:
                print(world.name, icc, verified(world, icc, 300, asked.runs), flush=True)
        return
    found: list[Cell] = []
    start = time.perf_counter()
    for fresh in all_cells(asked.runs, [w for w in WORLDS if asked.world in ("", w.name)]):
        found += fresh
        print(f"{time.perf_counter() - start:.0f} s  {fresh[0]}", file=sys.stderr, flush=True)
        if asked.output:
            asked.output.write_text(json.dumps([asdict(c) for c in found], indent=1))
    print(table(found))


if __name__ == "__main__":
    main()

"""How often the intervals of AUROC and average precision contain the truth.

In the first worlds the scores of cases with and without the disease are normal, apart by what the
true AUROC asks for; with clusters a share ICC of their variance is the patient's. In the others a
model answers with a confidence on ten levels, and every patient has an error rate of their own.
"""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass, replace
from statistics import fmean

import numpy as np
from scipy import special

from krisis.metrics.base import EvaluationResult
from krisis.metrics.discrimination import Ranking
from krisis.metrics.table import Table
from krisis.statistics import ranking
from krisis.statistics.bootstrap import BootstrapOptions
from krisis.statistics.intervals import Interval

N_TRUTH = 400_000
FIGURES = {
    "AUROC": (ranking.auroc, ranking.auroc_interval),
    "AUPRC": (ranking.average_precision, ranking.average_precision_interval),
}


@dataclass(frozen=True)
class World:
    """Patients with rows each, the share of positive rows, the true AUROC and the levels stated."""

    patients: int
    rows: int
    area: float
    positives: float = 0.5
    icc: float = 0.0
    levels: int = 0
    labels_by_patient: bool = False

    def draw(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return scores, which rows are positive, and patients."""
        n = self.patients * self.rows
        patient = np.repeat(np.arange(self.patients), self.rows)
        drawn = rng.random(self.patients)[patient] if self.labels_by_patient else rng.random(n)
        positive = drawn < self.positives
        shared = rng.standard_normal(self.patients)[patient]
        noise = math.sqrt(self.icc) * shared
        noise += math.sqrt(1 - self.icc) * rng.standard_normal(n)
        score = noise + math.sqrt(2) * special.ndtri(self.area) * positive
        return self.stated(score), positive, patient

    def stated(self, score: np.ndarray) -> np.ndarray:
        """Return the scores as stated: as they are, or rounded to a few levels."""
        if not self.levels:
            return score
        return np.clip(np.round(score), -1, self.levels - 2)

    def truths(self) -> dict[str, float]:
        """Return the figures of a run so long that chance plays hardly a part."""
        large = replace(self, patients=N_TRUTH, rows=1, icc=0.0, labels_by_patient=False)
        score, positive, _ = large.draw(np.random.default_rng(1))
        return {name: ranking_of(score, positive, name).value() for name in FIGURES}


@dataclass(frozen=True)
class Answered:
    """Patients with rows each, answered with a confidence; positives may be missed more often."""

    patients: int
    rows: int
    error: float
    missed: float
    positives: float = 0.5
    icc: float = 0.0
    errors_more_confident: bool = False
    labels_by_patient: bool = False

    def draw(self, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return P(positive), which rows are positive, and patients."""
        n = self.patients * self.rows
        patient = np.repeat(np.arange(self.patients), self.rows)
        drawn = rng.random(self.patients)[patient] if self.labels_by_patient else rng.random(n)
        positive = drawn < self.positives
        rate = np.full(self.patients, self.error)
        if self.icc:
            spread = (1 - self.icc) / self.icc
            rate = rng.beta(spread * self.error, spread * (1 - self.error), self.patients)
        chance = rate[patient] * np.where(positive, self.missed / self.error, 1.0)
        wrong = rng.random(n) < chance
        sure = rng.beta(5, 1.5, n), rng.beta(3, 2, n)
        confidence = 0.5 + np.where(wrong != self.errors_more_confident, sure[1], sure[0]) / 2
        confidence = np.round(confidence * 20) / 20
        return np.where(positive != wrong, confidence, 1 - confidence).round(12), positive, patient

    def truths(self) -> dict[str, float]:
        """Return the figures of a run so long that chance plays hardly a part."""
        large = replace(self, patients=N_TRUTH // self.rows)
        score, positive, _ = large.draw(np.random.default_rng(1))
        return {name: ranking_of(score, positive, name).value() for name in FIGURES}


def ranking_of(score: np.ndarray, positive: np.ndarray, name: str) -> Ranking:
    """Return the form of a figure of all rows."""
    figure, interval = FIGURES[name]
    everyone = np.ones(score.size, np.bool_)
    return Ranking(score, positive, among=everyone, figure=figure, interval=interval)


WORLDS: list[World | Answered] = [
    *(World(n, 1, area) for n in (40, 100, 300) for area in (0.6, 0.85, 0.97)),
    *(World(n, 1, 0.9, positives=0.12) for n in (60, 200)),
    World(60, 1, 0.85, levels=5),
    World(200, 1, 0.97, levels=5),
    *(World(c, 8, area, icc=icc) for c in (15, 40) for area in (0.7, 0.93) for icc in (0.1, 0.4)),
    World(40, 8, 0.85, icc=0.4, labels_by_patient=True),
    World(25, 4, 0.9, positives=0.3, icc=0.3, labels_by_patient=True, levels=5),
    World(6, 50, 0.85, icc=0.2),
    Answered(400, 1, 0.06, 0.1, positives=0.03),
    Answered(400, 1, 0.06, 0.25, positives=0.03),
    Answered(1000, 1, 0.05, 0.25, positives=0.02),
    Answered(150, 1, 0.06, 0.2, positives=0.1),
    Answered(60, 1, 0.01, 0.01),
    Answered(100, 1, 0.1, 0.1),
    Answered(50, 1, 0.1, 0.1, errors_more_confident=True),
    Answered(160, 1, 0.1, 0.1, errors_more_confident=True),
    Answered(200, 2, 0.08, 0.08, icc=0.9),
    Answered(20, 8, 0.05, 0.05, icc=0.3),
    Answered(50, 8, 0.06, 0.2, positives=0.05, icc=0.3),
    Answered(50, 8, 0.05, 0.25, positives=0.05, icc=0.2, labels_by_patient=True),
    Answered(8, 40, 0.06, 0.2, positives=0.1, icc=0.4),
    Answered(6, 50, 0.05, 0.05, icc=0.4),
    Answered(3, 30, 0.15, 0.15, icc=0.2),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--first", type=int, default=0, help="number of the first world")
    asked = parser.parse_args()
    print("| world | figure | truth | coverage % | mean width |\n|---|---|---|---|---|", flush=True)
    for number, world in enumerate(WORLDS[asked.first :], asked.first):
        rng, truths = np.random.default_rng(number), world.truths()
        found: dict[str, list[Interval]] = {name: [] for name in FIGURES}
        for _ in range(asked.runs):
            score, positive, patient = world.draw(rng)
            if positive.all() or not positive.any():
                continue
            table = Table([EvaluationResult(1, 1, cluster_id=str(one)) for one in patient])
            for name, intervals in found.items():
                form = ranking_of(score, positive, name)
                intervals.append(form.uncertainty(table, BootstrapOptions()).interval)
        for name, intervals in found.items():
            truth = truths[name]
            held = sum(one.low <= truth <= one.high for one in intervals) / len(intervals)
            width = fmean(one.high - one.low for one in intervals)
            print(
                f"| {world} | {name} | {truth:.3f} | {100 * held:.1f} | {width:.3f} |", flush=True
            )


if __name__ == "__main__":
    main()

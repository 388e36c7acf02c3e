"""Two intervals of the AUROC in simulated worlds: Newcombe's on the effective size, and DeLong's.

Scores of cases with and without the disease are normal, apart by what the true AUROC asks for;
with clusters a share ICC of their variance is the patient's. Both methods know of patients: the
variance is Obuchowski's.
"""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass
from statistics import fmean

import numpy as np
from scipy import special, stats

from krisis.metrics.base import EvaluationResult
from krisis.metrics.discrimination import Ranking
from krisis.metrics.forms import prior_icc
from krisis.metrics.table import Table
from krisis.statistics import ranking
from krisis.statistics.intervals import Interval

LEVEL = 0.95


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

    def truth(self) -> float:
        """Return the true AUROC of what is stated."""
        if not self.levels:
            return self.area
        rng = np.random.default_rng(1)
        scores = [
            self.stated(rng.standard_normal(10**6) + shift)
            for shift in (math.sqrt(2) * special.ndtri(self.area), 0.0)
        ]
        return float(stats.mannwhitneyu(*scores).statistic) / 10**12


def delong(value: float, patients: ranking.RankedPatients) -> Interval:
    """Return Student's interval of logit A, with the variance by patient."""
    variance = patients.variance()
    if not 0 < value < 1 or variance == 0:
        return Interval.undefined("a perfect ranking has no variance", level=LEVEL)
    error = math.sqrt(variance) / (value * (1 - value))
    t = float(special.stdtrit(min(patients.n_positive, patients.n_negative) - 1, 0.5 + LEVEL / 2))
    ends = special.expit(special.logit(value) + np.array([-1, 1]) * t * error)
    return Interval(float(ends[0]), float(ends[1]), LEVEL, "delong")


WORLDS = [
    *(World(n, 1, area) for n in (40, 100, 300) for area in (0.6, 0.85, 0.97)),
    *(World(n, 1, 0.9, positives=0.12) for n in (60, 200)),
    World(60, 1, 0.85, levels=5),
    World(200, 1, 0.97, levels=5),
    *(World(c, 8, area, icc=icc) for c in (15, 40) for area in (0.7, 0.93) for icc in (0.1, 0.4)),
    World(40, 8, 0.85, icc=0.4, labels_by_patient=True),
    World(25, 4, 0.9, positives=0.3, icc=0.3, labels_by_patient=True, levels=5),
    World(6, 50, 0.85, icc=0.2),
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1000)
    asked = parser.parse_args()
    print(
        "| world | method | coverage % | exists % | mean width |\n|---|---|---|---|---|", flush=True
    )
    for number, world in enumerate(WORLDS):
        rng, truth = np.random.default_rng(number), world.truth()
        found: dict[str, list[Interval]] = {"newcombe": [], "delong": []}
        for _ in range(asked.runs):
            score, positive, patient = world.draw(rng)
            if positive.all() or not positive.any():
                continue
            rows = [EvaluationResult(1, 1, cluster_id=str(one)) for one in patient]
            table = Table(rows)
            form = Ranking(
                score,
                positive,
                among=np.ones(score.size, np.bool_),
                figure=ranking.auroc,
                interval=ranking.auroc_interval,
            )
            patients = form.patients(table)
            value = form.value()
            found["newcombe"].append(
                ranking.auroc_interval(value, patients, level=LEVEL, prior_icc=prior_icc(table))
            )
            found["delong"].append(delong(value, patients))
        for name, intervals in found.items():
            known = [one for one in intervals if one.defined]
            held = sum(one.low <= truth <= one.high for one in known)
            print(
                f"| {world} | {name} | {100 * held / len(intervals):.1f} | "
                f"{100 * len(known) / len(intervals):.1f} | "
                f"{fmean(one.high - one.low for one in known):.3f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()

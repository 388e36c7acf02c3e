"""Type I and family-wise error of paired comparisons, and their power next to other tests.

Two runs answer the same cases. Their errors share a difficulty per case, and with several rows per
patient a part of it per patient. Under the null both err equally often; otherwise the second is
better. Accuracy is the primary metric; the other metrics are adjusted together (max-T).
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy import special, stats

from krisis.metrics.base import EvaluationResult
from krisis.metrics.curve_form import CurveFigure, CurvePlan
from krisis.metrics.paired import Exchanges, paired_differences
from krisis.metrics.scoring import metrics_from_names
from krisis.metrics.table import Answers, Table
from krisis.metrics.weighted_curve import area_key

HALF = CurvePlan(cuts=(0.5,))
AUGRC_HALF = area_key("augrc", 0.5)
ALPHA = 0.05


@dataclass(frozen=True)
class World:
    """Patients with rows each, the error rates of both runs, and how alike a patient's rows are.

    ``known`` is the correlation of confidence with the ease of a row.
    """

    patients: int
    rows: int
    errors: tuple[float, float]
    icc: float = 0.0
    shared: float = 0.5
    known: float = 0.8

    def draw(self, rng: np.random.Generator) -> tuple[Table, Table]:
        """Return both runs; confidence knows something of which rows are wrong."""
        n = self.patients * self.rows
        patient = np.repeat(np.arange(self.patients), self.rows)
        of_patient = rng.standard_normal(self.patients)[patient]
        of_case = np.sqrt(self.icc) * of_patient + np.sqrt(1 - self.icc) * rng.standard_normal(n)
        found = []
        for error in self.errors:
            own = rng.standard_normal(n)
            difficulty = np.sqrt(self.shared) * of_case + np.sqrt(1 - self.shared) * own
            wrong = difficulty > special.ndtri(1 - error)
            felt = np.sqrt(1 - self.known**2) * rng.standard_normal(n) - self.known * difficulty
            stated = np.round(special.ndtr(felt), 1)
            rows = [
                EvaluationResult(
                    int(w), 0, confidence=float(c), cluster_id=str(p), record_id=str(i)
                )
                for i, (w, c, p) in enumerate(zip(wrong, 0.5 + stated / 2, patient, strict=True))
            ]
            found.append(Table(rows, Answers((0, 1), positive=1)))
        return found[0], found[1]


NULL = [
    World(60, 1, (0.2, 0.2)),
    World(200, 1, (0.2, 0.2)),
    World(200, 1, (0.03, 0.03)),
    World(15, 8, (0.2, 0.2), icc=0.3),
    World(40, 8, (0.1, 0.1), icc=0.3),
]
BETTER = [World(200, 1, (0.2, 0.12)), World(40, 8, (0.2, 0.12), icc=0.2)]
# Here confidence knows little of errors, so that many are in the half that AUGRC@.5 looks at.
AREA = [
    World(200, 1, (0.3, 0.12), known=0.3),
    World(200, 1, (0.21, 0.21), known=0.3),
    World(40, 8, (0.3, 0.15), icc=0.2, known=0.3),
    World(40, 8, (0.225, 0.225), icc=0.2, known=0.3),
]


def compared(world: World, n_runs: int) -> Iterator[dict[str, float]]:
    """Yield the p-values of every run: each alone, the smallest adjusted one, and McNemar's."""
    rng = np.random.default_rng(world.patients * world.rows)
    metrics = {m.key: m.comparison_form for m in metrics_from_names(["default", "selective"])}
    for number in range(n_runs):
        left, right = world.draw(rng)
        exchanges = Exchanges(499, number)
        found, _ = paired_differences(left, right, metrics, exchanges=exchanges, primary="accuracy")
        others = [one.p_adjusted for key, one in found.items() if key != "accuracy"]
        b = int((left.correct & ~right.correct).sum())
        c = int((right.correct & ~left.correct).sum())
        yield {
            "accuracy": found["accuracy"].p_value,
            "family": min(others),
            "mcnemar": stats.binomtest(b, b + c).pvalue if b + c else 1.0,
            **{f"alone {key}": one.p_value for key, one in found.items() if key != "accuracy"},
        }


def areas_compared(world: World, n_runs: int) -> Iterator[dict[str, float]]:
    """Yield the p-value of AUGRC@.5, and whether the seed's percentile bootstrap excludes 0."""
    rng = np.random.default_rng(world.patients * world.rows)
    cut = {AUGRC_HALF: lambda table: CurveFigure(AUGRC_HALF, table, HALF)}
    for number in range(n_runs):
        left, right = world.draw(rng)
        found = paired_differences(left, right, cut, exchanges=Exchanges(499, number))[0]
        yield {
            "augrc@.5": found[AUGRC_HALF].p_value,
            "percentile bootstrap": _percentile_p(left, right, rng),
        }


def _percentile_p(left: Table, right: Table, rng: np.random.Generator) -> float:
    """Return 0 where the percentile bootstrap of the difference in AUGRC@.5 excludes 0, else 1."""
    counts = rng.multinomial(left.patients.n, np.ones(left.patients.n) / left.patients.n, 400).T
    values = [
        CurveFigure(AUGRC_HALF, table, HALF).on(table.patients).values(counts.astype(np.float64))
        for table in (left, right)
    ]
    low, high = np.nanquantile(values[1] - values[0], [ALPHA / 2, 1 - ALPHA / 2])
    return 0.0 if low > 0 or high < 0 else 1.0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--only", choices=["better", "null", "area"])
    asked = parser.parse_args()
    sets = {"area": [*AREA, BETTER[0], NULL[1]], "better": BETTER, "null": NULL}
    for name, world in ((n, w) for n, ws in sets.items() if asked.only in (None, n) for w in ws):
        drawn = areas_compared if name == "area" else compared
        found = list(drawn(world, asked.runs))
        shares = {
            k: round(float(np.mean([f[k] <= ALPHA for f in found if k in f])), 3) for k in found[0]
        }
        print(world, shares, flush=True)


if __name__ == "__main__":
    main()

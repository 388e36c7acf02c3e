"""Decision Cost and Decision Skill of predictions with a confidence, by the price of deferring.

Cost: 0 for a right answer, 1 for a wrong one, the price for a deferral. A case is deferred where
the chance of being wrong, one minus the confidence, is at least the price. Skill is one minus the
cost over that of the best constant policy (always defer, or always the commonest answer); the cost
of an ideal reader is unknown on real people and taken as 0. Intervals: 95 %, percentiles of 2,000
bootstrap samples of people, the same for every reader.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from krisis.results.result import BenchmarkResult

N_DRAWS = 2000


@dataclass(frozen=True)
class DecisionSkill:
    """Cost and skill with their intervals, and the share of cases deferred."""

    n: int
    cost: float
    skill: float
    low: float
    high: float
    deferred: float

    def cells(self) -> str:
        return (
            f"{self.cost:.3f} | {self.skill:.3f} [{self.low:.3f}, {self.high:.3f}] | "
            f"{self.deferred:.2f} | {self.n:,}"
        ).replace("0.", ".")


def decision_skill(result: BenchmarkResult, price: float, *, seed: int = 0) -> DecisionSkill:
    """Return the skill of a run in which every case was answered, at a price of deferring."""
    rows = [row for row in result.evaluation_results if row.outcome == "answered"]
    assert len(rows) == len(result.evaluation_results), "ask with least_confidence=0"
    right = np.array([str(row.prediction) == str(row.ground_truth) for row in rows])
    confidence = np.array([row.confidence for row in rows], dtype=float)
    truth = np.array([str(row.ground_truth) for row in rows])
    deferred = 1.0 - confidence >= price - 1e-9
    cost = np.where(deferred, price, np.where(right, 0.0, 1.0))
    shares = np.stack([truth == answer for answer in np.unique(truth)], axis=1).astype(float)
    draws = np.random.default_rng(seed).integers(0, len(rows), (N_DRAWS, len(rows)))
    drawn = [_skill(cost[drawn], shares[drawn], price) for drawn in draws]
    low, high = np.percentile(drawn, [2.5, 97.5])
    skill = _skill(cost, shares, price)
    return DecisionSkill(
        len(rows), float(cost.mean()), skill, float(low), float(high), float(deferred.mean())
    )


def _skill(cost: npt.NDArray[np.float64], shares: npt.NDArray[np.float64], price: float) -> float:
    constant = min(price, 1.0 - shares.mean(axis=0).max())
    return float(1.0 - cost.mean() / constant) + 0.0 if constant > 0 else float("nan")

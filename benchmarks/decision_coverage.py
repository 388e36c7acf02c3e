"""How often the intervals of Decision Cost and Decision Skill hold the true value.

The population are patients of the embedded kidney cohort with their exact probabilities; each study
draws patients and, where the loss is not expected, their labels. Run
`python -m benchmarks.decision_coverage [--runs 1000]`; a thousand runs take about twenty minutes.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from krisis.data.base import SuiteConfig
from krisis.data.ckd.suite import CKDSuite
from krisis.metrics import (
    BootstrapOptions,
    DecisionCost,
    DecisionSkill,
    EvaluationResult,
    score_all,
)
from krisis.metrics.base import Rows
from krisis.metrics.table import Answers

PRICE = 0.2
DEFER = -1
Array = npt.NDArray[np.float64]
Decided = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Cell:
    """What the studies of one reader showed of one metric."""

    task: str
    reader: str
    n: int
    expected: bool
    metric: str
    truth: float
    covered: float
    n_studies: int
    standard_error: float
    width: float


def population(task: str, n_patients: int) -> Array:
    """Return the probability of each answer for patients of the cohort."""
    records = CKDSuite(SuiteConfig(task=task, n_synthetic=n_patients)).load()
    return np.array([list(one.metadata["answer_probabilities"].values()) for one in records])


def readers(chances: Array) -> dict[str, Decided]:
    """Return decisions: ideal, with small and large errors of judgement, and never deferring."""
    found = {"ideal": _decided(chances)}
    for name, noise in (("fine", 0.3), ("noisy", 1.0)):
        drawn = np.random.default_rng(7).normal(0.0, noise, chances.shape)
        judged = np.clip(chances, 1e-6, 1.0) * np.exp(drawn)
        judged /= judged.sum(axis=1, keepdims=True)
        found[name] = _decided(judged)
    found["never defers"] = judged.argmax(axis=1)
    return found


def _decided(chances: Array) -> Decided:
    return np.where(1.0 - chances.max(axis=1) >= PRICE, DEFER, chances.argmax(axis=1))


def truths(chances: Array, decided: Decided, *, expected: bool) -> dict[str, float]:
    """Return cost and skill of the whole population; without expected losses the ideal is 0."""
    loss = 1.0 - chances
    cost = np.where(decided == DEFER, PRICE, loss[np.arange(decided.size), decided]).mean()
    ideal = np.minimum(loss.min(axis=1), PRICE).mean() if expected else 0.0
    constant = min(PRICE, loss.mean(axis=0).min())
    return {"decision_cost": cost, "decision_skill": 1 - (cost - ideal) / (constant - ideal)}


def study(chances: Array, decided: Decided, drawn: Decided, *, expected: bool, seed: int) -> Rows:
    """Return the rows of one study of the drawn patients."""
    n_answers = chances.shape[1]
    generator = np.random.default_rng(seed)
    rows = []
    for number, patient in enumerate(drawn.tolist()):
        p = chances[patient] / chances[patient].sum()
        answer = int(decided[patient])
        known = {str(a): float(x) for a, x in enumerate(p)}
        rows.append(
            EvaluationResult(
                None if answer == DEFER else answer,
                int(generator.choice(n_answers, p=p)),
                answer == DEFER,
                metadata={"answer_probabilities": known} if expected else {},
                record_id=f"patient {number}",
            )
        )
    return Rows(rows, Answers(tuple(range(n_answers)), price=PRICE))


def simulated(
    task: str, *, sizes: tuple[int, ...] = (50, 200), runs: int = 300, n_patients: int = 3000
) -> Iterator[Cell]:
    """Yield what studies of every size and reader show, with and without expected losses."""
    chances = population(task, n_patients)
    options = BootstrapOptions(n_resamples=1000)
    for reader, decided in readers(chances).items():
        for n in sizes:
            for expected in (True, False):
                true = truths(chances, decided, expected=expected)
                generator = np.random.default_rng(n)
                found: dict[str, list[tuple[float, float, float]]] = {key: [] for key in true}
                for seed in range(runs):
                    drawn = generator.integers(0, decided.size, n)
                    rows = study(chances, decided, drawn, expected=expected, seed=seed)
                    metrics = DecisionCost(), DecisionSkill()
                    for score in score_all(metrics, rows, intervals=options).values():
                        if score.interval is not None and not math.isnan(score.value):
                            ends = score.interval.low, score.interval.high
                            found[score.key].append((score.value, *ends))
                for key, scores in found.items():
                    value, low, high = np.array(scores).T
                    held = (low - 1e-9 <= true[key]) & (true[key] <= high + 1e-9)
                    yield Cell(
                        task,
                        reader,
                        n,
                        expected,
                        key,
                        true[key],
                        float(held.mean()),
                        len(scores),
                        float(value.std()),
                        float((high - low).mean()),
                    )


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--task", default="detection,progression,outlook,albuminuria")
    asked = parser.parse_args()
    print("| task | reader | n | loss | metric | true | covered | standard error | width |")
    for task in asked.task.split(","):
        for cell in simulated(task, runs=asked.runs) if task != "nothing" else ():
            loss = "expected" if cell.expected else "drawn"
            print(
                f"| {cell.task} | {cell.reader} | {cell.n} | {loss} | {cell.metric} | "
                f"{cell.truth:.3f} | {cell.covered:.3f} of {cell.n_studies} | "
                f"{cell.standard_error:.4f} | {cell.width:.3f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()

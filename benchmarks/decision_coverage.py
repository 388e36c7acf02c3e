"""How often the intervals of Decision Cost and Decision Skill hold the true value.

The population are patients of the embedded cohorts of `ckd` and `phq8` with their exact
probabilities, or the 7,456 patients of `support2` whose physicians gave a forecast, with what
became of them; each study draws patients with all their rows and, where the loss is not expected,
the labels. Run
`python -m benchmarks.decision_coverage [--runs 1000]`; a thousand runs take about twenty minutes.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from krisis.data.base import SuiteConfig
from krisis.data.ckd.suite import CKDSuite
from krisis.data.phq8.suite import PHQ8Suite
from krisis.data.phq8.task import TASK as PHQ8
from krisis.data.support2.suite import Support2Suite
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


@dataclass(frozen=True)
class Population:
    """The probability of each answer of every case, the cases of each patient, what errors cost."""

    chances: Array
    cases_of: list[list[int]]
    answers: Answers
    judged: Mapping[str, Array] = field(default_factory=dict)  # by people and models who read them

    @property
    def losses(self) -> Array:
        """Return what is expected of every answer to every case."""
        return self.chances @ self.answers.loss_matrix(self.answers.keys)


def population(task: str, n_patients: int) -> Population:
    """Return the patients of a cohort: of `ckd` by the name of a task, or `phq8`."""
    config = SuiteConfig(n_synthetic=n_patients)
    if task == "support2":
        return _bedside()
    if task == "phq8":
        records = PHQ8Suite(config, split="all", cohort="clinic").load()
    else:
        records = CKDSuite(replace(config, task=task)).load()
    chances = np.array([list(one.metadata["answer_probabilities"].values()) for one in records])
    chances /= chances.sum(axis=1, keepdims=True)
    cases_of: dict[str, list[int]] = {}
    for number, record in enumerate(records):
        cases_of.setdefault(record.cluster_id or record.record_id, []).append(number)
    losses = PHQ8.losses if task == "phq8" else {}
    answers = Answers(tuple(range(chances.shape[1])), price=PRICE, losses=losses)
    return Population(chances, list(cases_of.values()), answers)


def _bedside() -> Population:
    """Return patients with their outcome, and how likely physician and SUPPORT model held it."""
    found = Support2Suite(SuiteConfig(task="two-months"), cases="all")
    outcomes = {record.record_id: int(record.label) for record in found.load()}
    said = {name: dict(judgements) for name, judgements in found.readers.items()}
    known = [one for one in outcomes if all(one in judgements for judgements in said.values())]
    chances = np.eye(2)[[outcomes[one] for one in known]]
    judged = {}
    for name, judgements in said.items():
        sure = np.array([judgements[one].confidence for one in known], dtype=float)
        dead = np.where([judgements[one].answer == 1 for one in known], sure, 1.0 - sure)
        judged[name] = np.stack([1.0 - dead, dead], axis=1)
    alone = [[number] for number in range(len(known))]
    return Population(chances, alone, Answers((0, 1), price=PRICE), judged)


def readers(people: Population) -> dict[str, Decided]:
    """Return decisions: ideal, with small and large errors of judgement, and never deferring.

    Of real people, those of the readers that they had.
    """
    if people.judged:
        by = {name: replace(people, chances=one) for name, one in people.judged.items()}
        never = {f"{name}, never defers": one.losses.argmin(axis=1) for name, one in by.items()}
        return {**{name: _decided(one) for name, one in by.items()}, **never}
    found = {"ideal": _decided(people)}
    for name, noise in (("fine", 0.3), ("noisy", 1.0)):
        drawn = np.random.default_rng(7).normal(0.0, noise, people.chances.shape)
        # Nobody is sure: a reader who errs gives even a certain answer some doubt.
        judged = np.clip(people.chances, 0.02 * noise, 1.0) * np.exp(drawn)
        judged /= judged.sum(axis=1, keepdims=True)
        found[name] = _decided(replace(people, chances=judged))
    found["never defers"] = replace(people, chances=judged).losses.argmin(axis=1)
    return found


def _decided(people: Population) -> Decided:
    losses = people.losses
    return np.where(losses.min(axis=1) >= PRICE, DEFER, losses.argmin(axis=1))


def truths(people: Population, decided: Decided, *, expected: bool) -> dict[str, float]:
    """Return cost and skill of the whole population; without expected losses the ideal is 0."""
    loss = people.losses
    cost = np.where(decided == DEFER, PRICE, loss[np.arange(decided.size), decided]).mean()
    ideal = np.minimum(loss.min(axis=1), PRICE).mean() if expected else 0.0
    constant = min(PRICE, loss.mean(axis=0).min())
    return {"decision_cost": cost, "decision_skill": 1 - (cost - ideal) / (constant - ideal)}


def study(
    people: Population, decided: Decided, drawn: Decided, *, expected: bool, seed: int
) -> Rows:
    """Return the rows of one study of the drawn patients."""
    n_answers = people.chances.shape[1]
    generator = np.random.default_rng(seed)
    rows = []
    for number, patient in enumerate(drawn.tolist()):
        for case in people.cases_of[patient]:
            p, answer = people.chances[case], int(decided[case])
            known = {str(a): float(x) for a, x in enumerate(p)}
            rows.append(
                EvaluationResult(
                    None if answer == DEFER else answer,
                    int(generator.choice(n_answers, p=p)),
                    answer == DEFER,
                    metadata={"answer_probabilities": known} if expected else {},
                    record_id=f"patient {number}, case {case}",
                    cluster_id=f"patient {number}",
                )
            )
    return Rows(rows, people.answers)


def simulated(
    task: str, *, sizes: tuple[int, ...] = (50, 200), runs: int = 300, n_patients: int = 3000
) -> Iterator[Cell]:
    """Yield what studies of every size and reader show, with and without expected losses."""
    people = population(task, n_patients)
    options = BootstrapOptions(n_resamples=1000)
    for reader, decided in readers(people).items():
        for n in sizes:
            for expected in (False,) if people.judged else (True, False):
                true = truths(people, decided, expected=expected)
                generator = np.random.default_rng(n)
                found: dict[str, list[tuple[float, float, float]]] = {key: [] for key in true}
                for seed in range(runs):
                    drawn = generator.integers(0, len(people.cases_of), n)
                    rows = study(people, decided, drawn, expected=expected, seed=seed)
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
    parser.add_argument("--task", default="detection,progression,albuminuria")
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

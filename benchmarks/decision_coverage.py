"""How often the intervals of cost, skill, cost saved and Deferral Skill hold the true value.

The population are patients of the embedded cohorts of `ckd` and `phq8` with their exact
probabilities, or the 7,456 patients of `support2` whose physicians gave a forecast, with what
became of them; each study draws patients with all their rows and, where the loss is not expected,
the labels. With `--rows 8` eight similar cases of `ckd` make one patient. Run
`python -m benchmarks.decision_coverage [--runs 1000]`; a thousand runs take about twenty minutes.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from krisis.costs import TOLERANCE
from krisis.data.base import BaseDataSuite, SuiteConfig
from krisis.data.ckd.suite import CKDSuite
from krisis.data.phq8.suite import PHQ8Suite
from krisis.data.support2.suite import Support2Suite
from krisis.metrics import (
    BootstrapOptions,
    CostSaved,
    DecisionCost,
    DecisionSkill,
    DeferralSkill,
    EvaluationResult,
    score_all,
)
from krisis.metrics.base import Rows
from krisis.metrics.table import Answers
from krisis.task_facts import OWN_PROBABILITIES

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
        return self.chances @ self.answers.cost_matrix(self.answers.keys)

    @property
    def price(self) -> float:
        """Return what a deferral costs."""
        return self.answers.costs.price


def population(task: str, n_patients: int, rows_per_patient: int = 1) -> Population:
    """Return the patients of a cohort: of `ckd` by the name of a task, or `phq8`."""
    config = SuiteConfig(n_synthetic=n_patients)
    if task == "support2":
        return _bedside()
    suite: BaseDataSuite
    if task == "phq8":
        suite = PHQ8Suite(config, split="all", cohort="clinic")
    else:
        suite = CKDSuite(replace(config, task=task))
    records = suite.load()
    chances = np.array([list(one.metadata["answer_probabilities"].values()) for one in records])
    chances /= chances.sum(axis=1, keepdims=True)
    people = Population(chances, [], _answers(suite))
    if rows_per_patient > 1:  # cases that are about as hard belong to one patient
        order = np.argsort(people.losses.min(axis=1), kind="stable")
        n = order.size // rows_per_patient
        return replace(people, cases_of=order[: n * rows_per_patient].reshape(n, -1).tolist())
    cases_of: dict[str, list[int]] = {}
    for number, record in enumerate(records):
        cases_of.setdefault(record.cluster_id or record.record_id, []).append(number)
    return replace(people, cases_of=list(cases_of.values()))


def _answers(suite: BaseDataSuite) -> Answers:
    return Answers(tuple(suite.task.answers), costs=suite.task.costs)


def _bedside() -> Population:
    """Return patients with their outcome, and how likely physician and SUPPORT model held it."""
    found = Support2Suite(SuiteConfig(task="two-months"), cases="all")
    outcomes = {record.record_id: int(record.label) for record in found.load()}
    said = {name: dict(judgements) for name, judgements in found.readers.items()}
    known = [one for one in outcomes if all(one in judgements for judgements in said.values())]
    chances = np.eye(2)[[outcomes[one] for one in known]]
    judged = {
        name: np.array([list(judgements[one].signals[OWN_PROBABILITIES].values()) for one in known])
        for name, judgements in said.items()
    }
    alone = [[number] for number in range(len(known))]
    return Population(chances, alone, _answers(found), judged)


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
    due = losses.min(axis=1) >= people.price - TOLERANCE
    return np.where(due, DEFER, losses.argmin(axis=1))


def truths(people: Population, decided: Decided, *, expected: bool) -> dict[str, float]:
    """Return the figures of the whole population, each patient weighing as their rows do."""
    cases = np.concatenate([np.array(one) for one in people.cases_of])
    loss, decided, price = people.losses[cases], decided[cases], people.price
    deferred, best = decided == DEFER, loss.min(axis=1)
    cost = np.where(deferred, price, loss[np.arange(decided.size), decided]).mean()
    constant = min(price, loss.mean(axis=0).min())
    found = {"decision_cost": cost, "cost_saved": 100 * (constant - cost)}
    if not expected:
        return found
    ideal = np.minimum(best, price).mean()
    due, safe = np.maximum(0.0, best - price), np.maximum(0.0, price - best)
    found["decision_skill"] = 1 - (cost - ideal) / (constant - ideal)
    found["deferral_skill"] = (
        1 - due[~deferred].sum() / due.sum() - safe[deferred].sum() / safe.sum()
    )
    return found


def study(
    people: Population, decided: Decided, drawn: Decided, *, expected: bool, seed: int
) -> Rows:
    """Return the rows of one study of the drawn patients."""
    answers = people.answers.allowed
    generator = np.random.default_rng(seed)
    rows = []
    for number, patient in enumerate(drawn.tolist()):
        for case in people.cases_of[patient]:
            p, answer = people.chances[case], int(decided[case])
            known = {str(a): float(x) for a, x in zip(answers, p, strict=True)}
            rows.append(
                EvaluationResult(
                    None if answer == DEFER else answers[answer],
                    answers[int(generator.choice(len(answers), p=p))],
                    answer == DEFER,
                    metadata={"answer_probabilities": known} if expected else {},
                    record_id=f"patient {number}, case {case}",
                    cluster_id=f"patient {number}",
                )
            )
    return Rows(rows, people.answers)


def simulated(
    task: str,
    *,
    sizes: tuple[int, ...] = (60, 200, 1000),
    runs: int = 300,
    n_patients: int = 3000,
    rows_per_patient: int = 1,
) -> Iterator[Cell]:
    """Yield what studies of every size and reader show, with and without expected losses."""
    people = population(task, n_patients, rows_per_patient)
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
                    metrics = DecisionCost(), CostSaved(), DecisionSkill(), DeferralSkill()
                    for score in score_all(metrics, rows, intervals=options).values():
                        if score.key in found and score.interval and score.interval.defined:
                            ends = score.interval.low, score.interval.high
                            found[score.key].append((score.value, *ends))
                for key, scores in found.items():
                    if not scores:
                        continue
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
    parser.add_argument("--rows", type=int, default=1)
    parser.add_argument("--sizes", default="60,200,1000")
    asked = parser.parse_args()
    how = {"runs": asked.runs, "rows_per_patient": asked.rows}
    sizes = tuple(map(int, asked.sizes.split(",")))
    print("| task | reader | n | loss | metric | true | covered | standard error | width |")
    for task in asked.task.split(","):
        for cell in simulated(task, sizes=sizes, **how) if task != "nothing" else ():
            loss = "expected" if cell.expected else "drawn"
            print(
                f"| {cell.task} | {cell.reader} | {cell.n} | {loss} | {cell.metric} | "
                f"{cell.truth:.3f} | {cell.covered:.3f} of {cell.n_studies} | "
                f"{cell.standard_error:.4f} | {cell.width:.3f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()

"""The answers that a run can give, which of them is the positive one, and what they cost."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from krisis.answers import Label
from krisis.cost_file import AnyCosts, stated_costs
from krisis.metrics.items import RunItems
from krisis.metrics.table import Answers, BoolArray
from krisis.results.what_if import acts_by_probabilities, rows_at


def answers_of(run: RunItems) -> list[Label]:
    """Return the answers of the task and those seen, each once."""
    return list(dict.fromkeys([*run.table.answers.keys, *run.table.labels]))


def positive_of(run: RunItems) -> Label | None:
    """Return the answer that means disease: that of the task, else 1 beside 0."""
    return run.table.answers.positive_key(run.table.labels) if run.table.labels else None


def is_positive(run: RunItems) -> BoolArray:
    """True where the true answer is the positive one."""
    positive = positive_of(run)
    if positive not in run.table.labels:
        return np.zeros(run.n_items, dtype=np.bool_)
    return np.asarray(run.table.truth == run.table.labels.index(positive))


def with_costs(
    run: RunItems, costs: AnyCosts | None = None, price: float | None = None
) -> RunItems:
    """Return a run as if its task had these costs, or this price; as it is where none is given.

    Readers who were only asked for probabilities act by the new costs.
    """
    if costs is None and price is None:
        return run
    own = run.table.answers
    asked = stated_costs(own.costs, costs, price).over_seen(own, run.table.labels)
    return judged_by(run, replace(own, costs=asked))


def judged_by(run: RunItems, answers: Answers) -> RunItems:
    """Return a run by the answers and the costs of another one of the same cases."""
    own, columns = run.table.answers, run.table.columns
    same = own.costs.same(answers.costs) or not acts_by_probabilities(columns)
    if same and replace(own, costs=answers.costs) == answers:
        return replace(run, table=run.table.with_answers(answers))
    return replace(run, table=rows_at(columns.rows, answers).table)


@dataclass(frozen=True, slots=True)
class DiseaseCounts:
    """What becomes of the diseased: found, told otherwise, or left for people; they add up."""

    n: int
    found: int
    told_otherwise: int
    left_for_people: int


def disease_counts(
    run: RunItems, answered: BoolArray, among: BoolArray | None = None
) -> DiseaseCounts | None:
    """Count the diseased where some rows are answered; None where no answer means disease."""
    if positive_of(run) is None:
        return None
    diseased = is_positive(run) if among is None else is_positive(run) & among
    found = diseased & answered & run.table.correct
    told = diseased & answered & ~run.table.correct
    n = int(np.count_nonzero(diseased))
    n_found, n_told = int(np.count_nonzero(found)), int(np.count_nonzero(told))
    return DiseaseCounts(n, n_found, n_told, n - n_found - n_told)

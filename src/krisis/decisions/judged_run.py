"""A run as the verdict judges it: its rows and those of its rivals, by what decisions cost."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from krisis.decisions.judged_rows import ALWAYS_DEFER, BoolArray, FloatArray, JudgedRows, Rival
from krisis.metrics.base import EvaluationResult, Rows
from krisis.metrics.columns import NOT_EVALUATED
from krisis.metrics.decision import Decisions, decisions_of
from krisis.metrics.table import Table


@dataclass(frozen=True, slots=True, eq=False)
class JudgedRun:
    """The rows of a run with the tables they are from: ``table`` also has those not evaluated."""

    table: Table
    scored: Table
    rows: JudgedRows
    decisions: Decisions

    def at(self, price: float) -> JudgedRows:
        """Return the rows as they would be judged at another price of deferring.

        Rivals stay as they acted.
        """
        rows, answered = self.rows, self.rows.answered
        cost = np.where(answered, rows.answer_cost, price)
        constants = {**rows.constants, ALWAYS_DEFER: np.full(rows.n_rows, price)}
        ideal = None if rows.lowest is None else np.minimum(rows.lowest, price)
        return replace(rows, price=price, cost=cost, constants=constants, ideal=ideal)


def judged_run(
    rows: Rows, rivals: Mapping[str, Rows], *, offered_abstention: bool = True
) -> JudgedRun:
    """Return the rows of a run, also those that were not evaluated, beside those of its rivals."""
    complete = rows if not rows.table.n_not_evaluated else _with_missing(rows)
    evaluated = rows.columns.outcome[complete.table.positions] != NOT_EVALUATED
    found = _judged(complete.table, evaluated)
    return JudgedRun(
        complete.table,
        rows.table,
        replace(
            found,
            rivals=[_rival(name, one.table, complete.table) for name, one in rivals.items()],
            offered_abstention=offered_abstention,
        ),
        decisions_of(complete.table),
    )


def judged_table(table: Table) -> JudgedRun:
    """Return the scored rows of a table alone, without rivals."""
    return JudgedRun(table, table, _judged(table, table.everyone), decisions_of(table))


def _judged(table: Table, evaluated: BoolArray) -> JudgedRows:
    found = decisions_of(table)
    known = bool(found.known.all())
    answers = table.answers
    names = dict(zip(found.names, found.policies, strict=True))
    return JudgedRows(
        price=found.price,
        patients=table.patients.code,
        cost=found.cost,
        answer_cost=np.where(table.answered, found.cost, math.nan),
        constants={_policy(name): cost for name, cost in names.items()},
        answered=table.answered,
        correct=table.correct,
        evaluated=evaluated,
        no_answer=table.no_answer & evaluated,
        confidence=table.confidence,
        lowest=found.best if known else None,
        ideal=found.ideal if known else None,
        label=table.should_abstain if _is_labelled(table, known=known) else None,
        label_kind="checklist" if answers.due_by == "checklist" else "label",
        distance=_distance(table),
    )


def _is_labelled(table: Table, *, known: bool) -> bool:
    """Say whether a label, or a checklist, says which cases are due, and not their costs."""
    if known and table.answers.due_by in ("costs", "checklist"):
        return False
    return bool((table.should_abstain >= 0).any())


def _policy(name: str) -> str:
    return name.removeprefix("answer ") if name != "defer" else ALWAYS_DEFER


def _distance(table: Table) -> FloatArray | None:
    """Return how far each answer is from the truth, where answers are graded by distance."""
    if table.answers.default_loss == "error" or not table.answers.ordered:
        return None
    return np.nan_to_num(table.losses("abs"))


def _rival(name: str, theirs: Table, table: Table) -> Rival:
    """Return what a baseline did with the same cases; NaN where it lacks one."""
    at = {record: place for place, record in enumerate(theirs.record_ids)}
    places = np.array([at.get(one, -1) for one in table.record_ids], dtype=np.int64)
    cost = np.append(decisions_of(theirs).cost, math.nan)
    given = np.append(np.where(theirs.answered, decisions_of(theirs).cost, math.nan), math.nan)
    return Rival(name=name, cost=cost[places], answer_cost=given[places])


def _with_missing(rows: Rows) -> Rows:
    """Return the rows with those that were not evaluated among them, as if without an answer."""
    return Rows([_without_answer(row) for row in rows], rows.answers, as_given=rows.as_given)


def _without_answer(row: EvaluationResult) -> EvaluationResult:
    if row.outcome != "not_evaluated":
        return row
    return replace(
        row, prediction=None, confidence=None, abstained=True, error=None, failure_class=""
    )

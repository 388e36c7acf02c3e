"""A run as it would be judged if answers and deferrals cost something else; nothing is stored."""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from dataclasses import replace
from pathlib import Path

from krisis.answers import AnswerSet
from krisis.cost_file import AnyCosts, stated_costs
from krisis.json_values import JsonMapping
from krisis.metrics.base import EvaluationResult, Rows
from krisis.metrics.columns import Columns
from krisis.metrics.decision import PROBABILITIES
from krisis.metrics.labels import Answers
from krisis.results.account import OtherCosts
from krisis.results.base import BenchmarkResult, baseline_scores
from krisis.results.loading import metrics_asked
from krisis.statistics.bootstrap import BootstrapOptions
from krisis.statistics.intervals import common_level
from krisis.task_facts import OWN_PROBABILITIES, TaskFacts


def what_if(
    result: BenchmarkResult, costs: AnyCosts | None = None, price: float | None = None
) -> BenchmarkResult:
    """Return a run judged by another table, or at another price: due cases, costs and rivals.

    Readers who were only asked for probabilities act by the new costs; what models and people did
    stays.
    """
    if costs is None and price is None:
        return result
    task = result.provenance.task_facts or TaskFacts("")
    asked = stated_costs(task.costs, costs, price)
    asked = asked.over_seen(task.answer_set, result.rows.table.labels)
    changed = replace(task, costs=asked)
    facts = copy(result)
    other = OtherCosts(task.costs.price, _typed(costs, price))
    facts.provenance = replace(result.provenance, task_facts=changed, what_if=other)
    rows = rows_at(result.rows, Answers.of(changed))
    found = BenchmarkResult(rows, {}, result.suite_description, result.backend_name, facts=facts)
    metrics = metrics_asked(found)
    found.baseline_rows = {
        name: rows_at(given, Answers.of(changed)) for name, given in result.baseline_rows.items()
    }
    known = {name: rows for name, rows in found.baseline_rows.items() if name in result.baselines}
    found.baselines = {**result.baselines, **baseline_scores(known, metrics)}
    level = common_level(score.interval for score in result.metric_scores.values())
    return found.scored(metrics, BootstrapOptions(level=level))


def _typed(costs: AnyCosts | None, price: float | None) -> str:
    """Return the options that ask the same in a terminal."""
    table = [f"--costs {costs}"] if isinstance(costs, str | Path) else []
    return " ".join([*table, *([] if price is None else [f"--price {price:g}"])])


def acts_by_probabilities(columns: Columns) -> bool:
    """Tell whether rows keep the probabilities of a reader who was asked for nothing else."""
    return OWN_PROBABILITIES in columns.signal_names()


def rows_at(rows: Iterable[EvaluationResult], answers: Answers) -> Rows:
    """Return rows as they are judged at the costs of these answers."""
    return Rows([_again(row, answers) for row in rows], answers)


def _again(row: EvaluationResult, answers: Answers) -> EvaluationResult:
    """Return a row with the label and the act that follow from the costs."""
    costs = answers.costs
    known = row.metadata.get(PROBABILITIES)
    is_due_by_cost = answers.due_by in ("costs", "checklist")
    if known is not None and is_due_by_cost and "should_abstain" in row.metadata:
        due = costs.is_due(costs.best(_chances(known, answers))[1])
        row = replace(row, metadata={**row.metadata, "should_abstain": due})
    own = row.signals.get(OWN_PROBABILITIES)
    if not isinstance(own, dict) or row.outcome not in ("answered", "abstained"):
        return row
    return _acted(row, own, answers)


def _acted(row: EvaluationResult, own: JsonMapping, answers: Answers) -> EvaluationResult:
    if row.signals.get("rules"):  # it defers by rules, whatever answers cost
        return row
    decided = answers.costs.decide(_chances(own, answers))
    if decided is None:
        return replace(row, prediction=None, abstained=True, confidence=None)
    return replace(row, prediction=decided[0], abstained=False, confidence=decided[1])


def _chances(given: JsonMapping, answers: AnswerSet) -> dict[int | str, float]:
    """Return probabilities by the allowed answers, in their order."""
    found = {answers.match(answer): float(chance) for answer, chance in given.items()}
    return {answer: found.get(answer, 0.0) for answer in answers.allowed}

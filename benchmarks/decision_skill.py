"""Decision Cost and Decision Skill of answers with a confidence, by the price of deferring.

A case is deferred where the chance of being wrong, one minus the confidence, is at least the
price; the metrics score the rest.
"""

from __future__ import annotations

from dataclasses import replace

from krisis.metrics import BootstrapOptions, DecisionCost, DecisionSkill, score_all
from krisis.metrics.base import Rows
from krisis.results.result import BenchmarkResult


def skill_cells(result: BenchmarkResult, price: float) -> str:
    """Return cost, skill, share deferred and cases of a run in which every case was answered."""
    rows = [row for row in result.evaluation_results if row.outcome == "answered"]
    assert len(rows) == len(result.evaluation_results), "ask with least_confidence=0"
    decided = [
        replace(row, abstained=row.confidence is None or 1.0 - row.confidence >= price - 1e-9)
        for row in rows
    ]
    metrics = DecisionCost(price=price), DecisionSkill(price=price)
    scores = score_all(metrics, Rows(decided, result.rows.answers), intervals=BootstrapOptions())
    cost, skill = scores["decision_cost"], scores["decision_skill"]
    assert skill.interval is not None, skill.details["reason"]
    deferred = sum(row.abstained for row in decided) / len(decided)
    return (
        f"{cost.value:.3f} | {skill.value:.3f} [{skill.interval.low:.3f}, "
        f"{skill.interval.high:.3f}] | {deferred:.2f} | {len(decided):,}"
    ).replace("0.", ".")

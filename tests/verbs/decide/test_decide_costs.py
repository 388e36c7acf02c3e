"""Decide judges by the costs of the task, or by those that are asked for, and says so."""

from __future__ import annotations

import json

import pytest
from tests.invented_runs import ANSWERS, TASK, invented_rows, result_of

import krisis
from krisis.costs import Costs
from krisis.data.base import SuiteConfig
from krisis.metrics.base import Rows
from krisis.registry import find
from krisis.results.result import BenchmarkResult
from krisis.results.run_items import items_of
from krisis.verbs.decide.page import price_sentences


def as_run(decision: object, name: str = "as run") -> float:
    """Return the mean cost of a policy."""
    assert isinstance(decision, krisis.verbs.decide.Decision)
    (found,) = [one.cost for one in decision.policies if one.name == name]
    return found


@pytest.fixture(scope="module")
def ckd() -> BenchmarkResult:
    """A run on synthetic patients, whose probabilities are known."""
    suite = find("suites", "ckd")(SuiteConfig(n_synthetic=60, seed=3))
    return krisis.run(suite, "guideline")


def test_the_best_constant_policy_is_that_of_the_metric(ckd: BenchmarkResult) -> None:
    facts = ckd.metric_scores["Decision Cost"].details
    decision = krisis.decide(ckd)
    assert isinstance(decision, krisis.verbs.decide.Decision)
    constants = {one.name: one.cost for one in decision.policies if one.kind == "constant"}
    best = f"always {facts['constant_policy']}"
    assert min(constants, key=lambda name: constants[name]) == best
    assert constants[best] == pytest.approx(facts["constant_cost"])


def test_a_reader_by_probabilities_acts_by_the_costs_asked_for() -> None:
    """At a price of 0.3 the second case is answered: its best answer is wrong in 25 %."""
    own = [{"own_probabilities": {"0": 1 - p, "1": p}} for p in (0.95, 0.75, 0.1)]
    rows = [
        krisis.EvaluationResult(1, 1, record_id="a", cluster_id="a", signals=own[0]),
        krisis.EvaluationResult(None, 0, True, record_id="b", cluster_id="b", signals=own[1]),
        krisis.EvaluationResult(0, 0, record_id="c", cluster_id="c", signals=own[2]),
    ]
    reader = BenchmarkResult(Rows(rows, ANSWERS), {}, {}, "logistic", {"task_facts": TASK})
    run = BenchmarkResult(Rows(rows, ANSWERS), {}, {}, "m", {"task_facts": TASK})
    told = krisis.decide(run, against=[reader])
    asked = krisis.decide(run, against=[reader], price=0.3)
    assert as_run(told, "baseline logistic") == pytest.approx(0.2 / 3)
    assert as_run(asked, "baseline logistic") == pytest.approx(1 / 3)


def test_a_page_says_what_was_told_and_what_is_assumed() -> None:
    run = result_of(invented_rows(40), "m")
    assert price_sentences(items_of(run)) == [
        (
            "That a deferral costs 20 % of an error is assumed: set `price:`, or ask what if "
            "with --price."
        )
    ]
    facts = {**TASK, "costs": {"price": 0.2}, "told": 0.2}
    told = BenchmarkResult(run.rows, {}, {}, "m", {"task_facts": facts})
    assert price_sentences(items_of(told)) == []
    decision = krisis.decide(told, price=0.1, max_not_evaluated=1)
    assert isinstance(decision, krisis.verbs.decide.Decision)
    assert "Told 20 %, judged at 10 %: " in decision.document().lead[0]
    assert json.loads(json.dumps(decision.to_json()["told"])) == 0.2


def test_the_figures_of_a_table_are_shown() -> None:
    run = result_of(invented_rows(40), "m")
    costs = Costs({0: {1: 1}, 1: {0: 2}}, price=0.3, why="Invented.")
    decision = krisis.decide(run, costs=costs, max_not_evaluated=1)
    assert isinstance(decision, krisis.verbs.decide.Decision)
    (section,) = [one for one in decision.document().sections if one.key == "costs"]
    (table,) = [one for one in section.parts if getattr(one, "note", "") == "Invented."]
    assert [row[1:] for row in table.rows] == [[0.0, 0.5, 0.15], [1.0, 0.0, 0.15]]  # type: ignore[union-attr]


def test_at_another_prevalence_the_drawn_truth_counts(ckd: BenchmarkResult) -> None:
    """Always answering CKD costs a false alarm of 0.5 in the 90 % without the disease."""
    moved = krisis.decide(ckd, prevalence=0.1)
    assert as_run(moved, "always answer CKD") == pytest.approx(0.9 * 0.5)
    assert as_run(moved, "always answer no CKD") == pytest.approx(0.1)

"""Costs, rules, teams and other populations are those computed by hand or by brute force."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from benchmarks.certify import World
from benchmarks.decide import CELLS, simulated
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from tests.documents import line_of, said, values
from tests.invented_runs import TASK, invented_rows, result_of
from typer.testing import CliRunner

import krisis
from krisis.cli.app import app
from krisis.costs import Costs
from krisis.decisions.answers import positive_of, with_costs
from krisis.decisions.run_sample import ScoreOptions
from krisis.decisions.sample import accepts
from krisis.errors import UserError
from krisis.json_values import dumps
from krisis.metrics.base import EvaluationResult
from krisis.metrics.items import RunItems, Source
from krisis.metrics.table import Units
from krisis.pages.document import Chart, Facts, Table
from krisis.pages.numbers import threshold
from krisis.results.result import BenchmarkResult
from krisis.results.run_items import items_of_result, read_items
from krisis.statistics.bootstrap import BootstrapOptions
from krisis.verbs.decide.policies import (
    DecideOptions,
    Decision,
    Policy,
    decide_run,
)
from krisis.verbs.decide.population import Population, Prevalence, Quantity
from krisis.verbs.decide.reader import best_threshold, cross_fitted
from krisis.verbs.decide.section import cost_section
from krisis.verbs.decide.team import Team

COSTS = Costs({0: {1: 5}, 1: {0: 20}}, price=2)  # 0.25, 1 and 0.1


def row(truth: object, answer: object, score: float | None, **fields: Any) -> EvaluationResult:
    """Return a row; without an answer the model abstained."""
    return EvaluationResult(answer, truth, answer is None, score, **fields)  # type: ignore[arg-type]


def items(rows: Sequence[EvaluationResult], **facts: object) -> RunItems:
    """Return rows as a run of a binary task, each its own record and patient unless named."""
    named = [
        EvaluationResult(
            r.prediction,
            r.ground_truth,
            r.abstained,
            r.confidence,
            metadata=r.metadata,
            record_id=r.record_id or f"case-{i}",
            cluster_id=r.cluster_id or f"patient-{i}",
            error=r.error,
        )
        for i, r in enumerate(rows)
    ]
    result = BenchmarkResult(
        named, {}, {"task": "detection"}, "m", {"task_facts": {**TASK, **facts}}
    )
    return items_of_result(result, Source("run.json", task="detection"))


# Whatever the share of cases without a reply.
ANY = ScoreOptions(max_not_evaluated=1)
# Truth, answer, score and whether deferral was due; the last row has no reply.
SIX = [
    row(1, 1, 0.9, metadata={"should_abstain": False, "sex": "f", "reader": 1}),
    row(1, 0, 0.8, metadata={"should_abstain": True, "sex": "f", "reader": 1}),
    row(0, 0, 0.8, metadata={"should_abstain": False, "sex": "m", "reader": 1}),
    row(0, 1, 0.6, metadata={"should_abstain": True, "sex": "m", "reader": 0}),
    row(0, None, None, metadata={"should_abstain": False, "sex": "m", "reader": 0}),
    row(1, None, None, metadata={}, error="no reply"),
]


def policy(decision: Decision, name: str) -> Policy:
    """Return a policy by its name."""
    return next(one for one in decision.policies if one.name == name)


def decided(rows: Sequence[EvaluationResult] = SIX, **options: Any) -> Decision:
    """Price rows by the costs of these tests."""
    run = with_costs(items(rows), COSTS)
    return decide_run(run, DecideOptions(**{"score": ANY, **options}))


def test_costs_along_coverage_are_those_computed_by_hand() -> None:
    decision = decided()
    # Deferring costs 0.1; answering: 0, 1, 0, 0.25.
    assert [p.cost for p in decision.curve] == pytest.approx(
        [
            0.1,
            (0 + 4 * 0.1) / 5,  # from 0.9
            (0 + 1 + 0 + 2 * 0.1) / 5,  # from 0.8
            (0 + 1 + 0 + 0.25 + 0.1) / 5,  # from 0.6
        ]
    )
    assert [p.coverage for p in decision.curve] == [0.0, 0.2, 0.6, 0.8]
    assert [p.n_answered for p in decision.curve] == [0, 1, 3, 4]
    assert policy(decision, "as run").cost == pytest.approx(0.27)
    assert policy(decision, "always defer").cost == pytest.approx(0.1)
    absent, present = (f"always answer the disease is {what}" for what in ("absent", "present"))
    assert policy(decision, absent).cost == pytest.approx(2 / 5)
    assert policy(decision, present).cost == pytest.approx(3 * 0.25 / 5)
    assert decision.run.table.n_not_evaluated == 1
    for one in decision.curve:
        assert one.low <= one.cost <= one.high
    what_if = decided(answer_from=0.8)
    assert policy(what_if, "answer from 0.8").cost == pytest.approx(0.24)
    assert "a threshold chosen on these cases looks better" in said(what_if.document())
    assert "chosen on these cases" not in said(decision.document())
    with pytest.raises(UserError, match="answer_from must be a number, not nan"):
        decided(answer_from=math.nan)
    certain = policy(decision, "always defer")
    assert (certain.low, certain.high) == pytest.approx((0.1, 0.1))


@given(
    score=arrays(float, st.integers(1, 12), elements=st.sampled_from([math.nan, 0.2, 0.5, 0.9])),
    seed=st.integers(0, 99),
)
@settings(max_examples=40, deadline=None)
def test_the_best_threshold_is_that_of_brute_force(score: np.ndarray, seed: int) -> None:
    extra = np.random.default_rng(seed).integers(-5, 6, score.size).astype(float)
    candidates = [None, *sorted({s for s in score.tolist() if s == s}, reverse=True)]
    totals = [extra[accepts(score, t)].sum() for t in candidates]
    assert best_threshold(score, extra) == candidates[int(np.argmin(totals))]


def test_no_row_chooses_its_own_threshold() -> None:
    generator = np.random.default_rng(3)
    score, extra = generator.random(60).round(2), generator.normal(size=60)
    patient = np.arange(60) // 3
    accepted = cross_fitted(score, extra, patient, n_folds=5, seed=1)
    fold = np.random.default_rng(1).permutation(20) % 5
    assert accepted.any()
    assert not accepted.all()
    for k in range(5):
        own = np.isin(patient, np.flatnonzero(fold == k))
        chosen = best_threshold(score[~own], extra[~own])
        assert (accepted[own] == accepts(score[own], chosen)).all()
        other = np.where(own, -100 * extra, extra)  # its own costs say nothing about a fold
        again = cross_fitted(score, other, patient, n_folds=5, seed=1)
        assert (again[own] == accepted[own]).all()


def test_another_prevalence_reweights_the_classes_and_says_what_the_rows_are_worth() -> None:
    decision = decided(prevalence=Prevalence.from_text("0.1"))
    # Two rows of class 1 count 0.05 each, three of class 0 count 0.3 each.
    assert decision.population.effective_rows == pytest.approx(1 / (2 * 0.05**2 + 3 * 0.3**2))
    assert policy(decision, "as run").cost == pytest.approx(0.05 * (0 + 1) + 0.3 * (0 + 0.25 + 0.1))
    assert policy(decision, "as run").coverage == pytest.approx(0.05 * 2 + 0.3 * 2)
    assert decision.curve[1].effective_rows == decision.population.effective_rows
    row = line_of(decision.document(), "as run")
    assert row["effective"] == pytest.approx(decision.population.effective_rows)
    same = decided(prevalence=Prevalence.from_text("0=0.6,1=0.4"))
    assert policy(same, "as run").cost == pytest.approx(policy(decided(), "as run").cost)
    assert same.population.effective_rows == pytest.approx(5)


def test_an_interval_at_another_prevalence_is_that_of_fewer_patients() -> None:
    rows = [EvaluationResult(i % 2, i // 2 % 2, confidence=0.9) for i in range(40)]
    moved = Population.of(items(rows), Prevalence.from_text("0.02"))
    costs = {"cost": Quantity((np.arange(40) % 3 == 0).astype(float))}
    wide, narrow = (
        one.intervals(costs, BootstrapOptions())["cost"]
        for one in (moved, replace(moved, names=()))
    )
    assert wide.high - wide.low > narrow.high - narrow.low


def test_the_shares_are_listed_by_name_in_the_order_of_the_task() -> None:
    decision = decided(prevalence=Prevalence.from_text("0.1"))
    assert decision.population.names[0] == "1"  # the answer of the first patient
    assert list(decision.to_json()["shares"].items()) == [("0", 0.9), ("1", 0.1)]
    moved = "(the disease is absent 90 %, the disease is present 10 %)"
    assert f"Re-weighted to another prevalence {moved};" in said(decision.document())


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("1.2", "'1.2' in '1.2' is no share"),
        ("0=0.5,1=0.4", "add up to 0.9, not 1"),
        ("1=1", "leave out 0"),
        ("0=0.5,1=0.4,2=0.1", "unknown name among the true answers"),
        ("0=0.5,0=0.5", "no list of shares"),
        ("0=half,1=0.5", "'half' in"),
    ],
)
def test_shares_that_do_not_fit_are_refused(text: str, sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        decided(prevalence=Prevalence.from_text(text))


def test_a_team_reads_what_is_deferred() -> None:
    stated = Team(sensitivity=0.9, specificity=0.8)
    at = {p.threshold: p.workload for p in decided(team=stated).curve}
    lax, none = at[0.8], at[None]
    assert lax is not None
    assert none is not None
    # At 0.8: the model is wrong once, a reader reads rows 4 and 5 (truth 0).
    assert lax.wrong == pytest.approx(1000 * (1 + 0.2 + 0.2) / 5)
    assert lax.missed == pytest.approx(1000 * 1 / 5)
    assert lax.read == pytest.approx(400)
    assert none.wrong == pytest.approx(1000 * (2 * 0.1 + 3 * 0.2) / 5)
    assert none.missed == pytest.approx(1000 * 2 * 0.1 / 5)
    seen = {p.threshold: p.workload for p in decided(team=Team(column="reader")).curve}
    assert seen[None] is not None
    assert seen[None].wrong == pytest.approx(1000 / 5)


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({}, "say once how well"),
        ({"accuracy": 0.9, "column": "reader"}, "say once how well"),
        ({"sensitivity": 0.9}, "say once how well"),
        ({"accuracy": 1.5}, "accuracy must be between 0 and 1"),
        ({"column": "nobody"}, "unknown metadata column 'nobody'"),
        ({"column": "sex"}, "the reader's answer in 'sex' is 'f'"),
    ],
)
def test_a_team_that_cannot_be_is_refused(fields: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        decided(team=Team(**fields))


def test_a_threshold_that_is_written_is_never_above_the_true_one() -> None:
    written = [threshold(t) for t in (0.5, 1.0, 0.99999999, 0.8765432)]
    assert written == ["0.50", "1.00", "0.999999", "0.876543"]


def test_zero_and_one_of_several_answers_make_no_positive_one() -> None:
    rows = [row(0, 1, 0.9), row(1, 1, 0.8)]
    scale = {"answers": [[a, str(a)] for a in range(4)], "positive": None}
    assert positive_of(items(rows, **scale)) is None
    assert positive_of(items(rows, answers=[[0, "no"], [1, "yes"]], positive=None)) == 1


EDGES = {
    "all abstained": [row(t, None, None) for t in (0, 1, 0)],
    "one class": [row(1, 1, 0.9), row(1, 0, 0.8), row(1, None, None)],
    "one row": [row(1, 1, 0.9)],
    "no score": [row(1, 1, None), row(0, 1, None)],
    "an answer without a prediction": [EvaluationResult(None, 1, False, 0.9), row(0, 0, 0.8)],
    "one patient": [row(1, 1, 0.9, cluster_id="p"), row(0, 1, 0.7, cluster_id="p")],
}


@pytest.mark.parametrize("rows", EDGES.values(), ids=EDGES)
def test_runs_at_the_edge_have_figures_or_reasons(rows: list[EvaluationResult]) -> None:
    decision = decided(rows, team=Team(accuracy=0.9))
    text = said(decision.document())
    facts = json.loads(dumps(decision.to_json()))
    assert facts["curve"][0]["cost"] == pytest.approx(policy(decision, "always defer").cost)
    for one in [*decision.policies, *decision.curve]:
        assert math.isnan(one.cost) == bool(one.reason)
        assert one.reason in text
    assert "nan" not in text


def test_baselines_are_priced_on_the_same_rows() -> None:
    other = items([row(r.ground_truth, 1, None) for r in SIX[:4]])
    run = with_costs(items(SIX), COSTS)
    decision = decide_run(run, DecideOptions(score=ANY), baselines={"ones": other})
    found = policy(decision, "baseline ones")
    assert (found.n_rows, found.n_answered) == (4, 4)
    assert found.cost == pytest.approx(2 * 0.25 / 4)  # two of truth 0
    wrong = items([row(1 - int(r.ground_truth), 1, None) for r in SIX[:4]])
    with pytest.raises(UserError, match="another true answer"):
        decide_run(run, DecideOptions(score=ANY), baselines={"w": wrong})


@pytest.fixture(scope="module")
def run_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A saved result of invented patients with two rows each, failures among them."""
    path = tmp_path_factory.mktemp("decide") / "run.json"
    result_of(invented_rows(120)).save(path)
    return path


def call(*arguments: object) -> tuple[int, str]:
    """Run the command; return its exit code and what it printed or complained of."""
    found = CliRunner().invoke(app, ["decide", *map(str, arguments)])
    told = "" if found.exception is None else str(found.exception)
    return found.exit_code, found.output + told


def test_the_command_prices_a_saved_run(run_file: Path, tmp_path: Path) -> None:
    costs = tmp_path / "costs.yaml"
    costs.write_text("costs: {0: {1: 1}, 1: {0: 4}}\nprice: 0.8\n", encoding="utf-8")
    asked = (run_file, "--costs", costs, "--prevalence", "0.3", "--reader-accuracy", "0.9")
    assert "is not judged: 4 of 120 cases" in call(*asked)[1]
    allowing = ("--max-not-evaluated", "0.05")
    asked += allowing
    code, text = call(*asked)
    assert code == 0
    assert "These costs are value judgements" in text
    assert "Model and readers together" in text
    assert call(*asked) == (code, text)
    facts = json.loads(call(*asked, "--format", "json")[1])
    assert facts["team"]["accuracy"] == 0.9
    assert facts["costs"] == {"costs": {"0": {"1": 0.25}, "1": {"0": 1.0}}, "price": 0.2}
    assert facts["n_not_evaluated"] > 0
    assert facts["n_patients"] < facts["n_rows"]
    decision = decide_run(
        with_costs(read_items(run_file), costs),
        DecideOptions(
            team=Team(accuracy=0.9),
            prevalence=Prevalence.from_text("0.3"),
            score=ANY,
        ),
    )
    assert facts == json.loads(dumps(decision.to_json()))
    certified = CliRunner().invoke(
        app,
        [
            *("certify", str(run_file), "--risk", "0.5", "--loss", "cost"),
            *("--costs", str(costs), *allowing),
        ],
    )
    assert certified.exit_code == 0
    for wrong, sentence in (
        (("--confidence", "nothing"), "unknown confidence variant"),
        (("--costs", tmp_path / "none.yaml"), "none.yaml does not exist; check --costs"),
        (("--price", "1"), "the price of deferring must be above 0 and below 1"),
    ):
        assert sentence in call(run_file, *allowing, *wrong)[1]


def test_the_report_shows_costs_and_the_team(run_file: Path) -> None:
    run = with_costs(read_items(run_file), Costs({0: {1: 1}, 1: {0: 4}}, price=0.5))
    decision = decide_run(run, DecideOptions(team=Team(accuracy=0.9), score=ANY))
    section = cost_section(decision)
    drawn = {part.key: part.draw() for part in section.parts if isinstance(part, Chart)}
    assert list(drawn) == ["costs", "team"]
    assert [p["cost"] for p in drawn["costs"].table] == [
        p.cost for p in (*decision.curve, *decision.policies) if not p.reason
    ]
    assert all("<svg" in figure.svg for figure in drawn.values())
    tables = {part.title: part for part in section.parts if isinstance(part, Table)}
    assert tables["Mean cost per case"].rows[0][0] == "as run"
    assert len(tables["Model and readers together, per 1,000 records"].rows) > 2
    assert any(isinstance(part, Facts) for part in section.parts)
    known = [p for p in decision.policies if not p.reason]
    cheapest = min(known, key=lambda policy: policy.cost)
    assert drawn["costs"].title.startswith(f"Lowest cost: {cheapest.name}, ")


def test_a_calibrator_of_the_same_patients_is_refused() -> None:
    class Seen:
        content_hash = "x"

        def overlap(self, run: RunItems) -> int:
            return 3

    with pytest.raises(UserError, match=r"fitted on 3 of the patients .* look too low"):
        decided(score=ScoreOptions(calibrator=Seen(), max_not_evaluated=1))  # type: ignore[arg-type]


@pytest.mark.slow
@pytest.mark.parametrize(("world", "n_patients", "icc", "share"), CELLS)
def test_the_cross_fitted_cost_is_within_two_per_cent_of_the_truth(
    world: World, n_patients: int, icc: float | None, share: float
) -> None:
    """In every cell of the benchmark, with 3 standard errors of the 1,000 runs on top."""
    cell = simulated(world, n_patients, icc, share, 1000)
    assert abs(cell.cross_fitted / cell.truth - 1) < 0.02 + 3 * cell.standard_error
    assert cell.standard_error < 0.012
    assert cell.in_sample < 0.99 * cell.truth
    assert min(cell.covers_all, cell.covers_fixed) > 0.93
    assert cell.covers_fitted > 0.90


def test_a_report_is_priced_at_the_prevalence_asked_for(tmp_path: Path) -> None:
    columns = {"y": [0, 1] * 50, "p": [0, 1, 0, 0] * 25, "c": [0.9, 0.8, 0.7, 0.6] * 25}
    run = krisis.score(columns, truth="y", prediction="p", confidence="c", answers=[0, 1])
    costs = tmp_path / "costs.yaml"
    costs.write_text("costs: {0: {1: 1}, 1: {0: 9}}\nprice: 0.5\n", encoding="utf-8")
    moved = krisis.decide(run, costs=costs, prevalence=0.1)
    assert moved != krisis.decide(run, costs=costs)
    asked_for = krisis.report(run, tmp_path / "a.html", costs=costs, prevalence=0.1)
    assert {policy.cost for policy in moved.policies} <= set(values(asked_for.document))


def test_a_cost_that_was_never_seen_may_exist() -> None:
    pools = Units(np.arange(40), 40)
    population = Population(pools, np.zeros(40, dtype=np.int64), np.ones(1))
    free = {"cost": Quantity(np.zeros(40), low=0.0, high=5.0)}
    found = population.intervals(free, BootstrapOptions(n_resamples=200, seed=1))["cost"]
    assert found.low == 0
    assert 5 / 41 < found.high < 1  # more than one row in 41 of the highest cost, and not absurd

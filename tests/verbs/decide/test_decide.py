"""Costs, rules, teams and other populations are those computed by hand or by brute force."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from benchmarks.certify import World
from benchmarks.decide import CELLS, simulated
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from krisis.decisions.costs import (
    CostTable,
    Team,
    cost_file_text,
    costs_from,
    costs_of_run,
    read_costs,
    team_from,
)
from tests.documents import line_of, said, values
from tests.invented_runs import TASK, invented_rows, result_of
from typer.testing import CliRunner

import krisis
from krisis.cli.app import app
from krisis.data.base import SuiteConfig
from krisis.decisions.answers import positive_of
from krisis.decisions.run_sample import ScoreOptions
from krisis.decisions.sample import accepts
from krisis.errors import UserError
from krisis.json_values import dumps
from krisis.metrics.base import EvaluationResult
from krisis.metrics.items import RunItems, Source
from krisis.metrics.table import Units
from krisis.pages.document import Chart, Facts, Table
from krisis.pages.numbers import threshold
from krisis.registry import find
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

TABLE = {"costs": {0: {1: 5}, 1: {0: 20}}, "defer": {0: 2, 1: 3}}
COSTS = costs_from(TABLE, "costs.yaml")


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
    """Price rows by the costs of these tests unless others are given."""
    return decide_run(items(rows), DecideOptions(**{"costs": COSTS, "score": ANY, **options}))


def test_costs_along_coverage_are_those_computed_by_hand() -> None:
    decision = decided()
    # Deferring: 3, 3, 2, 2, 2; answering: 0, 20, 0, 5.
    assert [round(p.cost, 9) for p in decision.curve] == [
        1000 * 12 / 5,  # nothing: 3 + 3 + 2 + 2 + 2
        1000 * 9 / 5,  # 0.9: 0 + 3 + 2 + 2 + 2
        1000 * 24 / 5,  # 0.8: 0 + 20 + 0 + 2 + 2
        1000 * 27 / 5,  # 0.6: 0 + 20 + 0 + 5 + 2
    ]
    assert [p.coverage for p in decision.curve] == [0.0, 0.2, 0.6, 0.8]
    assert [p.n_answered for p in decision.curve] == [0, 1, 3, 4]
    assert policy(decision, "always answer").cost == 5400
    assert policy(decision, "always defer").cost == 2400
    assert decision.run.table.n_not_evaluated == 1
    for one in decision.curve:
        assert one.low <= one.cost <= one.high
    what_if = decided(answer_from=0.8)
    assert policy(what_if, "answer from 0.8").cost == 4800
    assert "a threshold chosen on these cases looks better" in said(what_if.document())
    assert "chosen on these cases" not in said(decision.document())
    with pytest.raises(UserError, match="answer_from must be a number, not nan"):
        decided(answer_from=math.nan)
    certain = policy(decided(costs=CostTable(costs=COSTS.costs, defer=7.0)), "always defer")
    assert (certain.low, certain.cost, certain.high) == (7000, 7000, 7000)


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
    assert policy(decision, "always answer").cost == pytest.approx(
        1000 * (0.05 * (0 + 20) + 0.3 * (0 + 5 + 2))
    )
    assert policy(decision, "always answer").coverage == pytest.approx(0.05 * 2 + 0.3 * 2)
    assert decision.curve[1].effective_rows == decision.population.effective_rows
    row = line_of(decision.document(), "every answer it gave")
    assert row["effective"] == pytest.approx(decision.population.effective_rows)
    same = decided(prevalence=Prevalence.from_text("0=0.6,1=0.4"))
    assert policy(same, "always answer").cost == pytest.approx(
        policy(decided(), "always answer").cost
    )
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
        ({"accuracy": 0.9, "minutes": 6}, "unknown field of the team in c.yaml: 'minutes'"),
        ({"accuracy": "good"}, "accuracy of the team must be a number, not 'good'"),
        ({"column": "nobody"}, "unknown metadata column 'nobody'"),
        ({"column": "sex"}, "the reader's answer in 'sex' is 'f'"),
    ],
)
def test_a_team_that_cannot_be_is_refused(fields: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        decided(team=team_from(fields, "c.yaml"))


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ({}, "must hold `costs`"),
        ({"costs": {0: {1: -1}}}, "must be a number from 0 to .*, not -1"),
        ({"costs": {False: {1: 1}}}, "in quotes"),
        ({"costs": {0: {1: 1, "1": 2}}}, "listed twice"),
        ({"costs": {0: {1: 1}}, "deffer": 1}, "did you mean 'defer'"),
        ({"costs": {0: {1: 1}}, "defer": {0: "x"}}, "the cost of deferring where 0 is right"),
        ({"costs": {0: {1: 1}}, "defer": {0: 1, "0": 2}}, "defer lists a true answer twice"),
        ({"costs": {0: {1: 1}}, "defer": -2}, "defer must be"),
    ],
)
def test_cost_tables_that_say_nothing_sensible_are_refused(
    content: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(UserError, match=sentence):
        costs_from(content, "c.yaml")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ({"costs": {0: {1: 1}}, "defer": 1}, "nothing of the answer 0 where 1 is right"),
        ({"costs": TABLE["costs"]}, "does not say what deferring costs"),
        ({"costs": TABLE["costs"], "defer": {0: 1}}, "does not say .* where 1 is right"),
    ],
)
def test_a_cost_that_a_run_needs_must_be_there(content: dict[str, Any], sentence: str) -> None:
    with pytest.raises(UserError, match=sentence):
        decided(costs=costs_from(content, "c.yaml"))


def test_every_task_of_the_shipped_suites_has_a_preset_that_can_be_edited(tmp_path: Path) -> None:
    kidney, tasks = find("suites", "ckd"), [find("suites", "phq8")().task]
    tasks += [kidney(SuiteConfig(task=name)).task for name in kidney.tasks]
    assert len(tasks) == 6
    for task in tasks:
        facts = json.loads(dumps(asdict(task.facts())))
        answers = [answer for answer, _ in facts["answers"]]
        run = items([row(t, a, 0.5) for t in answers for a in answers], **facts)
        preset = costs_of_run(run, None)
        path = tmp_path / f"{task.name}.yaml"
        path.write_text(cost_file_text(run), encoding="utf-8")
        edited = costs_of_run(run, path)
        assert (edited.costs, edited.defer, edited.unit) == (
            preset.costs,
            preset.defer,
            preset.unit,
        )
        assert decide_run(run, DecideOptions(costs=edited)).policies


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("costs: {0: {1: 5}, 1: {0: 9}}\ndefer: {0: 2, '0': 9}", "line 2: the key '0' is written"),
        ("costs:\n  0: {1: 5}\n  0: {1: 50}\ndefer: 2", "line 3: the key '0' is written twice"),
        (f"costs: {{0: {{1: 1{'0' * 400}}}}}", r"a number from 0 to 1e\+12, not 1000.*…"),
        ("costs: {0: {1: 1.0e+308}}", r"a number from 0 to 1e\+12, not 1e\+308"),
        ("costs: {0: {1: 1e6}}", "not '1e6', which is a text; write 1000000"),
        ("costs: {0: {1: 'nan'}}", "not 'nan'$"),
        ("unit: 2024-99-99", "is not YAML: month must be in"),
    ],
)
def test_cost_files_that_yaml_would_change_in_silence_are_refused(
    text: str, sentence: str, tmp_path: Path
) -> None:
    path = tmp_path / "c.yaml"
    path.write_text(text)
    with pytest.raises(UserError, match=sentence):
        read_costs(path)


def test_a_written_cost_table_loads_back_to_the_same_decision(tmp_path: Path) -> None:
    preset = {
        "costs": {0: {0: 0.1, 1: 1e7}, 1: {0: 1234567.25, 1: 0}},
        "defer": {0: 1e-7, 1: 1 / 3},
        "unit": '€: "each"',
        "note": "two\nlines # and a sign",
    }
    run, path = items(SIX, costs=preset), tmp_path / "c.yaml"
    path.write_text(cost_file_text(run), encoding="utf-8")
    before, after = costs_of_run(run, None), costs_of_run(run, path)
    assert replace(after, place=before.place, note=before.note) == before
    assert after.note == ""  # it would speak of figures that are now edited
    beyond = items([*SIX, row(1, 2, 0.9)], costs={"costs": {0: {1: 5}, 1: {0: 9}}, "defer": 2})
    path.write_text(cost_file_text(beyond))
    assert costs_of_run(beyond, path).of(1, 2) == 9
    assert costs_of_run(beyond, path).defer == 2


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
    decision = decide_run(
        items(SIX), DecideOptions(costs=COSTS, score=ANY), baselines={"ones": other}
    )
    found = policy(decision, "baseline ones")
    assert (found.n_rows, found.n_answered) == (4, 4)
    assert found.cost == 1000 * 10 / 4  # two of truth 0
    wrong = items([row(1 - int(r.ground_truth), 1, None) for r in SIX[:4]])
    with pytest.raises(UserError, match="another true answer"):
        decide_run(items(SIX), DecideOptions(costs=COSTS, score=ANY), baselines={"w": wrong})


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
    code, told = call(run_file)
    assert code == 1
    assert "has no preset of costs; add --cost FILE" in told
    draft = tmp_path / "costs.yaml"
    assert call(run_file, "--write-cost", draft)[0] == 0
    assert "exists already" in call(run_file, "--write-cost", draft)[1]
    content = yaml.safe_load(draft.read_text())
    content |= {"defer": 0.3, "team": {"accuracy": 0.9}}
    draft.write_text(yaml.safe_dump(content))
    asked = (run_file, "--cost", draft, "--prevalence", "0.3")
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
    better = json.loads(call(*asked, "--reader-accuracy", 0.95, "--format", "json")[1])
    assert better["team"]["accuracy"] == 0.95  # an option replaces the team of the file
    assert facts["n_not_evaluated"] > 0
    assert facts["n_patients"] < facts["n_rows"]
    decision = decide_run(
        read_items(run_file),
        DecideOptions(
            costs=costs_of_run(read_items(run_file), draft),
            team=Team(accuracy=0.9),
            prevalence=Prevalence.from_text("0.3"),
            score=ANY,
        ),
    )
    assert facts == json.loads(dumps(decision.to_json()))
    certified = CliRunner().invoke(
        app,
        [*("certify", str(run_file), "--risk", "0.5", "--cost", str(draft)), *allowing],
    )
    assert certified.exit_code == 0
    for wrong, sentence in (
        (("--confidence", "nothing"), "unknown confidence variant"),
        (("--cost", tmp_path / "none.yaml"), "none.yaml does not exist; check --cost"),
    ):
        assert sentence in call(run_file, "--cost", draft, *allowing, *wrong)[1]


def test_the_report_shows_costs_and_the_team(run_file: Path) -> None:
    run = read_items(run_file)
    costs = costs_from({"costs": {0: {1: 1}, 1: {0: 4}}, "defer": 0.5}, "c.yaml")
    decision = decide_run(run, DecideOptions(costs=costs, team=Team(accuracy=0.9), score=ANY))
    section = cost_section(decision)
    drawn = {part.key: part.draw() for part in section.parts if isinstance(part, Chart)}
    assert list(drawn) == ["costs", "team"]
    assert [p["cost"] for p in drawn["costs"].table] == [
        p.cost for p in (*decision.curve, *decision.policies) if not p.reason
    ]
    assert all("<svg" in figure.svg for figure in drawn.values())
    tables = {part.title: part for part in section.parts if isinstance(part, Table)}
    policies = tables["Expected cost in points per 1,000 records"]
    assert policies.rows[-1][0] == "always defer"
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
    costs.write_text("costs: {0: {1: 1}, 1: {0: 9}}\ndefer: 0.5\n", encoding="utf-8")
    moved = krisis.decide(run, cost=costs, prevalence=0.1)
    assert moved != krisis.decide(run, cost=costs)
    asked_for = krisis.report(run, tmp_path / "a.html", cost=str(costs), prevalence=0.1)
    assert {policy.cost for policy in moved.policies} <= set(values(asked_for.document))


def test_a_cost_that_was_never_seen_may_exist() -> None:
    pools = Units(np.arange(40), 40)
    population = Population(pools, np.zeros(40, dtype=np.int64), np.ones(1))
    free = {"cost": Quantity(np.zeros(40), low=0.0, high=5.0)}
    found = population.intervals(free, BootstrapOptions(n_resamples=200, seed=1))["cost"]
    assert found.low == 0
    assert 5 / 41 < found.high < 1  # more than one row in 41 of the highest cost, and not absurd

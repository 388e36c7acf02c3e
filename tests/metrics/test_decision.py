"""What decisions cost, by hand: cost, skill, saving, regret, Deferral Skill; and coverage."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from benchmarks.decision_coverage import simulated

from krisis.costs import Costs
from krisis.data.base import SuiteConfig, Task
from krisis.data.ckd.suite import CKDSuite
from krisis.decisions.judged_run import judged_run
from krisis.decisions.judging import knew_when
from krisis.errors import InvalidValue
from krisis.metrics import (
    BaseMetric,
    CostSaved,
    DecisionCost,
    DecisionSkill,
    DeferralSkill,
    EvaluationResult,
    MetricScore,
    score_all,
)
from krisis.metrics.base import Rows
from krisis.metrics.decision import decisions_of
from krisis.metrics.forms import Form
from krisis.metrics.paired import Exchanges, paired_differences
from krisis.metrics.table import Answers, Units
from krisis.statistics.bootstrap import BootstrapOptions

PRICED = Answers((0, 1), positive=1)
# A missed disease 1, a false alarm half of it, a deferral 15 %; the disease is the answer 0.
KIDNEY = Answers((0, 1), positive=0, costs=Costs({0: {1: 1}, 1: {0: 0.5}}, 0.15))


def case(
    prediction: int | None,
    truth: int,
    *,
    chances: object = None,
    abstained: bool = False,
    failure: str = "",
    name: str = "",
) -> EvaluationResult:
    return EvaluationResult(
        prediction,
        truth,
        abstained,
        metadata={} if chances is None else {"answer_probabilities": chances},
        error="no allowed answer" if failure else None,
        failure_class=failure,
        record_id=name,
    )


# Four right, two wrong, two deferred, one reply without an answer, one more right; truth 1 in six.
TEN = [
    *(case(1, 1) for _ in range(3)),
    case(0, 0),
    case(0, 1),
    case(1, 0),
    case(None, 1, abstained=True),
    case(0, 0, abstained=True),
    case(None, 1, failure="malformed_reply"),
    case(0, 0),
]


def scored(metric: BaseMetric, rows: list[EvaluationResult], task: Answers = PRICED) -> MetricScore:
    return metric(Rows(rows, task))


def test_ten_cases_by_hand() -> None:
    # (5 · 0 + 2 · 1 + 3 · 0.2) / 10; always 1 is wrong in 4 of 10, always 0 in 6, deferring 0.2.
    cost, saved = scored(DecisionCost(), TEN), scored(CostSaved(), TEN)
    assert cost.value == pytest.approx(0.26)
    assert saved.value == pytest.approx(100 * (0.2 - 0.26))
    assert (cost.n_evaluated, cost.n_abstained) == (10, 2)
    assert saved.details == {
        "price": 0.2,
        "cost": pytest.approx(0.26),
        "constant_cost": pytest.approx(0.2),
        "constant_policy": "defer",
        "n_expected_loss": 0,
    }


def test_no_skill_is_invented_where_no_ideal_reader_is_known() -> None:
    found = scored(DecisionSkill(), TEN)
    assert math.isnan(found.value)
    assert found.details["reason"] == "no_ideal_reader_is_known"
    half_known = [case(1, 1, chances={"0": 0.1, "1": 0.9}), *TEN]
    assert scored(DecisionSkill(), half_known).details["reason"] == "no_ideal_reader_is_known"


def test_four_cases_by_hand_with_a_table_that_tells_errors_apart() -> None:
    rows = [
        case(0, 0, chances={"0": 0.9, "1": 0.1}),  # a false alarm with .1: .05
        case(1, 1, chances={"0": 0.2, "1": 0.8}),  # missed with .2, though the draw was lucky
        case(None, 1, chances={"0": 0.5, "1": 0.5}, abstained=True),  # .15; the best answer .25
        case(0, 1, chances={"0": 0.7, "1": 0.3}),  # .15, as much as a deferral
    ]
    cost = (0.05 + 0.2 + 0.15 + 0.15) / 4
    ideal = (0.05 + 0.15 + 0.15 + 0.15) / 4
    constant = 0.15  # always 0: (.05 + .4 + .25 + .15) / 4 = .2125
    facts = scored(DecisionCost(), rows, KIDNEY).details
    assert facts["cost"] == pytest.approx(cost)
    assert (facts["ideal_cost"], facts["constant_cost"]) == pytest.approx((ideal, constant))
    # b is .05, .2, .25 and .15: the second was answered too much by .05; a tie costs nothing.
    assert facts["regret_answered_too_much"] == pytest.approx(0.05 / 4)
    assert facts["regret_deferred_too_much"] == facts["regret_answered_wrongly"] == 0.0
    # Due are the last three, at stake .05, .1 and 0; safe is the first, at stake .1.
    found = scored(DeferralSkill(), rows, KIDNEY)
    assert found.value == pytest.approx(1 - 0.05 / 0.15)
    assert found.details == {"n_due": 3, "n_due_deferred": 1, "n_safe": 1, "n_safe_answered": 1}


def test_deferral_skill_rests_on_a_label_where_there_is_one_and_never_on_a_checklist() -> None:
    sure = {"0": 0.0, "1": 1.0}
    both = [case(1, 1, chances=sure), case(None, 1, chances=sure, abstained=True)]
    rows = [
        replace(row, metadata={**row.metadata, "should_abstain": due})
        for due in (True, False)
        for row in both
    ]
    for answers, value in ((replace(PRICED, due_by="label"), 0.0), (PRICED, math.nan)):
        assert scored(DeferralSkill(), rows, answers).value == pytest.approx(value, nan_ok=True)
    assert scored(DeferralSkill(), rows).details["reason"] == "no_case_is_due"
    unknown = [replace(row, metadata={"should_abstain": True}) for row in rows]
    found = scored(DeferralSkill(), unknown, replace(PRICED, due_by="checklist"))
    assert found.details["reason"] == "nobody_knows_which_cases_are_due"
    assert scored(DeferralSkill(), unknown).details["reason"] == "no_case_is_safe"


def test_ten_cases_by_hand_with_the_probabilities_of_the_suite() -> None:
    sure, unsure = {"0": 0.1, "1": 0.9}, {"0": 0.5, "1": 0.5}
    rows = [
        *(case(1, 1, chances=sure) for _ in range(4)),  # 0.1 each
        case(1, 0, chances=sure),  # 0.1 too: the label was unlucky
        case(0, 0, chances=sure),  # 0.9, though the label was lucky
        case(None, 1, chances=sure, abstained=True),  # 0.2
        case(None, 1, chances=unsure, abstained=True),  # 0.2
        case(1, 1, chances=unsure),  # 0.5
        case(None, 0, chances=unsure, failure="malformed_reply"),  # 0.2
    ]
    cost = (5 * 0.1 + 0.9 + 3 * 0.2 + 0.5) / 10
    ideal = (7 * 0.1 + 3 * 0.2) / 10
    assert scored(DecisionCost(), rows).value == pytest.approx(cost)
    found = scored(DecisionSkill(), rows)
    assert found.details["ideal_cost"] == pytest.approx(ideal)
    assert found.details["n_expected_loss"] == 10
    assert found.value == pytest.approx(1 - (cost - ideal) / (0.2 - ideal))


def test_the_commonest_answer_is_the_constant_policy_where_deferring_costs_more() -> None:
    rows = [*(case(1, 1) for _ in range(9)), case(1, 0)]
    found = scored(CostSaved(), rows)
    assert found.details["constant_policy"] == "answer 1"
    assert found.details["constant_cost"] == pytest.approx(0.1)
    assert found.value == pytest.approx(0.0)


def test_an_answer_that_is_none_of_the_allowed_ones_is_wrong() -> None:
    rows = [*TEN, case(7, 1)]
    assert scored(DecisionCost(), rows).value == pytest.approx((2.6 + 1) / 11)
    known = [case(7, 1, chances={"0": 0.1, "1": 0.9})]
    assert scored(DecisionCost(), known).value == 1.0
    # Without a task the labels that were seen are the answers, and the price is the assumed one.
    assert DecisionCost()(TEN).value == pytest.approx(0.26)


def test_there_is_no_skill_without_rows_or_room() -> None:
    assert scored(DecisionCost(), []).details["reason"] == "no_scored_rows"
    sure = {"0": 0.0, "1": 1.0}, {"0": 1.0, "1": 0.0}
    rare = [case(1, 1, chances=sure[0]) for _ in range(98)]
    rare += [case(0, 0, chances=sure[1]) for _ in range(2)]
    found = scored(DecisionSkill(), rare)
    assert math.isnan(found.value)
    assert found.details["reason"] == "the_best_constant_policy_is_nearly_ideal"
    assert found.details["room"] == pytest.approx(0.02)
    assert scored(DecisionCost(), rare).value == 0.0
    assert scored(CostSaved(), rare).value == pytest.approx(2.0)


@pytest.mark.parametrize("chances", [{"0": 0.5}, {"0": 0.5, "1": "x"}, "0.5", {"0": 2, "1": -1}])
def test_probabilities_that_are_none_are_refused_by_name(chances: object) -> None:
    scores = score_all([DecisionCost()], Rows([case(1, 1, chances=chances)], PRICED))
    assert "answer_probabilities" in scores["decision_cost"].details["reason"]


@pytest.fixture(scope="module")
def kidney() -> CKDSuite:
    return CKDSuite(SuiteConfig(n_synthetic=300))


def answered(suite: CKDSuite, reader: str) -> Rows:
    """Return the rows of a rule, or of a policy that does the same in every case."""
    rows = []
    for record in suite.load():
        judged = suite.rules[reader](record.features, "") if reader in suite.rules else None
        abstain = judged.abstain if judged else reader == "defer"
        answer = judged.answer if judged else int(reader) if reader.isdigit() else None
        rows.append(
            EvaluationResult(
                None if abstain else answer,
                record.label,
                abstain,
                metadata=record.metadata,
                record_id=record.record_id,
            )
        )
    return Rows(rows, Answers.of(suite.task.facts()))


def test_skill_is_1_for_the_ideal_reader_and_0_for_the_best_constant_policy(
    kidney: CKDSuite,
) -> None:
    skills = {
        reader: DecisionSkill()(answered(kidney, reader)).value
        for reader in ("ideal", "guideline", "defer", "0", "1")
    }
    assert skills["ideal"] == pytest.approx(1.0, abs=1e-12)
    assert max(skills["defer"], skills["0"], skills["1"]) == pytest.approx(0.0, abs=1e-12)
    assert skills["defer"] < 1 > skills["guideline"] > 0


def test_every_task_leads_with_what_its_decisions_cost(kidney: CKDSuite) -> None:
    headline = ("decision_skill", "cost_saved", "decision_cost", "deferral_skill")
    assert kidney.task.metrics == headline
    own = Task("sepsis", answers={0: "no", 1: "yes"}, metrics=("accuracy", "decision_cost"))
    assert own.metrics == (*headline, "accuracy")
    with pytest.raises(InvalidValue, match="price of deferring must be above 0 and below 1"):
        Task("sepsis", price=20)


# What is known of each label: a skill needs probabilities.
def known(rows: list[EvaluationResult]) -> list[EvaluationResult]:
    return [
        replace(
            row,
            metadata=row.metadata
            | {"answer_probabilities": {str(a): float(a == row.ground_truth) for a in (0, 1)}},
        )
        for row in rows
    ]


def test_groups_have_a_skill_where_there_is_room() -> None:
    rows = [replace(row, metadata={"ckd_stage": 1}) for row in TEN]
    rows += [replace(case(1, 1), metadata={"ckd_stage": 2}) for _ in range(5)]
    rows = known(rows)
    found = scored(DecisionSkill(), rows)
    assert found.breakdown == {"stage_1": pytest.approx(-0.3)}  # in stage 2 all have one answer
    costs = scored(DecisionCost(), rows).breakdown
    assert costs == {"stage_1": pytest.approx(0.26), "stage_2": 0.0}


def test_rows_that_were_not_evaluated_bound_the_cost_but_not_the_skill() -> None:
    rows = known([*TEN, case(None, 1, failure="timeout")])
    cost, skill = scored(DecisionCost(), rows), scored(DecisionSkill(), rows)
    assert cost.value == pytest.approx(0.26)
    assert cost.bounds == (pytest.approx(2.6 / 11), pytest.approx(3.6 / 11))
    assert (skill.bounds, skill.details["bounds"]) == (None, "not bounded")


@pytest.mark.parametrize("metric", [DecisionSkill(), CostSaved(), DeferralSkill(), DecisionCost()])
def test_influences_are_the_derivatives(metric: BaseMetric) -> None:
    chances = np.random.default_rng(3).uniform(size=10)
    rows = [
        replace(row, metadata={"answer_probabilities": {"0": 1 - p, "1": p}})
        for row, p in zip(TEN, chances.tolist(), strict=True)
    ]
    form = metric.form(Rows(rows, KIDNEY).table)
    assert isinstance(form, Form)
    weighted = form.on(Units(np.arange(10), 10))
    weights = np.linspace(0.5, 1.5, 10)[:, None]
    found = weighted.influences(weights)
    assert found is not None
    for unit in range(10):
        more = weights.copy()
        more[unit] *= 1 + 1e-6
        slope = (weighted.values(more) - weighted.values(weights)) / 1e-6
        assert found[unit, 0] == pytest.approx(slope[0], abs=1e-3)


def test_two_runs_are_compared_by_skill(kidney: CKDSuite) -> None:
    left, right = (answered(kidney, reader).table for reader in ("defer", "ideal"))
    found, _ = paired_differences(
        left, right, {"skill": DecisionSkill().form}, exchanges=Exchanges(499)
    )
    assert found["skill"].delta == pytest.approx(1.0, abs=1e-4)
    assert found["skill"].p_value < 0.01
    assert found["skill"].interval.low > 0.5


def test_an_interval_holds_the_value_and_allows_for_errors_not_seen() -> None:
    rows = [case(number % 2, number % 2, name=f"case {number}") for number in range(40)]
    rows = known(rows)
    score = score_all([DecisionSkill()], Rows(rows, PRICED), intervals=BootstrapOptions())
    found = score["decision_skill"]
    assert found.value == 1.0
    assert found.interval is not None
    assert (found.interval.high, found.interval.method) == (1.0, "patient_bootstrap")
    assert 0.9 < found.interval.low < 1.0
    drawn = [replace(row, metadata={}) for row in rows]  # here luck may have hidden an error
    saved = score_all([CostSaved()], Rows(drawn, PRICED), intervals=BootstrapOptions())
    interval = saved["cost_saved"].interval
    assert interval is not None
    assert (saved["cost_saved"].value, interval.high) == pytest.approx((20.0, 20.0))
    assert 12 < interval.low < 18
    one = known([case(0, 1, name="one"), case(0, 0, name="one")])
    both = score_all([DecisionSkill()], Rows(one, PRICED), intervals=BootstrapOptions())
    interval = both["decision_skill"].interval
    assert interval is not None
    assert interval.reason == "needs_at_least_two_clusters"


def test_the_interval_of_deferral_skill_is_that_of_the_verdict() -> None:
    """Half of 40 due cases are deferred, and 30 of 40 safe ones answered: 1/2 + 3/4 − 1."""
    said = [(True, i < 20) for i in range(40)] + [(False, i < 10) for i in range(40)]
    rows = [
        EvaluationResult(
            None if deferred else 1, 1, deferred, metadata={"should_abstain": due}, record_id=str(i)
        )
        for i, (due, deferred) in enumerate(said)
    ]
    metric, options = DeferralSkill(), BootstrapOptions(level=0.9)
    found = score_all([metric], Rows(rows, PRICED), intervals=options)["deferral_skill"]
    assert found.value == pytest.approx(0.25)
    judged = knew_when(judged_run(Rows(rows, PRICED), {}).rows, level=0.9)
    assert judged.figure is not None
    assert found.interval == judged.figure.interval
    assert found.interval.low < 0.25 - 1.67 * math.sqrt(0.25 / 40 + 0.1875 / 40) < 0.25
    alone = [replace(row, cluster_id="one") for row in rows]
    found = score_all([metric], Rows(alone, PRICED), intervals=options)["deferral_skill"]
    assert found.interval.reason == "needs_at_least_two_clusters"


def test_what_an_answer_cost_may_be_told_by_the_truth_that_was_drawn() -> None:
    rows = [case(1, 0, chances={"0": 0.25, "1": 0.75}), case(1, 1, chances={"0": 0.25, "1": 0.75})]
    table = Rows(rows, PRICED).table
    assert decisions_of(table).cost.tolist() == [0.25, 0.25]
    assert decisions_of(table, expected=False).cost.tolist() == [1.0, 0.0]


def test_by_a_policy_regret_is_not_split() -> None:
    rows = [case(1, 1, chances={"1": 1.0}), case(0, 0, chances={"0": 1.0})]
    facts = decisions_of(Rows(rows, replace(PRICED, due_by="policy")).table).facts()
    assert facts["ideal_cost"] == 0.0
    assert not any(name.startswith("regret") for name in facts)


@pytest.mark.slow
def test_the_intervals_cover_and_expected_losses_need_fewer_cases() -> None:
    cells = list(simulated("detection", sizes=(200,), runs=300, n_patients=1500))
    for cell in cells:
        error = math.sqrt(0.92 * 0.08 / cell.n_studies)
        assert cell.covered >= 0.92 - 2 * error, cell
    spread = {(c.reader, c.expected): c.standard_error for c in cells if c.metric.endswith("cost")}
    for reader in ("ideal", "fine", "noisy"):
        assert spread[reader, True] < 0.6 * spread[reader, False]


def test_the_chance_of_an_answer_that_nobody_may_give_is_no_answer_of_the_reader() -> None:
    rows = [case(0, 0, chances={"0": 0.7, "1": 0.2, "9": 0.1})]
    assert scored(DecisionCost(), rows).value == pytest.approx(0.3)

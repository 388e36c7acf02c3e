"""Decision Cost and Decision Skill: by hand, at their two fixed points, and how they cover."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from benchmarks.decision_coverage import simulated

from krisis.data.base import SuiteConfig, Task
from krisis.data.ckd.suite import CKDSuite
from krisis.errors import InvalidValue
from krisis.metrics import (
    BaseMetric,
    DecisionCost,
    DecisionSkill,
    EvaluationResult,
    MetricScore,
    score_all,
)
from krisis.metrics.base import Rows
from krisis.metrics.forms import Form
from krisis.metrics.paired import Exchanges, paired_differences
from krisis.metrics.table import Answers, Units
from krisis.statistics.bootstrap import BootstrapOptions

PRICED = Answers((0, 1), positive=1, price=0.2)


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
    cost, skill = scored(DecisionCost(), TEN), scored(DecisionSkill(), TEN)
    assert cost.value == pytest.approx(0.26)
    assert skill.value == pytest.approx(1 - 0.26 / 0.2)
    assert (cost.n_evaluated, cost.n_abstained) == (10, 2)
    assert skill.details == {
        "price": 0.2,
        "cost": pytest.approx(0.26),
        "ideal_cost": 0.0,
        "constant_cost": pytest.approx(0.2),
        "constant_policy": "defer",
        "room": pytest.approx(0.2),
        "n_expected_loss": 0,
    }


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
    found = scored(DecisionSkill(), rows)
    assert found.details["constant_policy"] == "answer 1"
    assert found.details["constant_cost"] == pytest.approx(0.1)
    assert found.value == pytest.approx(0.0)


def test_an_answer_that_is_none_of_the_allowed_ones_is_wrong() -> None:
    rows = [*TEN, case(7, 1)]
    assert scored(DecisionCost(), rows).value == pytest.approx((2.6 + 1) / 11)
    known = [case(7, 1, chances={"0": 0.1, "1": 0.9})]
    assert scored(DecisionCost(), known).value == 1.0
    # Without a task the labels that were seen are the answers.
    assert DecisionCost(price=0.2)(TEN).value == pytest.approx(0.26)


def test_a_price_can_be_given_and_is_part_of_the_name() -> None:
    half = DecisionCost(price=0.5)
    assert scored(half, TEN).value == pytest.approx((2 + 3 * 0.5) / 10)
    assert half.label == "Decision Cost [price=0.5]"
    for wrong in (0, 1, -0.2, "0.2"):
        with pytest.raises(InvalidValue, match="price of deferring must be between 0 and 1"):
            DecisionCost(price=wrong)  # type: ignore[arg-type]


def test_there_is_no_skill_without_a_price_rows_or_room() -> None:
    without = replace(PRICED, price=None)
    assert scored(DecisionSkill(), TEN, without).details["reason"] == (
        "the_task_has_no_price_of_deferring"
    )
    assert scored(DecisionCost(), []).details["reason"] == "no_scored_rows"
    rare = [*(case(1, 1) for _ in range(98)), case(0, 0), case(0, 0)]
    found = scored(DecisionSkill(), rare)
    assert math.isnan(found.value)
    assert found.details["reason"] == "the_best_constant_policy_is_nearly_ideal"
    assert found.details["room"] == pytest.approx(0.02)
    assert scored(DecisionCost(), rare).value == 0.0


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
    price = suite.task.price
    return Rows(rows, Answers(tuple(suite.task.answers), price=price))


def test_skill_is_1_for_the_ideal_reader_and_0_for_the_best_constant_policy(
    kidney: CKDSuite,
) -> None:
    skills = {
        reader: DecisionSkill()(answered(kidney, reader)).value
        for reader in ("ideal", "guideline", "defer", "0", "1")
    }
    assert skills["ideal"] == pytest.approx(1.0, abs=1e-4)  # probabilities have six digits
    assert max(skills["defer"], skills["0"], skills["1"]) == pytest.approx(0.0, abs=1e-12)
    assert skills["defer"] < 1 > skills["guideline"] > 0


def test_the_headline_of_a_task_with_a_price_is_skill(kidney: CKDSuite) -> None:
    assert kidney.task.metrics == ("decision_skill", "decision_cost")
    own = Task("sepsis", answers={0: "no", 1: "yes"}, metrics=("accuracy",), price=0.1)
    assert own.metrics == ("decision_skill", "decision_cost", "accuracy")
    assert Task("sepsis", metrics=("accuracy",)).metrics == ("accuracy",)
    with pytest.raises(InvalidValue, match="price of the task 'sepsis' must be between 0 and 1"):
        Task("sepsis", price=20)


def test_groups_have_a_skill_where_there_is_room() -> None:
    rows = [replace(row, metadata={"ckd_stage": 1}) for row in TEN]
    rows += [replace(case(1, 1), metadata={"ckd_stage": 2}) for _ in range(5)]
    found = scored(DecisionSkill(), rows)
    assert found.breakdown == {"stage_1": pytest.approx(-0.3)}  # in stage 2 all have one answer
    costs = scored(DecisionCost(), rows).breakdown
    assert costs == {"stage_1": pytest.approx(0.26), "stage_2": 0.0}


def test_rows_that_were_not_evaluated_bound_the_cost_but_not_the_skill() -> None:
    rows = [*TEN, case(None, 1, failure="timeout")]
    cost, skill = scored(DecisionCost(), rows), scored(DecisionSkill(), rows)
    assert cost.value == pytest.approx(0.26)
    assert cost.bounds == (pytest.approx(2.6 / 11), pytest.approx(3.6 / 11))
    assert (skill.bounds, skill.details["bounds"]) == (None, "not bounded")


def test_influences_are_the_derivatives_of_the_skill() -> None:
    table = Rows(TEN, PRICED).table
    form = DecisionSkill().form(table)
    assert isinstance(form, Form)
    weighted = form.on(Units(np.arange(10), 10))
    weights = np.linspace(0.5, 1.5, 10)[:, None]
    found = weighted.influences(weights)
    assert found is not None
    for unit in range(10):
        more = weights.copy()
        more[unit] *= 1 + 1e-6
        slope = (weighted.values(more) - weighted.values(weights)) / 1e-6
        assert found[unit, 0] == pytest.approx(slope[0], abs=1e-4)


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
    score = score_all([DecisionSkill()], Rows(rows, PRICED), intervals=BootstrapOptions())
    found = score["decision_skill"]
    assert found.value == 1.0
    assert found.interval is not None
    assert (found.interval.high, found.interval.method) == (1.0, "patient_bootstrap")
    assert 0.6 < found.interval.low < 0.9
    one = [case(0, 1, name="one"), case(0, 0, name="one")]
    both = score_all([DecisionSkill()], Rows(one, PRICED), intervals=BootstrapOptions())
    interval = both["decision_skill"].interval
    assert interval is not None
    assert interval.reason == "needs_at_least_two_clusters"


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
    rows = Rows([case(0, 0, chances={"0": 0.7, "1": 0.2, "9": 0.1})], PRICED)
    assert DecisionCost(price=0.2)(rows).value == pytest.approx(0.3)


def test_costs_are_found_by_their_answers_and_an_answer_without_one_costs_the_most() -> None:
    answers = Answers(losses={0: {1: 1.0, 2: 0.5}, 1: {0: 0.25}, 2: {0: 0.75}})
    found = answers.loss_matrix([2, 0, 1])
    assert found.tolist() == [[0.0, 0.75, 1.0], [0.5, 0.0, 1.0], [1.0, 0.25, 0.0]]
    assert Answers().loss_matrix([0, 1]).tolist() == [[0.0, 1.0], [1.0, 0.0]]

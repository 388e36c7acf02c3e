"""What an answer costs is said once: the laws of costs, regret and skill, and 20 cases per task."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from krisis.answers import AnswerSet, Label
from krisis.cost_file import costs_from, read_costs
from krisis.costs import Costs
from krisis.data.base import BaseDataSuite, SuiteConfig, Task
from krisis.data.ckd.suite import CKDSuite
from krisis.data.instructions import Instructions, abstention_text, costs_in_words
from krisis.data.nhanes.diabetes import COSTS as DIABETES
from krisis.data.nhanes.diabetes import DiabetesSuite
from krisis.data.phq8.suite import PHQ8Suite
from krisis.data.phq8.task import TASK as PHQ8
from krisis.data.task import Judgement
from krisis.errors import InvalidValue, UnknownName
from krisis.metrics import CostSaved, DecisionCost, DecisionSkill, DeferralSkill, EvaluationResult
from krisis.metrics.base import Rows
from krisis.metrics.decision import Decisions, decisions_of
from krisis.metrics.labels import Answers

YES_NO = {0: "present", 1: "absent"}  # the positive answer is 0, as of kidney detection
KIDNEY = Costs({0: {1: 1.0}, 1: {0: 0.5}}, 0.15)


def row(
    answer: Label | None, truth: Label, chances: Mapping[Label, float], *, lost: bool = False
) -> EvaluationResult:
    return EvaluationResult(
        answer,
        truth,
        answer is None and not lost,
        metadata={"answer_probabilities": {str(a): float(p) for a, p in chances.items()}},
        error="no allowed answer" if lost else None,
        failure_class="malformed_reply" if lost else "",
    )


def decided(rows: Sequence[EvaluationResult], answers: Answers) -> Decisions:
    return decisions_of(Rows(list(rows), answers).table)


# ------------------------------------------------------------------ laws


@st.composite
def worlds(draw: st.DrawFn) -> tuple[Costs, list[tuple[int | None, bool, dict[int, Fraction]]]]:
    """A table of small whole numbers, so that ties are frequent, and decisions by it."""
    n = draw(st.integers(2, 4))
    table = {t: {a: draw(st.integers(0, 6)) for a in range(n) if a != t} for t in range(n)}
    most = max(cost for line in table.values() for cost in line.values())
    if not most:
        table[0][1] = most = 6
    price = Fraction(draw(st.integers(1, 11)), 12) * most
    decisions = []
    for _ in range(draw(st.integers(1, 8))):
        parts = [draw(st.integers(0, 3)) for _ in range(n)]
        parts[0] += not any(parts)
        chances = {a: Fraction(part, sum(parts)) for a, part in enumerate(parts)}
        answer = draw(st.one_of(st.none(), st.integers(0, n - 1)))
        decisions.append((answer, answer is None and draw(st.booleans()), chances))
    return Costs(table, float(price)), decisions


def rows_of(
    decisions: Sequence[tuple[int | None, bool, dict[int, Fraction]]],
) -> list[EvaluationResult]:
    rows = [
        row(answer, 0, {a: float(p) for a, p in chances.items()}, lost=lost)
        for answer, lost, chances in decisions
    ]
    return [replace(one, record_id=f"case {at}") for at, one in enumerate(rows)]


@given(worlds())
@settings(max_examples=200, deadline=None)
def test_regret_by_when_and_what_adds_up_to_cost_above_the_ideal(
    world: tuple[Costs, list[tuple[int | None, bool, dict[int, Fraction]]]],
) -> None:
    costs, decisions = world
    n = len(decisions[0][2])
    found = decided(rows_of(decisions), Answers(tuple(range(n)), costs=costs))
    parts = sum(part.mean() for part in found.regret.values())
    assert parts == pytest.approx(found.cost.mean() - found.ideal.mean(), abs=1e-12)
    assert all((part >= -1e-12).all() for part in found.regret.values())
    # The same by hand: what was given costs its expected cost, what was not given the price.
    for at, (answer, _, chances) in enumerate(decisions):
        each = [math.fsum(float(p) * costs.of(t, a) for t, p in chances.items()) for a in range(n)]
        assert found.cost[at] == pytest.approx(costs.price if answer is None else each[answer])
        assert found.best[at] == pytest.approx(min(each))
        assert found.due[at] == costs.is_due(min(each))
    facts = found.facts()
    split = [facts[f"regret_{one}"] for one in found.regret]
    assert sum(split) == pytest.approx(facts["cost"] - facts["ideal_cost"], abs=1e-12)


@given(worlds(), st.floats(0.01, 1000))
@settings(max_examples=100, deadline=None)
def test_scaling_all_costs_changes_nothing(
    world: tuple[Costs, list[tuple[int | None, bool, dict[int, Fraction]]]], factor: float
) -> None:
    costs, decisions = world
    scaled = Costs(
        {t: {a: c * factor for a, c in line.items()} for t, line in costs.wrong.items()},
        costs.price * factor,
    )
    assert scaled.same(costs)
    n = len(decisions[0][2])
    one, other = (
        decided(rows_of(decisions), Answers(tuple(range(n)), costs=each))
        for each in (costs, scaled)
    )
    np.testing.assert_allclose(one.cost, other.cost)
    np.testing.assert_array_equal(one.due, other.due)
    task = Task("t", answers=dict.fromkeys(range(n), "x"), costs=costs)
    assert costs_in_words(replace(task, costs=scaled)) == costs_in_words(task)


SHARES = st.sampled_from([Fraction(k, d) for d in (2, 3, 7, 8, 20) for k in range(1, d)])
TASKS = {
    "two": Task("two", answers=YES_NO, positive=0),
    "order": Task("order", answers={0: "a", 1: "b", 2: "c"}, ordered=True),
    "any": Task("any", answers={"x": "a", "y": "b", "z": "c"}),
}


@given(st.sampled_from(sorted(TASKS)), st.lists(SHARES, min_size=4, max_size=4))
def test_the_words_change_with_the_table_and_only_with_it(name: str, drawn: list[Fraction]) -> None:
    task = TASKS[name]
    first, second, *_ = task.answers

    def costs(share: Fraction, price: Fraction) -> Costs:
        wrong = {t: {a: 1.0 for a in task.answers if a != t} for t in task.answers}
        wrong[second][first] = float(share)
        return Costs(wrong, float(price))

    tables = costs(drawn[0], drawn[1]), costs(drawn[2], drawn[3])
    texts = [costs_in_words(replace(task, costs=one)) for one in tables]
    assert (texts[0] == texts[1]) == tables[0].same(tables[1])


@given(worlds())
@settings(max_examples=100, deadline=None)
def test_an_ideal_reader_has_both_skills_and_no_regret(
    world: tuple[Costs, list[tuple[int | None, bool, dict[int, Fraction]]]],
) -> None:
    costs, decisions = world
    n = len(decisions[0][2])
    judged = [Judgement.by_cost(costs, {a: float(p) for a, p in c.items()}) for *_, c in decisions]
    rows = [row(j.answer, 0, c) for j, (*_, c) in zip(judged, decisions, strict=True)]
    answers = Answers(tuple(range(n)), costs=costs)
    found = decided(rows, answers)
    assert sum(part.sum() for part in found.regret.values()) == pytest.approx(0, abs=1e-5)
    for metric in (DecisionSkill(), DeferralSkill()):
        value = metric(Rows(rows, answers)).value
        assert math.isnan(value) or value == pytest.approx(1.0, abs=1e-4)


# ------------------------------------------------------------------ Deferral Skill

CASES = 40_000


def world_of(seed: int = 0) -> tuple[np.ndarray, Answers]:
    return np.random.default_rng(seed).beta(0.7, 0.7, CASES), Answers((0, 1), costs=KIDNEY)


def skill_where(deferred: np.ndarray, p: np.ndarray, answers: Answers) -> float:
    rows = [
        row(None if skip else 0, 0, {0: chance, 1: 1 - chance})
        for chance, skip in zip(p.tolist(), deferred.tolist(), strict=True)
    ]
    return DeferralSkill()(Rows(rows, answers)).value


def test_never_always_and_randomly_deferring_have_a_deferral_skill_of_0() -> None:
    p, answers = world_of()
    assert skill_where(np.zeros(CASES, bool), p, answers) == pytest.approx(0.0, abs=1e-12)
    assert skill_where(np.ones(CASES, bool), p, answers) == pytest.approx(0.0, abs=1e-12)
    chance = np.random.default_rng(1).uniform(size=CASES)
    for share in (0.2, 0.6):
        assert skill_where(chance < share, p, answers) == pytest.approx(0.0, abs=0.03)


@pytest.mark.parametrize(
    ("sensitivity", "specificity", "expected"),
    [(0.65, 0.65, 0.30), (0.80, 0.70, 0.50), (0.90, 0.80, 0.70), (1.0, 1.0, 1.0)],
)
def test_deferral_skill_is_sensitivity_plus_specificity_less_one(
    sensitivity: float, specificity: float, expected: float
) -> None:
    p, answers = world_of()
    due = np.minimum(p, (1 - p) * 0.5) >= 0.15
    lot = np.random.default_rng(2).uniform(size=CASES)
    deferred = np.where(due, lot < sensitivity, lot >= specificity)
    assert skill_where(deferred, p, answers) == pytest.approx(expected, abs=0.03)


def test_which_answer_was_given_does_not_enter_deferral_skill() -> None:
    p, answers = (one[:500] if isinstance(one, np.ndarray) else one for one in world_of())
    chances = [{0: x, 1: 1 - x} for x in p.tolist()]
    skip = np.random.default_rng(3).uniform(size=500) < 0.4
    values = {
        DeferralSkill()(
            Rows(
                [row(None if s else a, 0, c) for s, c in zip(skip.tolist(), chances, strict=True)],
                answers,
            )
        ).value
        for a in (0, 1)
    }
    assert len(values) == 1


# ------------------------------------------------------------------ the table


def test_a_transposed_table_is_caught_because_answers_are_its_keys() -> None:
    suite = CKDSuite(SuiteConfig(n_synthetic=2000))
    records = suite.load()
    mine = suite.task.costs
    transposed = Costs({0: {1: mine.of(1, 0)}, 1: {0: mine.of(0, 1)}}, mine.price)

    def share_due(costs: Costs) -> float:
        chances = [record.metadata["answer_probabilities"] for record in records]
        due = [costs.is_due(costs.best({int(a): p for a, p in c.items()})[1]) for c in chances]
        return sum(due) / len(due)

    assert share_due(mine) == pytest.approx(0.35, abs=0.03)
    assert share_due(transposed) == pytest.approx(0.25, abs=0.03)
    assert not mine.same(transposed)
    labelled = sum(record.metadata["should_abstain"] for record in records) / len(records)
    assert labelled == share_due(mine)


def test_a_tie_is_due_although_floats_say_otherwise() -> None:
    assert 1 - 0.8 < 0.2
    assert Costs().is_due(1 - 0.8)
    assert Judgement.by_cost(Costs(), {"ill": 0.8, "well": 0.2}).abstain
    assert not Judgement.by_cost(Costs(), {"ill": 0.80001, "well": 0.19999}).abstain
    tied = row(None, 1, {0: 0.2, 1: 0.8}), row(1, 1, {0: 0.2, 1: 0.8})
    assert decided(tied, Answers((0, 1))).due.tolist() == [1, 1]


def test_answers_are_matched_in_any_spelling_and_every_error_needs_a_cost() -> None:
    answers = AnswerSet((0, 1))
    assert Costs({"0": {"1": 2}, "1": {"0": 1}}, 0.4).over(answers).wrong == {
        0: {1: 1.0},
        1: {0: 0.5},
    }
    with pytest.raises(InvalidValue, match="say nothing of the answer 0 where 1 is right; add it"):
        Costs({0: {1: 1}}).over(answers)
    with pytest.raises(UnknownName, match="answer in the costs: 'x'"):
        Costs({0: {1: 1}, 1: {"x": 1}}).over(answers)


@pytest.mark.parametrize(
    ("wrong", "price", "sentence"),
    [
        ({0: {1: -1}, 1: {0: 1}}, 0.2, "must be a number of 0 or more, not -1"),
        ({0: {1: math.inf}, 1: {0: 1}}, 0.2, "must be a number of 0 or more, not inf"),
        ({0: {1: "x"}, 1: {0: 1}}, 0.2, "must be a number of 0 or more, not 'x'"),
        ({0: {0: 0.1, 1: 1}, 1: {0: 1}}, 0.2, "must be 0, not 0.1: right answers cost nothing"),
        ({0: {1: 0}, 1: {0: 0}}, 0.2, "must hold at least one above 0"),
        ({0: {1: 100}, 1: {0: 50}}, 100, "above 0 and below 100, the costliest error, not 100"),
        ({}, 1, "above 0 and below 1, the cost of a wrong answer, not 1"),
        ({}, 0, "above 0 and below 1, the cost of a wrong answer, not 0"),
        ({}, math.nan, "above 0 and below 1, the cost of a wrong answer, not nan"),
        ({}, True, "above 0 and below 1, the cost of a wrong answer, not True"),
    ],
)
def test_costs_that_are_none_are_refused_in_one_sentence(
    wrong: dict[int, dict[int, float]], price: float, sentence: str
) -> None:
    with pytest.raises(InvalidValue, match=re.escape(sentence)):
        Costs(wrong, price)


def test_a_file_of_costs_is_read_and_its_faults_are_named(tmp_path) -> None:
    file = tmp_path / "costs.yaml"
    file.write_text(
        "costs: {0: {1: 200}, 1: {0: 100}}\nprice: 30\nwhy: Invented.\n", encoding="utf-8"
    )
    found = read_costs(file)
    assert found == replace(KIDNEY, why="Invented.")
    assert costs_from(found.to_json(), "here") == found
    for text, sentence in (
        ("costs: {0: {1: 2}}", "says nothing of what a deferral costs; add `price:`"),
        ("why: x", "holds neither `costs:` nor `price:`; add one"),
        ("price: 0.2\nprize: 3", "field of the costs"),
        ("costs: 3\nprice: 1", "`costs` must map each true answer to what the others cost"),
        ("costs: {yes: {no: 1}}\nprice: 0.2", "write the answer in quotes"),
        ("price: 2", "must be above 0 and below 1"),
    ):
        file.write_text(text, encoding="utf-8")
        with pytest.raises((InvalidValue, UnknownName), match=re.escape(sentence)):
            read_costs(file)


# ------------------------------------------------------------------ 20 cases per task, by hand
# Kidney detection: saying "present" costs half of P(absent), saying "absent" costs P(present).
# A deferral costs .15. P(present), cost of "present", cost of "absent", what a careful reader does.
DETECTION = [
    (0.00, 0.500, 0.00, 1),
    (0.02, 0.490, 0.02, 1),
    (0.05, 0.475, 0.05, 1),
    (0.10, 0.450, 0.10, 1),
    (0.14, 0.430, 0.14, 1),
    (0.15, 0.425, 0.15, None),  # a tie
    (0.16, 0.420, 0.16, None),
    (0.20, 0.400, 0.20, None),
    (0.25, 0.375, 0.25, None),
    (0.30, 0.350, 0.30, None),
    (0.40, 0.300, 0.40, None),
    (0.50, 0.250, 0.50, None),
    (0.60, 0.200, 0.60, None),
    (0.65, 0.175, 0.65, None),
    (0.70, 0.150, 0.70, None),  # a tie
    (0.72, 0.140, 0.72, 0),
    (0.80, 0.100, 0.80, 0),
    (0.90, 0.050, 0.90, 0),
    (0.96, 0.020, 0.96, 0),
    (1.00, 0.000, 1.00, 0),
]


@pytest.mark.parametrize(("p", "present", "absent", "act"), DETECTION)
def test_kidney_detection_by_hand(p: float, present: float, absent: float, act: int | None) -> None:
    costs = CKDSuite().task.costs
    found = costs.expected({0: p, 1: 1 - p})
    assert (found[0], found[1]) == pytest.approx((present, absent))
    assert Judgement.by_cost(costs, {0: p, 1: 1 - p}).answer == act


# Undiagnosed diabetes: "yes" costs a tenth of P(no), "no" costs P(yes), a deferral .05.
UNDIAGNOSED = [
    (0.000, 0.1000, 0.000, 0),
    (0.005, 0.0995, 0.005, 0),
    (0.010, 0.0990, 0.010, 0),
    (0.020, 0.0980, 0.020, 0),
    (0.030, 0.0970, 0.030, 0),
    (0.036, 0.0964, 0.036, 0),  # one in 28, as in the survey
    (0.040, 0.0960, 0.040, 0),
    (0.049, 0.0951, 0.049, 0),
    (0.050, 0.0950, 0.050, None),  # a tie
    (0.060, 0.0940, 0.060, None),
    (0.080, 0.0920, 0.080, None),
    (0.100, 0.0900, 0.100, None),
    (0.200, 0.0800, 0.200, None),
    (0.300, 0.0700, 0.300, None),
    (0.400, 0.0600, 0.400, None),
    (0.500, 0.0500, 0.500, None),  # a tie
    (0.510, 0.0490, 0.510, 1),
    (0.600, 0.0400, 0.600, 1),
    (0.800, 0.0200, 0.800, 1),
    (1.000, 0.0000, 1.000, 1),
]


@pytest.mark.parametrize(("p", "yes", "no", "act"), UNDIAGNOSED)
def test_undiagnosed_diabetes_by_hand(p: float, yes: float, no: float, act: int | None) -> None:
    found = DIABETES.expected({0: 1 - p, 1: p})
    assert (found[1], found[0]) == pytest.approx((yes, no))
    assert Judgement.by_cost(DIABETES, {0: 1 - p, 1: p}).answer == act


# Staging: every error costs 1 and a deferral .2. P(G1) … P(G5) in percent, the best stage, its
# cost, what a careful reader does.
STAGING = [
    ((100, 0, 0, 0, 0), 1, 0.00, 1),
    ((90, 10, 0, 0, 0), 1, 0.10, 1),
    ((81, 19, 0, 0, 0), 1, 0.19, 1),
    ((80, 20, 0, 0, 0), 1, 0.20, None),  # a tie
    ((79, 21, 0, 0, 0), 1, 0.21, None),
    ((60, 40, 0, 0, 0), 1, 0.40, None),
    ((50, 50, 0, 0, 0), 1, 0.50, None),
    ((30, 70, 0, 0, 0), 2, 0.30, None),
    ((10, 85, 5, 0, 0), 2, 0.15, 2),
    ((0, 82, 18, 0, 0), 2, 0.18, 2),
    ((0, 55, 45, 0, 0), 2, 0.45, None),
    ((0, 20, 80, 0, 0), 3, 0.20, None),
    ((0, 5, 90, 5, 0), 3, 0.10, 3),
    ((0, 0, 75, 25, 0), 3, 0.25, None),
    ((0, 0, 40, 60, 0), 4, 0.40, None),
    ((0, 0, 9, 88, 3), 4, 0.12, 4),
    ((0, 0, 0, 66, 34), 4, 0.34, None),
    ((0, 0, 0, 15, 85), 5, 0.15, 5),
    ((0, 0, 0, 1, 99), 5, 0.01, 5),
    ((20, 20, 20, 20, 20), 1, 0.80, None),
]


@pytest.mark.parametrize(("percent", "best", "cost", "act"), STAGING)
def test_staging_by_hand(percent: tuple[int, ...], best: int, cost: float, act: int | None) -> None:
    costs = CKDSuite(SuiteConfig(task="staging")).task.costs
    chances = {stage: part / 100 for stage, part in enumerate(percent, 1)}
    answer, lowest = costs.best(chances)
    assert (answer, lowest) == (best, pytest.approx(cost))
    assert Judgement.by_cost(costs, chances).answer == act


# PHQ-8: a score that is d points off costs d/3, a deferral .05. P(0) … P(3) in percent, the best
# score, three times its cost, what a careful reader does (.15 is the price on that scale).
ITEM = [
    ((100, 0, 0, 0), 0, 0.00, 0),
    ((90, 10, 0, 0), 0, 0.10, 0),
    ((86, 14, 0, 0), 0, 0.14, 0),
    ((85, 15, 0, 0), 0, 0.15, None),  # a tie
    ((80, 20, 0, 0), 0, 0.20, None),
    ((95, 0, 0, 5), 0, 0.15, None),  # a tie: 5 % · 3 points
    ((96, 0, 4, 0), 0, 0.08, 0),
    ((92, 0, 8, 0), 0, 0.16, None),
    ((50, 50, 0, 0), 0, 0.50, None),
    ((40, 30, 20, 10), 1, 0.40 + 0.20 + 0.20, None),
    ((10, 90, 0, 0), 1, 0.10, 1),
    ((7, 86, 7, 0), 1, 0.14, 1),
    ((7, 85, 8, 0), 1, 0.15, None),  # a tie
    ((0, 94, 0, 6), 1, 0.12, 1),
    ((0, 12, 88, 0), 2, 0.12, 2),
    ((0, 5, 85, 10), 2, 0.15, None),  # a tie
    ((3, 3, 94, 0), 2, 0.09, 2),
    ((0, 0, 30, 70), 3, 0.30, None),
    ((0, 0, 10, 90), 3, 0.10, 3),
    ((25, 25, 25, 25), 1, 0.25 + 0.25 + 0.50, None),
]


@pytest.mark.parametrize(("percent", "best", "points", "act"), ITEM)
def test_an_item_of_the_phq8_by_hand(
    percent: tuple[int, ...], best: int, points: float, act: int | None
) -> None:
    chances = {score: part / 100 for score, part in enumerate(percent)}
    answer, lowest = PHQ8.costs.best(chances)
    assert (answer, 3 * lowest) == (best, pytest.approx(points))
    assert Judgement.by_cost(PHQ8.costs, chances).answer == act


# ------------------------------------------------------------------ prompt, label and ideal agree

WORDS = {"half": 0.5, "a third": 1 / 3, "a quarter": 0.25, "a fifth": 0.2, "a tenth": 0.1}
ERROR = "(?:missed disease|false alarm)"
WORDS |= {"two thirds": 2 / 3, "three quarters": 0.75, "a twentieth": 0.05}


def share(text: str) -> float:
    """Read a share of a cost as a person would."""
    return float(text.removesuffix(" %")) / 100 if text.endswith("%") else WORDS[text]


def obedient(task: Task, text: str, chances: Mapping[Label, float]) -> Label | None:
    """Answer as a reader who knows the chances and of the costs only what the prompt says."""
    if found := re.fullmatch(
        rf"A ({ERROR}) counts (.+?)(?: as much as| of) a {ERROR}\. "
        rf"An abstention counts (.+?)(?: as much as| of) a {ERROR}\.",
        text,
    ):
        lesser, cost, price = found[1], share(found[2]), share(found[3])
        negative = next(answer for answer in task.answers if answer != task.positive)
        missed, alarm = (cost, 1.0) if lesser == "missed disease" else (1.0, cost)
        each = {negative: missed * chances[task.positive], task.positive: alarm * chances[negative]}
    elif found := re.search(r"grows evenly with the steps .* An abstention costs (.+) of", text):
        price = share(found[1])
        places = {answer: at for at, answer in enumerate(task.answers)}
        each = {a: sum(p * abs(places[a] - places[t]) for t, p in chances.items()) for a in chances}
    else:
        found = re.fullmatch(r"An abstention costs (.+) of what a wrong answer costs\.", text)
        assert found, text
        price, each = share(found[1]), {a: 1 - p for a, p in chances.items()}
    best = min(each, key=lambda a: round(each[a], 12))
    return None if each[best] >= price - 1e-9 else best


SUITES = {
    "detection": lambda config: CKDSuite(replace(config, task="detection", n_synthetic=120)),
    "staging": lambda config: CKDSuite(replace(config, task="staging", n_synthetic=120)),
    "progression": lambda config: CKDSuite(replace(config, task="progression", n_synthetic=60)),
    "albuminuria": lambda config: CKDSuite(replace(config, task="albuminuria", n_synthetic=60)),
    "risk": lambda config: CKDSuite(replace(config, task="risk", n_synthetic=60)),
    "phq8": lambda config: PHQ8Suite(replace(config, n_synthetic=20), split="all", cohort="clinic"),
}
OTHERS = [
    SuiteConfig(),
    SuiteConfig(price=0.3),
]


def chances_of(suite: BaseDataSuite, stated: Mapping[str, float]) -> dict[Label, float]:
    match = suite.task.answer_set.match
    return {match(answer): chance for answer, chance in stated.items()}


@pytest.mark.parametrize("config", OTHERS, ids=["own costs", "price .3"])
@pytest.mark.parametrize("name", SUITES)
def test_prompt_label_and_ideal_reader_agree(name: str, config: SuiteConfig) -> None:
    suite = SUITES[name](config)
    text = abstention_text(suite.task)
    n_due = 0
    for record in suite.load():
        chances = chances_of(suite, record.metadata["answer_probabilities"])
        told = obedient(suite.task, text, chances)
        ideal = suite.rules["ideal"](record.features, record.context)
        assert (told is None) == record.metadata["should_abstain"] == ideal.abstain, record
        assert told == ideal.answer or ideal.abstain
        n_due += told is None
    assert 0 < n_due < len(suite.load())


def test_another_table_of_the_user_reaches_prompt_label_and_ideal_reader() -> None:
    costs = Costs({0: {1: 0.2}, 1: {0: 1.0}}, 0.1)
    suite = CKDSuite(SuiteConfig(n_synthetic=120, costs=costs))
    text = abstention_text(suite.task)
    assert text == (
        "A missed disease counts a fifth as much as a false alarm. An abstention counts a tenth as "
        "much as a false alarm."
    )
    for record in suite.load():
        chances = chances_of(suite, record.metadata["answer_probabilities"])
        told = obedient(suite.task, text, chances)
        ideal = suite.rules["ideal"](record.features, "")
        assert (told is None) == record.metadata["should_abstain"] == ideal.abstain
        assert told == ideal.answer


# ------------------------------------------------------------------ shipped tables

SHIPPED = {
    "detection": "A false alarm counts half as much as a missed disease. An abstention counts 15 % "
    "of a missed disease.",
    "staging": "An abstention costs a fifth of what a wrong answer costs.",
    "phq8": "The cost of a wrong answer grows evenly with the steps between it and the right one. "
    "An abstention costs 15 % of one step.",
}


@pytest.mark.parametrize("name", SHIPPED)
def test_the_shipped_costs_in_words(name: str) -> None:
    task = SUITES[name](SuiteConfig()).task
    assert costs_in_words(task) == SHIPPED[name]
    assert task.costs.why
    assert not task.costs.assumed


def test_diabetes_in_words() -> None:
    task = Task("undiagnosed", answers={0: "no", 1: "yes"}, positive=1, costs=DIABETES)
    assert costs_in_words(task) == (
        "A false alarm counts a tenth as much as a missed disease. An abstention counts a "
        "twentieth as much as a missed disease."
    )


def test_a_task_without_costs_gets_the_assumed_price_and_keeps_saying_so() -> None:
    task = Task("sepsis", answers={0: "no", 1: "yes"})
    assert task.costs.assumed
    assert (task.costs.price, task.costs.to_json()) == (0.2, {"price": 0.2, "assumed": True})
    assert not Task("sepsis", price=0.2).costs.assumed


# ------------------------------------------------------------------ instructions: policy


@pytest.mark.parametrize("name", ["detection", "staging", "progression", "phq8"])
def test_an_ideal_reader_who_obeys_the_policy_loses_nothing(name: str) -> None:
    suite = SUITES[name](SuiteConfig(by_policy=True))
    plain = {r.record_id: r for r in SUITES[name](SuiteConfig()).load()}
    rows, more = [], 0
    for record in suite.load():
        judged = suite.rules["ideal"](record.features, record.context)
        due = record.metadata["should_abstain"]
        assert judged.abstain == due
        assert due >= plain[record.record_id].metadata["should_abstain"]  # b ≥ c stays due
        more += due and not plain[record.record_id].metadata["should_abstain"]
        rows.append(
            EvaluationResult(judged.answer, record.label, judged.abstain, metadata=record.metadata)
        )
    assert more or name in ("progression", "phq8")  # there what a rule names is uncertain anyway
    answers = Answers.of(suite.task.facts())
    assert DeferralSkill()(Rows(rows, answers)).value == 1.0
    skill = DecisionSkill()(Rows(rows, answers))
    assert math.isnan(skill.value) or skill.value == pytest.approx(1.0, abs=1e-4)
    cost = DecisionCost()(Rows(rows, answers))
    assert cost.details["ideal_cost"] == pytest.approx(cost.value, abs=1e-6)
    assert not [key for key in cost.details if key.startswith("regret")]


def test_stakes_are_equal_by_policy() -> None:
    answers = Answers((0, 1), costs=KIDNEY, due_by="policy")
    chances: list[Mapping[Label, float]] = [{0: 0.5, 1: 0.5}, {0: 0.0, 1: 1.0}, {0: 0.98, 1: 0.02}]
    rows = [
        replace(one, metadata={**one.metadata, "should_abstain": due})
        for one, due in zip(
            (row(0, 0, chances[0]), row(None, 0, chances[1]), row(0, 0, chances[2])),
            (True, True, False),
            strict=True,
        )
    ]
    assert DeferralSkill()(Rows(rows, answers)).value == 0.5


def test_the_policy_is_costs_and_rules_as_a_list_and_is_refused_where_there_is_none() -> None:
    suite = CKDSuite(SuiteConfig(by_policy=True))
    text = abstention_text(suite.task, Instructions.POLICY)
    first = "Abstain if\n1. your best answer is expected to cost as much as an abstention or more\n"
    assert text.startswith(f"{SHIPPED['detection']} {first}")
    assert len(text.splitlines()) == 2 + len(suite.task.policy)
    with pytest.raises(
        InvalidValue, match="'undiagnosed' of the suite 'diabetes' states no policy"
    ):
        _ = DiabetesSuite(SuiteConfig(by_policy=True)).task


# ------------------------------------------------------------------ one figure everywhere


def test_a_reader_who_is_always_right_saves_the_whole_cost_of_the_best_constant_policy() -> None:
    suite = CKDSuite(SuiteConfig(n_synthetic=200))
    rows = [
        EvaluationResult(r.label, r.label, record_id=r.record_id, metadata={}) for r in suite.load()
    ]
    saved = CostSaved()(Rows(rows, Answers.of(suite.task.facts())))
    assert saved.value == pytest.approx(100 * saved.details["constant_cost"])

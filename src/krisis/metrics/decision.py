"""What the decisions of a model cost, by the costs of the task.

Where a suite knows the probability of each answer given what was shown
(``metadata["answer_probabilities"]``), an answer costs its expected cost, which takes the luck of
the drawn label out of the figure. A deferral and a reply without an answer cost the price.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from krisis.costs import TOLERANCE
from krisis.errors import InvalidValue
from krisis.json_values import JsonObject
from krisis.metrics.base import BaseMetric
from krisis.metrics.forms import Form, Mean, Uncertainty, Undefined, Weighted, ratio
from krisis.metrics.table import BoolArray, FloatArray, IntArray, Label, Table, Units
from krisis.statistics.bootstrap import BootstrapOptions, resample_counts
from krisis.statistics.intervals import Interval
from krisis.statistics.pseudo_answer import (
    N_RESAMPLES,
    RIGHT_WEIGHT,
    FigureRange,
    bootstrap_interval,
)
from krisis.statistics.sum_of_ratios import SumOfRatios, skill_interval

PROBABILITIES = "answer_probabilities"
# Below this difference between the best constant policy and the ideal reader, a skill says nothing.
LEAST_ROOM = 0.03
# Savings are given per so many cases.
PER = 100
_LEAST_RESAMPLED = 1e-3  # of resamples: no room, no value
# Probabilities are stored with six digits.
_ROUNDING = 1e-4


@dataclass(frozen=True, eq=False)
class Decisions:
    """What every row cost, what an ideal reader would have paid, and every constant policy too.

    ``best`` is the lowest expected cost of an answer and ``given`` that of the answer that was
    given, both NaN where the probabilities are not ``known``. ``policies`` has one row per policy:
    to defer always, then to give each answer always. ``due`` is 1 where a case should be deferred,
    0 where not, −1 where nobody knows, and ``stakes`` is what the decision to defer it is worth.
    """

    cost: FloatArray
    best: FloatArray
    given: FloatArray
    answered: BoolArray
    policies: FloatArray
    names: tuple[str, ...]
    price: float
    due: IntArray
    stakes: FloatArray
    by_policy: bool = False

    @cached_property
    def known(self) -> BoolArray:
        """True where the probabilities of the answers are known."""
        return ~np.isnan(self.best)

    @cached_property
    def ideal(self) -> FloatArray:
        """What an ideal reader pays: the smaller of its best answer and the price; 0 if unknown.

        By a policy it pays the price wherever a rule says so.
        """
        best = np.where(self.by_policy & (self.due == 1), math.inf, self.best)
        return np.where(self.known, np.minimum(best, self.price), 0.0)

    @cached_property
    def regret(self) -> Mapping[str, FloatArray]:
        """Split cost − ideal of every row into when and what; NaN where that is not known.

        Answered too much: max(0, b − c) if answered. Deferred too much: max(0, c − b) if not.
        Answered wrongly: l − b if answered. b is the lowest expected cost of an answer, l that of
        the answer given, c the price.
        """
        b, c = self.best, self.price
        return {
            "answered_too_much": np.where(self.answered, np.maximum(0.0, b - c), 0.0 * b),
            "deferred_too_much": np.where(self.answered, 0.0 * b, np.maximum(0.0, c - b)),
            "answered_wrongly": np.where(self.answered, self.given - b, 0.0 * b),
        }

    def facts(self) -> JsonObject:
        """Return what the figures rest on."""
        constants = self.policies.mean(axis=1)
        best = int(constants.argmin())
        facts: JsonObject = {
            "price": self.price,
            "cost": float(self.cost.mean()),
            "constant_cost": float(constants[best]),
            "constant_policy": self.names[best],
            "n_expected_loss": int(np.count_nonzero(self.known)),
        }
        if self.known.all():
            ideal = float(self.ideal.mean())
            facts |= {"ideal_cost": ideal, "room": float(constants[best]) - ideal}
            if not self.by_policy:
                facts |= {
                    f"regret_{name}": float(part.mean()) for name, part in self.regret.items()
                }
        return facts


def decisions_of(table: Table, *, expected: bool = True) -> Decisions:
    """Return the decisions of the rows of a table at the costs of its task.

    Without ``expected`` an answer costs what it costs at the truth that was drawn, also where the
    probabilities are known: they hold at one prevalence, and a risk is of what happens.
    """
    return table.shared(("decisions", expected), lambda: _decisions(table, expected=expected))


def _decisions(table: Table, *, expected: bool) -> Decisions:
    answers = list(dict.fromkeys([*table.answers.keys, *table.labels]))
    allowed = list(table.answers.keys) or answers
    costs, n = table.answers.costs, table.n_scored
    chances = _probabilities(table, answers)
    if not expected:
        chances = np.full_like(chances, math.nan)
    known = ~np.isnan(chances[:, 0])
    # What is not known of a case is as it was drawn: the right answer has probability 1.
    place = {label: column for column, label in enumerate(answers)}
    truth = np.array([place[label] for label in table.labels], dtype=np.int64)
    drawn = np.eye(len(answers))[truth[table.truth]]
    chances = np.where(known[:, None], chances, drawn)
    # Probabilities are rounded: 1 − P is nearer to the loss than the sum of the others.
    loss = 1.0 - chances if costs.are_equal else chances @ table.answers.cost_matrix(answers)
    columns = [place[answer] for answer in allowed]
    lowest = loss[:, columns].min(axis=1, initial=1.0)
    given = np.append(truth, -1)[table.prediction]
    # An answer that is none of the allowed ones costs as much as the costliest.
    given_loss = np.where(given < 0, 1.0, loss[np.arange(n), given])
    best = np.where(known, lowest, math.nan)
    due, stakes = _due(table, best)
    return Decisions(
        cost=np.where(table.answered, given_loss, costs.price),
        best=best,
        given=np.where(known & table.answered, given_loss, math.nan),
        answered=table.answered,
        policies=np.array([np.full(n, costs.price), *(loss[:, one] for one in columns)]),
        names=("defer", *(f"answer {table.answers.name(one)}" for one in allowed)),
        price=costs.price,
        due=due,
        stakes=stakes,
        by_policy=table.answers.due_by == "policy",
    )


def _due(table: Table, best: FloatArray) -> tuple[IntArray, FloatArray]:
    """Return which rows are due for deferral and what is at stake: |b − c|, or 1 by a label."""
    due_by, price = table.answers.due_by, table.answers.costs.price
    if due_by in ("costs", "checklist") and not np.isnan(best).all():
        with np.errstate(invalid="ignore"):
            is_due = best >= price - TOLERANCE
        due = np.where(np.isnan(best), -1, is_due.astype(np.int64))
        return due, np.where(due >= 0, np.abs(best - price), 0.0)
    labelled = np.full(table.n_scored, -1) if due_by == "checklist" else table.should_abstain
    return labelled, (labelled >= 0).astype(np.float64)


def _probabilities(table: Table, answers: list[Label]) -> FloatArray:
    """Return P(answer | findings) of every row, NaN where the suite does not know it."""
    found = np.full((table.n_scored, len(answers)), math.nan)
    place = {answer: column for column, answer in enumerate(answers)}
    for row, given in enumerate(table.metadata(PROBABILITIES)):
        if given is not None:
            found[row] = 0.0
            for answer, chance in _checked(given).items():
                column = place.get(table.answers.key(answer))
                if column is not None:
                    found[row, column] = chance
    return found


def _checked(given: object) -> Mapping[object, float]:
    numbers = isinstance(given, Mapping) and all(
        isinstance(chance, int | float) and 0 <= chance <= 1 for chance in given.values()
    )
    if not (isinstance(given, Mapping) and numbers and abs(sum(given.values()) - 1) < _ROUNDING):
        raise InvalidValue(
            f"metadata['{PROBABILITIES}'] must map answers to probabilities that add up to 1, not "
            f"{str(given)[:80]!r}"
        )
    return given


class _OfDecisions(BaseMetric):
    """A figure of what decisions cost by the costs of the task."""

    def __init__(self, *, group_by: str = "") -> None:
        self.group_by = group_by

    def form(self, table: Table) -> Form | Undefined:
        """Return the figure, where there are rows."""
        if not table.n_scored:
            return Undefined("no_scored_rows")
        return self.figure(decisions_of(table))

    def figure(self, decisions: Decisions) -> Form | Undefined:
        """Return the number that the metric is."""
        raise NotImplementedError  # pragma: no cover

    def details(self, table: Table, form: Form) -> JsonObject:
        """Return the costs of the model, of an ideal reader and of the best constant policy."""
        return decisions_of(table).facts()


class DecisionCost(_OfDecisions):
    """Mean cost of the decisions: a right answer 0, an error its cost, a deferral the price.

    Formula: (1/n) · Σ of c over answered, abstained and no-answer rows, with c = the price where
    the model gave no answer and c = Σ P(truth | findings) · L(truth, answer) where it did. P is the
    probability that the suite knows (``metadata["answer_probabilities"]``), else 1 for the right
    answer and 0 for the others. L is the cost table of the task, scaled so that its costliest error
    costs 1; where every error costs the same, c = 1 − P(answer). Direction: lower.

    Reference: Chow, On optimum recognition error and reject tradeoff, IEEE Transactions on
    Information Theory 16 (1970) 41–46.

    >>> from krisis.metrics import EvaluationResult
    >>> rows = [EvaluationResult(1, 1), EvaluationResult(0, 1), EvaluationResult(None, 1, True)]
    >>> round(DecisionCost()(rows).value, 3)
    0.4
    """

    name = "Decision Cost"
    key = "decision_cost"
    direction = "lower"

    def figure(self, decisions: Decisions) -> Form | Undefined:
        """Return the mean cost."""
        everyone = np.ones(decisions.cost.size, dtype=np.bool_)
        return Mean(decisions.cost, among=everyone, low=0.0, high=1.0)


class CostSaved(_OfDecisions):
    """What the decisions save per 100 cases against the best constant policy, in costliest errors.

    Formula: 100 · (K_constant − K), where K is the Decision Cost and K_constant the cost of the
    best constant policy: always defer, or always give the same answer. Direction: higher; below 0
    the constant policy is better. The figure for real patients, of whom no ideal reader is known.

    Reference: Chow, On optimum recognition error and reject tradeoff, IEEE Transactions on
    Information Theory 16 (1970) 41–46, for the cost; the comparator is that of Decision Skill.

    >>> from krisis.metrics import EvaluationResult
    >>> rows = [EvaluationResult(1, 1), EvaluationResult(0, 0), EvaluationResult(None, 1, True)]
    >>> round(CostSaved()(rows).value, 2)
    13.33
    """

    name = "Cost saved per 100"
    key = "cost_saved"
    direction = "higher"

    def figure(self, decisions: Decisions) -> Form | Undefined:
        """Return the saving."""
        return SavedForm(decisions)


class DecisionSkill(_OfDecisions):
    """How far decisions get from the best constant policy (0) to an ideal reader (1).

    Formula: (K_constant − K) / (K_constant − K_ideal), where K is the Decision Cost, K_ideal the
    mean over rows of the smaller of the price and the lowest expected cost of an answer, and
    K_constant the cost of the best constant policy: always defer, or always give the same answer.
    Direction: higher; below 0 the constant policy is better. Undefined where K_constant − K_ideal
    < 0.03, since there is nothing to show, and where the suite does not know the probabilities of
    the answers, as for real patients: see Cost saved per 100.

    Reference: Murphy, Skill scores based on the mean square error and their relationships to the
    correlation coefficient, Monthly Weather Review 116 (1988) 2417–2424, for skill against a
    reference forecast.

    >>> from krisis.metrics import EvaluationResult
    >>> one, zero = ({"answer_probabilities": {answer: 1.0}} for answer in "10")
    >>> rows = [EvaluationResult(1, 1, metadata=one), EvaluationResult(0, 0, metadata=zero)]
    >>> rows.append(EvaluationResult(None, 1, True, metadata=one))
    >>> round(DecisionSkill()(rows).value, 3)
    0.667
    """

    name = "Decision Skill"
    key = "decision_skill"
    direction = "higher"

    def figure(self, decisions: Decisions) -> Form | Undefined:
        """Return the skill, where an ideal reader is known and there is room for it."""
        if not decisions.known.all():
            return Undefined("no_ideal_reader_is_known", decisions.facts())
        facts = decisions.facts()
        if facts["room"] < LEAST_ROOM:
            return Undefined("the_best_constant_policy_is_nearly_ideal", facts)
        return SkillForm(decisions)


class DeferralSkill(_OfDecisions):
    """Sensitivity + specificity − 1 of deferral, each case weighted by what is at stake.

    Formula: 1 − Σ answered too much / Σ max(0, b − c) − Σ deferred too much / Σ max(0, c − b),
    where b is the lowest expected cost of an answer and c the price. A row is answered too much by
    max(0, b − c) if it was answered, and deferred too much by max(0, c − b) if it was not. With a
    deferral label instead of probabilities every case weighs the same. An ideal reader has 1;
    whoever never, always or randomly defers, 0. Which answer was given does not enter. Direction:
    higher.

    Reference: Youden, Index for rating diagnostic tests, Cancer 3 (1950) 32–35.

    >>> from krisis.metrics import EvaluationResult
    >>> due, safe = {"should_abstain": True}, {"should_abstain": False}
    >>> rows = [EvaluationResult(None, 1, True, metadata=due), EvaluationResult(1, 1, metadata=due),
    ...         EvaluationResult(1, 1, metadata=safe)]
    >>> DeferralSkill()(rows).value
    0.5
    """

    name = "Deferral Skill"
    key = "deferral_skill"
    direction = "higher"

    def figure(self, decisions: Decisions) -> Form | Undefined:
        """Return the skill, where there are due and safe cases with something at stake."""
        facts = deferral_facts(decisions)
        if not (decisions.due >= 0).any():
            return Undefined("nobody_knows_which_cases_are_due", facts)
        for kind, code in (("due", 1), ("safe", 0)):
            if not decisions.stakes[decisions.due == code].sum() > 0:
                return Undefined(f"no_case_is_{kind}", facts)
        return StakesForm(decisions)

    def details(self, table: Table, form: Form) -> JsonObject:
        """Return the counts behind the skill."""
        return deferral_facts(decisions_of(table))


def deferral_facts(decisions: Decisions) -> JsonObject:
    """Count the due cases that were deferred and the safe ones that were answered."""
    due, safe = decisions.due == 1, decisions.due == 0
    return {
        "n_due": int(due.sum()),
        "n_due_deferred": int((due & ~decisions.answered).sum()),
        "n_safe": int(safe.sum()),
        "n_safe_answered": int((safe & decisions.answered).sum()),
    }


class _OfPolicies(Form):
    """A figure of the costs of all rows beside those of the constant policies.

    The best constant policy is chosen anew under any weights.
    """

    def __init__(self, decisions: Decisions) -> None:
        self.decisions = decisions
        everyone = Units(np.zeros(decisions.cost.size, dtype=np.int64), 1)
        self._value = float(self.on(everyone).values(np.ones((1, 1)))[0])

    @property
    def n_evaluated(self) -> int:
        """Count all rows."""
        return self.decisions.cost.size

    def value(self) -> float:
        """Return the figure of all rows."""
        return self._value

    def on(self, units: Units) -> _WeightedCosts:
        """Collect costs by unit."""
        raise NotImplementedError  # pragma: no cover

    def _collected(self, units: Units, kind: type[_WeightedCosts]) -> _WeightedCosts:
        d = self.decisions
        return kind(
            rows=units.sums(np.ones(d.cost.size)),
            cost=units.sums(d.cost),
            ideal=units.sums(d.ideal),
            policies=np.array([units.sums(policy) for policy in d.policies]),
        )

    def uncertainty(self, table: Table, options: BootstrapOptions) -> Uncertainty:
        """Return percentiles of resampled patients, with one pseudo-answer for those not seen.

        For the lower limit it is a wrong answer, as heavy as the rows of one patient may be, for
        the upper one half a decision of the ideal reader. Where every loss is expected, no label
        is left to chance: the pseudo-answer costs the price more than the ideal reader's, which
        covers (docs/reference/metrics.md has the simulation), and not the costliest error.
        """
        pools = table.pools
        drawn = replace(options, n_resamples=min(options.n_resamples, N_RESAMPLES))
        weighted = self.on(pools)
        rows_per_patient = self.n_evaluated / table.patients.n
        wrong = 1.0 + (rows_per_patient - 1.0) / 2.0
        regret_of_one = self.decisions.price if self.decisions.known.all() else 1.0
        low, high = (
            np.concatenate(
                [
                    weighted.values(counts, extra_rows=rows, extra_regret=regret)
                    for counts in resample_counts(pools.n, drawn)
                ]
            )
            for rows, regret in ((wrong, wrong * regret_of_one), (RIGHT_WEIGHT, 0.0))
        )
        figure = FigureRange(value=self._value, low=self.low, high=self.high)
        return Uncertainty(
            bootstrap_interval(low, high, figure, n_units=pools.n, level=options.level)
        )


class _WeightedCosts(Weighted):
    """Sums by unit of rows, costs, ideal costs and the costs of every constant policy."""

    def __init__(
        self, *, rows: FloatArray, cost: FloatArray, ideal: FloatArray, policies: FloatArray
    ) -> None:
        self.rows, self.cost, self.ideal, self.policies = rows, cost, ideal, policies

    def best(self, weights: FloatArray) -> FloatArray:
        """Return the sums of the best constant policy by unit (units × columns)."""
        chosen: FloatArray = self.policies[(self.policies @ weights).argmin(axis=0)].T
        return chosen

    def values(
        self, weights: FloatArray, *, extra_rows: float = 0.0, extra_regret: float = 0.0
    ) -> FloatArray:
        """Return the figures; extra rows with their cost above the ideal reader's may be added."""
        raise NotImplementedError  # pragma: no cover


class SavedForm(_OfPolicies):
    """100 · (K_constant − K) as a function of how often each patient counts."""

    low, high = -float(PER), float(PER)
    slope = float(PER)

    def on(self, units: Units) -> _WeightedCosts:
        """Collect costs by unit."""
        return self._collected(units, _WeightedSaved)


class _WeightedSaved(_WeightedCosts):
    def values(
        self, weights: FloatArray, *, extra_rows: float = 0.0, extra_regret: float = 0.0
    ) -> FloatArray:
        best = (self.policies @ weights).min(axis=0)
        saved = best - self.cost @ weights - extra_regret
        return PER * ratio(saved, self.rows @ weights + extra_rows)

    def influences(self, weights: FloatArray) -> FloatArray:
        """Return (saved − mean · rows) / Σ rows by unit, times its weight."""
        saved = self.best(weights) - self.cost[:, None]
        total = self.rows @ weights
        mean = self.values(weights) / PER
        return PER * ratio(weights * (saved - mean * self.rows[:, None]), total)


class SkillForm(_OfPolicies):
    """(K_constant − K) / (K_constant − K_ideal) as a function of how often each patient counts."""

    low, high = -math.inf, 1.0

    def __init__(self, decisions: Decisions) -> None:
        super().__init__(decisions)
        room = decisions.policies.mean(axis=1).min() - decisions.ideal.mean()
        self.slope = 1.0 / float(room)

    def by_group(self, codes: IntArray, n_groups: int) -> FloatArray:
        """Return the skill of every group; NaN where a group leaves no room for it."""
        weighted = self._collected(Units(codes, n_groups), _WeightedSkill)
        assert isinstance(weighted, _WeightedSkill)
        room = weighted.room(np.eye(n_groups))
        return np.where(room >= LEAST_ROOM, super().by_group(codes, n_groups), math.nan)

    def on(self, units: Units) -> _WeightedCosts:
        """Collect costs by unit."""
        return self._collected(units, _WeightedSkill)


class _WeightedSkill(_WeightedCosts):
    def room(self, weights: FloatArray) -> FloatArray:
        """Return K_constant − K_ideal."""
        best: FloatArray = (self.policies @ weights).min(axis=0) - self.ideal @ weights
        return ratio(best, self.rows @ weights)

    def values(
        self, weights: FloatArray, *, extra_rows: float = 0.0, extra_regret: float = 0.0
    ) -> FloatArray:
        regret = (self.cost - self.ideal) @ weights + extra_regret
        room = self.room(weights)
        skill = 1.0 - ratio(ratio(regret, self.rows @ weights + extra_rows), room)
        return np.where(room > _LEAST_RESAMPLED, skill, math.nan)

    def influences(self, weights: FloatArray) -> FloatArray:
        """Return −(n − (1 − skill) · d) / (D · Σ rows) by unit, times its weight.

        n is the unit's regret and d its room under the best constant policy, both sums over its
        rows; D is the mean room. The derivative of a ratio, where the means cancel.
        """
        regret, room = (self.cost - self.ideal)[:, None], self.best(weights) - self.ideal[:, None]
        lost = 1.0 - self.values(weights)
        return -ratio(weights * (regret - lost * room), self.room(weights) * (self.rows @ weights))


class StakesForm(Form):
    """Deferral Skill as a function of how often each patient counts."""

    low, high = -1.0, 1.0
    slope = 2.0

    def __init__(self, decisions: Decisions) -> None:
        self.decisions = decisions
        due, safe = decisions.due == 1, decisions.due == 0
        stakes = np.where(decisions.due >= 0, decisions.stakes, 0.0)
        self.parts = {
            "due": stakes * due,
            "due_lost": stakes * (due & decisions.answered),
            "safe": stakes * safe,
            "safe_lost": stakes * (safe & ~decisions.answered),
        }
        everyone = Units(np.zeros(decisions.due.size, dtype=np.int64), 1)
        self._value = float(self.on(everyone).values(np.ones((1, 1)))[0])

    @property
    def n_evaluated(self) -> int:
        """Count the rows of which it is known whether they are due."""
        return int(np.count_nonzero(self.decisions.due >= 0))

    def value(self) -> float:
        """Return the skill of all rows."""
        return self._value

    def on(self, units: Units) -> _WeightedStakes:
        """Collect stakes by unit."""
        return _WeightedStakes(**{name: units.sums(part) for name, part in self.parts.items()})

    def uncertainty(self, table: Table, options: BootstrapOptions) -> Uncertainty:
        """Return Student limits of the linearised ratios, by patient."""
        patients = table.patients
        if patients.n < 2:
            return Uncertainty(
                Interval.undefined("needs_at_least_two_clusters", level=options.level)
            )
        sums = self.on(patients)
        base = np.array([sums.due, sums.safe])
        lost = np.array([sums.due_lost, sums.safe_lost])
        return Uncertainty(skill_interval(SumOfRatios(base - lost, base), options.level))


class _WeightedStakes(Weighted):
    """Sums by unit of what was at stake in due and safe cases, and of what was lost of it."""

    def __init__(
        self, *, due: FloatArray, due_lost: FloatArray, safe: FloatArray, safe_lost: FloatArray
    ) -> None:
        self.due, self.due_lost, self.safe, self.safe_lost = due, due_lost, safe, safe_lost

    def values(self, weights: FloatArray) -> FloatArray:
        lost = ratio(self.due_lost @ weights, self.due @ weights)
        return 1.0 - lost - ratio(self.safe_lost @ weights, self.safe @ weights)

    def influences(self, weights: FloatArray) -> FloatArray:
        """Return the sum of −(lost − share · stakes) / Σ stakes of both ratios, by unit."""
        found = np.zeros((self.due.size, weights.shape[1]))
        for lost, stakes in ((self.due_lost, self.due), (self.safe_lost, self.safe)):
            total = stakes @ weights
            share = ratio(lost @ weights, total)
            found -= ratio(weights * (lost[:, None] - share * stakes[:, None]), total)
        return found

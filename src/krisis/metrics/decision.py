"""What the decisions of a model cost: a wrong answer its loss, usually 1, a deferral its price.

Where a suite knows the probability of each answer given what was shown
(``metadata["answer_probabilities"]``), an answer costs its expected loss, which takes the luck of
the drawn label out of the figure.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from krisis.errors import InvalidValue
from krisis.json_values import JsonObject
from krisis.metrics.base import BaseMetric
from krisis.metrics.forms import Form, Mean, Uncertainty, Undefined, Weighted, ratio
from krisis.metrics.table import FloatArray, IntArray, Label, Table, Units
from krisis.statistics.bootstrap import BootstrapOptions, resample_counts
from krisis.statistics.pseudo_answer import (
    N_RESAMPLES,
    RIGHT_WEIGHT,
    FigureRange,
    bootstrap_interval,
)

PROBABILITIES = "answer_probabilities"
# Below this difference between the best constant policy and the ideal reader, a skill says nothing.
LEAST_ROOM = 0.03
_LEAST_RESAMPLED = 1e-3  # of resamples: no room, no value
_NO_PRICE = "the_task_has_no_price_of_deferring"
_NO_ROOM = "the_best_constant_policy_is_nearly_ideal"
# Probabilities are stored with six digits.
_ROUNDING = 1e-4


@dataclass(frozen=True, eq=False)
class Decisions:
    """What every row cost, an ideal reader would have paid, and every constant policy too.

    ``policies`` has one row per policy: to defer always, then to give each answer always.
    """

    cost: FloatArray
    ideal: FloatArray
    policies: FloatArray
    names: tuple[str, ...]
    n_expected: int
    price: float
    most: float

    @classmethod
    def of(cls, table: Table, price: float) -> Decisions:
        """Price the rows of a table."""
        answers = list(dict.fromkeys([*table.answers.keys, *table.labels]))
        allowed = list(table.answers.keys) or answers
        chances = _probabilities(table, answers)
        known = ~np.isnan(chances[:, 0])
        # What is not known of a case is as it was drawn: the right answer has probability 1.
        truth = np.array([answers.index(label) for label in table.labels], dtype=np.int64)
        drawn = np.eye(len(answers))[truth[table.truth]]
        chances = np.where(known[:, None], chances, drawn)
        wrong = table.answers.loss_matrix(answers)
        most = float(wrong.max(initial=1.0))
        # Probabilities are rounded: 1 − P is nearer to the loss than the sum of the others.
        loss = chances @ wrong if table.answers.losses else 1.0 - chances
        loss = np.column_stack([loss, np.full(table.n_scored, most)])  # the last: no answer
        given = np.append(truth, -1)[table.prediction]
        answered = loss[np.arange(table.n_scored), given]
        best = loss[:, : len(answers)].min(axis=1, initial=most)
        constant = [loss[:, answers.index(answer)] for answer in allowed]
        return cls(
            cost=np.where(table.answered, answered, price),
            ideal=np.where(known, np.minimum(best, price), 0.0),
            policies=np.array([np.full(table.n_scored, price), *constant]),
            names=("defer", *(f"answer {table.answers.name(one)}" for one in allowed)),
            n_expected=int(np.count_nonzero(known)),
            price=price,
            most=most,
        )

    def facts(self) -> JsonObject:
        """Return what the figures rest on."""
        constants = self.policies.mean(axis=1)
        best, ideal = int(constants.argmin()), float(self.ideal.mean())
        return {
            "price": self.price,
            "cost": float(self.cost.mean()),
            "ideal_cost": ideal,
            "constant_cost": float(constants[best]),
            "constant_policy": self.names[best],
            "room": float(constants[best]) - ideal,
            "n_expected_loss": self.n_expected,
        }


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
    """A figure of what decisions cost at a price; ``price`` is that of the task unless given."""

    def __init__(self, price: float | None = None, *, group_by: str = "") -> None:
        if price is not None and not (isinstance(price, int | float) and 0 < price < 1):
            raise InvalidValue(f"the price of deferring must be between 0 and 1, not {price!r}")
        self.price, self.group_by = price, group_by

    def price_of(self, table: Table) -> float | None:
        """Return the price at which the rows of a table are scored."""
        return self.price if self.price is not None else table.answers.price

    def form(self, table: Table) -> Form | Undefined:
        """Return the figure, where there are rows and a price."""
        price = self.price_of(table)
        if not table.n_scored:
            return Undefined("no_scored_rows")
        if price is None:
            return Undefined(_NO_PRICE)
        return self.figure(self._decisions(table, price))

    def _decisions(self, table: Table, price: float) -> Decisions:
        return table.shared(("decisions", price), lambda: Decisions.of(table, price))

    def figure(self, decisions: Decisions) -> Form | Undefined:
        """Return the number that the metric is."""
        raise NotImplementedError  # pragma: no cover

    def details(self, table: Table, form: Form) -> JsonObject:
        """Return the costs of the model, of an ideal reader and of the best constant policy."""
        price = self.price_of(table)
        assert price is not None
        return self._decisions(table, price).facts()


class DecisionCost(_OfDecisions):
    """Mean cost of the decisions: 0 if right, 1 if wrong, the price if deferred or unanswered.

    Formula: (1/n) · Σ of c over answered, abstained and no-answer rows, with c = price where the
    model gave no answer and c = Σ P(truth | findings) · L(truth, answer) where it did. P is the
    probability that the suite knows (``metadata["answer_probabilities"]``), else 1 for the right
    answer and 0 for the others. L is 1 for every wrong answer, so that c = 1 − P(answer); where a
    task grades its errors (PHQ-8), L is its cost table in the unit of the price. Direction: lower.
    ``price`` is the cost of one deferral relative to one wrong answer; that of the task unless
    given.

    Reference: Chow, On optimum recognition error and reject tradeoff, IEEE Transactions on
    Information Theory 16 (1970) 41–46.

    >>> from krisis.metrics import EvaluationResult
    >>> rows = [EvaluationResult(1, 1), EvaluationResult(0, 1), EvaluationResult(None, 1, True)]
    >>> round(DecisionCost(price=0.2)(rows).value, 3)
    0.4
    """

    name = "Decision Cost"
    key = "decision_cost"
    direction = "lower"

    def figure(self, decisions: Decisions) -> Form | Undefined:
        """Return the mean cost."""
        everyone = np.ones(decisions.cost.size, dtype=np.bool_)
        return Mean(decisions.cost, among=everyone, low=0.0, high=decisions.most)


class DecisionSkill(_OfDecisions):
    """How far decisions get from the best constant policy (0) to an ideal reader (1).

    Formula: 1 − (K − K_ideal) / (K_constant − K_ideal), where K is the Decision Cost, K_ideal the
    mean over rows of the smaller of the price and the smallest expected loss of an answer (0 where
    the suite does not know the probabilities, as for real patients), and K_constant the cost of
    the best constant policy: always defer, or always give the same answer. Direction: higher;
    below 0 the constant policy is better. Undefined where K_constant − K_ideal < 0.03: there is
    nothing to show.

    Reference: Murphy, Skill scores based on the mean square error and their relationships to the
    correlation coefficient, Monthly Weather Review 116 (1988) 2417–2424, for skill against a
    reference forecast.

    >>> from krisis.metrics import EvaluationResult
    >>> rows = [EvaluationResult(1, 1), EvaluationResult(0, 0), EvaluationResult(None, 1, True)]
    >>> round(DecisionSkill(price=0.2)(rows).value, 3)
    0.667
    """

    name = "Decision Skill"
    key = "decision_skill"
    direction = "higher"

    def figure(self, decisions: Decisions) -> Form | Undefined:
        """Return the skill, where there is room for it."""
        facts = decisions.facts()
        if facts["room"] < LEAST_ROOM:
            return Undefined(_NO_ROOM, facts)
        return SkillForm(decisions)


class SkillForm(Form):
    """1 − (K − K_ideal) / (K_constant − K_ideal), as a function of how often each patient counts.

    All three are means over the same rows, and the best constant policy is chosen anew under any
    weights.
    """

    low, high = -math.inf, 1.0

    def __init__(self, decisions: Decisions) -> None:
        self.decisions = decisions
        everyone = Units(np.zeros(decisions.cost.size, dtype=np.int64), 1)
        self._value = float(self.on(everyone).values(np.ones((1, 1)))[0])
        room = decisions.policies.mean(axis=1).min() - decisions.ideal.mean()
        self.slope = 1.0 / float(room)

    @property
    def n_evaluated(self) -> int:
        """Count all rows."""
        return self.decisions.cost.size

    def value(self) -> float:
        """Return the skill of all rows."""
        return self._value

    def by_group(self, codes: IntArray, n_groups: int) -> FloatArray:
        """Return the skill of every group; NaN where a group leaves no room for it."""
        weighted = self.on(Units(codes, n_groups))
        room = weighted.room(np.eye(n_groups))
        return np.where(room >= LEAST_ROOM, super().by_group(codes, n_groups), math.nan)

    def on(self, units: Units) -> _WeightedSkill:
        """Collect costs by unit."""
        d = self.decisions
        return _WeightedSkill(
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
        all_expected = self.decisions.n_expected == self.n_evaluated
        regret_of_one = self.decisions.price if all_expected else self.decisions.most
        low, high = (
            np.concatenate(
                [
                    weighted.values(counts, extra_rows=rows, extra_regret=regret)
                    for counts in resample_counts(pools.n, drawn)
                ]
            )
            for rows, regret in ((wrong, wrong * regret_of_one), (RIGHT_WEIGHT, 0.0))
        )
        figure = FigureRange(value=self._value, high=1.0)
        return Uncertainty(
            bootstrap_interval(low, high, figure, n_units=pools.n, level=options.level)
        )


class _WeightedSkill(Weighted):
    """Sums by unit of rows, costs, ideal costs and the costs of every constant policy."""

    def __init__(
        self, *, rows: FloatArray, cost: FloatArray, ideal: FloatArray, policies: FloatArray
    ) -> None:
        self.rows, self.cost, self.ideal, self.policies = rows, cost, ideal, policies

    def room(self, weights: FloatArray) -> FloatArray:
        """Return K_constant − K_ideal."""
        best: FloatArray = (self.policies @ weights).min(axis=0) - self.ideal @ weights
        return ratio(best, self.rows @ weights)

    def values(
        self, weights: FloatArray, *, extra_rows: float = 0.0, extra_regret: float = 0.0
    ) -> FloatArray:
        """Return the skills; extra rows with their cost above the ideal reader's may be added."""
        regret = (self.cost - self.ideal) @ weights + extra_regret
        room = self.room(weights)
        skill = 1.0 - ratio(ratio(regret, self.rows @ weights + extra_rows), room)
        return np.where(room > _LEAST_RESAMPLED, skill, math.nan)

    def influences(self, weights: FloatArray) -> FloatArray:
        """Return −(n − (1 − skill) · d) / (D · Σ rows) by unit, times its weight.

        n is the unit's regret and d its room under the best constant policy, both sums over its
        rows; D is the mean room. The derivative of a ratio, where the means cancel.
        """
        best = self.policies[(self.policies @ weights).argmin(axis=0)].T
        regret, room = (self.cost - self.ideal)[:, None], best - self.ideal[:, None]
        lost = 1.0 - self.values(weights)
        return -ratio(weights * (regret - lost * room), self.room(weights) * (self.rows @ weights))

"""Judge a shown case: the probability of every answer, and the reasons to defer it.

Two readers answer: one who knows the facts that the prompt states (the deferral label and
`bayes-optimal`), and the guideline reader, who takes the dipstick at its word and knows of no
prior, only of the error of one creatinine. What errors and deferrals cost by default is at the end.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from krisis.data.base import CostTable, Features, Judgement, Label, Task
from krisis.data.ckd import progression, setting
from krisis.data.ckd.deferral import (
    ROWS_OF_RISK,
    SIDES_OF_60,
    DeferralRule,
    visible_reasons,
)
from krisis.data.ckd.egfr import REFERENCE_AGES, Array, category_probabilities, stage_labels
from krisis.data.ckd.posterior import posterior, prior, shifted
from krisis.data.ckd.schema import usable

CKD_PRESENT, CKD_ABSENT = 0, 1
RISKS = ("low", "moderate", "high", "very high")
# The KDIGO heat map: position in `RISKS` by category, worst first, and albuminuria.
HEAT_MAP = np.array([[3, 3, 3], [3, 3, 3], [2, 3, 3], [1, 2, 3], [0, 1, 2], [0, 1, 2]])
# Between these prevalences a label that depends on the prior changes.
PREVALENCES = (0.10, 0.60)
_FACE_VALUE = (0, 1, 1, 2, 2, 2)  # the albuminuria that a dipstick grade is taken for


@dataclass(frozen=True, slots=True)
class Assessment:
    """The probability of each answer given what is shown, and the reasons by rule to defer.

    ``shifted`` holds the probability of error of the best answer at each of `PREVALENCES`.
    """

    probabilities: dict[Label, float]
    visible_reasons: list[str]
    shifted: tuple[float, ...] = ()

    @property
    def answer(self) -> Label:
        """Return the most probable answer."""
        return max(self.probabilities, key=lambda answer: self.probabilities[answer])

    @property
    def p_misclass(self) -> float:
        """Return the probability that the most probable answer is wrong."""
        return round(min(1.0, max(0.0, 1.0 - self.probabilities[self.answer])), 6)

    def depends_on_prior(self, risk: float) -> bool:
        """Say whether the case would be deferred at one of the prevalences and not at the other."""
        return not self.visible_reasons and len({p >= risk for p in self.shifted}) > 1


@dataclass(frozen=True, slots=True)
class Assessor:
    """Judges shown cases of one task; ``exact`` uses the facts that the prompt states."""

    task: str
    split_stage_3: bool = False
    exact: bool = False
    equation_error: bool = False

    def __call__(self, features: Features) -> Assessment:
        """Return the assessment of the features that a model is shown."""
        if self.task == Task.PROGRESSION:
            return self._course(features)
        reasons = visible_reasons(features, self.task, self._categories())
        if not self.exact:
            return Assessment(self._answers(_by_guideline(features)), reasons)
        table = posterior(features, equation_error=self.equation_error)
        before = prior(self.equation_error)
        errors = [
            1 - max(self._answers(shifted(table, before, setting.IS_CKD, prevalence)).values())
            for prevalence in PREVALENCES
        ]
        return Assessment(self._answers(table), reasons, tuple(errors))

    def _course(self, features: Features) -> Assessment:
        reasons = progression.course_reasons(features)
        if not self.exact:
            found = progression.reader_probabilities(features)
            return Assessment(progression.by_label(found), reasons)
        found, before = progression.course_posterior(features)
        errors = [
            1 - float(shifted(found, before, progression.WORSENING, prevalence).max())
            for prevalence in PREVALENCES
        ]
        return Assessment(progression.by_label(found), reasons, tuple(errors))

    def _categories(self) -> Sequence[Label]:
        """Return the answer of each category, worst first, as far as the task tells them apart."""
        if self.task == Task.STAGING:
            return stage_labels(self.split_stage_3)
        return ROWS_OF_RISK if self.task == Task.RISK else SIDES_OF_60

    def _answers(self, table: Array) -> dict[Label, float]:
        """Add up the cells of category and albuminuria that have the same answer."""
        if self.task == Task.DETECTION:
            present = min(1.0, float(table[setting.IS_CKD].sum()))
            return {CKD_PRESENT: present, CKD_ABSENT: 1.0 - present}
        if self.task == Task.ALBUMINURIA:
            return dict(zip(setting.ALBUMINURIA_NAMES, map(float, table.sum(axis=0)), strict=True))
        if self.task == Task.RISK:
            return {name: float(table[index == HEAT_MAP].sum()) for index, name in enumerate(RISKS)}
        labels = self._categories()
        found: dict[Label, float] = dict.fromkeys(reversed(labels), 0.0)
        for label, probability in zip(labels, table.sum(axis=1), strict=True):
            found[label] += float(probability)
        return found


@dataclass(frozen=True, slots=True)
class KidneyRule:
    """Applies the KDIGO rules to what is shown; the confidence is the probability of the answer.

    It abstains at any reason by rule to defer, or when the answer is wrong with a probability of
    ``risk`` or more.
    """

    assessor: Assessor
    risk: float = 0.20

    def __post_init__(self) -> None:
        DeferralRule(risk=self.risk)  # refuses what is no risk

    def __call__(self, features: Features, context: str) -> Judgement:
        """Judge the shown features."""
        found = self.assessor(features)
        reasons = DeferralRule(risk=self.risk).reasons(found.visible_reasons, found.p_misclass)
        signals = {"p_misclass": found.p_misclass, "abstain_reasons": reasons}
        if reasons:
            return Judgement(None, signals=signals, abstain=True)
        return Judgement(found.answer, 1.0 - found.p_misclass, signals)


def _by_guideline(features: Features) -> Array:
    """Return P(category, albuminuria) from one creatinine without a prior and the dipstick."""
    creatinine, age, sex, grade = (usable(features, name) for name in ("sc", "age", "sex", "al"))
    categories = np.full(6, 1 / 6)
    if creatinine is not None:
        ages = REFERENCE_AGES if age is None else (age,)
        sexes = (False, True) if sex is None else (bool(sex),)
        categories = category_probabilities(creatinine, map(float, ages), sexes)
    raised = np.full(3, 1 / 3) if grade is None else np.eye(3)[_FACE_VALUE[int(grade)]]
    return np.asarray(categories[:, None] * raised)


# Presets of costs: a wrong answer costs 100 on the whole, one that plays the disease down three
# times as much as one that plays it up, and deferring what the prompt says (docs/how-to/decide.md).
_DOWN, _UP = 150.0, 50.0


def _price(rule: DeferralRule) -> float:
    return round(100 * rule.risk, 10)


def _note(wrong: str) -> str:
    return (
        f"Convention: {wrong} costs 150, the opposite 50, a deferral the stated share of the mean "
        "of both; no study of costs."
    )


def step_costs(rule: DeferralRule, answers: Iterable[Label], step: str) -> CostTable:
    """Return costs per step of distance, answers that are too low costing more."""
    return CostTable.by_distance(
        answers,
        too_low=_DOWN,
        too_high=_UP,
        defer=_price(rule),
        note=_note(f"every {step} that the answer is too low"),
    )


def detection_costs(rule: DeferralRule) -> CostTable:
    """Return costs in which missed disease costs more than a false alarm."""
    costs: dict[Label, dict[Label, float]] = {
        CKD_PRESENT: {CKD_ABSENT: _DOWN},
        CKD_ABSENT: {CKD_PRESENT: _UP},
    }
    return CostTable(costs, _price(rule), note=_note("missed disease"))


def course_costs(rule: DeferralRule) -> CostTable:
    """Return costs in which missed worsening costs more than any other error."""
    costs: dict[Label, dict[Label, float]] = {
        "worsening": {"stable": _DOWN, "improving": _DOWN},
        "stable": {"worsening": _UP, "improving": _UP},
        "improving": {"worsening": _UP, "stable": _UP},
    }
    return CostTable(costs, _price(rule), note=_note("missed worsening"))

"""Read a shown case: the ideal reader, who knows the model of the cohort, and the guideline reader.

The guideline reader takes the dipstick at its word and knows of no prior, only of the error of one
creatinine; it defers what the rules leave undecided.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from krisis.costs import Costs
from krisis.data.base import Features, Judgement, Label, Task
from krisis.data.ckd.cohort_model import PARAMETERS, Parameters
from krisis.data.ckd.course_posterior import course_posterior
from krisis.data.ckd.courses import (
    COURSE_PARAMETERS,
    COURSES,
    CourseParameters,
    guideline_course,
)
from krisis.data.ckd.deferral import broken_rules
from krisis.data.ckd.egfr import Array, category_probabilities, stage_labels
from krisis.data.ckd.posterior import posterior
from krisis.data.ckd.schema import usable

CKD_PRESENT, CKD_ABSENT = 0, 1
RAISED, NOT_RAISED = "yes", "no"
RISKS = ("low", "moderate", "high", "very high")
# The KDIGO heat map: position in `RISKS` by category, worst first, and albuminuria.
HEAT_MAP = np.array([[3, 3, 3], [3, 3, 3], [2, 3, 3], [1, 2, 3], [0, 1, 2], [0, 1, 2]])
_FACE_VALUE = (0, 1, 1, 2, 2, 2)  # the albuminuria that a dipstick grade is taken for


@dataclass(frozen=True, slots=True)
class Question:
    """Which question is asked, as far as its answers depend on it."""

    task: str
    split_stage_3: bool = False
    measured_gfr: bool = False

    @property
    def answers(self) -> tuple[Label, ...]:
        """Return the allowed answers in the order of `probabilities`."""
        return {
            Task.DETECTION: (CKD_PRESENT, CKD_ABSENT),
            Task.STAGING: tuple(dict.fromkeys(reversed(stage_labels(self.split_stage_3)))),
            Task.ALBUMINURIA: (RAISED, NOT_RAISED),
            Task.RISK: RISKS,
            Task.PROGRESSION: COURSES,
        }[self.task]

    def from_table(self, table: Array) -> Array:
        """Add up the cells (category, albuminuria, haematuria) that have the same answer."""
        if self.task == Task.DETECTION:
            absent = table[:, 4:, 0, 0].sum(axis=1)
            return np.stack([1 - absent, absent], axis=1)
        if self.task == Task.ALBUMINURIA:
            raised = table[:, :, 1:].sum(axis=(1, 2, 3))
            return np.stack([raised, 1 - raised], axis=1)
        if self.task == Task.RISK:
            by_cell = table.sum(axis=3)
            return np.stack([by_cell[:, index == HEAT_MAP].sum(axis=1) for index in range(4)], 1)
        labels, categories = stage_labels(self.split_stage_3), table.sum(axis=(2, 3))
        found = [
            categories[:, [label == answer for label in labels]].sum(axis=1)
            for answer in self.answers
        ]
        return np.stack(found, axis=1)


def ideal_probabilities(
    question: Question,
    shown: Sequence[Features],
    *,
    parameters: Parameters = PARAMETERS,
    courses: CourseParameters = COURSE_PARAMETERS,
) -> Array:
    """Return P(answer | all shown findings) of each case; other parameters make another reader."""
    if question.task == Task.PROGRESSION:
        return course_posterior(shown, parameters=parameters, courses=courses)
    table = posterior(shown, parameters=parameters, measured_gfr=question.measured_gfr)
    return question.from_table(table)


def guideline_probabilities(question: Question, shown: Sequence[Features]) -> Array:
    """Return what the rules of the field say, with the error of one creatinine."""
    if question.task == Task.PROGRESSION:
        return np.array([guideline_course(case) for case in shown])
    return question.from_table(np.stack([_at_face_value(case) for case in shown]))


def _at_face_value(features: Features) -> Array:
    creatinine, age, sex, grade = (usable(features, name) for name in ("sc", "age", "sex", "al"))
    categories = np.full(6, 1 / 6)
    if creatinine is not None and age is not None:
        sexes = (False, True) if sex is None else (bool(sex),)
        categories = category_probabilities(creatinine, [float(age)], sexes)
    raised = np.full(3, 1 / 3) if grade is None else np.eye(3)[_FACE_VALUE[int(grade)]]
    ratio = usable(features, "acr")
    if ratio is not None:
        raised = np.eye(3)[int(ratio >= 30) + int(ratio > 300)]
    table = categories[:, None] * raised
    return np.stack([table, np.zeros_like(table)], axis=-1)


@dataclass(frozen=True, slots=True)
class KidneyRule:
    """Answers at the lowest expected cost, or defers where that is not below the price.

    With ``by_rules`` it defers, too, where the rules leave the question undecided.
    """

    question: Question
    probabilities: Callable[[Question, Sequence[Features]], Array]
    costs: Costs
    by_rules: bool

    def __call__(self, features: Features, context: str) -> Judgement:
        """Judge the shown features."""
        found = self.probabilities(self.question, [features])[0]
        rules = broken_rules(features, self.question.task) if self.by_rules else []
        chances = chances_of(self.question, found)
        wrong = round(1.0 - max(chances.values()), 6)
        judged = Judgement.by_cost(self.costs, chances, {"p_wrong": wrong, "rules": rules})
        return replace(judged, answer=None, confidence=None, abstain=True) if rules else judged


def chances_of(question: Question, found: Array) -> dict[Label, float]:
    """Return the probability of every answer, rounded as records and replies state it."""
    return {
        answer: round(float(np.clip(chance, 0.0, 1.0)), 6)
        for answer, chance in zip(question.answers, found, strict=True)
    }

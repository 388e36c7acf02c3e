"""Judge a shown case: the probability of every answer, and the reasons to defer it.

Two models answer: the measurement error of one creatinine with no prior (for real patients, and
what a guideline reader can do), and the exact posterior of the embedded cohort.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from krisis.data.base import Features, Judgement, Label, Task
from krisis.data.ckd import progression
from krisis.data.ckd.deferral import DeferralRule, candidates, visible_reasons
from krisis.data.ckd.egfr import Array, below_60_probability, category_probabilities, stage_labels
from krisis.data.ckd.posterior import posterior
from krisis.data.ckd.schema import usable

CKD_PRESENT, CKD_ABSENT = 0, 1
# Without a creatinine, the measurement alone says nothing: half and half.
UNKNOWN = 0.5


@dataclass(frozen=True, slots=True)
class Assessment:
    """The probability of each answer given what is shown, and the visible reasons to defer."""

    probabilities: dict[Label, float]
    visible_reasons: list[str]

    @property
    def answer(self) -> Label:
        """Return the most probable answer."""
        return max(self.probabilities, key=lambda answer: self.probabilities[answer])

    @property
    def p_misclass(self) -> float:
        """Return the probability that the most probable answer is wrong."""
        return round(min(1.0, max(0.0, 1.0 - self.probabilities[self.answer])), 6)


@dataclass(frozen=True, slots=True)
class Assessor:
    """Judges shown cases of one task; ``exact`` uses the model of the embedded cohort."""

    task: str
    split_stage_3: bool = False
    exact: bool = False

    def __call__(self, features: Features) -> Assessment:
        """Return the assessment of the features that a model is shown."""
        if self.task == Task.PROGRESSION:
            return Assessment(*progression.assess(features, exact=self.exact))
        reasons = visible_reasons(features, self.task)
        if self.task == Task.DETECTION:
            present = posterior(features).ckd if self.exact else _ckd_probability(features)
            return Assessment({CKD_PRESENT: present, CKD_ABSENT: 1.0 - present}, reasons)
        return Assessment(self._stages(features), reasons)

    def _stages(self, features: Features) -> dict[Label, float]:
        categories = posterior(features).categories if self.exact else _categories(features)
        labels = stage_labels(self.split_stage_3)
        found: dict[Label, float] = dict.fromkeys(reversed(labels), 0.0)
        for label, probability in zip(labels, categories, strict=True):
            found[label] += float(probability)
        return found


@dataclass(frozen=True, slots=True)
class KidneyRule:
    """Applies the KDIGO rules to what is shown; the confidence is the probability of the answer.

    It abstains at any visible reason to defer, or when the answer is wrong with a probability of
    ``risk`` or more. With the assessor of one creatinine it is the guideline reader; with the exact
    one it marks what can be reached on the embedded cohort, and nothing on real patients.
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


def _categories(features: Features) -> Array:
    creatinine = usable(features, "sc")
    if creatinine is None:
        return np.full(6, 1 / 6)
    return category_probabilities(creatinine, *candidates(features))


def _ckd_probability(features: Features) -> float:
    albumin, creatinine = usable(features, "al"), usable(features, "sc")
    if albumin is not None and albumin >= 1:
        return 1.0
    if creatinine is None:
        return UNKNOWN
    return below_60_probability(_categories(features))

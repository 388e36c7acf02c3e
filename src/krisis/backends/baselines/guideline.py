"""Baselines that read kidney values by rule: the guideline reader, and the Bayes-optimal one."""

from __future__ import annotations

from typing import Any, ClassVar

from krisis.backends.base import BackendResponse, BaseBackend
from krisis.backends.baselines.constant import prepared
from krisis.data.base import BaseDataSuite, PatientRecord
from krisis.data.ckd.assessment import Assessor
from krisis.data.ckd.deferral import DeferralRule
from krisis.data.ckd.suite import CKDSuite
from krisis.errors import InvalidValue


class Guideline(BaseBackend):
    """Applies the KDIGO rules to what is shown, with the error of a single creatinine.

    Confidence is the probability of the answer under that error. It abstains at any visible reason
    to defer, or when the answer is wrong with a probability of ``risk`` or more.
    """

    name = "guideline"
    _exact: ClassVar[bool] = False

    def __init__(self, *, risk: float = 0.20) -> None:
        self.rule = DeferralRule(risk=risk)
        self._assessor: list[Assessor] = []

    def prepare(self, suite: BaseDataSuite) -> None:
        """Take the task; the rules hold for kidney disease only."""
        if not isinstance(suite, CKDSuite):
            raise InvalidValue(
                f"{self.name!r} knows the rules of the suite 'ckd', not of {suite.name!r}; "
                "choose another baseline, such as 'majority'"
            )
        self._assessor = [Assessor(suite.config.task, suite.split_stage_3, self._exact)]

    def evaluate(self, record: PatientRecord) -> BackendResponse:
        """Judge the shown features."""
        assessment = prepared(self, self._assessor)[0](record.features)
        reasons = self.rule.reasons(assessment.visible_reasons, assessment.p_misclass)
        signals = {"p_misclass": assessment.p_misclass, "abstain_reasons": reasons}
        if reasons:
            return BackendResponse(None, abstained=True, signals=signals)
        return BackendResponse(
            assessment.answer, confidence=1.0 - assessment.p_misclass, signals=signals
        )

    def identity(self) -> dict[str, Any]:
        """Return the name and the stated risk."""
        return {"backend": self.name, "risk": self.rule.risk}


class BayesOptimal(Guideline):
    """Knows the model of the embedded cohort and sums over all that a case does not show.

    It marks what can be reached on that cohort. On real patients it has no such standing.
    """

    name = "bayes-optimal"
    _exact = True

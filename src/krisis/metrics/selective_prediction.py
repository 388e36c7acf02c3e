"""Selective prediction: whether confidence tells which answers to keep (AURC, AUGRC, risk)."""

from __future__ import annotations

import numpy as np

from krisis.errors import UnknownName
from krisis.json_values import JsonObject
from krisis.metrics.base import BaseMetric, EvaluationResult
from krisis.metrics.curve_form import (
    CurveFigure,
    CurvePlan,
    answered_without_confidence,
    optimal_areas,
)
from krisis.metrics.forms import Form, Undefined
from krisis.metrics.risk_coverage import (
    RiskCoverageCurve,
    check_coverage,
    optimal_curve,
    risk_coverage_curve,
)
from krisis.metrics.table import LOSSES, FloatArray, Loss, Table
from krisis.metrics.weighted_curve import risk_key

__all__ = [
    "AUGRC",
    "AURC",
    "EvaluationResult",
    "RiskAtCoverage",
    "RiskCoverageCurve",
    "default_selective_metrics",
    "optimal_curve",
    "risk_coverage_curve",
]

NOTHING_PREDICTED = "no_non_abstained_predictions"
WITHOUT_CONFIDENCE = "answered_rows_without_confidence"
NOT_ORDERED = "labels_have_no_order"


class _CurveMetric(BaseMetric):
    """A figure of the risk–coverage curve of the rows, abstentions counted as never accepted."""

    direction = "lower"

    def __init__(self, *, loss: Loss | None = None) -> None:
        if loss is not None and loss not in LOSSES:
            raise UnknownName.among("loss", str(loss), LOSSES)
        self.loss = loss

    def _figure(self, figure: str, table: Table, *, coverage: float = 0.8) -> Form | Undefined:
        """Return the figure, or the reason why the rows have no curve."""
        loss = self._loss(table)
        without = answered_without_confidence(table)
        details: JsonObject = {"n_without_confidence": int(np.count_nonzero(without))}
        if not table.answered.any():
            reason = NOTHING_PREDICTED if table.n_scored else "no_scored_rows"
            return Undefined(reason, details)
        if without.any():
            return Undefined(WITHOUT_CONFIDENCE, details)
        if np.isnan(table.losses(loss)[table.answered]).any():
            return Undefined(NOT_ORDERED, details)
        return CurveFigure(figure, table, CurvePlan(loss, (coverage,)))

    def _loss(self, table: Table) -> Loss:
        """Return the loss given, else the one that the task names."""
        return self.loss or table.answers.default_loss


class _Area(_CurveMetric):
    """An area under the curve: smaller where a model abstains more, unless it is normalised."""

    comparison_reason = "so that abstaining more is no advantage"

    def form(self, table: Table) -> Form | Undefined:
        """Return the area over the coverage that the model reaches."""
        return self._figure(self.key, table)

    def comparison_form(self, table: Table) -> Form | Undefined:
        """Return the area as if every row had been answered, so that abstaining is no gain."""
        return self._figure(f"{self.key}_normalized", table)

    def details(self, table: Table, form: Form) -> JsonObject:
        """Return the area in proportion, and what a perfect ranking would have."""
        assert isinstance(form, CurveFigure)
        curve, loss = form.curve, self._loss(table)
        best = optimal_areas(table, loss)[self.key]
        return {
            "cmax": curve.cmax,
            f"{self.key}_normalized": getattr(curve, f"{self.key}_normalized"),
            f"{self.key}_optimal": best,
            f"e{self.key}": form.value() - best,
            "loss": loss,
            "mean_confidence_right": _mean(table.confidence[table.answered & table.correct]),
            "mean_confidence_wrong": _mean(table.confidence[table.answered & ~table.correct]),
        }


def _mean(values: FloatArray) -> float | None:
    return float(values.mean()) if values.size else None


class AURC(_Area):
    """Area under the selective risk as coverage grows: low when confident answers are right.

    Formula: ∫₀^Cmax risk(c) dc by trapezoids over one working point per distinct confidence, the
    risk at 0 being that of the first point. Direction: lower, at equal Cmax: abstained rows are
    never accepted, so a model that abstains more has a smaller area (``aurc_normalized`` divides
    by Cmax). Loss: 0/1 error, or the distance between answers with ``loss="abs"``;
    the task names the default.

    Reference: Geifman, Uziel and El-Yaniv, Bias-reduced uncertainty estimation for deep neural
    classifiers, ICLR 2019.

    >>> rows = [EvaluationResult(1, 1, confidence=0.9), EvaluationResult(0, 1, confidence=0.4)]
    >>> AURC()(rows).value
    0.125
    """

    name = "AURC"

    comparison_name = "AURC / Cmax"


class AUGRC(_Area):
    """Area under the generalized risk: the mean loss of a silent failure over all thresholds.

    Formula: ∫₀^Cmax (loss of the accepted / all rows) dc by trapezoids from 0. Direction: lower,
    at equal Cmax; ``augrc_normalized`` divides by Cmax². Abstained rows are never accepted.

    Reference: Traub et al., Overcoming common flaws in the evaluation of selective classification
    systems, NeurIPS 2024.

    >>> rows = [EvaluationResult(1, 1, confidence=0.9), EvaluationResult(0, 1, confidence=0.4)]
    >>> AUGRC()(rows).value
    0.125
    """

    name = "AUGRC"

    comparison_name = "AUGRC / Cmax²"


class RiskAtCoverage(_CurveMetric):
    """Mean loss of the most confident answers that together cover 80 % of all rows.

    Formula: loss of the most confident 0.8·N of N rows over 0.8·N. Where that number ends within
    answers of equal confidence, these count with their mean loss: the loss accepted is linear over
    them. Direction: lower. Undefined when the model answers less than that.

    Reference: El-Yaniv and Wiener, On the foundations of noise-free selective classification,
    JMLR 11 (2010) 1605–1641.

    >>> rows = [EvaluationResult(1, 1, confidence=0.9), EvaluationResult(0, 1, confidence=0.4)]
    >>> round(RiskAtCoverage()(rows).value, 3)
    0.375
    """

    name = "Risk at 80 % coverage"
    coverage = 0.8

    def form(self, table: Table) -> Form | Undefined:
        """Return the risk at exactly the coverage."""
        figure = risk_key(check_coverage(self.coverage))
        form = self._figure(figure, table, coverage=self.coverage)
        if isinstance(form, CurveFigure) and form.curve.risk_at(self.coverage) is None:
            return Undefined("coverage_is_never_reached", {"cmax": form.curve.cmax})
        return form

    def details(self, table: Table, form: Form) -> JsonObject:
        """Return the nearest working point that covers as much: its coverage and its risk."""
        assert isinstance(form, CurveFigure)
        found = form.curve.risk_at(self.coverage)
        return {
            "achieved_coverage": found[1] if found else None,
            "risk_at_achieved_coverage": found[0] if found else None,
            "cmax": form.curve.cmax,
            "loss": self._loss(table),
        }


def default_selective_metrics() -> list[BaseMetric]:
    """Return the metrics of ranking by confidence."""
    return [AURC(), AUGRC(), RiskAtCoverage()]

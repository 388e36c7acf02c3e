"""Selective prediction: whether confidence tells which answers to keep (AURC, AUGRC, risk)."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from typing import Literal

import numpy as np

from krisis.errors import InvalidValue
from krisis.metrics.base import BaseMetric, EvaluationResult, MetricScore, columns_of
from krisis.metrics.columns import BoolArray, Columns, FloatArray
from krisis.metrics.intervals import Resampled, Uncertainty, units_of
from krisis.metrics.resampled_curve import CurveItems, CurveStatistic, risk_key
from krisis.metrics.risk_coverage import (
    RiskCoverageCurve,
    check_coverage,
    optimal_curve,
    risk_coverage_curve,
)

__all__ = [
    "AUGRC",
    "AURC",
    "RiskAtCoverage",
    "RiskCoverageCurve",
    "default_selective_metrics",
    "optimal_curve",
    "risk_coverage_curve",
]

Loss = Literal["error", "ordinal"]

NOTHING_PREDICTED = "no_non_abstained_predictions"
WITHOUT_CONFIDENCE = "answered_rows_without_confidence"
NOT_ORDINAL = "labels_are_not_whole_numbers"

# Resampling sorts nothing twice, but walks every item: beyond this many, confidences are grouped
# into equal shares of the rows and the replicates shifted by what the grouping changed.
_MOST_ITEMS = 20_000
_N_GROUPS = 200


class _CurveMetric(BaseMetric):
    """A figure of the risk–coverage curve of the rows, abstentions counted as never accepted."""

    direction = "lower"

    def __init__(self, *, loss: Loss = "error") -> None:
        if loss not in ("error", "ordinal"):
            raise InvalidValue(f"loss must be 'error' or 'ordinal', not {loss!r}")
        self.loss: Loss = loss

    def compute(self, results: Sequence[EvaluationResult]) -> MetricScore:
        """Return the figure, or NaN with the reason why the rows have no curve."""
        columns = columns_of(results)
        reason = _obstacle(columns, self.loss)
        if reason:
            n_without = int(np.count_nonzero(_without_confidence(columns)))
            return MetricScore.undefined(
                self.name, reason, n_abstained=columns.n_abstained, n_without_confidence=n_without
            )
        return self._score(columns, row_curve(columns, self.loss))

    @abstractmethod
    def _score(self, columns: Columns, curve: RiskCoverageCurve) -> MetricScore:
        """Return the figure of a curve."""

    def _resampled(
        self, results: Sequence[EvaluationResult], figure: str, *, coverage: float = 0.8
    ) -> Uncertainty | None:
        columns = columns_of(results)
        if _obstacle(columns, self.loss):
            return None
        statistic = columns.shared(
            ("risk_coverage", self.loss, coverage),
            lambda: _resampled_curve(columns, self.loss, (coverage,)),
        )
        return Resampled(statistic, figure, high=math.inf if self.loss == "ordinal" else 1.0)


class AURC(_CurveMetric):
    """Area under the selective risk as coverage grows: low when confident answers are right.

    Formula: ∫₀^Cmax risk(c) dc by trapezoids over one working point per distinct confidence, the
    risk at 0 being that of the first point. Direction: lower, at equal Cmax: abstained rows are
    never accepted, so a model that abstains more has a smaller area (``aurc_normalized`` divides
    by Cmax). Loss: 0/1 error, or the distance between stages with ``loss="ordinal"``.

    Reference: Geifman, Uziel and El-Yaniv, Bias-reduced uncertainty estimation for deep neural
    classifiers, ICLR 2019.

    >>> rows = [EvaluationResult(1, 1, confidence=0.9), EvaluationResult(0, 1, confidence=0.4)]
    >>> AURC()(rows).value
    0.125
    """

    name = "AURC"

    def _score(self, columns: Columns, curve: RiskCoverageCurve) -> MetricScore:
        best = optimal_curve(row_losses(columns, self.loss), columns.n_scored).aurc()
        value = curve.aurc()
        details = {
            "cmax": curve.cmax,
            "aurc_normalized": curve.aurc_normalized,
            "aurc_optimal": best,
            "eaurc": value - best,
            "loss": self.loss,
        }
        n_predicted = int(curve.n_accepted[-1])
        return MetricScore(self.name, value, {}, n_predicted, columns.n_abstained, details)

    def uncertainty(self, results: Sequence[EvaluationResult]) -> Uncertainty | None:
        """Offer the resampled area."""
        return self._resampled(results, "aurc")


class AUGRC(_CurveMetric):
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

    def _score(self, columns: Columns, curve: RiskCoverageCurve) -> MetricScore:
        best = optimal_curve(row_losses(columns, self.loss), columns.n_scored).augrc()
        value = curve.augrc()
        details = {
            "cmax": curve.cmax,
            "augrc_normalized": curve.augrc_normalized,
            "augrc_optimal": best,
            "eaugrc": value - best,
            "loss": self.loss,
        }
        n_predicted = int(curve.n_accepted[-1])
        return MetricScore(self.name, value, {}, n_predicted, columns.n_abstained, details)

    def uncertainty(self, results: Sequence[EvaluationResult]) -> Uncertainty | None:
        """Offer the resampled area."""
        return self._resampled(results, "augrc")


class RiskAtCoverage(_CurveMetric):
    """Mean loss of the most confident answers that together cover 80 % of all rows.

    Formula: the selective risk at the first working point whose coverage reaches 0.8. Direction:
    lower. Undefined when the model answers less than that.

    Reference: El-Yaniv and Wiener, On the foundations of noise-free selective classification,
    JMLR 11 (2010) 1605–1641.

    >>> rows = [EvaluationResult(1, 1, confidence=0.9), EvaluationResult(0, 1, confidence=0.4)]
    >>> RiskAtCoverage()(rows).value
    0.5
    """

    name = "Risk at 80 % coverage"
    coverage = 0.8

    def _score(self, columns: Columns, curve: RiskCoverageCurve) -> MetricScore:
        found = curve.risk_at(check_coverage(self.coverage))
        if found is None:
            return MetricScore.undefined(
                self.name,
                "coverage_is_never_reached",
                n_abstained=columns.n_abstained,
                cmax=curve.cmax,
            )
        risk, achieved = found
        details = {"achieved_coverage": achieved, "cmax": curve.cmax, "loss": self.loss}
        n_accepted = round(achieved * columns.n_scored)
        return MetricScore(self.name, risk, {}, n_accepted, columns.n_abstained, details)

    def uncertainty(self, results: Sequence[EvaluationResult]) -> Uncertainty | None:
        """Offer the resampled risk."""
        return self._resampled(results, risk_key(self.coverage), coverage=self.coverage)


def default_selective_metrics() -> list[BaseMetric]:
    """Return the metrics of ranking by confidence."""
    return [AURC(), AUGRC(), RiskAtCoverage()]


def row_curve(columns: Columns, loss: Loss = "error") -> RiskCoverageCurve:
    """Return the risk–coverage curve of rows by stated confidence."""
    return columns.shared(
        ("curve", loss),
        lambda: risk_coverage_curve(
            row_losses(columns, loss), columns.confidence[columns.answered], columns.n_scored
        ),
    )


def row_losses(columns: Columns, loss: Loss = "error") -> FloatArray:
    """Return the loss of every answered row; an answer without a prediction is an error."""
    wrong: FloatArray = (~columns.correct[columns.answered]).astype(np.float64)
    if loss == "error":
        return wrong
    value = np.array([label if isinstance(label, int) else math.nan for label in columns.labels])
    prediction = columns.prediction[columns.answered]
    distance: FloatArray = np.abs(value[prediction] - value[columns.truth[columns.answered]])
    return np.where(prediction < 0, math.nan, distance)


def _without_confidence(columns: Columns) -> BoolArray:
    without: BoolArray = columns.answered & np.isnan(columns.confidence)
    return without


def _obstacle(columns: Columns, loss: Loss) -> str:
    if not columns.answered.any():
        return NOTHING_PREDICTED if columns.n_scored else "no_scored_rows"
    if _without_confidence(columns).any():
        return WITHOUT_CONFIDENCE
    if loss == "ordinal" and np.isnan(row_losses(columns, loss)).any():
        return NOT_ORDINAL
    return ""


def _resampled_curve(
    columns: Columns, loss: Loss, coverages: Sequence[float]
) -> CurveStatistic | _ShiftedCurve:
    unit, n_units = units_of(columns)
    answered = columns.answered
    per_unit = np.bincount(unit, minlength=n_units).astype(np.float64)
    losses, confidence = row_losses(columns, loss), columns.confidence[answered]
    grouped = confidence
    if losses.size > _MOST_ITEMS:
        edges = np.quantile(confidence, np.linspace(0, 1, _N_GROUPS + 1)[1:-1])
        grouped = np.searchsorted(edges, confidence).astype(np.float64)
    statistic = CurveStatistic(CurveItems(losses, grouped, unit[answered], per_unit), coverages)
    if grouped is confidence:
        return statistic
    return _ShiftedCurve(statistic, row_curve(columns, loss), n_units)


class _ShiftedCurve:
    """A statistic on grouped confidences, moved by the difference to the exact figures."""

    def __init__(self, grouped: CurveStatistic, exact: RiskCoverageCurve, n_units: int) -> None:
        self.grouped = grouped
        known = {"aurc": exact.aurc(), "augrc": exact.augrc()}
        for coverage in grouped.coverages:
            found = exact.risk_at(coverage)
            known[risk_key(coverage)] = math.nan if found is None else found[0]
        estimate = grouped(np.ones((n_units, 1)))
        self.shift = {name: value - float(estimate[name][0]) for name, value in known.items()}

    def __call__(self, counts: FloatArray) -> dict[str, FloatArray]:
        """Return the shifted figures."""
        figures = self.grouped(counts)
        return {name: figures[name] + shift for name, shift in self.shift.items()}

"""Every metric of a run as a function of how often each patient counts: for resampling runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from krisis.metrics import (
    AUGRC,
    AURC,
    AbstentionRate,
    Accuracy,
    AnswerRate,
    BalancedAccuracy,
    BaseMetric,
    BrierScore,
    DeferralAlignment,
    ExpectedCalibrationError,
    RiskAtCoverage,
    SelectiveAccuracy,
)
from krisis.metrics.calibration import confidence_bin, squared_errors
from krisis.metrics.columns import BoolArray, Columns, FloatArray, IntArray
from krisis.metrics.resampled_curve import CurveItems, CurveStatistic, risk_key
from krisis.metrics.selective_prediction import row_losses

Statistic = Callable[[FloatArray], Mapping[str, FloatArray]]

METRICS: dict[str, type[BaseMetric]] = {
    metric.key: metric
    for metric in (
        Accuracy,
        BalancedAccuracy,
        ExpectedCalibrationError,
        BrierScore,
        AnswerRate,
        SelectiveAccuracy,
        AbstentionRate,
        DeferralAlignment,
        AURC,
        AUGRC,
        RiskAtCoverage,
    )
}
CURVE_METRICS = frozenset({AURC.key, AUGRC.key, RiskAtCoverage.key})
_N_BINS = 15
# Beyond this many answers, confidences are grouped into equal shares before they are resampled.
_MOST_ITEMS = 20_000
_N_GROUPS = 400


class WeightedScores:
    """The metrics of rows for each column of a matrix of multiplicities (units × columns).

    ``unit`` names the patient (or pool of patients) of every row; several runs that share their
    units share their resamples. All sums that the metrics are ratios of come from one matrix
    product; the areas are the slow part, and ``curves=False`` leaves them undefined.
    """

    def __init__(
        self, columns: Columns, unit: IntArray, n_units: int, *, curves: bool = True
    ) -> None:
        self.columns, self.unit, self.n_units = columns, unit, n_units
        self._sums: list[FloatArray] = []
        everyone = np.ones(columns.n_scored, dtype=np.bool_)
        labelled = columns.should_abstain >= 0
        aligned = labelled & ((columns.should_abstain == 1) == columns.abstained)
        self._ratios = {
            "accuracy": self._share(columns.correct, everyone),
            "answer_rate": self._share(columns.answered, everyone),
            "abstention_rate": self._share(columns.abstained, everyone),
            "selective_accuracy": self._share(columns.correct, columns.answered),
            "deferral_alignment": self._share(aligned, labelled),
        }
        self._recalls = [
            self._share(columns.correct, columns.truth == code)
            for code in range(len(columns.labels))
            if (columns.truth == code).any()
        ]
        squares = squared_errors(columns) if columns.usable.any() else None
        if squares is not None:
            self._ratios["brier_score"] = self._mean(squares)
        self._gaps = self._calibration_gaps()
        self._matrix = np.array(self._sums)
        self._curve = self._curve_statistic() if curves else None

    def __call__(self, counts: FloatArray) -> dict[str, FloatArray]:
        """Return every metric, NaN where it is undefined."""
        sums = self._matrix @ counts
        with np.errstate(invalid="ignore", divide="ignore"):
            values = {key: sums[top] / sums[base] for key, (top, base) in self._ratios.items()}
            values["balanced_accuracy"] = self._mean_recall(sums)
            gaps, rows = self._gaps
            values[ExpectedCalibrationError.key] = np.abs(sums[gaps]).sum(axis=0) / sums[rows]
        values.setdefault("brier_score", np.full(counts.shape[1], np.nan))
        return values | self._areas(counts)

    def _per_unit(self, rows: BoolArray) -> FloatArray:
        return np.bincount(self.unit[rows], minlength=self.n_units).astype(np.float64)

    def _kept(self, sums: FloatArray) -> int:
        """Add a row to the matrix and return its place."""
        self._sums.append(sums)
        return len(self._sums) - 1

    def _share(self, hits: BoolArray, kept: BoolArray) -> tuple[int, int]:
        return self._kept(self._per_unit(hits & kept)), self._kept(self._per_unit(kept))

    def _mean(self, values: FloatArray) -> tuple[int, int]:
        usable = self.columns.usable
        sums = np.bincount(self.unit[usable], weights=values, minlength=self.n_units)
        return self._kept(sums.astype(np.float64)), self._kept(self._per_unit(usable))

    def _mean_recall(self, sums: FloatArray) -> FloatArray:
        recalls = np.array([sums[top] / sums[base] for top, base in self._recalls])
        present = np.isfinite(recalls)
        n_present = present.sum(axis=0)
        mean: FloatArray = np.where(present, recalls, 0.0).sum(axis=0) / n_present
        return np.where(n_present >= 2, mean, np.nan)

    def _calibration_gaps(self) -> tuple[slice, int]:
        columns, usable = self.columns, self.columns.usable
        bins = confidence_bin(columns.confidence[usable], _N_BINS)
        excess = columns.correct[usable] - columns.confidence[usable]
        cell = bins * self.n_units + self.unit[usable]
        gaps = np.bincount(cell, excess, minlength=_N_BINS * self.n_units)
        first = len(self._sums)
        self._sums.extend(gaps.reshape(_N_BINS, self.n_units).astype(np.float64))
        return slice(first, first + _N_BINS), self._kept(self._per_unit(usable))

    def _curve_statistic(self) -> CurveStatistic | None:
        columns = self.columns
        answered = columns.answered
        confidence = columns.confidence[answered]
        if not answered.any() or np.isnan(confidence).any():
            return None
        if confidence.size > _MOST_ITEMS:
            edges = np.quantile(confidence, np.linspace(0, 1, _N_GROUPS + 1)[1:-1])
            confidence = np.searchsorted(edges, confidence).astype(np.float64)
        everyone = np.ones(columns.n_scored, dtype=np.bool_)
        items = CurveItems(
            row_losses(columns), confidence, self.unit[answered], self._per_unit(everyone)
        )
        return CurveStatistic(items, (RiskAtCoverage.coverage,))

    def _areas(self, counts: FloatArray) -> dict[str, FloatArray]:
        names = {
            "aurc": AURC.key,
            "augrc": AUGRC.key,
            risk_key(RiskAtCoverage.coverage): RiskAtCoverage.key,
        }
        if self._curve is None:
            return {key: np.full(counts.shape[1], np.nan) for key in names.values()}
        figures = self._curve(counts)
        return {key: figures[name] for name, key in names.items()}

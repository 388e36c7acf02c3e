"""Whether stated confidence can be believed: expected calibration error and Brier score."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from krisis.errors import InvalidValue
from krisis.json_values import JsonMapping, JsonObject
from krisis.metrics.base import BaseMetric, EvaluationResult
from krisis.metrics.forms import (
    Errors,
    Form,
    Mean,
    Uncertainty,
    Undefined,
    Weighted,
    prior_icc,
    ratio,
)
from krisis.metrics.table import BoolArray, FloatArray, IntArray, Table, Units
from krisis.statistics.bootstrap import BootstrapOptions
from krisis.statistics.calibrated_bins import BinnedAnswers, de_moivre
from krisis.statistics.calibration_gap import N_REDRAWS, calibration_gap_interval


class GapSum(Form):
    """Σ over bins of rows of |Σ (hit − confidence)| / rows: the calibration error.

    ``hits``, ``confidence`` and ``bins`` are those of the rows ``among``.
    """

    def __init__(
        self, hits: BoolArray, confidence: FloatArray, *, bins: IntArray, among: BoolArray
    ) -> None:
        self.hits, self.confidence, self.among = hits, confidence, among
        count = np.bincount(bins)
        self.filled = np.flatnonzero(count)
        self.index: IntArray = bins
        if self.filled.size < count.size:
            position = np.zeros(count.size, dtype=np.int64)
            position[self.filled] = np.arange(self.filled.size)
            self.index = position[bins]

    @property
    def n_evaluated(self) -> int:
        """Count the rows with a usable confidence."""
        return self.index.size

    def value(self) -> float:
        """Return the sum of the gaps over all rows."""
        gaps = np.bincount(self.index, self.hits - self.confidence)
        return float(np.abs(gaps).sum()) / self.index.size

    def on(self, units: Units) -> Weighted:
        """Collect the gaps by bin and unit."""
        code = units.code[self.among]
        excess = self.hits - self.confidence
        n_bins = self.filled.size
        added = np.bincount(self.index * units.n + code, excess, n_bins * units.n)
        sums: FloatArray = added.reshape(n_bins, units.n).astype(np.float64, copy=False)
        rows = np.bincount(code, minlength=units.n).astype(np.float64)
        return _WeightedGapSum(sums, rows)

    def uncertainty(self, table: Table, options: BootstrapOptions) -> Uncertainty:
        """Return the interval by test inversion, with the debiased estimate it belongs to."""
        found = calibration_gap_interval(
            self.answers(table),
            options=replace(options, n_resamples=min(options.n_resamples, N_REDRAWS)),
            prior_icc=prior_icc(table),
        )
        return Uncertainty(found.interval, {"debiased": found.debiased, "null_value": found.null})

    def answers(self, table: Table) -> BinnedAnswers:
        """Return the rows with their bins and patients."""
        return BinnedAnswers(
            self.confidence,
            self.hits,
            self.index,
            table.patients.code[self.among],
        )


class _WeightedGapSum(Weighted):
    def __init__(self, sums: FloatArray, rows: FloatArray) -> None:
        self.sums, self.rows = sums, rows

    def values(self, weights: FloatArray) -> FloatArray:
        return ratio(np.abs(self.sums @ weights).sum(axis=0), self.rows @ weights)

    def influences(self, weights: FloatArray) -> FloatArray:
        gaps, total = self.sums @ weights, self.rows @ weights
        value = ratio(np.abs(gaps).sum(axis=0), total)
        pull = self.sums.T @ np.sign(gaps) - self.rows[:, None] * value
        return ratio(weights * pull, total)


__all__ = [
    "BrierScore",
    "EvaluationResult",
    "ExpectedCalibrationError",
    "default_calibration_metrics",
]

NO_CONFIDENCE = "no_rows_with_confidence"


class ExpectedCalibrationError(BaseMetric):
    """Mean distance between confidence and accuracy over equal-width bins of confidence.

    Formula: Σ over bins b of (n_b / n) · |accuracy_b − mean confidence_b|, with the bin of a
    confidence c being min(⌊c · n_bins⌋, n_bins − 1). Direction: lower. Scored are the answered
    rows that carry a prediction and a confidence; abstained rows are left out. The error is biased
    upwards: ``details["null_value"]`` is what a perfectly calibrated model would show.

    Reference: Naeini, Cooper and Hauskrecht, Obtaining well calibrated probabilities using
    Bayesian binning, AAAI 2015.

    >>> rows = [EvaluationResult(1, 1, confidence=0.75), EvaluationResult(1, 0, confidence=0.75)]
    >>> ExpectedCalibrationError()(rows).value
    0.25
    """

    name = "Expected Calibration Error"
    key = "expected_calibration_error"
    direction = "lower"

    def __init__(self, n_bins: int = 15) -> None:
        if isinstance(n_bins, bool) or not isinstance(n_bins, int) or n_bins < 1:
            raise InvalidValue(f"n_bins must be a whole number of 1 or more, not {n_bins!r}")
        self.n_bins = n_bins

    def form(self, table: Table) -> Form | Undefined:
        """Return the bin-weighted gap."""
        hits, confidence, bins = self._usable(table)
        if not bins.size:
            return Undefined(NO_CONFIDENCE, {"n_bins": self.n_bins})
        return GapSum(hits, confidence, bins=bins, among=table.usable)

    def breakdown(self, table: Table, form: Form) -> dict[str, float]:
        """Return the gap of every bin that holds rows."""
        return {f"bin_{b['bin']}_gap": b["gap"] for b in self._table_bins(table) if b["count"]}

    def details(self, table: Table, form: Form) -> JsonObject:
        """Return every bin, and the error that perfect calibration would show."""
        bins = self._table_bins(table)
        return {"n_bins": self.n_bins, "null_value": null_error(bins), "bins": bins}

    def _usable(self, table: Table) -> tuple[BoolArray, FloatArray, IntArray]:
        """Return hit, confidence and bin of every row that can be judged."""

        def build() -> tuple[BoolArray, FloatArray, IntArray]:
            confidence = table.confidence[table.usable]
            bins = confidence_bin(confidence, self.n_bins)
            return table.correct[table.usable], confidence, bins

        return table.shared(("confidence_bins", self.n_bins), build)

    def _table_bins(self, table: Table) -> list[JsonObject]:
        return table.shared(("bins", self.n_bins), lambda: self._bins(*self._usable(table)))

    def _bins(
        self, correct: BoolArray, confidence: FloatArray, index: IntArray
    ) -> list[JsonObject]:
        count = np.bincount(index, minlength=self.n_bins)
        hits = np.bincount(index, correct, minlength=self.n_bins)
        mass = np.bincount(index, confidence, minlength=self.n_bins)
        with np.errstate(invalid="ignore"):
            accuracy, mean_confidence = hits / count, mass / count
        return [
            {
                "bin": b,
                "low": b / self.n_bins,
                "high": (b + 1) / self.n_bins,
                "count": int(count[b]),
                "accuracy": float(accuracy[b]),
                "mean_confidence": float(mean_confidence[b]),
                "gap": float(abs(accuracy[b] - mean_confidence[b])),
            }
            for b in range(self.n_bins)
        ]


def null_error(bins: Sequence[JsonMapping]) -> float:
    """Return the mean error that a perfectly calibrated model would show with these bins.

    Rows count as independent here; where an interval is made, the value knows of patients.
    """
    filled = [b for b in bins if b["count"]]
    n = np.array([b["count"] for b in filled], dtype=np.float64)
    p = np.clip([b["mean_confidence"] for b in filled], 0.0, 1.0)
    return float(n @ de_moivre(n, p) / n.sum())


def confidence_bin(confidence: FloatArray, n_bins: int) -> IntArray:
    """Return the equal-width bin of every confidence; 1.0 belongs to the last."""
    return np.minimum((confidence * n_bins).astype(np.int64), n_bins - 1)


class BrierScore(BaseMetric):
    """Mean squared distance between the stated probability of class 1 and what was true.

    Formula: mean (p₁ − y)², where p₁ is the confidence if the prediction is 1, else
    1 − confidence. Direction: lower. Scored as for the calibration error. Which of two
    answers counts as 1 makes no difference, so any task with two answers has it, whatever they are
    called; without a task the answers must be 0 and 1. Undefined with more than two answers.

    Reference: Brier, Verification of forecasts expressed in terms of probability, Monthly Weather
    Review 78 (1950) 1–3.

    >>> round(BrierScore()([EvaluationResult(0, 1, confidence=0.8)]).value, 2)
    0.64
    """

    name = "Brier Score"
    key = "brier_score"
    direction = "lower"

    def form(self, table: Table) -> Form | Undefined:
        """Return the mean squared error of the probability of class 1."""
        if not table.usable.any():
            return Undefined(NO_CONFIDENCE)
        loss = squared_errors(table)
        if loss is None:
            return Undefined("non_binary_labels_or_predictions")
        form = Mean(
            loss,
            among=table.usable,
            low=0.0,
            high=1.0,
            errors=Errors(
                ~table.correct, np.square(1 - table.confidence), np.square(table.confidence)
            ),
        )
        # A right answer of confidence c that turns wrong costs c² in place of (1 − c)².
        form.slope = abs(float(np.mean(2 * table.confidence[table.usable] - 1)))
        return form


def squared_errors(table: Table) -> FloatArray | None:
    """Return (p₁ − y)² of every row, or None where there are not two answers.

    The task decides where it is known, else every label of the rows; one answer outside the two,
    with a confidence or without, leaves the score undefined.
    """
    two, usable = table.answers.two(table.labels), table.usable
    if two is None:
        return None
    is_one = np.array([*(label in two for label in table.labels), False])  # −1 is the last
    if not (is_one[table.truth] & is_one[table.prediction])[table.predicted].all():
        return None
    # p₁ − y is 1 − c for a right answer and c for a wrong one, but for the sign.
    squares: FloatArray = np.square(
        np.where(table.correct, 1.0 - table.confidence, table.confidence)
    )
    squares[~usable] = math.nan
    return squares


def default_calibration_metrics() -> list[BaseMetric]:
    """Return the metrics of stated confidence."""
    return [ExpectedCalibrationError(), BrierScore()]

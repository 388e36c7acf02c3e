"""Whether stated confidence can be believed: expected calibration error and Brier score."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from krisis.errors import InvalidValue
from krisis.metrics.base import BaseMetric, EvaluationResult, MetricScore, columns_of
from krisis.metrics.columns import BoolArray, Columns, FloatArray, IntArray

NO_CONFIDENCE = "no_rows_with_confidence"


class ExpectedCalibrationError(BaseMetric):
    """Mean distance between confidence and accuracy over equal-width bins of confidence.

    Formula: Σ over bins b of (n_b / n) · |accuracy_b − mean confidence_b|, with the bin of a
    confidence c being min(⌊c · n_bins⌋, n_bins − 1). Direction: lower. Scored are the answered
    rows that carry a prediction and a confidence; abstained rows are left out.

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

    def compute(self, results: Sequence[EvaluationResult]) -> MetricScore:
        """Return the bin-weighted gap, with every bin in the details."""
        columns = columns_of(results)
        confidence = columns.confidence[columns.usable]
        correct = columns.correct[columns.usable]
        if confidence.size == 0:
            return MetricScore.undefined(
                self.name, NO_CONFIDENCE, n_abstained=columns.n_abstained, n_bins=self.n_bins
            )
        bins = self._bins(confidence, correct)
        filled = [b for b in bins if b["count"]]
        return MetricScore(
            self.name,
            float(sum(b["count"] * b["gap"] for b in filled) / confidence.size),
            {f"bin_{b['bin']}_gap": b["gap"] for b in filled},
            int(confidence.size),
            columns.n_abstained,
            {"n_bins": self.n_bins, "bins": bins},
        )

    def _bins(self, confidence: FloatArray, correct: BoolArray) -> list[dict[str, Any]]:
        index = confidence_bin(confidence, self.n_bins)
        count = np.bincount(index, minlength=self.n_bins)
        hits = np.bincount(index[correct], minlength=self.n_bins)
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


def confidence_bin(confidence: FloatArray, n_bins: int) -> IntArray:
    """Return the equal-width bin of every confidence; 1.0 belongs to the last."""
    return np.minimum((confidence * n_bins).astype(np.int64), n_bins - 1)


class BrierScore(BaseMetric):
    """Mean squared distance between the stated probability of class 1 and what was true.

    Formula: mean (p₁ − y)², where p₁ is the confidence if the prediction is 1, else
    1 − confidence. Direction: lower. Scored as for the calibration error; undefined when a scored
    row has a label or a prediction outside {0, 1}.

    Reference: Brier, Verification of forecasts expressed in terms of probability, Monthly Weather
    Review 78 (1950) 1–3.

    >>> round(BrierScore()([EvaluationResult(0, 1, confidence=0.8)]).value, 2)
    0.64
    """

    name = "Brier Score"
    key = "brier_score"
    direction = "lower"

    def compute(self, results: Sequence[EvaluationResult]) -> MetricScore:
        """Return the mean squared error of the probability of class 1."""
        columns = columns_of(results)
        usable = columns.usable
        n_usable = int(np.count_nonzero(usable))
        if n_usable == 0:
            return MetricScore.undefined(self.name, NO_CONFIDENCE, n_abstained=columns.n_abstained)
        loss = squared_errors(columns)
        if loss is None:
            return MetricScore.undefined(
                self.name, "non_binary_labels_or_predictions", n_abstained=columns.n_abstained
            )
        return MetricScore(self.name, float(loss.mean()), {}, n_usable, columns.n_abstained)


def squared_errors(columns: Columns) -> FloatArray | None:
    """Return (p₁ − y)² of every usable row, or None where a usable row is not binary."""
    usable = columns.usable
    truth, prediction = columns.truth[usable], columns.prediction[usable]
    value = np.array([label if label in (0, 1) else -1 for label in columns.labels], dtype=np.int64)
    outcome, answer = value[truth], value[prediction]
    if min(outcome.min(), answer.min()) < 0:
        return None
    confidence = columns.confidence[usable]
    probability: FloatArray = np.where(answer == 1, confidence, 1.0 - confidence)
    return np.square(probability - outcome)


def default_calibration_metrics() -> list[BaseMetric]:
    """Return the metrics of stated confidence."""
    return [ExpectedCalibrationError(), BrierScore()]

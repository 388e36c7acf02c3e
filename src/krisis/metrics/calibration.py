"""Whether stated confidence can be believed: expected calibration error and Brier score."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import special

from krisis.errors import InvalidValue
from krisis.metrics.base import BaseMetric, EvaluationResult, MetricScore, columns_of
from krisis.metrics.columns import BoolArray, Columns, FloatArray, IntArray
from krisis.metrics.intervals import ResampledGaps, Uncertainty, mean_of_rows, units_of

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
            {"n_bins": self.n_bins, "null_value": null_error(bins), "bins": bins},
        )

    def uncertainty(self, results: Sequence[EvaluationResult]) -> Uncertainty | None:
        """Offer the resampled gaps of the bins; percentiles of their sum would miss the truth."""
        columns = columns_of(results)
        usable = columns.usable
        if not usable.any():
            return None
        unit, n_units = units_of(columns)
        index = confidence_bin(columns.confidence[usable], self.n_bins)
        filled, index = np.unique(index, return_inverse=True)
        excess = columns.correct[usable] - columns.confidence[usable]
        sums = np.bincount(index * n_units + unit[usable], excess, filled.size * n_units)
        sums = sums.reshape(filled.size, n_units)
        rows = np.bincount(unit[usable], minlength=n_units).astype(np.float64)

        def gaps(counts: FloatArray) -> dict[str, FloatArray]:
            with np.errstate(invalid="ignore"):
                return {"gaps": (sums @ counts) / (rows @ counts)}

        return ResampledGaps(gaps, sums.sum(axis=1) / rows.sum())

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


def null_error(bins: Sequence[Mapping[str, Any]]) -> float:
    """Return the mean error that a perfectly calibrated model would show with these bins.

    In bin b the number of right answers is then binomial, and E|hits − n_b p| has De Moivre's
    closed form. Rows count as independent, so patients with many alike rows exceed it.

    Reference: Diaconis and Zabell, Closed form summation for classical distributions, Statistical
    Science 6 (1991) 284–302.
    """
    filled = [b for b in bins if b["count"]]
    n = np.array([b["count"] for b in filled], dtype=np.float64)
    p = np.clip([b["mean_confidence"] for b in filled], 0.0, 1.0)
    middle = np.minimum(np.floor(n * p) + 1, n)
    chosen = special.gammaln(n + 1) - special.gammaln(middle + 1) - special.gammaln(n - middle + 1)
    log_share = chosen + special.xlogy(middle, p) + special.xlog1py(n - middle + 1, -p)
    return float((2 * middle * np.exp(log_share)).sum() / n.sum())


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

    def uncertainty(self, results: Sequence[EvaluationResult]) -> Uncertainty | None:
        """Offer the resampled mean."""
        columns = columns_of(results)
        loss = squared_errors(columns) if columns.usable.any() else None
        if loss is None:
            return None
        return replace(mean_of_rows(columns, loss, columns.usable), low=0.0, high=1.0)


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

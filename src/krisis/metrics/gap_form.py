"""A sum of absolute gaps between confidence and accuracy as a form: the calibration error."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from krisis.metrics.forms import Form, Uncertainty, Weighted, prior_icc, ratio
from krisis.metrics.table import BoolArray, FloatArray, IntArray, Table, Units
from krisis.statistics.bootstrap import BootstrapOptions
from krisis.statistics.calibrated_bins import BinnedAnswers
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

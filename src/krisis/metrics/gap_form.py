"""A sum of absolute gaps between confidence and accuracy as a form: the calibration error."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from krisis.metrics.forms import Form, Uncertainty, Weighted, prior_icc, ratio
from krisis.metrics.table import BoolArray, FloatArray, IntArray, Table, Units
from krisis.statistics.bootstrap import BootstrapOptions
from krisis.statistics.calibrated_bins import BinnedAnswers
from krisis.statistics.calibration_gap import (
    N_REDRAWS,
    calibration_gap_interval,
    root_mean_square_gap,
)


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


class DebiasedGap(GapSum):
    """√ max(0, Σ w_b gap_b²), the squared gaps of bins freed of what their noise adds.

    Pairs of rows of different patients tell the square without bias: (S² − Σ s_i²) / (N² − Σ n_i²)
    with the sums s_i of hit − confidence and the rows n_i of the patients of a bin. A bin that has
    one patient cannot be freed of its noise and is left out.
    """

    def __init__(
        self,
        hits: BoolArray,
        confidence: FloatArray,
        *,
        bins: IntArray,
        among: BoolArray,
        patients: Units,
    ) -> None:
        super().__init__(hits, confidence, bins=bins, among=among)
        self.patients = patients

    @property
    def n_evaluated(self) -> int:
        """Count the rows of the bins that have rows of two patients."""
        pairs = np.unique(np.stack([self.index, self.patients.code[self.among]]), axis=1)
        n_patients = np.bincount(pairs[0], minlength=self.filled.size)
        return int(np.count_nonzero(n_patients[self.index] > 1))

    def value(self) -> float:
        """Return the root of the mean over rows."""
        return float(self.on(self.patients).values(np.ones((self.patients.n, 1)))[0])

    def by_group(self, codes: IntArray, n_groups: int) -> FloatArray:
        """Return the number of every group, patients being told apart in each."""
        found = []
        for group in range(n_groups):
            kept = codes[self.among] == group
            among = self.among & (codes == group)
            columns = self.hits[kept], self.confidence[kept]
            part = DebiasedGap(*columns, bins=self.index[kept], among=among, patients=self.patients)
            found.append(part.value() if kept.any() else np.nan)
        return np.array(found)

    def on(self, units: Units) -> Weighted:
        """Collect gaps and rows by bin and unit."""
        cell = self.index * units.n + units.code[self.among]
        shape = (self.filled.size, units.n)
        sums, rows = (
            np.bincount(cell, column, shape[0] * shape[1]).reshape(shape).astype(np.float64)
            for column in (self.hits - self.confidence, np.ones(cell.size))
        )
        return _WeightedDebiased(sums, rows)

    def uncertainty(self, table: Table, options: BootstrapOptions) -> Uncertainty:
        """Return the interval of the root mean square by test inversion."""
        found = calibration_gap_interval(
            self.answers(table),
            options=replace(options, n_resamples=min(options.n_resamples, N_REDRAWS)),
            prior_icc=prior_icc(table),
            measure=root_mean_square_gap,
        )
        value, ends = self.value(), found.interval
        return Uncertainty(replace(ends, low=min(ends.low, value), high=max(ends.high, value)))


class _WeightedDebiased(Weighted):
    def __init__(self, sums: FloatArray, rows: FloatArray) -> None:
        self.sums, self.rows = sums, rows

    def values(self, weights: FloatArray) -> FloatArray:
        number = self.rows @ weights
        pairs = number**2 - self.rows**2 @ weights
        square = (self.sums @ weights) ** 2 - self.sums**2 @ weights
        kept = pairs > 0.5  # whole numbers of pairs: less is none
        square = np.where(kept, square / np.where(kept, pairs, 1.0), 0.0)
        total = ratio((number * square).sum(axis=0), np.where(kept, number, 0.0).sum(axis=0))
        return np.sqrt(np.maximum(total, 0.0))


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

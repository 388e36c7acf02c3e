"""Forms: a metric as a function of how often each patient counts, from which all else follows.

Weights of one give the score, weights of a group its breakdown, resampled weights an interval,
exchanged weights a paired test. A form also knows the kind of interval that covers for it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from krisis.metrics.table import BoolArray, FloatArray, IntArray, Table, Units
from krisis.statistics.bootstrap import BootstrapOptions, resample_counts
from krisis.statistics.intervals import ROUNDING, Interval
from krisis.statistics.pseudo_answer import (
    N_RESAMPLES,
    RIGHT_WEIGHT,
    FigureRange,
    Lots,
    bootstrap_interval,
    error_weight,
)
from krisis.statistics.shares import mean_of_shares_interval, share_interval

# Rows of one patient are taken to resemble each other this much until the data say otherwise;
# rows that repeat one case are taken to be the same.
_PRIOR_ICC, _PRIOR_ICC_OF_REPEATS = 0.5, 1.0


@dataclass(frozen=True, slots=True)
class Undefined:
    """Why a table gives a metric no value, with what is known all the same."""

    reason: str
    details: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Uncertainty:
    """The interval of a form and what else its method found out."""

    interval: Interval
    details: Mapping[str, object] = field(default_factory=dict)


class Weighted(ABC):
    """A form whose rows belong to units: it can be evaluated under any weights of the units."""

    @abstractmethod
    def values(self, weights: FloatArray) -> FloatArray:
        """Return one value per column of weights (units × columns); NaN where undefined."""

    def influences(self, weights: FloatArray) -> FloatArray | None:
        """Return how far each unit moves each value (units × columns); None where unknown."""
        return None


class Form(ABC):
    """A number that a table has, ready to be taken under other weights.

    ``n_evaluated`` counts the rows in its denominator, ``low`` and ``high`` bound its range, and
    ``slope`` says how far one row in the denominator can move it, times their number.
    """

    low: float = 0.0
    high: float = 1.0
    slope: float = 1.0

    def bounds(self, n_missing: int) -> tuple[float, float] | None:
        """Return the least and the largest value once the missing rows are known.

        ``n_missing`` rows that could belong to the denominator were not evaluated. None where the
        number cannot be bounded by counting.
        """
        return None

    @property
    @abstractmethod
    def n_evaluated(self) -> int:
        """Count the rows in the denominator."""

    @abstractmethod
    def on(self, units: Units) -> Weighted:
        """Return the form with its rows collected by unit."""

    @abstractmethod
    def uncertainty(self, table: Table, options: BootstrapOptions) -> Uncertainty:
        """Return the interval by the method that covers for this kind of form."""

    @abstractmethod
    def value(self) -> float:
        """Return the number itself."""

    def by_group(self, codes: IntArray, n_groups: int) -> FloatArray:
        """Return the number of every group of rows; NaN where a group has none."""
        return self.on(Units(codes, n_groups)).values(np.eye(n_groups))


def prior_icc(table: Table) -> float:
    """Return how alike the rows of one patient are assumed to be."""
    return _PRIOR_ICC_OF_REPEATS if table.repeats_cases else _PRIOR_ICC


def ratio(top: FloatArray, base: FloatArray) -> FloatArray:
    """Divide, leaving NaN or infinity where the base is 0."""
    with np.errstate(invalid="ignore", divide="ignore"):
        quotient: FloatArray = top / base
    return quotient


class _WeightedMean(Weighted):
    """Σ value / Σ rows: its influence is (value − mean · rows) / Σ rows."""

    def __init__(self, sums: FloatArray, rows: FloatArray) -> None:
        self.sums, self.rows = sums, rows

    def values(self, weights: FloatArray) -> FloatArray:
        return ratio(self.sums @ weights, self.rows @ weights)

    def influences(self, weights: FloatArray) -> FloatArray:
        total = self.rows @ weights
        mean = ratio(self.sums @ weights, total)
        return ratio(weights * (self.sums[:, None] - self.rows[:, None] * mean), total)


class Share(Form):
    """The share of the rows ``among`` that are ``hits``."""

    def __init__(self, hits: BoolArray, *, among: BoolArray) -> None:
        self.hits: BoolArray = hits & among
        self.among = among
        self.n_hits = int(np.count_nonzero(self.hits))
        self._n_among = int(np.count_nonzero(among))

    @property
    def n_evaluated(self) -> int:
        """Count the rows that could be hits."""
        return self._n_among

    def value(self) -> float:
        """Return hits / rows."""
        return self.n_hits / self._n_among if self._n_among else math.nan

    def bounds(self, n_missing: int) -> tuple[float, float]:
        """Return the share with no missing row a hit, and with all of them."""
        n = self._n_among + n_missing
        return self.n_hits / n, (self.n_hits + n_missing) / n

    def by_group(self, codes: IntArray, n_groups: int) -> FloatArray:
        """Return the share of every group; counting (group, flag) pairs is the fastest way."""
        if n_groups == 1:
            return np.array([self.value()])
        pairs = 2 * codes
        total = np.bincount(pairs + self.among, minlength=2 * n_groups)[1::2]
        hits = np.bincount(pairs + self.hits, minlength=2 * n_groups)[1::2]
        return ratio(hits.astype(np.float64), total.astype(np.float64))

    def on(self, units: Units) -> Weighted:
        """Collect hits and rows by unit."""
        return _WeightedMean(units.sums(self.hits), units.sums(self.among))

    def uncertainty(self, table: Table, options: BootstrapOptions) -> Uncertainty:
        """Return the mid-P interval that knows of patients."""
        patients = table.patients
        interval = share_interval(
            patients.sums(self.hits),
            patients.sums(self.among),
            level=options.level,
            prior_icc=prior_icc(table),
        )
        return Uncertainty(interval)


class RunShare(Share):
    """A share of all rows that describes how a run went, and no patients: it has no interval."""

    def bounds(self, n_missing: int) -> tuple[float, float]:
        """Return the value itself: it is a count, and known."""
        return self.value(), self.value()

    def on(self, units: Units) -> Weighted:
        """Collect nothing: the share does not depend on who was drawn."""
        return _WeightedMean(np.full(units.n, self.value()), np.ones(units.n))

    def uncertainty(self, table: Table, options: BootstrapOptions) -> Uncertainty:
        """Return no interval, and why."""
        return Uncertainty(Interval.undefined("it_describes_this_run_alone", level=options.level))


class MeanOfShares(Form):
    """The mean, over the classes of some rows, of the share of hits in each class."""

    def __init__(
        self,
        hits: BoolArray,
        *,
        classes: IntArray,
        labels: Sequence[object],
        missing: Mapping[object, int] | None = None,
    ) -> None:
        """Take the hits and the class of every row; ``missing`` counts rows by their class."""
        self.hits, self.classes = hits, classes
        count = np.bincount(classes, minlength=len(labels))
        self.present: list[int] = np.flatnonzero(count).tolist()
        found = np.bincount(classes[hits], minlength=len(labels))
        self.shares = {
            str(labels[code]): float(found[code] / count[code])
            for code in sorted(self.present, key=lambda code: str(labels[code]))
        }
        known = {labels[code]: (int(found[code]), int(count[code])) for code in self.present}
        lost = {**dict.fromkeys(known, 0), **(missing or {})}
        self._ends = [
            (hits / (n + lost[label]), (hits + lost[label]) / (n + lost[label]))
            for label in lost
            for hits, n in [known.get(label, (0, 0))]
        ]

    @property
    def n_evaluated(self) -> int:
        """Count all rows."""
        return self.classes.size

    def bounds(self, n_missing: int) -> tuple[float, float]:
        """Return the mean with no missing row a hit, and with all of them."""
        low, high = (math.fsum(ends) / len(self._ends) for ends in zip(*self._ends, strict=True))
        return low, high

    def value(self) -> float:
        """Return the mean of the shares."""
        return math.fsum(self.shares.values()) / len(self.shares)

    def _by_class(self, units: Units) -> tuple[FloatArray, FloatArray]:
        cell = self.classes * units.n + units.code
        n_cells = (max(self.present) + 1) * units.n
        rows = np.bincount(cell, minlength=n_cells).reshape(-1, units.n)[self.present]
        hits = np.bincount(cell[self.hits], minlength=n_cells).reshape(-1, units.n)[self.present]
        return hits.astype(np.float64), rows.astype(np.float64)

    def on(self, units: Units) -> Weighted:
        """Collect hits and rows by class and unit."""
        return _WeightedMeanOfShares(*self._by_class(units))

    def uncertainty(self, table: Table, options: BootstrapOptions) -> Uncertainty:
        """Return the interval that squares and adds the distances of the classes."""
        hits, rows = self._by_class(table.patients)
        interval = mean_of_shares_interval(
            hits, rows, level=options.level, prior_icc=prior_icc(table)
        )
        return Uncertainty(interval)


class _WeightedMeanOfShares(Weighted):
    """Undefined under weights that leave fewer than two classes."""

    def __init__(self, hits: FloatArray, rows: FloatArray) -> None:
        self.parts = [_WeightedMean(h, r) for h, r in zip(hits, rows, strict=True)]

    def values(self, weights: FloatArray) -> FloatArray:
        shares = np.array([part.values(weights) for part in self.parts])
        present = np.isfinite(shares)
        n_present = present.sum(axis=0)
        mean = ratio(np.where(present, shares, 0.0).sum(axis=0), n_present.astype(np.float64))
        value: FloatArray = np.where(n_present >= 2, mean, math.nan)
        return value

    def influences(self, weights: FloatArray) -> FloatArray:
        each = np.array([part.influences(weights) for part in self.parts])
        n_present = np.isfinite(each[:, :1]).sum(axis=0).astype(np.float64)
        added: FloatArray = np.nansum(each, axis=0) / n_present
        return added


@dataclass(frozen=True, slots=True, eq=False)
class Errors:
    """Which rows are wrong, and the loss that each has as a right and as a wrong answer."""

    wrong: BoolArray
    if_right: FloatArray
    if_wrong: FloatArray


class Mean(Form):
    """The mean of a value over the rows ``among``; ``low`` and ``high`` bound the value.

    ``errors`` says which rows are wrong and what each would lose if it were right or wrong;
    without it, it is not known at which end of the range an error is.
    """

    def __init__(
        self,
        values: FloatArray,
        *,
        among: BoolArray,
        low: float = -math.inf,
        high: float = math.inf,
        errors: Errors | None = None,
    ) -> None:
        self.errors = errors
        self.kept, self.among = np.where(among, values, 0.0), among
        self.low, self.high = low, high
        self.slope = high - low if math.isfinite(high - low) else 0.0

    @property
    def n_evaluated(self) -> int:
        """Count the rows in the mean."""
        return int(np.count_nonzero(self.among))

    def bounds(self, n_missing: int) -> tuple[float, float] | None:
        """Return the mean with every missing row at either end of the range."""
        if not math.isfinite(self.high - self.low):
            return None
        n, total = self.n_evaluated + n_missing, float(self.kept.sum())
        return (total + n_missing * self.low) / n, (total + n_missing * self.high) / n

    def value(self) -> float:
        """Return Σ value / rows."""
        n = self.n_evaluated
        return float(self.kept.sum()) / n if n else math.nan

    def on(self, units: Units) -> Weighted:
        """Collect values and rows by unit."""
        return _WeightedMean(units.sums(self.kept), units.sums(self.among))

    def uncertainty(self, table: Table, options: BootstrapOptions) -> Uncertainty:
        """Return the interval of the patient bootstrap with one pseudo-answer.

        Its loss is that of a right and of a wrong answer at the confidence of a row drawn by lot;
        where these are not known, it is a row at either end of the range. Unbounded values get no
        pseudo-answer.
        """
        pools = table.pools
        figure = FigureRange(value=self.value(), low=self.low, high=self.high)
        drawn = replace(options, n_resamples=min(options.n_resamples, N_RESAMPLES))
        lots = Lots.drawn(self.n_evaluated, drawn)
        ends = self._pseudo_answers(table, lots, options.level)
        sums, n_rows = pools.sums(self.kept), pools.sums(self.among)
        counts = np.concatenate(list(resample_counts(pools.n, drawn)), axis=1)
        means = [
            ratio(sums @ counts + np.where(known, w * end, 0.0), n_rows @ counts + w * known)
            for w, end in ends
            for known in [np.isfinite(end)]
        ]
        if np.ptp(means) <= ROUNDING * np.abs(self.kept).max() and pools.n > 1:
            same = "every_resample_gives_the_same_value"
            return Uncertainty(Interval.undefined(same, level=options.level))
        found = bootstrap_interval(means[0], means[1], figure, n_units=pools.n, level=options.level)
        return Uncertainty(found)

    def _pseudo_answers(
        self, table: Table, lots: Lots, level: float
    ) -> list[tuple[FloatArray, FloatArray]]:
        """Return weight and value of the pseudo-answer of every resample, for either limit."""
        row = np.flatnonzero(self.among)[lots.answer]
        errors = self.errors
        rows = table.patients.sums(self.among)
        wrong = table.patients.sums(self.among & errors.wrong) if errors else 0 * rows
        d = error_weight(wrong, rows, prior_icc=prior_icc(table), level=level)
        heavy = d * lots.factor
        if errors is None:
            return [(heavy, np.full(row.size, end)) for end in (self.low, self.high)]
        half = np.full(row.size, RIGHT_WEIGHT)
        return [(half, errors.if_right[row]), (heavy, errors.if_wrong[row])]

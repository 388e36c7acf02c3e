"""Limits of the mean of rows when patients bring several rows each, in closed form.

A row mean is a regression on a constant alone. With f_g = n_g/N the share of the rows that patient
g brings, r_g the sum of that patient's residuals and a_g = 1/(1 − f_g), the cluster-robust variance
CR2 and the degrees of freedom of Bell and McCaffrey under independent rows of equal variance are

    V = Σ a_g r_g² / N²,    ν = 1/[Σ f_g² + (Σ a_g f_g²)² − Σ (a_g f_g²)²].

With patients of equal size ν is C − 1 and V that of the mean of the patients' means. No draws, no
seed: order and names of patients change nothing.

References: Bell and McCaffrey, Bias reduction in standard errors for linear regression with
multi-stage samples, Survey Methodology 28 (2002) 169–181; Pustejovsky and Tipton, Small-sample
methods for cluster-robust variance estimation, Journal of Business & Economic Statistics 36 (2018)
672–683.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from krisis.errors import InvalidValue
from krisis.statistics.intervals import DEFAULT_LEVEL, Interval, check_level

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

METHOD = "cr2"


@dataclass(frozen=True, eq=False)
class PatientRows:
    """Which patient each row belongs to, and how many rows each patient has.

    ``size`` may hold a patient more than ``code`` names, who was added in thought.
    """

    code: IntArray
    size: FloatArray

    @classmethod
    def of(cls, patients: ArrayLike | PatientRows) -> PatientRows:
        """Build from one number or name per row."""
        if isinstance(patients, PatientRows):
            return patients
        names = np.asarray(patients)
        if names.ndim != 1 or names.size == 0:
            raise InvalidValue(f"patients must be one list of rows, not of shape {names.shape}")
        _, code = np.unique(names, return_inverse=True)
        return cls(code, np.bincount(code).astype(np.float64))

    @property
    def n_patients(self) -> int:
        """How many patients have rows."""
        return int(self.size.size)

    @property
    def average(self) -> float:
        """k̄, the average number of rows of a patient."""
        return float(self.size.mean())

    def sums(self, x: ArrayLike) -> FloatArray:
        """Return the sum of x for every patient."""
        values = np.asarray(x, dtype=np.float64)
        if values.shape != self.code.shape:
            raise InvalidValue(f"{values.shape} values do not fit {self.code.shape} rows")
        found = np.bincount(self.code, weights=values, minlength=self.size.size)
        return found.astype(np.float64)

    def with_one_more(self, size: float | None = None) -> PatientRows:
        """Add a patient, of average size if none is given, whose rows no code names."""
        more = self.average if size is None else size
        return PatientRows(self.code, np.append(self.size, more))

    @cached_property
    def weight(self) -> FloatArray:
        """a_g = 1/(1 − n_g/N), which undoes what a patient's pull on the mean takes off r_g."""
        weight: FloatArray = 1 / (1 - self.size / self.size.sum())
        return weight

    @cached_property
    def degrees(self) -> float:
        """ν of Bell and McCaffrey; 0 with one patient."""
        if self.n_patients < 2:
            return 0.0
        share = self.size / self.size.sum()
        pull = self.weight * share**2
        return float(1 / (share @ share + pull.sum() ** 2 - pull @ pull))

    def student(self, level: float) -> float:
        """Return Student's quantile for limits at a level; infinite with one patient."""
        upper = 0.5 + check_level(level) / 2
        return float(special.stdtrit(self.degrees, upper)) if self.degrees > 0 else math.inf


@dataclass(frozen=True, slots=True)
class RowMean:
    """A mean over rows, its standard error by patient, and its degrees of freedom."""

    value: float
    standard_error: float
    patients: PatientRows

    @classmethod
    def of_sums(cls, sums: FloatArray, patients: PatientRows) -> RowMean:
        """Build from the sum of every patient."""
        n_rows = float(patients.size.sum())
        value = float(sums.sum()) / n_rows
        if patients.n_patients < 2:
            return cls(value, math.inf, patients)
        residual = sums - value * patients.size
        return cls(value, math.sqrt(float(patients.weight @ residual**2)) / n_rows, patients)

    def lower(self, level: float = DEFAULT_LEVEL) -> float:
        """Return the lower limit of a two-sided interval."""
        return self.value - self._half_width(level)

    def upper(self, level: float = DEFAULT_LEVEL) -> float:
        """Return the upper limit of a two-sided interval."""
        return self.value + self._half_width(level)

    def interval(self, level: float = DEFAULT_LEVEL) -> Interval:
        """Return both limits; one patient has none."""
        if self.patients.n_patients < 2:
            reason = "needs_at_least_two_clusters"
            return Interval.undefined(reason, level=check_level(level), method=METHOD)
        return Interval(self.lower(level), self.upper(level), level, METHOD)

    def _half_width(self, level: float) -> float:
        return self.patients.student(level) * self.standard_error


def row_mean(x: ArrayLike, patients: ArrayLike | PatientRows) -> RowMean:
    """Return the mean of x over rows, with its standard error by patient.

    >>> found = row_mean([1, 0, 1, 1], ["a", "a", "b", "c"])
    >>> found.value, round(found.standard_error, 4), round(found.patients.degrees, 3)
    (0.75, 0.2041, 1.8)
    """
    rows = PatientRows.of(patients)
    return RowMean.of_sums(rows.sums(x), rows)


def with_one_more(
    x: ArrayLike,
    patients: ArrayLike | PatientRows,
    mean: float,
    *,
    size: float | None = None,
) -> RowMean:
    """Return the row mean with one more patient, of average size, whose rows have this mean.

    Patients who never met a rare disaster say nothing of how rare it is: a standard error of 0 is
    no certainty. One patient who met it, added in thought, gives the limits a width.
    """
    rows = PatientRows.of(patients)
    more = rows.with_one_more(size)
    return RowMean.of_sums(np.append(rows.sums(x), mean * more.size[-1]), more)


def lower_with_one_more(
    x: ArrayLike,
    patients: ArrayLike | PatientRows,
    mean: float,
    level: float = DEFAULT_LEVEL,
) -> float:
    """Return L⁺(x; mean): the lower limit with one more patient whose rows have this mean."""
    return with_one_more(x, patients, mean).lower(level)


def upper_with_one_more(
    x: ArrayLike,
    patients: ArrayLike | PatientRows,
    mean: float,
    level: float = DEFAULT_LEVEL,
) -> float:
    """Return U⁺(x; mean): the upper limit with one more patient whose rows have this mean."""
    return with_one_more(x, patients, mean).upper(level)


@dataclass(frozen=True, slots=True)
class RatioOfMeans:
    """The ratio of two row means, with the values s at which mean(top − s·base) leaves 0.

    The sums of top and base by patient hold all that is needed. The limits are those of Fieller:
    roots of (m_a − s m_b)² = t²(v_aa − 2 s v_ab + s² v_bb). Where the base is not shown to be above
    0 the limits are infinite.

    Reference: Fieller, Some problems in interval estimation, Journal of the Royal Statistical
    Society B 16 (1954) 175–185.
    """

    top: FloatArray
    base: FloatArray
    patients: PatientRows

    @classmethod
    def of(cls, top: ArrayLike, base: ArrayLike, patients: ArrayLike | PatientRows) -> RatioOfMeans:
        """Build from the rows."""
        rows = PatientRows.of(patients)
        return cls(rows.sums(top), rows.sums(base), rows)

    def with_one_more(self, top: float) -> RatioOfMeans:
        """Add a patient of average size whose rows of the top have this mean, and no base."""
        more = np.append(self.top, top * self.patients.average)
        return RatioOfMeans(more, np.append(self.base, 0.0), self.patients.with_one_more())

    @property
    def value(self) -> float:
        """The ratio."""
        base = float(self.base.sum())
        return float(self.top.sum()) / base if base else math.nan

    def lower(self, level: float = DEFAULT_LEVEL) -> float:
        """Return the largest s at which the lower limit of mean(top − s·base) is above 0."""
        return self._root(level, -1.0)

    def upper(self, level: float = DEFAULT_LEVEL) -> float:
        """Return the smallest s at which the upper limit of mean(top − s·base) is below 0."""
        return self._root(level, 1.0)

    def _root(self, level: float, side: float) -> float:
        t = self.patients.student(level)
        n_rows = float(self.patients.size.sum())
        a, b = float(self.top.sum()) / n_rows, float(self.base.sum()) / n_rows
        first = self.top - a * self.patients.size
        second = self.base - b * self.patients.size
        # So much t² takes off the square of each mean.
        scale = (t / n_rows) ** 2 * self.patients.weight if math.isfinite(t) else None
        if scale is None or b <= 0 or (clear := b * b - float(scale @ second**2)) <= 0:
            return side * math.inf
        middle = a * b - float(scale @ (first * second))
        rest = a * a - float(scale @ first**2)
        return (middle + side * math.sqrt(max(middle * middle - clear * rest, 0.0))) / clear

"""The sum of several ratios of sums, with limits by linearising the ratios by patient."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from krisis.statistics.intervals import DEFAULT_LEVEL, Interval, check_level

FloatArray = NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class SumOfRatios:
    """Σ_k Y_k/X_k, where Y_k and X_k are sums over patients (ratios × patients).

    A patient moves a ratio R = Y/X by (y − R x)/X. With u_g the sum of these over the ratios, the
    variance is C/(C−1) Σ u_g², and the limits are Student's with C − 1 degrees of freedom, C being
    the number of patients who have part in any of the ratios.

    Reference: Woodruff, A simple method for approximating the variance of a complicated estimate,
    Journal of the American Statistical Association 66 (1971) 411–414.

    >>> import numpy as np
    >>> pair = SumOfRatios(np.array([[1.0, 1, 0], [1, 0, 1]]), np.ones((2, 3)))
    >>> round(pair.value, 4), round(pair.standard_error, 4)
    (1.3333, 0.3333)
    """

    top: FloatArray
    base: FloatArray

    @property
    def value(self) -> float:
        """The sum of the ratios."""
        return float((self.top.sum(axis=1) / self.base.sum(axis=1)).sum())

    @property
    def n_patients(self) -> int:
        """How many patients have part in any of the ratios."""
        return int(np.count_nonzero(self.base.any(axis=0)))

    @property
    def standard_error(self) -> float:
        """The linearised standard error by patient; infinite with one patient."""
        n = self.n_patients
        if n < 2:
            return math.inf
        total = self.base.sum(axis=1, keepdims=True)
        ratio = self.top.sum(axis=1, keepdims=True) / total
        moved = ((self.top - ratio * self.base) / total).sum(axis=0)
        return math.sqrt(n / (n - 1) * float(moved @ moved))

    def with_one_more(self, ratio: float) -> SumOfRatios:
        """Add a patient with the average base of those who are there, and this ratio in each."""
        base = self.base.sum(axis=1, keepdims=True) / self.n_patients
        return SumOfRatios(np.hstack([self.top, ratio * base]), np.hstack([self.base, base]))

    def lower(self, level: float = DEFAULT_LEVEL) -> float:
        """Return the lower limit of a two-sided interval."""
        return self.value - self._half_width(level)

    def upper(self, level: float = DEFAULT_LEVEL) -> float:
        """Return the upper limit of a two-sided interval."""
        return self.value + self._half_width(level)

    def _half_width(self, level: float) -> float:
        n = self.n_patients
        if n < 2:
            return math.inf
        return float(special.stdtrit(n - 1, 0.5 + check_level(level) / 2)) * self.standard_error


def skill_interval(shares: SumOfRatios, level: float = DEFAULT_LEVEL) -> Interval:
    """Return limits of two shares less 1, such as sensitivity + specificity − 1.

    For the lower limit also with one more patient of average size who has half of either share, for
    the upper one with a patient who has both whole; the wider of the two.
    """
    low = min(shares.lower(level), shares.with_one_more(0.5).lower(level)) - 1
    high = max(shares.upper(level), shares.with_one_more(1.0).upper(level)) - 1
    return Interval(low, high, level, "linearised").clipped(-1.0, 1.0)

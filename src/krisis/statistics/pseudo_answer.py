"""Patient bootstrap with one pseudo-answer, the interval of all figures that errors drive.

Patients are resampled with replacement, all their rows kept. Resamples of a good model contain few
errors or none, so that plain percentiles collapse: a model without a wrong answer would have an
interval without width. Every resample therefore gets one answer more:

- for the upper limit a *wrong* answer of the weight D·G, at the confidence of an answer drawn by
  lot and with the largest loss. D is the design effect of the errors, 1 + (k̄ − 1)/2 where few were
  seen: an error that was not seen would not come alone. G is drawn from the gamma distribution with
  mean 1 and shape 2, so that without any error the limit of a mean loss is about 2.8/n, near the
  3.0/n of the mid-P interval of a share. An AURC has G = 1: where the answer is among the others
  already moves it by many times the mean;
- for the lower limit half a *right* answer, at such a confidence and without a loss.

The pseudo-answer is a prior observation of little weight. The limits are expanded percentiles: the
tail is Φ(√(C/(C−1))·t_{C−1}(α/2)) for C patients, which undoes that resamples vary too little by
(C−1)/C and that the spread is itself estimated. They are widened to contain the estimate and cut at
the range of the figure.

References: Rubin, The Bayesian bootstrap, Annals of Statistics 9 (1981) 130–134, and Agresti and
Coull, The American Statistician 52 (1998) 119–126, for observations added to a sample; Hesterberg,
The American Statistician 69 (2015) 371–386, for the expanded percentile; Field and Welsh, Journal
of the Royal Statistical Society B 69 (2007) 369–390, for resampling whole clusters.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from krisis.statistics.bootstrap import BootstrapOptions
from krisis.statistics.intervals import Interval, check_level, expanded_tail
from krisis.statistics.shares import ShareDistribution

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

METHOD = "patient_bootstrap"
N_RESAMPLES = 2000
"""So many place a limit within a few hundredths of the width of an interval."""

_SHAPE = 2.0
RIGHT_WEIGHT = 0.5
"""Weight of the right pseudo-answer of the lower limit."""


def error_weight(wrong: FloatArray, rows: FloatArray, *, prior_icc: float, level: float) -> float:
    """Return D of the errors and rows of the patients; 1 without rows."""
    if not rows.sum():
        return 1.0
    return ShareDistribution.of(
        wrong, rows, prior_icc=prior_icc, level=level, prior_patients=1
    ).design_effect


@dataclass(frozen=True, slots=True, eq=False)
class Lots:
    """What is drawn for the pseudo-answer of every resample.

    ``answer`` is which answer lends it its confidence, ``factor`` the G of its weight.
    """

    answer: IntArray
    factor: FloatArray

    @classmethod
    def drawn(cls, n_answers: int, options: BootstrapOptions) -> Lots:
        """Draw for every resample."""
        generator = np.random.default_rng([options.seed, 1])
        answer = generator.integers(0, n_answers, size=options.n_resamples)
        factor = generator.gamma(_SHAPE, 1 / _SHAPE, size=options.n_resamples)
        return cls(answer, factor)


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureRange:
    """The value of a figure and the least and largest values that it can have."""

    value: float
    low: float = -math.inf
    high: float = math.inf


def bootstrap_interval(
    below: FloatArray, above: FloatArray, figure: FigureRange, *, n_units: int, level: float
) -> Interval:
    """Return the interval from replicates with the right and with the wrong pseudo-answer.

    A figure of one patient has its whole range as interval, where that is finite; replicates that
    are undefined are left out.

    >>> values = np.linspace(0, 1, 1001)
    >>> found = bootstrap_interval(values, values, FigureRange(value=0.5), n_units=100, level=0.95)
    >>> round(found.low, 3), round(found.high, 3)
    (0.023, 0.977)
    """
    check_level(level)
    finite = math.isfinite(figure.low) and math.isfinite(figure.high)
    if math.isnan(figure.value):
        return Interval.undefined("the_figure_is_undefined", level=level, method=METHOD)
    below, above = below[~np.isnan(below)], above[~np.isnan(above)]
    if n_units < 2 or not below.size or not above.size:
        if finite:
            return Interval(figure.low, figure.high, level, "whole_range")
        reason = "needs_at_least_two_clusters" if n_units < 2 else "fewer_than_two_valid_resamples"
        return Interval.undefined(reason, level=level, method=METHOD)
    tail = expanded_tail((1 - level) / 2, n_units)
    low = min(float(np.quantile(below, tail)), figure.value)
    high = max(float(np.quantile(above, 1 - tail)), figure.value)
    return Interval(low, high, level, METHOD).clipped(figure.low, figure.high)

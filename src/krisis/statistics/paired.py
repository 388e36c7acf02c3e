"""Differences of two runs on the same patients: p-value, interval and adjustment from one test."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from krisis.errors import InvalidValue
from krisis.statistics.intervals import Interval, check_level
from krisis.statistics.shares import PRIOR_ICC, ShareDistribution

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]

METHOD = "permutation_t"
MarginVerdict = Literal["better", "non-inferior", "equivalent", "worse", "cannot tell"]

# 2^11 patterns are tried in milliseconds; beyond that they are drawn.
_ENUMERABLE_UNITS = 12
_CELLS_PER_BLOCK = 4_000_000
# The same sum in another order differs in its last digits: so near is equal.
_SAME = 1e-9


def swap_masks(n_units: int, n_swaps: int, *, seed: int) -> Iterator[BoolArray]:
    """Yield blocks of masks (units × swaps) that say which patients exchange their two runs.

    Up to 12 units every pattern comes once, except that of exchanging nobody, and patterns that
    differ by exchanging everybody (which only turns the sign) count as one. Beyond that
    ``n_swaps`` are drawn; blocking changes no draw.
    """
    if n_units < 1 or n_swaps < 1:
        raise InvalidValue(
            f"cannot draw {n_swaps} exchanges of {n_units} patients; both must be at least 1"
        )
    if n_units <= _ENUMERABLE_UNITS:
        pattern = np.arange(1, 2 ** (n_units - 1))
        yield (pattern >> np.arange(n_units)[:, None] & 1).astype(np.bool_)
        return
    generator = np.random.default_rng(seed)
    n_words = -(-n_units // 64)
    block = max(1, _CELLS_PER_BLOCK // n_units)
    for start in range(0, n_swaps, block):
        size = (min(block, n_swaps - start), n_words)
        words = generator.integers(0, 2**64, size=size, dtype=np.uint64).astype("<u8")
        bits = np.unpackbits(words.view(np.uint8), axis=1, count=n_units, bitorder="little")
        yield np.ascontiguousarray(bits.T).astype(np.bool_)


def studentised(difference: ArrayLike, standard_error: ArrayLike) -> FloatArray:
    """Return |Δ|/se; 0 where there is no difference, whatever its standard error."""
    delta = np.abs(np.asarray(difference, dtype=np.float64))
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(delta == 0, 0.0, delta / np.asarray(standard_error, dtype=np.float64))


@dataclass(frozen=True, slots=True, eq=False)
class PairedInference:
    """Of every metric: difference, p-value, adjusted p-value and the interval of the same test.

    An undefined metric is NaN everywhere. ``multiplier`` is the number of standard errors on
    either side of the difference.
    """

    difference: FloatArray
    standard_error: FloatArray
    p_value: FloatArray
    adjusted_p_value: FloatArray
    multiplier: FloatArray
    low: FloatArray
    high: FloatArray
    level: float

    def interval(self, metric: int) -> Interval:
        """Return the interval of one metric."""
        if math.isnan(self.difference[metric]):
            reason = "the_figure_is_undefined"
            return Interval.undefined(reason, level=self.level, method=METHOD)
        return Interval(float(self.low[metric]), float(self.high[metric]), self.level, METHOD)


def paired_inference(
    difference: ArrayLike,
    standard_error: ArrayLike,
    permuted: ArrayLike,
    *,
    degrees_of_freedom: ArrayLike,
    level: float = 0.95,
    largest: ArrayLike = 1.0,
    joint: bool = False,
    n_comparisons: int = 1,
) -> PairedInference:
    """Invert the studentised permutation test of every metric.

    ``permuted`` holds |Δ|/se of every metric under every exchange (metrics × exchanges, the
    observed one not among them); undefined values count as extreme. With t = |Δ|/se and B
    exchanges, p is the larger of (1 + #{t_π ≥ t})/(B + 1) and Student's two-sided p, and the
    interval is Δ ± κ·se, κ being the larger of the ⌊α(B + 1)⌋-th largest t_π and Student's
    quantile: p ≤ α exactly where 0 lies outside. With NaN for ``degrees_of_freedom`` the exchanges
    alone decide. ``largest`` is the largest difference that the metric can show, at which the
    interval ends. Patients on whom the runs do not differ need not be exchanged.

    The adjusted p is max-T: the larger of p and of (1 + #{max t_π ≥ t})/(B + 1), the maximum being
    over all metrics, times ``n_comparisons`` (Bonferroni). An exchange on which a metric is
    undefined does not count against the others. With ``joint`` the interval belongs to the adjusted
    p: κ is at least the ⌊α(B + 1)⌋-th largest maximum, and α is divided by ``n_comparisons``, so
    that all intervals together hold with the level, and 0 is outside exactly where the adjusted
    p ≤ α. Without it each interval holds on its own.

    References: Westfall and Young, Resampling-Based Multiple Testing (1993), for max-T; Chung and
    Romano, Exact and asymptotically robust permutation tests, Annals of Statistics 41 (2013)
    484–507; Phipson and Smyth, Permutation p-values should never be zero, Statistical Applications
    in Genetics and Molecular Biology 9 (2010) 39.
    """
    draws = np.atleast_2d(np.asarray(permuted, dtype=np.float64))
    given = (difference, standard_error, largest, degrees_of_freedom)
    delta, error, bound, degrees = (
        np.broadcast_to(np.asarray(a, dtype=np.float64), draws.shape[:1]) for a in given
    )
    observed = np.where(np.isnan(error), np.nan, studentised(delta, error))
    draws = _snapped(draws, observed)
    extreme = np.where(np.isnan(draws), np.inf, draws)
    n_tests = n_comparisons if joint else 1
    alpha = round(1 - check_level(level), 12) / n_tests
    p_value, kappa = _p_and_multiplier(extreme, observed, degrees, alpha)
    rivals = np.where(np.isnan(draws) | np.isnan(observed)[:, None], -np.inf, draws)
    largest_of_all = rivals.max(axis=0, keepdims=True)
    largest_of_all = np.broadcast_to(largest_of_all, draws.shape)
    together = np.maximum(p_value, _shares_reaching(largest_of_all, observed))
    if joint:
        kappa = np.maximum(kappa, _kth_largest(largest_of_all, observed, alpha))
    half = _half_width(kappa, error)
    return PairedInference(
        difference=np.where(np.isnan(observed), np.nan, delta),
        standard_error=error,
        p_value=p_value,
        adjusted_p_value=np.minimum(1.0, n_comparisons * together),
        multiplier=kappa,
        low=np.maximum(delta - half, -bound),
        high=np.minimum(delta + half, bound),
        level=level,
    )


def _p_and_multiplier(
    extreme: FloatArray, observed: FloatArray, degrees: FloatArray, alpha: float
) -> tuple[FloatArray, FloatArray]:
    """Return p and κ, of the exchanges and of Student the one that claims less."""
    student = _student_quantile(degrees, alpha)
    p_value = np.maximum(
        _shares_reaching(extreme, observed), _student_p(observed, degrees, alpha, student)
    )
    kappa = np.maximum(_kth_largest(extreme, observed, alpha), student)
    return p_value, np.where(np.isnan(observed), np.nan, kappa)


def _half_width(kappa: FloatArray, error: FloatArray) -> FloatArray:
    """Return a hair more than κ·se, so that Δ = κ·se leaves 0 inside despite rounding."""
    with np.errstate(invalid="ignore"):
        half = np.where(error == 0, np.where(np.isinf(kappa), np.inf, 0.0), kappa * error)
    return half * (1 + _SAME / 10)


def _snapped(draws: FloatArray, observed: FloatArray) -> FloatArray:
    t = observed[:, None]
    with np.errstate(invalid="ignore"):
        return np.where(np.abs(draws - t) <= _SAME * t, t, draws)


def _shares_reaching(extreme: FloatArray, observed: FloatArray) -> FloatArray:
    n_reaching: FloatArray = (extreme >= observed[:, None]).sum(axis=1).astype(np.float64)
    share = (1 + n_reaching) / (1 + extreme.shape[1])
    return np.where(np.isnan(observed), np.nan, share)


def _kth_largest(extreme: FloatArray, observed: FloatArray, alpha: float) -> FloatArray:
    n_draws = extreme.shape[1]
    k = math.floor(alpha * (n_draws + 1) + 1e-9)
    if k == 0:  # so few exchanges are never significant: 0 must stay inside
        most: FloatArray = extreme.max(axis=1, initial=0.0)
        return np.maximum(observed, most)
    largest: FloatArray = np.partition(extreme, n_draws - k, axis=1)[:, n_draws - k]
    return largest


def _student_quantile(degrees: FloatArray, alpha: float) -> FloatArray:
    quantile = special.stdtrit(np.where(degrees > 0, degrees, 1.0), 1 - alpha / 2)
    quantile = np.where(degrees > 0, quantile, np.inf)
    return np.where(np.isnan(degrees), 0.0, quantile)


def _student_p(
    observed: FloatArray, degrees: FloatArray, alpha: float, quantile: FloatArray
) -> FloatArray:
    """Return Student's two-sided p, on the side of α on which t lies of the quantile."""
    p = 2 * special.stdtr(np.where(degrees > 0, degrees, 1.0), -observed)
    outside = np.minimum(p, alpha)
    inside = np.maximum(p, np.nextafter(alpha, 1.0))
    p = np.where(observed > quantile * (1 + _SAME), outside, inside)
    p = np.where(degrees > 0, p, np.where(np.isnan(degrees), 0.0, 1.0))
    return np.where(np.isnan(observed), np.nan, p)


def unseen_disagreement(
    discordant: ArrayLike,
    rows: ArrayLike,
    *,
    slope: float = 1.0,
    answer_share: float = 1.0,
    level: float = 0.95,
    prior_icc: float = PRIOR_ICC,
) -> float:
    """Return the least standard error of a difference, for what nobody has disagreed on yet.

    ``discordant`` and ``rows`` count, per patient, the rows on which the runs differ and all of
    them. f = z/(n/D + z²)·slope/answer share, Tango's score interval with no discordant pair; D is
    the design effect of being discordant. ``slope`` is how far one changed answer in n moves the
    metric: 1 for shares, ECE and AURC, mean(c² − (1−c)²) for Brier, ½ for AUGRC.

    Reference: Tango, Equivalence test and confidence interval for the difference in proportions
    for the paired-sample design, Statistics in Medicine 17 (1998) 891–908.
    """
    shared = ShareDistribution.of(
        discordant, rows, prior_icc=prior_icc, level=level, prior_patients=1
    )
    z = float(special.ndtri(0.5 + level / 2))
    return z / (shared.n_rows / shared.design_effect + z * z) * abs(slope) / answer_share


def margin_verdict(
    interval: Interval, margin: float, direction: Literal["higher", "lower"]
) -> MarginVerdict:
    """Say how right compares to left, given how much worse would not matter.

    With the interval of right − left turned so that more is better: better if all of it is above
    0, worse if below; equivalent if it is within ∓margin, non-inferior if it is above −margin.

    >>> margin_verdict(Interval(-0.02, 0.03), 0.05, "higher")
    'equivalent'
    >>> margin_verdict(Interval(-0.02, 0.08), 0.05, "lower")
    'cannot tell'
    """
    low, high = interval.low, interval.high
    if direction == "lower":
        low, high = -high, -low
    if not interval.defined:
        return "cannot tell"
    if low > 0:
        return "better"
    if high < 0:
        return "worse"
    if low > -margin:
        return "equivalent" if high < margin else "non-inferior"
    return "cannot tell"


def non_inferior(
    interval: Interval, margin: float, direction: Literal["higher", "lower"]
) -> bool | None:
    """Tell whether right is at most ``margin`` worse than left; None only without an interval.

    The interval is that of right − left: where more is better its lower end must lie above
    −margin, where less is better its upper end below +margin.

    >>> non_inferior(Interval(-0.04, 0.01), 0.05, "higher")
    True
    >>> non_inferior(Interval(-0.01, 0.06), 0.05, "lower")
    False
    """
    if direction not in ("higher", "lower"):
        raise InvalidValue(
            f"non-inferiority needs direction 'higher' or 'lower', not {direction!r}"
        )
    if not (math.isfinite(margin) and margin > 0):
        raise InvalidValue(f"a non-inferiority margin must be above 0, not {margin!r}")
    if not interval.defined:
        return None
    return interval.low > -margin if direction == "higher" else interval.high < margin

"""Closed forms for the size of a study: the width of Wilson's interval, and two paired designs.

``n`` are effective rows, those of the study divided by its design effect; ``z`` is the quantile of
the interval or test, normal or Student's.
"""

from __future__ import annotations

import bisect
import math

import numpy as np
from scipy import special

_ROUNDING = 1e-9
# The risks over which an assurance is averaged, and the largest size that it names.
_N_RISKS, _MOST_TIMES = 200, 100


def wilson_assurance(n: float, expected: float, half_width: float, z: float) -> float:
    """Return how often Wilson's interval of n rows is at most so wide.

    Half its width at the observed share p is z√(p(1−p)/n + z²/4n²)/(1 + z²/n). It is narrow enough
    where p(1−p) ≤ v = n((w(1 + z²/n)/z)² − z²/4n²), that is outside of r to 1 − r with r(1−r) = v,
    and the chance of such a p is binomial.

    References: Wilson, Probable inference, the law of succession, and statistical inference, JASA
    22 (1927) 209–212; for the assurance Beal, Sample size determination for confidence intervals
    on the population mean, Biometrics 45 (1989) 969–977.

    >>> round(wilson_assurance(428, 0.9, 0.03, 1.96), 3)
    0.822
    """
    v = n * ((half_width * (1 + z * z / n) / z) ** 2 - z * z / (4 * n * n))
    if v < 0:
        return 0.0
    if v >= 0.25:
        return 1.0
    r = (1 - math.sqrt(1 - 4 * v)) / 2
    few, many = math.floor(n * r + _ROUNDING), math.ceil(n * (1 - r) - _ROUNDING)
    chance = _at_most(few, n, expected)
    return chance + _at_most(math.floor(n - many + _ROUNDING), n, 1 - expected)


def _at_most(k: int, n: float, p: float) -> float:
    """Return P(Bin(n, p) ≤ k) = I_{1−p}(n − k, k + 1), which also takes an n that is not whole."""
    return float(special.betainc(n - k, k + 1, 1 - p)) if 0 <= k < n else float(k >= 0)


def difference_power(n: float, difference: float, discordance: float, z: float) -> float:
    """Return the power to find that the second of two paired shares is higher.

    Φ(((δ − 1/2n)√n − z√ψ)/√(ψ − δ²)) with the difference δ and ψ, the share of pairs that differ:
    Connor's formula with half of the usual continuity correction 1/n. McNemar's exact test, which
    is the test of a comparison with one row per patient, has less power than without one (up to
    2.5 points) and more than with the whole.

    References: Connor, Sample size for testing differences in proportions for the paired-sample
    design, Biometrics 43 (1987) 207–211; Fleiss, Levin and Paik, Statistical Methods for Rates and
    Proportions (2003), section 13.1, for the correction.

    >>> round(difference_power(498, 0.05, 0.15, 1.96), 2)
    0.81
    """
    spread = math.sqrt(max(discordance - difference**2, _ROUNDING))
    net = (difference - 0.5 / n) * math.sqrt(n)
    return float(special.ndtr((net - z * math.sqrt(discordance)) / spread))


def non_inferiority_power(
    n: float, difference: float, discordance: float, margin: float, z: float
) -> float:
    """Return the power to show that the second of two paired shares is at most ``margin`` lower.

    Φ((δ + margin)√n/√(ψ − δ²) − z).

    Reference: Blackwelder, Proving the null hypothesis in clinical trials, Controlled Clinical
    Trials 3 (1982) 345–353.

    >>> round(non_inferiority_power(314, 0.0, 0.1, 0.05, 1.96), 2)
    0.8
    """
    spread = math.sqrt(max(discordance - difference**2, _ROUNDING))
    return float(special.ndtr((difference + margin) * math.sqrt(n) / spread - z))


def assured_rows(
    errors: float, rows: float, *, risk: float, level: float, power: float = 0.8
) -> float:
    """Return how many answers show a risk below the bound with this power; NaN if unknown.

    ``errors`` of ``rows`` answers were seen, so the true risk r has the distribution
    Beta(errors + 1, rows − errors + 1). Of N answers a one-sided test at ``level`` rejects a risk
    of α with the chance Φ(((α − r)√N − z√(α(1 − α)))/√(r(1 − r))), here averaged over r: with the
    risk that was seen taken for the true one, a low one is mostly luck, and the size named is far
    too small. No size is named that exceeds a hundred times the answers.

    Reference: O'Hagan, Stevens and Campbell, Assurance in clinical trial design, Pharmaceutical
    Statistics 4 (2005) 187–201.

    >>> assured_rows(5, 100, risk=0.1, level=0.056)
    511.0
    >>> assured_rows(9, 100, risk=0.1, level=0.056)
    nan
    """
    middle = (np.arange(_N_RISKS) + 0.5) / _N_RISKS
    r = special.betaincinv(errors + 1, rows - errors + 1, middle)
    limit = -special.ndtri(level) * math.sqrt(risk * (1 - risk))

    def chance(n: float) -> float:
        net = (risk - r) * math.sqrt(n) - limit
        return float(special.ndtr(net / np.sqrt(r * (1 - r))).mean())

    most = math.ceil(_MOST_TIMES * rows)
    if chance(most) < power:
        return math.nan
    fewest = bisect.bisect_left(range(1, most), power, key=chance) + 1
    return float(fewest)

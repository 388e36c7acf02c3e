"""Evidence that may be looked at after every patient, and the width that ends a run.

An e-process starts at 1 and is expected to stay there while the null hypothesis holds, so that by
Ville's inequality it ever reaches 1/α with probability α at most, however often it is looked at.
Both kinds here are mixtures over alternatives on either side of the null. The side that the
evidence favours is the one whose own mixture has grown more; as that mixture alone then reaches
1/α, a decision for the wrong side has probability α at most as well, wherever the truth is.

References: Ville, Étude critique de la notion de collectif (1939); Robbins, Statistical methods
related to the law of the iterated logarithm, Annals of Mathematical Statistics 41 (1970)
1397–1409; Waudby-Smith and Ramdas, Estimating means of bounded random variables by betting, JRSS B
86 (2024) 1–27; Shin, Ramdas and Rinaldo, E-detectors: a nonparametric framework for sequential
change detection, New England Journal of Statistics in Data Science 2 (2024) 229–260.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from krisis.statistics.mid_p import mid_p_quantile

FloatArray = NDArray[np.float64]

ALPHA = 0.05
"""How often a decision may be wrong, over all looks together."""
LOG_DECISIVE = -math.log(ALPHA)

# The mixture of alternatives weighs as much as ten rows: Beta(5, 5) where the null is one half.
_PRIOR_ROWS = 10.0
_BETS = np.array([0.99, 0.7, 0.4, 0.2, 0.1])
FEWEST_PATIENTS = 30
_WEIGHT_OF_WORST_CASE = 20.0
# Half of the stake is on an excess from the first patient on, the rest on later beginnings.
_FROM_THE_FIRST = 0.5
# The later beginnings lose half of what is left of their stake in as many patients.
_TYPICAL_BEGINNING = 100.0
_LARGEST_BET = 0.99  # as a share of the one that could lose everything
_N_HISTORIES = 200
_MOST_PATIENTS = 16_000


class CoinMixture:
    """Evidence against a share of ``limit``, from independent rows that are hits or misses.

    With h hits in n rows, and a = 10·limit, b = 10·(1 − limit):
    E = B(a + h, b + n − h) / B(a, b) / [limit^h (1 − limit)^(n − h)].
    Counts may be arrays: one element for each of several runs side by side.
    """

    def __init__(self, limit: float) -> None:
        self._limit = limit
        self._prior = _PRIOR_ROWS * limit, _PRIOR_ROWS * (1 - limit)
        self._hits: FloatArray = np.zeros(())
        self._misses: FloatArray = np.zeros(())

    def add(self, hits: ArrayLike, rows: ArrayLike) -> None:
        """Take the next rows in."""
        n_hits, n_rows = np.asarray(hits, np.float64), np.asarray(rows, np.float64)
        self._hits = self._hits + n_hits
        self._misses = self._misses + (n_rows - n_hits)

    @property
    def log_evidence(self) -> FloatArray:
        """The logarithm of E."""
        a, b = self._prior
        marginal = special.betaln(a + self._hits, b + self._misses) - special.betaln(a, b)
        null = self._hits * math.log(self._limit) + self._misses * math.log1p(-self._limit)
        evidence: FloatArray = marginal - null
        return evidence

    @property
    def favours_more(self) -> NDArray[np.bool_]:
        """True where the alternatives above the limit have grown more than those below."""
        a, b = self._prior
        below = special.betainc(a, b, self._limit)
        now = special.betainc(a + self._hits, b + self._misses, self._limit)
        more: NDArray[np.bool_] = np.asarray(now < below)
        return more


class BetMixture:
    """Evidence against a mean of 0, from independent numbers between −1 and 1.

    E is the mean of Π(1 + λ·x) over λ = ±0.99, ±0.7, ±0.4, ±0.2, ±0.1. Numbers may be arrays: one
    element for each of several runs side by side.
    """

    def __init__(self) -> None:
        self._log_wealth: FloatArray = np.zeros((2 * _BETS.size, 1))

    def add(self, number: ArrayLike) -> None:
        """Bet on the next number."""
        bets = np.concatenate([_BETS, -_BETS])[:, None]
        self._log_wealth = self._log_wealth + np.log1p(bets * np.asarray(number, np.float64))

    @property
    def log_evidence(self) -> FloatArray:
        """The logarithm of E."""
        return self._log_mean(slice(None))

    @property
    def favours_more(self) -> NDArray[np.bool_]:
        """True where the bets on a mean above 0 have grown more than those on one below."""
        return self._log_mean(slice(_BETS.size)) > self._log_mean(slice(_BETS.size, None))

    def _log_mean(self, bets: slice) -> FloatArray:
        chosen = self._log_wealth[bets]
        mean: FloatArray = special.logsumexp(chosen, axis=0) - math.log(chosen.shape[0])
        return mean if mean.size > 1 else mean.reshape(())


def excess_evidence(surplus: FloatArray, limit: float) -> FloatArray:
    """Return the logarithm of the evidence that a risk has risen above a limit, patient by patient.

    ``surplus`` holds, in order of arrival (last axis), a patient's losses minus ``limit`` times the
    rows at stake, over the most rows that a patient can have: a number from −limit to 1 − limit
    with a mean of at most 0 while the risk is within the limit. For each bet λ and each patient k
    at whom the excess may begin, Π(1 + λ·x_i) over i ≥ k is a fair game; E is the mean over both:

        E_t = Σ_λ Σ_{k ≤ t} w_k Π_{i=k..t} (1 + λ·x_i) / n_λ + Σ_{k > t} w_k,

    w_1 = ½ and w_{1+j} = ½·100/((99 + j)(100 + j)). So a rise after a long good time is found
    almost as soon as one from the start, and E reaches 1/α with probability α at most, for ever.

    >>> bool(excess_evidence(np.full(20, 0.9), 0.1)[-1] > LOG_DECISIVE)
    True
    """
    weight = _beginning_weights(surplus.shape[-1])
    bets = _excess_bets(limit)
    grown = [np.log(np.maximum(1 - np.cumsum(weight), 0.0) + 1e-300) + np.zeros_like(surplus)]
    for bet in bets:
        growth = np.log1p(bet * surplus)
        wealth = np.cumsum(growth, axis=-1)
        stakes = np.log(weight) - (wealth - growth)
        grown.append(wealth + np.logaddexp.accumulate(stakes, axis=-1) - math.log(bets.size))
    evidence: FloatArray = np.logaddexp.reduce(grown, axis=0)
    return evidence


def excess_beginning(surplus: FloatArray, limit: float) -> int:
    """Return the patient at whom an excess most plausibly began: the largest term of E."""
    weight, terms = np.log(_beginning_weights(surplus.size)), []
    for bet in _excess_bets(limit):
        growth = np.log1p(bet * surplus)
        terms.append(weight + np.cumsum(growth[::-1])[::-1])
    return int(np.argmax(np.logaddexp.reduce(terms, axis=0)))


def shortfall_evidence(surplus: FloatArray, limit: float) -> FloatArray:
    """Return the logarithm of the evidence that the mean risk is below a limit, patient by patient.

    E_t is the mean of Π(1 − λ·x_i) over four bets. As Π(1 − λ·m_i) ≤ (1 − λ·m̄)^t, it speaks of the
    mean m̄ of the risks over time, also where they change.

    >>> bool(shortfall_evidence(np.full(60, -0.1), 0.1)[-1] > LOG_DECISIVE)
    True
    """
    bets = _LARGEST_BET * np.array([0.25, 0.5, 0.75, 1.0]) / (1 - limit)
    grown = [np.cumsum(np.log1p(-bet * surplus), axis=-1) for bet in bets]
    evidence: FloatArray = np.logaddexp.reduce(grown, axis=0) - math.log(bets.size)
    return evidence


def patients_to_tell(
    drawn: Callable[[tuple[int, int]], FloatArray],
    evidence: Callable[[FloatArray, float], FloatArray],
    limit: float,
    *,
    level: float,
    power: float = 0.8,
) -> int | None:
    """Return after how many patients the evidence is decisive in a share ``power`` of histories.

    ``drawn`` returns the surplus of histories × patients. None: in more than 16,000, if ever.
    """
    n = 250
    while n <= _MOST_PATIENTS:
        decisive = evidence(drawn((_N_HISTORIES, n)), limit) >= -math.log(level)
        first = np.where(decisive.any(axis=1), decisive.argmax(axis=1) + 1, n + 1)
        needed = int(np.quantile(first, power, method="inverted_cdf"))
        if needed <= n:
            return needed
        n *= 4
    return None


def _beginning_weights(n: int) -> FloatArray:
    later = np.arange(1, max(n, 1))
    shares = _TYPICAL_BEGINNING / ((later + _TYPICAL_BEGINNING - 1) * (later + _TYPICAL_BEGINNING))
    return np.concatenate([[_FROM_THE_FIRST], (1 - _FROM_THE_FIRST) * shares])[:n]


def _excess_bets(limit: float) -> FloatArray:
    """Return bets from that on a risk of 1.5 times the limit, doubled up to the largest.

    λ = (q/limit − 1)/(1 − limit) is the likelihood ratio of a risk q for one row per patient; with
    many alike rows per patient larger ones grow faster.
    """
    smallest, largest = 0.5 / (1 - limit), _LARGEST_BET / limit
    n = 1 + max(0, math.floor(math.log2(largest / smallest)))
    bets: FloatArray = np.minimum(smallest * 2.0 ** np.arange(n), largest)
    return bets


class RunningShare:
    """The 95 % interval of a share, for a rule that ends a run when it is narrow enough.

    Mid-P on the rows where every patient has one. With several (``clustered``), on the effective
    number C·p(1 − p)/s² over (t/z)², where C is the number of patients, t Student's quantile on
    C − 1 degrees, z the normal one, and s² the variance of the patients' residuals
    (hits − p·rows)/mean rows, shrunk towards p(1 − p), that of patients whose rows all agree, by
    the weight of 20 patients: at times few patients are alike by chance, and a rule that waits for
    a narrow interval finds these times. Counts may be arrays: one element for each of several runs.
    """

    def __init__(self, *, clustered: bool) -> None:
        self._clustered = clustered
        self.n_patients: FloatArray = np.zeros(())
        self._sums: FloatArray = np.zeros((5, 1))  # hits, rows, hits², hits·rows, rows²

    def add(self, hits: ArrayLike, rows: ArrayLike) -> None:
        """Take the next patient in; one without rows counts as none."""
        x, t = np.broadcast_arrays(np.atleast_1d(hits).astype(np.float64), rows)
        self.n_patients = self.n_patients + (t > 0)
        self._sums = self._sums + np.stack([x, t, x * x, x * t, t * t])

    @property
    def share(self) -> FloatArray:
        """The share so far."""
        share: FloatArray = self._sums[0] / self._sums[1]
        return share

    def limits(self) -> FloatArray:
        """Return both ends of the interval (2 × runs); ask from `FEWEST_PATIENTS` patients on."""
        size = self._effective_rows() if self._clustered else self._sums[1]
        return mid_p_quantile([[0.025], [0.975]], self.share * size, size)

    def _effective_rows(self) -> FloatArray:
        hits, rows, hits_squared, hits_rows, rows_squared = self._sums
        n, share = self.n_patients, hits / rows
        spread = share * (1 - share)
        residuals = hits_squared - 2 * share * hits_rows + share**2 * rows_squared
        # Without a hit or a miss nothing is known of how alike a patient's rows are: one row each.
        summed = np.where(spread > 0, residuals * (n / rows) ** 2, 0.0)
        variance = (summed + _WEIGHT_OF_WORST_CASE * spread) / (n - 1 + _WEIGHT_OF_WORST_CASE)
        size = np.minimum(rows, np.divide(n * spread, variance, out=n.copy(), where=spread > 0))
        student = special.stdtrit(n - 1, 0.975) / special.ndtri(0.975)
        effective: FloatArray = size / student**2
        return effective

"""How many patients `krisis certify` needs: its power at a size, and the size for a power."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import special

from krisis.decisions.threshold_search import chain_starts
from krisis.errors import InvalidValue
from krisis.statistics.risk_tests import (
    FloatArray,
    allowed_errors,
    betting_p,
    binomial_p,
    fewest_rows,
)

MOST_PATIENTS = 100_000
FEWEST_FOR_BETTING = 5
"""With several rows per patient: so many times the fewest rows must there be patients to bet on."""
_MOST_SIMULATED = 10_000
_N_REPETITIONS = 1000
_MOST_ROWS = 5_000_000


@dataclass(frozen=True, slots=True)
class CertifyPlan:
    """The patients with answers that are needed; ``reason`` says why there is no such number.

    Power goes up and down with every error that is allowed more: ``first_n`` reaches it, and from
    ``n`` on it stays reached.
    """

    n: int | None
    cluster_size: int
    power: float
    first_n: int | None = None
    reason: str = ""

    @property
    def n_rows(self) -> int | None:
        """The answered rows of so many patients."""
        return None if self.n is None else self.n * self.cluster_size


def certify_power(
    n: int,
    *,
    risk: float,
    delta: float,
    expected_risk: float,
    cluster_size: int = 1,
    icc: float = 0.0,
    seed: int = 42,
) -> float:
    """Return the chance that `fixed-sequence` certifies any threshold on n patients with answers.

    The answers have distinct scores and the expected risk at every threshold. Exact for one row per
    patient; simulated for several, whose errors are correlated by ``icc``.
    """
    check_bounds(risk, delta)
    _check_expected(expected_risk, cluster_size, icc)
    if n < 1:
        raise InvalidValue(f"the number of patients must be 1 or more, not {n!r}")
    if cluster_size == 1 or n < FEWEST_FOR_BETTING * fewest_rows(risk, delta):
        return _exact_power(n, risk, delta, expected_risk)
    return _simulated_power(n, (risk, delta, expected_risk), (cluster_size, icc, seed))


def plan_certify(
    *,
    risk: float,
    delta: float,
    expected_risk: float,
    power: float = 0.8,
    cluster_size: int = 1,
    icc: float = 0.0,
    seed: int = 42,
) -> CertifyPlan:
    """Return the fewest patients from which on the power stays at the target or above."""
    check_bounds(risk, delta)
    _check_expected(expected_risk, cluster_size, icc)
    if not 0 < power < 1:
        raise InvalidValue(f"the power must lie between 0 and 1, not {power!r}")
    if expected_risk >= risk:
        reason = f"the expected risk {expected_risk:g} is not below {risk:g}, so no size helps"
        return CertifyPlan(None, cluster_size, math.nan, reason=reason)
    if cluster_size == 1:
        return _exact_plan(risk, delta, expected_risk, power)
    return _simulated_plan((risk, delta, expected_risk), (cluster_size, icc, seed), power)


def check_bounds(risk: float, delta: float) -> None:
    """Refuse a bound or a delta that is no probability."""
    for name, value in (("risk", risk), ("delta", delta)):
        if not 0 < value < 1:
            raise InvalidValue(f"the {name} must lie between 0 and 1, not {value!r}")


def _check_expected(expected_risk: float, cluster_size: int, icc: float) -> None:
    if not 0 <= expected_risk < 1:
        raise InvalidValue(f"the expected risk must lie between 0 and 1, not {expected_risk!r}")
    if cluster_size < 1:
        raise InvalidValue(f"the cluster size must be 1 or more, not {cluster_size!r}")
    if not 0 <= icc <= 1:
        raise InvalidValue(f"the ICC must lie between 0 and 1, not {icc!r}")


def _exact_power(n: int, risk: float, delta: float, expected: float) -> float:
    """Return the chance that the first candidate of a chain passes: no other matters for any."""
    starts = chain_starts(n, risk, delta)
    if starts[-1][1] > n or allowed_errors(n, risk, delta) < 0:
        return 0.0
    (level, start), *rest = starts
    allowed = int(allowed_errors(start, risk, level))
    if not rest:
        return float(binomial_p(allowed, start, expected)) if allowed >= 0 else 0.0
    second_level, second = rest[0]
    # Both fail: more errors than allowed among the first rows, and among all up to the second.
    errors = np.arange(allowed + 1, start + 1)
    left = int(allowed_errors(second, risk, second_level)) - errors
    passes = np.where(left >= 0, binomial_p(np.maximum(left, 0), second - start, expected), 0.0)
    chance = _binomial_mass(errors.astype(np.float64), start, expected)
    return float(1 - chance @ (1 - passes))


def _binomial_mass(k: FloatArray, n: int, p: float) -> FloatArray:
    log_choices = special.gammaln(n + 1) - special.gammaln(k + 1) - special.gammaln(n - k + 1)
    mass: FloatArray = np.exp(log_choices + special.xlogy(k, p) + special.xlog1py(n - k, -p))
    return mass


def _exact_plan(risk: float, delta: float, expected: float, target: float) -> CertifyPlan:
    """Look at every size up to twice the last one that falls short."""
    powers: dict[tuple[tuple[float, int], ...], float] = {}
    first, last, n = None, 0, 0
    while n <= max(2 * last, 8 * fewest_rows(risk, delta)):
        n += 1
        if n > MOST_PATIENTS:
            reason = f"more than {MOST_PATIENTS:,} answered cases are needed"
            return CertifyPlan(None, 1, math.nan, reason=reason)
        starts = tuple(chain_starts(n, risk, delta))
        if not powers.get(starts):  # as long as n is below the start the power is 0
            powers[starts] = _exact_power(n, risk, delta, expected)
        if powers[starts] < target:
            last = n
        elif first is None:
            first = n
    return CertifyPlan(last + 1, 1, _exact_power(last + 1, risk, delta, expected), first)


Question = tuple[float, float, float]
Clusters = tuple[int, float, int]


def _simulated_power(n: int, question: Question, clusters: Clusters) -> float:
    """Return the share of simulated runs in which the first candidate of a chain passes."""
    risk, delta, expected = question
    size, icc, seed = clusters
    starts = chain_starts(n, risk, delta)
    if starts[-1][1] > n:
        return 0.0
    generator = np.random.default_rng(seed)
    n_repetitions = int(np.clip(_MOST_ROWS / (n * size), _N_REPETITIONS / 5, _N_REPETITIONS))
    n_certified = 0
    for _ in range(n_repetitions):
        copied = generator.random((n, size)) < math.sqrt(icc)
        place = np.where(copied, generator.random((n, 1)), generator.random((n, size)))
        losses = (place < expected).astype(np.float64)
        # The scores say nothing, so that the accepted rows are any of them.
        rank = generator.permutation(n * size).reshape(n, size)
        for level, start in starts:
            accepted = rank < start * size
            sums = (losses * accepted).sum(axis=1), accepted.sum(axis=1).astype(np.float64)
            if betting_p(*sums, risk, most_rows=size, level=delta) <= level:
                n_certified += 1
                break
    return n_certified / n_repetitions


def _simulated_plan(question: Question, clusters: Clusters, target: float) -> CertifyPlan:
    """Bisect above the sizes at which one row per patient is tested, whose power is exact."""
    risk, delta, expected = question
    size = clusters[0]

    def reached(n: int) -> bool:
        return _simulated_power(n, question, clusters) >= target

    low = FEWEST_FOR_BETTING * fewest_rows(risk, delta) - 1
    high = low + 1
    while not (reached(high) and reached(high + high // 4)):
        low, high = high, 2 * high
        if high > _MOST_SIMULATED:
            reason = f"more than {_MOST_SIMULATED:,} patients are needed"
            return CertifyPlan(None, size, math.nan, reason=reason)
    while high - low > max(1, high // 100):
        middle = (low + high) // 2
        low, high = (low, middle) if reached(middle) else (middle, high)
    if high == FEWEST_FOR_BETTING * fewest_rows(risk, delta):
        while high > 1 and _exact_power(high - 1, risk, delta, expected) >= target:
            high -= 1
    at_high = certify_power(
        high,
        risk=risk,
        delta=delta,
        expected_risk=expected,
        cluster_size=size,
        icc=clusters[1],
        seed=clusters[2],
    )
    return CertifyPlan(high, size, at_high, high)

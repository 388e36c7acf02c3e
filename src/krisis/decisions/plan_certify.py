"""How many patients `krisis certify` needs: its power at a size, and the size for a power."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy import special

from krisis.decisions.threshold_search import chain_starts, divided
from krisis.errors import InvalidValue
from krisis.statistics.risk_tests import (
    FloatArray,
    allowed_errors,
    betting_p,
    binomial_p,
    fewest_rows,
    hoeffding_bentkus_p,
)

MOST_PATIENTS = 100_000
FEWEST_FOR_BETTING = 5
"""With several rows per patient: so many times the fewest rows must there be patients to bet on."""
_LEAST_RISK = 1e-6
_MOST_SIMULATED = 10_000
_N_REPETITIONS = 1000
_MOST_ROWS = 5_000_000
_NO_MASS = 1e-18


@dataclass(frozen=True, slots=True)
class _World:
    """The bounds and the expected risk; the most rows of a patient, how alike, and the mix of rows.

    Without ``sizes`` every patient has ``size`` rows. Losses that are not ``binary`` are tested by
    the Hoeffding–Bentkus inequality.
    """

    risk: float
    delta: float
    expected: float
    size: int
    icc: float
    seed: int
    sizes: Sequence[int]
    binary: bool

    def __post_init__(self) -> None:
        check_bounds(self.risk, self.delta)
        if not 0 <= self.expected < 1:
            raise InvalidValue(f"the expected risk must lie between 0 and 1, not {self.expected!r}")
        if self.size < 1:
            raise InvalidValue(f"the cluster size must be 1 or more, not {self.size!r}")
        if not 0 <= self.icc <= 1:
            raise InvalidValue(f"the ICC must lie between 0 and 1, not {self.icc!r}")

    @property
    def fewest_for_betting(self) -> int:
        return FEWEST_FOR_BETTING * fewest_rows(self.risk, divided(self.delta)[1])

    def power(self, n: int) -> float:
        """Return the chance of any threshold on n patients."""
        if self.size > 1 and n >= self.fewest_for_betting:
            return _simulated_power(n, self)
        filled = sum(self.sizes) / (len(self.sizes) * self.size) if self.sizes else 1.0
        return _exact_power(math.floor(n * filled + 1e-9), self)

    def allowed(self, n: int, level: float) -> int:
        """Return the most errors with which n rows pass, −1 where not even 0 do."""
        k = int(allowed_errors(n, self.risk, level))
        while not self.binary and k >= 0 and hoeffding_bentkus_p(k, n, self.risk) > level:
            k -= 1
        return k


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
    sizes: Sequence[int] = (),
    binary: bool = True,
) -> float:
    """Return the chance that `fixed-sequence` certifies any threshold on n patients with answers.

    The answers have distinct scores and the expected risk at every threshold. Exact for one row per
    patient; simulated for several, whose errors are correlated by ``icc``. ``sizes`` is a mix of
    answered rows per patient, none above ``cluster_size``; without it all have that many.
    """
    if n < 1:
        raise InvalidValue(f"the number of patients must be 1 or more, not {n!r}")
    return _World(risk, delta, expected_risk, cluster_size, icc, seed, sizes, binary).power(n)


def plan_certify(
    *,
    risk: float,
    delta: float,
    expected_risk: float,
    power: float = 0.8,
    cluster_size: int = 1,
    icc: float = 0.0,
    seed: int = 42,
    sizes: Sequence[int] = (),
    binary: bool = True,
) -> CertifyPlan:
    """Return the fewest patients from which on the power stays at the target or above."""
    world = _World(risk, delta, expected_risk, cluster_size, icc, seed, sizes, binary)
    if not 0 < power < 1:
        raise InvalidValue(f"the power must lie between 0 and 1, not {power!r}")
    if expected_risk >= risk:
        reason = f"the expected risk {expected_risk:g} is not below {risk:g}, so no size helps"
        return CertifyPlan(None, cluster_size, math.nan, reason=reason)
    return _exact_plan(world, power) if cluster_size == 1 else _simulated_plan(world, power)


def check_bounds(risk: float, delta: float) -> None:
    """Refuse a bound or a delta that is no probability."""
    for name, value in (("risk", risk), ("delta", delta)):
        if not 0 < value < 1:
            raise InvalidValue(f"the {name} must lie between 0 and 1, not {value!r}")
    if risk < _LEAST_RISK:
        raise InvalidValue(
            f"a risk of {risk!r} would take millions of cases; choose {_LEAST_RISK:g} or more"
        )


def _exact_power(n: int, world: _World) -> float:
    """Return the chance that everything, or the first candidate of a chain, passes.

    No other candidate matters for whether there is any threshold.
    """
    whole_level, delta = divided(world.delta)
    starts = chain_starts(n, world.risk, delta)
    if starts[-1][1] > n or allowed_errors(n, world.risk, delta) < 0:
        return 0.0
    steps = tuple((start, world.allowed(start, level)) for level, start in starts)
    failed = _failed(steps, world.expected)
    errors = np.flatnonzero(failed > _NO_MASS)
    # Answering everything fails too: more errors than allowed among all n.
    left = world.allowed(n, whole_level) - errors
    passed = binomial_p(np.maximum(left, 0), n - steps[-1][0], world.expected)
    return float(1 - failed[errors] @ (1 - np.where(left >= 0, passed, 0.0)))


@lru_cache(maxsize=256)
def _failed(steps: tuple[tuple[int, int], ...], expected: float) -> FloatArray:
    """Return the chance of every number of errors in the last step, all steps having failed.

    A step is a number of rows, those of the step before among them, and the errors allowed.
    """
    chance, before = np.ones(1), 0
    for n, allowed in steps:
        fresh = _binomial_mass(np.arange(n - before + 1.0), n - before, expected)
        chance, before = np.convolve(chance, fresh), n
        chance[: allowed + 1] = 0.0
    return chance


def _binomial_mass(k: FloatArray, n: int, p: float) -> FloatArray:
    log_choices = special.gammaln(n + 1) - special.gammaln(k + 1) - special.gammaln(n - k + 1)
    mass: FloatArray = np.exp(log_choices + special.xlogy(k, p) + special.xlog1py(n - k, -p))
    return mass


def _exact_plan(world: _World, target: float) -> CertifyPlan:
    """Look at every size up to twice the last one that falls short.

    While the starts and the errors allowed stay the same, power falls with every row: the first
    and the last such size tell of all.
    """
    whole_level, delta = divided(world.delta)

    def allowance(n: int) -> tuple[object, ...]:
        starts = chain_starts(n, world.risk, delta)
        return *starts, n >= starts[-1][1], world.allowed(n, whole_level)

    first, last, n = None, 0, 0
    while n <= max(2 * last, 8 * fewest_rows(world.risk, delta)):
        n += 1
        start, same = n, allowance(n)
        while allowance(n + 1) == same:
            n += 1
        if n > MOST_PATIENTS:
            reason = f"more than {MOST_PATIENTS:,} answered cases are needed"
            return CertifyPlan(None, 1, math.nan, reason=reason)
        if _exact_power(n, world) < target:
            last = n
        if first is None and _exact_power(start, world) >= target:
            first = start
    return CertifyPlan(last + 1, 1, _exact_power(last + 1, world), first)


def _simulated_power(n: int, world: _World) -> float:
    """Return the share of simulated runs in which the first candidate of a chain passes."""
    generator, size = np.random.default_rng(world.seed), world.size
    n_repetitions = int(np.clip(_MOST_ROWS / (n * size), _N_REPETITIONS / 5, _N_REPETITIONS))
    return sum(_certifies(n, world, generator) for _ in range(n_repetitions)) / n_repetitions


def _certifies(n: int, world: _World, generator: np.random.Generator) -> bool:
    size = world.size
    copied = generator.random((n, size)) < math.sqrt(world.icc)
    place = np.where(copied, generator.random((n, 1)), generator.random((n, size)))
    losses = (place < world.expected).astype(np.float64)
    # The scores say nothing, so that the accepted rows are any of them.
    rank = generator.permutation(n * size).reshape(n, size)
    if world.sizes:
        rows = generator.choice(np.asarray(world.sizes), n)
        rank = np.where(np.arange(size) < rows[:, None], rank, n * size)
    ranked = np.sort(rank[rank < n * size])
    whole_level, delta = divided(world.delta)
    starts = chain_starts(ranked.size // size, world.risk, delta)
    for level, start in [(whole_level, ranked.size // size), *starts]:
        if start * size > ranked.size:
            return False
        accepted = rank <= ranked[start * size - 1]
        sums = (losses * accepted).sum(axis=1), accepted.sum(axis=1).astype(np.float64)
        if betting_p(*sums, world.risk, most_rows=size, level=world.delta) <= level:
            return True
    return False


def _simulated_plan(world: _World, target: float) -> CertifyPlan:
    """Bisect above the sizes at which one row per patient is tested, whose power is exact."""
    low = world.fewest_for_betting - 1
    high = low + 1
    while not (world.power(high) >= target and world.power(high + high // 4) >= target):
        low, high = high, 2 * high
        if high > _MOST_SIMULATED:
            reason = f"more than {_MOST_SIMULATED:,} patients are needed"
            return CertifyPlan(None, world.size, math.nan, reason=reason)
    while high - low > max(1, high // 100):
        middle = (low + high) // 2
        low, high = (low, middle) if world.power(middle) >= target else (middle, high)
    if high == world.fewest_for_betting:
        while high > 1 and world.power(high - 1) >= target:
            high -= 1
    return CertifyPlan(high, world.size, world.power(high), high)

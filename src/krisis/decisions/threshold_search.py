"""Which thresholds are tested against a bound on the risk, in which order, and which is chosen.

A candidate is one distinct score; candidates go from strict to lax, so that candidate j accepts all
rows that candidate j − 1 accepts. What is tested depends on how many rows each candidate accepts
and never on their losses.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from krisis.statistics.risk_tests import (
    FloatArray,
    IntArray,
    allowed_errors,
    binomial_p,
    fewest_rows,
    first_alike,
)

# This share of delta goes to the threshold that answers everything, the rest to the chains.
WHOLE_SHARE = 0.2
# The first of two chains tests at this share of their delta, the second at the rest.
FIRST_SHARE = 0.3
# Neither start accepts less than this share of the answers, in per cent.
_STRICTEST_PERCENT = 35


@dataclass(frozen=True, slots=True)
class Chain:
    """Candidates that are tested one after the other at one level, up to the first failure."""

    level: float
    candidates: Sequence[int]


@dataclass(frozen=True, slots=True)
class Test:
    """One candidate that was tested."""

    candidate: int
    p: float
    level: float

    @property
    def passed(self) -> bool:
        """Tell whether a risk above the bound is rejected."""
        return self.p <= self.level


@dataclass(frozen=True, slots=True)
class Search:
    """What was tested and the laxest candidate that passed; None where none did."""

    tests: Sequence[Test]
    chosen: int | None

    @classmethod
    def of(cls, tests: Sequence[Test]) -> Search:
        """Choose the laxest candidate that passed."""
        return cls(tests, max((test.candidate for test in tests if test.passed), default=None))


def divided(delta: float) -> tuple[float, float]:
    """Divide delta: the level at which answering everything is tested, and the delta of the chains.

    >>> divided(0.5)
    (0.1, 0.4)
    """
    whole = WHOLE_SHARE * delta
    return whole, delta - whole


def chain_starts(n_answers: int, risk: float, delta: float) -> list[tuple[float, int]]:
    """Return the level and the fewest accepted rows of every chain, from counts alone."""
    fewest = fewest_rows(risk, delta)
    part = -(-_STRICTEST_PERCENT * n_answers // 100)
    if n_answers < 4 * fewest:
        return [(delta, first_alike(max(fewest, part), risk, delta))]
    second = first_alike(max(2 * fewest, part), risk, delta)
    low = FIRST_SHARE * delta
    first = first_alike(2 * fewest_rows(risk, low), risk, low)
    if first >= second:
        return [(delta, second)]
    return [(low, first), ((1 - FIRST_SHARE) * delta, second)]


def chains_of(accepted: IntArray, risk: float, delta: float) -> list[Chain]:
    """Return the chains over candidates that accept so many rows.

    The first of two chains ends before the first candidate of the second.
    """
    if not accepted.size:
        return []
    starts = chain_starts(int(accepted[-1]), risk, delta)
    chains: list[Chain] = []
    stop = accepted.size
    for level, start in reversed(starts):
        within = np.flatnonzero(accepted[:stop] >= start)
        candidates = _thinned(within, allowed_errors(accepted[within], risk, level))
        chains.insert(0, Chain(level, candidates))
        stop = candidates[0] if candidates else stop
    return chains


def _thinned(candidates: IntArray, allowed: IntArray) -> list[int]:
    """Keep a candidate only if it allows more errors than the last one kept."""
    before = np.concatenate([[-1], allowed[:-1]]) if allowed.size else allowed
    kept: list[int] = candidates[allowed > before].tolist()  # more rows never allow fewer
    return kept


def fixed_sequence(
    accepted: IntArray,
    p_values: Callable[[Sequence[int]], Iterable[float]],
    risk: float,
    delta: float,
) -> Search:
    """Test whether everything may be answered, then one or two chains.

    ``p_values`` gives those of some candidates, as far as they are asked for. A first chain that
    passed everything hands its level on to the second.

    With several thresholds the chance to accept any whose risk exceeds the bound is at most
    ``delta``: each chain is a fixed sequence, both together are a fallback procedure, and the
    threshold that answers everything has a level of its own (Bonferroni).

    References: Angelopoulos et al., Learn then test, Annals of Applied Statistics 19 (2025);
    Wiens and Dmitrienko, The fallback procedure, J. Biopharmaceutical Statistics 15 (2005) 929–942.
    """
    tests: list[Test] = []
    whole_level, delta = divided(delta)
    if accepted.size and int(allowed_errors(accepted[-1], risk, whole_level)) >= 0:
        everything = accepted.size - 1
        tests += [Test(everything, p, whole_level) for p in p_values([everything])]
        if tests[0].passed:
            return Search.of(tests)
    whole = True
    for number, chain in enumerate(chains_of(accepted, risk, delta)):
        level = delta if number == 1 and whole else chain.level
        for candidate, p in zip(chain.candidates, p_values(chain.candidates), strict=False):
            tests.append(Test(candidate, p, level))
            if not tests[-1].passed:
                whole = False
                break
    return Search.of(tests)


def sgr(accepted: IntArray, errors: IntArray, risk: float, delta: float) -> Search:
    """Bisect the candidates, each test at delta/⌈log₂ A⌉; valid where risk rises as scores fall.

    Reference: Geifman and El-Yaniv, Selective classification for deep neural networks,
    NeurIPS 2017.
    """
    tests: list[Test] = []
    if not accepted.size:
        return Search.of(tests)
    most_tests = max(1, math.ceil(math.log2(int(accepted[-1]))))
    low, high = -1, accepted.size
    # One test more than the level was divided by could follow where A is a power of 2.
    while high - low > 1 and len(tests) < most_tests:
        middle = (low + high) // 2
        p = float(binomial_p(errors[middle], accepted[middle], risk))
        tests.append(Test(middle, p, delta / most_tests))
        low, high = (middle, high) if tests[-1].passed else (low, middle)
    return Search.of(tests)


def crc(loss_sums: FloatArray, n_population: int, risk: float) -> int | None:
    """Return the laxest candidate with (Σ loss + 1)/(N + 1) ≤ risk, of the whole population.

    ``loss_sums`` are those of the accepted rows (or patient means) of every candidate. The promise
    is another one: the expected loss per case, deferred ones counting 0, is at most ``risk``.

    Reference: Angelopoulos et al., Conformal risk control, ICLR 2024.
    """
    within = np.flatnonzero(loss_sums + 1 <= risk * (n_population + 1))
    return int(within[-1]) if within.size else None

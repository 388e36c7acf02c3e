"""Groups against the rest: permutation tests by patient, their power, and intervals of gaps."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import scipy
from numpy.typing import ArrayLike, NDArray
from scipy import special

from krisis.statistics.intervals import Interval
from krisis.statistics.shares import ShareDistribution

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

# Patients, not rows: a handful of people must not be shown as a group.
SMALLEST_GROUP = 20
_CELLS_PER_BLOCK = 2_000_000
# The same sum in another order differs in its last digits: so near is equal.
_SAME = 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class GapTests:
    """Of every group: its ratio less that of all other rows, and p-values of that gap.

    ``p_higher`` is of the gap being above 0, ``p_different`` of its being another than 0. A group
    without rows, or with all rows, is NaN.
    """

    gap: FloatArray
    p_higher: FloatArray
    p_different: FloatArray


def gap_tests(sums: ArrayLike, rows: ArrayLike, *, n_draws: int, seed: int) -> GapTests:
    """Test the gap of every group to the rest; ``sums`` and ``rows`` are patients × groups.

    The figure is Σ sums / Σ rows. With e = sums − r·rows, r the ratio of all rows, the statistic is
    (E_g/T_g − E_r/T_r)/√(Q_g/T_g² + Q_r/T_r²), E, T and Q being the sums of e, of rows and of e²
    over patients. Where every patient belongs to one group, patients exchange their groups; those
    without rows say nothing and are not exchanged. Where patients bring different numbers of rows
    this is no exact test, and p is at least that of the limits of both sides (`gap_interval`).
    Where patients have rows of several groups, what each brings to the group and to the rest is
    exchanged with probability ½, and p is at least that of Student's t. One row of 0 or 1 per
    patient makes it Fisher's exact test.

    References: Chung and Romano, Exact and asymptotically robust permutation tests, Annals of
    Statistics 41 (2013) 484–507; Phipson and Smyth, Permutation p-values should never be zero,
    Statistical Applications in Genetics and Molecular Biology 9 (2010) 39.
    """
    x, t = np.asarray(sums, dtype=np.float64), np.asarray(rows, dtype=np.float64)
    kept = t.sum(axis=1) > 0
    x, t = x[kept], t[kept]
    total = t.sum()
    e = x - (x.sum() / total if total else math.nan) * t
    inside = t.sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        gap = e.sum(axis=0) / inside - (e.sum() - e.sum(axis=0)) / (total - inside)
    gap = np.where((inside > 0) & (inside < total), gap, math.nan)
    if np.isnan(gap).all():
        return GapTests(gap, gap, gap)
    one_each = (np.count_nonzero(t, axis=1) == 1).all()
    reached = (_exchanged if one_each else _flipped)(e, t, n_draws, seed)
    if one_each and np.ptp(t.sum(axis=1)) > 0:
        reached = tuple(np.maximum(p, q) for p, q in zip(reached, _by_limits(x, t), strict=True))
    higher, lower = (np.where(np.isnan(gap), math.nan, p) for p in reached)
    return GapTests(gap, higher, np.minimum(1.0, 2 * np.minimum(higher, lower)))


def _exchanged(e: FloatArray, t: FloatArray, n_draws: int, seed: int) -> tuple[FloatArray, ...]:
    """Exchange whole patients between groups."""
    group = t.argmax(axis=1)
    order = np.argsort(group, kind="stable")
    size = np.bincount(group, minlength=t.shape[1])
    filled = np.flatnonzero(size)
    starts = (np.cumsum(size) - size)[filled]
    columns = [a.sum(axis=1)[order] for a in (e, t, e**2)]
    observed = _statistic(*(np.add.reduceat(a[None], starts, axis=1) for a in columns))[0]
    n_reached = np.zeros((2, filled.size))
    for drawn in permutations(np.zeros(group.size, dtype=np.int64), n_draws, seed):
        found = _statistic(*(np.add.reduceat(a[drawn], starts, axis=1) for a in columns))
        near = _SAME * np.abs(observed)
        n_reached += (found >= observed - near).sum(axis=0), (found <= observed + near).sum(axis=0)
    p = np.full((2, t.shape[1]), math.nan)
    p[:, filled] = (1 + n_reached) / (1 + n_draws)
    return p[0], p[1]


def _by_limits(x: FloatArray, t: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Return the p at which the one-sided limits of each gap, and of its reverse, reach 0."""
    p = np.full((2, t.shape[1]), math.nan)
    for group, inside in enumerate((t > 0).T):
        if inside.any() and not inside.all():
            sides = [
                _limits(x[rows].sum(axis=1), t[rows].sum(axis=1)) for rows in (inside, ~inside)
            ]
            p[:, group] = _p_above(*sides), _p_above(*sides[::-1])
    return p[0], p[1]


# A figure, and its limit below which the truth lies with a given confidence.
_Limits = tuple[float, Callable[[float], float]]


def _limits(x: FloatArray, t: FloatArray) -> _Limits:
    """Return Σx/Σt and its limits: of a share, or by Student's t where it is none."""
    value = float(x.sum() / t.sum())
    if (x >= 0).all() and (x <= t + _SAME).all():
        share = ShareDistribution.of(np.minimum(x, t), t)
        return value, lambda chance: float(share.quantile(chance))
    n = max(2, x.size)
    spread = math.sqrt(n / (n - 1) * float(np.square(x - value * t).sum())) / float(t.sum())
    return value, lambda chance: value + float(special.stdtrit(n - 1, chance)) * spread


def _p_above(here: _Limits, there: _Limits) -> float:
    gap = here[0] - there[0]

    def low(p: float) -> float:
        ends = (here[0] - here[1](p), there[1](1 - p) - there[0])
        return gap - math.hypot(*(max(0.0, end) for end in ends))

    least, most = 1e-9, 0.5
    if low(most) <= 0:
        return 1.0
    return least if low(least) > 0 else float(scipy.optimize.brentq(low, least, most, rtol=1e-6))


def _statistic(e: FloatArray, t: FloatArray, q: FloatArray) -> FloatArray:
    """Return the studentised gap of every group from its sums (draws × groups)."""
    rest = t.sum(axis=1, keepdims=True) - t
    with np.errstate(divide="ignore", invalid="ignore"):
        gap = e / t - (e.sum(axis=1, keepdims=True) - e) / rest
        spread = np.sqrt(q / t**2 + (q.sum(axis=1, keepdims=True) - q) / rest**2)
        return np.where(spread > 0, gap / spread, 0.0)


def _flipped(e: FloatArray, t: FloatArray, n_draws: int, seed: int) -> tuple[FloatArray, ...]:
    """Exchange what a patient brings to a group with what it brings to the rest."""
    inside = t.sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        part = e / inside - (e.sum(axis=1, keepdims=True) - e) / (t.sum() - inside)
    observed = part.sum(axis=0)
    near = _SAME * np.abs(part).sum(axis=0)
    generator, n_reached = np.random.default_rng(seed), np.zeros((2, observed.size))
    block = max(1, _CELLS_PER_BLOCK // part.shape[0])
    for start in range(0, n_draws, block):
        size = (min(block, n_draws - start), part.shape[0])
        found = generator.choice([-1.0, 1.0], size) @ part
        n_reached += (found >= observed - near).sum(axis=0), (found <= observed + near).sum(axis=0)
    spread = np.sqrt(np.square(part).sum(axis=0))
    t = np.divide(observed, spread, out=np.zeros_like(observed), where=spread > 0)
    student = special.stdtr(max(1, part.shape[0] - 1), np.stack([-t, t]))
    # Flips alone claim too much where a few patients bring most of the spread.
    p = np.maximum((1 + n_reached) / (1 + n_draws), student)
    return p[0], p[1]


def permutations(stratum: IntArray, n_draws: int, seed: int) -> Iterator[IntArray]:
    """Yield blocks of permutations (draws × units) that stay within strata, each sorted already."""
    generator = np.random.default_rng(seed)
    block = max(1, _CELLS_PER_BLOCK // max(1, stratum.size))
    bounds = np.flatnonzero(np.append(True, stratum[1:] != stratum[:-1])).tolist()
    for start in range(0, n_draws, block):
        drawn = np.tile(np.arange(stratum.size), (min(block, n_draws - start), 1))
        for low, high in zip(bounds, [*bounds[1:], stratum.size], strict=True):
            drawn[:, low:high] = generator.permuted(drawn[:, low:high], axis=1)
        yield drawn


def rise_test(
    loss: FloatArray, score: FloatArray, patient: IntArray, *, n_draws: int, seed: int
) -> tuple[float, float]:
    """Return how far risk rises as coverage falls, and the p-value of its not rising.

    The figure is ∫ c·(R(c) − R(1)) dc over coverages c, R being the risk of the surest rows:
    Σ (loss − R(1))·(rank of the score − mean rank)/n², ties sharing a rank. It is above 0 where
    wrong answers are surer than right ones. Patients with the same number of rows exchange the
    scores of all their rows; the statistic is studentised by patient.
    """
    n = loss.size
    if n < 2:
        return math.nan, math.nan
    _, code, count = np.unique(score, return_inverse=True, return_counts=True)
    rank = (np.cumsum(count) - (count - 1) / 2)[code]
    losses, ranks, n_rows = _by_patient((loss - loss.mean(), rank - (n + 1) / 2), patient)
    observed = losses * ranks
    figure, t = float(observed.sum()) / n**2, _studentised(observed[None])[0]
    n_reached = 0
    for drawn in permutations(n_rows, n_draws, seed):
        found = _studentised(losses * ranks[drawn])
        n_reached += int(np.count_nonzero(found >= t - _SAME * abs(t)))
    return figure, (1 + n_reached) / (1 + n_draws)


def _by_patient(
    columns: tuple[FloatArray, FloatArray], patient: IntArray
) -> tuple[FloatArray, FloatArray, IntArray]:
    """Return columns as patients × rows, 0 where a patient has fewer, fewest rows first."""
    _, code, count = np.unique(patient, return_inverse=True, return_counts=True)
    order = np.argsort(code, kind="stable")
    place = np.arange(code.size) - np.repeat(np.cumsum(count) - count, count)
    by_count = np.argsort(count, kind="stable")
    found = []
    for column in columns:
        table = np.zeros((count.size, int(count.max())))
        table[code[order], place] = column[order]
        found.append(table[by_count])
    return found[0], found[1], count[by_count]


def _studentised(parts: FloatArray) -> FloatArray:
    """Return Σ/√Σ² over patients of draws × patients × rows."""
    sums = parts.sum(axis=2)
    spread = np.sqrt(np.square(sums).sum(axis=1))
    with np.errstate(divide="ignore", invalid="ignore"):
        found: FloatArray = np.where(spread > 0, sums.sum(axis=1) / spread, 0.0)
    return found


def holm(p_values: ArrayLike) -> FloatArray:
    """Return p-values adjusted by Holm's method; undefined ones are no test and stay NaN.

    Reference: Holm, A simple sequentially rejective multiple test procedure, Scandinavian Journal
    of Statistics 6 (1979) 65–70.

    >>> holm([0.01, 0.04, 0.03]).tolist()
    [0.03, 0.06, 0.06]
    """
    p = np.asarray(p_values, dtype=np.float64)
    order = np.argsort(p)[: np.count_nonzero(~np.isnan(p))]
    adjusted = np.full(p.shape, math.nan)
    factors = np.arange(order.size, 0, -1)
    adjusted[order] = np.minimum(1.0, np.maximum.accumulate(factors * p[order]))
    return adjusted


def doubled_risk_power(
    rows: tuple[float, float],
    risk: float,
    *,
    level: float,
    factor: float = 2.0,
    mid_p: bool = False,
) -> float:
    """Return the chance that Fisher's one-sided test at a level finds a group with doubled risk.

    ``rows`` are those of the group and of the rest, effective ones where patients have several;
    ``risk`` is that of the rest; ``mid_p`` counts the observed table half. NaN where the rest has
    no errors or twice its risk is above 1.
    """
    n, m = (max(1, round(one)) for one in rows)
    if not 0 < risk * factor <= 1:
        return math.nan
    x, y = np.arange(n + 1), np.arange(m + 1)
    here, there = (binomial_masses(k, p) for k, p in ((n, risk * factor), (m, risk)))
    x, y = x[here > 1e-9], y[there > 1e-9]
    # Fisher: P(X ≥ x | x + y errors in n + m rows) by the hypergeometric masses.
    power = 0.0
    for total in range(int(x[0] + y[0]), int(x[-1] + y[-1]) + 1):
        least, most = max(0, total - m), min(n, total)
        k = np.arange(least, most + 1)
        mass = np.exp(_log_choose(n, k) + _log_choose(m, total - k) - _log_choose(n + m, total))
        tail = np.cumsum(mass[::-1])[::-1]
        tail -= mid_p * mass / 2
        found = k[tail <= level * (1 + _SAME)]
        power += float(here[found] @ there[total - found])
    return power


def binomial_masses(n: int, p: float) -> FloatArray:
    """Return P(X = 0…n) for n draws with probability p."""
    k = np.arange(n + 1)
    with np.errstate(divide="ignore", invalid="ignore"):
        log = _log_choose(n, k) + special.xlogy(k, p) + special.xlog1py(n - k, -p)
    masses: FloatArray = np.exp(log)
    return masses


def _log_choose(n: int, k: ArrayLike) -> FloatArray:
    k = np.asarray(k, dtype=np.float64)
    found: FloatArray = special.gammaln(n + 1) - special.gammaln(k + 1) - special.gammaln(n - k + 1)
    return found


def gap_interval(
    values: tuple[float, float], parts: tuple[Interval, Interval], correlation: float
) -> Interval:
    """Return the interval of a difference from the intervals of both figures.

    With distances d₁ and d₂ of the limits on the sides that matter, the limits are
    difference ∓ √(d₁² + d₂² − 2·correlation·d₁·d₂).

    Reference: Zou and Donner, Construction of confidence limits about effect measures: a general
    approach, Statistics in Medicine 27 (2008) 1693–1702.
    """
    first, second = parts
    if not (first.defined and second.defined):
        return Interval.undefined("a_side_has_no_interval", level=first.level, method="mover")
    ends = (
        (values[0] - first.low, second.high - values[1]),
        (
            first.high - values[0],
            values[1] - second.low,
        ),
    )
    below, above = (math.sqrt(max(0.0, a * a + b * b - 2 * correlation * a * b)) for a, b in ends)
    gap = values[0] - values[1]
    return Interval(gap - below, gap + above, first.level, "mover")


def student_interval(sums: FloatArray, rows: FloatArray, level: float) -> Interval:
    """Return the interval of Σ sums / Σ rows by the spread between patients and Student's t."""
    n, total = rows.size, rows.sum()
    if n < 2:
        return Interval.undefined("needs_at_least_two_patients", level=level, method="student")
    value = float(sums.sum() / total)
    spread = math.sqrt(n / (n - 1) * float(np.square(sums - value * rows).sum())) / total
    half = float(special.stdtrit(n - 1, 0.5 + level / 2)) * spread
    return Interval(value - half, value + half, level, "student")

"""The power of the paired test of `krisis compare`, by enumeration or by drawn patients."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from krisis.decisions.plan_patients import FloatArray, Patients
from krisis.errors import InvalidValue
from krisis.statistics.bootstrap import MOST_POOLS

N_EXCHANGES = 1999
N_WORLDS = 4000
N_CONFIRMED = 20_000
_NEGLIGIBLE = 1e-11
_WORLDS_PER_BLOCK = 2000
# Sums with a larger variance are as good as normal, and their lattice as good as none.
_FINE_LATTICE = 20_000.0
_SAME = 1e-9


@dataclass(frozen=True, slots=True)
class PairedQuestion:
    """Two runs on the same rows: how often only the right one, or only the left one, is right.

    Without a margin the question is whether right is better, with one whether right is at most
    ``margin`` worse.
    """

    difference: float
    discordance: float
    margin: float = 0.0
    alpha: float = 0.05

    def __post_init__(self) -> None:
        if not 0 < self.discordance <= 1:
            raise InvalidValue(
                f"the discordance must lie above 0 and at most at 1, not {self.discordance!r}; it "
                "is the share of rows that exactly one of the runs has right"
            )
        if not abs(self.difference) <= self.discordance:
            raise InvalidValue(
                f"a difference of {self.difference!r} cannot be larger than the discordance of "
                f"{self.discordance!r}: runs differ only on rows that one of them alone has right"
            )
        if not self.alpha >= 1 / (N_EXCHANGES + 1):
            raise InvalidValue(
                f"the {N_EXCHANGES:,} exchanges of a comparison show no p-value below "
                f"{1 / (N_EXCHANGES + 1):g}; alpha cannot be {self.alpha!r}"
            )
        if not 0 <= self.margin < 1:
            raise InvalidValue(
                f"the non-inferiority margin must lie between 0 and 1, not {self.margin!r}"
            )
        if not self.difference + self.margin > 0:
            raise InvalidValue(self._impossible)

    @property
    def _impossible(self) -> str:
        if self.margin:
            return (
                f"a run that is {-self.difference!r} worse cannot be shown to be at most "
                f"{self.margin!r} worse at any size; choose a larger margin"
            )
        return f"the difference must be above 0, not {self.difference!r}; no size shows none"

    @property
    def better(self) -> float:
        """The share of rows that only the right run has right."""
        return (self.discordance + self.difference) / 2

    @property
    def worse(self) -> float:
        """The share of rows that only the left run has right."""
        return (self.discordance - self.difference) / 2

    def connor(self, power: float) -> int:
        """Return Connor's number of independent pairs, which promises more than it keeps.

        n = (z_{1−α/2}√ψ + z_{power}√(ψ − δ²))²/δ².

        Reference: Connor, Sample size for testing differences in proportions for the paired-sample
        design, Biometrics 43 (1987) 207–211.
        """
        psi, delta = self.discordance, self.difference
        first, second = (float(special.ndtri(p)) for p in (1 - self.alpha / 2, power))
        root = first * math.sqrt(psi) + second * math.sqrt(psi - delta**2)
        return math.ceil((root / delta) ** 2 - _SAME)

    def normal_n(self, power: float, patients: Patients) -> int:
        """Return the patients that the normal approximation asks for: where a search begins."""
        z = float(special.ndtri([1 - self.alpha / 2, power]).sum())
        variance = self.discordance - self.difference**2
        rows = variance * (z / (self.difference + self.margin)) ** 2 * patients.design_effect
        return max(2, math.ceil(rows / patients.mean_size))


@dataclass(frozen=True, slots=True, eq=False)
class _Worlds:
    """Studies as they may turn out: units by the net rows they bring, and each study's weight."""

    values: FloatArray
    counts: FloatArray
    weight: FloatArray


def paired_power(
    question: PairedQuestion,
    n_patients: int,
    patients: Patients,
    *,
    seed: int = 42,
    n_worlds: int = N_WORLDS,
) -> float:
    """Return how often `krisis compare` with its 1,999 exchanges says yes, right being ahead.

    One row per patient is enumerated; with several, ``n_worlds`` studies are drawn. Given a study,
    the share of its exchanges that reach the observed statistic is worked out exactly, and with it
    the chance that the drawn exchanges call it significant.
    """
    n_units = min(n_patients, MOST_POOLS)
    if n_units < 2:
        return 0.0
    test = _Test(question, n_patients, patients, n_units)
    said_yes = 0.0
    for worlds in _worlds(question, n_patients, patients, seed, n_worlds):
        said_yes += float(worlds.weight @ test.chance(worlds))
    return min(1.0, said_yes)


def _worlds(
    question: PairedQuestion, n_patients: int, patients: Patients, seed: int, n_worlds: int
) -> Iterator[_Worlds]:
    if patients.mean_size == 1 and n_patients <= MOST_POOLS:
        yield from _enumerated(question, n_patients)
        return
    values, pooled = _unit_values(question, n_patients, patients)
    generator = np.random.default_rng(seed)
    block = max(1, min(n_worlds, 8_000_000 // values.size))
    for start in range(0, n_worlds, block):
        size = min(block, n_worlds - start)
        counts = sum(generator.multinomial(n, p, size=size) for n, p in pooled)
        weight = np.full(size, 1 / n_worlds)
        yield _Worlds(values, np.asarray(counts, dtype=np.float64), weight)


def _enumerated(question: PairedQuestion, n: int) -> Iterator[_Worlds]:
    """Yield every (better, worse) count of n independent pairs that is not negligible."""
    discordant = np.arange(n + 1)
    chance = _binomial(discordant, n, question.discordance)
    discordant, chance = discordant[chance > _NEGLIGIBLE], chance[chance > _NEGLIGIBLE]
    total = np.repeat(discordant, discordant + 1)
    plus = np.concatenate([np.arange(m + 1) for m in discordant])
    weight = np.repeat(chance, discordant + 1)
    weight = weight * _binomial(plus, total, question.better / question.discordance)
    kept = weight > _NEGLIGIBLE * 1e-3
    plus, total, weight = plus[kept], total[kept], weight[kept]
    counts = np.stack([total - plus, n - total, plus], axis=1).astype(np.float64)
    yield _Worlds(np.array([-1.0, 0.0, 1.0]), counts, weight)


def _binomial(k: NDArray[np.int64], n: object, p: float) -> FloatArray:
    n = np.asarray(n)
    log = special.gammaln(n + 1) - special.gammaln(k + 1) - special.gammaln(n - k + 1)
    probability: FloatArray = np.exp(log + special.xlogy(k, p) + special.xlog1py(n - k, -p))
    return probability


def _unit_values(
    question: PairedQuestion, n_patients: int, patients: Patients
) -> tuple[FloatArray, list[tuple[int, FloatArray]]]:
    """Return the net rows that a unit can bring, with the number and the chances of its units.

    Beyond 1,000 patients the test exchanges random pools of them, so that pools are drawn.
    """
    sizes, shares = patients.kinds
    largest = int(sizes.max())
    one = np.zeros(2 * largest + 1)
    for size, share in zip(sizes.tolist(), shares.tolist(), strict=True):
        found = patients.differences(size, question.better, question.worse)
        one[largest - size : largest + size + 1] += share * found
    n_units = min(n_patients, MOST_POOLS)
    each, n_larger = divmod(n_patients, n_units)
    reach = largest * (each + (n_larger > 0))
    pooled = [(n_units - n_larger, _summed(one, each, reach))]
    if n_larger:
        pooled.append((n_larger, _summed(one, each + 1, reach)))
    return np.arange(-reach, reach + 1.0), pooled


def _summed(one: FloatArray, times: int, reach: int) -> FloatArray:
    """Return the distribution of a sum of independent values, on −reach to reach."""
    if times == 1 and one.size == 2 * reach + 1:
        return one
    length = 2 * reach + 1
    spectrum = np.fft.fft(np.roll(np.pad(one, (0, length - one.size)), -(one.size // 2)))
    found = np.maximum(np.fft.fftshift(np.fft.ifft(spectrum**times).real), 0.0)
    total: FloatArray = found / found.sum()
    return total


class _Test:
    """The studentised exchange test of equally large units, in terms of the net rows S = Σd.

    |Δ|/se grows with |S| while Σd² stays the same under every exchange, so that the exchanges
    need no drawing: their sums have the characteristic function Π cos(d θ).
    """

    def __init__(
        self, question: PairedQuestion, n_patients: int, patients: Patients, n_units: int
    ) -> None:
        self.margin, self.alpha = question.margin, question.alpha
        self.n_rows = n_patients * patients.mean_size
        self.correction = n_units / (n_units - 1)
        mean, each = patients.mean_size, n_patients / n_units
        spread = patients.mean_square - mean**2
        self.squared_rows = n_units * (each * spread + (each * mean) ** 2)
        self.student = float(special.stdtrit(n_units - 1, 1 - self.alpha / 2)) * (1 + _SAME)
        self.floor = _floor(question, n_patients, patients)
        self.most_reaching = math.floor(self.alpha * (N_EXCHANGES + 1) + _SAME) - 1

    def chance(self, worlds: _Worlds) -> FloatArray:
        """Return, for every study, the chance that the test says yes."""
        net = worlds.counts @ worlds.values
        squares = worlds.counts @ worlds.values**2
        error = np.sqrt(np.maximum(self._variance(squares, net), 0.0))
        reached = (net / self.n_rows + self.margin) / np.maximum(error, self.floor)
        said_yes = np.zeros(net.size)
        open_ = np.flatnonzero((reached > self.student) & (net / self.n_rows > -self.margin))
        if self.most_reaching < 0:
            return said_yes
        for start in range(0, open_.size, _WORLDS_PER_BLOCK):
            part = open_[start : start + _WORLDS_PER_BLOCK]
            needed = self._net_reaching(reached[part], squares[part])
            tail = _tail(worlds.values, worlds.counts[part], squares[part], needed)
            said_yes[part] = special.bdtr(self.most_reaching, N_EXCHANGES, tail)
        return said_yes

    def _variance(self, squares: FloatArray, net: FloatArray) -> FloatArray:
        """Return se² = C/(C−1) Σ(d − tΔ)²/N²."""
        mean = net / self.n_rows
        return self.correction * (squares - mean**2 * self.squared_rows) / self.n_rows**2

    def _net_reaching(self, reached: FloatArray, squares: FloatArray) -> FloatArray:
        """Return the least |S| whose studentised difference is as large as ``reached``."""
        scale = reached**2 * self.correction
        free = np.sqrt(scale * squares / (1 + scale * self.squared_rows / self.n_rows**2))
        least: FloatArray = np.maximum(free, reached * self.floor * self.n_rows)
        return least


def _floor(question: PairedQuestion, n_patients: int, patients: Patients) -> float:
    """Return the least standard error of the test, with the design effect that it will assume."""
    z = float(special.ndtri(1 - question.alpha / 2))
    size, share = patients.kinds
    excess, psi = patients.mean_square / patients.mean_size - 1, question.discordance
    effect = 1.0
    if excess > 0:
        none = sum(
            s * patients.hits(k, psi)[[0, -1]]
            for k, s in zip(size.tolist(), share.tolist(), strict=True)
        )
        telling = min(n_patients * (1 - float(np.max(none))), n_patients - 1)
        weight = 1 + (max(1.5 - 3 * psi, 0.0) if patients.icc < 0.5 else 0.0)
        effect = 1 + excess * (telling * patients.icc + weight * 0.5) / (telling + weight)
    return z / (n_patients * patients.mean_size / effect + z * z)


def _tail(
    values: FloatArray, counts: FloatArray, squares: FloatArray, needed: FloatArray
) -> FloatArray:
    """Return P(|Σ ±d| ≥ needed) of every study, all signs being equally likely."""
    if float(squares.max()) > _FINE_LATTICE:
        normal: FloatArray = 2 * special.ndtr(-needed / np.sqrt(squares))
        return normal
    if values.size == 3:  # a sum of m signs is 2B − m
        plus = np.ceil((squares + needed * (1 - _SAME)) / 2)
        n_signs = np.round(squares).astype(np.int64)
        binomial: FloatArray = np.minimum(1.0, 2 * special.bdtrc(plus - 1, n_signs, 0.5))
        return np.where(plus <= squares, np.where(needed > 0, binomial, 1.0), 0.0)
    reach = values.size // 2
    folded = counts[:, reach + 1 :] + counts[:, reach - 1 :: -1]
    # Sums beyond ten standard deviations have no weight, so that the lattice may end there.
    half = int(10 * math.sqrt(float(squares.max()))) + 8
    length = 2 * max(half, int(needed.max()) + 2)
    step = np.arange(length // 2 + 1) * (2 * np.pi / length)
    cosine = np.cos(np.outer(values[reach + 1 :], step))
    log = folded @ np.log(np.maximum(np.abs(cosine), 1e-300))
    turned = (folded @ (cosine < 0).astype(np.float64)) % 2
    wave = np.where(turned > 0, -1.0, 1.0) * np.exp(log)
    last = np.ceil(needed * (1 - _SAME)) - 1
    with np.errstate(invalid="ignore", divide="ignore"):
        kernel = np.sin((2 * last[:, None] + 1) * step / 2) / np.sin(step / 2)
    kernel[:, 0] = 2 * last + 1
    times = np.full(step.size, 2.0)
    times[[0, -1]] = 1.0
    inside = (wave * kernel) @ times / length
    tail: FloatArray = np.clip(1 - inside, 0.0, 1.0)
    return tail

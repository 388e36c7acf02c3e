"""How wide the interval of a share will be: Wilson's by formula, krisis' own by its own method."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy import special, stats

from krisis.decisions.plan_patients import FloatArray, Patients
from krisis.errors import InvalidValue
from krisis.statistics.mid_p import mid_p_quantile
from krisis.statistics.share_design import ShareDesign
from krisis.statistics.shares import PRIOR_ICC, share_interval

N_WORLDS = 6000
MOST_CLOSED_ROWS = 10_000  # of `ShareDesign`, beyond which limits are not made monotone
_N_WHOLE = 250
_SAME = 1e-9


@dataclass(frozen=True, slots=True)
class WidthQuestion:
    """A share that is expected, and half the width that its interval may have."""

    expected: float
    half_width: float
    alpha: float = 0.05

    def __post_init__(self) -> None:
        if not 0 < self.expected < 1:
            raise InvalidValue(
                f"the expected share must lie between 0 and 1, not {self.expected!r}"
            )
        if not 0 < self.half_width < 0.5:
            raise InvalidValue(
                f"the half width must lie above 0 and below 0.5, not {self.half_width!r}; an "
                "interval of a share is never wider than 1"
            )

    def wilson_n(self) -> int:
        """Return the independent rows at which Wilson's interval of the expected share is narrow.

        Half its width is z√(pq/n + z²/4n²)/(1 + z²/n), which is a quadratic equation in n.

        >>> WidthQuestion(0.9, 0.03).wilson_n()
        388
        """
        z2, w2 = float(special.ndtri(1 - self.alpha / 2)) ** 2, self.half_width**2
        b = z2 * (self.expected * (1 - self.expected) - 2 * w2)
        root = math.sqrt(b * b + 4 * w2 * z2 * z2 * (0.25 - w2))
        return max(1, math.ceil((b + root) / (2 * w2) - _SAME))

    def wilson_half_width(self, n: float, hits: FloatArray) -> FloatArray:
        """Return half the width of Wilson's interval of n independent rows."""
        z, p = float(special.ndtri(1 - self.alpha / 2)), hits / n
        half: FloatArray = z * np.sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / (1 + z * z / n)
        return half

    def mid_p_half_width(self, n: FloatArray, hits: FloatArray) -> FloatArray:
        """Return half the width of krisis' interval of n (effective) rows."""
        ends = (self.alpha / 2, 1 - self.alpha / 2)
        low, high = (mid_p_quantile(end, hits, n) for end in ends)
        share = hits / n
        half: FloatArray = (np.maximum(high, share) - np.minimum(low, share)) / 2
        return half

    def expected_half_width(self, n_patients: int, patients: Patients) -> float:
        """Return half the width where exactly the expected share and correlation are seen."""
        rows = n_patients * patients.mean_size / patients.design_effect
        if patients.mean_size > 1:
            equal = n_patients * patients.mean_size**2 / patients.mean_square
            degrees, upper = equal + 3, 1 - self.alpha / 2
            rows /= float(special.stdtrit(degrees, upper) / special.ndtri(upper)) ** 2
        return float(self.mid_p_half_width(np.array([rows]), np.array([self.expected * rows]))[0])


def assurance(
    question: WidthQuestion,
    n_patients: int,
    patients: Patients,
    *,
    seed: int = 42,
    stretch: float = 1.0,
) -> float:
    """Return how often krisis' interval will be at most as wide as asked.

    One row per patient: every number of hits with its binomial chance. With several rows, studies
    of beta-binomial patients are drawn, and ``stretch`` is what `stretched` found.
    """
    half, chance = _half_widths(question, n_patients, patients, seed, stretch)
    return min(1.0, float(chance[half <= question.half_width * (1 + _SAME)].sum()))


def half_width_reached(
    question: WidthQuestion,
    n_patients: int,
    patients: Patients,
    target: float,
    *,
    seed: int = 42,
    stretch: float = 1.0,
) -> float:
    """Return the half width that krisis' interval will not exceed with the assurance."""
    half, chance = _half_widths(question, n_patients, patients, seed, stretch)
    order = np.argsort(half)
    place = int(np.searchsorted(np.cumsum(chance[order]), target * (1 - _SAME)))
    return float(half[order][min(place, half.size - 1)])


def _half_widths(
    question: WidthQuestion, n_patients: int, patients: Patients, seed: int, stretch: float
) -> tuple[FloatArray, FloatArray]:
    """Return the half widths that may come, and their chances."""
    if patients.mean_size == 1:
        hits, chance = _likely_hits(n_patients, question.expected)
        return question.mid_p_half_width(np.full(hits.size, float(n_patients)), hits), chance
    half = stretch * _Drawn(question, n_patients, patients, seed, N_WORLDS).half_widths()
    return half, np.full(half.size, 1 / half.size)


def stretched(
    question: WidthQuestion, n_patients: int, patients: Patients, target: float, *, seed: int = 42
) -> float:
    """Return how much wider intervals of several rows per patient are because they are monotone.

    Drawn studies leave that out, as it takes long; here some of them have their whole interval.
    """
    if patients.mean_size == 1 or n_patients * patients.mean_size > MOST_CLOSED_ROWS:
        return 1.0
    drawn = _Drawn(question, n_patients, patients, seed, _N_WHOLE)
    whole = [drawn.whole_half_width(world) for world in range(_N_WHOLE)]
    return float(np.quantile(whole, target) / np.quantile(drawn.half_widths(), target))


def wilson_assurance(question: WidthQuestion, n: int) -> float:
    """Return how often Wilson's interval of n independent rows is at most as wide as asked."""
    hits, chance = _likely_hits(n, question.expected)
    half = question.wilson_half_width(n, hits)
    return min(1.0, float(chance[half <= question.half_width * (1 + _SAME)].sum()))


def _likely_hits(n: int, share: float) -> tuple[FloatArray, FloatArray]:
    """Return the numbers of hits within nine standard deviations, with their chances."""
    reach = 9 * math.sqrt(n * share * (1 - share)) + 20
    hits = np.arange(max(0, int(n * share - reach)), min(n, int(n * share + reach)) + 1.0)
    return hits, np.asarray(stats.binom.pmf(hits, n, share), dtype=np.float64)


class _Drawn:
    """Studies of beta-binomial patients: how many of each size had how many hits."""

    def __init__(
        self,
        question: WidthQuestion,
        n_patients: int,
        patients: Patients,
        seed: int,
        n_worlds: int,
    ) -> None:
        generator = np.random.default_rng(seed)
        sizes, shares = patients.kinds
        n_of = _apportioned(n_patients, shares)
        self.question, self.sizes = question, sizes[n_of > 0]
        n_of = n_of[n_of > 0]
        self.rows = np.repeat(self.sizes.astype(np.float64), n_of)
        self.level = 1 - question.alpha
        self.design = ShareDesign.of(self.rows, prior_icc=PRIOR_ICC, level=self.level)
        self.counts = [
            generator.multinomial(n, patients.hits(size, question.expected), size=n_worlds)
            for size, n in zip(self.sizes.tolist(), n_of.tolist(), strict=True)
        ]

    def half_widths(self) -> FloatArray:
        """Return half the width of every study's interval, before it is made monotone."""
        n_rows = self.design.n_rows
        hits = sum(counts @ np.arange(counts.shape[1]) for counts in self.counts)
        share = np.asarray(hits, dtype=np.float64) / n_rows
        between, with_hit, with_miss = np.zeros((3, share.size))
        for size, counts in zip(self.sizes.tolist(), self.counts, strict=True):
            value, pull = np.arange(size + 1.0), share * size
            squares = counts @ value**2 - 2 * pull * (counts @ value)
            squares += pull**2 * counts.sum(axis=1)
            between += squares / (1 - size / n_rows) if self.rows.size > 1 else squares
            with_hit += counts[:, 1:].sum(axis=1)
            with_miss += counts[:, :-1].sum(axis=1)
        effect = self.design.design_effect(share, between, np.minimum(with_hit, with_miss))
        effective = n_rows / (effect * self.design.student_factor**2)
        return self.question.mid_p_half_width(effective, share * effective)

    def whole_half_width(self, world: int) -> float:
        """Return half the width of one study's interval as a run will print it."""
        hits = [np.repeat(np.arange(c.shape[1]), c[world]) for c in self.counts]
        interval = share_interval(np.concatenate(hits), self.rows, level=self.level)
        return (interval.high - interval.low) / 2


def _apportioned(n: int, shares: FloatArray) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Return whole numbers that add up to n, as near to the shares as they can be."""
    ends = np.round(np.cumsum(shares) * n).astype(np.int64)
    return np.diff(ends, prepend=0)

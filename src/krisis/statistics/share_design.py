"""Patients with several rows: their design effect, and limits of a share that are monotone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import special

from krisis.errors import InvalidValue
from krisis.statistics.intervals import check_level
from krisis.statistics.mid_p import highest_mid_p_quantile, mid_p_cdf

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

# Weight of the assumed design effect, in patients, and the degrees of freedom it brings along.
_PRIOR_PATIENTS = 1.0
_PRIOR_DEGREES = 4.0
# Limits of more rows are not made monotone: a hit more or less hardly moves them.
_MOST_CLOSED_ROWS = 10_000
# Beyond this many numbers of patients, all of them are bounded together.
_MOST_COUNTED = 40


@dataclass(frozen=True, slots=True, eq=False)
class ShareDesign:
    """The patients with rows, and what stays the same however the hits fall."""

    rows: FloatArray
    n_rows: float
    mean_patient_rows: float
    prior_icc: float
    level: float
    weight: FloatArray
    weighted_rows: float

    @classmethod
    def of(cls, rows: FloatArray, *, prior_icc: float, level: float) -> ShareDesign:
        """Build from the rows of every patient, each at least 1."""
        if not 0 <= prior_icc <= 1:
            raise InvalidValue(f"prior_icc must lie between 0 and 1, not {prior_icc!r}")
        n_rows = float(rows.sum())
        mean_patient_rows = float(rows @ rows) / n_rows
        # 1/(1 − t/N) undoes what a patient's pull on the share takes off its own deviation; for
        # patients of equal size it is C/(C−1).
        weight, weighted = rows, n_rows
        if rows.size > 1 and mean_patient_rows > 1:
            weight = 1 / (1 - rows / n_rows)
            weighted = float(weight * rows @ rows)
        return cls(rows, n_rows, mean_patient_rows, prior_icc, check_level(level), weight, weighted)

    @property
    def independent(self) -> bool:
        """Whether every patient has one row."""
        return self.mean_patient_rows == 1

    @property
    def n_equal_patients(self) -> float:
        """How many patients of equal size would weigh the rows as evenly: (Σt)²/Σt²."""
        return self.n_rows / self.mean_patient_rows

    @property
    def student_factor(self) -> float:
        """τ: how much wider Student's quantile is than the normal one."""
        if self.independent:
            return 1.0
        degrees = self.n_equal_patients - 1 + _PRIOR_DEGREES
        upper = 0.5 + self.level / 2
        return float(special.stdtrit(degrees, upper) / special.ndtri(upper))

    @property
    def _assumed(self) -> float:
        """D₀ = 1 + (k̄−1)·prior_icc."""
        return 1 + (self.mean_patient_rows - 1) * self.prior_icc

    def design_effect_of(self, x: FloatArray) -> float:
        """Return D of the hits x."""
        if self.independent:
            return 1.0
        p = float(x.sum()) / self.n_rows
        deviation = x - p * self.rows
        telling = min(np.count_nonzero(x > 0), np.count_nonzero(x < self.rows))
        return float(self.design_effect(p, float(self.weight * deviation @ deviation), telling))

    def design_effect(self, share: ArrayLike, between: ArrayLike, telling: ArrayLike) -> FloatArray:
        """Return D from Σw(x − p t)² and the number of patients that tell hits from misses."""
        p = np.asarray(share, dtype=np.float64)
        assumed = self._assumed
        mixed = (p > 0) & (p < 1) & (self.rows.size > 1)
        binomial = self.n_rows * np.where(mixed, p * (1 - p), 1.0)
        seen = np.maximum(1.0, np.asarray(between) / binomial)
        telling = np.where(mixed, np.minimum(telling, self.n_equal_patients - 1), 0.0)
        # That few hits fell apart says little of how they fall together.
        rare = np.where(seen < assumed, np.maximum(1.5 - 3 * p, 0.0), 0.0)
        weight = _PRIOR_PATIENTS * (1 + rare)
        effect: FloatArray = (telling * seen + weight * assumed) / (telling + weight)
        return effect

    def limits(self, x: FloatArray) -> tuple[float, float]:
        """Return both limits of the share of x; the lower one is 1 − the upper one of the misses.

        They are closed so that one more hit lowers neither of them.
        """
        return 1 - self._upper(self.rows - x), self._upper(x)

    def _upper(self, x: FloatArray) -> float:
        """Return the upper limit of x, and at least that of any x with fewer of its hits.

        Of h ≤ Σx hits, the limit grows with D, so that the largest D which h of these hits can
        have is all that counts; a bound of it serves as well if more hits never lower it.
        """
        n_hits = float(x.sum())
        upper = self._highest(np.array([n_hits]), np.array([self.design_effect_of(x)]))
        if self.independent or n_hits < 1 or self.n_rows > _MOST_CLOSED_ROWS:
            return upper
        hits = n_hits - np.arange(1.0, self._most_removed(n_hits, upper) + 1)
        fewer = _FewerHits(self, x)
        effective = self._effective_rows(fewer.design_effect(hits, sharp=False))
        reached = mid_p_cdf(upper, hits / self.n_rows * effective, effective)
        hits = hits[reached < 0.5 + self.level / 2 - 1e-12]
        if hits.size == 0:
            return upper
        return max(upper, self._highest(hits, fewer.design_effect(hits, sharp=True)))

    def _most_removed(self, n_hits: float, upper: float) -> int:
        """Return how many hits can be taken away before no design effect reaches the limit.

        Σw(x − p t)² ≤ max(w t) Σ(x − p t)²/t ≤ max(w t) N p(1 − p), so D̂ is at most max(w t).
        """
        largest = max(float((self.weight * self.rows).max()), self._assumed)
        effective = self.n_rows / (largest * self.student_factor**2)
        fewest, most = 0, int(n_hits)
        while fewest < most:
            middle = (fewest + most + 1) // 2
            share = (n_hits - middle) / self.n_rows
            if mid_p_cdf(upper, share * effective, effective) < 0.5 + self.level / 2:
                fewest = middle
            else:
                most = middle - 1
        return fewest

    def _highest(self, hits: FloatArray, design_effect: FloatArray) -> float:
        effective = self._effective_rows(design_effect)
        return highest_mid_p_quantile(
            0.5 + self.level / 2, hits / self.n_rows * effective, effective
        )

    def _effective_rows(self, design_effect: FloatArray) -> FloatArray:
        return self.n_rows / (design_effect * self.student_factor**2)


@dataclass(frozen=True, slots=True, eq=False)
class _Filling:
    """Patients, equal ones counted together, each filled with hits from a floor to a cap.

    w z(z − 2p t) is convex in the hits z of a patient: its chord is never below it, so the sum
    over patients is highest when they are filled in the order of the chords' slopes.
    """

    floor: FloatArray
    cap: FloatArray
    rows: FloatArray
    weight: FloatArray
    count: IntArray

    @property
    def n_begun(self) -> float:
        """How many patients have a hit from the start."""
        return float(self.count[self.floor > 0].sum())

    def fewest(self, total: FloatArray) -> FloatArray:
        """Return the smallest number of patients that can hold so many hits."""
        begun = self.floor > 0
        left = total - float(self.count[begun] @ self.cap[begun])
        order = np.argsort(-self.cap[~begun])
        cap, count = self.cap[~begun][order], self.count[~begun][order]
        held = np.clip(left[:, None] - (np.cumsum(cap * count) - cap * count), 0, cap * count)
        number: FloatArray = self.n_begun + np.ceil(held / np.maximum(cap, 1) - 1e-9).sum(axis=1)
        return number

    def most_spread(
        self, total: FloatArray, share: FloatArray, n_patients: FloatArray | None = None
    ) -> FloatArray:
        """Return a bound of Σw z(z − 2p t) over all fillings, or over those of n patients."""
        pull = 2 * share[:, None] * self.rows
        spread = (self.count * self.weight * self.floor * (self.floor - pull)).sum(axis=1)
        left = total - float(self.count @ self.floor)
        level = self.floor
        if n_patients is not None:
            # Each of the n has one hit at least; what is left fills them, or any other.
            level = np.maximum(self.floor, np.minimum(self.cap, 1.0))
            begin = np.where((self.floor == 0) & (self.cap > 0), self.count, 0.0)
            lifted = n_patients - self.n_begun
            spread = spread + _filled(self.weight * level * (level - pull), begin, lifted)
            left = left - lifted
        cap = np.minimum(self.cap, level + left[:, None])
        slope = self.weight * (cap + level - pull)
        bound: FloatArray = spread + _filled(slope, self.count * (cap - level), left)
        return bound


def _filled(slope: FloatArray, capacity: FloatArray, amount: FloatArray) -> FloatArray:
    """Return Σ slope · part, the parts filling up the capacities by falling slope, row by row."""
    order = np.argsort(-slope, axis=1)
    room = np.take_along_axis(np.broadcast_to(capacity, slope.shape), order, axis=1)
    part = np.clip(amount[:, None] - (np.cumsum(room, axis=1) - room), 0.0, room)
    total: FloatArray = (np.take_along_axis(slope, order, axis=1) * part).sum(axis=1)
    return total


class _FewerHits:
    """Bounds of the design effect of every choice of h among the hits of the patients.

    The rarer kind is filled: hits from 0 to x as long as they are at most half of the rows, else
    misses from t − x to t.
    """

    def __init__(self, design: ShareDesign, x: FloatArray) -> None:
        self.design = design
        self.n_hits = float(x.sum())
        # Patients are alike when they have the same hits and rows: one number says both.
        alike = x * (design.rows.max() + 1) + design.rows
        _, first, count = np.unique(alike, return_index=True, return_counts=True)
        kept, rows, weight = x[first], design.rows[first], design.weight[first]
        self.hits = _Filling(np.zeros_like(kept), kept, rows, weight, count)
        self.misses = _Filling(rows - kept, rows, rows, weight, count)
        self.most_with_hits = float(np.count_nonzero(x))

    def design_effect(self, hits: FloatArray, *, sharp: bool) -> FloatArray:
        """Return the bound for every number of hits; a sharp one takes longer."""
        effect = np.empty_like(hits)
        rare = 2 * hits <= self.design.n_rows
        for chosen, rare_hits in ((rare, True), (~rare, False)):
            if chosen.any():
                effect[chosen] = self._effect(hits[chosen], rare_hits=rare_hits, sharp=sharp)
        return effect

    def _effect(self, hits: FloatArray, *, rare_hits: bool, sharp: bool) -> FloatArray:
        taken = self.n_hits - hits
        with_hits = (self.hits.fewest(hits), np.minimum(hits, self.most_with_hits))
        n_begun = self.misses.n_begun
        with_misses = (
            np.maximum(n_begun, self.misses.fewest(self.design.n_rows - hits)),
            np.minimum(self.design.rows.size, n_begun + taken),
        )
        if rare_hits:
            filling, total, own, other = self.hits, hits, with_hits, with_misses
        else:
            filling, total = self.misses, self.design.n_rows - hits
            own, other = with_misses, with_hits
        share = total / self.design.n_rows

        def effect(spread: FloatArray, fewest: FloatArray, most: FloatArray) -> FloatArray:
            # Σw(z − p t)² = Σw z(z − 2p t) + p² Σwt². D moves one way with the number of telling
            # patients, so its ends are enough.
            between = spread + share**2 * self.design.weighted_rows
            ends = [
                self.design.design_effect(hits / self.design.n_rows, between, np.minimum(a, b))
                for a, b in ((fewest, other[0]), (most, other[1]))
            ]
            return np.maximum(*ends)

        coarse = effect(filling.most_spread(total, share), *own)
        if not sharp or float((own[1] - own[0]).max()) > _MOST_COUNTED:
            return coarse
        found = np.zeros_like(coarse)
        for step in range(int((own[1] - own[0]).max()) + 1):
            number = np.minimum(own[0] + step, own[1])
            spread = filling.most_spread(total, share, number)
            found = np.maximum(found, effect(spread, number, number))
        return np.minimum(coarse, found)

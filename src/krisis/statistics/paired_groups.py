"""Where two runs differ: the paired difference within groups, and its gap to all other rows."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import special

from krisis.statistics.paired import PairedInference, paired_inference, studentised, swap_masks

FloatArray = NDArray[np.float64]
BoolArray = NDArray[np.bool_]
IntArray = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class PairedGroup:
    """One figure in one group: right minus left of every row, and which rows are inside.

    ``floors`` are the least standard errors within the group and among all other rows.
    """

    difference: FloatArray
    inside: BoolArray
    floors: tuple[float, float] = (0.0, 0.0)


@dataclass(frozen=True, slots=True, eq=False)
class PairedGroups:
    """Of every group: its own difference, and that less the difference of all other rows."""

    within: PairedInference
    gap: PairedInference


def paired_groups(
    groups: Sequence[PairedGroup],
    unit: IntArray,
    *,
    n_draws: int,
    seed: int,
    level: float = 0.95,
    n_comparisons: int = 1,
) -> PairedGroups:
    """Test differences within groups and their gaps to the rest, all on the same draws by patient.

    Within a group the runs exchange their answers, patient by patient, as in `paired_inference`.
    For gaps, with d the difference of a row, d̄ its mean over all rows and e = d − d̄, a patient
    brings z = Σe(inside)/N_g − Σe(outside)/N_r; the gap is Σz. Where the difference is the same
    in all groups z is as often above 0 as below, so that every draw turns the sign of about half of
    the patients, of all their groups at once. The standard error is √Σz², and no less than
    √(mean e²·(1/N_g + 1/N_r)): a small group in which nobody differs is no proof. The observed one
    is widened by Student's quantile over the normal one, with the patients of the smaller side.
    Draws are joint, so that the adjusted p (max-T) knows how groups overlap.

    Reference: Liu, Bootstrap procedures under some non-i.i.d. models, Annals of Statistics 16
    (1988) 1696–1708, and Cameron, Gelbach and Miller, Bootstrap-based improvements for inference
    with clustered errors, Review of Economics and Statistics 90 (2008) 414–427, for turning the
    signs of clusters.
    """
    n_units = int(unit.max()) + 1
    sums = [_Sums(group, unit, n_units, level) for group in groups]
    gap, within = ([] for _ in range(2))
    for masks in swap_masks(n_units, n_draws, seed=seed):
        signs = np.where(masks, -1.0, 1.0)
        gap.append(np.stack([one.gap_under(signs) for one in sums]))
        within.append(np.stack([one.within_under(signs) for one in sums]))
    return PairedGroups(
        paired_inference(
            [one.within for one in sums],
            [one.within_error for one in sums],
            np.hstack(within),
            degrees_of_freedom=[one.n_inside - 1 for one in sums],
            level=level,
        ),
        paired_inference(
            [one.gap for one in sums],
            [one.gap_error * one.few for one in sums],
            np.hstack(gap),
            degrees_of_freedom=math.nan,
            level=level,
            largest=2.0,
            joint=True,
            n_comparisons=n_comparisons,
        ),
    )


class _Sums:
    """What every patient brings to one group and to the rest."""

    def __init__(self, group: PairedGroup, unit: IntArray, n_units: int, level: float) -> None:
        def added(rows: FloatArray | BoolArray) -> FloatArray:
            return np.bincount(unit, rows, n_units).astype(np.float64)

        d, inside = group.difference, group.inside
        self._rows, outside = added(inside), added(~inside)
        self._total, n_rest = float(self._rows.sum()), float(outside.sum())
        self.n_inside, self.n_outside = (int(np.count_nonzero(t)) for t in (self._rows, outside))
        degrees, tail = max(1, min(self.n_inside, self.n_outside) - 1), 0.5 + level / 2
        self.few = float(special.stdtrit(degrees, tail) / special.ndtri(tail))
        self._own = added(d * inside)
        self.within = float(self._own.sum()) / self._total
        self._floor = group.floors[0]
        ones = np.ones((n_units, 1))
        self.within_error = float(self._within(ones)[1][0])
        e = d - d.mean()
        n_rest = n_rest or math.nan  # without a rest there is no gap
        self._part = added(e * inside) / self._total - added(e * ~inside) / n_rest
        self.gap = float(self._part.sum())
        alike = float(np.square(e).mean()) * (1 / self._total + 1 / n_rest)
        seen = float(np.square(self._part).sum())
        self.gap_error = max(np.sqrt(max(alike, seen)), float(np.hypot(*group.floors)))

    def gap_under(self, signs: FloatArray) -> FloatArray:
        """Return |gap|/se under the draws (patients × draws)."""
        return studentised(self._part @ signs, self.gap_error)

    def within_under(self, signs: FloatArray) -> FloatArray:
        """Return |Δ|/se under the draws (patients × draws)."""
        return studentised(*self._within(signs))

    def _within(self, signs: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return Δ and its standard error: se² = C/(C−1) Σ(s·x − Δ·t)²/N², s being the signs."""
        x, t, n = self._own, self._rows, max(2, self.n_inside)
        delta = x @ signs / self._total
        squares = x @ x - 2 * delta * ((x * t) @ signs) + delta**2 * (t @ t)
        error = np.sqrt(n / (n - 1) * np.maximum(squares, 0.0)) / self._total
        return delta, np.maximum(error, self._floor)

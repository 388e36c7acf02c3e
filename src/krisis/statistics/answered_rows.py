"""Answered rows by patient, and the plateaus of equal confidence on which they lie."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from krisis.errors import InvalidValue
from krisis.statistics.bootstrap import MOST_POOLS, pooled_units
from krisis.statistics.shares import PRIOR_ICC, ShareDistribution

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
BoolArray = NDArray[np.bool_]

# Beyond this many different confidences they are grouped.
_MOST_PLATEAUS = 1000
_N_GROUPS = 400


@dataclass(frozen=True, slots=True, eq=False)
class AnsweredRows:
    """The answered rows in any order, and how many rows every patient has, abstained ones too.

    ``loss`` must be 0 where the answer is right; ``unit`` numbers the patient of each row.
    """

    confidence: FloatArray
    loss: FloatArray
    wrong: BoolArray
    unit: IntArray
    rows_per_unit: FloatArray

    def __post_init__(self) -> None:
        columns = (self.confidence, self.loss, self.wrong, self.unit)
        if len({column.shape for column in columns}) != 1 or self.confidence.ndim != 1:
            raise InvalidValue(
                f"answered rows need columns of one length, not {[c.shape for c in columns]}"
            )
        if not np.isfinite(self.confidence).all():
            raise InvalidValue("every answered row needs a finite confidence")
        if np.any(self.loss[~self.wrong]):
            raise InvalidValue("a right answer must have the loss 0")

    def errors(self, *, prior_icc: float = PRIOR_ICC, level: float = 0.95) -> ShareDistribution:
        """Return what the rows say about the share of wrong answers."""
        n_units = self.rows_per_unit.size
        wrong = np.bincount(self.unit, weights=self.wrong, minlength=n_units)
        answered = np.bincount(self.unit, minlength=n_units)
        return ShareDistribution.of(wrong, answered, prior_icc=prior_icc, level=level)

    def pooled(self) -> AnsweredRows:
        """Pool many patients."""
        pool = pooled_units(self.rows_per_unit.size)
        n_pools = min(pool.size, MOST_POOLS)
        rows = np.zeros(n_pools)
        np.add.at(rows, pool, self.rows_per_unit)
        return replace(self, unit=pool[self.unit], rows_per_unit=rows)


@dataclass(frozen=True, slots=True, eq=False)
class Plateaus:
    """The answers with the number of their plateau, counted by falling confidence.

    ``losses`` are the different losses of wrong answers, rising, and ``n_losses`` how often each
    was seen; where no answer is wrong, an error is taken to cost as much as lies midway between 1
    and the largest loss.
    """

    rows: AnsweredRows
    code: IntArray
    n_plateaus: int
    losses: FloatArray
    n_losses: FloatArray
    largest_loss: float

    @classmethod
    def of(cls, rows: AnsweredRows, *, largest_loss: float = 1.0) -> Plateaus:
        """Find the plateaus; no error can cost more than ``largest_loss``."""
        order = np.argsort(-rows.confidence)
        ranked = rows.confidence[order]
        step = np.append(False, ranked[1:] != ranked[:-1])
        del ranked
        code = np.empty(order.size, dtype=np.int64)
        code[order] = np.cumsum(step)
        del order
        losses, number = np.unique(rows.loss[rows.wrong], return_counts=True)
        n_losses = number.astype(np.float64)
        if losses.size == 0:
            losses, n_losses = np.array([(min(1.0, largest_loss) + largest_loss) / 2]), np.zeros(1)
        return cls(rows.pooled(), code, int(step.sum()) + 1, losses, n_losses, largest_loss)

    @property
    def loss_share(self) -> FloatArray:
        """How often each loss was seen among the errors."""
        n_wrong = float(self.n_losses.sum())
        return self.n_losses / n_wrong if n_wrong else np.ones_like(self.n_losses)

    @property
    def mean_loss(self) -> float:
        """The loss of the mean error."""
        return float(self.losses @ self.loss_share)

    @property
    def plain(self) -> bool:
        """Tell whether every error, seen or not, costs 1."""
        return self.largest_loss == 1.0 and self.losses.size == 1 and float(self.losses[0]) == 1.0

    def unseen_losses(self, place: FloatArray) -> FloatArray:
        """Return what errors not seen cost: the loss at each place among those seen, falling.

        One more error, of the largest loss, counts as seen, for the worst may be still to come.
        """
        if not self.n_losses.any():
            return np.full(place.shape, self.losses[0])
        losses = np.append(self.losses, self.largest_loss)[::-1]
        reached = np.cumsum(np.append(self.n_losses, 1.0)[::-1]) / (self.n_losses.sum() + 1)
        found: FloatArray = losses[np.searchsorted(reached, place * (1 - 1e-12), side="right")]
        return found

    def grouped(self) -> Plateaus:
        """Return fewer plateaus of equally many answers, ties kept together."""
        if self.n_plateaus <= _MOST_PLATEAUS:
            return self
        number = np.bincount(self.code, minlength=self.n_plateaus)
        middle = np.cumsum(number, dtype=np.float64)
        middle -= number / 2
        middle /= self.code.size
        middle *= _N_GROUPS
        nearest = middle.astype(np.int64)
        group = np.cumsum(np.append(False, nearest[1:] != nearest[:-1]))
        return replace(self, code=group[self.code], n_plateaus=int(group.max()) + 1)

    def per_plateau(self, weights: FloatArray | BoolArray | None = None) -> FloatArray:
        """Return the number of answers, or the sum of weights, of every plateau."""
        found = np.bincount(self.code, weights=weights, minlength=self.n_plateaus)
        return found.astype(np.float64)

    def per_unit(self, weights: FloatArray | BoolArray | None = None) -> FloatArray:
        """Return the number of answers, or the sum of weights, of every unit."""
        n_units = self.rows.rows_per_unit.size
        found = np.bincount(self.rows.unit, weights=weights, minlength=n_units)
        return found.astype(np.float64)

    def wrong_score(self) -> FloatArray:
        """Return the squared distance from the truth of a wrong answer on every plateau."""
        return self.per_plateau(self.rows.confidence**2) / self.per_plateau()

    def matrix(
        self, weights: FloatArray | BoolArray | None = None
    ) -> FloatArray | sparse.csr_array:
        """Return the same of every plateau in every unit, sparse where most of it is empty."""
        shape = (self.n_plateaus, self.rows.rows_per_unit.size)
        if self.code.size > 0.1 * shape[0] * shape[1]:
            place = self.code * shape[1]
            place += self.rows.unit
            found = np.bincount(place, weights, shape[0] * shape[1])
            return found.astype(np.float64).reshape(shape)
        ones = np.ones(self.code.size) if weights is None else weights.astype(np.float64)
        return sparse.csr_array((ones, (self.code, self.rows.unit)), shape=shape)

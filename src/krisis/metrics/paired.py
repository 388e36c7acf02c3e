"""One inference for a paired difference: exchange patients, studentise, adjust jointly."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from krisis.errors import InvalidValue
from krisis.metrics.forms import Form, Undefined, Weighted, prior_icc
from krisis.metrics.partition import verdicts
from krisis.metrics.rescored import Rescored
from krisis.metrics.table import BoolArray, FloatArray, IntArray, Table, Units
from krisis.statistics.intervals import Interval
from krisis.statistics.paired import (
    paired_inference,
    studentised,
    swap_masks,
    unseen_disagreement,
)

TableForm = Callable[[Table], Form | Undefined]

# A metric that is computed from rows is scored twice per exchange: fewer are drawn.
N_RESCORED = 199
_COLUMNS_PER_BLOCK = 512


@dataclass(frozen=True, slots=True)
class Exchanges:
    """How many exchanges are drawn, from which seed, and at which level they are read."""

    n: int = 1999
    seed: int = 42
    level: float = 0.95


@dataclass(frozen=True, slots=True)
class PairedDifference:
    """Right minus left in the number that two runs are compared by."""

    left: float
    right: float
    interval: Interval
    p_value: float
    p_adjusted: float

    @property
    def delta(self) -> float:
        """Right minus left."""
        return self.right - self.left


def paired_differences(
    left: Table,
    right: Table,
    forms: Mapping[str, TableForm],
    *,
    exchanges: Exchanges,
    primary: str | None = None,
    joint: bool = False,
    n_comparisons: int = 1,
) -> tuple[dict[str, PairedDifference], int]:
    """Return every number's difference with interval and p-value, and the exchanges drawn.

    If the two runs were alike, swapping their answers for any patient would change nothing but
    chance. Each exchange swaps about half of the patients, all rows of a patient together. The
    difference is divided by its standard error from the influences of the patients, under every
    exchange anew; the interval and the p-value are two readings of that one distribution, so they
    cannot contradict each other. Metrics are adjusted together by the largest of their statistics
    (max-T); a ``primary`` metric is tested alone. Intervals are those of single metrics, or with
    ``joint`` those of the adjusted p-values, also for ``n_comparisons`` pairs of runs.

    References: Westfall and Young, Resampling-Based Multiple Testing (1993); Phipson and Smyth,
    Permutation p-values should never be zero, Statistical Applications in Genetics and Molecular
    Biology 9 (2010) 39, for counting the observed assignment as one of them.
    """
    runs = _TwoRuns(left, right, exchanges.level)
    found = {label: runs.compared(form) for label, form in forms.items()}
    defined = {label: side for label, side in found.items() if side is not None}
    rescored = any(isinstance(side.form, Rescored) for side in defined.values())
    n = min(exchanges.n, N_RESCORED) if rescored else exchanges.n
    results: dict[str, PairedDifference] = {}
    for family in _families(list(defined), primary):
        results |= runs.tested(
            {label: defined[label] for label in family},
            exchanges,
            n,
            joint=joint,
            n_comparisons=n_comparisons,
        )
    return {label: results[label] for label in defined}, n


def _families(labels: Sequence[str], primary: str | None) -> Iterator[list[str]]:
    """Yield the metrics that are adjusted together: the primary one is alone."""
    if primary in labels:
        yield [str(primary)]
    others = [label for label in labels if label != primary]
    if others:
        yield others


@dataclass(frozen=True, slots=True, eq=False)
class _Compared:
    """A metric on both runs: its value on each and its form on the rows of both."""

    left: float
    right: float
    form: Form
    floor: float


def _joined(left: Table, right: Table) -> Table:
    """Return the rows of both tables, one after the other, keeping their confidences."""
    both = Table([*left.rows, *right.rows], left.answers, as_given=True)
    both.confidence = np.concatenate([left.confidence, right.confidence])
    return both


def _differing(both: Table, n_rows: int) -> BoolArray:
    """Tell on which rows the first and the second run of a joined table differ."""
    stated = np.nan_to_num(both.confidence, nan=-1.0)
    columns = (both.prediction, both.abstained, both.no_answer, stated)
    differ: BoolArray = np.any([column[:n_rows] != column[n_rows:] for column in columns], axis=0)
    return differ


class _TwoRuns:
    """Two tables of the same rows in the same order, exchangeable patient by patient."""

    def __init__(self, left: Table, right: Table, level: float) -> None:
        if not np.array_equal(left.patients.code, right.patients.code):
            raise InvalidValue(
                f"the rows of the two runs belong to different patients ({left.patients.n} and "
                f"{right.patients.n} of them); compare runs of the same patients"
            )
        self._left, self._right, self._level = left, right, level
        self._both = _joined(left, right)
        first, second = left.pools, right.pools
        self._n_units = first.n
        self._units = Units(np.concatenate([first.code, second.code + first.n]), 2 * first.n)
        self._moving = np.flatnonzero(first.sums(_differing(self._both, left.n_scored)))

    def compared(self, form_of: TableForm) -> _Compared | None:
        """Return a number on both runs, or nothing where one of them does not have it."""
        sides = [form_of(table) for table in (self._left, self._right)]
        values = [side.value() if isinstance(side, Form) else math.nan for side in sides]
        form = form_of(self._both)
        if any(map(math.isnan, values)) or not isinstance(form, Form):
            return None
        n_evaluated = min(side.n_evaluated for side in sides if isinstance(side, Form))
        return _Compared(values[0], values[1], form, self._floor(form, n_evaluated))

    def _floor(self, form: Form, n_evaluated: int) -> float:
        """Return the smallest standard error: what nobody disagreed on may still differ."""
        left, right = self._left, self._right
        discordant = verdicts(left) != verdicts(right)
        return unseen_disagreement(
            left.patients.sums(discordant),
            left.patients.sums(left.everyone),
            slope=form.slope,
            answer_share=max(n_evaluated, 1) / left.n_scored,
            level=self._level,
            prior_icc=prior_icc(left),
        )

    def tested(
        self,
        family: Mapping[str, _Compared],
        exchanges: Exchanges,
        n: int,
        *,
        joint: bool,
        n_comparisons: int,
    ) -> dict[str, PairedDifference]:
        """Test the metrics of one family together, on the same exchanges."""
        # Exchanging the other patients changes nothing, but for metrics that read rows themselves.
        rescored = any(isinstance(side.form, Rescored) for side in family.values())
        moving = np.arange(self._n_units) if rescored else self._moving
        observed, drawn = [], []
        for side in family.values():
            weighted = side.form.on(self._units)
            nobody = np.zeros((self._n_units, 1), dtype=np.bool_)
            error, (swapped, errors) = (
                self._exchanged(weighted, nobody)[1],
                self._permuted(weighted, moving, exchanges, n),
            )
            if error is None or errors is None:
                # Without influences the spread of the exchanges is used for every one of them.
                spread = float(np.nanstd(swapped)) if np.isfinite(swapped).any() else 0.0
                error = errors = np.array([spread])
            observed.append((side.right - side.left, max(float(error[0]), side.floor)))
            drawn.append(studentised(swapped, np.maximum(errors, side.floor)))
        deltas, scales = np.array(observed).T
        found = paired_inference(
            deltas,
            scales,
            np.array(drawn),
            degrees_of_freedom=self._n_units - 1,
            level=exchanges.level,
            largest=[side.form.high - side.form.low for side in family.values()],
            joint=joint,
            n_comparisons=n_comparisons,
        )
        return {
            label: PairedDifference(
                side.left,
                side.right,
                found.interval(index),
                float(found.p_value[index]),
                float(found.adjusted_p_value[index]),
            )
            for index, (label, side) in enumerate(family.items())
        }

    def _permuted(
        self, weighted: Weighted, moving: IntArray, exchanges: Exchanges, n: int
    ) -> tuple[FloatArray, FloatArray | None]:
        """Return difference and standard error, where known, under every exchange."""
        deltas, errors = [np.empty(0)], [np.empty(0)]
        for masks in swap_masks(moving.size, n, seed=exchanges.seed) if moving.size else ():
            for start in range(0, masks.shape[1], _COLUMNS_PER_BLOCK):
                block = masks[:, start : start + _COLUMNS_PER_BLOCK]
                swapped = np.zeros((self._n_units, block.shape[1]), dtype=np.bool_)
                swapped[moving] = block
                delta, error = self._exchanged(weighted, swapped)
                deltas.append(delta)
                if error is not None:
                    errors.append(error)
        known = len(errors) == len(deltas)
        return np.concatenate(deltas), np.concatenate(errors) if known else None

    def _exchanged(
        self, weighted: Weighted, swapped: BoolArray
    ) -> tuple[FloatArray, FloatArray | None]:
        """Return right minus left under each exchange, and its standard error where known.

        With z_i the influence of patient i on the right minus that on the left,
        se² = C/(C−1) Σ z_i².
        """
        other, own = swapped.astype(np.float64), (~swapped).astype(np.float64)
        first, second = np.vstack([own, other]), np.vstack([other, own])
        delta = weighted.values(second) - weighted.values(first)
        right, left = weighted.influences(second), weighted.influences(first)
        if right is None or left is None:
            return delta, None
        moved, n = right - left, self._n_units
        per_patient = moved[:n] + moved[n:]
        correction = n / (n - 1) if n > 1 else 1.0
        return delta, np.sqrt(correction * np.square(per_patient).sum(axis=0))

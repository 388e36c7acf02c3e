"""One inference for a paired difference: exchange patients, studentise, adjust jointly."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from krisis.metrics.base import BaseMetric
from krisis.metrics.forms import Form, Rescored, Weighted, prior_icc
from krisis.metrics.table import FloatArray, Table, Units, joined
from krisis.statistics.intervals import Interval
from krisis.statistics.paired import discordance_floor, paired_inference, swap_masks

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
    metrics: Sequence[BaseMetric],
    *,
    exchanges: Exchanges,
    primary: str | None = None,
) -> tuple[dict[str, PairedDifference], int]:
    """Return every metric's difference with interval and p-value, and the exchanges drawn.

    If the two runs were alike, swapping their answers for any patient would change nothing but
    chance. Each exchange swaps about half of the patients, all rows of a patient together. The
    difference is divided by its standard error from the influences of the patients, under every
    exchange anew; the interval and the p-value are two readings of that one distribution, so they
    cannot contradict each other. Metrics are adjusted together by the largest of their statistics
    (step-down max-T); a ``primary`` metric is tested alone.

    References: Westfall and Young, Resampling-Based Multiple Testing (1993); Phipson and Smyth,
    Permutation p-values should never be zero, Statistical Applications in Genetics and Molecular
    Biology 9 (2010) 39, for counting the observed assignment as one of them.
    """
    runs = _TwoRuns(left, right)
    found = {metric.label: runs.compared(metric) for metric in metrics}
    defined = {label: side for label, side in found.items() if side is not None}
    rescored = any(isinstance(side.form, Rescored) for side in defined.values())
    n = min(exchanges.n, N_RESCORED) if rescored else exchanges.n
    results: dict[str, PairedDifference] = {}
    for family in _families(list(defined), primary):
        results |= runs.tested({label: defined[label] for label in family}, exchanges, n)
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


class _TwoRuns:
    """Two tables of the same rows in the same order, exchangeable patient by patient."""

    def __init__(self, left: Table, right: Table) -> None:
        self._left, self._right = left, right
        self._both = joined(left, right)
        pools = left.pools
        self._n_units = pools.n
        self._units = Units(np.concatenate([pools.code, pools.code + pools.n]), 2 * pools.n)

    def compared(self, metric: BaseMetric) -> _Compared | None:
        """Return the metric on both runs, or nothing where one of them has no value."""
        sides = [metric.comparison_form(table) for table in (self._left, self._right)]
        values = [side.value() if isinstance(side, Form) else math.nan for side in sides]
        form = metric.comparison_form(self._both)
        if any(map(math.isnan, values)) or not isinstance(form, Form):
            return None
        n_evaluated = min(side.n_evaluated for side in sides if isinstance(side, Form))
        return _Compared(values[0], values[1], form, self._floor(form, n_evaluated))

    def _floor(self, form: Form, n_evaluated: int) -> float:
        """Return the smallest standard error: what nobody disagreed on may still differ."""
        left, right, patients = self._left, self._right, self._left.patients
        discordant = (left.correct != right.correct) | (left.abstained != right.abstained)
        return form.slope * discordance_floor(
            patients.sums(discordant),
            patients.sums(left.everyone),
            n_evaluated=n_evaluated,
            prior_icc=prior_icc(left),
        )

    def tested(
        self, family: Mapping[str, _Compared], exchanges: Exchanges, n: int
    ) -> dict[str, PairedDifference]:
        """Test the metrics of one family together, on the same exchanges."""
        observed, drawn = [], []
        weighted = {label: side.form.on(self._units) for label, side in family.items()}
        for label, side in family.items():
            delta = side.right - side.left
            error = self._errors(weighted[label], np.ones((self._n_units, 1), dtype=np.bool_))[1]
            swapped, errors = self._permuted(weighted[label], exchanges, n)
            if error is None or errors is None:
                spread = float(np.nanstd(swapped)) if np.isfinite(swapped).any() else 0.0
                scale = max(spread, side.floor) or 1.0
                observed.append((delta, scale))
                drawn.append(np.abs(swapped) / scale)
            else:
                observed.append((delta, max(float(error[0]), side.floor)))
                drawn.append(np.abs(swapped) / np.maximum(errors, side.floor))
        deltas, scales = np.array(observed).T
        found = paired_inference(
            deltas,
            scales,
            np.array(drawn),
            degrees_of_freedom=self._n_units - 1,
            level=exchanges.level,
        )
        return {
            label: PairedDifference(
                side.left,
                side.right,
                found.intervals[index],
                float(found.p_values[index]),
                float(found.p_adjusted[index]),
            )
            for index, (label, side) in enumerate(family.items())
        }

    def _permuted(
        self, weighted: Weighted, exchanges: Exchanges, n: int
    ) -> tuple[FloatArray, FloatArray | None]:
        deltas, errors = [], []
        for kept in swap_masks(self._n_units, n, seed=exchanges.seed, block=_COLUMNS_PER_BLOCK):
            delta, error = self._errors(weighted, kept)
            deltas.append(delta)
            if error is not None:
                errors.append(error)
        return np.concatenate(deltas), np.concatenate(errors) if errors else None

    def _errors(
        self, weighted: Weighted, kept: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]
    ) -> tuple[FloatArray, FloatArray | None]:
        """Return right minus left under each assignment, and its standard error where known.

        With z_i the influence of patient i on the right minus that on the left,
        se² = C/(C−1) Σ z_i².
        """
        as_is, swapped = kept.astype(np.float64), (~kept).astype(np.float64)
        first, second = np.vstack([as_is, swapped]), np.vstack([swapped, as_is])
        delta = weighted.values(second) - weighted.values(first)
        right = weighted.influences(second)
        left = weighted.influences(first)
        if right is None or left is None:
            return delta, None
        moved = right - left
        per_patient = moved[: self._n_units] + moved[self._n_units :]
        n = self._n_units
        correction = n / (n - 1) if n > 1 else 1.0
        return delta, np.sqrt(correction * np.square(per_patient).sum(axis=0))

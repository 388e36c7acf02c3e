"""Forms of stated probabilities and what came true: recalibration and ratios.

Rows with one probability are one level. A figure is a function of how many rows and how many hits
every level has, whatever the weights of the patients.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from functools import partial

import numpy as np
from scipy import special

from krisis.metrics.forms import Form, Uncertainty, Weighted, prior_icc, ratio
from krisis.metrics.table import BoolArray, FloatArray, IntArray, Table, Units
from krisis.statistics.bootstrap import BootstrapOptions
from krisis.statistics.calibrated_bins import BinnedAnswers, groups_of
from krisis.statistics.intervals import Interval
from krisis.statistics.recalibration import (
    intercepts,
    profile_interval,
    ratio_interval,
    separated,
    slopes,
)

# Comparisons and bands work out thousands of curves.
MOST_LEVELS = 200
LEAST_EXPECTED = 1e-9

Columns = FloatArray  # levels × columns


@dataclass(frozen=True, eq=False)
class Outcomes:
    """Stated probabilities, whether they came true, and the rows of the table that have them.

    ``level`` are the different probabilities in rising order, ``place`` the level of every row.
    """

    probability: FloatArray
    came_true: BoolArray
    among: BoolArray
    level: FloatArray
    place: IntArray

    @classmethod
    def of(cls, probability: FloatArray, came_true: BoolArray, among: BoolArray) -> Outcomes:
        """Find the levels."""
        level, place = np.unique(probability, return_inverse=True)
        return cls(probability, came_true, among, level, place)

    @property
    def all_equal(self) -> bool:
        """Tell whether everything came true, or nothing."""
        return bool(self.came_true.all() or not self.came_true.any())

    @property
    def rows(self) -> Columns:
        """How many rows every level has, as one column."""
        return np.bincount(self.place, minlength=self.level.size)[:, None].astype(np.float64)

    @property
    def hits(self) -> Columns:
        """How many of them came true."""
        found = np.bincount(self.place[self.came_true], minlength=self.level.size)
        return found[:, None].astype(np.float64)

    def grouped(self, most: int) -> Outcomes:
        """Return the same with neighbouring levels as one where there are more than ``most``."""
        if self.level.size <= most:
            return self
        group = groups_of(self.rows[:, 0], most)[self.place]
        mean = np.bincount(group, self.probability) / np.bincount(group)
        return Outcomes(mean[group], self.came_true, self.among, mean, group)

    def answers(self, table: Table) -> BinnedAnswers:
        """Return the rows with their levels as bins, and their patients."""
        patient = table.patients.code[self.among]
        return BinnedAnswers(self.probability, self.came_true, self.place, patient)


class LevelFigure(Form):
    """A number made of the rows and hits of every level."""

    low, high, slope = -math.inf, math.inf, 0.0

    def __init__(self, outcomes: Outcomes) -> None:
        self.outcomes = outcomes

    @abstractmethod
    def values(self, level: FloatArray, rows: Columns, hits: Columns) -> FloatArray:
        """Return one value per column; NaN where it does not exist."""

    @abstractmethod
    def pulls(self, level: FloatArray, rows: Columns, hits: Columns) -> tuple[Columns, Columns]:
        """Return how far one more row, and one more hit, of each level moves each value."""

    @property
    def n_evaluated(self) -> int:
        """Count the rows with a usable probability."""
        return self.outcomes.place.size

    def value(self) -> float:
        """Return the number of all rows."""
        o = self.outcomes
        return float(self.values(o.level, o.rows, o.hits)[0])

    def by_group(self, codes: IntArray, n_groups: int) -> FloatArray:
        """Return the number of every group, as if its rows were all there are."""
        o, code = self.outcomes, codes[self.outcomes.among]
        found = []
        for group in range(n_groups):
            kept = code == group
            part = Outcomes.of(o.probability[kept], o.came_true[kept], kept)
            found.append(self.values(part.level, part.rows, part.hits)[0] if kept.any() else np.nan)
        return np.array(found)

    def on(self, units: Units) -> Weighted:
        """Collect rows and hits by level and unit."""
        o = self.outcomes.grouped(MOST_LEVELS)
        shape = (o.level.size, units.n)
        cell = o.place * units.n + units.code[o.among]
        rows, hits = (
            np.bincount(cells, minlength=shape[0] * shape[1]).reshape(shape).astype(np.float64)
            for cells in (cell, cell[o.came_true])
        )
        return _WeightedLevels(self, o.level, rows, hits)


def holding(interval: Interval, value: float) -> Interval:
    """Return the interval, as far as it must reach to hold a value."""
    return replace(interval, low=min(interval.low, value), high=max(interval.high, value))


class _WeightedLevels(Weighted):
    def __init__(
        self, figure: LevelFigure, level: FloatArray, rows: FloatArray, hits: FloatArray
    ) -> None:
        self.figure, self.level, self.rows, self.hits = figure, level, rows, hits

    def values(self, weights: FloatArray) -> FloatArray:
        return self.figure.values(self.level, self.rows @ weights, self.hits @ weights)

    def influences(self, weights: FloatArray) -> FloatArray:
        row, hit = self.figure.pulls(self.level, self.rows @ weights, self.hits @ weights)
        moved: FloatArray = weights * (self.rows.T @ row + self.hits.T @ hit)
        return moved


class Recalibration(LevelFigure):
    """Intercept of logit P = a + logit p, or with ``sloped`` the b of logit P = a + b logit p.

    The levels of ``outcomes`` must be between ``clip`` and 1 − ``clip``.
    """

    def __init__(self, outcomes: Outcomes, *, sloped: bool, clip: float) -> None:
        super().__init__(outcomes)
        self.sloped, self.clip = sloped, clip

    def values(self, level: FloatArray, rows: Columns, hits: Columns) -> FloatArray:
        """Return the estimates of largest likelihood."""
        found: FloatArray = self._fit(level, rows, hits)[1 if self.sloped else 0]
        return found

    def _fit(self, level: FloatArray, rows: Columns, hits: Columns) -> FloatArray:
        logit = special.logit(level)
        if self.sloped:
            return slopes(logit, rows, hits)
        a = intercepts(logit[:, None], rows, hits)
        return np.array([a, np.ones_like(a)])

    def pulls(self, level: FloatArray, rows: Columns, hits: Columns) -> tuple[Columns, Columns]:
        """Return J⁻¹ x (hit − P), the influence of a row on an estimate of largest likelihood."""
        x = special.logit(level)[:, None]
        a, b = self._fit(level, rows, hits)
        mean = special.expit(a + b * x)
        weight = rows * mean * (1 - mean)
        w, wx, wxx = weight.sum(axis=0), (weight * x).sum(axis=0), (weight * x * x).sum(axis=0)
        hit = ratio(w * x - wx, w * wxx - wx**2) if self.sloped else ratio(np.ones_like(x), w)
        return -hit * mean, hit

    def uncertainty(self, table: Table, options: BootstrapOptions) -> Uncertainty:
        """Return the interval of the profile likelihood that knows of patients.

        A single row that contradicts certainty moves a slope from far above 1 to near 0, so that
        one row more or less must not decide. Where nothing contradicted certainty the lower limit
        is as low as one more row that does would make it; else the upper limit is as high as it
        would be if one patient, the one with most such rows, had not contradicted it.
        """
        o, answers = self.outcomes, self.outcomes.answers(table)
        logit = special.logit(o.level)
        profile = partial(
            profile_interval,
            logit,
            slope=self.sloped,
            options=options,
            prior_icc=prior_icc(table),
        )
        found = profile(answers)
        ends = (
            (0, o.level[0] <= self.clip, True),
            (o.level.size - 1, o.level[-1] >= 1 - self.clip, False),
        )
        for end, certain, contradiction in ends:
            if not (self.sloped and certain):
                continue
            against = (o.place == end) & (o.came_true == contradiction)
            if not against.any():
                found = holding(found, profile(answers.with_row(end, contradiction)).low)
                continue
            patient = int(np.argmax(answers.per_unit(against.astype(np.float64))))
            turned = against & (answers.unit == patient)
            without = replace(answers, right=answers.right ^ turned)
            bins = without.sums()
            exists = not separated(logit, bins.number[:, None], bins.hits[:, None])[0]
            found = holding(found, profile(without).high if exists else math.inf)
        return Uncertainty(found)


class ObservedExpected(LevelFigure):
    """Hits over the sum of the stated probabilities."""

    low = 0.0

    def values(self, level: FloatArray, rows: Columns, hits: Columns) -> FloatArray:
        """Return Σ hits / Σ p."""
        return ratio(hits.sum(axis=0), self._expected(level, rows))

    def _expected(self, level: FloatArray, rows: Columns) -> FloatArray:
        expected = level @ rows
        return np.where(expected > LEAST_EXPECTED, expected, math.nan)

    def pulls(self, level: FloatArray, rows: Columns, hits: Columns) -> tuple[Columns, Columns]:
        """Return (hit − p · ratio) / Σ p."""
        expected = self._expected(level, rows)
        hit = ratio(np.ones_like(rows), expected)
        return -self.values(level, rows, hits) * level[:, None] * hit, hit

    def uncertainty(self, table: Table, options: BootstrapOptions) -> Uncertainty:
        """Return the interval that adds what hits and expectations leave open."""
        answers = self.outcomes.answers(table)
        found = ratio_interval(answers, level=options.level, prior_icc=prior_icc(table))
        return Uncertainty(holding(found, self.value()))

"""How far answers lie from the truth on a scale: weighted kappa and mean absolute error."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from krisis.json_values import JsonObject
from krisis.metrics.base import GroupedMetric
from krisis.metrics.forms import (
    Errors,
    Form,
    Mean,
    Uncertainty,
    Undefined,
    Weighted,
    prior_icc,
    ratio,
)
from krisis.metrics.table import BoolArray, FloatArray, Table, Units
from krisis.statistics.bootstrap import BootstrapOptions, resample_counts
from krisis.statistics.pseudo_answer import (
    N_RESAMPLES,
    RIGHT_WEIGHT,
    FigureRange,
    Lots,
    bootstrap_interval,
    error_weight,
)

NO_ORDER = "labels_have_no_order"
NO_ANSWER = "no_answer_with_a_place_on_the_scale"
ONE_CLASS = "needs_at_least_two_classes_in_ground_truth"
# A sum of squares below this share of the squares themselves is rounding.
_ROUNDING = 1e-9

# Rows, answers, truths, and the products of answers and truths.
Sums = FloatArray
Coefficient = Callable[[Sums], FloatArray]


def _spread(x: FloatArray, xx: FloatArray, n: FloatArray) -> FloatArray:
    """Return Σ (x − mean)², NaN where all x are equal."""
    squares = xx - ratio(x * x, n)
    spread: FloatArray = np.where(squares > _ROUNDING * np.maximum(xx, 1.0), squares, math.nan)
    return spread


def weighted_kappa(sums: Sums) -> FloatArray:
    """Return 1 − Σ (a − t)² / Σ expected (a − t)², the expected being Σa² + Σt² − 2·Σa·Σt/n.

    This is also the concordance correlation coefficient of the two columns.
    """
    n, a, t, aa, tt, at = sums
    by_chance = aa + tt - 2 * ratio(a * t, n)
    return np.where(np.isnan(_spread(t, tt, n)), math.nan, 1 - ratio(aa + tt - 2 * at, by_chance))


def correlation(sums: Sums) -> FloatArray:
    """Return Pearson's coefficient of answers and truths."""
    n, a, t, aa, tt, at = sums
    both = np.sqrt(_spread(a, aa, n) * _spread(t, tt, n))
    return np.clip(ratio(at - ratio(a * t, n), both), -1.0, 1.0)


class Agreement(Form):
    """A coefficient of two columns, answers and truths, over the rows ``among``.

    ``ends`` are two places on the scale: an answer at one to a truth at the other stands for the
    disagreement that was not seen.
    """

    low, high = -1.0, 1.0

    def __init__(
        self,
        answer: FloatArray,
        truth: FloatArray,
        *,
        among: BoolArray,
        ends: tuple[float, float],
        coefficient: Coefficient,
    ) -> None:
        a, t = np.where(among, answer, 0.0), np.where(among, truth, 0.0)
        self.columns = (among.astype(np.float64), a, t, a * a, t * t, a * t)
        self.coefficient, self.ends = coefficient, ends
        n, squares = float(among.sum()), float((a * a).sum() + (t * t).sum())
        by_chance = squares - 2 * float(a.sum() * t.sum()) / n if n else 0.0
        # One answer of n that moves by one step changes Σ (a − t)² by about 1.
        self.slope = n / by_chance if by_chance > 0 else 0.0

    @property
    def n_evaluated(self) -> int:
        """Count the rows with both places."""
        return int(self.columns[0].sum())

    def value(self) -> float:
        """Return the coefficient of all rows."""
        return float(self.on(Units(np.zeros(self.columns[0].size, np.int64), 1)).values(_ONE)[0])

    def on(self, units: Units) -> Weighted:
        """Collect the sums by unit."""
        return _WeightedAgreement(self._sums(units), self.coefficient)

    def _sums(self, units: Units) -> FloatArray:
        return np.array([units.sums(column) for column in self.columns])

    def uncertainty(self, table: Table, options: BootstrapOptions) -> Uncertainty:
        """Return the interval of the patient bootstrap with one pseudo-answer.

        The lower limit has a wrong one, an answer at one end of the scale to a truth at the other;
        the upper limit half a right one.
        """
        pools = table.pools
        drawn = replace(options, n_resamples=min(options.n_resamples, N_RESAMPLES))
        among, a, t = self.columns[:3]
        wrong, rows = (table.patients.sums(column) for column in ((a != t).astype(float), among))
        d = error_weight(wrong, rows, prior_icc=prior_icc(table), level=options.level)
        first, last = self.ends
        lots = Lots.drawn(self.n_evaluated, drawn)
        weights = (d * lots.factor, np.full(drawn.n_resamples, RIGHT_WEIGHT))
        sums = np.concatenate(
            [self._sums(pools) @ counts for counts in resample_counts(pools.n, drawn)], axis=1
        )
        below, above = (
            self.coefficient(sums + w * np.array(_of_row(answer, last))[:, None])
            for w, answer in zip(weights, (first, last), strict=True)
        )
        figure = FigureRange(value=self.value(), low=self.low, high=self.high)
        return Uncertainty(
            bootstrap_interval(below, above, figure, n_units=pools.n, level=options.level)
        )


def _of_row(a: float, t: float) -> list[float]:
    """Return what one row adds to the sums."""
    return [1.0, a, t, a * a, t * t, a * t]


_ONE, _STEP = np.ones((1, 1)), 1e-4


class _WeightedAgreement(Weighted):
    def __init__(self, sums: FloatArray, coefficient: Coefficient) -> None:
        self.sums, self.coefficient = sums, coefficient

    def values(self, weights: FloatArray) -> FloatArray:
        return self.coefficient(self.sums @ weights)

    def influences(self, weights: FloatArray) -> FloatArray:
        """Return the derivative by each unit's weight; scaling all of them changes nothing."""
        at = (self.sums @ weights)[:, None, :]
        step = _STEP * self.sums[:, :, None]
        slope: FloatArray = self.coefficient(at + step) - self.coefficient(at - step)
        return weights * slope / (2 * _STEP)


class _OnScale(GroupedMetric, ABC):
    """A figure of the answers that have a place on the scale of the task."""

    def form(self, table: Table) -> Form | Undefined:
        """Return the figure, where the labels have an order and there are answers."""
        place = table.answers.positions(table.labels)
        if np.isnan(place[table.truth]).any():
            return Undefined(NO_ORDER)
        places = np.append(place, math.nan)  # −1 is the last
        answer, truth = places[table.prediction], places[table.truth]
        among: BoolArray = table.answered & ~np.isnan(answer)
        if not among.any():
            return Undefined(NO_ANSWER)
        return self.on_scale(table, np.where(among, answer, 0.0), truth, among)

    @abstractmethod
    def on_scale(
        self, table: Table, answer: FloatArray, truth: FloatArray, among: BoolArray
    ) -> Form | Undefined:
        """Return the figure of places."""

    def details(self, table: Table, form: Form) -> JsonObject:
        """Return how many answers have no place."""
        n_answered = table.n_answered
        return {"n_answers_off_the_scale": n_answered - form.n_evaluated}


class QuadraticWeightedKappa(_OnScale):
    """Agreement of answers and truth beyond chance, where far errors weigh more than near ones.

    Formula: 1 − Σ (a − t)² / Σ expected (a − t)² over the answered rows, the expectation being
    that of answers and truths paired at random; places are the numbers of the labels, else their
    order in the task. Direction: higher, at equal coverage; 1 is full agreement, 0 that of any
    constant answer. Abstained rows are left out. Undefined where the labels have no order or all
    answered rows have the same truth.

    Reference: Cohen, Weighted kappa, Psychological Bulletin 70 (1968) 213–220.

    >>> from krisis.metrics import EvaluationResult
    >>> rows = [EvaluationResult(0, 0), EvaluationResult(1, 1), EvaluationResult(1, 2)]
    >>> round(QuadraticWeightedKappa()(rows).value, 3)
    0.667
    """

    name = "Quadratic Weighted Kappa"
    key = "quadratic_weighted_kappa"
    direction = "higher"

    def on_scale(
        self, table: Table, answer: FloatArray, truth: FloatArray, among: BoolArray
    ) -> Form | Undefined:
        """Return the coefficient of answers and truths."""
        if np.ptp(truth[among]) == 0:
            return Undefined(ONE_CLASS)
        known = np.append(table.answers.positions(table.answers.allowed), truth)
        ends = float(np.nanmin(known)), float(np.nanmax(known))
        return Agreement(answer, truth, among=among, ends=ends, coefficient=weighted_kappa)


class MeanAbsoluteError(_OnScale):
    """Mean distance of an answer from the truth, on the scale of the answers.

    Formula: Σ |a − t| / answered rows. Direction: lower, at equal coverage. Abstained rows are
    left out. Undefined where the labels have no order or nothing was answered.

    Reference: Baccianella, Esuli and Sebastiani, Evaluation measures for ordinal regression,
    ISDA 2009.

    >>> from krisis.metrics import EvaluationResult
    >>> rows = [EvaluationResult(0, 0), EvaluationResult(1, 3), EvaluationResult(None, 3, True)]
    >>> MeanAbsoluteError()(rows).value
    1.0
    """

    name = "Mean Absolute Error"
    key = "mean_absolute_error"
    direction = "lower"

    def on_scale(
        self, table: Table, answer: FloatArray, truth: FloatArray, among: BoolArray
    ) -> Form | Undefined:
        """Return the mean distance."""
        distance = np.abs(answer - truth)
        largest = max(table.answers.span(table.labels), float(distance[among].max()))
        return Mean(
            distance,
            among=among,
            low=0.0,
            high=largest,
            errors=Errors(distance > 0, 0 * distance, np.full(distance.size, largest)),
        )

"""How well P(positive) ranks the cases with the disease above the others: AUROC and AUPRC.

P(positive) is the confidence where the answer is the positive one of the task, and 1 − confidence
where it is another. Ranked are the answered rows with a confidence, and of a reader that was only
asked for probabilities those that it deferred, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import sparse

from krisis.json_values import JsonObject
from krisis.metrics.base import BaseMetric
from krisis.metrics.disease import (
    DiseaseF1,
    NegativeLikelihoodRatio,
    OfDisease,
    PositiveLikelihoodRatio,
    Sides,
    default_classification_metrics,
)
from krisis.metrics.forms import Form, Uncertainty, Undefined, Weighted, prior_icc
from krisis.metrics.ordinal import QuadraticWeightedKappa
from krisis.metrics.table import BoolArray, FloatArray, Table, Units
from krisis.statistics import ranking
from krisis.statistics.bootstrap import BootstrapOptions
from krisis.statistics.intervals import Interval

# 1 − 0.9 is a hair below 0.1: probabilities that differ by rounding alone are equal.
DIGITS = 12

RankedInterval = Callable[..., Interval]


def probability_of_positive(sides: Sides, confidence: FloatArray) -> FloatArray:
    """Return P(positive) of every answer on a side; NaN without a confidence or a side."""
    other = np.where(sides.called_negative, 1 - confidence, math.nan)
    found: FloatArray = np.where(sides.called_positive, confidence, other)
    return np.round(found, DIGITS)


class Ranking(Form):
    """A figure of how scores rank the positive rows above the negative ones."""

    def __init__(
        self,
        score: FloatArray,
        positive: BoolArray,
        *,
        among: BoolArray,
        figure: ranking.Figure,
        interval: RankedInterval,
    ) -> None:
        self.rows, self.positive = np.flatnonzero(among), positive[among]
        # The highest score is level 0.
        found, self.level = np.unique(-score[among], return_inverse=True)
        self.n_levels, self.figure, self.interval = found.size, figure, interval

    @property
    def n_evaluated(self) -> int:
        """Count the ranked rows."""
        return self.rows.size

    def value(self) -> float:
        """Return the figure of all rows."""
        unit = Units(np.zeros(self._n_codes, np.int64), 1)
        return float(self.on(unit).values(np.ones((1, 1)))[0])

    @property
    def _n_codes(self) -> int:
        return int(self.rows.max(initial=-1)) + 1

    def on(self, units: Units) -> _WeightedRanking:
        """Count the rows of every side by level and unit."""
        shape = (self.n_levels, units.n)
        code = units.code[self.rows]
        positives, negatives = (
            sparse.csr_array((np.ones(rows.size), (self.level[rows], code[rows])), shape=shape)
            for rows in (np.flatnonzero(self.positive), np.flatnonzero(~self.positive))
        )
        return _WeightedRanking(positives, negatives, self.figure)

    def uncertainty(self, table: Table, options: BootstrapOptions) -> Uncertainty:
        """Return the interval by patient that belongs to the figure."""
        patients = self.patients(table)
        found = self.interval(
            self.value(), patients, level=options.level, prior_icc=prior_icc(table)
        )
        return Uncertainty(found)

    def patients(self, table: Table) -> ranking.RankedPatients:
        """Return what the patients of a table say about the ranking."""
        units = table.patients
        weighted, everyone = self.on(units), np.ones((units.n, 1))
        positives, negatives = (side @ everyone for side in weighted.sides)
        ranked = self.figure(positives, negatives)
        return ranking.RankedPatients(
            influence_positive=(weighted.positives.T @ ranked.of_positive)[:, 0],
            influence_negative=(weighted.negatives.T @ ranked.of_negative)[:, 0],
            rows_positive=np.asarray(weighted.positives.sum(axis=0)),
            rows_negative=np.asarray(weighted.negatives.sum(axis=0)),
        )


@dataclass(frozen=True, slots=True, eq=False)
class _WeightedRanking(Weighted):
    """Rows of both sides by level and unit; a figure needs rows of both."""

    positives: sparse.csr_array
    negatives: sparse.csr_array
    figure: ranking.Figure

    @property
    def sides(self) -> tuple[sparse.csr_array, sparse.csr_array]:
        """Both sides, the positives first."""
        return self.positives, self.negatives

    def values(self, weights: FloatArray) -> FloatArray:
        drawn = [side @ weights for side in self.sides]
        present = np.all([side.sum(axis=0) > 0 for side in drawn], axis=0)
        return np.where(present, self.figure(*drawn).value, math.nan)

    def influences(self, weights: FloatArray) -> FloatArray:
        positives, negatives = self.sides
        ranked = self.figure(positives @ weights, negatives @ weights)
        moved: FloatArray = weights * (
            positives.T @ ranked.of_positive + negatives.T @ ranked.of_negative
        )
        return moved


class _Area(OfDisease):
    """A figure of the answers with a confidence, ranked by P(positive)."""

    figure: ranking.Figure
    interval: RankedInterval

    def form(self, table: Table) -> Form | Undefined:
        """Return the figure, with what a reader by probabilities deferred."""
        return super().form(table.forecasts)

    def of_sides(self, table: Table, sides: Sides) -> Form | Undefined:
        """Return the figure, where both sides have an answer with a confidence."""
        score = probability_of_positive(sides, table.confidence)
        among = ~np.isnan(score)
        if not among.any():
            return Undefined("no_rows_with_confidence")
        if sides.diseased[among].all() or not sides.diseased[among].any():
            return Undefined("only_one_side_has_answers_with_a_confidence")
        kind = type(self)
        return Ranking(
            score, sides.diseased, among=among, figure=kind.figure, interval=kind.interval
        )

    def details(self, table: Table, form: Form) -> JsonObject:
        """Return the ranked rows of both sides, and how many answers are not ranked."""
        assert isinstance(form, Ranking)
        n_positive = int(np.count_nonzero(form.positive))
        n_answered = table.forecasts.n_answered
        return {
            "positive": table.answers.positive,
            "n_positive": n_positive,
            "n_negative": form.n_evaluated - n_positive,
            "n_answers_not_ranked": n_answered - form.n_evaluated,
        }


class DiseaseAUROC(_Area):
    """Chance that a case with the disease has a higher P(positive) than one without it.

    Formula: mean over all pairs of [p of the diseased > p of the other] + ½[equal], with p the
    confidence of a positive answer and 1 − confidence of another. Direction: higher, at equal
    coverage; ½ is no better than chance. Abstained rows and answers without a confidence are left
    out and counted; but of a reader that was only asked for probabilities
    (``signals["own_probabilities"]``) every case is ranked, also those that it deferred.

    Reference: Hanley and McNeil, The meaning and use of the area under a receiver operating
    characteristic (ROC) curve, Radiology 143 (1982) 29–36.

    >>> from krisis.metrics import Answers, EvaluationResult, Rows
    >>> given = [(1, 1, 0.9), (0, 1, 0.6), (0, 0, 0.8), (1, 0, 0.7)]
    >>> rows = [EvaluationResult(answer, truth, confidence=c) for answer, truth, c in given]
    >>> DiseaseAUROC()(Rows(rows, Answers((0, 1), positive=1))).value
    0.75
    """

    name = "Disease AUROC"
    figure = staticmethod(ranking.auroc)
    interval = staticmethod(ranking.auroc_interval)


class DiseaseAUPRC(_Area):
    """Mean precision over the cases with the disease, ranked by P(positive): average precision.

    Formula: Σ over levels of p, from the highest, of the recall gained · the precision so far;
    equal p are one level. Direction: higher, at equal coverage and prevalence; answers by lot have
    the prevalence. p, abstentions and missing confidences as for `DiseaseAUROC`.

    Reference: Davis and Goadrich, The relationship between precision-recall and ROC curves, ICML
    2006; no line is drawn between levels.

    >>> from krisis.metrics import Answers, EvaluationResult, Rows
    >>> given = [(1, 1, 0.9), (0, 1, 0.6), (0, 0, 0.8), (1, 0, 0.7)]
    >>> rows = [EvaluationResult(answer, truth, confidence=c) for answer, truth, c in given]
    >>> round(DiseaseAUPRC()(Rows(rows, Answers((0, 1), positive=1))).value, 4)
    0.8333
    """

    name = "Disease AUPRC"
    figure = staticmethod(ranking.average_precision)
    interval = staticmethod(ranking.average_precision_interval)


def binary_metrics() -> list[BaseMetric]:
    """Return what a clinician asks of a test first; kappa is for answers with an order."""
    return [
        *default_classification_metrics(),
        PositiveLikelihoodRatio(),
        NegativeLikelihoodRatio(),
        DiseaseF1(),
        DiseaseAUROC(),
        DiseaseAUPRC(),
        QuadraticWeightedKappa(),
    ]

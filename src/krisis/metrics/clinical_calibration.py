"""Calibration as clinical papers report it: recalibration, observed/expected.

Told of answered rows with a confidence: with ``of="correct"`` as the probability that the answer is
right, with ``of="positive"`` as that of the positive of two answers, given or not.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import numpy as np

from krisis.errors import InvalidValue, UnknownName
from krisis.json_values import JsonObject
from krisis.metrics.base import BaseMetric
from krisis.metrics.calibration import NO_CONFIDENCE
from krisis.metrics.discrimination import DIGITS
from krisis.metrics.forms import Form, Undefined
from krisis.metrics.level_form import ObservedExpected, Outcomes, Recalibration
from krisis.metrics.table import FloatArray, Table
from krisis.statistics.recalibration import separated

OF = ("correct", "positive")


def outcomes_of(table: Table, of: str) -> Outcomes | Undefined:
    """Return the stated probabilities of a table and what came true, worked out once."""

    def build() -> Outcomes | Undefined:
        if not table.usable.any():
            return Undefined(NO_CONFIDENCE)
        if of == "positive":
            return _of_positive(table)
        kept = table.usable
        return Outcomes.of(table.confidence[kept], table.correct[kept], kept)

    return table.shared(("outcomes", of), build)


def _of_positive(table: Table) -> Outcomes | Undefined:
    """Return the probability of the positive answer: that of the task, else 1 of 0 and 1."""
    two = table.answers.two(table.labels)
    positive = table.answers.positive_key(table.labels)
    if two is None or positive not in two:
        return Undefined("task_has_not_two_answers_with_a_positive_one")
    usable = table.usable
    is_positive = np.array([label == positive for label in table.labels])
    is_known = np.array([*(label in two for label in table.labels), False])  # −1 is the last
    prediction, truth = table.prediction[usable], table.truth[usable]
    if not (is_known[prediction] & is_known[truth]).all():
        return Undefined("non_binary_labels_or_predictions")
    confidence = table.confidence[usable]
    stated: FloatArray = np.where(is_positive[prediction], confidence, 1.0 - confidence)
    return Outcomes.of(np.round(stated, DIGITS), is_positive[truth], usable)


class _OfProbability(BaseMetric, ABC):
    """A figure of stated probabilities and what came true."""

    compared_by_default = False  # more tests would weaken each of them

    def __init__(self, of: str = "correct", *, group_by: str = "") -> None:
        if of not in OF:
            raise UnknownName.among("outcome", str(of), OF)
        self.of, self.group_by = of, group_by

    def form(self, table: Table) -> Form | Undefined:
        """Return the figure, or why there is none."""
        outcomes = outcomes_of(table, self.of)
        return outcomes if isinstance(outcomes, Undefined) else self.figure(table, outcomes)

    @abstractmethod
    def figure(self, table: Table, outcomes: Outcomes) -> Form | Undefined:
        """Return the figure of outcomes."""

    def details(self, table: Table, form: Form) -> JsonObject:
        """Return how often the outcome was, and what the probabilities promised."""
        outcomes = outcomes_of(table, self.of)
        assert isinstance(outcomes, Outcomes)
        return {
            "n_observed": int(np.count_nonzero(outcomes.came_true)),
            "n_expected": float(outcomes.level @ outcomes.rows[:, 0]),
        }


class _Recalibrated(_OfProbability):
    """A parameter of logistic recalibration; ``clip`` is the least distance from 0 and 1."""

    sloped: bool

    def __init__(self, of: str = "correct", *, clip: float = 1e-6, group_by: str = "") -> None:
        super().__init__(of, group_by=group_by)
        if isinstance(clip, bool) or not isinstance(clip, float) or not 1e-15 <= clip < 0.5:
            raise InvalidValue(f"clip must be between 1e-15 and 0.5, not {clip!r}")
        self.clip = clip

    def figure(self, table: Table, outcomes: Outcomes) -> Form | Undefined:
        """Return the estimate where it is finite."""
        clipped = np.clip(outcomes.probability, self.clip, 1 - self.clip)
        inside = Outcomes.of(clipped, outcomes.came_true, outcomes.among)
        if outcomes.all_equal:
            return Undefined("all_outcomes_are_equal")
        if self.sloped and inside.level.size == 1:
            return Undefined("all_probabilities_are_equal")
        if self.sloped and separated(inside.level, inside.rows, inside.hits)[0]:
            return Undefined("probability_separates_the_outcomes")
        return Recalibration(inside, sloped=self.sloped, clip=self.clip)

    def details(self, table: Table, form: Form) -> JsonObject:
        """Return also how many probabilities were clipped: the estimate leans on these."""
        outcomes = outcomes_of(table, self.of)
        assert isinstance(outcomes, Outcomes)
        p = outcomes.probability
        n = int(np.count_nonzero((p < self.clip) | (p > 1 - self.clip)))
        found: JsonObject = {**super().details(table, form), "n_clipped": n}
        if n:
            found["note"] = (
                f"{n} of {p.size} probabilities are nearer than {self.clip:g} to 0 or 1 and were "
                "clipped to it; another clip gives another value"
            )
        return found


class CalibrationInTheLarge(_Recalibrated):
    """Whether probabilities are right on the whole: intercept of logistic recalibration.

    Formula: a of logit P(outcome) = a + logit p, by maximum likelihood. Direction: neither; 0 is
    best, below it the probabilities are too high. Abstained rows are left out. Probabilities are
    clipped to [clip, 1 − clip]. Undefined where all outcomes are equal.

    Reference: Van Calster et al., Calibration: the Achilles heel of predictive analytics, BMC
    Medicine 17 (2019) 230.

    >>> from krisis.metrics import EvaluationResult
    >>> rows = [EvaluationResult(1, truth, confidence=0.9) for truth in (1, 0)]
    >>> round(CalibrationInTheLarge()(rows).value, 4)  # logit 0.5 − logit 0.9
    -2.1972
    """

    name = "Calibration in the Large"
    sloped = False


class CalibrationSlope(_Recalibrated):
    """Whether probabilities are too extreme: slope of logistic recalibration.

    Formula: b of logit P(outcome) = a + b logit p, by maximum likelihood. Direction: neither; 1 is
    best, below it the probabilities are too extreme, above it too modest. Abstained rows are left
    out. Probabilities are clipped to [clip, 1 − clip]. Undefined where all outcomes or all
    probabilities are equal, and where the probability separates the outcomes: no slope is then
    steep enough.

    Reference: Cox, Two further applications of a model for binary regression, Biometrika 45 (1958)
    562–565.

    >>> from krisis.metrics import EvaluationResult
    >>> told = [(0.8, 1), (0.8, 1), (0.8, 0), (0.6, 1), (0.6, 0)]
    >>> rows = [EvaluationResult(1, truth, confidence=p) for p, truth in told]
    >>> round(CalibrationSlope()(rows).value, 4)  # (logit 2/3 − logit 1/2) / (logit .8 − logit .6)
    0.7067
    """

    name = "Calibration Slope"
    sloped = True


class ObservedExpectedRatio(_OfProbability):
    """Outcomes over the number that the probabilities promised.

    Formula: Σ outcome / Σ p. Direction: neither; 1 is best, below it the probabilities are too
    high. Abstained rows are left out. Undefined where the probabilities add up to 0.

    Reference: Riley et al., Evaluation of clinical prediction models (part 2), BMJ 384 (2024)
    e074820.

    >>> from krisis.metrics import EvaluationResult
    >>> rows = [EvaluationResult(1, truth, confidence=0.8) for truth in (1, 1, 0, 0)]
    >>> ObservedExpectedRatio()(rows).value
    0.625
    """

    name = "Observed/Expected Ratio"

    def figure(self, table: Table, outcomes: Outcomes) -> Form | Undefined:
        """Return the ratio."""
        form = ObservedExpected(outcomes)
        return Undefined("no_outcome_is_expected") if math.isnan(form.value()) else form


def clinical_calibration_metrics(of: str = "correct") -> list[BaseMetric]:
    """Return the metrics of calibration that clinical papers report, of one kind of outcome."""
    return [CalibrationInTheLarge(of), CalibrationSlope(of), ObservedExpectedRatio(of)]

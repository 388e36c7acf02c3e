"""What clinicians ask of a test beside its four shares: likelihood ratios and F1.

As for sensitivity, the disease is the positive answer of the task against all its other answers,
and only answered rows count.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

from krisis.json_values import JsonObject
from krisis.metrics.base import BaseMetric, Direction, EvaluationResult, Rows
from krisis.metrics.classification import (
    NO_POSITIVE,
    DiseaseSensitivity,
    DiseaseSpecificity,
    Sides,
    sides_of,
)
from krisis.metrics.forms import Form, Share, Uncertainty, Undefined, Weighted, prior_icc, ratio
from krisis.metrics.table import Answers, BoolArray, FloatArray, IntArray, Table, Units
from krisis.statistics.bootstrap import BootstrapOptions
from krisis.statistics.intervals import Interval
from krisis.statistics.shares import ratio_interval

__all__ = [
    "Answers",
    "DiseaseF1",
    "EvaluationResult",
    "NegativeLikelihoodRatio",
    "OfAnswers",
    "PositiveLikelihoodRatio",
    "Rows",
]

INFINITE = "the_ratio_is_infinite"


class OfAnswers(BaseMetric, ABC):
    """A figure of the answered rows, where the task names a positive answer."""

    direction: ClassVar[Direction] = "higher"
    compared_by_default = False

    def __init__(self, *, group_by: str = "") -> None:
        self.group_by = group_by

    def form(self, table: Table) -> Form | Undefined:
        """Return the figure, where there is a disease and both sides have answers."""
        if table.answers.positive is None:
            return Undefined(NO_POSITIVE)
        for share in (DiseaseSensitivity(), DiseaseSpecificity()) if self.both_sides else ():
            if isinstance(found := share.form(table), Undefined):
                return Undefined(found.reason, {"positive": table.answers.positive})
        return self.of_sides(table, sides_of(table))

    both_sides = True

    @abstractmethod
    def of_sides(self, table: Table, sides: Sides) -> Form | Undefined:
        """Return the figure of the two sides."""

    def details(self, table: Table, form: Form) -> JsonObject:
        """Return the positive answer and the answered rows of both sides."""
        diseased = sides_of(table).diseased
        return {
            "positive": table.answers.positive,
            "n_positive": int(np.count_nonzero(diseased & table.answered)),
            "n_negative": int(np.count_nonzero(~diseased & table.answered)),
        }


class RatioOfShares(Form):
    """The ratio of two shares, or its logarithm, by which two runs are compared."""

    low, high = 0.0, math.inf

    def __init__(self, top: Share, base: Share, *, log: bool = False) -> None:
        self.top, self.base, self.log = top, base, log
        self.slope = 0.0
        if log:
            self.low = -math.inf
            self.slope = 1 / top.value() + 1 / base.value()

    @property
    def n_evaluated(self) -> int:
        """Count the rows of both shares."""
        return self.top.n_evaluated + self.base.n_evaluated

    def value(self) -> float:
        """Return the ratio."""
        quotient = self.top.value() / self.base.value()
        return math.log(quotient) if self.log else quotient

    def on(self, units: Units) -> Weighted:
        """Collect both shares by unit."""
        return _WeightedRatio(self.top.on(units), self.base.on(units), log=self.log)

    def uncertainty(self, table: Table, options: BootstrapOptions) -> Uncertainty:
        """Return the limits of the ratio from those of both shares, patients known."""
        patients = table.patients
        hits, rows = (
            np.array([patients.sums(getattr(one, name)) for one in (self.top, self.base)])
            for name in ("hits", "among")
        )
        found = ratio_interval(hits, rows, level=options.level, prior_icc=prior_icc(table))
        if math.isinf(found.high):
            missing = Interval.undefined(
                "the_upper_limit_is_infinite", level=options.level, method=found.method
            )
            return Uncertainty(missing, {"at_least": found.low})
        return Uncertainty(found)


class _WeightedRatio(Weighted):
    """p/q moves by (p/q)·(dp/p − dq/q), its logarithm by dp/p − dq/q."""

    def __init__(self, top: Weighted, base: Weighted, *, log: bool) -> None:
        self.top, self.base, self.log = top, base, log

    def values(self, weights: FloatArray) -> FloatArray:
        quotient = ratio(self.top.values(weights), self.base.values(weights))
        with np.errstate(divide="ignore"):
            value: FloatArray = np.log(quotient) if self.log else quotient
        return np.where(np.isfinite(value), value, math.nan)

    def influences(self, weights: FloatArray) -> FloatArray | None:
        top, base = self.top.influences(weights), self.base.influences(weights)
        assert top is not None
        assert base is not None
        p, q = self.top.values(weights), self.base.values(weights)
        if self.log:
            return ratio(top, p) - ratio(base, q)
        return ratio(top, q) - ratio(p, q * q) * base


class _LikelihoodRatio(OfAnswers):
    """The share of the diseased who got an answer over the share of the others who got it."""

    @abstractmethod
    def called(self, sides: Sides) -> BoolArray:
        """Return the rows that got the answer."""

    comparison_reason = "as ratios are multiples"
    never: str

    def of_sides(self, table: Table, sides: Sides) -> Form | Undefined:
        """Return the ratio; without the answer among the others it is infinite, or 0/0."""
        return self._ratio(table, sides, log=False)

    def comparison_form(self, table: Table) -> Form | Undefined:
        """Return the logarithm, for ratios are compared by how many times one is the other."""
        form = self.form(table)
        if isinstance(form, Undefined):
            return form
        if form.value() == 0:
            return Undefined("the_ratio_is_0_and_has_no_logarithm")
        return self._ratio(table, sides_of(table), log=True)

    def _ratio(self, table: Table, sides: Sides, *, log: bool) -> Form | Undefined:
        called, answered = self.called(sides), table.answered
        top = Share(called, among=sides.diseased & answered)
        base = Share(called, among=~sides.diseased & answered)
        known = {"positive": table.answers.positive, **_counts(top, base)}
        if not top.n_hits and not base.n_hits:
            return Undefined(self.never, known)
        form = RatioOfShares(top, base, log=log and top.n_hits > 0 and base.n_hits > 0)
        if base.n_hits:
            return form
        # Nobody without the disease got the answer: only a lower limit is known.
        beside = form.uncertainty(table, BootstrapOptions()).details
        return Undefined(INFINITE, {**known, **beside})

    def details(self, table: Table, form: Form) -> JsonObject:
        """Return the counts of both shares."""
        assert isinstance(form, RatioOfShares)
        return {**super().details(table, form), **_counts(form.top, form.base)}


def _counts(top: Share, base: Share) -> JsonObject:
    return {"n_called_of_positive": top.n_hits, "n_called_of_negative": base.n_hits}


class PositiveLikelihoodRatio(_LikelihoodRatio):
    """How many times more often the positive answer is given with the disease than without.

    Formula: (positive answers / answered cases with the disease) / (positive answers / answered
    cases without it), which is sensitivity / (1 − specificity) where every answer is on a side.
    Direction: higher, at equal coverage; 1 tells nothing. Abstained rows are left out. Without a
    false alarm the ratio is infinite: undefined, with ``at_least`` its lower 95 % limit.
    Runs are compared by its logarithm.

    Reference: Deeks and Altman, Diagnostic tests 4: likelihood ratios, BMJ 329 (2004) 168–169.

    >>> rows = [EvaluationResult(answer, truth) for answer, truth in [(1, 1), (1, 0), (0, 0)]]
    >>> PositiveLikelihoodRatio()(Rows(rows, Answers((0, 1), positive=1))).value
    2.0
    """

    name = "Disease LR+"
    key = "disease_lr_positive"
    comparison_name = "log LR+"
    never = "the_positive_answer_was_never_given"

    def called(self, sides: Sides) -> BoolArray:
        """Return the positive answers."""
        return sides.called_positive


class NegativeLikelihoodRatio(_LikelihoodRatio):
    """How many times as often another answer is given with the disease as without.

    Formula: (other answers / answered cases with the disease) / (other answers / answered cases
    without it), which is (1 − sensitivity) / specificity where every answer is on a side.
    Direction: lower, at equal coverage; 1 tells nothing. Abstentions and an infinite ratio as for
    `PositiveLikelihoodRatio`.

    Reference: Deeks and Altman, Diagnostic tests 4: likelihood ratios, BMJ 329 (2004) 168–169.

    >>> rows = [EvaluationResult(a, t) for a, t in [(1, 1), (0, 1), (0, 0), (0, 0)]]
    >>> NegativeLikelihoodRatio()(Rows(rows, Answers((0, 1), positive=1))).value
    0.5
    """

    name = "Disease LR−"
    key = "disease_lr_negative"
    direction = "lower"
    comparison_name = "log LR−"
    never = "only_the_positive_answer_was_given"

    def called(self, sides: Sides) -> BoolArray:
        """Return the other answers."""
        return sides.called_negative


class _F1Form(Share):
    """F1 = 2J/(1 + J), J the share of right ones among all rows that are positive in any way."""

    def __init__(self, hits: BoolArray, *, among: BoolArray) -> None:
        super().__init__(hits, among=among)
        self.slope = 2 / (1 + super().value()) ** 2

    def value(self) -> float:
        """Return 2·right / (2·right + false alarms + missed)."""
        return float(_f1(super().value()))

    def by_group(self, codes: IntArray, n_groups: int) -> FloatArray:
        """Return the F1 of every group."""
        return _f1(super().by_group(codes, n_groups))

    def on(self, units: Units) -> Weighted:
        """Collect J by unit."""
        return _WeightedF1(super().on(units))

    def uncertainty(self, table: Table, options: BootstrapOptions) -> Uncertainty:
        """Return the limits of J on the scale of F1, which keeps their order."""
        found = super().uncertainty(table, options).interval
        ends = float(_f1(found.low)), float(_f1(found.high))
        return Uncertainty(Interval(*ends, found.level, found.method))


def _f1(share: FloatArray | float) -> FloatArray:
    return np.asarray(2 * np.asarray(share) / (1 + np.asarray(share)), dtype=np.float64)


class _WeightedF1(Weighted):
    """F1 moves with J by 2/(1 + J)²."""

    def __init__(self, share: Weighted) -> None:
        self.share = share

    def values(self, weights: FloatArray) -> FloatArray:
        return _f1(self.share.values(weights))

    def influences(self, weights: FloatArray) -> FloatArray | None:
        moved = self.share.influences(weights)
        assert moved is not None
        return moved * 2 / (1 + self.share.values(weights)) ** 2


class DiseaseF1(OfAnswers):
    """Harmonic mean of sensitivity and positive predictive value.

    Formula: 2·right positive answers / (2·right positive answers + false alarms + missed).
    Direction: higher, at equal coverage. Abstained rows are left out. It ignores the cleared cases
    and moves with the prevalence among the cases. Undefined where the positive answer is neither
    true nor given anywhere.

    Reference: van Rijsbergen, Information Retrieval (1979), chapter 7.

    >>> rows = [EvaluationResult(a, t) for a, t in [(1, 1), (0, 1), (1, 0), (0, 0)]]
    >>> DiseaseF1()(Rows(rows, Answers((0, 1), positive=1))).value
    0.5
    """

    name = "Disease F1"
    both_sides = False

    def of_sides(self, table: Table, sides: Sides) -> Form | Undefined:
        """Return the share of right ones on the scale of F1."""
        among = (sides.diseased & table.answered) | sides.called_positive
        if among.any():
            return _F1Form(sides.diseased & sides.called_positive, among=among)
        answered = "no_answered_case_is_or_is_called_positive"
        reason = "no_non_abstained_predictions" if not table.answered.any() else answered
        return Undefined(reason if table.n_scored else "no_scored_rows")

    def details(self, table: Table, form: Form) -> JsonObject:
        """Return the three counts that it is made of."""
        assert isinstance(form, _F1Form)
        sides, known = sides_of(table), super().details(table, form)
        n_alarms = int(np.count_nonzero(sides.called_positive & ~sides.diseased))
        n_missed = known["n_positive"] - form.n_hits
        return {**known, "n_right": form.n_hits, "n_alarms": n_alarms, "n_missed": n_missed}

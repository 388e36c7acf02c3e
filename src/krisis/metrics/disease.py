"""How well the disease itself is told: sensitivity, predictive values, likelihood ratios, F1.

The disease is the positive answer of the task, taken against all its other answers together. What
is said here of abstentions holds for all these metrics: by default they leave both counts.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from krisis.json_values import JsonObject
from krisis.metrics.base import BaseMetric, Direction, GroupedMetric
from krisis.metrics.columns import NO_LABEL
from krisis.metrics.forms import Form, Share, Uncertainty, Undefined, Weighted, prior_icc, ratio
from krisis.metrics.table import BoolArray, FloatArray, IntArray, Table, Units
from krisis.statistics.bootstrap import BootstrapOptions
from krisis.statistics.intervals import Interval
from krisis.statistics.shares import ratio_interval

NO_POSITIVE = "task_names_no_positive_answer"
INFINITE = "the_ratio_is_infinite"
# Free texts are no answers of a task: a matrix of them would only be long.
MOST_ANSWERS = 40


@dataclass(frozen=True, slots=True)
class Sides:
    """Who has the disease, and who was said to have it or not to have it."""

    diseased: BoolArray
    called_positive: BoolArray
    called_negative: BoolArray

    @classmethod
    def of(cls, table: Table) -> Sides:
        """Read the sides; an answer that the task does not know is on neither."""
        answers = table.answers
        code = {label: i for i, label in enumerate(table.labels)}
        positive = code.get(answers.key(answers.positive), len(code))
        known = set(answers.keys) or code.keys()
        others = [i for label, i in code.items() if label in known and i != positive]
        return cls(
            table.truth == positive,
            table.answered & (table.prediction == positive),
            table.answered & np.isin(table.prediction, others),
        )

    @property
    def healthy(self) -> BoolArray:
        """Who does not have the disease."""
        return ~self.diseased


def sides_of(table: Table) -> Sides:
    """Return the sides of a table, read once."""
    return table.shared("disease", lambda: Sides.of(table))


class OfDisease(GroupedMetric, ABC):
    """A figure of the disease, where the task names a positive answer."""

    direction: ClassVar[Direction] = "higher"
    # More tests make each of them weaker: comparisons leave these out until they are named.
    compared_by_default = False
    both_sides: ClassVar[bool] = True  # undefined unless both sides have answers

    def form(self, table: Table) -> Form | Undefined:
        """Return the figure, where there is a disease and the sides that it needs have answers."""
        positive = table.answers.positive
        if positive is None:
            return Undefined(NO_POSITIVE, self.beside(table))
        for share in (DiseaseSensitivity(), DiseaseSpecificity()) if self.both_sides else ():
            if isinstance(found := share.form(table), Undefined):
                return Undefined(found.reason, {"positive": positive})
        return self.of_sides(table, sides_of(table))

    @abstractmethod
    def of_sides(self, table: Table, sides: Sides) -> Form | Undefined:
        """Return the figure of the two sides."""

    def beside(self, table: Table) -> JsonObject:
        """Return what is known without a positive answer too."""
        return {}

    def details(self, table: Table, form: Form) -> JsonObject:
        """Return the positive answer and the answered rows of both sides."""
        sides = sides_of(table)
        return {
            "positive": table.answers.positive,
            "n_positive": int(np.count_nonzero(sides.diseased & table.answered)),
            "n_negative": int(np.count_nonzero(sides.healthy & table.answered)),
        }


class _ShareOfDisease(OfDisease):
    """A share of hits among some rows; ``hits`` and ``rows`` name columns of `Sides`."""

    both_sides = False
    hits: ClassVar[str]
    rows: ClassVar[str]
    no_case: ClassVar[str]
    count_abstentions = False

    def of_sides(self, table: Table, sides: Sides) -> Form | Undefined:
        """Return hits / answered rows, or / all rows."""
        rows = getattr(sides, self.rows)
        among = rows if self.count_abstentions else rows & table.answered
        share = Share(getattr(sides, self.hits), among=among)
        if share.n_evaluated:
            return share
        reason = self.reason(table, rows) if table.n_scored else "no_scored_rows"
        return Undefined(reason, {"positive": table.answers.positive, **self.beside(table)})

    def reason(self, table: Table, rows: BoolArray) -> str:
        """Say why no row can be judged."""
        return self.no_case if table.answered.any() else "no_non_abstained_predictions"

    def details(self, table: Table, form: Form) -> JsonObject:
        """Return the positive answer and both counts."""
        assert isinstance(form, Share)
        return {
            "positive": table.answers.positive,
            "n_right": form.n_hits,
            "n_wrong": form.n_evaluated - form.n_hits,
            **self.beside(table),
        }


class _ByTruth(_ShareOfDisease):
    """A share of the rows with, or without, the disease."""

    def __init__(self, *, count_abstentions: bool = False, group_by: str = "") -> None:
        super().__init__(group_by=group_by)
        self.count_abstentions = count_abstentions

    def n_missing(self, table: Table) -> int:
        """Count the rows of this side that were not evaluated."""
        n_diseased = table.missing_truths.count(table.answers.key(table.answers.positive))
        return n_diseased if self.rows == "diseased" else table.n_not_evaluated - n_diseased

    def reason(self, table: Table, rows: BoolArray) -> str:
        """Say whether there is no such case or no such answer."""
        return "every_such_case_was_abstained_from" if rows.any() else self.no_case

    def details(self, table: Table, form: Form) -> JsonObject:
        """Return the counts, and the share of all such cases with abstentions as errors."""
        hits, rows = (getattr(sides_of(table), name) for name in (self.hits, self.rows))
        n_all = int(np.count_nonzero(rows))
        return {
            **super().details(table, form),
            "n_abstained": int(np.count_nonzero(rows & table.abstained)),
            "n_no_answer": int(np.count_nonzero(rows & table.no_answer)),
            "n_cases": n_all,
            "end_to_end": int(np.count_nonzero(hits & rows)) / n_all if n_all else math.nan,
        }


class DiseaseSensitivity(_ByTruth):
    """Share of the cases with the disease that the model says have it.

    Formula: answered positive, rightly / answered cases whose truth is the positive answer of the
    task; all other answers count as one. Direction: higher, at equal coverage. Abstained cases are
    left out; with ``count_abstentions`` they are in the denominator as not detected, and that
    figure is always beside the other, as ``details["end_to_end"]``. An answer without a
    prediction is an error. Undefined where the task names no positive answer; the confusion
    matrix is in the details all the same.

    Reference: Altman and Bland, Diagnostic tests 1: sensitivity and specificity, BMJ 308 (1994)
    1552.

    >>> from krisis.metrics import Answers, EvaluationResult, Rows
    >>> rows = [EvaluationResult(1, 1), EvaluationResult(0, 1), EvaluationResult(None, 1, True)]
    >>> score = DiseaseSensitivity()(Rows(rows, Answers((0, 1), positive=1)))
    >>> score.value, round(score.details["end_to_end"], 3)
    (0.5, 0.333)
    """

    name = "Disease Sensitivity"
    key = "disease_sensitivity"
    hits, rows = "called_positive", "diseased"
    no_case = "no_case_has_the_positive_answer"

    def beside(self, table: Table) -> JsonObject:
        """Return the confusion matrix of all answers."""
        matrix = confusion_matrix(table)
        return {"confusion_matrix": matrix} if matrix else {}


class DiseaseSpecificity(_ByTruth):
    """Share of the cases without the disease that the model says do not have it.

    Formula: another answer than the positive one / answered cases whose truth is another than the
    positive answer; which other answer is given does not matter. Direction: higher, at equal
    coverage. Abstentions as for `DiseaseSensitivity`: left out, or with ``count_abstentions`` in
    the denominator as not cleared.

    Reference: Altman and Bland, Diagnostic tests 1: sensitivity and specificity, BMJ 308 (1994)
    1552.

    >>> from krisis.metrics import Answers, EvaluationResult, Rows
    >>> rows = Rows([EvaluationResult(1, 0), EvaluationResult(0, 0)], Answers((0, 1), positive=1))
    >>> DiseaseSpecificity()(rows).value
    0.5
    """

    name = "Disease Specificity"
    key = "disease_specificity"
    hits, rows = "called_negative", "healthy"
    no_case = "every_case_has_the_positive_answer"


class DiseasePPV(_ShareOfDisease):
    """Share of the cases said to have the disease that have it: the positive predictive value.

    Formula: right positive answers / positive answers. Direction: higher. Abstained cases are in
    neither count. It moves with the prevalence among the cases of the suite, and holds for no
    other.

    Reference: Altman and Bland, Diagnostic tests 2: predictive values, BMJ 309 (1994) 102.

    >>> from krisis.metrics import Answers, EvaluationResult, Rows
    >>> rows = Rows([EvaluationResult(1, 1), EvaluationResult(1, 0)], Answers((0, 1), positive=1))
    >>> DiseasePPV()(rows).value
    0.5
    """

    name = "Disease PPV"
    key = "disease_ppv"
    hits, rows = "diseased", "called_positive"
    no_case = "the_positive_answer_was_never_given"


class DiseaseNPV(_ShareOfDisease):
    """Share of the cases said not to have the disease that do not: the negative predictive value.

    Formula: other answers where the truth is another than the positive answer / other answers.
    Direction: higher. Abstentions and prevalence as for `DiseasePPV`.

    Reference: Altman and Bland, Diagnostic tests 2: predictive values, BMJ 309 (1994) 102.

    >>> from krisis.metrics import Answers, EvaluationResult, Rows
    >>> rows = Rows([EvaluationResult(0, 1), EvaluationResult(0, 0)], Answers((0, 1), positive=1))
    >>> DiseaseNPV()(rows).value
    0.5
    """

    name = "Disease NPV"
    key = "disease_npv"
    hits, rows = "healthy", "called_negative"
    no_case = "only_the_positive_answer_was_given"


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


class _LikelihoodRatio(OfDisease):
    """The share of the diseased who got an answer over the share of the others who got it."""

    comparison_reason = "as ratios are multiples"
    called: ClassVar[str]  # the answer, as a column of `Sides`
    never: ClassVar[str]

    def of_sides(self, table: Table, sides: Sides, *, log: bool = False) -> Form | Undefined:
        """Return the ratio; without the answer among the others it is infinite, or 0/0."""
        called, answered = getattr(sides, self.called), table.answered
        top = Share(called, among=sides.diseased & answered)
        base = Share(called, among=sides.healthy & answered)
        known = {"positive": table.answers.positive, **_counts(top, base)}
        if not top.n_hits and not base.n_hits:
            return Undefined(self.never, known)
        form = RatioOfShares(top, base, log=log)
        if base.n_hits:
            return form
        # Nobody without the disease got the answer: only a lower limit is known.
        beside = form.uncertainty(table, BootstrapOptions()).details
        return Undefined(INFINITE, {**known, **beside})

    def comparison_form(self, table: Table) -> Form | Undefined:
        """Return the logarithm, for ratios are compared by how many times one is the other."""
        form = self.form(table)
        if isinstance(form, Undefined):
            return form
        if form.value() == 0:
            return Undefined("the_ratio_is_0_and_has_no_logarithm")
        return self.of_sides(table, sides_of(table), log=True)

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

    >>> from krisis.metrics import Answers, EvaluationResult, Rows
    >>> rows = [EvaluationResult(answer, truth) for answer, truth in [(1, 1), (1, 0), (0, 0)]]
    >>> PositiveLikelihoodRatio()(Rows(rows, Answers((0, 1), positive=1))).value
    2.0
    """

    name = "Disease LR+"
    key = "disease_lr_positive"
    comparison_name = "log LR+"
    never = "the_positive_answer_was_never_given"
    called = "called_positive"


class NegativeLikelihoodRatio(_LikelihoodRatio):
    """How many times as often another answer is given with the disease as without.

    Formula: (other answers / answered cases with the disease) / (other answers / answered cases
    without it), which is (1 − sensitivity) / specificity where every answer is on a side.
    Direction: lower, at equal coverage; 1 tells nothing. Abstentions and an infinite ratio as for
    `PositiveLikelihoodRatio`.

    Reference: Deeks and Altman, Diagnostic tests 4: likelihood ratios, BMJ 329 (2004) 168–169.

    >>> from krisis.metrics import Answers, EvaluationResult, Rows
    >>> rows = [EvaluationResult(a, t) for a, t in [(1, 1), (0, 1), (0, 0), (0, 0)]]
    >>> NegativeLikelihoodRatio()(Rows(rows, Answers((0, 1), positive=1))).value
    0.5
    """

    name = "Disease LR−"
    key = "disease_lr_negative"
    direction = "lower"
    comparison_name = "log LR−"
    never = "only_the_positive_answer_was_given"
    called = "called_negative"


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


class DiseaseF1(OfDisease):
    """Harmonic mean of sensitivity and positive predictive value.

    Formula: 2·right positive answers / (2·right positive answers + false alarms + missed).
    Direction: higher, at equal coverage. Abstained rows are left out. It ignores the cleared cases
    and moves with the prevalence among the cases. Undefined where the positive answer is neither
    true nor given anywhere.

    Reference: van Rijsbergen, Information Retrieval (1979), chapter 7.

    >>> from krisis.metrics import Answers, EvaluationResult, Rows
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


def confusion_matrix(table: Table) -> JsonObject:
    """Count truth against answer; abstentions, replies without an answer and missing rows apart.

    ``labels`` are the answers of the task in its order, then others that were seen; ``counts`` has
    a line per true label with one count per answer. Empty for more labels than can be read.
    """
    known = list(table.answers.keys)
    seen = sorted(set(table.labels) - set(known), key=lambda label: (isinstance(label, str), label))
    labels = [*known, *seen]
    n = len(labels)
    if not table.n_scored or n > MOST_ANSWERS:
        return {}
    place = np.array([labels.index(label) for label in table.labels], dtype=np.int64)
    # After the answers come those without a prediction, then the abstained.
    given = np.where(table.prediction == NO_LABEL, n, place[table.prediction])
    column = np.where(table.abstained, n + 1, given)
    cells = np.bincount(place[table.truth] * (n + 2) + column, minlength=n * (n + 2))
    counts = cells.reshape(n, n + 2).tolist()
    missing = Counter(table.missing_truths)
    return {
        "labels": labels,
        "counts": [line[:n] for line in counts],
        "no_answer": [line[n] for line in counts],
        "abstained": [line[n + 1] for line in counts],
        "not_evaluated": [missing[label] for label in labels],
    }


def default_classification_metrics() -> list[BaseMetric]:
    """Return the metrics of the disease."""
    return [DiseaseSensitivity(), DiseaseSpecificity(), DiseasePPV(), DiseaseNPV()]

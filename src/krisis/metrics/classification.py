"""How well the disease itself is told: sensitivity, specificity, predictive values, confusion.

The disease is the positive answer of the task, taken against all its other answers together. What
is said here of abstentions holds for all four metrics: by default they leave both counts.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import dataclass

import numpy as np

from krisis.json_values import JsonObject
from krisis.metrics.base import BaseMetric, EvaluationResult
from krisis.metrics.columns import NO_LABEL
from krisis.metrics.forms import Form, Share, Undefined
from krisis.metrics.table import BoolArray, Table

__all__ = [
    "DiseaseNPV",
    "DiseasePPV",
    "DiseaseSensitivity",
    "DiseaseSpecificity",
    "EvaluationResult",
    "Sides",
    "confusion_matrix",
    "default_classification_metrics",
    "sides_of",
]

NO_POSITIVE = "task_names_no_positive_answer"
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


def sides_of(table: Table) -> Sides:
    """Return the sides of a table, read once."""
    return table.shared("disease", lambda: Sides.of(table))


class _OfDisease(BaseMetric, ABC):
    """A share of hits among some rows, both told from the positive answer of the task."""

    direction = "higher"
    # More tests make each of them weaker: comparisons leave these out until they are named.
    compared_by_default = False

    def __init__(self, *, group_by: str = "") -> None:
        self.group_by = group_by

    def form(self, table: Table) -> Form | Undefined:
        """Return hits / rows, where the task names a positive answer and there are such rows."""
        if table.answers.positive is None:
            return Undefined(NO_POSITIVE, self.beside(table))
        share = self.share(table, sides_of(table))
        if share.n_evaluated:
            return share
        known = {"positive": table.answers.positive, **self.beside(table)}
        return Undefined(self.reason(table), known)

    @abstractmethod
    def share(self, table: Table, sides: Sides) -> Share:
        """Return the share that the metric is."""

    @abstractmethod
    def reason(self, table: Table) -> str:
        """Say why there is no row to judge."""

    def beside(self, table: Table) -> JsonObject:
        """Return what is known without a positive answer too."""
        return {}

    def details(self, table: Table, form: Form) -> JsonObject:
        """Return the positive answer and both counts."""
        assert isinstance(form, Share)
        return {
            "positive": table.answers.positive,
            "n_right": form.n_hits,
            "n_wrong": form.n_evaluated - form.n_hits,
            **self.beside(table),
        }


class _ByTruth(_OfDisease):
    """A share of the rows with, or without, the disease."""

    def __init__(self, *, count_abstentions: bool = False, group_by: str = "") -> None:
        self.count_abstentions = count_abstentions
        self.group_by = group_by

    @abstractmethod
    def among(self, sides: Sides) -> tuple[BoolArray, BoolArray]:
        """Return the hits and all rows of this side, answered or not."""

    def share(self, table: Table, sides: Sides) -> Share:
        """Return hits / answered rows of this side, or / all its rows."""
        hits, rows = self.among(sides)
        return Share(hits, among=rows if self.count_abstentions else rows & table.answered)

    def n_missing(self, table: Table) -> int:
        """Count the rows of this side that were not evaluated."""
        positive = table.answers.key(table.answers.positive)
        n_diseased = table.missing_truths.count(positive)
        return n_diseased if self.of_diseased else table.n_not_evaluated - n_diseased

    def reason(self, table: Table) -> str:
        """Say whether there is no such case or no such answer."""
        _, rows = self.among(sides_of(table))
        if not table.n_scored:
            return "no_scored_rows"
        return "every_such_case_was_abstained_from" if rows.any() else self.no_case

    no_case: str
    of_diseased: bool  # the side that it counts

    def details(self, table: Table, form: Form) -> JsonObject:
        """Return the counts, and the share of all such cases with abstentions as errors."""
        hits, rows = self.among(sides_of(table))
        n_all = int(np.count_nonzero(rows))
        n_right = int(np.count_nonzero(hits & rows))
        return {
            **super().details(table, form),
            "n_abstained": int(np.count_nonzero(rows & table.abstained)),
            "n_no_answer": int(np.count_nonzero(rows & table.no_answer)),
            "n_cases": n_all,
            "end_to_end": n_right / n_all if n_all else math.nan,
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

    >>> from krisis.metrics.base import Rows
    >>> from krisis.metrics.table import Answers
    >>> rows = [EvaluationResult(1, 1), EvaluationResult(0, 1), EvaluationResult(None, 1, True)]
    >>> score = DiseaseSensitivity()(Rows(rows, Answers((0, 1), positive=1)))
    >>> score.value, round(score.details["end_to_end"], 3)
    (0.5, 0.333)
    """

    name = "Disease Sensitivity"
    key = "disease_sensitivity"
    no_case = "no_case_has_the_positive_answer"
    of_diseased = True

    def among(self, sides: Sides) -> tuple[BoolArray, BoolArray]:
        """Return who was detected among those with the disease."""
        return sides.called_positive, sides.diseased

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

    >>> from krisis.metrics.base import Rows
    >>> from krisis.metrics.table import Answers
    >>> rows = Rows([EvaluationResult(1, 0), EvaluationResult(0, 0)], Answers((0, 1), positive=1))
    >>> DiseaseSpecificity()(rows).value
    0.5
    """

    name = "Disease Specificity"
    key = "disease_specificity"
    no_case = "every_case_has_the_positive_answer"
    of_diseased = False

    def among(self, sides: Sides) -> tuple[BoolArray, BoolArray]:
        """Return who was cleared among those without the disease."""
        return sides.called_negative, ~sides.diseased


def _unanswered(table: Table) -> str:
    """Return why no answer of any kind was given, or nothing."""
    if table.answered.any():
        return ""
    return "no_non_abstained_predictions" if table.n_scored else "no_scored_rows"


class DiseasePPV(_OfDisease):
    """Share of the cases said to have the disease that have it: the positive predictive value.

    Formula: right positive answers / positive answers. Direction: higher. Abstained cases are in
    neither count. It moves with the prevalence among the cases of the suite, and holds for no
    other.

    Reference: Altman and Bland, Diagnostic tests 2: predictive values, BMJ 309 (1994) 102.

    >>> from krisis.metrics.base import Rows
    >>> from krisis.metrics.table import Answers
    >>> rows = Rows([EvaluationResult(1, 1), EvaluationResult(1, 0)], Answers((0, 1), positive=1))
    >>> DiseasePPV()(rows).value
    0.5
    """

    name = "Disease PPV"
    key = "disease_ppv"

    def share(self, table: Table, sides: Sides) -> Share:
        """Return right positive answers / positive answers."""
        return Share(sides.diseased, among=sides.called_positive)

    def reason(self, table: Table) -> str:
        """Say that nobody was said to have the disease."""
        return _unanswered(table) or "the_positive_answer_was_never_given"


class DiseaseNPV(_OfDisease):
    """Share of the cases said not to have the disease that do not: the negative predictive value.

    Formula: other answers where the truth is another than the positive answer / other answers.
    Direction: higher. Abstentions and prevalence as for `DiseasePPV`.

    Reference: Altman and Bland, Diagnostic tests 2: predictive values, BMJ 309 (1994) 102.

    >>> from krisis.metrics.base import Rows
    >>> from krisis.metrics.table import Answers
    >>> rows = Rows([EvaluationResult(0, 1), EvaluationResult(0, 0)], Answers((0, 1), positive=1))
    >>> DiseaseNPV()(rows).value
    0.5
    """

    name = "Disease NPV"
    key = "disease_npv"

    def share(self, table: Table, sides: Sides) -> Share:
        """Return right other answers / other answers."""
        return Share(~sides.diseased, among=sides.called_negative)

    def reason(self, table: Table) -> str:
        """Say that nobody was said to be without the disease."""
        return _unanswered(table) or "only_the_positive_answer_was_given"


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

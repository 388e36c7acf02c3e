"""How often the model declined, how right it was when it did not, and whether it chose well."""

from __future__ import annotations

import math

import numpy as np

from krisis.json_values import JsonObject
from krisis.metrics.base import BaseMetric, EvaluationResult
from krisis.metrics.forms import Form, Share, Undefined
from krisis.metrics.table import BoolArray, Table

__all__ = [
    "AbstentionRate",
    "AnswerRate",
    "DeferralAlignment",
    "EvaluationResult",
    "SelectiveAccuracy",
    "default_abstention_metrics",
]


class _ShareOfRows(BaseMetric):
    """A share of all scored rows, broken down by a metadata column."""

    def __init__(self, *, group_by: str = "") -> None:
        self.group_by = group_by

    def _share(self, table: Table, hits: BoolArray) -> Form | Undefined:
        if not table.n_scored:
            return Undefined("no_scored_rows", {"n_answered": 0})
        return Share(hits, among=table.everyone)

    def details(self, table: Table, form: Form) -> JsonObject:
        """Return how many rows were answered."""
        return {"n_answered": table.n_scored - table.n_abstained}


class AnswerRate(_ShareOfRows):
    """Share of rows on which the model attempted an answer, also called coverage.

    Formula: answered / all rows. Direction: neither, for it is read together with selective
    accuracy.

    Reference: El-Yaniv and Wiener, On the foundations of noise-free selective classification,
    JMLR 11 (2010) 1605–1641.

    >>> AnswerRate()([EvaluationResult(1, 1), EvaluationResult(None, 1, True)]).value
    0.5
    """

    name = "Answer Rate (Coverage)"
    key = "answer_rate"

    def form(self, table: Table) -> Form | Undefined:
        """Return answered / all."""
        return self._share(table, table.answered)


class AbstentionRate(_ShareOfRows):
    """Share of rows on which the model declined to answer.

    Formula: abstained / all rows. Direction: neither, for to abstain is right on some cases and
    wrong on others (see `DeferralAlignment`). Failed rows are in neither count.

    Reference: Chow, On optimum recognition error and reject tradeoff, IEEE Transactions on
    Information Theory 16 (1970) 41–46.

    >>> AbstentionRate()([EvaluationResult(1, 1), EvaluationResult(None, 1, True)]).value
    0.5
    """

    name = "Abstention Rate"
    key = "abstention_rate"

    def form(self, table: Table) -> Form | Undefined:
        """Return abstained / all."""
        return self._share(table, table.abstained)


class SelectiveAccuracy(BaseMetric):
    """Share of the answered rows that are correct.

    Formula: correct / answered. Direction: higher, but only at equal coverage. Abstained rows are
    left out; an answered row without a prediction is wrong.

    Reference: Geifman and El-Yaniv, Selective classification for deep neural networks,
    NeurIPS 2017.

    >>> rows = [EvaluationResult(1, 1), EvaluationResult(0, 1), EvaluationResult(None, 1, True)]
    >>> SelectiveAccuracy()(rows).value
    0.5
    """

    name = "Selective Accuracy (answered only)"
    key = "selective_accuracy"
    direction = "higher"

    def __init__(self, *, group_by: str = "") -> None:
        self.group_by = group_by

    def form(self, table: Table) -> Form | Undefined:
        """Return correct / answered."""
        share = Share(table.correct, among=table.answered)
        if share.n_evaluated:
            return share
        return Undefined("no_non_abstained_predictions", {"n_correct": 0, "n_incorrect": 0})

    def details(self, table: Table, form: Form) -> JsonObject:
        """Return both counts."""
        assert isinstance(form, Share)
        return {"n_correct": form.n_hits, "n_incorrect": form.n_evaluated - form.n_hits}


class DeferralAlignment(BaseMetric):
    """Share of the labelled rows on which the model deferred exactly when the case asked for it.

    Formula: mean [should_abstain = abstained] over the rows whose metadata say so. Direction:
    higher. Because the plain share rewards whoever follows the commoner label, the details add
    sensitivity (deferred when needed), specificity (answered when safe), their mean, the Matthews
    correlation, and what always answering and always deferring would have scored on these rows.

    Reference: Matthews, Comparison of the predicted and observed secondary structure of T4 phage
    lysozyme, BBA 405 (1975) 442–451, for the correlation.

    >>> rows = [
    ...     EvaluationResult(None, 1, True, metadata={"should_abstain": True}),
    ...     EvaluationResult(1, 1, metadata={"should_abstain": True}),
    ...     EvaluationResult(1, 1, metadata={"should_abstain": False}),
    ...     EvaluationResult(1, 1, metadata={"should_abstain": False}),
    ... ]
    >>> score = DeferralAlignment()(rows)
    >>> score.value, score.details["always_answer"]
    (0.75, 0.5)
    """

    name = "Deferral Alignment"
    key = "deferral_alignment"
    direction = "higher"

    def __init__(self, *, group_by: str = "") -> None:
        self.group_by = group_by

    def form(self, table: Table) -> Form | Undefined:
        """Return the aligned share of the labelled rows."""
        if table.unreadable_deferral:
            return Undefined(table.unreadable_deferral, _NO_LABELS)
        labelled = table.should_abstain >= 0
        share = Share((table.should_abstain == 1) == table.abstained, among=labelled)
        return share if share.n_evaluated else Undefined("no_should_abstain_metadata", _NO_LABELS)

    def details(self, table: Table, form: Form) -> JsonObject:
        """Return both sides of the alignment."""
        # −1, 0 and 1, each answered and abstained
        count = np.bincount(2 * table.should_abstain + table.abstained + 2, minlength=6).tolist()
        confusion = {
            "defer_when_needed": count[5],
            "answer_when_safe": count[2],
            "abstain_when_should_answer": count[3],
            "answer_when_should_defer": count[4],
        }
        return {"n_labeled": form.n_evaluated, "confusion": confusion, **two_sided(confusion)}


_NO_LABELS = {"n_labeled": 0}


def two_sided(confusion: dict[str, int]) -> dict[str, float]:
    """Return what one share hides: both error rates and the trivial policies' scores."""
    deferred, answered = confusion["defer_when_needed"], confusion["answer_when_safe"]
    missed, needless = (
        confusion["answer_when_should_defer"],
        confusion["abstain_when_should_answer"],
    )
    n_due, n_safe = deferred + missed, answered + needless
    sensitivity = deferred / n_due if n_due else math.nan
    specificity = answered / n_safe if n_safe else math.nan
    spread = math.sqrt(n_due * n_safe * (deferred + needless) * (answered + missed))
    return {
        "sensitivity": sensitivity,
        "specificity": specificity,
        "balanced_alignment": (sensitivity + specificity) / 2,
        "mcc": (deferred * answered - needless * missed) / spread if spread else math.nan,
        "always_answer": n_safe / (n_due + n_safe),
        "always_defer": n_due / (n_due + n_safe),
    }


def default_abstention_metrics() -> list[BaseMetric]:
    """Return the metrics of declining to answer."""
    return [AnswerRate(), SelectiveAccuracy(), AbstentionRate(), DeferralAlignment()]

"""How often the model declined, how right it was when it did not, and whether it chose well."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from krisis.metrics.base import BaseMetric, EvaluationResult, MetricScore, columns_of
from krisis.metrics.columns import BoolArray
from krisis.metrics.intervals import Uncertainty, share_of

NO_ROWS = "no_scored_rows"


class _ShareOfRows(BaseMetric):
    """A share of all scored rows, broken down by a metadata column."""

    def __init__(self, *, group_by: str = "stage") -> None:
        self.group_by = group_by

    def _share_of(self, results: Sequence[EvaluationResult], counted: str) -> Uncertainty:
        columns = columns_of(results)
        everyone = np.ones(columns.n_scored, dtype=np.bool_)
        return share_of(columns, getattr(columns, counted), everyone)

    def _share(self, results: Sequence[EvaluationResult], counted: str) -> MetricScore:
        columns = columns_of(results)
        hits: BoolArray = getattr(columns, counted)
        n_answered = columns.n_scored - columns.n_abstained
        if columns.n_scored == 0:
            return MetricScore.undefined(self.name, NO_ROWS, n_answered=0)
        everyone = np.ones(columns.n_scored, dtype=np.bool_)
        return MetricScore(
            self.name,
            float(hits.mean()),
            columns.group_means(self.group_by, hits, everyone),
            columns.n_scored,
            columns.n_abstained,
            {"n_answered": n_answered},
        )


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

    def compute(self, results: Sequence[EvaluationResult]) -> MetricScore:
        """Return answered / all."""
        return self._share(results, "answered")

    def uncertainty(self, results: Sequence[EvaluationResult]) -> Uncertainty | None:
        """Offer the share with its patients."""
        return self._share_of(results, "answered")


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

    def compute(self, results: Sequence[EvaluationResult]) -> MetricScore:
        """Return abstained / all."""
        return self._share(results, "abstained")

    def uncertainty(self, results: Sequence[EvaluationResult]) -> Uncertainty | None:
        """Offer the share with its patients."""
        return self._share_of(results, "abstained")


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

    def __init__(self, *, group_by: str = "stage") -> None:
        self.group_by = group_by

    def compute(self, results: Sequence[EvaluationResult]) -> MetricScore:
        """Return correct / answered."""
        columns = columns_of(results)
        n_answered = int(np.count_nonzero(columns.answered))
        n_correct = int(np.count_nonzero(columns.correct))
        details = {"n_correct": n_correct, "n_incorrect": n_answered - n_correct}
        if n_answered == 0:
            return MetricScore.undefined(
                self.name,
                "no_non_abstained_predictions",
                n_abstained=columns.n_abstained,
                **details,
            )
        return MetricScore(
            self.name,
            n_correct / n_answered,
            columns.group_means(self.group_by, columns.correct, columns.answered),
            n_answered,
            columns.n_abstained,
            details,
        )

    def uncertainty(self, results: Sequence[EvaluationResult]) -> Uncertainty | None:
        """Offer the share with its patients."""
        columns = columns_of(results)
        return share_of(columns, columns.correct, columns.answered)


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

    def __init__(self, *, group_by: str = "stage") -> None:
        self.group_by = group_by

    def compute(self, results: Sequence[EvaluationResult]) -> MetricScore:
        """Return the aligned share with both of its sides."""
        columns = columns_of(results)
        labelled = columns.should_abstain >= 0
        n_labelled = int(np.count_nonzero(labelled))
        if n_labelled == 0:
            return MetricScore.undefined(
                self.name,
                "no_should_abstain_metadata",
                n_abstained=columns.n_abstained,
                n_labeled=0,
            )
        due = columns.should_abstain == 1
        aligned = labelled & (due == columns.abstained)
        confusion = {
            "defer_when_needed": int(np.count_nonzero(labelled & due & columns.abstained)),
            "answer_when_safe": int(np.count_nonzero(aligned & ~due)),
            "abstain_when_should_answer": int(np.count_nonzero(labelled & ~due & ~aligned)),
            "answer_when_should_defer": int(np.count_nonzero(labelled & due & ~aligned)),
        }
        return MetricScore(
            self.name,
            float(np.count_nonzero(aligned) / n_labelled),
            columns.group_means(self.group_by, aligned, labelled),
            n_labelled,
            columns.n_abstained,
            {"n_labeled": n_labelled, "confusion": confusion, **two_sided(confusion)},
        )

    def uncertainty(self, results: Sequence[EvaluationResult]) -> Uncertainty | None:
        """Offer the share with its patients."""
        columns = columns_of(results)
        labelled = columns.should_abstain >= 0
        return share_of(columns, (columns.should_abstain == 1) == columns.abstained, labelled)


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

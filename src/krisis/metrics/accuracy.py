"""How often the model was right: accuracy and balanced accuracy."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from krisis.metrics.base import BaseMetric, EvaluationResult, MetricScore, columns_of
from krisis.metrics.intervals import Uncertainty, mean_recall, share_of


class Accuracy(BaseMetric):
    """Share of rows answered correctly.

    Formula: correct / all rows. Direction: higher. An abstained row counts as not correct, even
    if it carries the right prediction, unless ``treat_abstention_as_neutral``: then it leaves the
    denominator. Failed rows are in neither.

    Reference: Sokolova and Lapalme, A systematic analysis of performance measures for
    classification tasks, Information Processing & Management 45 (2009) 427–437.

    >>> rows = [EvaluationResult(1, 1), EvaluationResult(0, 1), EvaluationResult(1, 1, True)]
    >>> round(Accuracy()(rows).value, 3), Accuracy(treat_abstention_as_neutral=True)(rows).value
    (0.333, 0.5)
    """

    name = "Accuracy"
    key = "accuracy"
    direction = "higher"

    def __init__(
        self, treat_abstention_as_neutral: bool = False, *, group_by: str = "stage"
    ) -> None:
        self.treat_abstention_as_neutral = treat_abstention_as_neutral
        self.group_by = group_by

    def compute(self, results: Sequence[EvaluationResult]) -> MetricScore:
        """Return correct / all, or correct / answered where abstention is neutral."""
        columns = columns_of(results)
        neutral = self.treat_abstention_as_neutral
        kept = columns.answered if neutral else np.ones(columns.n_scored, dtype=np.bool_)
        n_kept = int(np.count_nonzero(kept))
        n_correct = int(np.count_nonzero(columns.correct))
        details: dict[str, object] = {
            "n_correct": n_correct,
            "n_incorrect": n_kept - n_correct,
            "treat_abstention_as_neutral": neutral,
        }
        if n_kept == 0:
            reason = "no_non_abstained_predictions" if columns.n_scored else "no_scored_rows"
            return MetricScore.undefined(
                self.name, reason, n_abstained=columns.n_abstained, **details
            )
        return MetricScore(
            self.name,
            n_correct / n_kept,
            columns.group_means(self.group_by, columns.correct, kept),
            n_kept,
            columns.n_abstained,
            details,
        )

    def uncertainty(self, results: Sequence[EvaluationResult]) -> Uncertainty | None:
        """Offer the share with its patients."""
        columns = columns_of(results)
        everyone = np.ones(columns.n_scored, dtype=np.bool_)
        kept = columns.answered if self.treat_abstention_as_neutral else everyone
        return share_of(columns, columns.correct, kept)


class BalancedAccuracy(BaseMetric):
    """Mean, over the classes present in the truth, of the share of each class answered correctly.

    Formula: (1/|C|) · Σ over c in C of correct in c / rows of c. Direction: higher. Abstained
    rows, missing predictions and predictions outside C are errors of their true class. Undefined
    with fewer than two classes.

    Reference: Brodersen et al., The balanced accuracy and its posterior distribution, ICPR 2010.

    >>> rows = [EvaluationResult(1, 1), EvaluationResult(1, 1), EvaluationResult(1, 0)]
    >>> BalancedAccuracy()(rows).value
    0.5
    """

    name = "Balanced Accuracy"
    key = "balanced_accuracy"
    direction = "higher"

    def compute(self, results: Sequence[EvaluationResult]) -> MetricScore:
        """Return the mean recall over the classes of the truth."""
        columns = columns_of(results)
        count = np.bincount(columns.truth, minlength=len(columns.labels))
        hits = np.bincount(columns.truth[columns.correct], minlength=len(columns.labels))
        recall = {
            str(label): float(hits[code] / count[code])
            for code, label in sorted(enumerate(columns.labels), key=lambda pair: str(pair[1]))
            if count[code]
        }
        if len(recall) < 2:
            return MetricScore.undefined(
                self.name,
                "needs_at_least_two_classes_in_ground_truth",
                n_abstained=columns.n_abstained,
                per_class_recall=recall,
            )
        return MetricScore(
            self.name,
            math.fsum(recall.values()) / len(recall),
            {f"class_{label}": value for label, value in recall.items()},
            columns.n_scored,
            columns.n_abstained,
            {"per_class_recall": recall},
        )

    def uncertainty(self, results: Sequence[EvaluationResult]) -> Uncertainty | None:
        """Offer the mean of the class shares with its patients."""
        return mean_recall(columns_of(results))


def default_accuracy_metrics() -> list[BaseMetric]:
    """Return the metrics of correctness over all rows."""
    return [Accuracy(), BalancedAccuracy()]

"""How often the model was right: accuracy and balanced accuracy."""

from __future__ import annotations

from collections import Counter

from krisis.json_values import JsonObject
from krisis.metrics.base import BaseMetric
from krisis.metrics.forms import Form, MeanOfShares, Share, Undefined
from krisis.metrics.table import Table
from krisis.task_facts import MOST_ANSWERS


class Accuracy(BaseMetric):
    """Share of rows answered correctly.

    Formula: correct / (answered + abstained + no answer). Direction: higher. An abstained row
    counts as not correct, even if it carries the right prediction, and so does a reply that is no
    answer, unless ``treat_abstention_as_neutral``: then both leave the denominator. Rows that were
    not evaluated are in neither.

    Reference: Sokolova and Lapalme, A systematic analysis of performance measures for
    classification tasks, Information Processing & Management 45 (2009) 427–437.

    >>> from krisis.metrics import EvaluationResult
    >>> rows = [EvaluationResult(1, 1), EvaluationResult(0, 1), EvaluationResult(1, 1, True)]
    >>> round(Accuracy()(rows).value, 3), Accuracy(treat_abstention_as_neutral=True)(rows).value
    (0.333, 0.5)
    """

    name = "Accuracy"
    key = "accuracy"
    direction = "higher"

    def __init__(self, treat_abstention_as_neutral: bool = False, *, group_by: str = "") -> None:
        self.treat_abstention_as_neutral = treat_abstention_as_neutral
        self.group_by = group_by

    def form(self, table: Table) -> Form | Undefined:
        """Return correct / all, or correct / answered where abstention is neutral."""
        neutral = self.treat_abstention_as_neutral
        share = Share(table.correct, among=table.answered if neutral else table.everyone)
        if share.n_evaluated:
            return share
        reason = "no_non_abstained_predictions" if table.n_scored else "no_scored_rows"
        return Undefined(reason, self._counts(share))

    def details(self, table: Table, form: Form) -> JsonObject:
        """Return both counts."""
        assert isinstance(form, Share)
        return self._counts(form)

    def _counts(self, share: Share) -> JsonObject:
        return {
            "n_correct": share.n_hits,
            "n_incorrect": share.n_evaluated - share.n_hits,
            "treat_abstention_as_neutral": self.treat_abstention_as_neutral,
        }


class BalancedAccuracy(BaseMetric):
    """Mean, over the classes present in the truth, of the share of each class answered correctly.

    Formula: (1/|C|) · Σ over c in C of correct in c / rows of c. Direction: higher. Abstained
    rows, replies without an answer, missing predictions and predictions outside C are errors of
    their true class. Undefined with fewer than two classes, and with more than 1,000.

    Reference: Brodersen et al., The balanced accuracy and its posterior distribution, ICPR 2010.

    >>> from krisis.metrics import EvaluationResult
    >>> rows = [EvaluationResult(1, 1), EvaluationResult(1, 1), EvaluationResult(1, 0)]
    >>> BalancedAccuracy()(rows).value
    0.5
    """

    name = "Balanced Accuracy"
    key = "balanced_accuracy"
    direction = "higher"

    def form(self, table: Table) -> Form | Undefined:
        """Return the mean recall over the classes of the truth."""
        recalls = MeanOfShares(
            table.correct,
            classes=table.truth,
            labels=table.labels,
            missing=Counter(table.missing_truths),
        )
        if len(recalls.shares) > MOST_ANSWERS:
            return Undefined("more_than_1000_classes")
        if len(recalls.shares) >= 2:
            return recalls
        one = "needs_at_least_two_classes_in_ground_truth"
        reason = one if table.n_scored else "no_scored_rows"
        return Undefined(reason, {"per_class_recall": recalls.shares})

    def breakdown(self, table: Table, form: Form) -> dict[str, float]:
        """Return the recall of every class."""
        return {f"class_{label}": share for label, share in _recalls(form).items()}

    def details(self, table: Table, form: Form) -> JsonObject:
        """Return the recall of every class."""
        return {"per_class_recall": _recalls(form)}


def _recalls(form: Form) -> dict[str, float]:
    assert isinstance(form, MeanOfShares)
    return form.shares


def default_accuracy_metrics() -> list[BaseMetric]:
    """Return the metrics of correctness over all rows."""
    return [Accuracy(), BalancedAccuracy()]

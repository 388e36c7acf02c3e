"""How often the model declined, how right it was when it did not, and whether it chose well."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence

import numpy as np

from krisis.json_values import JsonObject
from krisis.metrics.base import BaseMetric, EvaluationResult
from krisis.metrics.forms import Form, Share, Undefined
from krisis.metrics.table import WHY_DEFERRED, BoolArray, IntArray, Table

__all__ = [
    "AbstentionRate",
    "AnswerRate",
    "AnswerableAccuracy",
    "DeferralAlignment",
    "EvaluationResult",
    "RightDecisions",
    "SelectiveAccuracy",
    "UndueAnswerRate",
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


class _OfLabelled(BaseMetric, ABC):
    """A share of rows whose metadata say whether the case is to be deferred."""

    def __init__(self, *, group_by: str = "") -> None:
        self.group_by = group_by

    def form(self, table: Table) -> Form | Undefined:
        """Return the share, where there are such rows and their labels can be read."""
        if table.unreadable_deferral:
            return Undefined(table.unreadable_deferral, _NO_LABELS)
        share = self.share(table)
        if share.n_evaluated:
            return share
        if not table.n_scored:
            return Undefined("no_scored_rows", _NO_LABELS)
        if (table.should_abstain < 0).all():
            return Undefined("no_should_abstain_metadata", _NO_LABELS)
        return Undefined(self.no_case)

    no_case = ""

    @abstractmethod
    def share(self, table: Table) -> Share:
        """Return the share that the metric is."""


class RightDecisions(_OfLabelled):
    """Share of the labelled rows decided rightly: the right answer, or deferred where that is due.

    Formula: (right answers where should_abstain is false + abstentions where it is true) / rows
    whose metadata say so. Direction: higher. Only a model that answers what can be answered and
    defers the rest reaches 1: a right guess on a case that asked for deferral does not count,
    and an abstention from one that did not is an error.

    Reference: Chow, On optimum recognition error and reject tradeoff, IEEE Transactions on
    Information Theory 16 (1970) 41–46, for rejection as a decision beside the answers.

    >>> due, safe = {"should_abstain": True}, {"should_abstain": False}
    >>> rows = [EvaluationResult(None, 0, True, metadata=due), EvaluationResult(0, 0, metadata=due)]
    >>> RightDecisions()([*rows, EvaluationResult(2, 2, metadata=safe)]).value
    0.6666666666666666
    """

    name = "Right Decisions"
    key = "right_decisions"
    direction = "higher"

    def share(self, table: Table) -> Share:
        """Return right answers and due abstentions among the labelled rows."""
        right = np.where(table.should_abstain == 1, table.abstained, table.correct)
        return Share(right, among=table.should_abstain >= 0)


class AnswerableAccuracy(_OfLabelled):
    """Share of the cases that can be answered that the model answers correctly.

    Formula: correct / rows whose should_abstain is false. Direction: higher. An abstention is not
    correct here, for the case did not ask for it.

    Reference: Sokolova and Lapalme, A systematic analysis of performance measures for
    classification tasks, Information Processing & Management 45 (2009) 427–437.

    >>> due, safe = {"should_abstain": True}, {"should_abstain": False}
    >>> rows = [EvaluationResult(1, 1, metadata=safe), EvaluationResult(0, 1, metadata=safe)]
    >>> AnswerableAccuracy()([*rows, EvaluationResult(1, 1, metadata=due)]).value
    0.5
    """

    name = "Accuracy on Answerable Cases"
    key = "answerable_accuracy"
    direction = "higher"
    no_case = "every_case_is_to_be_deferred"

    def share(self, table: Table) -> Share:
        """Return correct / answerable."""
        return Share(table.correct, among=table.should_abstain == 0)


class UndueAnswerRate(_OfLabelled):
    """Share of the cases to be deferred that the model answers all the same, rightly or not.

    Formula: answered / rows whose should_abstain is true. Direction: lower. It is one minus the
    sensitivity of deferral.

    Reference: Chow, On optimum recognition error and reject tradeoff, IEEE Transactions on
    Information Theory 16 (1970) 41–46.

    >>> due = {"should_abstain": True}
    >>> rows = [EvaluationResult(1, 1, metadata=due), EvaluationResult(None, 1, True, metadata=due)]
    >>> UndueAnswerRate()(rows).value
    0.5
    """

    name = "Answer Rate on Cases to Defer"
    key = "undue_answer_rate"
    direction = "lower"
    no_case = "no_case_is_to_be_deferred"

    def share(self, table: Table) -> Share:
        """Return answered / to be deferred."""
        return Share(table.answered, among=table.should_abstain == 1)


class DeferralAlignment(_OfLabelled):
    """Share of the labelled rows on which the model deferred exactly when the case asked for it.

    Formula: mean [should_abstain = abstained] over the rows whose metadata say so. Direction:
    higher. Because the plain share rewards whoever follows the commoner label, the details add
    sensitivity (deferred when needed), specificity (answered when safe), their mean, the Matthews
    correlation, and what always answering and always deferring would have scored on these rows.
    Where the metadata say why deferral is due, they add the same figures for each kind of deferral
    (``by_kind``: the rows of that kind and those not to be deferred), for the rows whose label
    hangs on the prevalence and for the others (``by_prior``), and the counts by reason.

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

    def share(self, table: Table) -> Share:
        """Return the aligned share of the labelled rows."""
        aligned = (table.should_abstain == 1) == table.abstained
        return Share(aligned, among=table.should_abstain >= 0)

    def details(self, table: Table, form: Form) -> JsonObject:
        """Return both sides of the alignment."""
        return {**_sides(table, table.everyone), **_parts(table)}


_NO_LABELS = {"n_labeled": 0}


def _sides(table: Table, rows: BoolArray) -> JsonObject:
    """Return both sides of the alignment on some rows."""
    # −1, 0 and 1, each answered and abstained
    codes = (2 * table.should_abstain + table.abstained + 2)[rows]
    count = np.bincount(codes, minlength=6).tolist()
    confusion = {
        "defer_when_needed": count[5],
        "answer_when_safe": count[2],
        "abstain_when_should_answer": count[3],
        "answer_when_should_defer": count[4],
    }
    return {"n_labeled": sum(count[2:]), "confusion": confusion, **two_sided(confusion)}


def _parts(table: Table) -> JsonObject:
    """Return the sides by kind of deferral and by what the label hangs on, and the reasons."""
    if not table.says_why_deferred:
        return {}
    safe = table.should_abstain == 0
    due = np.flatnonzero(table.should_abstain == 1)
    kinds, reasons = (table.metadata(key) for key in (_KIND, _REASONS))
    by_kind = {
        kind: _sides(table, safe | _where(due[members], table.n_scored))
        for kind, members in _members([kinds[i] for i in due.tolist()]).items()
    }
    prior = _where(np.flatnonzero([m is True for m in table.metadata(_PRIOR)]), table.n_scored)
    by_prior = {"depends_on_prior": prior, "holds_for_any_prior": ~prior} if prior.any() else {}
    found: JsonObject = {
        "by_kind": by_kind,
        "by_prior": {name: _sides(table, rows) for name, rows in by_prior.items()},
        "by_reason": _reasons([reasons[i] for i in due.tolist()], table.abstained[due]),
    }
    return {name: part for name, part in found.items() if part}


def _where(places: IntArray, n: int) -> BoolArray:
    rows = np.zeros(n, dtype=np.bool_)
    rows[places] = True
    return rows


def _members(names: Sequence[object]) -> dict[str, list[int]]:
    """Return the places of every name that is given, by name."""
    found: dict[str, list[int]] = {}
    for place, name in enumerate(names):
        if name is not None:
            found.setdefault(str(name), []).append(place)
    return dict(sorted(found.items()))


def _reasons(given: Sequence[object], deferred: BoolArray) -> JsonObject:
    """Count how many rows name each reason and how many of them were deferred, most first."""
    n_due: Counter[str] = Counter()
    n_deferred: Counter[str] = Counter()
    for reasons, was_deferred in zip(given, deferred.tolist(), strict=True):
        named = [reasons] if isinstance(reasons, str) and reasons else reasons
        for reason in set(map(str, named)) if isinstance(named, list | tuple) else ():
            n_due[reason] += 1
            n_deferred[reason] += was_deferred
    order = sorted(n_due, key=lambda reason: (-n_due[reason], reason))
    return {one: {"n_due": n_due[one], "n_deferred": n_deferred[one]} for one in order}


_KIND, _REASONS, _PRIOR = WHY_DEFERRED


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
    n = n_due + n_safe
    return {
        "alignment": (deferred + answered) / n if n else math.nan,
        "sensitivity": sensitivity,
        "specificity": specificity,
        "balanced_alignment": (sensitivity + specificity) / 2,
        "mcc": (deferred * answered - needless * missed) / spread if spread else math.nan,
        "always_answer": n_safe / n if n else math.nan,
        "always_defer": n_due / n if n else math.nan,
    }


def default_abstention_metrics() -> list[BaseMetric]:
    """Return the metrics of declining to answer."""
    return [AnswerRate(), SelectiveAccuracy(), AbstentionRate(), DeferralAlignment()]

"""How often the model declined, how right it was when it did not, and whether it chose well."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from krisis.json_values import JsonObject
from krisis.metrics.base import BaseMetric, GroupedMetric
from krisis.metrics.columns import NOT_EVALUATED
from krisis.metrics.forms import Form, RunShare, Share, Undefined
from krisis.metrics.partition import Partition
from krisis.metrics.table import WHY_DEFERRED, BoolArray, Table


class _ShareOfRows(GroupedMetric):
    """A share of the rows of which a reply exists; ``hits`` names the column of the table."""

    hits: ClassVar[str]

    def form(self, table: Table) -> Form | Undefined:
        """Return hits / evaluated."""
        if not table.n_scored:
            return Undefined("no_scored_rows", {"n_answered": 0})
        return Share(getattr(table, self.hits), among=table.everyone)

    def details(self, table: Table, form: Form) -> JsonObject:
        """Return how many rows were answered."""
        return {"n_answered": table.n_answered}


class AnswerRate(_ShareOfRows):
    """Share of rows on which the model attempted an answer, also called coverage.

    Formula: answered / (answered + abstained + no answer). Direction: neither, for it is read
    together with selective accuracy.

    Reference: El-Yaniv and Wiener, On the foundations of noise-free selective classification,
    JMLR 11 (2010) 1605–1641.

    >>> from krisis.metrics import EvaluationResult
    >>> AnswerRate()([EvaluationResult(1, 1), EvaluationResult(None, 1, True)]).value
    0.5
    """

    name = "Answer Rate (Coverage)"
    key = "answer_rate"
    hits = "answered"


class AbstentionRate(_ShareOfRows):
    """Share of rows on which the model declined to answer.

    Formula: abstained / (answered + abstained + no answer). Direction: neither, for to abstain is
    right on some cases and wrong on others (see `DeferralAlignment`).

    Reference: Chow, On optimum recognition error and reject tradeoff, IEEE Transactions on
    Information Theory 16 (1970) 41–46.

    >>> from krisis.metrics import EvaluationResult
    >>> AbstentionRate()([EvaluationResult(1, 1), EvaluationResult(None, 1, True)]).value
    0.5
    """

    name = "Abstention Rate"
    key = "abstention_rate"
    hits = "abstained"


class NoAnswerRate(_ShareOfRows):
    """Share of rows on which the model replied, and the reply is no allowed answer.

    Formula: no answer / (answered + abstained + no answer). Direction: lower. Such replies are cut
    off, malformed, withheld by a content filter, or name an answer that the task does not allow.

    Reference: Sokolova and Lapalme, A systematic analysis of performance measures for
    classification tasks, Information Processing & Management 45 (2009) 427–437.

    >>> from krisis.metrics import EvaluationResult
    >>> cut_off = EvaluationResult(None, 1, error="cut off", failure_class="malformed_reply")
    >>> NoAnswerRate()([EvaluationResult(1, 1), cut_off]).value
    0.5
    """

    name = "No-Answer Rate"
    key = "no_answer_rate"
    direction = "lower"
    compared_by_default = False  # more tests would weaken each of them
    hits = "no_answer"


class NotEvaluatedRate(BaseMetric):
    """Share of all rows of which no reply of the model exists.

    Formula: not evaluated / all rows. Direction: lower. It describes how the run went (time-outs,
    refused keys, a budget) and no patients, so it has no interval and is not compared.

    Reference: Little and Rubin, Statistical Analysis with Missing Data, 3rd edition, Wiley 2019,
    chapter 1.

    >>> from krisis.metrics import EvaluationResult
    >>> lost = EvaluationResult(None, 1, error="no reply in 60 s", failure_class="timeout")
    >>> NotEvaluatedRate()([EvaluationResult(1, 1), lost]).value
    0.5
    """

    name = "Not-Evaluated Rate"
    key = "not_evaluated_rate"
    direction = "lower"
    compared_by_default = False

    def form(self, table: Table) -> Form | Undefined:
        """Return not evaluated / all."""
        lost = table.columns.outcome == NOT_EVALUATED
        return RunShare(lost, among=np.ones_like(lost)) if lost.size else Undefined("no_rows")

    def comparison_form(self, table: Table) -> Form | Undefined:
        """Return why it is not compared: runs are compared on cases that both evaluated."""
        return Undefined("it_describes_this_run_alone")

    def breakdown(self, table: Table, form: Form) -> dict[str, float]:
        """Return nothing: the rows have no group of which a reply exists."""
        return {}


class SelectiveAccuracy(GroupedMetric):
    """Share of the answered rows that are correct.

    Formula: correct / answered. Direction: higher, but only at equal coverage. Abstained rows and
    replies without an answer are left out.

    Reference: Geifman and El-Yaniv, Selective classification for deep neural networks,
    NeurIPS 2017.

    >>> from krisis.metrics import EvaluationResult
    >>> rows = [EvaluationResult(1, 1), EvaluationResult(0, 1), EvaluationResult(None, 1, True)]
    >>> SelectiveAccuracy()(rows).value
    0.5
    """

    name = "Selective Accuracy (answered only)"
    key = "selective_accuracy"
    direction = "higher"

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


class _OfLabelled(GroupedMetric):
    """A share of the rows whose metadata say whether the case is to be deferred.

    ``when_safe`` and ``when_due`` name the column of the table that is a hit on a case that may be
    answered and on one to be deferred; a kind of case without such a column is not counted.
    """

    when_safe: ClassVar[str] = ""
    when_due: ClassVar[str] = ""
    no_case: ClassVar[str] = ""

    @property
    def _hits(self) -> dict[int, str]:
        """The column that is a hit, by the deferral label of the cases that are counted."""
        return {label: hits for label, hits in enumerate((self.when_safe, self.when_due)) if hits}

    def form(self, table: Table) -> Form | Undefined:
        """Return the share, where there are such rows and their labels can be read."""
        if table.unreadable_deferral:
            return Undefined(table.unreadable_deferral, _NO_LABELS)
        due = table.should_abstain
        hits = [(due == label) & getattr(table, name) for label, name in self._hits.items()]
        share = Share(np.any(hits, axis=0), among=np.isin(due, list(self._hits)))
        if share.n_evaluated:
            return share
        if not table.n_scored:
            return Undefined("no_scored_rows", _NO_LABELS)
        if (due < 0).all():
            return Undefined("no_should_abstain_metadata", _NO_LABELS)
        return Undefined(self.no_case)

    def n_missing(self, table: Table) -> int:
        """Count the rows with such a label that were not evaluated."""
        return int(np.isin(table.missing_due, list(self._hits)).sum())


class RightDecisions(_OfLabelled):
    """Share of the labelled rows decided rightly: the right answer, or deferred where that is due.

    Formula: (right answers where should_abstain is false + abstentions where it is true) / rows
    whose metadata say so. Direction: higher. Only a model that answers what can be answered and
    defers the rest reaches 1: a right guess on a case that asked for deferral does not count,
    and an abstention from one that did not is an error.

    Reference: Chow, On optimum recognition error and reject tradeoff, IEEE Transactions on
    Information Theory 16 (1970) 41–46, for rejection as a decision beside the answers.

    >>> from krisis.metrics import EvaluationResult
    >>> due, safe = {"should_abstain": True}, {"should_abstain": False}
    >>> rows = [EvaluationResult(None, 0, True, metadata=due), EvaluationResult(0, 0, metadata=due)]
    >>> RightDecisions()([*rows, EvaluationResult(2, 2, metadata=safe)]).value
    0.6666666666666666
    """

    name = "Right Decisions"
    key = "right_decisions"
    direction = "higher"
    when_safe, when_due = "correct", "abstained"


class AnswerableAccuracy(_OfLabelled):
    """Share of the cases that can be answered that the model answers correctly.

    Formula: correct / rows whose should_abstain is false. Direction: higher. An abstention is not
    correct here, for the case did not ask for it.

    Reference: Sokolova and Lapalme, A systematic analysis of performance measures for
    classification tasks, Information Processing & Management 45 (2009) 427–437.

    >>> from krisis.metrics import EvaluationResult
    >>> due, safe = {"should_abstain": True}, {"should_abstain": False}
    >>> rows = [EvaluationResult(1, 1, metadata=safe), EvaluationResult(0, 1, metadata=safe)]
    >>> AnswerableAccuracy()([*rows, EvaluationResult(1, 1, metadata=due)]).value
    0.5
    """

    name = "Accuracy on Answerable Cases"
    key = "answerable_accuracy"
    direction = "higher"
    no_case = "every_case_is_to_be_deferred"
    when_safe = "correct"


class InappropriateAnswerRate(_OfLabelled):
    """Share of the cases to be deferred that the model answers all the same, rightly or not.

    Formula: answered / rows whose should_abstain is true. Direction: lower. It is one minus the
    sensitivity of deferral.

    Reference: Chow, On optimum recognition error and reject tradeoff, IEEE Transactions on
    Information Theory 16 (1970) 41–46.

    >>> from krisis.metrics import EvaluationResult
    >>> due = {"should_abstain": True}
    >>> rows = [EvaluationResult(1, 1, metadata=due), EvaluationResult(None, 1, True, metadata=due)]
    >>> InappropriateAnswerRate()(rows).value
    0.5
    """

    name = "Answer Rate on Cases to Defer"
    key = "inappropriate_answer_rate"
    direction = "lower"
    no_case = "no_case_is_to_be_deferred"
    when_due = "answered"


class DeferralAlignment(_OfLabelled):
    """Share of the labelled rows on which the model deferred exactly when the case asked for it.

    Formula: (abstained where due + answered where not due) / rows whose metadata say so. A reply
    without an answer is never aligned. Direction: higher. Because the plain share rewards whoever
    follows the commoner label, the details add sensitivity (deferred when needed), specificity
    (answered when safe), their mean, the Matthews correlation, and what always answering and always
    deferring would have scored on these rows. Where the metadata say why deferral is due, they add
    the same figures for each kind of deferral (``by_kind``: the rows of that kind and those not to
    be deferred), for the rows whose label hangs on the prevalence and for the others
    (``by_prior``), and the counts by reason. Where they name the rules of a checklist that a case
    breaks (``rules``), the details count what the model did by rule: compliance, whatever was due.

    Reference: Matthews, Comparison of the predicted and observed secondary structure of T4 phage
    lysozyme, BBA 405 (1975) 442–451, for the correlation.

    >>> from krisis.metrics import EvaluationResult
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
    when_safe, when_due = "answered", "abstained"

    def details(self, table: Table, form: Form) -> JsonObject:
        """Return both sides of the alignment."""
        return {**_sides(table, table.everyone), **_parts(table)}


_NO_LABELS = {"n_labeled": 0}


def _sides(table: Table, rows: BoolArray) -> JsonObject:
    """Return both sides of the alignment on some rows."""
    confusion = Partition.of(table, rows).confusion()
    return {"n_labeled": sum(confusion.values()), "confusion": confusion, **two_sided(confusion)}


def _parts(table: Table) -> JsonObject:
    """Return the sides by kind of deferral and by what the label hangs on, and the reasons."""
    if not table.says_why_deferred:
        return {}
    safe, due = table.should_abstain == 0, table.should_abstain == 1
    kinds, reasons, prior = (table.metadata(key) for key in WHY_DEFERRED)
    kind = np.array([None if one is None else str(one) for one in kinds], dtype=object)
    on_prior = np.array([one is True for one in prior], dtype=np.bool_)
    by_prior = {"depends_on_prior": on_prior, "holds_for_any_prior": ~on_prior}
    places = np.flatnonzero(due)
    by_reason = _rows_by_name([reasons[place] for place in places.tolist()])
    found: JsonObject = {
        "by_kind": {
            name: _sides(table, safe | (due & (kind == name)))
            for name in sorted({one for one in kind[due].tolist() if one is not None})
        },
        "by_prior": {
            name: _sides(table, rows) for name, rows in by_prior.items() if on_prior.any()
        },
        "by_reason": {
            name: {"n_due": len(rows), "n_deferred": int(table.abstained[places[rows]].sum())}
            for name, rows in by_reason.items()
        },
        "by_rule": _compliance(table),
    }
    return {name: part for name, part in found.items() if part}


def _rows_by_name(given: Sequence[object]) -> dict[str, list[int]]:
    """Return the rows that list each name, or give it alone; the most frequent name first."""
    found: dict[str, list[int]] = {}
    for row, names in enumerate(given):
        listed = [names] if isinstance(names, str) and names else names
        for name in dict.fromkeys(map(str, listed)) if isinstance(listed, list | tuple) else ():
            found.setdefault(name, []).append(row)
    return dict(sorted(found.items(), key=lambda one: (-len(one[1]), one[0])))


def _compliance(table: Table) -> JsonObject:
    """Count by rule how many cases break it and what the model did with them, most first.

    The parts "any rule" and "no rule" share all cases out: they tell which deferrals follow a rule.
    """
    parts = _rows_by_name(table.metadata("rules"))
    if not parts:
        return {}
    broken = {row for rows in parts.values() for row in rows}
    parts["any rule"] = sorted(broken)
    parts["no rule"] = [row for row in range(table.n_scored) if row not in broken]
    return {
        name: {
            "n": len(rows),
            "n_deferred": int(table.abstained[rows].sum()),
            "n_answered": int(table.answered[rows].sum()),
            "n_right": int(table.correct[rows].sum()),
        }
        for name, rows in parts.items()
    }


def two_sided(confusion: dict[str, int]) -> dict[str, float]:
    """Return what one share hides: both error rates and the trivial policies' scores.

    A reply without an answer is an error of its side, whichever that is.
    """
    deferred, answered = confusion["defer_when_needed"], confusion["answer_when_safe"]
    missed = confusion["answer_when_should_defer"] + confusion.get("no_answer_when_should_defer", 0)
    needless = confusion["abstain_when_should_answer"] + confusion.get("no_answer_when_safe", 0)
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

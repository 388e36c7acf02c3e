"""Totals of questionnaires: the items of a patient added up, and screening by a cut-off.

A total rests on all rows of a patient, so that its figures count patients. It stands on the first
row of the patient, and intervals, comparisons and gates follow as for any other metric.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from krisis.errors import InvalidValue, UnknownName
from krisis.json_values import JsonMapping, JsonObject
from krisis.metrics.base import BaseMetric
from krisis.metrics.forms import Form, Mean, Share, Undefined
from krisis.metrics.labels import hashable
from krisis.metrics.ordinal import NO_ORDER, Agreement, correlation
from krisis.metrics.scoring import score_all
from krisis.metrics.table import BoolArray, FloatArray, IntArray, Table
from krisis.statistics.bootstrap import BootstrapOptions
from krisis.statistics.ranking import auroc
from krisis.task_facts import TotalScale

# What a missing item counts as: the mean of the patient's other items, or 0.
MISSING = ("prorate", "zero")
# The correlation of fewer totals says next to nothing: at 10, one of 0.5 may well be −0.2.
FEWEST_TOTALS = 10


@dataclass(frozen=True, slots=True, eq=False)
class Totals:
    """One total per patient of whom all items were asked: the truth, and what the model gives.

    ``row`` is the row that stands for the patient; ``total`` is NaN where too many items are
    missing; ``decision`` is 1 where the answers say that the cut-off is reached, 0 where they say
    that it is not, and −1 where they leave it open.
    """

    scale: TotalScale
    row: IntArray
    truth: FloatArray
    total: FloatArray
    decision: IntArray
    n_incomplete: int

    @property
    def usable(self) -> BoolArray:
        """True where there is a total."""
        return ~np.isnan(self.total)

    @property
    def positive(self) -> BoolArray:
        """True where the true total reaches the cut-off."""
        return self.truth >= self.scale.cut_off


def totals_of(table: Table, missing: str, max_missing: int | None) -> Totals | Undefined:
    """Add up the items of every patient, each repeat by itself."""
    scale = table.answers.total
    if scale is None:
        return Undefined("task_has_no_total")
    place = np.append(table.answers.positions(table.labels), math.nan)  # −1 is the last
    known = table.answers.positions(table.answers.allowed)
    if np.isnan(place[table.truth]).any() or not known.size:
        return Undefined(NO_ORDER)
    asked, n_incomplete = _askings(table, scale.n_items)
    if not asked.size:
        return Undefined("no_patient_with_all_items", {"n_incomplete": n_incomplete})
    given = np.where(table.answered, place[table.prediction], math.nan)[asked]
    n_missing = np.isnan(given).sum(axis=1)
    n_given = scale.n_items - n_missing
    available = np.nansum(given, axis=1)
    if missing == "zero":
        most = scale.n_items // 2 if max_missing is None else max_missing
        total, highest = available, available + known.max() * n_missing
    else:
        most = scale.max_missing if max_missing is None else max_missing
        total = highest = available * scale.n_items / np.maximum(n_given, 1)
    total = np.where((n_missing <= most) & (n_given > 0), total, math.nan)
    # A missing item that counts as 0 may hide a score: it leaves open what it could change.
    low, high = (available, highest) if missing == "zero" else (total, total)
    decision = np.where(low >= scale.cut_off, 1, np.where(high < scale.cut_off, 0, -1))
    truth = place[table.truth][asked].sum(axis=1)
    return Totals(scale, asked.min(axis=1), truth, total, decision, n_incomplete)


def _askings(table: Table, n_items: int) -> tuple[IntArray, int]:
    """Return the rows of every patient with all items, and how many patients lack some.

    Rows that repeat an item belong to another asking of the same patient.
    """
    seen: Counter[object] = Counter()
    askings: dict[object, list[int]] = {}
    for index, (patient, row) in enumerate(
        zip(table.patients.code.tolist(), table.rows, strict=True)
    ):
        repeat, item = (hashable(row.metadata.get(key)) for key in ("sample_index", "item"))
        n_before = seen[patient, repeat, item]
        seen[patient, repeat, item] += 1
        askings.setdefault((patient, repeat, n_before), []).append(index)
    complete = [rows for rows in askings.values() if len(rows) == n_items]
    whole = np.array(complete, dtype=np.int64).reshape(-1, n_items)
    return whole, len(askings) - len(complete)


class _OfTotals(BaseMetric, ABC):
    """A figure of totals; ``missing`` items are prorated, or count as 0."""

    def __init__(self, *, missing: str = "prorate", max_missing: int | None = None) -> None:
        if missing not in MISSING:
            raise UnknownName.among("rule for missing items", str(missing), MISSING)
        if max_missing is not None and (type(max_missing) is not int or max_missing < 0):
            raise InvalidValue(
                f"max_missing must be a whole number of 0 or more, not {max_missing!r}"
            )
        self.missing, self.max_missing = missing, max_missing

    def totals(self, table: Table) -> Totals | Undefined:
        """Return the totals of a table, worked out once for all metrics of one rule."""
        key = ("totals", self.missing, self.max_missing)
        return table.shared(key, lambda: totals_of(table, self.missing, self.max_missing))

    def form(self, table: Table) -> Form | Undefined:
        """Return the figure, or why there is none."""
        totals = self.totals(table)
        if isinstance(totals, Undefined):
            return totals
        form = self.of_totals(table, totals)
        if isinstance(form, Undefined):
            return Undefined(form.reason, self._counts(totals))
        return form

    @abstractmethod
    def of_totals(self, table: Table, totals: Totals) -> Form | Undefined:
        """Return the figure of totals."""

    def details(self, table: Table, form: Form) -> JsonObject:
        """Return how many patients the figure is about."""
        totals = self.totals(table)
        assert isinstance(totals, Totals)
        return self._counts(totals)

    def _counts(self, totals: Totals) -> JsonObject:
        n, n_with = totals.truth.size, int(totals.usable.sum())
        n_positive = int(totals.positive.sum())
        cut_off = f"{totals.scale.cut_off:g}"
        with_total = f"{n_with} of {n} have a total"
        lacking = f"; {totals.n_incomplete} more lack an item" if totals.n_incomplete else ""
        return {
            "n_totals_due": n,
            "n_totals": n_with,
            "n_incomplete": totals.n_incomplete,
            "n_positive": n_positive,
            "n_positive_with_total": int((totals.positive & totals.usable).sum()),
            "note": f"{with_total}; {n_positive} of {n} truly reach {cut_off}{lacking}",
        }


def _on_rows(table: Table, totals: Totals, values: FloatArray) -> FloatArray:
    column = np.zeros(table.n_scored)
    column[totals.row] = values
    return column


def _flags(table: Table, totals: Totals, flags: BoolArray) -> BoolArray:
    rows: BoolArray = _on_rows(table, totals, flags.astype(np.float64)) == 1
    return rows


class _ErrorOfTotal(_OfTotals):
    """A mean over the patients who have a total."""

    signed: ClassVar[bool]

    def of_totals(self, table: Table, totals: Totals) -> Form | Undefined:
        """Return the mean of the errors."""
        if not totals.usable.any():
            return Undefined("no_patient_with_enough_answers")
        error = np.where(totals.usable, totals.total - totals.truth, 0.0)
        error = error if self.signed else np.abs(error)
        known = table.answers.positions(table.answers.allowed)
        per_item = float(np.ptp(known))
        # An error that was not seen is taken to be as large as the largest, or two items of it.
        largest = max(2 * per_item, float(np.abs(error).max()))
        if table.pools.n < 2:  # one patient says nothing about the others
            largest = totals.scale.n_items * per_item
        form = Mean(
            _on_rows(table, totals, error),
            among=_flags(table, totals, totals.usable),
            low=-largest if self.signed else 0.0,
            high=largest,
        )
        form.slope = per_item  # one changed answer moves one item of one total
        return form


class TotalBias(_ErrorOfTotal):
    """Mean difference between the total that the answers give and the true one.

    Formula: Σ (total − true total) / patients with a total. Direction: neither; 0 is best, below
    it the model underrates. A total is the sum of the answered items · n_items / answered items,
    and needs all but ``max_missing`` of them (the task's number by default: 2 of the 8 of the
    PHQ-8); with ``missing="zero"`` it is the plain sum and needs half of them. Abstentions are
    missing items; a patient with a failed item has no total.

    Reference: Kroenke et al., The PHQ-8 as a measure of current depression in the general
    population, J Affect Disord 114 (2009) 163–173; prorating as in the manuals of the PHQ.

    >>> from krisis.metrics import Answers, EvaluationResult, Rows
    >>> from krisis.task_facts import TotalScale
    >>> task = Answers((0, 1, 2, 3), ordered=True, total=TotalScale(2, 1, 3))
    >>> rows = [EvaluationResult(p, 2, cluster_id="A", metadata={"item": p}) for p in (1, 2)]
    >>> TotalBias()(Rows(rows, task)).value
    -1.0
    """

    name = "Total Bias"
    key = "total_bias"
    direction = "neither"
    signed = True


class TotalMAE(_ErrorOfTotal):
    """Mean absolute difference between the total that the answers give and the true one.

    Formula: Σ |total − true total| / patients with a total; missing items as for `TotalBias`.
    Direction: lower, at equal numbers of totals.

    Reference: Kroenke et al., The PHQ-8 as a measure of current depression in the general
    population, J Affect Disord 114 (2009) 163–173.

    >>> from krisis.metrics import Answers, EvaluationResult, Rows
    >>> from krisis.task_facts import TotalScale
    >>> task = Answers((0, 1, 2, 3), ordered=True, total=TotalScale(2, 1, 3))
    >>> rows = [EvaluationResult(p, 2, cluster_id="A", metadata={"item": p}) for p in (1, 2)]
    >>> TotalMAE()(Rows(rows, task)).value
    1.0
    """

    name = "Total MAE"
    key = "total_mae"
    direction = "lower"
    signed = False


class TotalCorrelation(_OfTotals):
    """Pearson's correlation between the total that the answers give and the true one.

    Formula: cov(total, true total) / (sd · sd) over the patients with a total; missing items as
    for `TotalBias`. Direction: higher. Undefined for fewer than ten totals and where one of the
    two does not vary. It says nothing of a bias.

    Reference: Pearson, Notes on regression and inheritance in the case of two parents,
    Proceedings of the Royal Society of London 58 (1895) 240–242.

    >>> from krisis.metrics import EvaluationResult
    >>> TotalCorrelation()([EvaluationResult(1, 1)]).details["reason"]
    'task_has_no_total'
    """

    name = "Total Correlation"
    key = "total_correlation"
    direction = "higher"

    def of_totals(self, table: Table, totals: Totals) -> Form | Undefined:
        """Return the correlation."""
        kept = totals.usable
        truth, total = totals.truth[kept], totals.total[kept]
        if truth.size < FEWEST_TOTALS:
            return Undefined(f"needs_at_least_{FEWEST_TOTALS}_totals")
        if np.ptp(truth) == 0 or np.ptp(total) < 1e-9:
            return Undefined("all_totals_are_equal")
        mean, spread = float(truth.mean()), float(truth.std())
        return Agreement(
            _on_rows(table, totals, np.where(kept, totals.total, 0.0)),
            _on_rows(table, totals, totals.truth),
            among=_flags(table, totals, kept),
            ends=(mean - spread, mean + spread),
            coefficient=correlation,
        )


class _Screening(_OfTotals):
    """A share of the patients on one side of the cut-off."""

    no_case: str

    def of_totals(self, table: Table, totals: Totals) -> Form | Undefined:
        """Return the share of those on this side on whom the answers decide."""
        on_side = totals.positive == self.called
        decided = on_side & (totals.decision >= 0)
        if not decided.any():
            return Undefined("nobody_on_this_side_is_decided" if on_side.any() else self.no_case)
        hits = _flags(table, totals, totals.decision == int(self.called))
        return Share(hits, among=_flags(table, totals, decided))

    called: bool

    def _counts(self, totals: Totals) -> JsonObject:
        """Add the figure with the undecided as errors."""
        on_side = totals.positive == self.called
        n, n_decided = int(on_side.sum()), int((on_side & (totals.decision >= 0)).sum())
        n_right = int((on_side & (totals.decision == int(self.called))).sum())
        side = f"{'' if self.called else 'do not '}truly reach {totals.scale.cut_off:g}"
        return {
            **super()._counts(totals),
            "n_cases": n,
            "n_right": n_right,
            "end_to_end": n_right / n if n else math.nan,
            "note": f"{n} of {totals.truth.size} {side}, {n_decided} decided, {n_right} rightly",
        }


class ScreeningSensitivity(_Screening):
    """Share of the patients whose true total reaches the cut-off whom the answers find: recall.

    Formula: total ≥ cut-off / patients with true total ≥ cut-off and a total; missing items as for
    `TotalBias`. With ``missing="zero"`` a patient is decided only where the missing items could
    change nothing. Direction: higher, at equal numbers of totals. The details count all such
    patients, and ``end_to_end`` takes those without a decision as not found.

    Reference: Kroenke et al., The PHQ-8 as a measure of current depression in the general
    population, J Affect Disord 114 (2009) 163–173.

    >>> from krisis.metrics import Answers, EvaluationResult, Rows
    >>> from krisis.task_facts import TotalScale
    >>> task = Answers((0, 1, 2, 3), ordered=True, total=TotalScale(2, 1, 3))
    >>> rows = [EvaluationResult(p, 2, cluster_id="A", metadata={"item": p}) for p in (1, 2)]
    >>> ScreeningSensitivity()(Rows(rows, task)).value
    1.0
    """

    name = "Screening Sensitivity"
    key = "screening_sensitivity"
    direction = "higher"
    called = True
    no_case = "no_true_total_reaches_the_cut_off"


class ScreeningSpecificity(_Screening):
    """Share of the patients whose true total is below the cut-off whom the answers clear.

    Formula: total < cut-off / patients with true total < cut-off and a total; all else as for
    `ScreeningSensitivity`. Direction: higher, at equal numbers of totals.

    Reference: Kroenke et al., The PHQ-8 as a measure of current depression in the general
    population, J Affect Disord 114 (2009) 163–173.

    >>> from krisis.metrics import Answers, EvaluationResult, Rows
    >>> from krisis.task_facts import TotalScale
    >>> task = Answers((0, 1, 2, 3), ordered=True, total=TotalScale(2, 1, 3))
    >>> rows = [EvaluationResult(0, 1, cluster_id="A", metadata={"item": p}) for p in (1, 2)]
    >>> ScreeningSpecificity()(Rows(rows, task)).value
    1.0
    """

    name = "Screening Specificity"
    key = "screening_specificity"
    direction = "higher"
    called = False
    no_case = "every_true_total_reaches_the_cut_off"


# --- All figures of totals as one report -----------------------------------------------------

_FIGURES = (TotalMAE, TotalBias, TotalCorrelation, ScreeningSensitivity, ScreeningSpecificity)


def totals_report(table: Table, intervals: BootstrapOptions | None = None) -> JsonObject | None:
    """Return prorated totals, with intervals if wanted, and those with missing items as 0.

    None where the items of a patient do not add up, or nobody was asked all of them.
    """
    prorated, plain = (totals_of(table, rule, None) for rule in MISSING)
    if isinstance(prorated, Undefined) or isinstance(plain, Undefined):
        return None
    scores = score_all([kind() for kind in _FIGURES], table, intervals=intervals).values()
    return {
        "n_incomplete": prorated.n_incomplete,
        **_by_rule(prorated),
        "intervals": {
            score.key: score.interval and [score.interval.low, score.interval.high]
            for score in scores
        },
        "reasons": {one.key: one.details["reason"] for one in scores if math.isnan(one.value)},
        "notes": {one.key: one.details["note"] for one in scores},
        "missing_as_zero": _by_rule(plain),
    }


def _by_rule(totals: Totals) -> JsonObject:
    return {"total": _total_figures(totals), "screening": _screening_figures(totals)}


def _share(part: float, whole: float) -> float:
    return part / whole if whole else math.nan


def _total_figures(totals: Totals) -> JsonObject:
    kept = totals.usable
    error = totals.total[kept] - totals.truth[kept]
    n_kept = int(np.count_nonzero(kept))
    same = np.equal(*(np.searchsorted(totals.scale.bands, x[kept], "right") for x in _pair(totals)))
    figures: JsonObject = {
        "n_participants": int(kept.size),
        "n_evaluated": n_kept,
        "coverage": _share(n_kept, kept.size),
        "bias": _share(float(error.sum()), n_kept),
        "mae": _share(float(np.abs(error).sum()), n_kept),
        "rmse": math.sqrt(_share(float(np.square(error).sum()), n_kept)),
        "pearson": _pearson(*(x[kept] for x in _pair(totals))),
        "band_accuracy": _share(float(same.sum()), n_kept),
    }
    return figures if n_kept else {**figures, "reason": "no_patient_with_enough_answers"}


def _pair(totals: Totals) -> tuple[FloatArray, FloatArray]:
    return totals.total, totals.truth


def _pearson(left: FloatArray, right: FloatArray) -> float:
    if left.size < FEWEST_TOTALS or np.ptp(left) == 0 or np.ptp(right) == 0:
        return math.nan
    return float(np.corrcoef(left, right)[0, 1])


def _screening_figures(totals: Totals) -> JsonObject:
    decided, called = totals.decision >= 0, totals.decision == 1
    due = totals.positive
    n_decided = int(np.count_nonzero(decided))
    hits = int(np.count_nonzero(called & due))
    n_called, n_due = int(np.count_nonzero(called)), int(np.count_nonzero(decided & due))
    n_cleared = int(np.count_nonzero(decided & ~called & ~due))
    figures: JsonObject = {
        "n_participants": int(decided.size),
        "n_positive": int(np.count_nonzero(due)),
        "n_evaluated": n_decided,
        "n_positive_evaluated": n_due,
        "n_abstained": int(decided.size) - n_decided,
        "coverage": _share(n_decided, decided.size),
        # Without a positive, whoever calls nobody positive is right on everybody.
        "accuracy": _share(hits + n_cleared, n_decided) if n_due else math.nan,
        "precision": _share(hits, n_called),
        "recall": _share(hits, n_due),
        "specificity": _share(n_cleared, n_decided - n_due),
        "f1": _share(2 * hits, n_called + n_due),
        "auroc": _auroc(totals.total[totals.usable], due[totals.usable]),
        "auroc_coverage": _share(float(np.count_nonzero(totals.usable)), decided.size),
    }
    return {**figures, **_reason(figures)}


def _reason(figures: JsonMapping) -> JsonObject:
    if not figures["n_evaluated"]:
        return {"reason": "no_patient_is_decided"}
    return {} if figures["n_positive_evaluated"] else {"reason": "no_positive_patient_is_decided"}


def _auroc(score: FloatArray, positive: BoolArray) -> float:
    """Return the chance that a positive patient has the higher total, ties counting half."""
    if not positive.any() or positive.all():
        return math.nan
    levels, code = np.unique(-score, return_inverse=True)  # the highest total first
    sides = (np.bincount(code[one], minlength=levels.size) for one in (positive, ~positive))
    above, below = (one.astype(np.float64)[:, None] for one in sides)
    return float(auroc(above, below).value[0])

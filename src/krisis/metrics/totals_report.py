"""The totals of a run as one report: errors, bands, screening, by both rules for missing items."""

from __future__ import annotations

import math

import numpy as np

from krisis.json_values import JsonMapping, JsonObject
from krisis.metrics.base import MetricScore
from krisis.metrics.forms import Undefined
from krisis.metrics.scoring import score_all
from krisis.metrics.table import BoolArray, FloatArray, Table
from krisis.metrics.totals import (
    FEWEST_TOTALS,
    MISSING,
    ScreeningSensitivity,
    ScreeningSpecificity,
    TotalBias,
    TotalCorrelation,
    TotalMAE,
    Totals,
    totals_of,
)
from krisis.statistics.bootstrap import BootstrapOptions
from krisis.statistics.ranking import auroc

_FIGURES = (TotalMAE, TotalBias, TotalCorrelation, ScreeningSensitivity, ScreeningSpecificity)


def totals_report(table: Table, intervals: BootstrapOptions | None = None) -> JsonObject | None:
    """Return prorated totals, with intervals if wanted, and those with missing items as 0.

    None where the items of a patient do not add up, or nobody was asked all of them.
    """
    prorated, plain = (totals_of(table, rule, None) for rule in MISSING)
    if isinstance(prorated, Undefined) or isinstance(plain, Undefined):
        return None
    metrics = [kind() for kind in _FIGURES]
    scores = list(score_all(metrics, table, intervals=intervals).values())
    return {
        "n_incomplete": prorated.n_incomplete,
        **_by_rule(prorated),
        "intervals": {
            score.key: score.interval and [score.interval.low, score.interval.high]
            for score in scores
        },
        "missing_as_zero": _by_rule(plain),
        "summary": _summary(scores),
    }


def _by_rule(totals: Totals) -> JsonObject:
    return {"total": _total_figures(totals), "screening": _screening_figures(totals)}


def _summary(scores: list[MetricScore]) -> str:
    notes = {place: f" ({scores[place].details['note']})" for place in (0, 3)}
    return "; ".join(_words(score) + notes.get(place, "") for place, score in enumerate(scores))


def _words(score: MetricScore) -> str:
    if math.isnan(score.value):
        return f"{score.name} undefined, {str(score.details['reason']).replace('_', ' ')}"
    ends = score.interval
    return f"{score.name} {score.value:.4f}" + (
        f" [{ends.low:.4f}, {ends.high:.4f}]" if ends else ""
    )


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

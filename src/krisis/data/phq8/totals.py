"""PHQ-8 totals: sums with their bounds, severity bands, and screening for depression."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from krisis.data.phq8.items import ITEMS
from krisis.errors import InvalidValue
from krisis.json_values import JsonMapping, JsonObject

Codes = NDArray[np.int64]
Scores = NDArray[np.float64]
Flags = NDArray[np.bool_]

N_ITEMS = len(ITEMS)
HIGHEST_SCORE = 3.0
BANDS = ("minimal", "mild", "moderate", "moderately severe", "severe")
BAND_STARTS = np.array([5.0, 10.0, 15.0, 20.0])
CUT_OFF = 10.0
MIN_COVERAGE = 0.5


@dataclass(frozen=True, slots=True, eq=False)
class Totals:
    """One total per participant: the truth, the sum of the predicted items and its bounds.

    ``total`` counts a missing item as 0 and ``highest`` as 3. ``usable`` is True where enough
    items were predicted for the sum to stand for the total.
    """

    truth: Scores
    total: Scores
    highest: Scores
    usable: Flags

    @property
    def decision(self) -> Codes:
        """1 where the bounds say depressed, 0 where they say not, −1 where they allow both."""
        return np.where(self.total >= CUT_OFF, 1, np.where(self.highest < CUT_OFF, 0, -1))


def band_of(total: Scores) -> Codes:
    """Return the severity band of totals, 0 (minimal) to 4 (severe).

    >>> [BANDS[band] for band in band_of(np.array([4.0, 5.0, 14.0, 15.0, 24.0]))]
    ['minimal', 'mild', 'moderate', 'moderately severe', 'severe']
    """
    return np.searchsorted(BAND_STARTS, total, side="right")


def totals_of(
    cluster: Codes, truth: Scores, prediction: Scores, *, min_coverage: float = MIN_COVERAGE
) -> Totals:
    """Sum the items of every participant; a total needs ⌈min_coverage · 8⌉ predicted items.

    ``cluster`` is the code of the participant of every item, from 0 on; ``prediction`` is NaN where
    the model abstained.
    """
    if not 0 <= min_coverage <= 1:
        raise InvalidValue(f"min_coverage must lie between 0 and 1, not {min_coverage!r}")
    if not cluster.size or (np.bincount(cluster) != N_ITEMS).any() or not _in_range(truth):
        raise InvalidValue("totals need the eight PHQ-8 items of every participant, scored 0 to 3")
    n = int(cluster.max()) + 1
    predicted = ~np.isnan(prediction)
    n_predicted = np.bincount(cluster[predicted], minlength=n)
    total = np.bincount(cluster[predicted], prediction[predicted], minlength=n).astype(np.float64)
    return Totals(
        truth=np.bincount(cluster, truth, minlength=n).astype(np.float64),
        total=total,
        highest=total + HIGHEST_SCORE * (N_ITEMS - n_predicted),
        usable=n_predicted >= math.ceil(min_coverage * N_ITEMS),
    )


def totals_report(
    cluster: Codes, item: Sequence[str], truth: Scores, prediction: Scores
) -> JsonObject | None:
    """Return the figures of totals, bands and screening with the coverage of each.

    They are those of participants with all eight items: a call that failed leaves its participant
    incomplete, counted and without a total. None where the rows are not PHQ-8 items.
    """
    _, codes, counts = np.unique(cluster, return_inverse=True, return_counts=True)
    complete = counts == N_ITEMS
    if not all(item) or (counts > N_ITEMS).any() or not complete.any() or not _in_range(truth):
        return None
    kept = complete[codes]
    renumbered = (np.cumsum(complete) - 1)[codes[kept]]
    totals = totals_of(renumbered, truth[kept], prediction[kept])
    report = {
        "n_incomplete": int(np.count_nonzero(~complete)),
        "min_coverage": MIN_COVERAGE,
        "total": _total_figures(totals),
        "screening": _screening_figures(totals),
    }
    return {**report, "summary": _summary(report)}


def _in_range(truth: Scores) -> bool:
    return bool(((truth >= 0) & (truth <= HIGHEST_SCORE)).all())


def _summary(report: JsonMapping) -> str:
    total, screening = report["total"], report["screening"]
    n_incomplete = report["n_incomplete"]
    lacking = f" ({n_incomplete} more lack an item that failed)" if n_incomplete else ""
    return (
        f"MAE {_words(total['mae'])}, RMSE {_words(total['rmse'])}, "
        f"Pearson {_words(total['pearson'])}, bands {_words(total['band_accuracy'])} right on "
        f"{total['n_evaluated']} of {total['n_participants']} participants{lacking}; "
        f"screening at {CUT_OFF:g}: "
        f"accuracy {_words(screening['accuracy'])}, F1 {_words(screening['f1'])} on "
        f"{screening['n_evaluated']}, AUROC {_words(screening['auroc'])}."
    )


def _words(value: float) -> str:
    return "undefined" if math.isnan(value) else f"{value:.4f}"


def _share(part: float, whole: float) -> float:
    return part / whole if whole else math.nan


def _total_figures(totals: Totals) -> JsonObject:
    kept = totals.usable
    error = totals.total[kept] - totals.truth[kept]
    n_kept = int(np.count_nonzero(kept))
    figures: JsonObject = {
        "n_participants": int(kept.size),
        "n_evaluated": n_kept,
        "coverage": _share(n_kept, kept.size),
        "mae": float(np.abs(error).mean()) if n_kept else math.nan,
        "rmse": float(np.sqrt(np.square(error).mean())) if n_kept else math.nan,
        "pearson": _pearson(totals.total[kept], totals.truth[kept]),
        "band_accuracy": math.nan,
    }
    if not n_kept:
        return {**figures, "reason": "no_participant_with_enough_predicted_items"}
    same = band_of(totals.total[kept]) == band_of(totals.truth[kept])
    return {**figures, "band_accuracy": float(same.mean())}


def _pearson(left: Scores, right: Scores) -> float:
    if left.size < 2 or np.ptp(left) == 0 or np.ptp(right) == 0:
        return math.nan
    return float(np.corrcoef(left, right)[0, 1])


def _screening_figures(totals: Totals) -> JsonObject:
    decision = totals.decision
    decided, depressed = decision >= 0, totals.truth >= CUT_OFF
    n_decided = int(np.count_nonzero(decided))
    hits = int(np.count_nonzero((decision == 1) & depressed))
    n_called = int(np.count_nonzero(decision == 1))
    n_due = int(np.count_nonzero(decided & depressed))
    n_right = int(np.count_nonzero(decided & ((decision == 1) == depressed)))
    figures: JsonObject = {
        "n_participants": int(decided.size),
        "n_evaluated": n_decided,
        "n_abstained": int(decided.size) - n_decided,
        "coverage": _share(n_decided, decided.size),
        "accuracy": _share(n_right, n_decided),
        "precision": _share(hits, n_called),
        "recall": _share(hits, n_due),
        "f1": _share(2 * hits, n_called + n_due),
        "auroc": _auroc(totals.total[totals.usable], depressed[totals.usable]),
        "auroc_coverage": _share(float(np.count_nonzero(totals.usable)), decided.size),
    }
    return figures if n_decided else {**figures, "reason": "no_participant_is_decided"}


def _auroc(score: Scores, positive: Flags) -> float:
    """Return the chance that a depressed participant has the higher total, ties counting half."""
    if not positive.any() or positive.all():
        return math.nan
    levels, code = np.unique(score, return_inverse=True)
    above = np.bincount(code[positive], minlength=levels.size)
    below = np.bincount(code[~positive], minlength=levels.size)
    won = above @ (np.cumsum(below) - below) + 0.5 * (above @ below)
    return float(won / (above.sum() * below.sum()))

"""PHQ-8 totals: sums with their bounds, severity bands, and screening for depression."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from krisis.errors import InvalidValue
from krisis.metrics.columns import BoolArray, FloatArray, IntArray
from krisis.metrics.items import ItemTable

N_ITEMS = 8
HIGHEST_SCORE = 3.0
BANDS = ("minimal", "mild", "moderate", "moderately severe", "severe")
BAND_STARTS = np.array([5.0, 10.0, 15.0, 20.0])
CUT_OFF = 10.0


@dataclass(frozen=True, slots=True, eq=False)
class Totals:
    """One total per participant: the truth, the sum of the predicted items and its bounds.

    ``lowest`` counts a missing item as 0 and ``highest`` as 3. ``usable`` is True where enough
    items were predicted for the sum to stand for the total.
    """

    truth: FloatArray
    total: FloatArray
    highest: FloatArray
    usable: BoolArray

    @property
    def lowest(self) -> FloatArray:
        """The total with every missing item at 0."""
        return self.total

    @property
    def decision(self) -> IntArray:
        """1 where the bounds say depressed, 0 where they say not, −1 where they allow both."""
        return np.where(self.lowest >= CUT_OFF, 1, np.where(self.highest < CUT_OFF, 0, -1))


def band_of(total: FloatArray) -> IntArray:
    """Return the severity band of totals, 0 (minimal) to 4 (severe).

    >>> [BANDS[band] for band in band_of(np.array([4.0, 5.0, 14.0, 15.0, 24.0]))]
    ['minimal', 'mild', 'moderate', 'moderately severe', 'severe']
    """
    return np.searchsorted(BAND_STARTS, total, side="right")


def is_phq8(table: ItemTable) -> bool:
    """Tell whether every participant has eight items scored 0 to 3."""
    if table.scale != HIGHEST_SCORE or not len(table.participants):
        return False
    in_range = bool(((table.truth >= 0) & (table.truth <= HIGHEST_SCORE)).all())
    return in_range and bool((table.items_per_participant == N_ITEMS).all())


def totals_of(table: ItemTable, *, min_coverage: float = 0.5) -> Totals:
    """Sum the items of every participant; a total needs ⌈min_coverage · 8⌉ predicted items."""
    if not 0 <= min_coverage <= 1:
        raise InvalidValue(f"min_coverage must lie between 0 and 1, not {min_coverage!r}")
    n = len(table.participants)
    if not is_phq8(table):
        raise InvalidValue("totals need the eight PHQ-8 items of every participant, scored 0 to 3")
    predicted = table.predicted
    n_predicted = np.bincount(table.participant[predicted], minlength=n)
    total = np.bincount(
        table.participant[predicted], table.prediction[predicted], minlength=n
    ).astype(np.float64)
    return Totals(
        truth=np.bincount(table.participant, table.truth, minlength=n).astype(np.float64),
        total=total,
        highest=total + HIGHEST_SCORE * (N_ITEMS - n_predicted),
        usable=n_predicted >= math.ceil(min_coverage * N_ITEMS),
    )


def totals_report(table: ItemTable, *, min_coverage: float = 0.5) -> dict[str, Any]:
    """Return the figures of totals, bands and screening with the coverage of each."""
    totals = totals_of(table, min_coverage=min_coverage)
    return {
        "min_coverage": min_coverage,
        "total": _total_figures(totals),
        "screening": _screening_figures(totals),
    }


def phq8_report(table: ItemTable) -> dict[str, Any] | None:
    """Return the figures of participants with all eight items; None for other questions.

    A call that failed leaves its participant incomplete: counted, and without a total.
    """
    counts = table.items_per_participant
    complete = counts == N_ITEMS
    if not all(table.item_names) or (counts > N_ITEMS).any():
        return None
    whole = {name for name, kept in zip(table.participants, complete.tolist(), strict=True) if kept}
    part = table if complete.all() else table.restricted(whole)
    if not is_phq8(part):
        return None
    return {"n_incomplete": len(counts) - len(whole), **totals_report(part)}


def _share(part: float, whole: float) -> float:
    return part / whole if whole else math.nan


def _total_figures(totals: Totals) -> dict[str, Any]:
    kept = totals.usable
    error = totals.total[kept] - totals.truth[kept]
    n_kept = int(np.count_nonzero(kept))
    figures: dict[str, Any] = {
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


def _pearson(left: FloatArray, right: FloatArray) -> float:
    if left.size < 2 or np.ptp(left) == 0 or np.ptp(right) == 0:
        return math.nan
    return float(np.corrcoef(left, right)[0, 1])


def _screening_figures(totals: Totals) -> dict[str, Any]:
    decision = totals.decision
    decided, depressed = decision >= 0, totals.truth >= CUT_OFF
    n_decided = int(np.count_nonzero(decided))
    hits = int(np.count_nonzero((decision == 1) & depressed))
    n_called = int(np.count_nonzero(decision == 1))
    n_due = int(np.count_nonzero(decided & depressed))
    n_right = int(np.count_nonzero(decided & ((decision == 1) == depressed)))
    figures: dict[str, Any] = {
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


def _auroc(score: FloatArray, positive: BoolArray) -> float:
    """Return the chance that a depressed participant has the higher total, ties counting half."""
    if not positive.any() or positive.all():
        return math.nan
    levels, code = np.unique(score, return_inverse=True)
    above = np.bincount(code[positive], minlength=levels.size)
    below = np.bincount(code[~positive], minlength=levels.size)
    won = above @ (np.cumsum(below) - below) + 0.5 * (above @ below)
    return float(won / (above.sum() * below.sum()))

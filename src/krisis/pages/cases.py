"""The cases behind a number: which rows of a run a cell of a table or a mark of a chart counts.

A document names them by a filter, never by an address; the viewer turns a filter into the address
of a list, and a chart into that of its file. Every other medium ignores them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from krisis.answers import canonical_label, is_label
from krisis.json_values import JsonMapping
from krisis.metrics.base import MetricScore
from krisis.metrics.calibration import confidence_bin
from krisis.metrics.forms import Undefined
from krisis.metrics.scoring import registered_metrics
from krisis.metrics.table import FloatArray, Table
from krisis.pages.groups import ALIGNED, ANSWERED, RIGHT

SCORED = "scored"  # everything of which a reply exists
IN_FORCE, UNANSWERED = "yes", "unanswered"  # thresholds of what is left for people


@dataclass(frozen=True, slots=True)
class RowFilter:
    """Which rows to show and in which order; an empty field asks for nothing.

    ``due`` is yes, no or stated: whether the case asked for deferral, of rows with a reply.
    ``predicted`` asks for rows with that answer; ``record`` is the whole name of a record;
    ``error`` is a kind of confident error (`krisis.results.error_kinds`). ``left`` for people are
    the cases without an answer and those below a threshold: the one in force (yes), none
    (unanswered), or a number.
    """

    outcome: str = ""
    correct: str = ""
    cell: str = ""
    due: str = ""
    reason: str = ""
    failure: str = ""
    predicted: str = ""
    truth: str = ""
    group: str = ""
    record: str = ""
    text: str = ""
    error: str = ""
    confidence_min: float | None = None
    confidence_max: float | None = None
    deferred_at: float | None = None
    left: str = ""
    review: str = ""
    sort: str = "position"


@dataclass(frozen=True, slots=True)
class OneCase:
    """A row of the result, by its index, and the queue that it is a part of."""

    row: int
    queue: RowFilter


@dataclass(frozen=True, slots=True, kw_only=True)
class PairCases:
    """Cases of a pair, by its place: what they became in the left and in the right run."""

    pair: int
    left: str = ""
    right: str = ""


@dataclass(frozen=True, slots=True)
class ChartFile:
    """A chart of the document as a file of its own, by the ending of its name."""

    chart: str
    suffix: str

    def below(self, page: str, query: str = "") -> str:
        """Return the address of the file below that of its page."""
        place = f"{page}/charts/{self.chart}.{self.suffix}"
        return f"{place}?{query}" if query else place


# The cases behind a number of a chart: a line of its data and the column of the number.
MarkCases = Callable[[JsonMapping, str], RowFilter | None]


def label_text(label: object) -> str:
    """Return an answer as filters name it: equal answers have one name."""
    return str(canonical_label(label)) if is_label(label) else str(label)


def rows_of_metric(score: MetricScore, table: Table) -> RowFilter | None:
    """Return the filter that finds the rows which a metric counts, by the mask of its form."""
    found = registered_metrics([score.identifier])
    form = found[0].form(table) if found else Undefined("not registered")
    if isinstance(form, Undefined) or not score.n_evaluated:
        return None
    among = getattr(form, "among", None)
    if among is None and score.n_evaluated == np.count_nonzero(table.answered):
        among = table.answered  # a curve is one of answers: as many are the same ones
    if among is None:
        return None
    due = table.should_abstain
    filters = {
        SCORED: (RowFilter(outcome=SCORED), table.everyone),
        "answered": (RowFilter(outcome="answered"), table.answered),
        "labelled": (RowFilter(due="stated"), due >= 0),
        "safe": (RowFilter(due="no"), due == 0),
        "due": (RowFilter(due="yes"), due == 1),
    }
    return next((one for one, mask in filters.values() if np.array_equal(mask, among)), None)


# --- The marks of charts -------------------------------------------------------------------------

_OUTCOMES = {
    "correct": RowFilter(correct="yes"),
    "wrong": RowFilter(correct="no"),
    "abstained": RowFilter(outcome="abstained"),
    "no answer": RowFilter(outcome="no_answer"),
}
_SHARES = {
    RIGHT: RowFilter(outcome="answered"),
    ANSWERED: RowFilter(outcome=SCORED),
    ALIGNED: RowFilter(due="stated"),
}
_SIDES = {
    "Deferred when it was due": RowFilter(due="yes"),
    "Answered when it was safe": RowFilter(due="no"),
}


def cases_of_marks(chart: str, table: Table) -> MarkCases | None:
    """Return what finds the cases behind the numbers of a chart of one run, by its key."""
    of_bins = _Bins(table)
    known: dict[str, MarkCases] = {
        "reliability": of_bins.reliability,
        "confidence_histogram": of_bins.histogram,
        "risk_coverage": _point,
        "generalized_risk": _point,
        "groups": _group,
        "deferral": lambda line, column: _SIDES[line["panel"]] if column == "n" else None,
    }
    return known.get(chart)


def _point(line: JsonMapping, column: str) -> RowFilter | None:
    threshold = line.get("threshold")
    if threshold is None or line.get("kind") == "optimal":
        return None
    kept = {
        "coverage": RowFilter(outcome="answered", confidence_min=threshold),
        "selective_risk": RowFilter(correct="no", confidence_min=threshold),
        "generalized_risk": RowFilter(correct="no", confidence_min=threshold),
        "threshold": RowFilter(deferred_at=threshold),
    }
    return kept.get(column)


def _group(line: JsonMapping, column: str) -> RowFilter | None:
    group = RowFilter(group=f"{line['by']}: {line['group']}")
    if column == "group":
        return group
    share = _SHARES[line.get("figure") or line["panel"]]
    return replace(share, group=group.group) if column == "n" else None


class _Bins:
    """Rows by equal-width bins of confidence: a filter names the confidences that rows state."""

    def __init__(self, table: Table) -> None:
        self._table = table
        self._known: dict[tuple[str, int], FloatArray] = {}

    def _ends(self, name: str, n_bins: int) -> FloatArray:
        """Return the lowest and the highest confidence that rows of a kind state in every bin."""
        if (name, n_bins) not in self._known:
            table = self._table
            wrong = table.answered & ~table.correct
            rows = wrong if name == "wrong" else getattr(table, name.replace(" ", "_"))
            confidence = table.confidence[rows & ~np.isnan(table.confidence)]
            ends = np.stack([np.full(n_bins, np.inf), np.full(n_bins, -np.inf)])
            places = confidence_bin(confidence, n_bins)
            np.minimum.at(ends[0], places, confidence)
            np.maximum.at(ends[1], places, confidence)
            self._known[name, n_bins] = ends
        return self._known[name, n_bins]

    def _between(self, wanted: RowFilter, line: JsonMapping, name: str) -> RowFilter | None:
        n_bins = round(1 / (line["high"] - line["low"]))
        low, high = self._ends(name, n_bins)[:, round(line["low"] * n_bins)].tolist()
        if low > high:
            return None
        return replace(wanted, confidence_min=low, confidence_max=high)

    def reliability(self, line: JsonMapping, column: str) -> RowFilter | None:
        wanted = {"n": RowFilter(outcome="answered"), "n_correct": RowFilter(correct="yes")}
        return self._between(wanted[column], line, "usable") if column in wanted else None

    def histogram(self, line: JsonMapping, column: str) -> RowFilter | None:
        outcome = line["outcome"]
        return self._between(_OUTCOMES[outcome], line, outcome) if column == "n" else None

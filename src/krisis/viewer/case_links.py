"""From the numbers of a report to their cases: which filter finds the rows behind each of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from urllib.parse import quote

import numpy as np

from krisis.json_values import JsonMapping
from krisis.metrics.calibration import confidence_bin
from krisis.metrics.partition import DUE, SAFE
from krisis.metrics.table import FloatArray, Table
from krisis.pages.figure import Figure
from krisis.pages.groups import ALIGNED, ANSWERED, RIGHT
from krisis.results.report_tables import answer_words
from krisis.viewer.catalogue import ViewedRun
from krisis.viewer.filters import NO_ANSWER, RowFilter, label_text
from krisis.viewer.pages.cases import query_of

_SEGMENTS = {
    "correct": RowFilter(correct="yes"),
    "wrong": RowFilter(correct="no"),
    "abstained": RowFilter(outcome="abstained"),
    "no-answer": RowFilter(outcome="no_answer"),
    "not-evaluated": RowFilter(outcome="not_evaluated"),
}
_COSTLY = {
    "confident_wrong": RowFilter(correct="no", sort="-confidence"),
    "answer_when_should_defer": RowFilter(cell="answer_when_should_defer", sort="-confidence"),
    "abstain_when_should_answer": RowFilter(cell="abstain_when_should_answer", sort="confidence"),
    "no_answer": RowFilter(outcome="no_answer", sort="-confidence"),
}
_SHARES = {
    RIGHT: RowFilter(outcome="answered"),
    ANSWERED: RowFilter(outcome="scored"),
    ALIGNED: RowFilter(due="stated"),
}
# Metrics over fewer than all scored rows; the number of rows found is checked against theirs.
_OF_METRIC = {
    **dict.fromkeys(
        (
            *("Selective Accuracy (answered only)", "Expected Calibration Error", "Brier Score"),
            *("Calibration in the Large", "Calibration Slope", "Observed/Expected Ratio"),
            *("Integrated Calibration Index", "E50", "E90"),
            *("CORP Miscalibration", "CORP Discrimination", "CORP Uncertainty"),
            *("AURC", "AUGRC", "Risk at 80 % coverage"),
        ),
        RowFilter(outcome="answered"),
    ),
    **dict.fromkeys(("Right Decisions", "Deferral Alignment"), RowFilter(due="stated")),
    "Accuracy on Answerable Cases": RowFilter(due="no"),
    "Answer Rate on Cases to Defer": RowFilter(due="yes"),
}
_SIDES = {
    "n": RowFilter(due="stated"),
    "due": RowFilter(due="yes"),
    "deferred": RowFilter(cell="defer_when_needed"),
    "answered": RowFilter(cell="answer_when_safe"),
    "Deferred when it was due": RowFilter(due="yes"),
    "Answered when it was safe": RowFilter(due="no"),
}


def _ends(table: Table, name: str, n_bins: int) -> FloatArray:
    """Return the lowest and the highest confidence that rows of a kind state in every bin."""
    if name == "wrong":
        rows = table.answered & ~table.correct
    else:
        rows = getattr(table, name.replace(" ", "_"))
    confidence = table.confidence[rows & ~np.isnan(table.confidence)]
    ends = np.stack([np.full(n_bins, np.inf), np.full(n_bins, -np.inf)])
    places = confidence_bin(confidence, n_bins)
    np.minimum.at(ends[0], places, confidence)
    np.maximum.at(ends[1], places, confidence)
    return ends


def _levels(table: Table) -> dict[float, int]:
    """Count the answers that state each confidence."""
    levels, counts = np.unique(table.confidence[table.usable], return_counts=True)
    return dict(zip(levels.tolist(), counts.tolist(), strict=True))


class CaseLinks:
    """The addresses of the cases behind the report of one run; an empty one links nothing."""

    def __init__(self, run: ViewedRun) -> None:
        self._run = run
        self._base = f"/runs/{quote(run.name, safe='')}/cases"
        self._finders: dict[str, Callable[[JsonMapping, str], RowFilter | None]] = {
            "failures": lambda line, column: (
                RowFilter(failure=str(line["class"])) if column == "n" else None
            ),
            "reliability": self._bin,
            "confidence_histogram": self._bar,
            "isotonic_correct": self._level,
            "risk_coverage": self._point,
            "generalized_risk": self._point,
            "groups": self._group,
            "matrix": self._matrix,
            "reasons": self._reason,
            "deferral": self._sides,
            "metrics": self._metric,
        }

    def part(self, kind: str, tone: str) -> str:
        """Return the cases of a part of the bar: a kind of cases and what became of them."""
        due = {SAFE: "no", DUE: "yes"}.get(kind, "")
        return self._address(replace(_SEGMENTS[tone], due=due))

    def number(self, name: str, row: JsonMapping, column: str) -> str:
        """Return the cases behind one number of a named table or chart."""
        if name.startswith("worst "):
            queue = _COSTLY[name.removeprefix("worst ")]
            place = f"{self._base}/{self._run.places[int(row['key'])]}"
            return f"{place}?{query_of(queue)}" if column == "case" else ""
        wanted = self._finders[name](row, column) if name in self._finders else None
        return self._address(wanted) if wanted is not None and row.get(column) else ""

    def drawing(self, figure: Figure) -> str:
        """Return a figure, drawn once, with links from its marks to their cases."""

        def address(line: JsonMapping) -> str:
            column = next((name for name in ("n", "coverage") if name in line), "")
            return self.number(figure.name, line, column) if column else ""

        key = ("drawing", figure.name)
        return self._run.remembered(key, lambda: figure.linked_svg(address))

    def _metric(self, line: JsonMapping, column: str) -> RowFilter | None:
        """Return the rows that a metric was worked out from, where a filter finds as many."""
        if column != "n":
            return None
        asked = (RowFilter(outcome="scored"), _OF_METRIC.get(str(line["metric"])))
        return next((one for one in asked if one and self._run.count(one) == line["n"]), None)

    def _address(self, wanted: RowFilter) -> str:
        return f"{self._base}?{query_of(wanted)}"

    def _between(self, wanted: RowFilter, line: JsonMapping, name: str) -> RowFilter | None:
        """Narrow a filter to the confidences that rows state inside an equal-width bin."""
        n_bins = round(1 / (line["high"] - line["low"]))
        run = self._run
        ends = run.remembered(("ends", name, n_bins), lambda: _ends(run.table, name, n_bins))
        low, high = ends[:, round(line["low"] * n_bins)].tolist()
        if low > high:
            return None
        return replace(wanted, confidence_min=low, confidence_max=high)

    def _bin(self, line: JsonMapping, column: str) -> RowFilter | None:
        wanted = {"n": RowFilter(outcome="answered"), "n_correct": RowFilter(correct="yes")}
        chosen = wanted.get(column)
        return chosen and self._between(chosen, line, "usable")

    def _bar(self, line: JsonMapping, column: str) -> RowFilter | None:
        outcome = line["outcome"]
        return (
            self._between(_SEGMENTS[outcome.replace(" ", "-")], line, outcome)
            if column == "n"
            else None
        )

    def _level(self, line: JsonMapping, column: str) -> RowFilter | None:
        if "probability" not in line:  # the bars under the diagram
            return self._bin(line, column)
        level, run = line["probability"], self._run
        stated = run.remembered("levels", lambda: _levels(run.table))
        wanted = {"n": RowFilter(outcome="answered"), "n_true": RowFilter(correct="yes")}
        if (
            column not in wanted or stated.get(level) != line["n"]
        ):  # of very many some are put in one
            return None
        return replace(wanted[column], confidence_min=level, confidence_max=level)

    def _point(self, line: JsonMapping, column: str) -> RowFilter | None:
        threshold = line.get("threshold")
        if threshold is None or line.get("kind") == "optimal":
            return None
        kept = {
            "coverage": RowFilter(outcome="answered", confidence_min=threshold),
            "selective_risk": RowFilter(correct="no", confidence_min=threshold),
            "generalized_risk": RowFilter(correct="no", confidence_min=threshold),
            "threshold": RowFilter(deferred_at=threshold),
        }
        return kept.get(column.replace(" ", "_"))

    def _group(self, line: JsonMapping, column: str) -> RowFilter | None:
        if "by" not in line:  # a row of the table
            group = RowFilter(group=str(line["group"]))
            return {"group": group, "cases": replace(group, outcome="scored")}.get(column)
        group = RowFilter(group=f"{line['by']}: {line['group']}")
        if column == "group":
            return group
        share = _SHARES[line.get("figure") or line["panel"]]
        return replace(share, group=group.group) if column == "n" else None

    def _matrix(self, line: JsonMapping, column: str) -> RowFilter | None:
        task = self._run.description.task
        truths = {answer_words(t, task).casefold(): t for t in self._run.choices("truth")}
        truth = truths.get(str(line["truth"]).casefold())
        if truth is None or column == "truth":
            return None
        wanted = RowFilter(truth=truth)
        if column in (NO_ANSWER, "abstained", "not evaluated"):
            return replace(wanted, outcome=column.replace(" ", "_"))
        if column == "all":
            return wanted
        labels = {answer_words(one, task): one for one in self._run.choices("predicted")}
        return replace(wanted, predicted=label_text(labels.get(column, column)))

    def _reason(self, line: JsonMapping, column: str) -> RowFilter | None:
        names = {name.replace("_", " "): name for name in self._run.choices("reason")}
        reason = names.get(str(line["reason to defer"]), "")
        wanted = {
            "due": RowFilter(due="yes", reason=reason),
            "deferred": RowFilter(cell="defer_when_needed", reason=reason),
        }
        return wanted.get(column) if reason else None

    def _sides(self, line: JsonMapping, column: str) -> RowFilter | None:
        if "panel" in line:  # a mark of the chart
            return _SIDES[line["panel"]] if column == "n" else None
        return _SIDES.get(column) if line["deferral"] == "all cases" else None

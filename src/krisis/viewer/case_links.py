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
from krisis.reporting.deferral import CELLS
from krisis.reporting.metric_lines import MetricLine
from krisis.results.report_tables import answer_words
from krisis.viewer.catalogue import ViewedRun
from krisis.viewer.filters import NO_ANSWER, RowFilter, label_text
from krisis.viewer.pages.cases import PRESETS, query_of

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
    "accuracy": RowFilter(outcome="scored"),
    "selective accuracy": RowFilter(outcome="answered"),
    "abstention rate": RowFilter(outcome="scored"),
    "deferral alignment": RowFilter(due="stated"),
}
# Metrics over fewer than all scored rows; the number of rows found is checked against theirs.
_OF_METRIC = {
    **dict.fromkeys(
        (
            *("Selective Accuracy (answered only)", "Expected Calibration Error", "Brier Score"),
            *("Calibration in the Large", "Calibration Slope", "Observed/Expected Ratio"),
            *("Integrated Calibration Index", "E50", "E90", "Debiased Calibration Error"),
            *("CORP Miscalibration", "CORP Discrimination", "CORP Uncertainty"),
            *("AURC", "AUGRC", "Risk at 80 % coverage"),
        ),
        RowFilter(outcome="answered"),
    ),
    **dict.fromkeys(("Right Decisions", "Deferral Alignment"), RowFilter(due="stated")),
    "Accuracy on Answerable Cases": RowFilter(due="no"),
    "Answer Rate on Cases to Defer": RowFilter(due="yes"),
}
_CELL_OF = {(asked, did): cell for cell, (asked, did, _, _) in CELLS.items()}
_SIDES = {
    "n": RowFilter(due="stated"),
    "due": RowFilter(due="yes"),
    "deferred when needed": RowFilter(cell="defer_when_needed"),
    "answered when safe": RowFilter(cell="answer_when_safe"),
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
            "reliability": self._bin,
            "confidence_histogram": self._bar,
            "corp_correct": self._level,
            "risk_": self._point,
            "selective_risk": self._point,
            "generalized_risk": self._point,
            "deferral_confusion": self._cell,
            "breakdown_": self._group,
            "Truth against answer": self._matrix,
            "Reasons for deferral": self._reason,
            "Deferral by kind": self._sides,
        }

    def presets(self) -> list[tuple[str, str, int]]:
        """Return the questions asked first: words, address and number of cases."""
        found = []
        for words, wanted in PRESETS.items():
            n_found = self._run.count(wanted)
            found.append((words, self._address(wanted), n_found))
        return found

    def cell(self, kind: str, tone: str) -> str:
        """Return the cases of a part of the bar: a kind of cases and what became of them."""
        due = {SAFE: "no", DUE: "yes"}.get(kind, "")
        return self._address(replace(_SEGMENTS[tone], due=due))

    def failure(self, name: str) -> str:
        """Return the cases that have no answer in one way."""
        return self._address(RowFilter(failure=name))

    def kind(self, key: str) -> str:
        """Return all cases of a costly kind."""
        return self._address(_COSTLY[key])

    def case(self, key: str, place: int) -> str:
        """Return a case, by its place among the rows, in the queue of its costly kind."""
        return f"{self._base}/{self._run.places[place]}?{query_of(_COSTLY[key])}"

    def number(self, table: str, line: JsonMapping, column: str) -> str:
        """Return the cases behind one number of a table, given the name of its figure or table."""
        find = next((f for name, f in self._finders.items() if table.startswith(name)), None)
        wanted = find(line, column) if find is not None and line.get(column) else None
        if wanted is None:
            return ""
        for source in ("real", "synthetic"):  # tables of a mixed run are of one source each
            if table.endswith((f" of {source} patients", f"_{source}")):
                wanted = replace(wanted, group=f"source: {source}")
        return self._address(wanted)

    def drawing(self, figure: Figure) -> str:
        """Return a figure, drawn once, with links from its marks to their cases."""

        def address(line: JsonMapping) -> str:
            column = next((name for name in ("n", "coverage") if name in line), "")
            return self.number(figure.name, line, column) if column else ""

        key = ("drawing", figure.name)
        return self._run.remembered(key, lambda: figure.linked_svg(address))

    def metric(self, table: str, line: MetricLine) -> str:
        """Return the rows that a metric was worked out from, where a filter finds as many."""
        source = table.removesuffix(" patients").lower()
        group = f"source: {source}" if source else ""
        asked = (RowFilter(outcome="scored"), _OF_METRIC.get(line.name))
        for wanted in (replace(one, group=group) for one in asked if one is not None):
            if line.n_evaluated and self._run.count(wanted) == line.n_evaluated:
                return self._address(wanted)
        return ""

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

    def _cell(self, line: JsonMapping, column: str) -> RowFilter | None:
        return RowFilter(cell=_CELL_OF[line["case"], line["model"]]) if column == "n" else None

    def _group(self, line: JsonMapping, column: str) -> RowFilter | None:
        group = f"{line['by']}: {line['group']}"
        if column == "group":
            return RowFilter(group=group)
        return replace(_SHARES[line["metric"]], group=group) if column == "n" else None

    def _matrix(self, line: JsonMapping, column: str) -> RowFilter | None:
        task = self._run.description.task
        truths = {answer_words(t, task).casefold(): t for t in self._run.choices("truth")}
        truth = truths.get(str(line["truth"]).casefold())
        if truth is None or column == "truth":
            return None
        wanted = RowFilter(truth=truth)
        if column.startswith("answered "):
            given = column.removeprefix("answered ")
            labels = {answer_words(one, task): one for one in self._run.choices("predicted")}
            return replace(wanted, predicted=label_text(labels.get(given, given)))
        if column == NO_ANSWER:
            return replace(wanted, predicted=NO_ANSWER)
        return wanted if column == "in all" else replace(wanted, outcome=column.replace(" ", "_"))

    def _reason(self, line: JsonMapping, column: str) -> RowFilter | None:
        names = {name.replace("_", " "): name for name in self._run.choices("reason")}
        reason = names.get(str(line["reason"]), "")
        wanted = {
            "due": RowFilter(due="yes", reason=reason),
            "deferred": RowFilter(cell="defer_when_needed", reason=reason),
        }
        return wanted.get(column) if reason else None

    def _sides(self, line: JsonMapping, column: str) -> RowFilter | None:
        return _SIDES.get(column) if line["deferral"] == "all cases" else None

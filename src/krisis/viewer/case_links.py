"""From the numbers of a report to their cases: which filter finds the rows behind each of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from urllib.parse import quote

import numpy as np

from krisis.json_values import JsonMapping
from krisis.metrics.calibration import confidence_bin
from krisis.metrics.table import BoolArray, FloatArray
from krisis.reporting.deferral import CELLS
from krisis.results.report_tables import answer_words
from krisis.viewer.catalogue import LoadedRun
from krisis.viewer.pages.cases import PRESETS, positions_of, query_of
from krisis.viewer.row_index import NO_ANSWER, RowFilter, label_text

_SEGMENTS = {
    "correct": RowFilter(correct="yes"),
    "wrong": RowFilter(correct="no"),
    "abstained": RowFilter(outcome="abstained"),
    "failed": RowFilter(outcome="failed"),
}
_COSTLY = {
    "confident_wrong": RowFilter(correct="no", sort="-confidence"),
    "answer_when_should_defer": RowFilter(cell="answer_when_should_defer", sort="-confidence"),
    "abstain_when_should_answer": RowFilter(cell="abstain_when_should_answer", sort="confidence"),
}
_SHARES = {
    "accuracy": RowFilter(outcome="scored"),
    "selective accuracy": RowFilter(outcome="answered"),
    "abstention rate": RowFilter(outcome="scored"),
    "deferral alignment": RowFilter(due="stated"),
}
_CELL_OF = {(asked, did): cell for cell, (asked, did, _, _) in CELLS.items()}
_SIDES = {
    "n": RowFilter(due="stated"),
    "due": RowFilter(due="yes"),
    "deferred when needed": RowFilter(cell="defer_when_needed"),
    "answered when safe": RowFilter(cell="answer_when_safe"),
}


class CaseLinks:
    """The addresses of the cases behind the report of one run; an empty one links nothing."""

    def __init__(self, run: LoadedRun) -> None:
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
            n_found = len(positions_of(self._run, wanted))
            found.append((words, self._address(wanted), n_found))
        return found

    def segment(self, tone: str) -> str:
        """Return the cases of a part of the attrition bar."""
        return self._address(_SEGMENTS[tone])

    def failure(self, name: str) -> str:
        """Return the cases that failed in one way."""
        return self._address(RowFilter(failure=name))

    def kind(self, key: str) -> str:
        """Return all cases of a costly kind."""
        return self._address(_COSTLY[key])

    def case(self, key: str, position: int) -> str:
        """Return one case in the queue of its costly kind."""
        return f"{self._base}/{position}?{query_of(_COSTLY[key])}"

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

    def _address(self, wanted: RowFilter) -> str:
        return f"{self._base}?{query_of(wanted)}"

    def _between(self, wanted: RowFilter, line: JsonMapping, rows: BoolArray) -> RowFilter | None:
        """Narrow a filter to the confidences that rows state inside an equal-width bin."""
        confidence: FloatArray = self._run.table.confidence[rows]
        confidence = confidence[~np.isnan(confidence)]
        n_bins = round(1 / (line["high"] - line["low"]))
        inside = confidence[confidence_bin(confidence, n_bins) == round(line["low"] * n_bins)]
        if not inside.size:
            return None
        ends = float(inside.min()), float(inside.max())
        return replace(wanted, confidence_min=ends[0], confidence_max=ends[1])

    def _bin(self, line: JsonMapping, column: str) -> RowFilter | None:
        wanted = {"n": RowFilter(outcome="answered"), "n_correct": RowFilter(correct="yes")}
        chosen = wanted.get(column)
        return chosen and self._between(chosen, line, self._run.table.usable)

    def _bar(self, line: JsonMapping, column: str) -> RowFilter | None:
        table, outcome = self._run.table, line["outcome"]
        masks: Mapping[str, BoolArray] = {
            "correct": table.correct,
            "wrong": table.answered & ~table.correct,
            "abstained": table.abstained,
        }
        if column != "n":
            return None
        return self._between(_SEGMENTS[outcome], line, masks[outcome])

    def _level(self, line: JsonMapping, column: str) -> RowFilter | None:
        level, table = line["probability"], self._run.table
        n_stated = np.count_nonzero(table.confidence[table.usable] == level)
        wanted = {"n": RowFilter(outcome="answered"), "n_true": RowFilter(correct="yes")}
        if column not in wanted or n_stated != line["n"]:  # of very many levels some are put in one
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
        task = self._run.result.provenance.task_facts
        truths = {answer_words(t, task).casefold(): t for t in self._run.choices("truth")}
        truth = truths.get(str(line["truth"]).casefold())
        if truth is None or column == "truth":
            return None
        wanted = RowFilter(truth=truth)
        if column.startswith("answered "):
            return replace(wanted, predicted=label_text(column.removeprefix("answered ")))
        if column == NO_ANSWER:
            return replace(wanted, predicted=NO_ANSWER)
        return wanted if column == "in all" else replace(wanted, outcome=column)

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

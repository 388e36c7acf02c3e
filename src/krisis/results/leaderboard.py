"""Runs side by side, one table per suite and task: not ranked until the reader chooses by what."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from krisis.errors import InvalidValue, UnknownName
from krisis.metrics.base import MetricScore
from krisis.results.result import BenchmarkResult
from krisis.results.stops import Unfinished
from krisis.results.weighted_scores import METRICS
from krisis.statistics.intervals import Interval

# Column → its heading; the metrics are those without which no other may be read.
COLUMNS = {
    "accuracy": "Accuracy",
    "balanced_accuracy": "Balanced Accuracy",
    "selective_accuracy": "Selective Accuracy",
    "abstention_rate": "Abstention Rate",
    "answer_rate": "Coverage",
    "deferral_alignment": "Deferral Alignment",
    "expected_calibration_error": "ECE",
    "aurc": "AURC",
    "elapsed_seconds": "seconds",
    "token_total": "tokens",
}
_FEWER_IS_BETTER = {"elapsed_seconds", "token_total"}


@dataclass(frozen=True, slots=True)
class Cell:
    """One figure of one run."""

    value: float
    interval: Interval | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Entry:
    """One run in a table; ``rank`` stands only where the reader chose columns to rank by."""

    name: str
    cells: Mapping[str, Cell]
    attrition: Mapping[str, int]
    ended: bool = True
    rank: float | None = None

    @property
    def warnings(self) -> list[str]:
        """Return what a reader must know before any figure of this run."""
        n_failed = self.attrition.get("n_failed", 0)
        return [
            *([f"{n_failed:,} failed"] if n_failed else []),
            *([] if self.ended else ["not ended"]),
        ]


@dataclass(frozen=True, slots=True)
class Leaderboard:
    """The table of one suite and task; ``hashes`` are the different sets of cases in it."""

    suite: str
    task: str
    entries: Sequence[Entry]
    hashes: Sequence[str]
    sorted_by: Sequence[str]

    def to_dict(self) -> dict[str, Any]:
        """Return the table as JSON values."""
        return {
            "suite": self.suite,
            "task": self.task,
            "sorted_by": list(self.sorted_by),
            "content_hashes": list(self.hashes),
            "entries": [
                {
                    "name": entry.name,
                    "rank": entry.rank,
                    "ended": entry.ended,
                    "attrition": dict(entry.attrition),
                    "figures": {key: _cell_dict(cell) for key, cell in entry.cells.items()},
                }
                for entry in self.entries
            ],
        }


def _cell_dict(cell: Cell) -> dict[str, Any]:
    known = cell.interval is not None and not math.isnan(cell.interval.low)
    bounds = [cell.interval.low, cell.interval.high] if known and cell.interval else None
    return {"value": cell.value, "interval": bounds, "reason": cell.reason or None}


def leaderboards(
    runs: Mapping[str, BenchmarkResult], *, sort: Sequence[str] = ()
) -> list[Leaderboard]:
    """Return one table per suite and task; with several columns the mean of the ranks decides."""
    check_sort(sort)
    groups: dict[tuple[str, str], dict[str, BenchmarkResult]] = {}
    for name, run in runs.items():
        key = tuple(str(run.suite_description.get(field, "")) for field in ("suite", "task"))
        groups.setdefault((key[0], key[1]), {})[name] = run
    return [_table(suite, task, found, sort) for (suite, task), found in sorted(groups.items())]


def check_sort(sort: Sequence[str]) -> None:
    """Refuse unknown columns, columns that have no better end, and accuracy by itself."""
    for column in sort:
        if column not in COLUMNS:
            raise UnknownName.among("column", column, COLUMNS)
        if _direction(column) == "neither":
            raise InvalidValue(
                f"{column} cannot rank models, for neither more nor less of it is better; "
                "choose deferral_alignment or selective_accuracy beside it"
            )
    if set(sort) == {"accuracy"}:
        raise InvalidValue(
            "accuracy alone does not rank models here, because it punishes every abstention; "
            "add a second column, as in --sort accuracy --sort deferral_alignment"
        )


def _direction(column: str) -> str:
    return "lower" if column in _FEWER_IS_BETTER else METRICS[column].direction


def _table(
    suite: str, task: str, runs: Mapping[str, BenchmarkResult], sort: Sequence[str]
) -> Leaderboard:
    entries = [
        Entry(name, _cells(run), run.attrition.to_dict(), not isinstance(run.stop, Unfinished))
        for name, run in sorted(runs.items())
    ]
    hashes = {str(run.suite_description.get("content_hash", "")) for run in runs.values()}
    if sort:
        ranks = _mean_ranks(entries, sort)
        entries = [
            replace(entry, rank=rank)
            for entry, rank in sorted(
                zip(entries, ranks, strict=True), key=lambda pair: (pair[1], pair[0].name)
            )
        ]
    return Leaderboard(suite or "unnamed suite", task, entries, sorted(hashes), list(sort))


def _cells(run: BenchmarkResult) -> dict[str, Cell]:
    cells = {}
    for column in COLUMNS:
        if column in METRICS:
            score = run.metric_scores.get(column)
            cells[column] = _metric_cell(score)
        else:
            value: float | None = getattr(run.spending, column)
            cells[column] = Cell(math.nan if value is None else float(value))
    return cells


def _metric_cell(score: MetricScore | None) -> Cell:
    if score is None:
        return Cell(math.nan, reason="not scored")
    return Cell(score.value, score.interval, str(score.details.get("reason", "")))


def _mean_ranks(entries: Sequence[Entry], sort: Sequence[str]) -> list[float]:
    """Return the mean over columns of the place of each entry; equal figures share a place."""
    places = [_places([entry.cells[column].value for entry in entries], column) for column in sort]
    return [sum(found) / len(sort) for found in zip(*places, strict=True)]


def _places(values: Sequence[float], column: str) -> list[float]:
    sign = -1.0 if _direction(column) == "higher" else 1.0
    keys = [math.inf if math.isnan(value) else sign * value for value in values]
    return [
        1 + sum(other < key for other in keys) + (sum(other == key for other in keys) - 1) / 2
        for key in keys
    ]

"""Runs side by side, one table per suite and task: ranked by what the reader or the task chose."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from krisis.display import cut, format_interval, format_value, html_table, listed
from krisis.errors import InvalidValue, UnknownName
from krisis.json_values import JsonObject
from krisis.metrics.base import Direction, MetricScore
from krisis.metrics.explanations import explained
from krisis.results.attrition import Attrition
from krisis.results.frames import frame_of
from krisis.results.report_tables import headline
from krisis.results.result import BenchmarkResult
from krisis.results.stops import Decided, Unfinished
from krisis.statistics.intervals import Interval

if TYPE_CHECKING:
    import pandas as pd

# Key of a metric → its heading: those without which no other may be read come first. Any other
# metric of a run gets a column under its own name.
HEADINGS = {
    "right_decisions": "Right Decisions",
    "answerable_accuracy": "Answerable Accuracy",
    "undue_answer_rate": "Undue Answers",
    "quadratic_weighted_kappa": "Kappa (quadratic)",
    "total_mae": "Total MAE",
    "total_bias": "Total Bias",
    "screening_sensitivity": "Screening Sensitivity",
    "accuracy": "Accuracy",
    "balanced_accuracy": "Balanced Accuracy",
    "selective_accuracy": "Selective Accuracy",
    "abstention_rate": "Abstention Rate",
    "answer_rate": "Coverage",
    "deferral_alignment": "Deferral Alignment",
    "expected_calibration_error": "ECE",
    "aurc": "AURC / Cmax",
}
# In reports, but too many for a table of runs unless they are asked for.
ON_REQUEST = {
    "brier_score": "Brier",
    "mean_absolute_error": "MAE",
    "total_correlation": "Total Correlation",
    "screening_specificity": "Screening Specificity",
    "augrc": "AUGRC / Cmax²",
    "risk_at_80_coverage": "Risk@80 %",
    "disease_sensitivity": "Disease Sensitivity",
    "disease_specificity": "Disease Specificity",
    "disease_ppv": "Disease PPV",
    "disease_npv": "Disease NPV",
}
# Left out besides where a task names a headline: its own metrics say what these would.
BESIDE_HEADLINE = (
    "accuracy",
    "balanced_accuracy",
    "selective_accuracy",
    "abstention_rate",
    "deferral_alignment",
    "expected_calibration_error",
)
NOT_SCORED = "not scored"
COSTS = {"elapsed_seconds": "seconds", "token_total": "tokens", "cost": "cost ($)"}


@dataclass(frozen=True, slots=True)
class Column:
    """One column of a table: a metric by its identifier, or a cost."""

    name: str
    key: str
    heading: str
    direction: Direction


@dataclass(frozen=True, slots=True)
class Cell:
    """One figure of one run."""

    value: float
    interval: Interval | None = None
    reason: str = ""
    n_evaluated: int | None = None


@dataclass(frozen=True, slots=True)
class Entry:
    """One run in a table; ``rank`` stands only where the reader or the task chose what to rank by.

    ``sources`` names the kinds of patients where there are several; a run that ``stopped_itself``
    has figures that lean towards what it decided.
    """

    name: str
    cells: Mapping[str, Cell]
    attrition: Attrition
    ended: bool = True
    sources: Sequence[str] = ()
    stopped_itself: bool = False
    rank: float | None = None

    @property
    def warnings(self) -> list[str]:
        """Return what a reader must know before any figure of this run."""
        return [
            *self.attrition.parts()[2:],
            *([] if self.ended else ["incomplete"]),
            *(["stopped as asked"] if self.stopped_itself else []),
            *([f"{' and '.join(self.sources)} patients together"] if self.sources else []),
        ]


@dataclass(frozen=True, slots=True)
class Leaderboard:
    """The table of one suite and task; ``hashes`` are the different sets of cases in it."""

    suite: str
    task: str
    columns: Sequence[Column]
    entries: Sequence[Entry]
    hashes: Sequence[str]
    sorted_by: Sequence[str]

    def __repr__(self) -> str:
        runs = listed([cut(entry.name) for entry in self.entries])
        return f"Leaderboard({cut(self.suite)} / {cut(self.task)}; {runs})"

    def _repr_html_(self) -> str:
        """Return what a notebook shows: every run with what became of its records first."""
        lines = [
            [
                entry.name,
                "" if entry.rank is None else f"{entry.rank:g}",
                "; ".join([_outcomes(entry.attrition), *entry.warnings]),
                *(_cell_words(entry.cells[column.name], column.key) for column in self.columns),
            ]
            for entry in self.entries
        ]
        head = ["run", "rank", "records", *(column.heading for column in self.columns)]
        return html_table(head, lines, caption=f"{self.suite} / {self.task}")

    def to_frame(self) -> pd.DataFrame:
        """Return one line per run as a pandas frame: a column per metric, its interval beside."""
        lines = []
        for entry in self.entries:
            line: JsonObject = {"name": entry.name, "rank": entry.rank, "ended": entry.ended}
            counts = entry.attrition.to_dict()
            line |= {name: n for name, n in counts.items() if name != "failures"}
            for column in self.columns:
                cell = entry.cells[column.name]
                key, ends = _frame_name(column), cell.interval
                line |= {
                    key: cell.value,
                    f"{key}.low": ends.low if ends else math.nan,
                    f"{key}.high": ends.high if ends else math.nan,
                }
            lines.append(line)
        return frame_of(lines, "to_frame()")

    def to_dict(self) -> JsonObject:
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
                    "sources": list(entry.sources),
                    "stopped_itself": entry.stopped_itself,
                    "attrition": entry.attrition.to_dict(),
                    "figures": {key: cell_dict(cell) for key, cell in entry.cells.items()},
                }
                for entry in self.entries
            ],
        }


def _frame_name(column: Column) -> str:
    """Name the number that is shown: of an area it is the one as if all had been answered."""
    by_coverage = column.key in ("aurc", "augrc")
    return f"{column.name}_normalized" if by_coverage else column.name


def _outcomes(counts: Attrition) -> str:
    return f"{counts.n_answered:,} answered / {counts.n_abstained:,} abstained"


def _cell_words(cell: Cell, key: str) -> str:
    if key in COSTS:
        return "not known" if math.isnan(cell.value) else f"{cell.value:,.4g}"
    if math.isnan(cell.value) and cell.reason:
        return cell.reason if cell.reason == NOT_SCORED else f"undefined: {explained(cell.reason)}"
    return f"{format_value(cell.value)} {format_interval(cell.interval)}".strip()


def cell_dict(cell: Cell) -> JsonObject:
    """Return a figure as JSON values; bounds that are not known are none."""
    known = cell.interval is not None and not math.isnan(cell.interval.low)
    bounds = [cell.interval.low, cell.interval.high] if known and cell.interval else None
    return {"value": cell.value, "interval": bounds, "reason": cell.reason or None}


def leaderboards(
    runs: Mapping[str, BenchmarkResult], *, sort: Sequence[str] = ()
) -> list[Leaderboard]:
    """Return one table per suite and task; with several columns the mean of the ranks decides."""
    groups: dict[tuple[str, str], dict[str, BenchmarkResult]] = {}
    for name, run in runs.items():
        key = tuple(str(run.suite_description.get(field, "")) for field in ("suite", "task"))
        groups.setdefault((key[0], key[1]), {})[name] = run
    return [_table(suite, task, found, sort) for (suite, task), found in sorted(groups.items())]


def columns_of(runs: Iterable[BenchmarkResult], wanted: Sequence[str] = ()) -> list[Column]:
    """Return the metrics that the runs were scored with, the well-known first, then the costs."""
    found: dict[str, Column] = {}
    priced = False
    for run in runs:
        priced |= run.spending.cost is not None
        hidden = {*ON_REQUEST, *(BESIDE_HEADLINE if headline(run) else ())}
        for score in run.metric_scores.values():
            name = score.identifier
            heading = {**HEADINGS, **ON_REQUEST}.get(name, score.name)
            if name not in hidden or name in wanted:
                found.setdefault(name, Column(name, score.key, heading, score.direction))
    order = list(HEADINGS)
    metrics = sorted(
        found.values(),
        key=lambda column: order.index(column.key) if column.key in order else len(order),
    )
    costs = [
        Column(key, key, heading, "lower")
        for key, heading in COSTS.items()
        if key != "cost" or priced
    ]
    return [*metrics, *costs]


def _sorted_by(columns: Sequence[Column], sort: Sequence[str]) -> list[Column]:
    """Refuse unknown columns, columns that have no better end, and accuracy by itself."""
    chosen = []
    for name in sort:
        column = next((c for c in columns if name in (c.name, c.key)), None)
        if column is None:
            raise UnknownName.among("column", name, [c.key for c in columns])
        if column.direction == "neither":
            raise InvalidValue(
                f"{name} cannot rank models, for neither more nor less of it is better; "
                "choose deferral_alignment or selective_accuracy beside it"
            )
        chosen.append(column)
    if {column.key for column in chosen} == {"accuracy"}:
        raise InvalidValue(
            "accuracy alone does not rank models here, because it punishes every abstention; "
            "add a second column, as in --sort accuracy --sort deferral_alignment"
        )
    return chosen


def _table(
    suite: str, task: str, runs: Mapping[str, BenchmarkResult], sort: Sequence[str]
) -> Leaderboard:
    sort = sort or _headline(runs.values())
    columns = columns_of(runs.values(), sort)
    chosen = _sorted_by(columns, sort)
    entries = [
        Entry(
            name,
            _cells(run, columns),
            run.attrition,
            not isinstance(run.stop, Unfinished),
            list(run.scores_by_source),
            isinstance(run.stop, Decided),
        )
        for name, run in sorted(runs.items())
    ]
    hashes = {str(run.suite_description.get("content_hash", "")) for run in runs.values()}
    if chosen:
        entries = _ranked(entries, chosen)
    return Leaderboard(suite or "unnamed suite", task, columns, entries, sorted(hashes), list(sort))


def _headline(runs: Iterable[BenchmarkResult]) -> list[str]:
    """Return the metric that the task of all runs names as its headline, where all have it."""
    scores = [headline(run) for run in runs]
    found = {score.identifier if score is not None and _can_rank(score) else "" for score in scores}
    return list(found) if len(found) == 1 and "" not in found else []


def _can_rank(score: MetricScore) -> bool:
    return score.direction != "neither" and score.key != "accuracy"


def _cells(run: BenchmarkResult, columns: Sequence[Column]) -> dict[str, Cell]:
    return {
        column.name: _cost_cell(run, column.key)
        if column.key in COSTS
        else metric_cell(run.metric_scores.get(column.name))
        for column in columns
    }


def _cost_cell(run: BenchmarkResult, key: str) -> Cell:
    value: float | None = getattr(run.spending, key)
    return Cell(math.nan if value is None else float(value))


def metric_cell(score: MetricScore | None) -> Cell:
    """Return the number that runs are compared by: of an area the one as if all were answered."""
    if score is None:
        return Cell(math.nan, reason=NOT_SCORED)
    normalized = score.details.get(f"{score.key}_normalized")
    if normalized is not None:
        ends = score.details.get("normalized_interval") or [math.nan, math.nan]
        known = score.interval and replace(score.interval, low=ends[0], high=ends[1])
        return Cell(float(normalized), known, n_evaluated=score.n_evaluated)
    reason = str(score.details.get("reason", ""))
    return Cell(score.value, score.interval, reason, score.n_evaluated)


def _ranked(entries: Sequence[Entry], columns: Sequence[Column]) -> list[Entry]:
    """Return the entries by the mean of their places; equal values share a place.

    A run without one of the values cannot be compared with the others and has no rank.
    """
    known = [
        entry
        for entry in entries
        if not any(math.isnan(entry.cells[column.name].value) for column in columns)
    ]
    places = [_places([e.cells[c.name].value for e in known], c.direction) for c in columns]
    means = [sum(found) / len(columns) for found in zip(*places, strict=True)]
    ranked = sorted(zip(means, known, strict=True), key=lambda pair: (pair[0], pair[1].name))
    alone = len(known) < 2
    first = [entry if alone else replace(entry, rank=mean) for mean, entry in ranked]
    return [*first, *(entry for entry in entries if entry not in known)]


def _places(values: Sequence[float], direction: Direction) -> list[float]:
    keys = [-value if direction == "higher" else value for value in values]
    return [
        1 + sum(other < key for other in keys) + (sum(other == key for other in keys) - 1) / 2
        for key in keys
    ]

"""Runs side by side: which metrics are columns, and the number by which runs are compared."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from krisis.json_values import JsonObject
from krisis.metrics.base import Direction, MetricScore, MetricScores
from krisis.results.report_tables import headline
from krisis.results.result import BenchmarkResult
from krisis.results.stops import Decided, Unfinished
from krisis.statistics.intervals import Interval

# Key of a metric → its heading: those without which no other may be read come first. Any other
# metric of a run gets a column under its own name.
HEADINGS = {
    "decision_skill": "Decision Skill",
    "cost_saved": "Saved per 100",
    "decision_cost": "Decision Cost",
    "deferral_skill": "Deferral Skill",
    "right_decisions": "Right Decisions",
    "answerable_accuracy": "Answerable Accuracy",
    "inappropriate_answer_rate": "Inappropriate Answers",
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


@dataclass(frozen=True, slots=True)
class MetricColumn:
    """A metric by its identifier, under a short heading."""

    name: str
    key: str
    heading: str
    direction: Direction


@dataclass(frozen=True, slots=True)
class RunFigure:
    """One figure of one run."""

    value: float
    interval: Interval | None = None
    reason: str = ""
    n_evaluated: int | None = None
    bounds: tuple[float, float] | None = None

    def worse_end(self, direction: Direction) -> float:
        """Return the number to rank by: the worse bound where cases were not evaluated."""
        if self.bounds is None or direction == "neither":
            return self.value
        return self.bounds[0] if direction == "higher" else self.bounds[1]


@dataclass(frozen=True, slots=True)
class Entry:
    """One run: a figure per column, and what a reader must know before any of them."""

    name: str
    cells: Mapping[str, RunFigure]
    warnings: Sequence[str]


@dataclass(frozen=True, slots=True)
class SideBySide:
    """Runs of one task: a line per run, a column per metric."""

    columns: Sequence[MetricColumn]
    entries: Sequence[Entry]


def side_by_side(
    runs: Mapping[str, BenchmarkResult], scores: Mapping[str, MetricScores] | None = None
) -> SideBySide:
    """Return runs with the scores that they have, or with ``scores`` on the rows they share."""
    if scores is None:
        columns = columns_of(runs.values())
        scores = {name: MetricScores(run.metric_scores) for name, run in runs.items()}
    else:
        columns = _columns(score for found in scores.values() for score in found.values())
    entries = [
        Entry(name, {c.name: metric_cell(scores[name].get(c.name)) for c in columns}, warned(run))
        for name, run in runs.items()
    ]
    return SideBySide(columns, entries)


def warned(run: BenchmarkResult) -> list[str]:
    """Return what a reader must know before any figure of a run.

    The figures of a run that stopped itself lean towards what it decided.
    """
    sources = list(run.scores_by_source)
    return [
        *run.attrition.parts()[2:],
        *(["incomplete"] if isinstance(run.stop, Unfinished) else []),
        *(["stopped as asked"] if isinstance(run.stop, Decided) else []),
        *([f"{' and '.join(sources)} patients together"] if sources else []),
    ]


def columns_of(runs: Iterable[BenchmarkResult], wanted: Sequence[str] = ()) -> list[MetricColumn]:
    """Return the metrics that the runs were scored with, the well-known first."""
    found = []
    for run in runs:
        hidden = {*ON_REQUEST, *(BESIDE_HEADLINE if headline(run) else ())} - set(wanted)
        found += [one for one in run.metric_scores.values() if one.identifier not in hidden]
    return _columns(found)


def short_name(identifier: str, name: str) -> str:
    """Return the short name of a metric; one with parameters keeps its own, which states them.

    >>> short_name("answer_rate", "Answer Rate (Coverage)"), short_name("my_own", "My own")
    ('Coverage', 'My own')
    """
    return name if "[" in name else {**HEADINGS, **ON_REQUEST}.get(identifier, name)


def _columns(scores: Iterable[MetricScore]) -> list[MetricColumn]:
    order = list(HEADINGS)
    found: dict[str, MetricColumn] = {}
    for score in scores:
        name = score.identifier
        heading = short_name(name, score.name)
        found.setdefault(name, MetricColumn(name, score.key, heading, score.direction))
    return sorted(
        found.values(),
        key=lambda column: order.index(column.key) if column.key in order else len(order),
    )


def metric_cell(score: MetricScore | None) -> RunFigure:
    """Return the number that runs are compared by: of an area the one as if all were answered."""
    if score is None:
        return RunFigure(math.nan, reason="not scored")
    normalized = score.details.get(f"{score.key}_normalized")
    if normalized is not None:
        ends = score.details.get("normalized_interval") or [math.nan, math.nan]
        known = score.interval and replace(score.interval, low=ends[0], high=ends[1])
        return RunFigure(float(normalized), known, n_evaluated=score.n_evaluated)
    reason = str(score.details.get("reason", ""))
    return RunFigure(score.value, score.interval, reason, score.n_evaluated, score.bounds)


def cell_dict(cell: RunFigure) -> JsonObject:
    """Return a figure as JSON values; bounds that are not known are none."""
    known = cell.interval is not None and not math.isnan(cell.interval.low)
    bounds = [cell.interval.low, cell.interval.high] if known and cell.interval else None
    return {
        "value": cell.value,
        "interval": bounds,
        "bounds": cell.bounds,
        "reason": cell.reason or None,
    }


def best_first(entries: Sequence[Entry], column: MetricColumn) -> list[Entry]:
    """Return the entries from the best to the worst; those without a value come last.

    Of a run with cases that were not evaluated, the worse bound counts.
    """
    if column.direction == "neither":
        return list(entries)
    sign = -1 if column.direction == "higher" else 1

    def place(entry: Entry) -> tuple[bool, float]:
        value = entry.cells[column.name].worse_end(column.direction)
        return math.isnan(value), 0.0 if math.isnan(value) else sign * value

    return sorted(entries, key=place)

"""The metric table of a page: value, interval, direction and baselines, line by line.

The baselines are what would have been scored without reading a single case.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from krisis import registry
from krisis.metrics import default_benchmark_metrics
from krisis.metrics.base import BaseMetric, EvaluationResult, MetricScore, Rows
from krisis.metrics.explanations import reason_words
from krisis.metrics.scoring import score_all
from krisis.metrics.table import Answers
from krisis.results.account import ScoresByName
from krisis.results.base import BenchmarkResult, TaskFacts, rows_by_source
from krisis.results.report_tables import has_no_disease, shown_name
from krisis.statistics.intervals import Interval, interval_heading

_ARROWS = {"higher": ("↑", "higher is better"), "lower": ("↓", "lower is better")}
_WIDTH, _MARGIN = 120.0, 4.0


@dataclass(frozen=True, slots=True)
class BaselineScores:
    """The scores of something to read a run against, and what it is."""

    name: str
    meaning: str
    scores: dict[str, MetricScore]


@dataclass(frozen=True, slots=True)
class Glyph:
    """Where the value, its interval and the baselines lie on a strip from 0 to 1."""

    value: float
    low: float | None
    high: float | None
    baselines: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class MetricLine:
    """One metric as a page shows it."""

    name: str
    value: float
    reason: str
    interval: str
    method: str
    n_evaluated: int
    arrow: str
    direction_words: str
    glyph: Glyph | None
    baseline_values: tuple[float, ...]
    note: str


@dataclass(frozen=True, slots=True)
class MetricTable:
    """The metric table of one kind of patients, who are named where a run has several."""

    title: str
    lines: Sequence[MetricLine]
    interval_heading: str
    baselines: Sequence[BaselineScores]


def metric_tables(
    result: BenchmarkResult, others: Mapping[str, BenchmarkResult]
) -> list[MetricTable]:
    """Return one table, or one for each kind of patients; ``others`` are runs to read it against.

    The baselines are those on the same patients: stored with the run, or two that read no case.
    """
    task = result.provenance.task_facts
    parts: ScoresByName = result.scores_by_source or {"": result.metric_scores}
    rows = rows_by_source(result.rows) if result.scores_by_source else {"": result.rows}
    tables = []
    for source, scores in parts.items():
        known = stored_baselines(result, source) or reference_policies(
            rows.get(source, Rows()), default_benchmark_metrics(task.metrics if task else ())
        )
        saved = [
            BaselineScores(
                name,
                f"a saved run of {run.backend_name}",
                dict(run.scores_by_source.get(source, {}) if source else run.metric_scores),
            )
            for name, run in others.items()
        ]
        shown = [*known, *saved]
        title = f"{source.capitalize()} patients" if source else ""
        heading = interval_heading(score.interval for score in scores.values())
        tables.append(MetricTable(title, metric_lines(scores, shown, task), heading, shown))
    return tables


def metric_lines(
    scores: Mapping[str, MetricScore],
    baselines: Sequence[BaselineScores],
    task: TaskFacts | None = None,
) -> list[MetricLine]:
    """Return the lines of the table in the order of the scores."""
    known = (registry.find("metrics", key) for key in registry.names("metrics"))
    directions = {metric.name: metric.direction for metric in known}
    return [
        replace(
            _line(
                score, directions.get(score.name, score.direction), _values(score.name, baselines)
            ),
            name=shown_name(score, task),
        )
        for score in scores.values()
        if not has_no_disease(score)
    ]


def _values(name: str, baselines: Sequence[BaselineScores]) -> tuple[float, ...]:
    found = (baseline.scores.get(name) for baseline in baselines)
    return tuple(math.nan if score is None else score.value for score in found)


def _line(score: MetricScore, direction: str, others: tuple[float, ...]) -> MetricLine:
    arrow, words = _ARROWS.get(direction, ("", "neither way is better by itself"))
    interval = score.interval if score.interval is not None and score.interval.defined else None
    undefined = math.isnan(score.value)
    missing = score.interval.reason if score.interval and not undefined else ""
    return MetricLine(
        name=score.name,
        value=score.value,
        reason=reason_words(str(score.details.get("reason", ""))) if undefined else "",
        interval=f"{interval.low:.4f} to {interval.high:.4f}"
        if interval
        else "none" * bool(missing),
        method=interval.method if interval else reason_words(missing),
        n_evaluated=score.n_evaluated,
        arrow=arrow,
        direction_words=words,
        glyph=_glyph(score.value, interval, others),
        baseline_values=others,
        note=_note(score),
    )


def _glyph(value: float, interval: Interval | None, others: tuple[float, ...]) -> Glyph | None:
    if not 0 <= value <= 1:  # undefined, or on another scale
        return None
    return Glyph(
        _place(value),
        _place(interval.low) if interval else None,
        _place(interval.high) if interval else None,
        tuple(_place(other) for other in others if 0 <= other <= 1),
    )


def _place(value: float) -> float:
    return round(_MARGIN + _WIDTH * min(max(value, 0.0), 1.0), 1)


def _note(score: MetricScore) -> str:
    said = score.details.get("note")
    if isinstance(said, str):
        return said
    null_value = score.details.get("null_value")
    if isinstance(null_value, float) and not math.isnan(null_value):
        return (
            f"a perfectly calibrated model with these rows would show {null_value:.4f} by chance "
            "alone; read the error against that, not against zero"
        )
    return ""


def stored_baselines(result: BenchmarkResult, source: str = "") -> list[BaselineScores]:
    """Return the baselines that were scored on the same cases when the run was made."""
    mark = f" ({source})" if source else ""
    return [
        BaselineScores(
            name.removesuffix(mark), "a baseline of krisis on the same cases", {**scores}
        )
        for name, scores in result.baselines.items()
        if name.endswith(mark) and name != f"{result.backend_name}{mark}"
    ]


def reference_policies(rows: Rows, metrics: Iterable[BaseMetric]) -> list[BaselineScores]:
    """Score the two policies that look at nothing, on the scored rows of a run.

    The commonest label is taken from these very rows, which flatters that policy a little.
    """
    # In one order, which breaks ties of the commonest label.
    scored = [row for row in rows.table.rows if row.outcome != "not_evaluated"]
    if not scored:
        return []
    kept = list(metrics)
    key = (rows.answers or Answers()).key
    commonest = Counter(key(row.ground_truth) for row in scored).most_common(1)[0][0]
    constant = [_with(row, commonest, abstained=False) for row in scored]
    silent = [_with(row, None, abstained=True) for row in scored]
    return [
        BaselineScores(
            "always the commonest label",
            f"answers {commonest} to every case and states no confidence",
            score_all(kept, Rows(constant, rows.answers)),
        ),
        BaselineScores(
            "always abstain", "declines every case", score_all(kept, Rows(silent, rows.answers))
        ),
    ]


def _with(
    row: EvaluationResult, prediction: int | str | None, *, abstained: bool
) -> EvaluationResult:
    return EvaluationResult(
        prediction,
        row.ground_truth,
        abstained,
        metadata=row.metadata,
        record_id=row.record_id,
        cluster_id=row.cluster_id,
    )

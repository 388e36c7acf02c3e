"""What a run comes to without the labels that reviewers dispute, next to the ordinary figures."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from krisis.json_values import JsonObject
from krisis.metrics import AnswerRate, BootstrapOptions, SelectiveAccuracy
from krisis.metrics.base import BaseMetric, MetricScore, Rows
from krisis.metrics.scoring import metric_from_name, score_all
from krisis.results.base import BenchmarkResult
from krisis.runs.review import read_reviews


@dataclass(frozen=True, slots=True)
class HeadlineFigure:
    """A figure with its interval, on all cases or on those whose label nobody disputes."""

    value: float
    low: float
    high: float
    n: int

    @classmethod
    def of(cls, score: MetricScore) -> HeadlineFigure:
        """Take the value and the interval of a score."""
        interval = score.interval
        nan = float("nan")
        ends = (nan, nan) if interval is None else (interval.low, interval.high)
        return cls(float(score.value), *ends, score.n_evaluated)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewedLabels:
    """How many cases were reviewed, with which marks, and the headline with and without disputes.

    ``n_disputed`` counts records whose latest mark is that the label is wrong.
    """

    n_cases: int
    counts: Mapping[str, int]
    n_disputed: int
    n_unreadable: int
    figures: Mapping[str, Sequence[HeadlineFigure]]

    def to_json(self) -> JsonObject:
        """Return plain facts; each figure with all cases first, then without disputed labels."""
        found = asdict(self)
        found["figures"] = {
            name: {"all": asdict(pair[0]), "without_disputed": asdict(pair[1])}
            for name, pair in self.figures.items()
        }
        return found


def reviewed_labels(result: BenchmarkResult, run: Path) -> ReviewedLabels | None:
    """Return what reviewers said of a run; None where nobody has said anything."""
    reviews = read_reviews(run)
    if not reviews.notes and not reviews.n_unreadable:
        return None
    disputed = reviews.disputed
    kept = [row for row in result.rows if row.record_id not in disputed]
    metrics = _headline(result)
    figures = {}
    if disputed and kept:
        scored = [
            score_all(metrics, rows, intervals=BootstrapOptions())
            for rows in (result.rows, Rows(kept, result.rows.answers))
        ]
        figures = {
            metric.name: [HeadlineFigure.of(scores[metric.label]) for scores in scored]
            for metric in metrics
        }
    records = {row.record_id for row in result.rows}
    return ReviewedLabels(
        n_cases=len(result.rows),
        counts=reviews.counts(),
        n_disputed=len(disputed & records),
        n_unreadable=reviews.n_unreadable,
        figures=figures,
    )


def _headline(result: BenchmarkResult) -> list[BaseMetric]:
    """Return the headline metric of the task, and how much was answered and right."""
    task = result.provenance.task_facts
    named = [metric_from_name(name) for name in (task.metrics[:1] if task else ())]
    usual: list[BaseMetric] = [SelectiveAccuracy(), AnswerRate()]
    return [*named, *(one for one in usual if one.label not in {each.label for each in named})]

"""What an audit hands on: its groups, its labels, and how stable the answers are."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np

from krisis.decisions.audit_groups import GroupAudit
from krisis.decisions.run_sample import ScoreOptions, group_columns, shared_rows
from krisis.decisions.stability import Stability
from krisis.display import Documented
from krisis.errors import InvalidValue, UnknownName
from krisis.json_values import JsonObject
from krisis.metrics import AnswerRate, BootstrapOptions, SelectiveAccuracy
from krisis.metrics.base import BaseMetric, MetricScore, Rows
from krisis.metrics.items import RunItems
from krisis.metrics.labels import Label, canonical_label, is_label
from krisis.metrics.scoring import metric_from_name, score_all
from krisis.metrics.table import BoolArray, IntArray
from krisis.results.base import BenchmarkResult
from krisis.runs.review import read_reviews
from krisis.statistics.agreement import krippendorff_alpha
from krisis.statistics.shares import share_interval


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


TRUTH = "truth"
_N_RESAMPLES = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelAgreement:
    """Krippendorff's α of label columns, and the risk of the run against each of them."""

    columns: Sequence[str]
    alpha: float
    low: float
    high: float
    reason: str
    ordered: bool
    n_rows: int
    n_labels: int
    risks: Mapping[str, Mapping[str, float]]

    def to_json(self) -> JsonObject:
        """Return plain facts."""
        return asdict(self)


def label_agreement(run: RunItems, columns: Sequence[str], *, seed: int = 42) -> LabelAgreement:
    """Return the agreement of label columns; one alone is compared with the truth.

    Rows with fewer than two labels are left out. The interval resamples patients.
    """
    columns = list(columns)
    if len(set(columns)) < len(columns):
        raise InvalidValue(f"name every label column once, not {', '.join(columns)}")
    columns = [TRUTH, *columns] if len(columns) == 1 and columns != [TRUTH] else columns
    if len(columns) < 2:
        raise InvalidValue("agreement needs a label column to compare with the truth; name one")
    given = {column: _column(run, column) for column in columns}
    answers = run.table.answers
    allowed = [canonical_label(one) for one in answers.allowed]
    seen = {value for values in given.values() for value in values if value is not None}
    unknown = sorted(seen - set(allowed), key=lambda v: (isinstance(v, str), v))
    ordered = bool(answers.ordered and not unknown)
    # How many labels of a row have each value: rows × values.
    counts = np.array(
        [
            [labels.count(value) for value in (*allowed, *unknown)]
            for labels in zip(*given.values(), strict=True)
        ]
    )
    paired = counts.sum(axis=1) >= 2
    if not paired.any():
        raise InvalidValue(f"no row has two of the labels {', '.join(columns)}")
    alpha, interval = krippendorff_alpha(
        counts[paired], run.table.patients.code[paired], ordered=ordered, seed=seed
    )
    same = "every label is the same, so that agreement beyond chance has no meaning"
    return LabelAgreement(
        columns=columns,
        alpha=alpha,
        low=interval.low,
        high=interval.high,
        reason=same if math.isnan(alpha) else interval.reason,
        ordered=ordered,
        n_rows=int(paired.sum()),
        n_labels=int(counts[paired].sum()),
        risks={column: _risk_against(run, given[column]) for column in columns},
    )


def _column(run: RunItems, column: str) -> list[Label | None]:
    """Return the labels of a column; None where one is missing."""
    table = run.table
    if column == TRUTH:
        return [table.labels[code] for code in table.truth.tolist()]
    if not any(column in row.metadata for row in table.rows):
        raise UnknownName.among("label column", column, [*group_columns(run), TRUTH])
    found: list[Label | None] = []
    for row, value in zip(table.rows, table.metadata(column), strict=True):
        missing = value is None or value == "" or (isinstance(value, float) and math.isnan(value))
        if not missing and not is_label(value):
            raise InvalidValue(
                f"{row.record_id}: the label {value!r} of the column {column!r} is neither a whole "
                "number nor a text; name a column of answers"
            )
        found.append(None if missing else canonical_label(value))
    return found


def _risk_against(run: RunItems, labels: Sequence[Label | None]) -> dict[str, float]:
    """Return the risk of the answers against some labels, with limits and rows."""
    table = run.table
    given: BoolArray = table.answered & np.array([label is not None for label in labels])
    answers = [table.labels[code] if code >= 0 else None for code in table.prediction.tolist()]
    wrong = given & np.array([a != b for a, b in zip(answers, labels, strict=True)])
    n = int(given.sum())
    if not n:
        return {"risk": math.nan, "low": math.nan, "high": math.nan, "n_rows": 0}
    interval = share_interval(table.patients.sums(wrong), table.patients.sums(given))
    risk = int(wrong.sum()) / n
    return {"risk": risk, "low": interval.low, "high": interval.high, "n_rows": n}


@dataclass(frozen=True, slots=True, kw_only=True)
class DisputedLabel:
    """A row on which every run is confident of one answer that is not its label."""

    record_id: str
    label: Label
    answer: Label
    confidence: Sequence[float]


@dataclass(frozen=True, slots=True, kw_only=True)
class DisputedLabels:
    """The disputed labels among ``n_confident`` rows; ``reason`` says why there is no list."""

    n_confident: int
    rows: Sequence[DisputedLabel]
    reason: str = ""

    def to_json(self) -> JsonObject:
        """Return plain facts."""
        return asdict(self)


def disputed_labels(runs: Sequence[RunItems], score: ScoreOptions) -> DisputedLabels:
    """Find the rows on which all runs are confident of one answer that is not the label.

    Confident is a score of at least the median of the run. Runs without scores have no list, for
    a reason, unless a score was asked for.
    """
    places = _shared(runs)
    scores, reasons = zip(*(score.scores_if_any(run) for run in runs), strict=True)
    if reason := next(filter(None, reasons), ""):
        return DisputedLabels(n_confident=0, rows=[], reason=reason)
    with np.errstate(invalid="ignore"):
        confident = np.all(
            [s[p] >= np.nanmedian(s) for s, p in zip(scores, places, strict=True)], axis=0
        )
    found = []
    for i in np.flatnonzero(confident).tolist():
        where = [place[i] for place in places]
        codes = [run.table.prediction[k] for run, k in zip(runs, where, strict=True)]
        if min(codes) < 0:
            continue  # an answer that is not one of the allowed ones
        given = {run.table.labels[code] for run, code in zip(runs, codes, strict=True)}
        row = runs[0].table.rows[where[0]]
        label = canonical_label(row.ground_truth)
        if len(given) == 1 and label not in given:
            found.append(
                DisputedLabel(
                    record_id=row.record_id,
                    label=label,
                    answer=given.pop(),
                    confidence=[float(s[k]) for s, k in zip(scores, where, strict=True)],
                )
            )
    return DisputedLabels(n_confident=int(confident.sum()), rows=found)


def _shared(runs: Sequence[RunItems]) -> list[IntArray]:
    """Return the places of the records that every run answered, in one order."""
    first = runs[0]
    others = [shared_rows(first, run, run.source.path) for run in runs[1:]]
    here = [at for at in range(first.n_items) if all(at in other for other in others)]
    places = [np.array(here, dtype=np.int64)]
    places += [np.array([other[at] for at in here], dtype=np.int64) for other in others]
    answered = np.all([run.predicted[p] for run, p in zip(runs, places, strict=True)], axis=0)
    if not answered.any():
        raise InvalidValue("no record was answered by every run, so there is nothing to compare")
    return [place[answered] for place in places]


@dataclass(frozen=True)
class Audit(Documented):
    """What an audit found: by group, between labels, and between askings of one case."""

    groups: GroupAudit
    agreement: LabelAgreement | None = None
    disputed: DisputedLabels | None = None
    stability: Stability | None = None
    reviewed: ReviewedLabels | None = None
    builder: ClassVar[str] = "krisis.pages.audit:audit_document"

    def to_json(self) -> JsonObject:
        """Return the findings under groups, agreement, disputed, stability and reviewed."""
        parts = {
            "groups": self.groups,
            "agreement": self.agreement,
            "disputed": self.disputed,
            "stability": self.stability,
            "reviewed": self.reviewed,
        }
        found = {name: part.to_json() for name, part in parts.items() if part is not None}
        return {"kind": "krisis.audit", "schema_version": 1, **found}

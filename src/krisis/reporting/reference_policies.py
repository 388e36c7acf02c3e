"""What would have been scored without reading a single case: the yardsticks of the metric table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from krisis.metrics.base import BaseMetric, EvaluationResult, MetricScore, score_all
from krisis.metrics.table import canonical_label
from krisis.results.base import BenchmarkResult


@dataclass(frozen=True, slots=True)
class ReferenceScores:
    """The scores of something to read a run against, and what it is."""

    name: str
    meaning: str
    scores: dict[str, MetricScore]


def stored_baselines(result: BenchmarkResult) -> list[ReferenceScores]:
    """Return the baselines that were scored on the same cases when the run was made."""
    return [
        ReferenceScores(name, "a baseline of krisis on the same cases", dict(scores))
        for name, scores in result.baselines.items()
        if name != result.backend_name
    ]


def reference_policies(
    rows: Sequence[EvaluationResult], metrics: Iterable[BaseMetric]
) -> list[ReferenceScores]:
    """Score the two policies that look at nothing, on the scored rows of a run.

    The commonest label is taken from these very rows, which flatters that policy a little.
    """
    scored = [row for row in rows if row.error is None]
    if not scored:
        return []
    kept = list(metrics)
    commonest = Counter(canonical_label(row.ground_truth) for row in scored).most_common(1)[0][0]
    constant = [_with(row, commonest, abstained=False) for row in scored]
    silent = [_with(row, None, abstained=True) for row in scored]
    return [
        ReferenceScores(
            "always the commonest label",
            f"answers {commonest} to every case and states no confidence",
            score_all(kept, constant),
        ),
        ReferenceScores("always abstain", "declines every case", score_all(kept, silent)),
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

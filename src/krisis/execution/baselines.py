"""What is scored beside a run so that it can be read: baselines, and each source on its own."""

from __future__ import annotations

from collections.abc import Sequence

from krisis.backends.catalogue import backend_from_name
from krisis.data.base import BaseDataSuite, PatientRecord
from krisis.errors import UserError
from krisis.execution.batches import cases_of
from krisis.execution.engine import answered_row
from krisis.metrics.base import BaseMetric, EvaluationResult, MetricScores, Rows, score_all
from krisis.results.account import TaskFacts, brief_scores


def baseline_scores(
    suite: BaseDataSuite, records: Sequence[PatientRecord], metrics: Sequence[BaseMetric]
) -> dict[str, MetricScores]:
    """Return the scores of the suite's baselines; one that cannot be prepared is left out."""
    found = {}
    for name in suite.baselines:
        try:
            backend = backend_from_name(name)
            backend.prepare(suite)
        except UserError:
            continue
        responses = backend.evaluate_batch(records)
        answered = [
            answered_row(case, response, prompt="")
            for case, response in zip(cases_of(records), responses, strict=True)
        ]
        rows = Rows(answered, TaskFacts.of(suite.task.facts()).answers_to_score())
        found[name] = brief_scores(score_all(metrics, rows))
    return found


def scores_by_source(
    metrics: Sequence[BaseMetric], results: Sequence[EvaluationResult]
) -> dict[str, MetricScores]:
    """Score real and synthetic patients apart; nothing where all rows are of one source."""
    rows = Rows(results)
    parts = {
        name: Rows((r for r in rows if r.metadata.get("synthetic") is synthetic), rows.answers)
        for name, synthetic in (("real", False), ("synthetic", True))
    }
    if not all(parts.values()):
        return {}
    return {name: brief_scores(score_all(metrics, part)) for name, part in parts.items()}

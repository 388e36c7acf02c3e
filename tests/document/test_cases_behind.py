"""The cases behind a metric are the rows that its form counts."""

from __future__ import annotations

from tests.invented_runs import ANSWERS

from krisis.metrics.base import EvaluationResult, MetricScore, Rows
from krisis.metrics.scoring import registered_metrics
from krisis.pages.cases import RowFilter, rows_of_metric


def rows() -> Rows:
    """Return four answers and four labels, on different cases, and two cases with neither."""
    found = []
    for place in range(10):
        answered, labelled = place < 4, 2 <= place < 6
        metadata = {"should_abstain": place % 2 == 0} if labelled else {}
        found.append(
            EvaluationResult(
                1 if answered else None,
                place % 2,
                confidence=0.5 + place / 20 if answered else None,
                abstained=not answered,
                record_id=f"r{place}",
                metadata=metadata,
            )
        )
    return Rows(found, ANSWERS)


def behind(key: str, n: int) -> RowFilter | None:
    table = rows().table
    (metric,) = registered_metrics([key])
    score = MetricScore(metric.name, 0.5, n_evaluated=n, key=key)
    return rows_of_metric(score, table)


def test_equal_counts_of_different_rows_are_told_apart_by_the_mask() -> None:
    assert behind("accuracy", 10) == RowFilter(outcome="scored")
    assert behind("selective_accuracy", 4) == RowFilter(outcome="answered")
    assert behind("brier_score", 4) == RowFilter(outcome="answered")
    assert behind("deferral_alignment", 4) == RowFilter(due="stated")
    assert behind("aurc", 4) == RowFilter(outcome="answered")
    assert behind("aurc", 3) is None  # a curve of fewer answers than there are
    assert behind("accuracy", 0) is None

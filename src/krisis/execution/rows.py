"""From what a backend returned, or failed to return, to the row that is scored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from krisis.backends.base import BackendResponse
from krisis.execution.batches import Case
from krisis.metrics.base import EvaluationResult


def answered_row(case: Case, response: BackendResponse, *, prompt: str) -> EvaluationResult:
    """Return the row of a response; an abstention is one too."""
    record = case.record
    return EvaluationResult(
        prediction=response.prediction,
        ground_truth=record.label,
        abstained=response.abstained,
        confidence=response.confidence,
        raw_response=response.raw_response,
        prompt=prompt,
        prompt_mode=response.prompt_mode,
        metadata=_metadata(case),
        input_tokens=response.input_tokens,
        output_tokens=response.output_tokens,
        total_tokens=response.total_tokens,
        record_id=record.record_id,
        cluster_id=record.cluster_id,
        signals=response.signals,
    )


def failed_row(case: Case, error: str) -> EvaluationResult:
    """Return the row of a call that failed for good: class first, then the text."""
    record = case.record
    return EvaluationResult(
        prediction=None,
        ground_truth=record.label,
        metadata=_metadata(case),
        record_id=record.record_id,
        cluster_id=record.cluster_id,
        error=error,
    )


def failure_class_of(row: EvaluationResult) -> str:
    """Return the class of a failed row."""
    return (row.error or "").partition(":")[0]


def _metadata(case: Case) -> Mapping[str, Any]:
    if case.sample_index == 0:
        return case.record.metadata
    return {**case.record.metadata, "sample_index": case.sample_index}

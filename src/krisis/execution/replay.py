"""Answers from a saved run in place of a model: the same rows again, without a call."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from krisis.backends.base import BackendResponse, BaseBackend
from krisis.data.base import PatientRecord
from krisis.errors import BackendError, InvalidFile, InvalidValue
from krisis.json_values import JsonObject
from krisis.metrics.base import EvaluationResult
from krisis.outcomes import NO_PREDICTION, NOT_ALLOWED
from krisis.results.base import BenchmarkResult
from krisis.runs.load import load_run
from krisis.runs.places import is_run_file


class ReplayBackend(BaseBackend):
    """Answers each record as it was answered in a saved run; others are failures, not guesses.

    Give it the evaluation results of a `BenchmarkResult`, or the path of a run or of a
    full JSON result. What failed then fails again.
    """

    name = "replay"

    def __init__(self, model: str | Path | Iterable[EvaluationResult]) -> None:
        if isinstance(model, str | Path):
            self.name = f"replay/{Path(model).name}"
            model = _saved_rows(Path(model))
        self._rows: dict[str, EvaluationResult] = {}
        for row in model:
            self._rows.setdefault(row.record_id, row)  # of repeats, the first
        if not self._rows or "" in self._rows:
            raise InvalidValue(
                f"the saved run of {self.name!r} has no rows with a record_id; "
                "give a run or a full JSON result"
            )

    def evaluate(self, record: PatientRecord) -> BackendResponse:
        """Return what the saved run holds about this record."""
        row = self._rows.get(record.record_id)
        if row is None:
            raise BackendError(
                f"the saved run has no record {record.record_id!r}; replay it with the suite, "
                "task and seed that it was made with"
            )
        # A prediction that is no answer is handed on, and is none again.
        if row.error is not None and row.failure_class not in (NOT_ALLOWED, NO_PREDICTION):
            error = BackendError(f"failed in the saved run: {row.error}")
            error.failure_class = row.failure_class or error.failure_class
            raise error
        return BackendResponse(
            prediction=row.prediction,
            abstained=row.abstained,
            confidence=row.confidence,
            raw_response=row.raw_response,
            prompt=row.prompt,
            prompt_mode=row.prompt_mode,
            input_tokens=row.input_tokens,
            output_tokens=row.output_tokens,
            total_tokens=row.total_tokens,
            signals=dict(row.signals),
            latency_seconds=row.latency_seconds,
            finish_reason=row.finish_reason,
            model=row.model,
        )

    def identity(self) -> JsonObject:
        """Return the name and the number of the saved rows."""
        return {"backend": self.name, "n_rows": len(self._rows)}


def _saved_rows(path: Path) -> Sequence[EvaluationResult]:
    if is_run_file(path):
        return load_run(path).evaluation_results
    rows = BenchmarkResult.load(path).evaluation_results
    if not rows:
        raise InvalidFile(f"{path} holds no evaluation_results; give a run or a full JSON result")
    return rows

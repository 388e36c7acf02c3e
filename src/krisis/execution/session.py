"""One run from its records to its rows, and the figures about how it went."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from krisis import __version__
from krisis.backends.base import BaseBackend
from krisis.data.base import BaseDataSuite, PatientRecord, records_hash
from krisis.execution.batches import cases_of, plan_batches
from krisis.execution.callers import caller_for
from krisis.execution.engine import Engine
from krisis.execution.options import Execution
from krisis.execution.prompts import PromptCheck
from krisis.execution.review import Review
from krisis.execution.telemetry import call_figures
from krisis.metrics.base import EvaluationResult


class Session:
    """Plans the batches, lets the engine settle them and keeps the books."""

    def __init__(self, suite: BaseDataSuite, backend: BaseBackend, execution: Execution) -> None:
        self._suite = suite
        self._backend = backend
        self._execution = execution
        self._extras: dict[str, Any] = {}

    async def run(
        self, records: Sequence[PatientRecord], *, batch_size: int, max_concurrency: int
    ) -> list[EvaluationResult]:
        """Return the row of every case, in the order of the records."""
        started_at, started = datetime.now(UTC), time.perf_counter()
        cases = cases_of(records, self._execution.repeats)
        batches = plan_batches(cases, batch_size)
        prompts = PromptCheck(self._backend, self._suite)
        caller = caller_for(self._backend, max_concurrency=max_concurrency)
        engine = Engine(caller, prompts, Review(self._suite), n_workers=max_concurrency)
        try:
            await engine.run(batches)
        except ExceptionGroup as group:
            raise group.exceptions[0] from None  # workers fail for one reason, or each for its own
        finally:
            caller.close()
        rows = [engine.rows[position] for position in sorted(engine.rows)]
        elapsed_seconds = time.perf_counter() - started
        self._extras = {
            "batch_size": batch_size,
            "max_concurrency": max_concurrency,
            "n_loaded": len(cases),
            "n_input_records": len(cases),
            "n_api_batches": len(batches),
            "elapsed_seconds": elapsed_seconds,
            "records_per_second": len(rows) / elapsed_seconds,
            "started_at": started_at.isoformat(timespec="seconds"),
            "suite_content_hash": records_hash(records),
            **_token_figures(rows),
            **_prompt_figures(rows, prompts.templates),
            **call_figures(engine.spent),
        }
        return rows

    def extras(self) -> dict[str, Any]:
        """Return how the run went."""
        return {
            **self._extras,
            "repeats": self._execution.repeats,
            "seed": self._suite.config.seed,
            "krisis_version": __version__,
        }


def _token_figures(rows: Sequence[EvaluationResult]) -> dict[str, Any]:
    def total(name: str) -> int | None:
        counts = [count for row in rows if (count := getattr(row, name)) is not None]
        return sum(counts) if counts else None

    input_tokens, output_tokens = total("input_tokens"), total("output_tokens")
    both = (input_tokens or 0) + (output_tokens or 0)
    return {
        "input_tokens": input_tokens,
        "output_tokens": output_tokens,
        "token_total": total("total_tokens") or both or None,
        "n_failed": sum(row.error is not None for row in rows),
    }


def _prompt_figures(rows: Sequence[EvaluationResult], templates: list[str]) -> dict[str, Any]:
    n_captured = sum(bool(row.prompt) for row in rows)
    return {
        "prompt_capture": "evaluation_results[].prompt",
        "prompt_data_policy": "redacted" if n_captured else "no prompts captured",
        "prompt_modes": sorted({row.prompt_mode for row in rows if row.prompt_mode}),
        "n_prompts_captured": n_captured,
        "prompt_templates_count": len(templates),
        "prompt_templates": templates,
    }

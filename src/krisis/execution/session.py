"""One session of a run: plan, open the books, let the engine work, say how it went."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any

from krisis import __version__
from krisis.backends.base import BaseBackend
from krisis.backends.chat import ChatBackend
from krisis.backends.retry import RetryPolicy
from krisis.data.base import BaseDataSuite, PatientRecord, records_hash
from krisis.execution.attempts import Attempts
from krisis.execution.batches import Batch, cases_of, plan_batches
from krisis.execution.books import Books
from krisis.execution.budget import Budget
from krisis.execution.callers import Caller, ChatCaller, ThreadCaller
from krisis.execution.engine import Engine
from krisis.execution.figures import prompt_figures, token_figures
from krisis.execution.gate import Gate
from krisis.execution.identity import identity_of
from krisis.execution.options import Execution
from krisis.execution.prices import Price, price_of
from krisis.execution.prompts import PromptCheck
from krisis.execution.recorder import Earlier, RunFacts
from krisis.execution.review import Review
from krisis.execution.stopping import CannotGoOn, Stop
from krisis.execution.telemetry import call_figures
from krisis.metrics.base import EvaluationResult
from krisis.results.repeats import mark_agreement
from krisis.results.result import BenchmarkResult


@dataclass(frozen=True, slots=True)
class Job:
    """What is run: a suite's records put to a backend in batches."""

    suite: BaseDataSuite
    backend: BaseBackend
    records: Sequence[PatientRecord]
    description: dict[str, Any]
    batch_size: int
    max_concurrency: int


class Session:
    """Carries a job out, or what earlier sessions left of it."""

    def __init__(self, job: Job, execution: Execution, stop: Stop) -> None:
        self._job = job
        self._execution = execution
        self._stop = stop
        self._prompts = PromptCheck(job.backend, job.suite)
        cases = cases_of(job.records, execution.repeats)
        self._batches = plan_batches(cases, job.batch_size)
        self._cases = cases
        self._price: Price | None = None
        self.extras: dict[str, Any] = {}

    async def run(self) -> list[EvaluationResult]:
        """Return the row of every settled case, in the order of the records."""
        started_at, started = datetime.now(UTC), time.perf_counter()
        self._stop.bind(asyncio.get_running_loop())
        gate = self._gate()
        earlier = self._begin()
        elapsed_before = earlier.elapsed_seconds
        books = Books(
            self._execution, earlier, gate=gate, stop=self._stop, n_cases=len(self._cases)
        )
        await self._work(books, gate, self._remaining(earlier))
        rows = books.in_order()
        elapsed_seconds = elapsed_before + time.perf_counter() - started
        self.extras = {
            **self._plan_figures(),
            "started_at": started_at.isoformat(timespec="seconds"),
            "elapsed_seconds": elapsed_seconds,
            "records_per_second": len(rows) / elapsed_seconds,
            **token_figures(rows),
            **prompt_figures(rows),
            **call_figures(books.spent),
            "cost": gate.budget.cost(*books.spent.paid_tokens),
            "limit_history": gate.concurrency.history,
            **self._optional_figures(rows),
        }
        return rows

    def conclude(self, result: BenchmarkResult) -> None:
        """Have the scores written."""
        if self._execution.recorder is not None:
            self._execution.recorder.finish(result)

    def close(self) -> None:
        """Let go of every file."""
        if self._execution.recorder is not None:
            self._execution.recorder.close()
        if self._execution.cache is not None:
            self._execution.cache.flush()

    def _begin(self) -> Earlier:
        recorder = self._execution.recorder
        if recorder is None:
            return Earlier()
        job = self._job
        identity = identity_of(
            job.suite,
            job.backend,
            records=job.records,
            first_batch=self._batches[0],
            batch_size=job.batch_size,
            repeats=self._execution.repeats,
        )
        facts = RunFacts(
            identity,
            job.description,
            job.backend.name,
            n_cases=len(self._cases),
            is_synthetic=all(record.metadata.get("synthetic") is True for record in job.records),
            may_store_features=job.suite.stores_text,
        )
        return recorder.begin(facts)

    def _gate(self) -> Gate:
        limits = self._execution.limits
        self._price = price_of(self._job.backend, self._execution.prices)
        budget = Budget(limits, self._price, self._stop)
        return Gate(limits, budget, self._stop, max_concurrency=self._job.max_concurrency)

    def _remaining(self, earlier: Earlier) -> list[Batch]:
        if not earlier.rows:
            return self._batches
        missing = [case for case in self._cases if case.position not in earlier.rows]
        return plan_batches(missing, self._job.batch_size)

    async def _work(self, books: Books, gate: Gate, batches: list[Batch]) -> None:
        caller = self._caller(gate)
        engine = Engine(
            caller,
            self._prompts,
            Review(self._job.suite),
            stop=self._stop,
            finished=books.finished,
            left_off=books.left_off,
            n_workers=self._job.max_concurrency,
        )
        books.begin()
        try:
            await engine.run(batches)
        except ExceptionGroup as group:
            # Workers fail for one reason, or each for its own: the first tells the user most.
            first = group.exceptions[0]
            raise (first.error if isinstance(first, CannotGoOn) else first) from None
        finally:
            await caller.close()
            books.end(self._stop.reason)

    def _caller(self, gate: Gate) -> Caller:
        backend = self._job.backend
        attempts = Attempts(gate, self._stop, RetryPolicy.of(backend))
        if isinstance(backend, ChatBackend):
            # A reply to restricted text may quote it, and the cache is a store like any other.
            cache = self._execution.cache if self._job.suite.stores_text else None
            return ChatCaller(backend, attempts, gate, cache=cache)
        return ThreadCaller(backend, attempts, n_threads=self._job.max_concurrency)

    def _plan_figures(self) -> dict[str, Any]:
        job = self._job
        return {
            "batch_size": job.batch_size,
            "max_concurrency": job.max_concurrency,
            "repeats": self._execution.repeats,
            "n_loaded": len(self._cases),
            "n_input_records": len(self._cases),
            "n_api_batches": len(self._batches),
            "seed": job.suite.config.seed,
            "suite_content_hash": records_hash(job.records),
            "krisis_version": __version__,
        }

    def _optional_figures(self, rows: list[EvaluationResult]) -> dict[str, Any]:
        execution, figures = self._execution, dict[str, Any]()
        if self._price is not None:
            figures["price_per_million_tokens"] = asdict(self._price)
        if self._stop.reason is not None:
            figures["stopped"] = self._stop.reason
        if execution.repeats > 1:
            figures["agreement"] = mark_agreement(rows)
        if execution.cache is not None and execution.cache.fault:
            figures["cache_fault"] = execution.cache.fault
        if execution.recorder is not None and execution.recorder.directory is not None:
            figures["run_directory"] = str(execution.recorder.directory.path)
        return figures

"""`Benchmark`: a suite, a backend and metrics in; a `BenchmarkResult` out."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor

from krisis.backends.base import BaseBackend
from krisis.backends.catalogue import backend_from_name
from krisis.data.base import BaseDataSuite, PatientRecord
from krisis.data.checks import check_records
from krisis.errors import InvalidValue, UserError
from krisis.execution.batches import cases_of, with_distinct_ids
from krisis.execution.engine import answered_row
from krisis.execution.options import Execution, checked_at_least_one
from krisis.execution.session import Job, Session
from krisis.execution.stopping import Stop
from krisis.json_values import JsonObject
from krisis.metrics import BootstrapOptions, default_benchmark_metrics
from krisis.metrics.base import (
    BaseMetric,
    EvaluationResult,
    MetricScores,
    Rows,
    check_metrics,
    score_all,
)
from krisis.results.account import TaskFacts, brief_scores
from krisis.results.base import BenchmarkResult
from krisis.results.stops import Interrupted


class Benchmark:
    """Put every record of a suite to a backend and score what comes back.

    ``batch_size`` records share one call and ``max_concurrency`` calls run at the same time.
    Retries are set on the backend; everything else about the run is in ``execution``.
    """

    def __init__(
        self,
        suite: BaseDataSuite,
        backend: BaseBackend,
        metrics: Sequence[BaseMetric] | None = None,
        batch_size: int = 8,
        max_concurrency: int = 1,
        *,
        execution: Execution | None = None,
    ) -> None:
        self.suite = suite
        self.backend = backend
        chosen = default_benchmark_metrics() if metrics is None else metrics
        self.metrics = list(check_metrics(chosen))
        self.batch_size = checked_at_least_one("batch_size", batch_size)
        self.max_concurrency = checked_at_least_one("max_concurrency", max_concurrency)
        self.execution = execution or Execution()

    def run(
        self,
        records: Sequence[PatientRecord] | None = None,
        *,
        suite_description: JsonObject | None = None,
    ) -> BenchmarkResult:
        """Run the benchmark, in a script or inside a running event loop (a notebook)."""
        stop = self.execution.stop or Stop()
        return _run_to_end(self._run(records, suite_description, stop), stop)

    async def run_async(
        self,
        records: Sequence[PatientRecord] | None = None,
        *,
        suite_description: JsonObject | None = None,
    ) -> BenchmarkResult:
        """Run the benchmark: given records, or those that the suite loads, in their order."""
        return await self._run(records, suite_description, self.execution.stop or Stop())

    async def _run(
        self,
        records: Sequence[PatientRecord] | None,
        suite_description: JsonObject | None,
        stop: Stop,
    ) -> BenchmarkResult:
        cases = with_distinct_ids(self.suite.records() if records is None else records)
        if not cases:
            raise InvalidValue("there are no records to evaluate; check the suite or the list")
        check_records(cases, self.suite.task)
        description = self.suite.describe() if suite_description is None else suite_description
        self.backend.prepare(self.suite)
        # Baselines come first: should they fail, no call has been paid for yet.
        wanted = self.execution.baselines
        baselines = baseline_scores(self.suite, cases, self.metrics) if wanted else {}
        job = Job(
            self.suite,
            self.backend,
            cases,
            description,
            batch_size=self.batch_size,
            max_concurrency=self.max_concurrency,
        )
        session = Session(job, self.execution, stop)
        try:
            settled, facts = await session.run()
            task = facts.provenance.task_facts
            rows = Rows(settled, None if task is None else task.answers_to_score())
            scores = score_all(self.metrics, rows, intervals=BootstrapOptions())
            facts.baselines = baselines
            facts.scores_by_source = scores_by_source(self.metrics, rows)
            result = BenchmarkResult(rows, scores, description, self.backend.name, facts=facts)
            if self.execution.recorder is not None:
                self.execution.recorder.finish(result)
        finally:
            session.close()
        return result


def _run_to_end(work: Coroutine[None, None, BenchmarkResult], stop: Stop) -> BenchmarkResult:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1, thread_name_prefix="krisis-run") as thread:
        running = thread.submit(asyncio.run, work)
        try:
            return running.result()
        except KeyboardInterrupt:  # the stop button of a notebook: keep what was paid for
            stop.request_from_outside(Interrupted("interrupted"))
            return running.result()


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

"""`Benchmark`: a suite, a backend and metrics in; a `BenchmarkResult` out."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TypeVar

from krisis.backends.base import BaseBackend
from krisis.backends.catalogue import backend_from_name
from krisis.data.base import BaseDataSuite, PatientRecord
from krisis.data.checks import check_records
from krisis.errors import InvalidValue, ThirdPartyWarning, UserError
from krisis.execution.assembly import Assembled, described, readable_by, third_party_notice
from krisis.execution.batches import cases_of, with_distinct_ids
from krisis.execution.config import RunConfig
from krisis.execution.engine import response_row
from krisis.execution.options import Execution, checked_at_least_one
from krisis.execution.session import Job, Session
from krisis.execution.stopping import Stop
from krisis.json_values import JsonObject
from krisis.metrics import BootstrapOptions, usual_metrics
from krisis.metrics.base import BaseMetric, EvaluationResult, MetricScores, Rows
from krisis.metrics.labels import Answers
from krisis.metrics.scoring import check_metrics, score_all
from krisis.results.account import RunFacts
from krisis.results.base import BenchmarkResult, baseline_scores, scores_by_source
from krisis.results.stops import Interrupted

T = TypeVar("T")


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
        if not isinstance(backend.name, str):
            raise InvalidValue(f"the name of a backend must be text, not {backend.name!r}")
        chosen = usual_metrics(suite.task.metrics) if metrics is None else metrics
        self.metrics = check_metrics(chosen)
        self.batch_size = checked_at_least_one("batch_size", batch_size)
        self.max_concurrency = checked_at_least_one("max_concurrency", max_concurrency)
        self.execution = execution or Execution()
        if self.execution.cluster is not None:
            self.execution.cluster.check(backend)

    def __repr__(self) -> str:
        return f"Benchmark({self.suite!r}, {self.backend!r}, {len(self.metrics)} metrics)"

    @classmethod
    def of(cls, parts: Assembled, config: RunConfig, execution: Execution) -> Benchmark:
        """Return the benchmark of a configuration and the parts that it names."""
        sizes = config.batch_size, config.max_concurrency
        return cls(parts.suite, parts.backend, parts.metrics, *sizes, execution=execution)

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
        job = self._job(records, suite_description)
        # Baselines come first: should they fail, no call has been paid for yet.
        baselines = await self._aside(lambda: self._prepared(job))
        recorder = self.execution.recorder
        session = Session(job, self.execution, stop)
        try:
            settled, facts = await session.run()
            facts.baseline_rows = baselines.rows
            facts.baselines = baseline_scores(baselines.rows, self.metrics)
            facts.baselines_left_out = baselines.left_out
            named = (job.description, self.backend.asked_as)
            rows, scores = await self._aside(lambda: self._scored(settled, facts))
            result = BenchmarkResult(rows, scores, *named, facts=facts)
            if recorder is not None:
                recorder.finish(result)
        finally:
            session.close()
        return result

    async def _aside(self, work: Callable[[], T]) -> T:
        """Work; beside other runs in a thread, so that their calls do not wait for it."""
        return work() if self.execution.grid is None else await asyncio.to_thread(work)

    def _prepared(self, job: Job) -> Baselines:
        self.backend.prepare(self.suite.restricted(job.records))
        wanted = self.execution.baselines
        return ask_baselines(self.suite, job.records) if wanted else Baselines()

    def _scored(
        self, settled: Sequence[EvaluationResult], facts: RunFacts
    ) -> tuple[Rows, MetricScores]:
        task = facts.provenance.task_facts
        rows = Rows(settled, None if task is None else Answers.of(task))
        scores = score_all(self.metrics, rows, intervals=BootstrapOptions())
        facts.scores_by_source = scores_by_source(self.metrics, rows, BootstrapOptions())
        return rows, scores

    def _job(
        self, records: Sequence[PatientRecord] | None, suite_description: JsonObject | None
    ) -> Job:
        """Return what is to be run, checked: a fault found later would have cost calls."""
        given = with_distinct_ids(self.suite.records() if records is None else records)
        if not given:
            raise InvalidValue("there are no records to evaluate; check the suite or the list")
        cases = readable_by(self.backend, self.suite, given)
        check_records(cases, self.suite.task)
        description = suite_description
        if description is None:
            description = described(self.suite, None if records is None else given)
        if len(cases) < len(given):
            description = {**description, "read": f"{len(cases):,} of {len(given):,}"}
        if warning := third_party_notice(self.suite, self.backend):
            warnings.warn(warning, ThirdPartyWarning, stacklevel=2)
            description = {**description, "third_party": warning}
        sizes = {"batch_size": self.batch_size, "max_concurrency": self.max_concurrency}
        return Job(self.suite, self.backend, cases, description, **sizes)


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


@dataclass(frozen=True, slots=True)
class Baselines:
    """What the baselines of a suite answered, by name, and why others were left out."""

    rows: dict[str, Rows] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)


def ask_baselines(suite: BaseDataSuite, records: Sequence[PatientRecord]) -> Baselines:
    """Return what the suite's baselines answer; one that cannot be prepared is left out.

    Real and synthetic patients in one run are judged apart, under names such as ``majority
    (real)``: a baseline is fitted on people like those it is scored on. A reader who read only some
    of the records is scored on those, and the name says how many.
    """
    parts: dict[str, list[PatientRecord]] = {}
    for record in records:
        parts.setdefault(record.source, []).append(record)
    found = Baselines()
    for name in suite.baselines:
        for source, part in parts.items():
            notes = [source] if len(parts) > 1 else []
            try:
                rows = _baseline_rows(name, suite.restricted(part))
            except UserError as error:
                found.left_out[_noted(name, notes)] = str(error)
                continue
            notes += [f"read {len(rows):,} of {len(part):,}"] if len(rows) < len(part) else []
            found.rows[_noted(name, notes)] = rows
    return found


def _noted(name: str, notes: Sequence[str]) -> str:
    return f"{name} ({', '.join(notes)})" if notes else name


def _baseline_rows(name: str, suite: BaseDataSuite) -> Rows:
    backend = backend_from_name(name)
    backend.prepare(suite)
    records = readable_by(backend, suite, suite.records())
    responses = backend.evaluate_batch(records)
    for response in responses:
        if response.unusable_confidence:
            raise InvalidValue(
                f"{name!r} gives the confidence {response.unusable_confidence}; let it give a "
                "number between 0 and 1, or None"
            )
    answered = [
        response_row(case, response, answers=suite.task.answer_set)
        for case, response in zip(cases_of(records), responses, strict=True)
    ]
    return Rows(answered, Answers.of(suite.task.facts()))

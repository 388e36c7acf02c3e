"""One session of a run: plan, run the engine, keep every finished row, state how it went."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from krisis import __version__
from krisis.backends.base import BaseBackend
from krisis.backends.chat import ChatBackend
from krisis.backends.retry import RetryPolicy
from krisis.data.base import BaseDataSuite, Records
from krisis.errors import RunConflict
from krisis.execution.batches import (
    Batch,
    are_synthetic,
    cases_of,
    in_random_order,
    plan_batches,
    request_about,
    stored_cases,
)
from krisis.execution.callers import (
    Attempts,
    Caller,
    ChatCaller,
    ClusterChatCaller,
    ClusterPlainCaller,
    ThreadCaller,
)
from krisis.execution.cluster import MOST_CALLS, Cluster, Workers, recipe_of
from krisis.execution.engine import Engine, StoragePolicy
from krisis.execution.options import (
    Execution,
    asking_facts,
    asking_of,
    batch_api_of,
    check_form,
    task_facts,
)
from krisis.execution.pacing.budget import Budget
from krisis.execution.pacing.gate import Gate
from krisis.execution.pacing.prices import cost_of, price_of
from krisis.execution.progress import Tally
from krisis.execution.prompts import PromptCheck
from krisis.execution.provider_batches import BatchRunner, BatchSettler
from krisis.execution.recorder import Opening, PriorSessions
from krisis.execution.stop_when import Watch
from krisis.execution.stopping import CannotGoOn, FailureLimit, FirstCalls, Stop
from krisis.json_values import JsonObject, plain
from krisis.metrics.base import EvaluationResult
from krisis.metrics.labels import Answers
from krisis.results.account import Prompts, Provenance, RunFacts, Spending
from krisis.results.attrition import Attrition
from krisis.results.call_totals import CallTotals
from krisis.results.repeats import mark_agreement
from krisis.results.stops import Decided, StopCause
from krisis.results.suite_facts import SuiteFacts
from krisis.runs.description import Identity
from krisis.runs.provider_batches import ProviderBatchLog


class SessionRows:
    """Takes finished rows in: on disk first, then in memory, the tally and the display."""

    def __init__(
        self,
        execution: Execution,
        earlier: PriorSessions,
        *,
        gate: Gate,
        stop: Stop,
        n_cases: int,
        watch: Watch | None = None,
    ) -> None:
        self._recorder = execution.recorder
        self._display = execution.progress
        self._gate = gate
        self._failures = FailureLimit(execution.limits.max_failures, n_cases=n_cases, stop=stop)
        self._watch, self._stop = watch, stop
        self.rows = dict(earlier.rows)
        self.spent = earlier.totals
        self.tally = Tally(n_cases=n_cases)
        self._count(list(self.rows.values()))
        most, batch = self.spent.most_tokens, self.spent.batch_tokens
        gate.budget.start_from(*most, self.rows.values(), batch)
        self._look()

    def begin(self) -> None:
        """Open the display."""
        self._display.begin(self._present_tally())

    def finished(self, batch: Batch, rows: Sequence[EvaluationResult], spent: CallTotals) -> None:
        """Keep the rows of a settled batch."""
        if self._recorder is not None:
            self._recorder.append([case.row_place for case in batch], rows, spent)
        for case, row in zip(batch, rows, strict=True):
            self.rows[case.position] = row
        self.spent.add(spent)
        self._count(rows)
        self._failures.observe(rows)
        self._look()
        self._display.advance(self._present_tally())

    def _look(self) -> None:
        if self._watch is not None:
            self._watch.look(self.rows, self._stop)

    def show_waiting(self, words: str) -> None:
        """Show how far provider batches are."""
        self.tally.waiting = words
        self._display.advance(self._present_tally())

    def book_unfinished(self, spent: CallTotals) -> None:
        """Keep what was spent on cases that are left for a later session."""
        if spent.to_dict():
            if self._recorder is not None:
                self._recorder.note_totals(spent)
            self.spent.add(spent)

    def end(self, cause: StopCause | None) -> None:
        """Close the display and note an early end."""
        self._display.end(self._present_tally())
        if cause is not None and self._recorder is not None:
            self._recorder.note_stop(cause)

    def in_order(self) -> list[EvaluationResult]:
        """Return the rows in the order of the records."""
        return [self.rows[position] for position in sorted(self.rows)]

    def _count(self, rows: Sequence[EvaluationResult]) -> None:
        for outcome, n in Counter(row.outcome for row in rows).items():
            name = f"n_{outcome}"
            setattr(self.tally, name, getattr(self.tally, name) + n)

    def _present_tally(self) -> Tally:
        tally, most = self.tally, self.spent.most_tokens
        tally.n_retries = self.spent.n_retries
        tally.n_tokens = sum(most)
        tally.cost = self._gate.budget.cost(*most, self.spent.batch_tokens)
        tally.is_at_most = most != self.spent.paid_tokens
        tally.limit = self._gate.concurrency.limit
        return tally


@dataclass(frozen=True, slots=True)
class Job:
    """What is run: a suite's records put to a backend in batches."""

    suite: BaseDataSuite
    backend: BaseBackend
    records: Records
    description: JsonObject
    batch_size: int
    max_concurrency: int


class Session:
    """Carries a job out, or what earlier sessions left of it."""

    def __init__(self, job: Job, execution: Execution, stop: Stop) -> None:
        self._job = job
        self._execution = execution
        self._stop = stop
        self._prompts = PromptCheck(job.backend, job.suite)
        self._task = task_facts(job.suite.task, job.backend)
        self._cases = cases_of(job.records, execution.repeats)
        self._asked, self._watch = self._cases, None
        if execution.stop_when is not None:
            seed, size = job.suite.config.seed, job.batch_size
            self._asked = in_random_order(self._cases, seed=seed, batch_size=size)
            self._watch = Watch(
                execution.stop_when,
                self._asked,
                answers=Answers.of(self._task),
                description=job.description,
            )
        self._batches = plan_batches(self._asked, job.batch_size)
        if asking_of(job.backend).words and self._batches and isinstance(job.backend, ChatBackend):
            request_about(self._batches[0], job.backend)  # refuses a build that ignores them
        check_form(job.backend, job.suite, job.records)
        self._price = price_of(job.backend, execution.prices)
        self._api = None if execution.batching is None else batch_api_of(job.backend)
        self._workers: Workers | None = None

    async def run(self) -> tuple[list[EvaluationResult], RunFacts]:
        """Return the rows of the settled cases in order, and how it went."""
        self._stop.bind(asyncio.get_running_loop())
        gate = self._gate()
        if self._execution.cluster is None:
            return await self._run(gate)
        async with self._cluster_workers(self._execution.cluster, gate) as self._workers:
            return await self._run(gate)

    async def _run(self, gate: Gate) -> tuple[list[EvaluationResult], RunFacts]:
        started_at, started = datetime.now(UTC), time.perf_counter()
        earlier = self._begin()
        self._refuse_live_beside(earlier.provider_batches)
        elapsed_before = earlier.elapsed_seconds
        kept = SessionRows(
            self._execution,
            earlier,
            gate=gate,
            stop=self._stop,
            n_cases=len(self._cases),
            watch=self._watch,
        )
        await self._work(kept, gate, earlier)
        rows = kept.in_order()
        elapsed_seconds = elapsed_before + time.perf_counter() - started
        facts = RunFacts(
            provenance=self._provenance(rows, started_at),
            spending=self._spending(kept.spent, rows, elapsed_seconds),
            prompts=Prompts.of(rows, verified=isinstance(self._job.backend, ChatBackend)),
            attrition=Attrition.of(rows, len(self._cases)),
            stop=self._cause(rows),
            stop_rule=None if self._watch is None else self._watch.outcome(),
            damage=earlier.damage,
            agreement=mark_agreement(rows) if self._execution.repeats > 1 else None,
        )
        return rows, facts

    def _cause(self, rows: Sequence[EvaluationResult]) -> StopCause | None:
        """Return why the run ended early; a decision that the last calls came after did not."""
        cause = self._stop.cause
        is_whole = len(rows) == len(self._cases)
        return None if is_whole and isinstance(cause, Decided) else cause

    def close(self) -> None:
        """Release every file."""
        if self._execution.recorder is not None:
            self._execution.recorder.close()
        if self._execution.cache is not None:
            self._execution.cache.flush()

    def _begin(self) -> PriorSessions:
        recorder = self._execution.recorder
        if recorder is None:
            return PriorSessions()
        job = self._job
        cache = self._execution.cache
        opening = Opening(
            self._identity(),
            self._task,
            job.description,
            job.backend.asked_as,
            cases=stored_cases(job.records),
            n_cases=len(self._cases),
            is_synthetic=are_synthetic(job.records),
            may_store_features=job.suite.stores_text,
            asking=asking_facts(job.backend),
            price=self._price.stated if self._price else {},
            objects={} if cache is None else {"cache_path": str(cache.path)},
        )
        return recorder.begin(opening)

    def _identity(self) -> Identity:
        """Return everything that can change an answer; no key, no path, no date."""
        job, config = self._job, self._job.suite.config
        return Identity(
            suite=job.suite.name,
            task=self._task.name,
            features=str(config.features),
            mode=SuiteFacts.of(job.description).mode,
            seed=config.seed,
            data=job.records.content_hash,
            n_records=len(job.records),
            repeats=self._execution.repeats,
            costs=plain(self._task.costs.to_json()),
            batch_size=job.batch_size,
            stop_when={} if self._watch is None else self._watch.identity(),
            asking=asking_of(job.backend).identity(),
            backend=plain(job.backend.identity()),
            prompts=self._prompts.hashes(self._batches),
        )

    def _gate(self) -> Gate:
        limits, context = self._execution.limits, self._execution.grid
        most = self._job.max_concurrency
        if context is None:
            account = None
            budget = Budget(limits, self._price, self._stop)
        else:
            account = context.account
            shared_budget, name = context.shared_budget, context.name
            budget = Budget(limits, self._price, self._stop, shared_budget=shared_budget, name=name)
        recorder = self._execution.recorder
        return Gate(
            limits,
            budget,
            self._stop,
            max_concurrency=most,
            account=account,
            on_send=recorder.note_call if recorder is not None else None,
        )

    def _refuse_live_beside(self, log: ProviderBatchLog) -> None:
        n = len(log.open)
        if n and self._execution.batching is None:
            are = "batch of this run is" if n == 1 else "batches of this run are"
            raise RunConflict(
                f"{n} provider {are} not collected, and ordinary "
                "calls would buy their answers again; collect or cancel them with `krisis "
                "batches`, or go on with --batch"
            )

    def _cluster_workers(self, cluster: Cluster, gate: Gate) -> Workers:
        job = self._job
        recipe = recipe_of(
            job.backend,
            timeout_seconds=self._execution.limits.timeout_seconds,
            max_concurrency=job.max_concurrency,
        )
        slots, size = gate.concurrency, job.batch_size
        return Workers(cluster, recipe, stop=self._stop, concurrency=slots, batch_size=size)

    def _remaining(self, earlier: PriorSessions) -> list[Batch]:
        done = earlier.rows.keys() | earlier.provider_batches.taken(earlier.rows)
        if not done:
            return self._batches
        missing = [case for case in self._asked if case.position not in done]
        return plan_batches(missing, self._job.batch_size)

    async def _work(self, kept: SessionRows, gate: Gate, earlier: PriorSessions) -> None:
        review, batches = StoragePolicy(self._job.suite), self._remaining(earlier)
        first_calls = FirstCalls(self._stop, review.error)
        caller = self._caller(gate, first_calls)
        n_workers = self._job.max_concurrency
        if self._workers is not None:
            n_workers = MOST_CALLS  # the gate knows how many the workers can take
            if not caller.takes_batches:
                batches = [[case] for batch in batches for case in batch]
        engine = Engine(
            caller,
            self._prompts,
            review,
            stop=self._stop,
            finished=kept.finished,
            book_unfinished=kept.book_unfinished,
            n_workers=n_workers,
        )
        kept.begin()
        try:
            await caller.open()
            if isinstance(caller, ChatCaller) and self._api is not None:
                cases = {case.position: case for case in self._cases}
                parts = (self._api, caller, engine, gate.budget, self._stop, cases)
                runner = self._runner(kept, BatchSettler(*parts), first_calls)
                await runner.run(batches, earlier.provider_batches)
            else:
                await engine.run(batches)
        except CannotGoOn as failed:
            raise failed.error from None
        except ExceptionGroup as group:
            # Workers fail for one reason, or each for its own: the first says most to the user.
            first = group.exceptions[0]
            raise (first.error if isinstance(first, CannotGoOn) else first) from None
        finally:
            await caller.close()
            kept.end(self._stop.cause)
        self._prompts.warn_of_doubts()

    def _runner(
        self, kept: SessionRows, settler: BatchSettler, first_calls: FirstCalls
    ) -> BatchRunner:
        batching, recorder = self._execution.batching, self._execution.recorder
        assert batching is not None
        assert recorder is not None
        parts = (settler, batching, first_calls, recorder)
        return BatchRunner(*parts, kept.rows, kept.spent, kept.show_waiting)

    def _caller(self, gate: Gate, first_calls: FirstCalls) -> Caller:
        backend = self._job.backend
        policy = RetryPolicy.of(backend)
        # A thread cannot be stopped by a clock, and workers have a clock of their own.
        attempts = Attempts(gate, policy, first_calls)
        # A reply to restricted text may quote it, and the cache is a store like any other.
        cache = self._execution.cache if self._job.suite.stores_text else None
        if self._workers is not None and isinstance(backend, ChatBackend):
            return ClusterChatCaller(backend, attempts, cache=cache, workers=self._workers)
        if self._workers is not None:
            return ClusterPlainCaller(backend, attempts, workers=self._workers)
        if isinstance(backend, ChatBackend):
            seconds = self._execution.limits.timeout_seconds
            attempts = Attempts(gate, policy, first_calls, timeout_seconds=seconds)
            return ChatCaller(backend, attempts, cache=cache)
        return ThreadCaller(backend, attempts, n_threads=self._job.max_concurrency)

    def _provenance(self, rows: Sequence[EvaluationResult], started_at: datetime) -> Provenance:
        job, recorder = self._job, self._execution.recorder
        made = Provenance(
            task_facts=self._task,
            models_answered=dict(Counter(row.model for row in rows if row.model)),
            batch_size=job.batch_size,
            max_concurrency=job.max_concurrency,
            repeats=self._execution.repeats,
            n_api_batches=len(self._batches),
            seed=job.suite.config.seed,
            suite_content_hash=job.records.content_hash,
            krisis_version=__version__,
            started_at=started_at.isoformat(timespec="seconds"),
            asking=asking_facts(job.backend),
        )
        return made if recorder is None else recorder.signed(made)

    def _spending(
        self,
        spent: CallTotals,
        rows: Sequence[EvaluationResult],
        elapsed_seconds: float,
    ) -> Spending:
        spending = Spending.of(spent, rows, elapsed_seconds=elapsed_seconds)
        cache = self._execution.cache
        return replace(
            spending,
            **cost_of(self._price, spent),
            cache_fault=(cache.fault or None) if cache is not None else None,
        )

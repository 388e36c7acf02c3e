"""Asking by provider batches: submit, wait, collect, and ask again what was left, each row once.

Before a provider batch is submitted the run file holds its marker, and before it is waited for its
name, both on disk. Whoever takes the run up again finds it by its name or, where the cut fell in
between, by its marker; only when it is certainly not there is it submitted again.
"""

from __future__ import annotations

import secrets
import time
from collections import deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from krisis.backends.batch_api import BatchApi, BatchState, size_of
from krisis.backends.chat import ChatRequest
from krisis.backends.dialects import Dialect
from krisis.backends.retry import RetryPolicy, call_with_retries
from krisis.errors import (
    AuthenticationFailed,
    BackendError,
    ContentFiltered,
    MalformedReply,
    OutOfCredit,
    RateLimited,
    RequestRefused,
    TruncatedReply,
)
from krisis.execution.batches import Batch, Case, request_about
from krisis.execution.callers import ChatCaller
from krisis.execution.engine import Engine
from krisis.execution.options import Batching
from krisis.execution.pacing.budget import Budget, Tokens
from krisis.execution.pacing.gate import Usage
from krisis.execution.recorder import Recorder
from krisis.execution.second_calls import lose
from krisis.execution.stopping import FirstCalls, Stop, StopRequested
from krisis.json_values import JsonMapping, JsonObject
from krisis.metrics.base import EvaluationResult
from krisis.results.call_totals import CallTotals
from krisis.results.stops import AccountRefused, Detached, Interrupted, RequestsRefused
from krisis.runs.provider_batches import (
    NOT_CHARGED,
    BatchRequest,
    ProviderBatch,
    ProviderBatchLog,
    unsettled,
)

# How many provider batches may end without an answer to a request before it fails.
MOST_ROUNDS = 3


@dataclass(slots=True)
class Outcome:
    """What a provider batch leaves: requests to be asked again, and what they took in vain."""

    again: list[BatchRequest] = field(default_factory=list)
    lost: CallTotals = field(default_factory=CallTotals)


@dataclass(slots=True)
class BatchSettler:
    """Settles the requests of provider batches as the engine settles calls."""

    api: BatchApi
    caller: ChatCaller
    engine: Engine
    budget: Budget
    stop: Stop
    by_position: Mapping[int, Case]

    def cases(self, one: BatchRequest) -> Batch:
        """Return the cases that a request asks about."""
        return [self.by_position[position] for position in one.positions]

    def request(self, one: BatchRequest) -> ChatRequest:
        """Return what is sent; the same as ever, so that it need not be kept."""
        return request_about(self.cases(one), self.api.backend)

    def settle(
        self,
        batch: ProviderBatch,
        results: Mapping[str, JsonMapping],
        rows: Mapping[int, EvaluationResult],
    ) -> Outcome:
        """Write the rows that results bring, but for those that an earlier session wrote."""
        left = {one.positions for one in unsettled(batch, rows)}
        found = [
            (one, results.get(batch.key(index)))
            for index, one in enumerate(batch.requests)
            if one.positions in left
        ]
        outcome = Outcome()
        # Answers first: they prove that the way of asking is understood.
        for one, result in sorted(found, key=lambda pair: not self._is_answer(pair[1])):
            self._settle(one, result, batch.dialect, outcome)
        return outcome

    def _is_answer(self, result: JsonMapping | None) -> bool:
        return result is not None and self.api.is_answer(result)

    def _settle(
        self, one: BatchRequest, result: JsonMapping | None, dialect: Dialect, outcome: Outcome
    ) -> None:
        cases, request = self.cases(one), self.request(one)
        most, spent = Tokens(one.most_input, one.most_output), CallTotals(n_batch_calls=1)
        spent.send(*most)
        try:
            reply = self.api.reply(result, request, dialect)
        except BackendError as error:
            self._book(one, request, Usage(0, 0), spent)
            self._leave_or_fail(one, error, spent, outcome)
            return
        self._book(one, request, Usage(reply.input_tokens, reply.output_tokens), spent)
        spent.n_dropped_fields += reply.n_dropped_fields
        try:
            responses = self.caller.read(request, reply)
        except MalformedReply as error:
            lose(spent, error)
            self._split_or_fail(one, error, spent, outcome)
        except BackendError as error:
            lose(spent, error)
            self.engine.fail(cases, error, spent=spent)
        else:
            self.caller.keep(request, reply, spent)
            self.engine.answer(cases, responses, spent=spent)

    def _book(
        self, one: BatchRequest, request: ChatRequest, used: Usage, spent: CallTotals
    ) -> None:
        """Replace what was set aside for a request by what it took."""
        most = Tokens(one.most_input, one.most_output)
        n_input, n_output = used.input_tokens, used.output_tokens
        assumed = self.budget.settle_batch(most, self.caller.asked(request), n_input, n_output)
        spent.assume(*assumed)
        spent.batch_input_tokens = int((n_input or 0) + assumed.input)
        spent.batch_output_tokens = int((n_output or 0) + assumed.output)

    def _leave_or_fail(
        self, one: BatchRequest, error: BackendError, spent: CallTotals, outcome: Outcome
    ) -> None:
        """Ask again what was not answered, a few times; what is refused has failed."""
        refuses_all = isinstance(error, AuthenticationFailed | OutOfCredit)
        if not (error.retryable or refuses_all) or one.n_rounds + 1 >= MOST_ROUNDS:
            self.engine.fail(self.cases(one), error, spent=spent)
            return
        if refuses_all:
            self.stop.request(AccountRefused(f"the provider does not accept the account: {error}"))
        spent.n_retries += 1
        outcome.lost.add(spent)
        outcome.again.append(one._replace(n_rounds=one.n_rounds + 1))

    def _split_or_fail(
        self, one: BatchRequest, error: MalformedReply, spent: CallTotals, outcome: Outcome
    ) -> None:
        """Do with a malformed reply what the engine does: halve it, or ask a single case again."""
        is_single = len(one.positions) == 1
        is_final = isinstance(error, TruncatedReply | ContentFiltered) or one.n_malformed > 0
        if is_single and is_final:
            self.engine.fail(self.cases(one), error, spent=spent)
            return
        if is_single:
            outcome.again.append(one._replace(n_malformed=1, n_rounds=0))
        else:
            spent.n_splits += 1
            n_first = (len(one.positions) + 1) // 2
            halves = one.positions[:n_first], one.positions[n_first:]
            outcome.again += [BatchRequest(half, is_part=True) for half in halves]
        outcome.lost.add(spent)


R = TypeVar("R")

# A submission whose end was not seen may still be on its way into the provider's list.
SETTLING_SECONDS = 60.0
MOST_FAILED_SUBMISSIONS = 5
MOST_FAILED_LOOKS = 10
POLL_GROWTH, LONGEST_POLL_FACTOR = 1.5, 20.0


@dataclass(slots=True)
class Parcel:
    """A provider batch that is being filled."""

    batch: ProviderBatch
    ones: list[BatchRequest] = field(default_factory=list)
    requests: list[ChatRequest] = field(default_factory=list)
    entries: list[JsonObject] = field(default_factory=list)
    n_bytes: int = 0

    def take(self, api: BatchApi, one: BatchRequest, request: ChatRequest) -> bool:
        """Take a request in and say so, unless it would be too many or too much."""
        entry = api.entry(self.batch.key(len(self.ones)), request, self.batch.dialect)
        n_bytes = self.n_bytes + size_of(entry)
        if self.ones and (len(self.ones) == api.most_requests or n_bytes > api.most_bytes):
            return False
        self.ones.append(one)
        self.requests.append(request)
        self.entries.append(entry)
        self.n_bytes = n_bytes
        return True


@dataclass(slots=True)
class BatchRunner:
    """Carries cases out by provider batches; ``rows`` and ``spent`` are those of the run.

    ``show`` is told how far the provider batches are.
    """

    settler: BatchSettler
    options: Batching
    first_calls: FirstCalls
    recorder: Recorder
    rows: Mapping[int, EvaluationResult]
    spent: CallTotals
    show: Callable[[str], None]
    api: BatchApi = field(init=False)
    budget: Budget = field(init=False)
    stop: Stop = field(init=False)
    _open: list[ProviderBatch] = field(default_factory=list)
    _todo: deque[BatchRequest] = field(default_factory=deque)
    _n_failed_submissions: int = 0
    _n_failed_looks: int = 0
    _n_refused: int = 0
    _is_full: bool = False
    _n_made: int = 0

    def __post_init__(self) -> None:
        self.api, self.stop = self.settler.api, self.settler.stop
        self.budget = self.settler.budget

    async def run(self, batches: Sequence[Batch], log: ProviderBatchLog) -> None:
        """Settle every batch, and what earlier sessions left with the provider."""
        self._open, self._n_made = log.open, len(log.batches)
        for one in (one for batch in self._open for one in unsettled(batch, self.rows)):
            self.budget.hold_again(Tokens(one.most_input, one.most_output))
        self._todo.extend(log.left(self.rows))
        self._todo.extend(BatchRequest(tuple(case.position for case in b)) for b in batches)
        try:
            await self._work()
        except StopRequested:
            if self._open and isinstance(self.stop.cause, Interrupted):
                self.stop.cause = Interrupted(f"interrupted; {self._under_way()}")
        finally:
            await self.api.close()

    async def _work(self) -> None:
        pause_seconds = self.options.poll_seconds
        while self._todo or self._open:
            self.stop.check()
            if self.options.submit and not (self._is_full and self._open):
                await self._ask_live()
                await self._submit()
            n_ended = await self._look()
            if n_ended and (self.options.submit or self._open):
                pause_seconds = self.options.poll_seconds
                continue
            is_named = all(batch.batch_id for batch in self._open)
            if not self._open or not (self.options.wait or (self.options.submit and not is_named)):
                break
            await self.stop.sleep(pause_seconds)
            longest = self.options.poll_seconds * LONGEST_POLL_FACTOR
            pause_seconds = min(pause_seconds * POLL_GROWTH, longest)
        if self._todo or self._open:
            self.stop.request(Detached(self._under_way()))

    def _under_way(self) -> str:
        n = len(self._open)
        if not n:
            return "no provider batch is under way"
        goes = "1 provider batch goes" if n == 1 else f"{n} provider batches go"
        return f"{goes} on at the provider"

    async def _ask_live(self) -> None:
        """Ask in ordinary calls what a provider batch brought malformed replies to."""
        if self.options.then_live:
            live = [one for one in self._todo if one.was_malformed]
            self._todo = deque(one for one in self._todo if not one.was_malformed)
            await self.settler.engine.run([self.settler.cases(one) for one in live])
            self.stop.check()

    async def _submit(self) -> None:
        """Submit what the budget has room for, in provider batches under the provider's limits."""
        parcel = self._parcel()
        while self._todo:
            request = self.settler.request(self._todo[0])
            if self._answered_before(self._todo[0], request):
                self._todo.popleft()
                continue
            most = self.budget.hold(self.settler.caller.asked(request))
            if most is None:
                break
            one = self._todo.popleft()
            one = one._replace(most_input=int(most.input), most_output=int(most.output))
            if not parcel.take(self.api, one, request):
                await self._hand_in(parcel)
                parcel = self._parcel()
                parcel.take(self.api, one, request)
        if parcel.requests:
            await self._hand_in(parcel)
        if self._todo and not self._open:
            self.budget.stop("the next request could exceed the budget")

    def _parcel(self) -> Parcel:
        marker = f"krisis-{secrets.token_hex(8)}"
        return Parcel(ProviderBatch(marker, (), self.api.backend.ladder.current, 0.0))

    def _answered_before(self, one: BatchRequest, request: ChatRequest) -> bool:
        spent = CallTotals()
        found = self.settler.caller.from_cache(request, self.settler.caller.read, spent)
        if found is not None:
            self.settler.engine.answer(self.settler.cases(one), found[1], spent=spent)
        return found is not None

    async def _hand_in(self, parcel: Parcel) -> None:
        """Submit a provider batch: its marker on disk before, its name after."""
        self.stop.check()
        batch = parcel.batch
        batch.requests, batch.intended_at = tuple(parcel.ones), time.time()
        self._n_made += 1
        batch.number = self._n_made
        self.recorder.note_provider_batch(batch)
        self._open.append(batch)
        policy, n_retries = RetryPolicy.of(self.api.backend), 0
        while True:
            try:
                name = await self.api.submit(batch.marker, parcel.entries, parcel.requests)
            except BackendError as error:
                # Refused, so that it cannot have been made; of other errors that is not known.
                if not (isinstance(error, RateLimited) and policy.allows(error, n_retries)):
                    self._not_submitted(batch, error)
                    return
                await self.stop.sleep(policy.pause_seconds(error, n_retries))
                n_retries += 1
            else:
                self._found(batch, name)
                self._n_failed_submissions = 0
                return

    def _found(self, batch: ProviderBatch, name: str) -> None:
        batch.batch_id = name
        self.recorder.note_provider_batch(batch)
        self.first_calls.succeeded()

    def _not_submitted(self, batch: ProviderBatch, error: BackendError) -> None:
        """End the run, or leave a submission of unknown end for `_look` to find."""
        self._n_failed_submissions += 1
        if error.status is not None and error.status < 500 and error.status not in (408, 409):
            self._close(batch, "not_submitted", Outcome(list(batch.requests)))
            if isinstance(error, RateLimited) and self._open:
                self._is_full = True
                return
            self.first_calls.failed(error)
            self.stop.request(RequestsRefused(f"the provider refuses the batch: {error}"))
            self.stop.check()
        if self._n_failed_submissions >= MOST_FAILED_SUBMISSIONS:
            self.first_calls.given_up(error)

    async def _look(self) -> int:
        """Look at every open provider batch, collect those that ended, and return how many."""
        n_ended, states = 0, list[BatchState]()
        for batch in list(self._open):
            try:
                if not batch.batch_id and not await self._seek(batch):
                    n_ended += batch.end != ""
                    continue
                state = await self._call(partial(self.api.state, batch.batch_id))
                self._n_failed_looks = 0
                self.first_calls.succeeded()
                if state.has_ended:
                    await self._collect(batch, state)
                    n_ended += 1
                else:
                    states.append(state)
            except BackendError as error:
                self._look_failed(batch, error)
        self.show(self._words(states))
        return n_ended

    def _words(self, states: Sequence[BatchState]) -> str:
        if not states:
            return ""
        n_requests = sum(len(batch.requests) for batch in self._open)
        n_finished = sum(state.n_finished or 0 for state in states)
        counted = f"{n_finished} of {n_requests}" if n_finished else str(n_requests)
        words = " / ".join(dict.fromkeys(state.words for state in states))
        return f"{self._under_way()}: {words}, {counted} requests"

    def _look_failed(self, batch: ProviderBatch, error: BackendError) -> None:
        """Go on where a few looks fail in a moment's trouble; else leave it for a resume."""
        if isinstance(error, AuthenticationFailed | OutOfCredit):
            self.first_calls.failed(error)
        self._n_failed_looks += 1
        if error.retryable and self._n_failed_looks < MOST_FAILED_LOOKS:
            return
        if error.retryable:
            self.first_calls.given_up(error)
        self.stop.request(
            RequestsRefused(
                f"the provider batch {batch.batch_id} cannot be looked at: {error}; if the key is "
                "that of another account, give the right one; if the batch was deleted, give it "
                "up with `krisis batches cancel`, and its records are asked again"
            )
        )
        self.stop.check()

    async def _seek(self, batch: ProviderBatch) -> bool:
        """Find a provider batch whose submission was cut; one that is not there is given up."""
        n_requests = len(batch.requests)
        seen = await self._call(lambda: self.api.find(batch.marker, batch.intended_at, n_requests))
        if seen.batch_id:
            self._found(batch, seen.batch_id)
            return True
        age_seconds = abs(time.time() - batch.intended_at)
        if seen.is_certain and age_seconds >= SETTLING_SECONDS:
            self._close(batch, "not_submitted", Outcome(list(batch.requests)))
        return False

    async def _call(self, call: Callable[[], Awaitable[R]]) -> R:
        policy = RetryPolicy.of(self.api.backend)
        return await call_with_retries(call, policy, sleep=self.stop.sleep)

    async def _collect(self, batch: ProviderBatch, state: BatchState) -> None:
        """Write the rows of a provider batch that ended, and note what must be asked again."""
        if state.fault:
            self._take_failure(batch, state)
            return
        results = await self._call(lambda: self.api.results(batch.batch_id))
        _refuse_unnamed(batch, results)
        self._is_full, self._n_refused = False, 0
        self._close(batch, "collected", self.settler.settle(batch, results, self.rows))

    def _take_failure(self, batch: ProviderBatch, state: BatchState) -> None:
        """Leave all requests of a provider batch that was refused as a whole."""
        self._close(batch, "failed", Outcome(unsettled(batch, self.rows)))
        if state.is_limit:
            self._is_full = bool(self._open)  # there is room again when another has ended
            self._n_refused += not self._open
            if self._n_refused < MOST_ROUNDS:
                return
        self.stop.request(
            RequestsRefused(f"the provider batch {batch.batch_id} failed: {state.fault}")
        )

    def _close(self, batch: ProviderBatch, end: str, outcome: Outcome) -> None:
        """Note that a provider batch needs no more attention, and take its requests back."""
        if end in NOT_CHARGED:
            for one in outcome.again:
                self.budget.hold_again(Tokens(one.most_input, one.most_output), -1)
        batch.end, batch.again = end, tuple(outcome.again)
        self.recorder.note_provider_batch(batch, outcome.lost)
        self.spent.add(outcome.lost)
        self._open.remove(batch)
        self._todo.extend(outcome.again)


def _refuse_unnamed(batch: ProviderBatch, results: Mapping[str, JsonMapping]) -> None:
    """Raise where results do not say what they answer: asking again would pay a second time."""
    if "" in results and not any(batch.key(i) in results for i in range(len(batch.requests))):
        raise RequestRefused(
            f"the provider batch {batch.batch_id} has results that do not name their requests, so "
            "they cannot be matched; report this to the maintainers of krisis"
        )

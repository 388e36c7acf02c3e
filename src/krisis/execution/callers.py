"""How cases are put to a backend: paced, timed, retried and counted, one attempt at a time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Protocol, TypeAlias, TypeVar

from krisis.backends.base import BackendResponse, BaseBackend
from krisis.backends.chat import ChatBackend, ChatReply, ChatRequest, PromptMode, check_read
from krisis.backends.provider import ProviderBackend
from krisis.backends.retry import RetryPolicy, call_with_retries
from krisis.backends.scrubbing import Shown, ShownRecords, scrub
from krisis.backends.secrets import recognisable_keys
from krisis.errors import (
    BackendError,
    MalformedReply,
    TruncatedReply,
    Unreachable,
)
from krisis.execution.batches import Case, first_call, request_about
from krisis.execution.cache import ReplyCache
from krisis.execution.cluster import Workers
from krisis.execution.pacing.budget import CallSize, FollowUpReservation
from krisis.execution.pacing.gate import Gate, Usage
from krisis.execution.plain_calls import (
    PlainCall,
    checked_count,
    copied,
    error_text,
    evaluated,
    known_error,
    paid,
    timed_out_error,
)
from krisis.execution.second_calls import SecondCalls, lose
from krisis.execution.stopping import FirstCalls, StopRequested
from krisis.results.call_totals import CallTotals

R = TypeVar("R")
Reader: TypeAlias = Callable[[ChatRequest, ChatReply], R]


# What came of a case: a response, or the error by which the second call about it failed.
Outcome: TypeAlias = BackendResponse | BackendError


class Attempts:
    """Makes calls; whatever goes wrong comes out as a `BackendError`, a stop or a user's error."""

    def __init__(
        self,
        gate: Gate,
        policy: RetryPolicy,
        first_calls: FirstCalls,
        *,
        timeout_seconds: float | None = None,
    ) -> None:
        self._gate = gate
        self._policy = policy
        self._first_calls = first_calls
        self._timeout_seconds = timeout_seconds

    async def make(
        self,
        call: Callable[[int | None], Awaitable[R]],
        usage_of: Callable[[R], Usage],
        *,
        asked: CallSize,
        spent: CallTotals,
        shown: Shown | None = None,
    ) -> R:
        """Call, and call again where that may help.

        ``call`` is given the output cap that the budget asks for, None for the request's own.
        Errors of a user's own backend are rid of what was ``shown``.
        """
        n_unreachable = 0

        async def attempt() -> R:
            nonlocal n_unreachable
            try:
                return await self._attempt(call, usage_of, asked=asked, spent=spent, shown=shown)
            except Unreachable as error:
                n_unreachable += 1
                self._first_calls.unreachable(error, n_unreachable)
                raise

        def note(error: BackendError, pause_seconds: float) -> None:
            spent.n_retries += 1
            lose(spent, error)

        try:
            return await call_with_retries(
                attempt, self._policy, on_retry=note, sleep=self._gate.sleep
            )
        except Unreachable as error:
            self._first_calls.given_up(error)
            raise

    async def _attempt(
        self,
        call: Callable[[int | None], Awaitable[R]],
        usage_of: Callable[[R], Usage],
        *,
        asked: CallSize,
        spent: CallTotals,
        shown: Shown | None,
    ) -> R:
        ticket = await self._gate.enter(asked)
        spent.send(*ticket.bound)
        started = time.perf_counter()
        try:
            async with asyncio.timeout(self._timeout_seconds) as clock:
                value = await call(ticket.held.lowered_cap)
        except BaseException as caught:
            error = self._known(caught, timed_out=clock.expired())
            if shown is not None and isinstance(error, BackendError) and not clock.expired():
                scrub(error, shown)
            spent.assume(*self._gate.failed(ticket, error))
            if isinstance(error, BackendError):
                error.latency_seconds = time.perf_counter() - started
                self._first_calls.failed(error)
            if error is caught:
                raise
            raise error from caught
        finally:
            spent.latencies_seconds.append(time.perf_counter() - started)
        spent.assume(*self._gate.succeeded(ticket, usage_of(value)))
        self._first_calls.succeeded()
        return value

    def withdraw(self, promise: FollowUpReservation) -> None:
        """Give back what is kept for a second call that is not made."""
        self._gate.withdraw(promise)

    def stop_at_budget(self, reason: str) -> None:
        """End the run because its budget is too small for what comes next."""
        self._gate.budget.stop(reason)

    def _known(self, error: BaseException, *, timed_out: bool) -> BaseException:
        """Return an error of krisis for whatever a backend raised; a ``TimeoutError`` may be its
        own."""
        if isinstance(error, TimeoutError) and timed_out:
            return timed_out_error(self._timeout_seconds or 0.0)
        return error if isinstance(error, StopRequested) else known_error(error)


class Caller(Protocol):
    """Puts cases to a backend and notes in ``spent`` what that took, also when it fails.

    ``takes_batches`` says whether several cases can share one call.
    """

    takes_batches: bool

    async def ask(
        self, cases: Sequence[Case], *, mode: PromptMode, spent: CallTotals
    ) -> Sequence[Outcome]:
        """Return what came of each case, in order; raise a `BackendError` of all of them."""

    async def open(self) -> None:
        """Get ready, so that no call pays for it with its time."""

    async def close(self) -> None:
        """Release threads and connections."""


class ChatCaller:
    """Takes a chat backend through its three steps: build, complete, read."""

    takes_batches = True

    def __init__(
        self, backend: ChatBackend, attempts: Attempts, *, cache: ReplyCache | None
    ) -> None:
        self._backend = backend
        self._attempts = attempts
        self._cache = cache

    async def ask(
        self, cases: Sequence[Case], *, mode: PromptMode, spent: CallTotals
    ) -> Sequence[Outcome]:
        """Build the request, find or fetch the reply, read it; ask about the answer if need be."""
        request = request_about(cases, self._backend)
        asked = self.asked(request)
        if not self._backend.asking.elicit.asks_twice:
            return (await self.exchanged(request, self.read, asked, spent))[1]
        following = self._backend.largest_second(first_call(cases, request))
        promise = FollowUpReservation(self.asked(following, self._backend.output_cap(request) or 0))
        try:
            asked, n_hits = replace(asked, then=promise), spent.n_cache_hits
            reply, responses = await self.exchanged(request, self.read, asked, spent)
            if self._cache is not None:
                self._cache.flush()  # paid for, and without a row until the second call is through
            first = first_call(cases, request, reply.text, responses)
            is_paid = spent.n_cache_hits == n_hits
            second = SecondCalls(self, self._backend, first, promise, spent, is_paid)
            return await second.settled()
        finally:
            self._attempts.withdraw(promise)

    def asked(self, request: ChatRequest, n_more: int = 0) -> CallSize:
        """Return the size of a request; ``n_more`` bytes are not known yet."""
        n_bytes = len(request.shown.encode("utf-8", "surrogatepass")) + n_more
        cap, shared = self._backend.output_cap(request), self._backend.instructions(request)
        return CallSize(n_bytes, request.n_records, cap, shared)

    async def exchanged(
        self, request: ChatRequest, read: Reader[R], asked: CallSize, spent: CallTotals
    ) -> tuple[ChatReply, R]:
        """Return the reply to a request, from the cache or from the provider, and what it says."""
        found = self.from_cache(request, read, spent)
        return found or await self._fetch(request, read, asked, spent)

    def from_cache(
        self, request: ChatRequest, read: Reader[R], spent: CallTotals
    ) -> tuple[ChatReply, R] | None:
        """Return what was replied to this request before, if it is kept."""
        reply = None if self._cache is None else self._cache.get(request.key())
        if reply is None:
            return None
        try:
            value = read(request, reply)
        except MalformedReply:  # kept by a version that read replies otherwise: ask again
            return None
        spent.n_cache_hits += 1
        spent.cached_input_tokens += reply.input_tokens or 0
        spent.cached_output_tokens += reply.output_tokens or 0
        return reply, value

    async def _fetch(
        self, request: ChatRequest, read: Reader[R], asked: CallSize, spent: CallTotals
    ) -> tuple[ChatReply, R]:
        sent = request

        async def call(cap: int | None) -> ChatReply:
            nonlocal sent
            sent = request if cap is None else self._backend.with_output_cap(request, cap)
            return await self._completed(sent)

        reply = await self._attempts.make(
            call,
            lambda reply: Usage(reply.input_tokens, reply.output_tokens, reply.headers),
            asked=asked,
            spent=spent,
            # The backends of krisis scrub where a provider's words come in.
            shown=None if isinstance(self._backend, ProviderBackend) else request,
        )
        spent.n_dropped_fields += reply.n_dropped_fields
        try:
            value = read(sent, reply)
        except TruncatedReply as error:
            if sent is not request:  # the budget cut it, so that it is no fault of the record
                lose(spent, error)
                self._attempts.stop_at_budget("what is left is too little for the next reply")
            raise
        self.keep(request, reply, spent)
        return reply, value

    def keep(self, request: ChatRequest, reply: ChatReply, spent: CallTotals) -> None:
        """Count the tokens of a reply that was read, and keep it in the cache."""
        spent.input_tokens += reply.input_tokens or 0
        spent.output_tokens += reply.output_tokens or 0
        if self._cache is not None:
            self._cache.put(request.key(), request, reply)

    def _completed(self, request: ChatRequest) -> Awaitable[ChatReply]:
        return self._backend.complete(request)

    def read(self, request: ChatRequest, reply: ChatReply) -> list[BackendResponse]:
        """Return one response per case; whatever goes wrong is a `BackendError`."""
        read = self._backend.read
        responses = self.checked(
            request, reply, lambda: checked_count(read(request, reply), request.n_records)
        )
        check_read(self._backend, responses)
        return responses

    def checked(self, request: ChatRequest, reply: ChatReply, read: Callable[[], R]) -> R:
        """Read a reply, and let whatever goes wrong be a `BackendError`."""
        try:
            return read()
        except BackendError as error:
            if not isinstance(error, MalformedReply):  # the reply says that there is no answer
                raise
            malformed = error
        except Exception as error:  # what a model wrote must never end a run
            malformed = MalformedReply(f"the reply cannot be read: {error_text(error)}")
        # The provider was paid for the reply whether or not the reader knew its price.
        malformed.input_tokens = malformed.input_tokens or reply.input_tokens
        malformed.output_tokens = malformed.output_tokens or reply.output_tokens
        scrub(malformed, request)
        raise malformed

    async def open(self) -> None:
        """Let the backend get ready."""
        await self._backend.aopen()

    async def close(self) -> None:
        """Release the connections of this event loop."""
        await self._backend.aclose()


class ThreadCaller:
    """Calls a plain backend in threads of its own, so that a slow one blocks nobody."""

    def __init__(self, backend: BaseBackend, attempts: Attempts, *, n_threads: int) -> None:
        self._backend = backend
        self._attempts = attempts
        self._threads = ThreadPoolExecutor(n_threads, thread_name_prefix="krisis-backend")
        self._keys = recognisable_keys()
        self.takes_batches = type(backend).evaluate_batch is not BaseBackend.evaluate_batch

    async def ask(
        self, cases: Sequence[Case], *, mode: PromptMode, spent: CallTotals
    ) -> list[BackendResponse]:
        """Call `evaluate_batch` for a batch and `evaluate` for a single case."""
        call = PlainCall([case.record for case in cases], mode, cases[0].sample_index)
        try:
            responses = await self._attempts.make(
                lambda cap: self._evaluated(call),
                _usage,
                asked=CallSize(0, call.n_records),
                spent=spent,
                shown=ShownRecords(call.records),
            )
        except BackendError as error:
            if mode == "single" or type(error) is not BackendError:
                raise
            # Whatever went wrong inside a user's batch, halving finds the record it came from.
            raise MalformedReply(
                str(error), input_tokens=error.input_tokens, output_tokens=error.output_tokens
            ) from error
        for response in responses:
            response.prompt_mode = response.prompt_mode or mode
            for key in self._keys:
                response.raw_response = key.removed_from(response.raw_response)
        tokens = paid(responses)
        spent.input_tokens += tokens["input_tokens"]
        spent.output_tokens += tokens["output_tokens"]
        counts = [count for one in responses for count in (one.input_tokens, one.output_tokens)]
        spent.n_calls_without_usage += None in counts
        spent.n_dropped_fields += sum(one.n_dropped_fields for one in responses)
        return responses

    def _evaluated(self, call: PlainCall) -> Awaitable[list[BackendResponse]]:
        loop = asyncio.get_running_loop()
        return loop.run_in_executor(self._threads, evaluated, self._backend, call)

    async def open(self) -> None:
        """Need nothing: threads start when they are used."""

    async def close(self) -> None:
        """End the threads; none is at work any more."""
        self._threads.shutdown(wait=False, cancel_futures=True)


class ClusterChatCaller(ChatCaller):
    """Lets workers complete the requests; building, reading and the cache stay here."""

    def __init__(
        self,
        backend: ChatBackend,
        attempts: Attempts,
        *,
        cache: ReplyCache | None,
        workers: Workers,
    ) -> None:
        super().__init__(backend, attempts, cache=cache)
        self._workers = workers

    def _completed(self, request: ChatRequest) -> Awaitable[ChatReply]:
        return self._workers.call(request)

    async def open(self) -> None:
        """Need nothing: the model is on the workers."""

    async def close(self) -> None:
        """Need nothing, likewise."""


class ClusterPlainCaller(ThreadCaller):
    """Lets workers call a plain backend."""

    def __init__(self, backend: BaseBackend, attempts: Attempts, *, workers: Workers) -> None:
        super().__init__(backend, attempts, n_threads=1)
        self._workers = workers

    def _evaluated(self, call: PlainCall) -> Awaitable[list[BackendResponse]]:
        return self._workers.call(replace(call, records=[copied(one) for one in call.records]))


def _usage(responses: list[BackendResponse]) -> Usage:
    # A plain backend that states no tokens has none to pay for.
    tokens = paid(responses)
    return Usage(tokens["input_tokens"], tokens["output_tokens"])

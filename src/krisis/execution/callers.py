"""How cases are put to a backend: awaited where it talks to a provider, in a thread otherwise."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol

from krisis.backends.base import BackendResponse, BaseBackend
from krisis.backends.chat import ChatBackend, ChatReply, ChatRequest, PromptMode
from krisis.errors import BackendError, MalformedReply
from krisis.execution.attempts import Attempts, Usage, error_text
from krisis.execution.batches import Case
from krisis.execution.budget import Estimate
from krisis.execution.cache import ReplyCache
from krisis.execution.gate import Gate
from krisis.execution.telemetry import Spent


class Caller(Protocol):
    """Puts cases to a backend and notes in ``spent`` what that took, also when it fails.

    ``takes_batches`` says whether several cases can share one call.
    """

    takes_batches: bool

    async def ask(
        self, cases: Sequence[Case], *, mode: PromptMode, spent: Spent
    ) -> list[BackendResponse]:
        """Return one response per case, in order; raise a `BackendError` otherwise."""

    async def close(self) -> None:
        """Let go of threads and connections."""


class ChatCaller:
    """Stands between the three steps of a chat backend."""

    takes_batches = True

    def __init__(
        self, backend: ChatBackend, attempts: Attempts, gate: Gate, *, cache: ReplyCache | None
    ) -> None:
        self._backend = backend
        self._attempts = attempts
        self._gate = gate
        self._cache = cache

    async def ask(
        self, cases: Sequence[Case], *, mode: PromptMode, spent: Spent
    ) -> list[BackendResponse]:
        """Build the request, find or fetch the reply, read it."""
        request = self._backend.build(
            [case.record.features for case in cases],
            mode=mode,
            sample_index=cases[0].sample_index,
            context=cases[0].record.context,
        )
        if self._cache is None:
            return await self._fetch(request, spent)
        key = request.key()
        return self._from_cache(self._cache, key, request, spent) or await self._fetch(
            request, spent, key
        )

    def _from_cache(
        self, cache: ReplyCache, key: str, request: ChatRequest, spent: Spent
    ) -> list[BackendResponse] | None:
        reply = cache.get(key)
        if reply is None:
            return None
        try:
            responses = self._read(request, reply)
        except MalformedReply:  # kept by a version that read replies otherwise: ask again
            return None
        spent.n_cache_hits += 1
        spent.cached_input_tokens += reply.input_tokens or 0
        spent.cached_output_tokens += reply.output_tokens or 0
        return responses

    async def _fetch(
        self, request: ChatRequest, spent: Spent, key: str = ""
    ) -> list[BackendResponse]:
        reply = await self._attempts.make(
            lambda: self._gate.timed(self._backend.complete(request)),
            _reply_usage,
            n_characters=len(request.system) + len(request.user),
            n_records=request.n_records,
            spent=spent,
        )
        responses = self._read(request, reply)
        spent.input_tokens += reply.input_tokens or 0
        spent.output_tokens += reply.output_tokens or 0
        if self._cache is not None:
            self._cache.put(key, request, reply)
        return responses

    def _read(self, request: ChatRequest, reply: ChatReply) -> list[BackendResponse]:
        try:
            responses = self._backend.read(request, reply)
            return _checked_count(responses, request.n_records)
        except MalformedReply as error:
            malformed = error
        except BackendError:  # a refusal to answer, told in the reply
            raise
        except Exception as error:  # what a model wrote must never end a run
            malformed = MalformedReply(f"the reply cannot be read: {error_text(error)}")
        # The provider was paid for the reply whether or not the reader knew its price.
        malformed.input_tokens = malformed.input_tokens or reply.input_tokens or 0
        malformed.output_tokens = malformed.output_tokens or reply.output_tokens or 0
        raise malformed

    async def close(self) -> None:
        """Release the connections of this event loop."""
        await self._backend.aclose()


class ThreadCaller:
    """Calls a plain backend in threads of its own, so that a slow one blocks nobody."""

    def __init__(self, backend: BaseBackend, attempts: Attempts, *, n_threads: int) -> None:
        self._backend = backend
        self._attempts = attempts
        self._threads = ThreadPoolExecutor(n_threads, thread_name_prefix="krisis-backend")
        self.takes_batches = type(backend).evaluate_batch is not BaseBackend.evaluate_batch

    async def ask(
        self, cases: Sequence[Case], *, mode: PromptMode, spent: Spent
    ) -> list[BackendResponse]:
        """Call `evaluate_batch` for a batch and `evaluate` for a single case."""
        records = [case.record for case in cases]

        def call() -> list[BackendResponse]:
            try:
                if mode == "single":
                    return _checked_kind([self._backend.evaluate(records[0])])
                responses = _checked_kind(list(self._backend.evaluate_batch(records)))
            except StopIteration as error:  # a future cannot carry it, and would wait for ever
                raise BackendError("StopIteration: the backend ran out of answers") from error
            return _checked_count(responses, len(records))

        loop = asyncio.get_running_loop()
        try:
            responses = await self._attempts.make(
                lambda: loop.run_in_executor(self._threads, call),
                _responses_usage,
                n_characters=0,
                n_records=len(records),
                spent=spent,
            )
        except BackendError as error:
            if mode == "single" or type(error) is not BackendError:
                raise
            # Whatever went wrong inside a user's batch, halving finds the record it came from.
            raise MalformedReply(str(error)) from error
        spent.use(responses)
        return responses

    async def close(self) -> None:
        """End the threads; none is at work any more."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _checked_count(responses: list[BackendResponse], n_records: int) -> list[BackendResponse]:
    if len(responses) != n_records:
        raise MalformedReply(f"{len(responses)} responses came back for {n_records} records")
    return responses


def _checked_kind(responses: list[BackendResponse]) -> list[BackendResponse]:
    for response in responses:
        if not isinstance(response, BackendResponse):
            raise BackendError(
                f"the backend returned {type(response).__name__} where a BackendResponse is due; "
                "return one for every record"
            )
    return responses


def _reply_usage(reply: ChatReply) -> Usage:
    return Usage(Estimate(reply.input_tokens or 0, reply.output_tokens or 0), reply.headers)


def _responses_usage(responses: list[BackendResponse]) -> Usage:
    return Usage(
        Estimate(
            sum(response.input_tokens or 0 for response in responses),
            sum(response.output_tokens or 0 for response in responses),
        ),
        {},
    )

"""How cases are put to a backend: awaited where it talks to a provider, in a thread otherwise."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

from krisis.backends.base import BackendResponse, BaseBackend
from krisis.backends.chat import ChatBackend, ChatReply, ChatRequest, PromptMode
from krisis.backends.retry import RetryPolicy, call_with_retries
from krisis.errors import BackendError, MalformedReply, MissingExtra, MissingKey
from krisis.execution.batches import Case
from krisis.execution.telemetry import Spent

R = TypeVar("R")


class Caller(Protocol):
    """Puts cases to a backend and notes in ``spent`` what that took, also when it fails.

    ``takes_batches`` says whether several cases can share one call.
    """

    takes_batches: bool

    async def ask(
        self, cases: Sequence[Case], *, mode: PromptMode, spent: Spent
    ) -> list[BackendResponse]:
        """Return one response per case, in order; raise a `BackendError` otherwise."""

    def close(self) -> None:
        """Let go of threads and files."""


def caller_for(backend: BaseBackend, *, max_concurrency: int) -> Caller:
    """Choose the way to call a backend."""
    if isinstance(backend, ChatBackend):
        return ChatCaller(backend)
    return ThreadCaller(backend, n_threads=max_concurrency)


class ChatCaller:
    """Stands between the three steps of a chat backend."""

    takes_batches = True

    def __init__(self, backend: ChatBackend) -> None:
        self._backend = backend
        self._policy = RetryPolicy.of(backend)

    async def ask(
        self, cases: Sequence[Case], *, mode: PromptMode, spent: Spent
    ) -> list[BackendResponse]:
        """Build the request, have it completed, read the reply."""
        request = self._backend.build(
            [case.record.features for case in cases],
            mode=mode,
            sample_index=cases[0].sample_index,
            context=cases[0].record.context,
        )
        reply = await _with_retries(
            lambda: self._backend.complete(request), self._policy, spent=spent
        )
        responses = self._read(request, reply)
        spent.use(responses)
        return responses

    def _read(self, request: ChatRequest, reply: ChatReply) -> list[BackendResponse]:
        try:
            responses = self._backend.read(request, reply)
            return _checked_count(responses, request.n_records)
        except MalformedReply as error:
            malformed = error
        except Exception as error:  # what a model wrote must never end a run
            malformed = MalformedReply(f"the reply cannot be read: {_text(error)}")
        # The provider was paid for the reply whether or not the reader knew its price.
        malformed.input_tokens = malformed.input_tokens or reply.input_tokens or 0
        malformed.output_tokens = malformed.output_tokens or reply.output_tokens or 0
        raise malformed

    def close(self) -> None:
        """Hold nothing."""


class ThreadCaller:
    """Calls a plain backend in threads of its own, so that a slow one blocks nobody."""

    def __init__(self, backend: BaseBackend, *, n_threads: int) -> None:
        self._backend = backend
        self._policy = RetryPolicy.of(backend)
        self._threads = ThreadPoolExecutor(n_threads, thread_name_prefix="krisis-backend")
        self.takes_batches = type(backend).evaluate_batch is not BaseBackend.evaluate_batch

    async def ask(
        self, cases: Sequence[Case], *, mode: PromptMode, spent: Spent
    ) -> list[BackendResponse]:
        """Call `evaluate_batch` for a batch and `evaluate` for a single case."""
        records = [case.record for case in cases]

        def call() -> list[BackendResponse]:
            if mode == "single":
                return [self._backend.evaluate(records[0])]
            return _checked_count(self._backend.evaluate_batch(records), len(records))

        loop = asyncio.get_running_loop()
        try:
            responses = await _with_retries(
                lambda: loop.run_in_executor(self._threads, call), self._policy, spent=spent
            )
        except MalformedReply:
            raise
        except BackendError as error:
            if mode == "single" or type(error) is not BackendError:
                raise
            # Whatever went wrong inside a user's batch, halving finds the record it came from.
            raise MalformedReply(str(error)) from error
        spent.use(responses)
        return responses

    def close(self) -> None:
        """End the threads; none is at work any more."""
        self._threads.shutdown(wait=False, cancel_futures=True)


def _checked_count(responses: list[BackendResponse], n_records: int) -> list[BackendResponse]:
    if len(responses) != n_records:
        raise MalformedReply(f"{len(responses)} responses came back for {n_records} records")
    return responses


async def _with_retries(
    call: Callable[[], Awaitable[R]], policy: RetryPolicy, *, spent: Spent
) -> R:
    """Call, and call again where that may help, keeping count."""

    async def attempt() -> R:
        spent.n_calls += 1
        started = time.perf_counter()
        try:
            return await call()
        except (BackendError, MissingKey, MissingExtra):
            raise
        except Exception as error:
            raise BackendError(_text(error)) from error
        finally:
            spent.latencies_seconds.append(time.perf_counter() - started)

    def note(error: BackendError, pause_seconds: float) -> None:
        spent.n_retries += 1
        spent.lose(error)

    return await call_with_retries(attempt, policy, on_retry=note)


def _text(error: Exception) -> str:
    return f"{type(error).__name__}: {error}"

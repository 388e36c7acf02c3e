"""What a worker of a cluster does: make the backend once, keep it, and answer calls with it.

A worker gets a recipe, the pickled backend, and loads the model itself. Everything that goes back
is a response, a reply or an error of krisis, so that it can be read wherever it arrives.
"""

from __future__ import annotations

import asyncio
import pickle
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TypeAlias

from krisis import errors
from krisis.backends import blocking
from krisis.backends.base import BackendResponse, BaseBackend
from krisis.backends.chat import ChatBackend, ChatReply, ChatRequest
from krisis.errors import BackendError, UserError
from krisis.execution.plain_calls import (
    PlainCall,
    error_text,
    evaluated,
    known_error,
    timed_out_error,
)
from krisis.json_values import JsonObject, plain

# Models of earlier clients that were killed stay until there are more than this many.
MOST_MODELS = 2


Call: TypeAlias = PlainCall | ChatRequest
Answer: TypeAlias = list[BackendResponse] | ChatReply
Outcome: TypeAlias = Answer | BackendError | UserError


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a worker makes the backend of a run, and what it must find when it has."""

    key: str
    backend: bytes
    identity: JsonObject
    packages: tuple[str, ...]
    timeout_seconds: float | None
    max_concurrency: int


@dataclass(slots=True)
class _Ready:
    """A backend in the memory of this worker; its calls come one task at a time."""

    backend: BaseBackend
    recipe: Recipe
    turn: threading.Lock = field(default_factory=threading.Lock)

    def outcomes(self, calls: Sequence[Call]) -> list[Outcome]:
        if isinstance(self.backend, ChatBackend):
            return blocking.run(self._replies(self.backend, calls))
        if self.recipe.max_concurrency == 1 or len(calls) == 1:
            return list(map(self._responses, calls))
        with ThreadPoolExecutor(self.recipe.max_concurrency) as threads:
            return list(threads.map(self._responses, calls))

    def _responses(self, call: Call) -> Outcome:
        assert isinstance(call, PlainCall)
        try:
            return evaluated(self.backend, call)
        except BaseException as error:
            return portable(error)

    async def _replies(self, backend: ChatBackend, calls: Sequence[Call]) -> list[Outcome]:
        slots = asyncio.Semaphore(self.recipe.max_concurrency)

        async def reply(call: Call) -> Outcome:
            assert isinstance(call, ChatRequest)
            async with slots:
                try:
                    async with asyncio.timeout(self.recipe.timeout_seconds) as clock:
                        return await backend.complete(call)
                except BaseException as error:
                    if isinstance(error, TimeoutError) and clock.expired():
                        return timed_out_error(self.recipe.timeout_seconds or 0.0)
                    return portable(error)

        return await asyncio.gather(*map(reply, calls))


_READY: dict[str, _Ready] = {}
_ADMITTING = threading.Lock()


def admit(recipe: Recipe) -> str:
    """Make the backend ready on this worker; return why it cannot be, nothing if it is."""
    with _ADMITTING:
        if recipe.key in _READY:
            return ""
        try:
            backend: BaseBackend = pickle.loads(recipe.backend)  # noqa: S301 - the client's own
            if found := _differences(recipe.identity, plain(backend.identity())):
                return "it has another model: " + "; ".join(found)
            if isinstance(backend, ChatBackend):
                blocking.run(backend.aopen())
        except Exception as error:
            told = str(error) if isinstance(error, UserError) else error_text(error)
            return f"it cannot load the backend ({told})"
        while len(_READY) >= MOST_MODELS:
            del _READY[next(iter(_READY))]
        _READY[recipe.key] = _Ready(backend, recipe)
        return ""


def perform(key: str, calls: Sequence[Call]) -> list[Outcome] | None:
    """Answer some calls; None where this process has not been given the backend."""
    ready = _READY.get(key)
    if ready is None:
        return None
    with ready.turn:
        return ready.outcomes(calls)


def forget(key: str) -> None:
    """Let go of a backend that is no longer needed."""
    _READY.pop(key, None)


def _differences(here: JsonObject, there: JsonObject) -> list[str]:
    return [
        f"{name} is {there.get(name)!r} there and {here.get(name)!r} here"
        for name in sorted(here.keys() | there.keys())
        if here.get(name) != there.get(name)
    ]


class OwnError(BackendError):
    """An error of the user's own kind: none of krisis's, and no plain one either."""


def portable(error: BaseException) -> BackendError | UserError:
    """Return an error as the nearest of krisis's own, since a class of the user's may not travel.

    >>> class Busy(errors.RateLimited):
    ...     failure_class = "busy"
    ...     def __init__(self):
    ...         super().__init__("ward is busy", retry_after_seconds=2.0)
    >>> sent = pickle.loads(pickle.dumps(portable(Busy())))
    >>> type(sent).__name__, str(sent), sent.failure_class, sent.retry_after_seconds
    ('RateLimited', 'ward is busy', 'busy', 2.0)
    """
    known = known_error(error)
    if not isinstance(known, BackendError | UserError):
        return BackendError(error_text(error))
    kind = next(one for one in type(known).__mro__ if one.__module__ == errors.__name__)
    if kind is BackendError and type(known) is not BackendError:
        kind = OwnError
    made: BackendError | UserError = kind(str(known))
    if isinstance(made, BackendError) and isinstance(known, BackendError):
        names = [*vars(made), "failure_class", "retryable", "may_be_billed"]
        vars(made).update({name: getattr(known, name) for name in names})
    return made

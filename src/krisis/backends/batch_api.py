"""The batch API of a provider: many requests handed in at once, answered within a day, half price.

A provider takes a *provider batch* under a marker of krisis's own and names it. Its results come
in any order, some perhaps twice, some as errors, some not at all; what each of them means is said
here in the errors that ordinary calls have too.
"""

from __future__ import annotations

import asyncio
import json
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from krisis.backends.chat import ChatReply, ChatRequest
from krisis.backends.dialects import Dialect
from krisis.errors import ProviderUnavailable
from krisis.json_values import JsonMapping, JsonObject

if TYPE_CHECKING:
    from krisis.backends.provider import ProviderBackend

R = TypeVar("R")

# Ten thousand results with their log-probabilities are some 200 MB, which fit in memory; the
# providers themselves would take more requests.
MOST_REQUESTS = 10_000
MAX_RESULTS_BYTES = 2**30
# A file of 200 MB takes its time.
LEAST_TIMEOUT_SECONDS = 600.0
# How far the clock of a provider may be behind ours.
CLOCK_SKEW_SECONDS = 3600.0


class NotAnswered(ProviderUnavailable):
    """A request that a provider batch left without an answer, and that nobody is charged for."""

    may_be_billed = False


class ErrorResult(Exception):
    """The error of one request, in the shape of an SDK's own; ``status`` may be anything."""

    def __init__(self, status: Any, error: Any, *, otherwise: int = 502) -> None:
        told = error if isinstance(error, dict) else {"message": error}
        super().__init__(str(told.get("message") or "an error without words"))
        known = isinstance(status, int) and 400 <= status <= 599
        self.status_code = status if known else otherwise
        self.body = {"error": told}


@dataclass(frozen=True, slots=True)
class BatchState:
    """How far a provider batch is, in the provider's own ``words``.

    ``fault`` says why it failed as a whole; ``is_limit``, that the account may not have more
    under way at a time.
    """

    words: str
    has_ended: bool
    n_finished: int | None = None
    fault: str = ""
    is_limit: bool = False


@dataclass(frozen=True, slots=True)
class Sighting:
    """Where a provider batch was found; without a name it is not there, or cannot be told yet."""

    batch_id: str = ""
    is_certain: bool = True


class BatchApi(ABC):
    """The batch endpoints of one provider, called through its SDK."""

    most_requests: ClassVar[int] = MOST_REQUESTS
    most_bytes: ClassVar[int]

    def __init__(self, backend: ProviderBackend) -> None:
        self.backend = backend
        self._client: tuple[Any, Any] | None = None

    @property
    def client(self) -> Any:
        """Return the client of the SDK, made when it is first used."""
        if self._client is None:
            self._client = self.backend.client_for_batches()
        return self._client[0]

    async def close(self) -> None:
        """Close the connections."""
        if self._client is not None and self._client[1] is not None:
            await self._client[1].aclose()
        self._client = None

    @abstractmethod
    def entry(self, key: str, request: ChatRequest, dialect: Dialect) -> JsonObject:
        """Return a request as it is handed in: the body of an ordinary call, under a name."""

    @abstractmethod
    async def _submit(self, marker: str, entries: Sequence[JsonObject]) -> str: ...

    @abstractmethod
    async def _state(self, batch_id: str) -> BatchState: ...

    @abstractmethod
    async def _find(self, marker: str, since: float, n_requests: int) -> Sighting: ...

    @abstractmethod
    async def _results(self, batch_id: str) -> Iterable[JsonMapping]: ...

    @abstractmethod
    async def _cancel(self, batch_id: str) -> None: ...

    @abstractmethod
    def key_of(self, result: JsonMapping) -> str:
        """Return the name of the request that a result belongs to; "" where it has none."""

    @abstractmethod
    def is_answer(self, result: JsonMapping) -> bool:
        """Say whether a result holds a reply, and no error."""

    @abstractmethod
    def _reply(self, result: JsonMapping) -> ChatReply: ...

    async def submit(
        self, marker: str, entries: Sequence[JsonObject], requests: Sequence[ChatRequest]
    ) -> str:
        """Hand requests in under a marker; return the name that the provider gives them."""
        # A provider may quote any of them in what it says of all.
        shown = replace(
            requests[0],
            user="\n".join(request.user for request in requests),
            template="\n".join(dict.fromkeys(request.template for request in requests)),
        )
        return await self._called(self._submit(marker, entries), shown)

    async def state(self, batch_id: str) -> BatchState:
        """Ask how far a provider batch is."""
        return await self._called(self._state(batch_id))

    async def find(self, marker: str, since: float, n_requests: int) -> Sighting:
        """Look for a provider batch of so many requests that was perhaps submitted since then."""
        return await self._called(self._find(marker, since - CLOCK_SKEW_SECONDS, n_requests))

    async def results(self, batch_id: str) -> dict[str, JsonMapping]:
        """Return the results by the names of their requests; of two, one that is an answer."""
        found: dict[str, JsonMapping] = {}
        for result in await self._called(self._results(batch_id)):
            key = self.key_of(result)
            if key not in found or (self.is_answer(result) and not self.is_answer(found[key])):
                found[key] = result
        return found

    async def cancel(self, batch_id: str) -> None:
        """Ask the provider to end a provider batch; what is answered by then stays."""
        await self._called(self._cancel(batch_id))

    def reply(
        self, result: JsonMapping | None, request: ChatRequest, dialect: Dialect
    ) -> ChatReply:
        """Return the reply to a request, or raise what an ordinary call would have raised."""
        try:
            if result is None:
                raise NotAnswered("the provider batch ended without a result for this request")
            reply = self._reply(result)
        except Exception as error:
            known = self.backend.known(error, request)
            raise self.backend.ladder.note_failure(known, dialect) from None
        return self.backend.received(reply, dialect)

    async def _called(self, work: Awaitable[R], shown: ChatRequest | None = None) -> R:
        seconds = max(self.backend.timeout_seconds, LEAST_TIMEOUT_SECONDS)
        try:
            async with asyncio.timeout(seconds):
                return await work
        except Exception as error:
            raise self.backend.known(error, shown or self._nothing_shown()) from None

    def _nothing_shown(self) -> ChatRequest:
        named = self.backend.provider, self.backend.model
        return ChatRequest(*named, "", "", {}, {}, mode="single", template="", n_records=1)


def json_lines(content: bytes) -> Iterator[JsonMapping]:
    """Yield the objects of a file of results; a line that cannot be read is no result."""
    for line in content.splitlines():
        try:
            value = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            yield value


def as_json_lines(entries: Iterable[JsonObject]) -> bytes:
    """Return entries as a file, one on a line."""
    return b"".join(json.dumps(entry).encode() + b"\n" for entry in entries)


def size_of(entry: JsonObject) -> int:
    """Return the bytes that an entry takes in what is handed in."""
    return len(json.dumps(entry)) + 2

"""The second calls of answers that take two: halved where they are malformed, as first calls."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeVar

from krisis.backends.base import BackendResponse
from krisis.backends.chat import ChatBackend, ChatReply, ChatRequest
from krisis.backends.second_call import FirstCall
from krisis.errors import (
    BackendError,
    ContentFiltered,
    MalformedReply,
    TruncatedReply,
    WorkerLost,
)
from krisis.execution.pacing.budget import CallSize, FollowUpReservation
from krisis.results.call_totals import CallTotals

R = TypeVar("R")
# The same cap would cut it again, the same policy withhold it, and so on.
FINAL = (TruncatedReply, ContentFiltered, WorkerLost)


def lose(spent: CallTotals, error: BackendError) -> None:
    """Count the tokens of a call that gave nothing."""
    spent.lost_input_tokens += error.input_tokens or 0
    spent.lost_output_tokens += error.output_tokens or 0


class Exchanges(Protocol):
    """Makes a call, or finds its reply in the cache."""

    def asked(self, request: ChatRequest) -> CallSize:
        """Return the size of a request."""

    def exchanged(
        self,
        request: ChatRequest,
        read: Callable[[ChatRequest, ChatReply], R],
        asked: CallSize,
        spent: CallTotals,
    ) -> Awaitable[tuple[ChatReply, R]]:
        """Return the reply to a request and what it says."""

    def checked(self, request: ChatRequest, reply: ChatReply, read: Callable[[], R]) -> R:
        """Read a reply, and let whatever goes wrong be a `BackendError`."""


@dataclass(slots=True)
class SecondCalls:
    """Asks how probable the answers of a first call are; cases that abstained are not asked about.

    ``is_paid`` says that the first reply was paid for, and is not of the cache.
    A case whose second call fails for good has failed, by the class of that failure: an answer
    without the confidence that was asked for is none.
    """

    caller: Exchanges
    backend: ChatBackend
    first: FirstCall
    promise: FollowUpReservation
    spent: CallTotals
    is_paid: bool
    _outcomes: list[BackendResponse | BackendError] = field(init=False)

    def __post_init__(self) -> None:
        self._outcomes = list(self.first.responses)

    async def settled(self) -> list[BackendResponse | BackendError]:
        """Return what came of every case of the first call."""
        if self.first.answered:
            await self._settle(self.first.answered)
        return self._outcomes

    async def _settle(self, places: Sequence[int], *, again: bool = False) -> None:
        try:
            responses = await self._ask(places)
        except MalformedReply as error:
            lose(self.spent, error)
            if len(places) > 1:
                self.spent.n_splits += 1
                middle = (len(places) + 1) // 2
                await self._settle(places[:middle])
                await self._settle(places[middle:])
            elif again or isinstance(error, FINAL):
                self._fail(places, error)
            else:
                await self._settle(places, again=True)
        except BackendError as error:
            lose(self.spent, error)
            self._fail(places, error)
        else:
            for place, response in zip(places, responses, strict=True):
                self._outcomes[place] = response

    async def _ask(self, places: Sequence[int]) -> list[BackendResponse]:
        second = self.backend.build_second(self.first, places)
        about = [self.first.responses[place] for place in places]

        def read(request: ChatRequest, reply: ChatReply) -> list[BackendResponse]:
            return self.caller.checked(
                request, reply, lambda: self.backend.read_second(second, reply, about)
            )

        asked = replace(self.caller.asked(second.request), promise=self.promise)
        _, responses = await self.caller.exchanged(second.request, read, asked, self.spent)
        return responses

    def _fail(self, places: Sequence[int], error: BackendError) -> None:
        for place in places:
            response = self.first.responses[place]
            self._outcomes[place] = error
            if self.is_paid:  # the first call gave nothing that is kept either
                n_input, n_output = response.input_tokens or 0, response.output_tokens or 0
                self.spent.input_tokens -= n_input
                self.spent.output_tokens -= n_output
                self.spent.lost_input_tokens += n_input
                self.spent.lost_output_tokens += n_output

"""The engine: workers draw batches, settle each to rows, and hand the rows on as they finish."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence

from krisis.backends.base import BackendResponse
from krisis.backends.chat import PromptMode
from krisis.errors import BackendError, MalformedReply, TruncatedReply
from krisis.execution.batches import Batch
from krisis.execution.callers import Caller
from krisis.execution.prompts import PromptCheck
from krisis.execution.review import Review
from krisis.execution.rows import answered_row, failed_row
from krisis.execution.stopping import Stop, StopRequested
from krisis.execution.telemetry import Spent
from krisis.metrics.base import EvaluationResult

Finished = Callable[[Batch, Sequence[EvaluationResult], Spent], None]


class Engine:
    """Settles batches, at most ``n_workers`` at a time.

    A malformed batch is halved until it is a single case, which is asked once more on its own.
    What a batch cost stays with its first row to finish, also when it was halved in between.
    """

    def __init__(
        self,
        caller: Caller,
        prompts: PromptCheck,
        review: Review,
        *,
        stop: Stop,
        finished: Finished,
        left_off: Callable[[Spent], None],
        n_workers: int,
    ) -> None:
        self._caller = caller
        self._prompts = prompts
        self._review = review
        self._stop = stop
        self._finished = finished
        self._left_off = left_off
        self._n_workers = n_workers

    async def run(self, batches: Sequence[Batch]) -> None:
        """Settle every batch; the first error that is not a row's own ends the run."""
        todo = iter(batches)
        async with asyncio.TaskGroup() as workers:
            for _ in range(min(self._n_workers, len(batches))):
                workers.create_task(self._work(todo))

    async def _work(self, todo: Iterator[Batch]) -> None:
        try:
            for batch in todo:
                if self._caller.takes_batches:
                    await self._settle(batch, Spent())
                else:
                    for case in batch:
                        await self._settle([case], Spent())
        except StopRequested:
            return  # what is not settled is left for a later session

    async def _ask(self, batch: Batch, spent: Spent) -> list[BackendResponse]:
        """Ask, and book what was spent in vain when the run ends before there is an answer."""
        try:
            self._stop.check()
            mode: PromptMode = "batch" if len(batch) > 1 else "single"
            return await self._caller.ask(batch, mode=mode, spent=spent)
        except StopRequested:
            self._left_off(spent)
            raise

    async def _settle(self, batch: Batch, spent: Spent) -> None:
        try:
            responses = await self._ask(batch, spent)
        except MalformedReply as error:
            spent.lose(error)
            await self._settle_malformed(batch, error, spent=spent)
        except BackendError as error:
            spent.lose(error)
            self._fail(batch, error, spent=spent)
        else:
            self._answer(batch, responses, spent=spent)

    async def _settle_malformed(self, batch: Batch, error: MalformedReply, *, spent: Spent) -> None:
        if len(batch) > 1:
            spent.n_splits += 1
            middle = (len(batch) + 1) // 2
            await self._settle(batch[:middle], spent)
            await self._settle(batch[middle:], Spent())
        elif isinstance(error, TruncatedReply):
            self._fail(batch, error, spent=spent)  # the same cap would cut it again
        else:
            await self._ask_once_more(batch, spent)

    async def _ask_once_more(self, batch: Batch, spent: Spent) -> None:
        try:
            responses = await self._ask(batch, spent)
        except BackendError as error:
            spent.lose(error)
            self._fail(batch, error, spent=spent)
        else:
            self._answer(batch, responses, spent=spent)

    def _answer(self, batch: Batch, responses: list[BackendResponse], *, spent: Spent) -> None:
        mode: PromptMode = "batch" if len(batch) > 1 else "single"
        prompt = self._prompts.shared(responses[0].prompt, batch, mode)
        rows = []
        for case, response in zip(batch, self._review.responses(batch, responses), strict=True):
            if response.prompt is not prompt and response.prompt != prompt:
                own = self._prompts.shared(response.prompt, [case], mode)
                rows.append(answered_row(case, response, prompt=own))
            else:
                rows.append(answered_row(case, response, prompt=prompt))
        self._finished(batch, rows, spent)

    def _fail(self, batch: Batch, error: BackendError, *, spent: Spent) -> None:
        text = self._review.error(error)
        self._finished(batch, [failed_row(case, text) for case in batch], spent)

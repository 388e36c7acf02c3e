"""The engine: workers draw batches, settle each to rows, and hand the rows on as they finish."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from sys import intern

from krisis.answers import AnswerSet, kept_value
from krisis.backends.base import BackendResponse
from krisis.backends.chat import PromptMode
from krisis.backends.elicitation import RATIONALE
from krisis.data.base import BaseDataSuite
from krisis.errors import BackendError, MalformedReply
from krisis.execution.batches import Batch, Case
from krisis.execution.callers import Caller, Outcome
from krisis.execution.prompts import PromptCheck
from krisis.execution.second_calls import FINAL, lose
from krisis.execution.stopping import CannotGoOn, Stop, StopRequested
from krisis.json_values import JsonMapping
from krisis.metrics.base import EvaluationResult
from krisis.outcomes import NO_PREDICTION, NOT_ALLOWED
from krisis.results.call_totals import CallTotals
from krisis.results.stops import UnusableConfidence

Finished = Callable[[Batch, Sequence[EvaluationResult], CallTotals], None]


class Engine:
    """Settles batches, at most ``n_workers`` at a time.

    A malformed batch is halved until it is a single case, which is asked once more on its own,
    unless its reply was cut by the token cap or withheld by a content filter.
    What a batch cost stays with its first row to finish, also when it was halved in between.
    """

    def __init__(
        self,
        caller: Caller,
        prompts: PromptCheck,
        review: StoragePolicy,
        *,
        stop: Stop,
        finished: Finished,
        book_unfinished: Callable[[CallTotals], None],
        n_workers: int,
    ) -> None:
        self._caller = caller
        self._prompts = prompts
        self._review = review
        self._stop = stop
        self._finished = finished
        self._left_off = book_unfinished
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
                    await self._settle(batch, CallTotals())
                else:
                    for case in batch:
                        await self._settle([case], CallTotals())
        except StopRequested:
            return  # what is not settled is left for a later session

    async def _ask(self, batch: Batch, spent: CallTotals) -> Sequence[Outcome]:
        """Ask, and book what was spent in vain when the run ends before there is an answer."""
        try:
            self._stop.check()
            mode: PromptMode = "batch" if len(batch) > 1 else "single"
            return await self._caller.ask(batch, mode=mode, spent=spent)
        except (StopRequested, CannotGoOn):
            self._left_off(spent)
            raise

    async def _settle(self, batch: Batch, spent: CallTotals, *, again: bool = False) -> None:
        try:
            responses = await self._ask(batch, spent)
        except MalformedReply as error:
            lose(spent, error)
            if len(batch) > 1:
                spent.n_splits += 1
                middle = (len(batch) + 1) // 2
                await self._settle(batch[:middle], spent)
                await self._settle(batch[middle:], CallTotals())
            elif again or isinstance(error, FINAL):
                self.fail(batch, error, spent=spent)
            else:
                await self._settle(batch, spent, again=True)
        except BackendError as error:
            lose(spent, error)
            self.fail(batch, error, spent=spent)
        else:
            self.answer(batch, responses, spent=spent)

    def answer(self, batch: Batch, outcomes: Sequence[Outcome], *, spent: CallTotals) -> None:
        """Hand the rows of an answered batch on; cases whose second call failed are failed rows."""
        mode: PromptMode = "batch" if len(batch) > 1 else "single"
        prompt: str | None = None
        rows = []
        for case, outcome in zip(batch, outcomes, strict=True):
            if isinstance(outcome, BackendError):
                rows.append(failed_row(case, outcome, self._review.error(outcome)))
                continue
            if outcome.unusable_confidence:
                self._stop.request(UnusableConfidence(self._review.confidence_fault(case, outcome)))
            response = self._review.response(case, outcome)
            if prompt is None:
                prompt = self._prompts.shared(response.prompt, batch, mode)
            if response.prompt is not prompt and response.prompt != prompt:
                own = self._prompts.shared(response.prompt, [case], mode)
                rows.append(self._review.row(case, response, prompt=own))
            else:
                rows.append(self._review.row(case, response, prompt=prompt))
        self._finished(batch, rows, spent)

    def fail(self, batch: Batch, error: BackendError, *, spent: CallTotals) -> None:
        """Hand the rows of a batch on that failed for good."""
        text = self._review.error(error)
        self._finished(batch, [failed_row(case, error, text) for case in batch], spent)


class StoragePolicy:
    """Reads answers by the task, lets the suite check signals, and takes out text not to store."""

    def __init__(self, suite: BaseDataSuite) -> None:
        self._suite = suite
        self._answers = suite.task.answer_set
        self._is_needed = not suite.stores_text or type(suite).review is not BaseDataSuite.review

    def response(self, case: Case, response: BackendResponse) -> BackendResponse:
        """Return a response as it may be kept."""
        if not self._is_needed:
            return response
        stores_text = self._suite.stores_text
        signals = dict(self._suite.review(case.record, response.signals))
        if not stores_text:
            signals.pop(RATIONALE, None)  # it may quote the text that it is about
        raw = response.raw_response if stores_text else ""
        return replace(response, signals=signals, raw_response=raw)

    def error(self, error: BackendError) -> str:
        """Return the text of a failure; where no text may be stored, it may quote the model."""
        return str(error) if self._suite.stores_text else _WITHHELD

    def confidence_fault(self, case: Case, response: BackendResponse) -> str:
        """Say what is wrong with a confidence, and what to return instead."""
        given = response.unusable_confidence if self._suite.stores_text else _WITHHELD
        return (
            f"the backend gave the confidence {given} for the record {case.record.record_id!r}; "
            "return a number between 0 and 1, or None where there is none"
        )

    def row(self, case: Case, response: BackendResponse, *, prompt: str) -> EvaluationResult:
        """Return the row of a response: an answer, an abstention, or a reply that is neither."""
        row = response_row(case, response, answers=self._answers, prompt=prompt)
        if row.error is not None and not self._suite.stores_text:
            row.prediction, row.error = None, _WITHHELD
        return row


_WITHHELD = "(text not stored: restricted data)"


def response_row(
    case: Case, response: BackendResponse, *, answers: AnswerSet, prompt: str = ""
) -> EvaluationResult:
    """Return the row of a response; a prediction that the task does not allow is no answer."""
    record, given = case.record, response.prediction
    prediction, error, failure_class = given, None, ""
    if response.abstained:
        prediction = given if answers.match(given) is None else answers.match(given)
    elif given is None:
        error = "the backend returned no prediction and did not abstain"
        failure_class = NO_PREDICTION
    elif answers.allowed:
        prediction = answers.match(given)
        if prediction is None:
            prediction = kept_value(given)
            error = f"{prediction!r} is not one of the allowed answers ({answers.listed()})"
            failure_class = NOT_ALLOWED
    return EvaluationResult(
        prediction=prediction,
        ground_truth=record.label,
        abstained=response.abstained,
        confidence=response.confidence,
        raw_response=response.raw_response,
        prompt=prompt,
        prompt_mode=response.prompt_mode,
        metadata=_metadata(case),
        input_tokens=response.input_tokens,
        output_tokens=response.output_tokens,
        total_tokens=response.total_tokens,
        record_id=record.record_id,
        cluster_id=record.cluster_id,
        signals=response.signals,
        error=error,
        failure_class=failure_class,
        model=intern(response.model),
        finish_reason=intern(response.finish_reason),
        latency_seconds=response.latency_seconds,
    )


def failed_row(case: Case, error: BackendError, text: str) -> EvaluationResult:
    """Return the row of a call that gave no answer; ``text`` is what may be stored of why."""
    record = case.record
    return EvaluationResult(
        prediction=None,
        ground_truth=record.label,
        metadata=_metadata(case),
        record_id=record.record_id,
        cluster_id=record.cluster_id,
        error=text,
        failure_class=error.failure_class,
        model=intern(error.model),
        finish_reason=intern(error.finish_reason),
        latency_seconds=error.latency_seconds,
    )


def _metadata(case: Case) -> JsonMapping:
    metadata = case.record.metadata
    if case.sample_index:
        metadata = {**metadata, "sample_index": case.sample_index}
    return metadata

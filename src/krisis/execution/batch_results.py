"""What becomes of each request of a provider batch: rows, or a request that is asked again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from krisis.backends.batch_api import BatchApi
from krisis.backends.chat import ChatRequest
from krisis.backends.dialects import Dialect
from krisis.errors import (
    AuthenticationFailed,
    BackendError,
    ContentFiltered,
    MalformedReply,
    OutOfCredit,
    TruncatedReply,
)
from krisis.execution.batches import Batch, Case, request_about
from krisis.execution.callers import ChatCaller
from krisis.execution.engine import Engine
from krisis.execution.pacing.budget import Budget, Tokens
from krisis.execution.pacing.gate import Usage
from krisis.execution.second_calls import lose
from krisis.execution.stopping import Stop
from krisis.json_values import JsonMapping
from krisis.metrics.base import EvaluationResult
from krisis.results.call_totals import CallTotals
from krisis.results.stops import AccountRefused
from krisis.runs.provider_batches import BatchRequest, ProviderBatch, unsettled

# How many provider batches may end without an answer to a request before it fails.
MOST_ROUNDS = 3


@dataclass(slots=True)
class Outcome:
    """What a provider batch leaves: requests to be asked again, and what they took in vain."""

    again: list[BatchRequest] = field(default_factory=list)
    lost: CallTotals = field(default_factory=CallTotals)


@dataclass(slots=True)
class Settling:
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

"""The ledger of a session: every finished row on disk, in memory, in the tally and on display."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from krisis.execution.batches import Batch
from krisis.execution.options import Execution
from krisis.execution.pacing.gate import Gate
from krisis.execution.progress import Tally
from krisis.execution.recorder import PriorSessions
from krisis.execution.stop_when import Watch
from krisis.execution.stopping import FailureLimit, Stop
from krisis.metrics.base import EvaluationResult
from krisis.results.call_totals import CallTotals
from krisis.results.stops import StopCause


class Ledger:
    """Takes finished rows in: on disk first, then in memory, the tally and the display."""

    def __init__(
        self,
        execution: Execution,
        earlier: PriorSessions,
        *,
        gate: Gate,
        stop: Stop,
        n_cases: int,
        watch: Watch | None = None,
    ) -> None:
        self._recorder = execution.recorder
        self._display = execution.progress
        self._gate = gate
        self._failures = FailureLimit(execution.limits.max_failures, n_cases=n_cases, stop=stop)
        self._watch, self._stop = watch, stop
        self.rows = dict(earlier.rows)
        self.spent = earlier.totals
        self.tally = Tally(n_cases=n_cases)
        self._count(list(self.rows.values()))
        most, batch = self.spent.most_tokens, self.spent.batch_tokens
        gate.budget.start_from(*most, self.rows.values(), batch)
        self._look()

    def begin(self) -> None:
        """Open the display."""
        self._display.begin(self._present_tally())

    def finished(self, batch: Batch, rows: Sequence[EvaluationResult], spent: CallTotals) -> None:
        """Keep the rows of a settled batch."""
        if self._recorder is not None:
            self._recorder.append([case.row_place for case in batch], rows, spent)
        for case, row in zip(batch, rows, strict=True):
            self.rows[case.position] = row
        self.spent.add(spent)
        self._count(rows)
        self._failures.observe(rows)
        self._look()
        self._display.advance(self._present_tally())

    def _look(self) -> None:
        if self._watch is not None:
            self._watch.look(self.rows, self._stop)

    def show_waiting(self, words: str) -> None:
        """Show how far provider batches are."""
        self.tally.waiting = words
        self._display.advance(self._present_tally())

    def book_unfinished(self, spent: CallTotals) -> None:
        """Keep what was spent on cases that are left for a later session."""
        if spent.to_dict():
            if self._recorder is not None:
                self._recorder.note_totals(spent)
            self.spent.add(spent)

    def end(self, cause: StopCause | None) -> None:
        """Close the display and note an early end."""
        self._display.end(self._present_tally())
        if cause is not None and self._recorder is not None:
            self._recorder.note_stop(cause)

    def in_order(self, start: int = 0, below: float = math.inf) -> list[EvaluationResult]:
        """Return the rows of these positions in the order of the records."""
        return [self.rows[position] for position in sorted(self.rows) if start <= position < below]

    def _count(self, rows: Sequence[EvaluationResult]) -> None:
        for outcome, n in Counter(row.outcome for row in rows).items():
            name = f"n_{outcome}"
            setattr(self.tally, name, getattr(self.tally, name) + n)

    def _present_tally(self) -> Tally:
        tally, most = self.tally, self.spent.most_tokens
        tally.n_retries = self.spent.n_retries
        tally.n_tokens = sum(most)
        tally.cost = self._gate.budget.cost(*most, self.spent.batch_tokens)
        tally.is_at_most = most != self.spent.paid_tokens
        tally.limit = self._gate.concurrency.limit
        return tally

"""The books of a run: rows, spending and tally, kept in step with the journal and the display."""

from __future__ import annotations

from collections.abc import Sequence

from krisis.execution.batches import Batch
from krisis.execution.gate import Gate
from krisis.execution.options import Execution
from krisis.execution.progress import Tally
from krisis.execution.recorder import Earlier
from krisis.execution.stopping import FailureLimit, Stop
from krisis.execution.telemetry import Spent
from krisis.metrics.base import EvaluationResult


class Books:
    """Takes finished rows in; on disk first, then everywhere else."""

    def __init__(
        self, execution: Execution, earlier: Earlier, *, gate: Gate, stop: Stop, n_cases: int
    ) -> None:
        self._recorder = execution.recorder
        self._display = execution.progress
        self._gate = gate
        self._failures = FailureLimit(execution.limits.max_failures, n_cases=n_cases, stop=stop)
        self.rows = dict(earlier.rows)
        self.spent = earlier.spent
        self.tally = Tally(n_cases=n_cases)
        self._count(list(self.rows.values()))
        gate.budget.start_from(*self.spent.paid_tokens)

    def begin(self) -> None:
        """Open the display."""
        self._display.begin(self._present_tally())

    def finished(self, batch: Batch, rows: Sequence[EvaluationResult], spent: Spent) -> None:
        """Keep the rows of a settled batch."""
        if self._recorder is not None:
            self._recorder.append(batch, rows, spent)
        for case, row in zip(batch, rows, strict=True):
            self.rows[case.position] = row
        self.spent.add(spent)
        self._count(rows)
        self._failures.observe(rows)
        self._display.advance(self._present_tally())

    def left_off(self, spent: Spent) -> None:
        """Keep what was spent on cases that are left for a later session."""
        if spent.to_dict():
            if self._recorder is not None:
                self._recorder.note_spent(spent)
            self.spent.add(spent)

    def end(self, reason: str | None) -> None:
        """Close the display and note an early end."""
        self._display.end(self._present_tally())
        if reason is not None and self._recorder is not None:
            self._recorder.note_stop(reason)

    def in_order(self) -> list[EvaluationResult]:
        """Return the rows in the order of the records."""
        return [self.rows[position] for position in sorted(self.rows)]

    def _count(self, rows: Sequence[EvaluationResult]) -> None:
        tally = self.tally
        for row in rows:
            if row.error is not None:
                tally.n_failed += 1
            elif row.abstained:
                tally.n_abstained += 1
            else:
                tally.n_answered += 1

    def _present_tally(self) -> Tally:
        tally, paid = self.tally, self.spent.paid_tokens
        tally.n_retries = self.spent.n_retries
        tally.n_tokens = sum(paid)
        tally.cost = self._gate.budget.cost(*paid)
        tally.limit = self._gate.concurrency.limit
        return tally

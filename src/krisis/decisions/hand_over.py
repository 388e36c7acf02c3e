"""The one list of cases that are left for people: the verdict, the pages and the CSV count it.

Left are the cases on which the model abstained or gave no answer, and those that it answered
below the threshold in force (`threshold_in_force`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from krisis.csv_lines import csv_line, guarded
from krisis.decisions.certify import Certificate
from krisis.decisions.threshold_in_force import RiskBound, ThresholdInForce, threshold_of_run
from krisis.results.base import BenchmarkResult, one_kind
from krisis.results.run_items import items_of_result, source_of

ABSTAINED, NO_ANSWER, BELOW = "abstained", "no answer", "below the threshold"
COLUMNS = ("record_id", "patient", "why", "answer", "confidence", "threshold")


@dataclass(frozen=True, slots=True)
class LeftCase:
    """A case for people: what the model said, if anything, and why that does not count."""

    record_id: str
    patient: str
    why: str
    answer: str
    confidence: float | None


@dataclass(frozen=True, slots=True)
class HandOver:
    """The cases left for people, of all that the model replied to."""

    cases: Sequence[LeftCase]
    n_cases: int
    in_force: ThresholdInForce

    def csv_lines(self) -> Iterator[str]:
        """Yield the list as CSV, with ids: whoever takes over must find the patient again."""
        yield csv_line(COLUMNS)
        threshold = self.in_force.threshold
        for one in self.cases:
            cells = (one.record_id, one.patient, one.why, one.answer, one.confidence, threshold)
            yield csv_line(guarded(cells))


def hand_over(
    result: BenchmarkResult,
    *,
    bound: RiskBound | None = None,
    certificate: Certificate | None = None,
) -> HandOver:
    """Return the cases of a run that are left for people, at the threshold in force.

    That is the threshold of the certificate, if one is given, else the one that the verdict finds.
    Of repeated askings the modal answer counts. Real and synthetic patients are never mixed: of a
    run with both, the list is of those that the verdict is about.
    """
    judged, _ = one_kind(result)
    run = items_of_result(judged, source_of(judged))
    in_force = threshold_of_run(run, bound, certificate=certificate)
    table = run.table
    left = []
    for place in np.flatnonzero(~in_force.answered).tolist():
        row = table.rows[place]
        why = BELOW
        if not table.answered[place]:
            why = ABSTAINED if table.abstained[place] else NO_ANSWER
        answer = "" if row.prediction is None else table.answers.name(row.prediction)
        left.append(LeftCase(row.record_id, row.cluster_id, why, answer, row.confidence))
    return HandOver(left, table.n_scored, in_force)

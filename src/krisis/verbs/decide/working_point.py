"""A threshold for a question: at most so many wrong, or answer at least so many, and its price."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

import numpy as np

from krisis.confidence.variants import VARIANTS, scores_of
from krisis.decisions.run_sample import (
    LARGEST_NUMBER_OF_GROUPS,
    ScoreOptions,
    drawing_seed,
    most_rows,
    saved_by_answering,
)
from krisis.decisions.sample import Sample
from krisis.json_values import JsonMapping
from krisis.metrics.forms import Share
from krisis.metrics.items import RunItems
from krisis.metrics.risk_band import BandPoint, risk_band
from krisis.metrics.table import BoolArray, FloatArray, Table
from krisis.statistics.bootstrap import BootstrapOptions
from krisis.statistics.group_gaps import SMALLEST_GROUP
from krisis.statistics.intervals import Interval

Kind = Literal["wrong", "answer"]
Verdict = Literal["met", "exceeded", "missed", "not shown by these data", "too few to say"]


@dataclass(frozen=True, slots=True)
class ThresholdQuestion:
    """At most a share wrong of the answers kept, or at least a share of all rows answered."""

    kind: Kind
    share: float

    def verdict(self, interval: Interval) -> Verdict:
        """Say what an interval, of the risk or of the coverage, says to the question."""
        if not interval.defined:
            return "too few to say"
        if self.kind == "wrong":
            if interval.high <= self.share:
                return "met"
            return "exceeded" if interval.low > self.share else "not shown by these data"
        if interval.low >= self.share:
            return "met"
        return "missed" if interval.high < self.share else "not shown by these data"


@dataclass(frozen=True, slots=True, kw_only=True)
class ThresholdEffect:
    """What a threshold does to some rows; intervals are of 95 %, by patient.

    ``n_rows`` were evaluated; ``n_unanswered`` of them have no answer. An answer below the
    threshold, or without a score, is deferred. ``too_few`` says that the answers kept are
    of fewer than 20 patients.
    """

    n_patients: int
    n_rows: int
    n_unanswered: int
    n_kept: int
    n_wrong: int
    n_deferred: int
    n_wrong_deferred: int
    n_patients_kept: int
    risk: float
    risk_interval: Interval
    coverage: float
    coverage_interval: Interval

    @property
    def too_few(self) -> bool:
        """Tell whether the risk would say more about single patients than about the model."""
        return self.n_patients_kept < SMALLEST_GROUP

    def verdict(self, question: ThresholdQuestion) -> Verdict:
        """Say what these rows say to a question."""
        wrong = question.kind == "wrong"
        return question.verdict(self.risk_interval if wrong else self.coverage_interval)


@dataclass(frozen=True, eq=False)
class ScoredRun:
    """The scored rows of a run from which a threshold is chosen; a wrong answer is a loss of 1.

    ``score`` is that of the rows of the table; ``sample`` holds them in the order in which they
    are certified.
    """

    table: Table
    score: FloatArray
    sample: Sample

    @classmethod
    def of(cls, run: RunItems, options: ScoreOptions) -> ScoredRun:
        """Take the rows of a run, which need not be sorted by patient."""
        table, variant = run.table, options.variant(run)
        if variant == "stated" == run.default_confidence:
            score = np.where(table.answered, table.confidence, math.nan)
        else:
            score = scores_of(run, variant, calibrator=options.calibrator)
        counts = np.bincount(table.patients.code, minlength=table.patients.n)
        sample = Sample(
            score=score,
            loss=table.losses("error"),
            patient=table.patients.code,
            n_patients=table.patients.n,
            most_rows=most_rows(run, int(counts.max(initial=1)), options.rows_per_patient),
            seed=drawing_seed(run),
            saved=saved_by_answering(table),
        )
        return cls(table, score, sample)

    @cached_property
    def wrong(self) -> BoolArray:
        """True where the model answered, and wrongly."""
        return self.table.answered & ~self.table.correct

    @property
    def cmax(self) -> float:
        """Return the largest share of the rows that a threshold can answer."""
        return self.sample.n_scored / max(1, self.sample.n_rows)

    def choose(self, question: ThresholdQuestion) -> float | None:
        """Return the laxest threshold with that risk, the strictest with that coverage, or None.

        It is chosen on the rows it is then seen on, so it looks better than it is.
        """
        curve = self.sample.candidates
        if question.kind == "wrong":
            fits = curve.loss_sum / curve.n_accepted <= question.share
        else:
            fits = curve.n_accepted / max(1, self.sample.n_rows) >= question.share
        found = np.flatnonzero(fits)
        if not found.size:
            return None
        return float(curve.threshold[found[0] if question.kind == "answer" else found[-1]])

    def below(self, threshold: float) -> float:
        """Return the next score below a threshold; minus infinity where there is none."""
        ordered = self.sample.candidates.threshold
        after = int(np.searchsorted(-ordered, -threshold, side="right"))
        return float(ordered[after]) if after < ordered.size else -math.inf

    def _interval(self, share: Share) -> Interval:
        return share.uncertainty(self.table, BootstrapOptions()).interval

    def part(
        self, answered: BoolArray, rows: BoolArray | None = None, *, kind: Kind = "answer"
    ) -> ThresholdEffect:
        """Count what answering only some rows does to part of the table, or to all of it.

        Where only what is wrong is asked for, the interval of the coverage is left out.
        """
        table = self.table
        inside = table.everyone if rows is None else rows
        kept = answered & inside
        own = table.answered & inside
        risk, coverage = Share(self.wrong, among=kept), Share(kept, among=inside)
        covered = Interval.undefined("not_asked")
        n_deferred = int(np.count_nonzero(own)) - risk.n_evaluated
        n_wrong = int(np.count_nonzero(self.wrong & inside))
        return ThresholdEffect(
            n_patients=_n_patients(table, inside),
            n_rows=coverage.n_evaluated,
            n_unanswered=coverage.n_evaluated - int(np.count_nonzero(own)),
            n_kept=risk.n_evaluated,
            n_wrong=risk.n_hits,
            n_deferred=n_deferred,
            n_wrong_deferred=n_wrong - risk.n_hits,
            n_patients_kept=_n_patients(table, kept),
            risk=risk.value(),
            risk_interval=self._interval(risk),
            coverage=coverage.value(),
            coverage_interval=self._interval(coverage) if kind == "answer" else covered,
        )

    def groups(self) -> dict[str, dict[str, BoolArray]]:
        """Return the rows of every group of the task, of columns that divide the rows."""
        found: dict[str, dict[str, BoolArray]] = {}
        for column in self.table.answers.groups:
            names, codes = self.table.grouped(column)
            if 1 < len(names) <= LARGEST_NUMBER_OF_GROUPS:
                found[column] = {name: codes == code for code, name in enumerate(names)}
        return found

    @cached_property
    def band(self) -> list[BandPoint]:
        """Return the interval of the risk at thresholds along the curve."""
        return risk_band(self.table, score=self.score, options=BootstrapOptions())


def variants_among(rows: Iterable[JsonMapping]) -> list[str]:
    """Name the confidence variants, beside the stated one, whose signals any of some rows has."""
    seen = {name for signals in rows for name, value in signals.items() if value is not None}
    return [
        name
        for name, variant in VARIANTS.items()
        if name != "total_evidence" and seen.issuperset(variant.signals)
    ]


def _n_patients(table: Table, rows: BoolArray) -> int:
    seen = np.zeros(table.patients.n, dtype=np.bool_)
    seen[table.patients.code[rows]] = True
    return int(np.count_nonzero(seen))

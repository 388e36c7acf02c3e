"""Studies of a planned size: patients drawn from assumptions or a pilot, judged as a run would be.

`AssumedPatients` draws from rates, rows per patient and their correlation; `Pilot` draws the
patients of saved runs with replacement. Either way the interval, the paired test or the
certificate is that of the verb itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import ClassVar

import numpy as np

from krisis.decisions.patients import Patients, intraclass_correlation
from krisis.decisions.sample import Sample, find_threshold
from krisis.errors import InvalidValue
from krisis.metrics.accuracy import Accuracy
from krisis.metrics.base import BaseMetric, EvaluationResult
from krisis.metrics.forms import Form, Share
from krisis.metrics.paired import Exchanges, paired_differences
from krisis.metrics.table import Answers, BoolArray, FloatArray, IntArray, Table, Units
from krisis.results.matching import match_runs, refuse_other_data
from krisis.results.result import BenchmarkResult
from krisis.statistics.bootstrap import BootstrapOptions
from krisis.statistics.shares import share_interval

# A comparison draws 1,999 exchanges. A simulated one draws fewer: the power is the same within
# half a point, and it takes a fifth of the time.
N_EXCHANGES = 399


@dataclass(frozen=True, slots=True)
class AssumedPatients:
    """Studies whose patients follow the assumptions of a plan.

    ``shares`` are those of right and wrong rows, or of rows that only the second run, only the
    first run, or both have right.
    """

    patients: Patients
    shares: tuple[float, ...]
    source: ClassVar[str] = "assumptions"

    def half_width(self, n_patients: int, level: float, generator: np.random.Generator) -> float:
        """Return half the width of the interval of one study."""
        wrong, patient = self.patients.drawn(self.shares, n_patients, generator)
        hits, rows = np.bincount(patient[wrong == 0], minlength=n_patients), np.bincount(patient)
        interval = share_interval(hits, rows, level=level)
        return (interval.high - interval.low) / 2

    def tables(self, n_patients: int, generator: np.random.Generator) -> list[Table]:
        """Return the two runs of one study."""
        kind, patient = self.patients.drawn(self.shares, n_patients, generator)
        return [_invented(kind != only_other, patient) for only_other in (0, 1)]

    @property
    def metric(self) -> BaseMetric:
        """Any share is planned as accuracy is."""
        return Accuracy()

    def sample(self, n_patients: int, generator: np.random.Generator) -> Sample:
        """Return the rows of one study for a certificate; the scores say nothing."""
        wrong, patient = self.patients.drawn(self.shares, n_patients, generator)
        return Sample(
            generator.random(patient.size),
            wrong.astype(np.float64),
            patient,
            n_patients,
            most_rows=self.patients.most_rows,
            seed=int(generator.integers(2**31)),
        )


def _invented(right: BoolArray, patient: IntArray) -> Table:
    rows = [
        EvaluationResult(int(hit), 1, confidence=0.8, record_id=str(number), cluster_id=str(who))
        for number, (hit, who) in enumerate(zip(right.tolist(), patient.tolist(), strict=True))
    ]
    return Table(rows, Answers((0, 1), positive=1))


@dataclass(frozen=True, eq=False)
class Pilot:
    """One saved run, or two on the same cases, and the metric that is planned for.

    ``right`` is the run that is hoped to be better, or not worse, than ``left``.
    """

    left: BenchmarkResult
    metric: BaseMetric
    right: BenchmarkResult | None = None
    source: ClassVar[str] = "pilot"
    _tables: list[Table] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        runs = {"the first pilot": self.left}
        if self.right is not None:
            runs["the second pilot"] = self.right
        for name, run in runs.items():
            if not run.evaluation_results:
                raise InvalidValue(f"{name} has no rows; name a run or a full result")
        if self.right is None:
            self._tables.append(self.left.rows.table)
        else:
            refuse_other_data(runs)
            self._tables.extend(rows.table for rows in match_runs(runs).rows.values())
        if self._tables[0].n_scored == 0:
            raise InvalidValue("no row of the pilot was evaluated; resume it first")
        if self.n_patients < 2:
            raise InvalidValue("the pilot has one patient; a plan needs at least two")

    @property
    def n_patients(self) -> int:
        """Patients with a scored row, in every run."""
        return self._tables[0].patients.n

    @cached_property
    def _forms(self) -> list[Form]:
        found = []
        for table in self._tables:
            form = self.metric.comparison_form(table)
            if not isinstance(form, Form):
                raise InvalidValue(f"{self.metric.key} is undefined in the pilot: {form.reason}")
            found.append(form)
        return found

    @property
    def is_share(self) -> bool:
        """Tell whether the metric is a share of rows, the same rows in both runs."""
        shares = [form for form in self._forms if type(form) is Share]
        same = all(np.array_equal(form.among, shares[0].among) for form in shares[1:])
        return len(shares) == len(self._forms) and same

    @cached_property
    def values(self) -> tuple[FloatArray, IntArray]:
        """Of every row that counts: its hit, or by how much right is better; and its patient."""
        shares = [form for form in self._forms if isinstance(form, Share)]
        value = shares[-1].hits.astype(np.float64)
        if len(shares) == 2:
            value = self._sign * (value - shares[0].hits)
        return value[shares[0].among], self._tables[0].patients.code[shares[0].among]

    @property
    def _sign(self) -> float:
        return -1.0 if self.metric.direction == "lower" else 1.0

    @property
    def patients(self) -> Patients:
        """The rows per patient that count, and how alike they are."""
        value, code = self.values
        sizes = np.bincount(code)
        sizes = sizes[sizes > 0]
        icc = intraclass_correlation(value, code) if sizes.max() > 1 else 0.0
        return Patients(float(sizes.mean()), icc, tuple(sizes.tolist()))

    @property
    def _n_asked(self) -> int:
        rows = self.left.evaluation_results
        return len({row.cluster_id or number for number, row in enumerate(rows)})

    @cached_property
    def _counted_share(self) -> float:
        """The share of the patients asked who bring a row that counts."""
        counted = np.unique(self.values[1]).size if self.is_share else self.n_patients
        return counted / self._n_asked

    def n_asked(self, n_counted: int) -> int:
        """Return how many patients to ask so that so many bring a row that counts."""
        return math.ceil(n_counted / self._counted_share - 1e-9)

    def n_counted(self, n_asked: int) -> int:
        """Return how many of the patients asked will bring a row that counts."""
        return max(1, math.floor(n_asked * self._counted_share + 1e-9))

    def n_rows(self, n_asked: int) -> int:
        """Return the rows to ask of so many patients, those without a reply included."""
        return math.ceil(n_asked * len(self.left.evaluation_results) / self._n_asked - 1e-6)

    def tables(self, n_asked: int, generator: np.random.Generator) -> list[Table]:
        """Draw patients with replacement, with all their rows, the same ones in both runs."""
        n_patients = max(2, round(n_asked * self.n_patients / self._n_asked))
        rows, patient = _drawn_rows(self._tables[0].patients, n_patients, generator)
        return [_redrawn(table, rows, patient) for table in self._tables]

    def half_width(self, n_patients: int, level: float, generator: np.random.Generator) -> float:
        """Return half the width of the metric's interval in one study; infinite without one."""
        table = self.tables(n_patients, generator)[-1]
        form = self.metric.form(table)
        options = BootstrapOptions(n_resamples=500, level=level)
        found = form.uncertainty(table, options).interval if isinstance(form, Form) else None
        return (found.high - found.low) / 2 if found is not None and found.defined else math.inf

    def sample(self, n_patients: int, generator: np.random.Generator) -> Sample:
        """Return the rows of one study for a certificate, with their confidence as the score."""
        table = self.tables(n_patients, generator)[-1]
        return Sample(
            np.where(table.answered, table.confidence, math.nan),
            (table.answered & ~table.correct).astype(np.float64),
            table.patients.code,
            table.patients.n,
            most_rows=int(np.bincount(self._tables[-1].patients.code).max()),
            seed=int(generator.integers(2**31)),
        )


Studies = AssumedPatients | Pilot
Judge = Callable[[int, np.random.Generator], float]


def narrow(studies: Studies, level: float) -> Judge:
    """Return what draws one study of n patients and measures half the width of its interval."""
    return lambda n, generator: studies.half_width(n, level, generator)


def found_better(studies: Studies, margin: float, alpha: float) -> Judge:
    """Return what draws one study and compares: 1 where the second run is better.

    With a margin: 1 where the interval excludes that it is so much worse.
    """
    metric = studies.metric
    sign = -1.0 if metric.direction == "lower" else 1.0

    def judged(n_patients: int, generator: np.random.Generator) -> float:
        left, right = studies.tables(n_patients, generator)
        exchanges = Exchanges(N_EXCHANGES, int(generator.integers(2**31)), 1 - alpha)
        forms = {metric.identifier: metric.comparison_form}
        found, _ = paired_differences(left, right, forms, exchanges=exchanges)
        one = found.get(metric.identifier)
        if one is None:
            return 0.0
        if margin:
            return float((one.interval.low if sign > 0 else -one.interval.high) > -margin)
        return float(one.p_value <= alpha + 1e-12 and sign * one.delta > 0)

    return judged


def certified(studies: Studies, risk: float, delta: float) -> Judge:
    """Return what draws one study and certifies: 1 where there is a threshold."""

    def judged(n_patients: int, generator: np.random.Generator) -> float:
        sample = studies.sample(n_patients, generator)
        return float(find_threshold(sample, "fixed-sequence", risk, delta).threshold is not None)

    return judged


def _drawn_rows(
    units: Units, n_patients: int, generator: np.random.Generator
) -> tuple[IntArray, IntArray]:
    """Return the rows of patients drawn with replacement, and the draw that each belongs to."""
    rows_of = np.split(np.argsort(units.code, kind="stable"), np.cumsum(np.bincount(units.code)))
    chosen = [rows_of[who] for who in generator.integers(0, units.n, n_patients).tolist()]
    return np.concatenate(chosen), np.repeat(np.arange(n_patients), [len(rows) for rows in chosen])


def _redrawn(table: Table, places: IntArray, patient: IntArray) -> Table:
    """Return drawn rows under new names, so that a patient drawn twice counts as two."""
    repeated = table.repeats_cases
    rows: list[EvaluationResult] = []
    for number, (place, who) in enumerate(zip(places.tolist(), patient.tolist(), strict=True)):
        row = table.rows[place]
        name = f"{row.record_id}/{who}" if repeated else str(number)
        rows.append(replace(row, record_id=name, cluster_id=f"p{who}"))
    return Table(rows, table.answers)

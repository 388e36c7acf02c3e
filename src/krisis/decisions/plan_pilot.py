"""What a pilot run says about a study to come, and that study played with its patients."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from krisis.decisions.plan_patients import MOST_ROWS_OF_A_PATIENT, FloatArray, IntArray, Patients
from krisis.decisions.sample import Sample, find_threshold
from krisis.errors import InvalidValue
from krisis.json_values import JsonObject
from krisis.metrics import default_benchmark_metrics
from krisis.metrics.base import BaseMetric, EvaluationResult, Rows
from krisis.metrics.forms import Form, Share
from krisis.metrics.paired import (
    Exchanges,
    PairedDifference,
    TableForm,
    paired_differences,
)
from krisis.metrics.table import Table, Units
from krisis.results.comparison.matching import match_runs, refuse_other_data
from krisis.results.result import BenchmarkResult
from krisis.statistics.bootstrap import BootstrapOptions

N_EXCHANGES = 399
N_RESAMPLES = 400
N_FAMILIES = 100
_FAMILY_ROWS = 40_000
_HIGHEST_ICC = 0.99


@dataclass(frozen=True, slots=True, eq=False)
class Pilot:
    """One run, or two on the same cases, and the metric that is planned for.

    ``right`` is the run that is hoped to be better, or not worse, than ``left``.
    """

    left: BenchmarkResult
    metric: BaseMetric
    right: BenchmarkResult | None = None
    _tables: list[Table] = field(default_factory=list, init=False)

    def __post_init__(self) -> None:
        runs = {"the first pilot": self.left}
        if self.right is not None:
            runs["the second pilot"] = self.right
        for name, run in runs.items():
            if not run.evaluation_results:
                raise InvalidValue(f"{name} has no rows; name a run directory or a full result")
        if self.right is None:
            self._tables.append(self.left.rows.table)
        else:
            refuse_other_data(runs)
            self._tables.extend(rows.table for rows in match_runs(runs).rows.values())
        if self.table.n_scored == 0:
            raise InvalidValue("no row of the pilot was evaluated; resume it first")
        if self.table.patients.n < 2:
            raise InvalidValue("the pilot has one patient; a plan needs at least two to resample")

    @property
    def table(self) -> Table:
        """The scored rows of the first run."""
        return self._tables[0]

    def _forms(self) -> list[Form]:
        found = [self.metric.comparison_form(table) for table in self._tables]
        for form in found:
            if not isinstance(form, Form):
                raise InvalidValue(f"{self.metric.key} is undefined in the pilot: {form.reason}")
        return [form for form in found if isinstance(form, Form)]

    @property
    def is_share(self) -> bool:
        """Tell whether the metric is a share, of the same rows in both runs."""
        forms = self._forms()
        shares = [form for form in forms if isinstance(form, Share)]
        same = all(np.array_equal(form.among, shares[0].among) for form in shares[1:])
        return len(shares) == len(forms) and same

    @property
    def sign(self) -> float:
        """−1 for a metric of which less is better, else 1."""
        return -1.0 if self.metric.direction == "lower" else 1.0

    def values(self) -> tuple[FloatArray, IntArray]:
        """Return, of every row that counts, its hit or by how much right is better; its patient."""
        shares = [form for form in self._forms() if isinstance(form, Share)]
        value = shares[-1].hits.astype(np.float64)
        if len(shares) == 2:
            value -= shares[0].hits
            value *= self.sign
        among = shares[0].among
        return value[among], self.table.patients.code[among]

    def patients(self) -> Patients:
        """Return the rows per patient that count, and how alike they are."""
        value, code = self.values()
        sizes = np.bincount(code)
        sizes = sizes[sizes > 0]
        if sizes.max() > MOST_ROWS_OF_A_PATIENT:
            raise InvalidValue(
                f"a patient of the pilot has {sizes.max()} rows; plans go up to "
                f"{MOST_ROWS_OF_A_PATIENT} rows per patient"
            )
        return Patients(
            float(sizes.mean()),
            correlation(value, code) if sizes.max() > 1 else 0.0,
            tuple(sizes.tolist()),
        )

    def share(self) -> float:
        """Return the metric, which is a share, as the pilot has it."""
        value = float(self.values()[0].mean())
        if not 0 < value < 1:
            raise InvalidValue(
                f"{self.metric.key} is {value:g} in the pilot, which says nothing of how often it "
                "misses; give --expected"
            )
        return value

    def paired(self) -> tuple[float, float]:
        """Return how much better the second run is, and the share of rows on which they differ."""
        value = self.values()[0]
        discordance = float(np.abs(value).mean())
        if discordance == 0:
            raise InvalidValue("the two pilots agree on every row; give --discordance")
        return float(value.mean()), discordance

    @property
    def _n_asked(self) -> int:
        rows = self.left.evaluation_results
        return len({row.cluster_id or i for i, row in enumerate(rows)})

    @property
    def counted_patients(self) -> float:
        """The share of the patients asked who bring a row that counts."""
        return np.unique(self.values()[1]).size / self._n_asked

    @property
    def rows_asked_per_counted(self) -> float:
        """Rows asked, those not evaluated among them, for every row that counts."""
        return len(self.left.evaluation_results) / self.values()[0].size

    def n_scored(self, n_asked: int) -> int:
        """Return how many of the patients asked will have a scored row in every run."""
        return max(2, round(n_asked * self.table.patients.n / self._n_asked))

    @property
    def most_rows(self) -> int:
        """The most scored rows of a patient."""
        return int(np.bincount(self.table.patients.code).max())

    @property
    def rows_per_patient(self) -> float:
        """Rows asked per patient, those not evaluated among them."""
        return len(self.left.evaluation_results) / self._n_asked

    def facts(self) -> JsonObject:
        """Return what became of the rows of every run, and what they took."""
        runs = [run for run in (self.left, self.right) if run is not None]
        return {"n_patients": self.table.patients.n, "runs": [_facts(run) for run in runs]}

    def resampled(self, n_patients: int, generator: np.random.Generator) -> list[Table]:
        """Draw patients with replacement, all their rows kept, the same ones in both runs."""
        units = self.table.patients
        drawn = generator.integers(0, units.n, n_patients)
        positions, patient = _rows_of(units, drawn)
        return [_redrawn(table, positions, patient) for table in self._tables]

    def half_widths(self, n_patients: int, level: float, n: int, seed: int) -> FloatArray:
        """Return half the width of the metric's interval in n studies of drawn patients."""
        generator, found = np.random.default_rng(seed), []
        options = BootstrapOptions(n_resamples=500, seed=seed, level=level)
        for _ in range(n):
            table = self.resampled(n_patients, generator)[0]
            form = self.metric.form(table)
            ends = form.uncertainty(table, options).interval if isinstance(form, Form) else None
            known = ends is not None and ends.defined
            found.append((ends.high - ends.low) / 2 if known and ends else math.inf)
        return np.array(found)

    def power(self, n_patients: int, *, margin: float, alpha: float, n: int, seed: int) -> float:
        """Return how often `krisis compare` says yes in n studies of drawn patients."""
        forms = {self.metric.identifier: self.metric.comparison_form}
        found = self._tested(n_patients, forms, alpha, n, seed)
        return sum(self._ahead(one, one.p_value, margin, alpha) for one in found) / n

    def n_families(self, n_patients: int) -> int:
        """Return how many studies are drawn for all metrics together: fewer of large ones."""
        n_rows = n_patients * self.rows_per_patient
        return int(np.clip(_FAMILY_ROWS / n_rows, N_FAMILIES / 5, N_FAMILIES))

    def family_power(self, n_patients: int, *, alpha: float, seed: int) -> tuple[int, int, int]:
        """Return the metrics adjusted together, and how many studies find the difference.

        The first number of studies is found with the metric as the primary one, the second with
        all metrics of a comparison adjusted together.
        """
        metrics = {one.identifier: one for one in default_benchmark_metrics()}
        metrics = {key: one for key, one in metrics.items() if one.compared_unasked}
        metrics[self.metric.identifier] = self.metric
        forms = {key: one.comparison_form for key, one in metrics.items()}
        found = self._tested(n_patients, forms, alpha, self.n_families(n_patients), seed)
        alone = sum(self._ahead(one, one.p_value, 0.0, alpha) for one in found)
        together = sum(self._ahead(one, one.p_adjusted, 0.0, alpha) for one in found)
        return len(forms), alone, together

    def certified(self, n_patients: int, risk: float, delta: float, *, n: int, seed: int) -> float:
        """Return how often `krisis certify` finds a threshold in n studies of drawn patients."""
        table, generator, n_found = self.table, np.random.default_rng(seed), 0
        score = np.where(table.answered, table.confidence, math.nan)
        loss = (table.answered & ~table.correct).astype(np.float64)
        for draw in range(n):
            drawn = generator.integers(0, table.patients.n, n_patients)
            rows, patient = _rows_of(table.patients, drawn)
            sample = Sample(
                score[rows],
                loss[rows],
                patient,
                n_patients,
                most_rows=self.most_rows,
                seed=seed + draw,
            )
            found = find_threshold(sample, "fixed-sequence", risk, delta)
            n_found += found.threshold is not None
        return n_found / n

    def _tested(
        self, n_patients: int, forms: Mapping[str, TableForm], alpha: float, n: int, seed: int
    ) -> list[PairedDifference]:
        """Return the difference in every one of n studies of drawn patients that has one."""
        generator, label = np.random.default_rng(seed), self.metric.identifier
        differences = []
        for draw in range(n):
            left, right = self.resampled(n_patients, generator)
            exchanges = Exchanges(N_EXCHANGES, seed + draw, 1 - alpha)
            found, _ = paired_differences(left, right, forms, exchanges=exchanges)
            differences += [found[label]] if label in found else []
        return differences

    def _ahead(self, one: PairedDifference, p_value: float, margin: float, alpha: float) -> bool:
        if margin:
            return (one.interval.low if self.sign > 0 else -one.interval.high) > -margin
        return p_value <= alpha + 1e-12 and self.sign * one.delta > 0


def correlation(value: FloatArray, code: IntArray) -> float:
    """Return the correlation of two rows of one patient, by analysis of variance, from 0 up.

    (MSB − MSW)/(MSB + (k₀ − 1)MSW), k₀ = (N − Σt²/N)/(C − 1).

    Reference: Donner, A review of inference procedures for the intraclass correlation coefficient
    in the one-way random effects model, International Statistical Review 54 (1986) 67–82.

    >>> correlation(np.array([1.0, 1.0, 0.0, 0.0]), np.array([0, 0, 1, 1]))
    0.99
    """
    rows = np.bincount(code).astype(np.float64)
    sums = np.bincount(code, weights=value)[rows > 0]
    rows = rows[rows > 0]
    n, c = rows.sum(), rows.size
    if c < 2 or n == c:
        return 0.0
    between = float((rows * (sums / rows - value.mean()) ** 2).sum()) / (c - 1)
    within = float((value**2).sum() - (sums**2 / rows).sum()) / (n - c)
    k0 = (n - float(rows @ rows) / n) / (c - 1)
    spread = between + (k0 - 1) * within
    return float(np.clip((between - within) / spread, 0.0, _HIGHEST_ICC)) if spread > 0 else 0.0


def _rows_of(units: Units, drawn: IntArray) -> tuple[IntArray, IntArray]:
    """Return the rows of the drawn patients and the draw that each belongs to."""
    order = np.argsort(units.code, kind="stable")
    rows = np.bincount(units.code, minlength=units.n)
    start = np.cumsum(rows) - rows
    patient = np.repeat(np.arange(drawn.size), rows[drawn])
    within = np.arange(patient.size) - np.repeat(np.cumsum(rows[drawn]) - rows[drawn], rows[drawn])
    return order[np.repeat(start[drawn], rows[drawn]) + within], patient


def _redrawn(table: Table, positions: IntArray, patient: IntArray) -> Table:
    """Return drawn rows under new names, so that a patient drawn twice counts as two."""
    repeated = table.repeats_cases
    rows: list[EvaluationResult] = []
    for number, (position, who) in enumerate(
        zip(positions.tolist(), patient.tolist(), strict=True)
    ):
        row = table.rows[position]
        name = f"{row.record_id}/{who}" if repeated else str(number)
        rows.append(replace(row, record_id=name, cluster_id=f"p{who}"))
    return Rows(rows, table.answers).table


def _facts(run: BenchmarkResult) -> JsonObject:
    rows, count = run.evaluation_results, run.attrition
    n_calls = run.spending.n_api_calls
    return {
        "model": run.backend_name,
        "n_rows": len(rows),
        "not_evaluated": count.not_evaluated_rate,
        "abstained": count.n_abstained / max(count.n_evaluated, 1),
        "input_tokens_per_row": _per_row(rows, "input_tokens", run.spending.lost_input_tokens),
        "output_tokens_per_row": _per_row(rows, "output_tokens", run.spending.lost_output_tokens),
        "rows_per_call": len(rows) / n_calls if n_calls else run.provenance.batch_size or 1,
        "seconds_per_call": run.spending.latency_seconds.get("p50"),
        "elapsed_seconds": run.spending.elapsed_seconds,
    }


def _per_row(rows: Sequence[EvaluationResult], name: str, lost: int | None) -> float | None:
    """Return tokens per row asked, those of replies that gave no answer included."""
    answered = [row for row in rows if row.error is None]
    known = [getattr(row, name) for row in answered if getattr(row, name) is not None]
    return (sum(known) + (lost or 0)) / len(known) if known else None


def patients_of(pilot: Pilot | None, cluster_size: float | None, icc: float | None) -> Patients:
    """Return the patients to plan with: as given, else as in the pilot, else with one row each."""
    if pilot is None or not pilot.is_share:
        if (cluster_size or 1) > 1 and icc is None:
            raise InvalidValue(
                "rows of one patient resemble each other; say how much with --icc (0 if not at all)"
            )
        return Patients(1.0 if cluster_size is None else cluster_size, icc or 0.0)
    found = pilot.patients()
    if cluster_size is None:
        return found if icc is None else replace(found, icc=icc)
    seen = found.icc if cluster_size > 1 else 0.0
    return Patients(cluster_size, seen if icc is None else icc)

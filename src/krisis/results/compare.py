"""Two or more runs on the same cases: paired differences, tests, and who cannot be told apart."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import chain, combinations
from typing import Any

import numpy as np

from krisis.errors import InvalidValue, UnknownName
from krisis.metrics.base import MetricScores, Rows, score_all
from krisis.metrics.columns import FloatArray, IntArray
from krisis.metrics.intervals import units_of
from krisis.results.changed_rows import ChangedRow, changed_rows
from krisis.results.exchange import Permutations, exchange_test
from krisis.results.matching import MatchedRuns, match_runs, refuse_other_data
from krisis.results.result import BenchmarkResult
from krisis.results.unpaired import unpaired_interval
from krisis.results.weighted_scores import CURVE_METRICS, METRICS, WeightedScores
from krisis.statistics.bootstrap import BootstrapOptions, resample_counts
from krisis.statistics.comparison import holm, mcnemar_exact
from krisis.statistics.intervals import Interval, ReplicateMethod, Replicates

# The smallest p-value is one in so many, and Holm multiplies it by the number of tests.
_PERMUTATIONS_PER_TEST = 40
# A share and its complement are one test, not two.
_MIRRORED = {"answer_rate": "abstention_rate"}


@dataclass(frozen=True, slots=True)
class CompareOptions:
    """What to compare and how hard to look; ``margin`` asks for non-inferiority."""

    metrics: Sequence[str] = tuple(METRICS)
    n_resamples: int = 10_000
    seed: int = 42
    level: float = 0.95
    margin: float | None = None

    def __post_init__(self) -> None:
        for key in self.metrics:
            if key not in METRICS:
                raise UnknownName.among("metric", key, METRICS)
        if self.margin is not None and not 0 < self.margin < 1:
            raise InvalidValue(f"margin must lie between 0 and 1, not {self.margin!r}")

    @property
    def curves(self) -> bool:
        """Say whether any metric is a figure of the risk–coverage curve."""
        return not CURVE_METRICS.isdisjoint(self.metrics)

    def bootstrap(self) -> BootstrapOptions:
        """Return how patients are drawn."""
        return BootstrapOptions(n_resamples=self.n_resamples, seed=self.seed, level=self.level)


@dataclass(slots=True)
class MetricDelta:
    """Right minus left in one metric; ``p_adjusted`` is Holm's over the whole comparison."""

    key: str
    name: str
    direction: str
    left: float
    right: float
    delta: float
    interval: Interval | None
    p_value: float = math.nan
    p_adjusted: float = math.nan
    test: str = ""
    non_inferior: bool | None = None

    def verdict(self, level: float = 0.95) -> str:
        """Say better, worse, different or not told apart, of right against left."""
        if math.isnan(self.p_adjusted):
            return "not tested"
        if self.p_adjusted > 1 - level:
            return "not told apart"
        if self.direction == "neither":
            return "different"
        return "better" if (self.delta > 0) == (self.direction == "higher") else "worse"


@dataclass(frozen=True, slots=True)
class Pair:
    """Two of the runs, side by side."""

    left: str
    right: str
    deltas: Mapping[str, MetricDelta]
    changes: Mapping[str, Sequence[ChangedRow]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Comparison:
    """All runs with all pairs; ``matched`` is None where files without rows were compared."""

    runs: Mapping[str, BenchmarkResult]
    scores: Mapping[str, MetricScores]
    pairs: Sequence[Pair]
    options: CompareOptions
    matched: MatchedRuns | None
    n_patients: int = 0

    @property
    def paired(self) -> bool:
        """Say whether rows were matched, or only scores compared."""
        return self.matched is not None

    def indistinguishable(self) -> dict[str, list[str]]:
        """Return, per metric that has a better end, the best run and all not told apart from it."""
        groups = {}
        for key in self.options.metrics:
            direction = METRICS[key].direction
            values = {
                name: scores[key].value for name, scores in self.scores.items() if key in scores
            }
            known = {name: value for name, value in values.items() if not math.isnan(value)}
            if direction == "neither" or not known:
                continue
            best = (max if direction == "higher" else min)(known, key=lambda name: known[name])
            groups[key] = [name for name in known if name == best or self._alike(best, name, key)]
        return groups

    def _alike(self, first: str, second: str, key: str) -> bool:
        for pair in self.pairs:
            if {pair.left, pair.right} == {first, second} and key in pair.deltas:
                return pair.deltas[key].verdict(self.options.level) in (
                    "not told apart",
                    "not tested",
                )
        return True

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        matched = self.matched
        return {
            "kind": "krisis.comparison",
            "schema_version": 1,
            "paired": self.paired,
            "runs": list(self.runs),
            "n_matched": matched.n_matched if matched else None,
            "n_compared": matched.n_compared if matched else None,
            "n_patients": self.n_patients or None,
            "n_failed": dict(matched.n_failed) if matched else None,
            "unmatched": {k: list(v) for k, v in matched.unmatched.items()} if matched else None,
            "options": asdict(self.options),
            "scores": {
                name: {key: scores[key].value for key in self.options.metrics if key in scores}
                for name, scores in self.scores.items()
            },
            "pairs": [_pair_dict(pair, self.options.level) for pair in self.pairs],
            "indistinguishable": self.indistinguishable(),
        }


def _pair_dict(pair: Pair, level: float) -> dict[str, Any]:
    return {
        "left": pair.left,
        "right": pair.right,
        "deltas": {
            key: {**asdict(delta), "verdict": delta.verdict(level)}
            for key, delta in pair.deltas.items()
        },
        "changes": {
            change: [row.to_dict() for row in rows] for change, rows in pair.changes.items()
        },
    }


def compare_runs(
    runs: Mapping[str, BenchmarkResult], options: CompareOptions | None = None
) -> Comparison:
    """Compare runs pair by pair: paired where rows are stored, else by their scores alone."""
    chosen = options or CompareOptions()
    if len(runs) < 2:
        raise InvalidValue(f"a comparison needs at least two runs, not {len(runs)}; name another")
    refuse_other_data(runs)
    if all(run.evaluation_results for run in runs.values()):
        return _paired(runs, chosen)
    return _unpaired(runs, chosen)


def _paired(runs: Mapping[str, BenchmarkResult], options: CompareOptions) -> Comparison:
    matched = match_runs(runs)
    metrics = [METRICS[key]() for key in options.metrics]
    scores = {name: score_all(metrics, rows) for name, rows in matched.rows.items()}
    unit, n_units = units_of(next(iter(matched.rows.values())).columns)
    replicates = _replicates(matched, unit, n_units, options=options)
    drawn = _permutations(len(runs), options)
    pairs = []
    for left, right in combinations(runs, 2):
        deltas = {
            key: _delta(
                key,
                (scores[left], scores[right]),
                (replicates[left], replicates[right]),
                size=(n_units, options.level),
            )
            for key in options.metrics
        }
        _test(deltas, (matched.rows[left], matched.rows[right]), unit, drawn=drawn)
        positions = (list(matched.positions[left]), list(matched.positions[right]))
        pairs.append(Pair(left, right, deltas, changed_rows(runs[left], runs[right], positions)))
    _adjust(pairs)
    _judge_margin(pairs, options)
    n_patients = int(next(iter(matched.rows.values())).columns.cluster.max()) + 1
    return Comparison(runs, scores, pairs, options, matched, n_patients)


def _permutations(n_runs: int, options: CompareOptions) -> Permutations:
    """Return enough permutations for p-values that can survive the adjustment over all tests."""
    n_tests = math.comb(n_runs, 2) * len(options.metrics)
    n_permutations = max(options.n_resamples, _PERMUTATIONS_PER_TEST * n_tests)
    return Permutations(n_permutations, options.seed, options.curves)


Drawn = dict[str, FloatArray]


def _replicates(
    matched: MatchedRuns, unit: IntArray, n_units: int, *, options: CompareOptions
) -> dict[str, Drawn]:
    """Score every run on the same resamples of patients."""
    weighted = {
        name: WeightedScores(rows.columns, unit, n_units, curves=options.curves)
        for name, rows in matched.rows.items()
    }
    parts: dict[str, dict[str, list[FloatArray]]] = {name: {} for name in weighted}
    for counts in chain([np.ones((n_units, 1))], resample_counts(n_units, options.bootstrap())):
        for name, statistic in weighted.items():
            for key, values in statistic(counts).items():
                parts[name].setdefault(key, []).append(values)
    return {
        name: {key: np.concatenate(values) for key, values in found.items()}
        for name, found in parts.items()
    }


def _delta(
    key: str,
    scores: tuple[MetricScores, MetricScores],
    drawn: tuple[Drawn, Drawn],
    *,
    size: tuple[int, float],
) -> MetricDelta:
    n_units, level = size
    left, right = scores[0][key].value, scores[1][key].value
    differences = drawn[1][key] - drawn[0][key]
    # The first replicate is the runs as they are: grouped confidences may shift it a little.
    shifted = differences[1:] + ((right - left) - differences[0])
    # The calibration error is biased in every resample; the basic method turns that bias round.
    method: ReplicateMethod = (
        "basic" if key == "expected_calibration_error" else "expanded_percentile"
    )
    interval = Replicates(right - left, shifted, n_units).interval(method, level=level)
    metric = METRICS[key]
    return MetricDelta(key, metric.name, metric.direction, left, right, right - left, interval)


def _test(
    deltas: Mapping[str, MetricDelta],
    rows: tuple[Rows, Rows],
    unit: IntArray,
    *,
    drawn: Permutations,
) -> None:
    left, right = rows
    p_values = exchange_test(left, right, unit, drawn)
    for key, delta in deltas.items():
        delta.p_value = math.nan if math.isnan(delta.delta) else p_values[key]
        delta.test = "patients exchanged"
    columns = left.columns
    one_row_each = int(columns.cluster.max()) + 1 == columns.n_scored
    if "accuracy" in deltas and one_row_each:
        # McNemar counts rows as independent, which only holds with one row per patient.
        exact = mcnemar_exact(columns.correct, right.columns.correct)
        deltas["accuracy"].p_value, deltas["accuracy"].test = exact.p_value, "exact McNemar"


def _adjust(pairs: Sequence[Pair]) -> None:
    family = {
        f"{i}/{key}": delta.p_value
        for i, pair in enumerate(pairs)
        for key, delta in pair.deltas.items()
        if _MIRRORED.get(key) not in pair.deltas
    }
    adjusted = holm(family)
    for i, pair in enumerate(pairs):
        for key, delta in pair.deltas.items():
            tested = _MIRRORED[key] if _MIRRORED.get(key) in pair.deltas else key
            delta.p_adjusted = adjusted[f"{i}/{tested}"]


def _judge_margin(pairs: Sequence[Pair], options: CompareOptions) -> None:
    if options.margin is None:
        return
    for pair in pairs:
        for delta in pair.deltas.values():
            interval = delta.interval
            if delta.direction == "neither" or interval is None or math.isnan(interval.low):
                continue
            worst = interval.low if delta.direction == "higher" else -interval.high
            delta.non_inferior = worst > -options.margin


def _unpaired(runs: Mapping[str, BenchmarkResult], options: CompareOptions) -> Comparison:
    scores = {name: MetricScores(run.metric_scores) for name, run in runs.items()}
    pairs = []
    for left, right in combinations(runs, 2):
        deltas = {}
        for key in options.metrics:
            first, second = scores[left].get(key), scores[right].get(key)
            if first is None or second is None:
                continue
            metric = METRICS[key]
            deltas[key] = MetricDelta(
                key,
                metric.name,
                metric.direction,
                first.value,
                second.value,
                second.value - first.value,
                unpaired_interval(first, second),
            )
        pairs.append(Pair(left, right, deltas))
    _judge_margin(pairs, options)
    return Comparison(runs, scores, pairs, options, None)

"""Two or more runs on the same cases: paired differences, verdicts, and who ties with the best."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations

from krisis.errors import InvalidValue, UnknownName
from krisis.json_values import JsonObject
from krisis.metrics import default_benchmark_metrics
from krisis.metrics.base import BaseMetric, Direction, MetricScore, MetricScores, score_all
from krisis.metrics.paired import Exchanges, PairedDifference, paired_differences
from krisis.results.comparison.matching import (
    ChangedRow,
    MatchedRuns,
    changed_rows,
    match_runs,
    refuse_other_data,
)
from krisis.results.result import BenchmarkResult
from krisis.results.scoring import metric_of
from krisis.statistics.intervals import Interval
from krisis.statistics.paired import non_inferior

NO_DIFFERENCE = "no significant difference"
NOT_COMPARABLE = "not comparable"
PERMUTATION = "paired permutation by patient"
# Several pairs multiply the smallest possible p-value, so that more exchanges are drawn for them.
_EXCHANGES_PER_PAIR = 400


@dataclass(frozen=True, slots=True)
class CompareOptions:
    """What to compare and how; without ``metrics``, all that every run was scored with.

    ``primary`` names the metric that is tested alone. ``margin`` asks for non-inferiority: one
    number for every metric, or one per key in the metric's own units.
    """

    metrics: Sequence[BaseMetric | str] = ()
    n_permutations: int = 1999
    seed: int = 42
    level: float = 0.95
    margin: float | Mapping[str, float] | None = None
    primary: str | None = None

    def __post_init__(self) -> None:
        given = self.margin if isinstance(self.margin, Mapping) else {"margin": self.margin}
        for name, value in given.items():
            if value is not None and not 0 < value < math.inf:
                raise InvalidValue(f"{name} must be a number above 0, not {value!r}")
        if self.n_permutations < 1:
            raise InvalidValue(f"n_permutations must be 1 or more, not {self.n_permutations!r}")

    def margin_of(self, key: str) -> float | None:
        """Return the margin of a metric, where one was given."""
        return self.margin.get(key) if isinstance(self.margin, Mapping) else self.margin


@dataclass(slots=True)
class MetricDelta:
    """Right minus left in one metric.

    ``left`` and ``right`` are the scores; ``delta``, ``interval`` and ``p_value`` belong to
    ``left_compared`` and ``right_compared``, which are the scores themselves unless
    ``compared_by`` names another number. ``p_adjusted`` is that of the whole comparison;
    ``reason`` says why there is no test.
    """

    key: str
    name: str
    direction: Direction
    left: float
    right: float
    delta: float = math.nan
    interval: Interval | None = None
    p_value: float = math.nan
    p_adjusted: float = math.nan
    test: str = ""
    compared_by: str = ""
    left_compared: float = math.nan
    right_compared: float = math.nan
    margin: float | None = None
    non_inferior: bool | None = None
    primary: bool = False
    reason: str = ""

    def verdict(self, level: float = 0.95) -> str:
        """Say better, worse, different, no significant difference or not comparable."""
        if math.isnan(self.delta):
            return NOT_COMPARABLE
        if math.isnan(self.p_adjusted):
            return "not tested"
        if self.p_adjusted > 1 - level + 1e-12:
            return NO_DIFFERENCE
        if self.direction == "neither":
            return "different"
        return "better" if (self.delta > 0) == (self.direction == "higher") else "worse"

    def to_dict(self, level: float) -> JsonObject:
        """Return the difference with its verdict as JSON values."""
        interval = self.interval
        ends = None if interval is None else [interval.low, interval.high]
        fields = {name: getattr(self, name) for name in self.__slots__ if name != "interval"}
        return {
            **fields,
            "interval": ends,
            "interval_method": interval.method if interval else None,
            "verdict": self.verdict(level),
        }


@dataclass(frozen=True, slots=True)
class Pair:
    """Two of the runs, side by side."""

    left: str
    right: str
    deltas: Mapping[str, MetricDelta]
    changes: Mapping[str, Sequence[ChangedRow]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Comparison:
    """All runs with all pairs; ``matched`` is None where files without rows were compared.

    ``left_out`` says, per metric that not every run has in the same form, why it is not compared.
    """

    runs: Mapping[str, BenchmarkResult]
    scores: Mapping[str, MetricScores]
    pairs: Sequence[Pair]
    options: CompareOptions
    matched: MatchedRuns | None
    n_patients: int = 0
    n_permutations: int = 0
    left_out: Mapping[str, str] = field(default_factory=dict)

    @property
    def paired(self) -> bool:
        """Say whether rows were matched, or only scores compared."""
        return self.matched is not None

    def tied_with_best(self) -> dict[str, list[str]]:
        """Return, per metric with a better end, the best run and all not significantly different.

        Runs are ranked by the number that they are compared by; a run without it is not ranked.
        """
        groups: dict[str, list[str]] = {}
        for key, delta in self.pairs[0].deltas.items():
            known = self._comparable(key)
            if len(known) < 2 or delta.direction == "neither":
                continue
            better = max if delta.direction == "higher" else min
            best = better(known, key=lambda name: known[name])
            groups[key] = [name for name in known if name == best or self._tied(best, name, key)]
        return groups

    def _comparable(self, label: str) -> dict[str, float]:
        """Return the compared number of every run that has one."""
        known: dict[str, float] = {}
        for pair in self.pairs:
            delta = pair.deltas.get(label)
            if delta is not None and not math.isnan(delta.delta):
                known |= {pair.left: delta.left_compared, pair.right: delta.right_compared}
        return {name: known[name] for name in self.runs if name in known}

    def _tied(self, first: str, second: str, label: str) -> bool:
        for pair in self.pairs:
            if {pair.left, pair.right} == {first, second} and label in pair.deltas:
                verdict = pair.deltas[label].verdict(self.options.level)
                return verdict in (NO_DIFFERENCE, "not tested")
        return False

    def to_dict(self) -> JsonObject:
        """Return everything as JSON values."""
        matched, options = self.matched, self.options
        return {
            "kind": "krisis.comparison",
            "schema_version": 2,
            "paired": self.paired,
            "runs": list(self.runs),
            "n_matched": matched.n_matched if matched else None,
            "n_compared": matched.n_compared if matched else None,
            "n_patients": self.n_patients or None,
            "n_failed": dict(matched.n_failed) if matched else None,
            "unmatched": {k: list(v) for k, v in matched.unmatched.items()} if matched else None,
            "options": {
                "n_permutations": self.n_permutations,
                "seed": options.seed,
                "level": options.level,
                "margin": options.margin,
                "primary": options.primary,
            },
            "left_out": dict(self.left_out),
            "scores": {
                name: {
                    score.identifier: {"value": score.value, "parameters": score.parameters}
                    for score in scores.values()
                }
                for name, scores in self.scores.items()
            },
            "pairs": [_pair_dict(pair, options.level) for pair in self.pairs],
            "tied_with_best": self.tied_with_best(),
        }


def _pair_dict(pair: Pair, level: float) -> JsonObject:
    return {
        "left": pair.left,
        "right": pair.right,
        "deltas": {label: delta.to_dict(level) for label, delta in pair.deltas.items()},
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
    stored = {name: MetricScores(run.metric_scores) for name, run in runs.items()}
    if not all(run.evaluation_results for run in runs.values()):
        return _with_margins(_unpaired(runs, stored, chosen))
    metrics, left_out = _metrics(stored, chosen)
    return _with_margins(_paired(runs, metrics, chosen, left_out=left_out))


def _metrics(
    stored: Mapping[str, MetricScores], options: CompareOptions
) -> tuple[list[BaseMetric], dict[str, str]]:
    """Return the metrics to compare by, with their stored parameters, and why others are out."""
    first, *others = stored.values()
    if not any(stored.values()):
        scores = MetricScores((one.label, _unscored(one)) for one in default_benchmark_metrics())
        first, others = scores, []
    metrics: list[BaseMetric] = []
    left_out: dict[str, str] = {}
    for wanted in options.metrics or [score.identifier for score in first.values()]:
        if isinstance(wanted, BaseMetric):
            metrics.append(wanted)
            continue
        score = _found(wanted, first)
        found = metric_of(score)
        theirs = [other.get(score.identifier) for other in others]
        if any(other is None or other.parameters != score.parameters for other in theirs):
            left_out[score.name] = "not every run was scored with it and these parameters"
        elif found is None:
            left_out[score.name] = "its class is not installed here; pass the metric from Python"
        else:
            metrics.append(found)
    if not metrics:
        reasons = "; ".join(f"{label}: {reason}" for label, reason in left_out.items())
        raise InvalidValue(f"the runs have no metric in common ({reasons})")
    return metrics, left_out


def _unscored(metric: BaseMetric) -> MetricScore:
    return MetricScore(metric.label, math.nan, key=metric.key, parameters=metric.parameters())


def _found(name: str, scores: MetricScores) -> MetricScore:
    """Return the score of a metric that was named by its name or key."""
    if name not in scores:
        raise UnknownName.among("metric", name, [score.identifier for score in scores.values()])
    return scores[name]


def _paired(
    runs: Mapping[str, BenchmarkResult],
    metrics: Sequence[BaseMetric],
    options: CompareOptions,
    *,
    left_out: Mapping[str, str],
) -> Comparison:
    matched = match_runs(runs)
    tables = {name: rows.table for name, rows in matched.rows.items()}
    scores = {name: score_all(metrics, table) for name, table in tables.items()}
    n_pairs = math.comb(len(runs), 2)
    fewest = _EXCHANGES_PER_PAIR * n_pairs - 1 if n_pairs > 1 else 1
    exchanges = Exchanges(max(options.n_permutations, fewest), options.seed, options.level)
    primary = _primary(metrics, options.primary)
    pairs, n_drawn = [], exchanges.n
    for left, right in combinations(runs, 2):
        found, n_drawn = paired_differences(
            tables[left],
            tables[right],
            {metric.identifier: metric.comparison_form for metric in metrics},
            exchanges=exchanges,
            primary=primary,
        )
        deltas = {
            metric.identifier: _delta(
                metric,
                (scores[left][metric.label], scores[right][metric.label]),
                found.get(metric.identifier),
                n_pairs=n_pairs,
                primary=metric.identifier == primary,
            )
            for metric in metrics
        }
        positions = (list(matched.positions[left]), list(matched.positions[right]))
        pairs.append(Pair(left, right, deltas, changed_rows(runs[left], runs[right], positions)))
    n_patients = next(iter(tables.values())).patients.n
    return Comparison(runs, scores, pairs, options, matched, n_patients, n_drawn, left_out)


def _primary(metrics: Sequence[BaseMetric], primary: str | None) -> str | None:
    if primary is None:
        return None
    for metric in metrics:
        if primary in (metric.identifier, metric.label, metric.name, metric.key):
            return metric.identifier
    raise UnknownName.among("primary metric", primary, [metric.key for metric in metrics])


def _delta(
    metric: BaseMetric,
    scores: tuple[MetricScore, MetricScore],
    found: PairedDifference | None,
    *,
    n_pairs: int,
    primary: bool,
) -> MetricDelta:
    left, right = scores
    delta = MetricDelta(
        metric.key, metric.label, metric.direction, left.value, right.value, primary=primary
    )
    if found is None:
        missing = [score.details.get("reason") for score in scores if math.isnan(score.value)]
        delta.reason = str(next(iter(missing), None) or "one of the runs has no value")
        return delta
    # Pairs are adjusted by their number (Bonferroni), on top of the joint test of the metrics.
    return replace(
        delta,
        delta=found.delta,
        interval=found.interval,
        p_value=found.p_value,
        p_adjusted=min(1.0, n_pairs * found.p_adjusted),
        test=PERMUTATION,
        compared_by=metric.comparison_name,
        left_compared=found.left,
        right_compared=found.right,
    )


def _with_margins(comparison: Comparison) -> Comparison:
    for pair in comparison.pairs:
        for delta in pair.deltas.values():
            margin = comparison.options.margin_of(delta.key)
            if margin is None or delta.interval is None or delta.direction == "neither":
                continue
            delta.margin = margin
            delta.non_inferior = non_inferior(delta.interval, margin, delta.direction)
    return comparison


def _unpaired(
    runs: Mapping[str, BenchmarkResult],
    scores: Mapping[str, MetricScores],
    options: CompareOptions,
) -> Comparison:
    first = next(iter(scores.values()))
    names = [one for one in options.metrics if isinstance(one, str)]
    wanted = [_found(name, first) for name in names] or list(first.values())
    pairs = [
        Pair(
            left,
            right,
            {
                key: _unpaired_delta(scores[left][key], scores[right][key])
                for key in (score.identifier for score in wanted)
                if key in scores[left] and key in scores[right]
            },
        )
        for left, right in combinations(runs, 2)
    ]
    return Comparison(runs, scores, pairs, options, None)


def _unpaired_delta(left: MetricScore, right: MetricScore) -> MetricDelta:
    delta = MetricDelta(left.key, left.name, left.direction, left.value, right.value)
    if left.parameters != right.parameters:
        return replace(delta, reason="the runs were scored with different parameters")
    return replace(
        delta,
        delta=right.value - left.value,
        left_compared=left.value,
        right_compared=right.value,
        interval=unpaired_interval(left, right),
    )


def unpaired_interval(left: MetricScore, right: MetricScore) -> Interval | None:
    """Combine the intervals of two scores as if the runs had nothing in common.

    Right minus left by squaring and adding the two half-widths on the side that matters. Runs on
    the same cases usually agree on most of them, so the truth is narrower: match the rows to see.

    Reference: Zou and Donner, Construction of confidence limits about effect measures: a general
    approach, Statistics in Medicine 27 (2008) 1693–1702.
    """
    first, second = left.interval, right.interval
    if first is None or second is None or math.isnan(first.low) or math.isnan(second.low):
        return None
    delta = right.value - left.value
    below = math.hypot(right.value - second.low, first.high - left.value)
    above = math.hypot(second.high - right.value, left.value - first.low)
    return Interval(delta - below, delta + above, first.level, "unpaired")

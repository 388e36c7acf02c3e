"""Two or more runs on the same cases: paired differences, verdicts, and who ties with the best."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import combinations

from krisis.errors import InvalidValue, UnknownName
from krisis.metrics import BootstrapOptions, usual_metrics
from krisis.metrics.base import BaseMetric, MetricScore, MetricScores
from krisis.metrics.forms import Form, Undefined
from krisis.metrics.paired import Exchanges, PairedDifference, TableForm, paired_differences
from krisis.metrics.scoring import metric_of, registered_metrics, score_all, undefined_form
from krisis.metrics.table import Table
from krisis.results.matching import (
    RowKeys,
    changed_rows,
    match_runs,
    refuse_other_costs,
    refuse_other_data,
)
from krisis.results.missing import missing_cases
from krisis.results.result import BenchmarkResult
from krisis.statistics.intervals import Interval
from krisis.statistics.paired import margin_verdict, non_inferior
from krisis.verbs.compare.comparison import CompareOptions, Comparison, MetricDelta, Pair

__all__ = ["CompareOptions", "Comparison", "MetricDelta", "Pair", "compare_runs"]

# What runs are tested by where no metric is named: skill and cost saved are made of it.
PRIMARY = "decision_cost"
PERMUTATION = "paired permutation by patient"


def compare_runs(
    runs: Mapping[str, BenchmarkResult], options: CompareOptions | None = None
) -> Comparison:
    """Compare runs pair by pair: paired where rows are stored, else by their scores alone."""
    chosen = options or CompareOptions()
    if len(runs) < 2:
        raise InvalidValue(f"a comparison needs at least two runs, not {len(runs)}; name another")
    refuse_other_data(runs)
    refuse_other_costs(runs)
    stored = {name: MetricScores(run.metric_scores) for name, run in runs.items()}
    if not all(run.evaluation_results for run in runs.values()):
        return _with_margins(_unpaired(runs, stored, chosen))
    metrics, left_out = _metrics(stored, chosen)
    return _with_margins(_paired(runs, metrics, chosen, left_out=left_out))


def _metrics(
    stored: Mapping[str, MetricScores], options: CompareOptions
) -> tuple[list[BaseMetric], dict[str, str]]:
    """Return the metrics to compare by, with their stored parameters, and why others are out."""
    named = [one for one in (*options.metrics, options.primary) if isinstance(one, str)]
    asked = [*([] if any(stored.values()) else usual_metrics()), *registered_metrics(named)]
    first, *others = (_with_asked(scores, asked) for scores in stored.values())
    metrics: list[BaseMetric] = []
    left_out: dict[str, str] = {}
    for wanted in options.metrics or _unasked(first, options.primary):
        if isinstance(wanted, BaseMetric):
            metrics.append(wanted)
            continue
        score = _found(wanted, first)
        found = metric_of(score)
        theirs = [other.get(score.identifier) for other in others]
        if any(other is None or other.parameters != score.parameters for other in theirs):
            left_out[score.identifier] = "not every run was scored with it and these parameters"
        elif found is None:
            left_out[score.identifier] = (
                "its class is not installed here; pass the metric from Python"
            )
        else:
            metrics.append(found)
    if not metrics:
        reasons = "; ".join(f"{label}: {reason}" for label, reason in left_out.items())
        raise InvalidValue(f"the runs have no metric in common ({reasons})")
    return metrics, left_out


def _with_asked(scores: MetricScores, asked: Sequence[BaseMetric]) -> MetricScores:
    """Return the scores with a place for every metric that was asked for and is not among them."""
    lacking = {one.label: _unscored(one) for one in asked if one.identifier not in scores}
    return MetricScores({**scores, **lacking})


def _unasked(scores: MetricScores, primary: str | None = None) -> list[str]:
    """Return what is compared where no metric is named: those that say so, and the primary one."""
    named = scores.get(primary) if primary else None
    family = [
        score.identifier
        for score in scores.values()
        if score is named or (found := metric_of(score)) is None or found.compared_by_default
    ]
    return family or [score.identifier for score in scores.values()]


def _hypotheses(
    runs: Mapping[str, BenchmarkResult], metrics: Sequence[BaseMetric], options: CompareOptions
) -> tuple[str | None, set[str]]:
    """Return the metric that is tested alone, and all that are tested.

    One question is asked at its full level: that of the primary metric, else Decision Cost, or
    the first metric where no task has costs. The others are described, unless they are named:
    every further test makes each of them weaker.
    """
    primary = _primary(metrics, options.primary)
    tested = {metric.identifier for metric in metrics} if options.metrics else set()
    if primary is None and not options.metrics:
        tasks = [run.provenance.task_facts for run in runs.values()]
        # Skill and cost saved are tested by what they are made of.
        is_priced = any(task and PRIMARY in task.metrics for task in tasks)
        of_task = [metric for metric in metrics if is_priced and metric.key == PRIMARY]
        primary = (of_task or list(metrics))[0].identifier
    return primary, tested | ({primary} if primary else set())


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
    # Two runs are read by their difference, more of them side by side as well.
    intervals = BootstrapOptions(level=options.level) if len(runs) > 2 else None
    scores = {
        name: score_all(metrics, run.rows.table, intervals=intervals) for name, run in runs.items()
    }
    keys = {name: RowKeys.by(name, run.evaluation_results) for name, run in runs.items()}
    n_pairs = math.comb(len(runs), 2)
    exchanges = Exchanges(options.n_exchanges(n_pairs), options.seed, options.level)
    primary, tested = _hypotheses(runs, metrics, options)
    pairs, n_drawn = [], exchanges.n
    forms = {metric.identifier: _form_of(metric) for metric in metrics}
    described = {name: form for name, form in forms.items() if name not in tested}
    family = {name: form for name, form in forms.items() if name in tested}
    for left, right in combinations(runs, 2):
        two = {left: runs[left], right: runs[right]}
        matched = match_runs(two, keys)
        both = matched.rows[left].table, matched.rows[right].table
        here = [
            scores[name]
            if matched.n_compared == len(runs[name].rows)
            else score_all(metrics, table)
            for name, table in zip(two, both, strict=True)
        ]
        found, n_drawn = paired_differences(
            *both,
            family,
            exchanges=exchanges,
            primary=primary,
            joint=True,
            n_comparisons=n_pairs,
        )
        if described:
            found |= paired_differences(*both, described, exchanges=exchanges)[0]
        deltas = {
            metric.identifier: _delta(
                metric,
                (here[0][metric.label], here[1][metric.label]),
                found.get(metric.identifier),
                tested=metric.identifier in tested,
                primary=metric.identifier == primary,
            )
            for metric in metrics
        }
        pairs.append(
            Pair(
                left,
                right,
                deltas,
                changed_rows(matched, left, right),
                matched,
                missing_cases(two, matched),
            )
        )
    return Comparison(runs, scores, pairs, options, n_drawn, left_out)


def _form_of(metric: BaseMetric) -> TableForm:
    """Return how a metric reads a table; one that raises has no value, and stops no other."""

    def form(table: Table) -> Form | Undefined:
        try:
            return metric.comparison_form(table)
        except Exception as error:
            return undefined_form(error)

    return form


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
    tested: bool,
    primary: bool,
) -> MetricDelta:
    """Return the difference in one metric, with its p-values where it is tested."""
    left, right = scores
    delta = MetricDelta(
        metric.key, metric.label, metric.direction, left.value, right.value, primary=primary
    )
    if found is None:
        missing = [score.details.get("reason") for score in scores if math.isnan(score.value)]
        delta.reason = str(next(iter(missing), None) or "one of the runs has no value")
        return delta
    described = replace(
        delta,
        delta=found.delta,
        interval=found.interval,
        compared_by=metric.comparison_name,
        compared_because=metric.comparison_reason,
        left_compared=found.left,
        right_compared=found.right,
    )
    if not tested:
        return described
    return replace(described, p_value=found.p_value, p_adjusted=found.p_adjusted, test=PERMUTATION)


def _with_margins(comparison: Comparison) -> Comparison:
    for pair in comparison.pairs:
        for delta in pair.deltas.values():
            margin = comparison.options.margin_of(delta.key)
            if margin is None or delta.interval is None or delta.direction == "neither":
                continue
            delta.margin = margin
            delta.non_inferior = non_inferior(delta.interval, margin, delta.direction)
            delta.margin_verdict = margin_verdict(delta.interval, margin, delta.direction)
    return comparison


def _unpaired(
    runs: Mapping[str, BenchmarkResult],
    scores: Mapping[str, MetricScores],
    options: CompareOptions,
) -> Comparison:
    first = next(iter(scores.values()))
    names = [one for one in options.metrics if isinstance(one, str)]
    wanted = [_found(name, first) for name in names or _unasked(first)]
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
    return Comparison(runs, scores, pairs, options)


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

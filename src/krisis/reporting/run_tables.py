"""The tables that a paper takes from runs: scores, side by side, differences, areas of risk."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from krisis.confidence.artifact import NOTHING_PREDICTED
from krisis.confidence.evaluation import Evaluation
from krisis.metrics.base import MetricScore
from krisis.metrics.explanations import explained, method_lines, methods_of
from krisis.metrics.weighted_curve import risk_key
from krisis.reporting.tables import Cell, Estimate, EstimateTable
from krisis.results.base import BenchmarkResult
from krisis.results.comparison.base import Comparison, MetricDelta, Pair
from krisis.results.comparison.text import compared_by_lines, p_words, row_name
from krisis.results.export import Cell as PlainCell
from krisis.results.report_tables import mixture, shown_name
from krisis.results.side_by_side import Cell as Figure
from krisis.statistics.intervals import interval_heading

# Figure of selective prediction → its heading.
AREAS = {
    "cmax": "Cmax",
    "aurc": "AURC",
    "augrc": "AUGRC",
    "eaurc": "excess AURC",
    "eaugrc": "excess AUGRC",
    "aurc_normalized": "AURC / Cmax",
    "augrc_normalized": "AUGRC / Cmax²",
}
NOT_REACHED = "coverage_is_never_reached"


def score_tables(result: BenchmarkResult) -> list[EstimateTable]:
    """Return the scores of a run: one table, or one for each kind of patients."""
    if not result.scores_by_source:
        return [_score_table(result, result.metric_scores)]
    return [
        _score_table(result, scores, source) for source, scores in result.scores_by_source.items()
    ]


def _score_table(
    result: BenchmarkResult, scores: Mapping[str, MetricScore], source: str = ""
) -> EstimateTable:
    made, task, known = result.provenance, result.provenance.task_facts, list(scores.values())
    place = {"suite": made.suite, "task": made.task, "model": result.backend_name}
    estimates = [_estimate(score) for score in known]
    counts = result.attrition
    of = f", {source} patients" if source else f", n = {_n_scored(result):,}"
    missing = counts.n_not_evaluated
    failed = f" ({missing:,} not evaluated)" if missing else ""
    return EstimateTable(
        f"{result.backend_name or 'unnamed model'} on {_suite(made.suite, made.task)}{of}{failed}",
        ("metric", _headed("value", estimates), "n", "method"),
        [
            [shown_name(score, task), one, score.n_evaluated, _method(one)]
            for score, one in zip(known, estimates, strict=True)
        ],
        [
            {
                **place,
                "patients": source or None,
                "metric": score.identifier,
                "name": score.name,
                **one.record(),
                "n": score.n_evaluated,
                "n_abstained": score.n_abstained,
                "direction": score.direction,
            }
            for score, one in zip(known, estimates, strict=True)
        ],
        [
            *([mixture(result)] if source else []),
            *_missing(zip((score.name for score in known), estimates, strict=True)),
            *method_lines(methods_of(known)),
        ],
    )


def _headed(what: str, estimates: Iterable[Estimate]) -> str:
    """Name a column of numbers with their intervals; the level does not break from its sign."""
    heading = interval_heading(one.interval for one in estimates)
    return f"{what} ({heading})".replace(" %", "\u00a0%")


def _estimate(score: MetricScore) -> Estimate:
    undefined = math.isnan(score.value)
    reason = str(score.details.get("reason", "no reason was given")) if undefined else ""
    return Estimate(score.value, score.interval, reason)


def _missing(named: Iterable[tuple[str, Estimate]]) -> list[str]:
    """Say of every number without a value or an interval why, each once."""
    lines: dict[str, None] = {}
    for name, one in named:
        reason = str(one.record()["reason"] or "")
        if math.isnan(one.value):
            lines[f"{name} is undefined: {explained(reason or 'no reason was given')}"] = None
        elif reason:
            lines[f"{name} has no interval: {explained(reason)}"] = None
    return list(lines)


def _n_scored(result: BenchmarkResult) -> int:
    return result.attrition.n_evaluated


def _suite(suite: str, task: str) -> str:
    return " / ".join(filter(None, (suite or "unnamed suite", task)))


def side_by_side_table(comparison: Comparison) -> EstimateTable:
    """Return the runs of a comparison side by side: a line per model, a column per metric."""
    made, table = next(iter(comparison.runs.values())).provenance, comparison.side_by_side()
    found = {
        (entry.name, column.name): _of_cell(entry.cells[column.name])
        for entry in table.entries
        for column in table.columns
    }
    headings = {column.name: column.heading for column in table.columns}
    named = [(f"{headings[key]} of {name}", one) for (name, key), one in found.items()]
    return EstimateTable(
        f"{_suite(made.suite, made.task)}, {len(table.entries)} runs{_n_compared(comparison)}",
        ["model", *headings.values()],
        [
            [
                _with_warnings(entry.name, entry.warnings),
                *(found[entry.name, column.name] for column in table.columns),
            ]
            for entry in table.entries
        ],
        [
            {
                "suite": made.suite,
                "task": made.task,
                "model": entry.name,
                "metric": column.name,
                "name": column.heading,
                **found[entry.name, column.name].record(),
                "n": entry.cells[column.name].n_evaluated,
                "direction": column.direction,
            }
            for entry in table.entries
            for column in table.columns
        ],
        [*_missing(named), *method_lines(_methods(one for _, one in named))],
    )


def _n_compared(comparison: Comparison) -> str:
    bases = {pair.basis for pair in comparison.pairs if pair.matched}
    return f", n = {bases.pop()}" if len(bases) == 1 else ""


def _of_cell(cell: Figure) -> Estimate:
    return Estimate(cell.value, cell.interval, cell.reason)


def _methods(estimates: Iterable[Estimate]) -> list[str]:
    return [found for one in estimates if (found := _method(one))]


def _method(estimate: Estimate) -> str:
    return str(estimate.record()["method"] or "")


def _with_warnings(name: str, warnings: Sequence[str]) -> str:
    return f"{name} ({', '.join(warnings)})" if warnings else name


def comparison_tables(comparison: Comparison) -> list[EstimateTable]:
    """Return more than two runs side by side, then the differences of every pair of runs."""
    first = [side_by_side_table(comparison)] if len(comparison.runs) > 2 else []
    return [*first, *(_pair_table(comparison, pair) for pair in comparison.pairs)]


def _pair_table(comparison: Comparison, pair: Pair) -> EstimateTable:
    made, matched = comparison.runs[pair.left].provenance, pair.matched
    level, deltas = comparison.options.level, list(pair.deltas.values())
    n = f", n = {pair.basis}" if matched else ""
    estimates = [Estimate(d.delta, d.interval, d.reason, signed=True) for d in deltas]
    place = {"suite": made.suite, "task": made.task, "left": pair.left, "right": pair.right}
    rows = list(zip(pair.deltas.items(), estimates, strict=True))
    return EstimateTable(
        f"{pair.right} minus {pair.left} on {_suite(made.suite, made.task)}{n}",
        (
            "metric",
            "left",
            "right",
            _headed("difference", estimates),
            "p",
            "adjusted p",
            "verdict",
        ),
        [_delta_line(delta, one, level) for (_, delta), one in rows],
        [
            {
                **place,
                "metric": key,
                **_delta_record(delta, one, level),
                "n": matched.n_compared if matched else None,
            }
            for (key, delta), one in rows
        ],
        [
            *compared_by_lines(comparison),
            *_missing((delta.name, one) for (_, delta), one in rows),
            *method_lines(_methods(estimates)),
        ],
    )


def _delta_record(delta: MetricDelta, difference: Estimate, level: float) -> dict[str, PlainCell]:
    return {
        "name": delta.compared_by or delta.name,
        "left_value": _known(delta.shown[0]),
        "right_value": _known(delta.shown[1]),
        **difference.record(),
        "p_value": _known(delta.p_value),
        "p_adjusted": _known(delta.p_adjusted),
        "verdict": delta.verdict(level),
        "compared_by": delta.compared_by or None,
        "margin": delta.margin,
        "non_inferior": None if delta.non_inferior is None else int(delta.non_inferior),
        "margin_verdict": delta.margin_verdict or None,
        "direction": delta.direction,
    }


def _delta_line(delta: MetricDelta, difference: Estimate, level: float) -> list[Cell]:
    return [
        row_name(delta),
        *map(Estimate, delta.shown),
        difference,
        p_words(delta.p_value),
        p_words(delta.p_adjusted),
        delta.verdict(level),
    ]


def _known(value: float) -> float | None:
    return None if math.isnan(value) else value


def selective_tables(evaluation: Evaluation, names: Sequence[str]) -> list[EstimateTable]:
    """Return the areas and risks of every variant, run by run, then the differences of two."""
    tables = [
        _selective_table(evaluation, _of_run(evaluation, place), (name, ""), place)
        for place, name in enumerate(names)
    ]
    if len(names) == 2:
        found = {
            (variant, figure): Estimate(*evaluation.delta(variant, figure), signed=True)
            for variant in evaluation.curves
            for figure in AREAS
        }
        tables.append(_selective_table(evaluation, found, (names[1], names[0]), 0))
    return tables


_Estimates = Mapping[tuple[str, str], Estimate]


def _of_run(evaluation: Evaluation, place: int) -> _Estimates:
    risks = [risk_key(coverage) for coverage in evaluation.options.coverages]
    found: dict[tuple[str, str], Estimate] = {}
    for variant, curves in evaluation.curves.items():
        for figure in (*AREAS, *risks):
            value = curves[place].figures[figure]
            missing = NOT_REACHED if figure in risks else ""
            missing = missing if curves[place].losses.size else NOTHING_PREDICTED
            reason = missing if math.isnan(value) else ""
            ends = evaluation.interval(variant, place, figure)
            found[variant, figure] = Estimate(value, ends, reason)
    return found


def _selective_table(
    evaluation: Evaluation, found: _Estimates, names: tuple[str, str], place: int
) -> EstimateTable:
    (model, minus), run = names, evaluation.runs[place]
    source, n_predicted = run.source, int(run.predicted.sum())
    where: dict[str, PlainCell] = {"suite": source.suite, "task": source.task, "model": model}
    people, items = (f"{word}s" for word in run.words)
    whose = f"{model} minus {minus}" if minus else model
    answered = "" if minus else f", {n_predicted:,} answered"
    headings = {f: AREAS.get(f, f"risk at coverage {f[-4:]}") for _, f in found}
    return EstimateTable(
        f"{whose} on {_suite(source.suite, source.task)}, loss {evaluation.options.loss}, "
        f"n = {run.n_items:,} {items} of {evaluation.n_clusters:,} {people}{answered}",
        ["confidence", *evaluation.curves],
        [
            [heading, *(found[variant, figure] for variant in evaluation.curves)]
            for figure, heading in headings.items()
        ],
        [
            {
                **where,
                "minus": minus or None,
                "variant": variant,
                "metric": figure,
                "name": headings[figure],
                **one.record(),
                "n": run.n_items,
                "n_answered": None if minus else n_predicted,
            }
            for (variant, figure), one in found.items()
        ],
        [
            *_missing((headings[figure], one) for (_, figure), one in found.items()),
            *method_lines(_methods(found.values())),
        ],
    )

"""Decision curves and costs of several runs as figures for a paper."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TypeVar

from krisis.costs import Costs
from krisis.decisions.run_sample import ScoreOptions
from krisis.errors import InvalidValue, UserError
from krisis.metrics.items import RunItems
from krisis.pages.charts.spec import FigureSpec
from krisis.pages.style import Style
from krisis.results.base import BenchmarkResult
from krisis.results.run_items import items_of_result, source_of
from krisis.verbs.decide.chart import cost, net_benefit
from krisis.verbs.decide.curve import CurveOptions, DecisionCurve, decision_curve
from krisis.verbs.decide.policies import DecideOptions, Decision, decide_run

Drawn = TypeVar("Drawn", Decision, DecisionCurve)
# A figure is no judgement: it says how many cases were not evaluated.
_SCORE = ScoreOptions(max_not_evaluated=1.0)


def decision_curves(runs: Mapping[str, BenchmarkResult], style: Style) -> FigureSpec:
    """Draw the net benefit of runs over threshold probabilities."""
    return _drawn(
        runs, style, lambda run: decision_curve(run, CurveOptions(score=_SCORE)), net_benefit
    )


def costs(runs: Mapping[str, BenchmarkResult], style: Style) -> FigureSpec:
    """Draw what runs cost by every policy."""
    first: Costs | None = None

    def decided(run: RunItems) -> Decision:
        nonlocal first
        first = first or run.table.answers.costs
        if not run.table.answers.costs.same(first):
            raise InvalidValue("it is judged by other costs")
        return decide_run(run, DecideOptions(score=_SCORE))

    return _drawn(runs, style, decided, cost)


def _drawn(
    runs: Mapping[str, BenchmarkResult],
    style: Style,
    decide: Callable[[RunItems], Drawn],
    draw: Callable[[Mapping[str, Drawn], Style], FigureSpec],
) -> FigureSpec:
    found, reasons = dict[str, Drawn](), dict[str, str]()
    for name, run in runs.items():
        try:
            found[name] = decide(items_of_result(run, source_of(run)))
        except UserError as error:
            reasons[name] = str(error).partition(";")[0]
    return replace(draw(found, style), reasons=reasons)

"""`krisis figure`: runs on the same cases as one figure of a kind, for screen or print."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from krisis.costs import Costs
from krisis.decisions.run_sample import ScoreOptions
from krisis.errors import InvalidFile, InvalidValue, UnknownName, UserError
from krisis.metrics.items import RunItems
from krisis.pages.about import about_runs
from krisis.pages.charts.curves import risk_coverage, run_curves
from krisis.pages.charts.forest import deferral, forest
from krisis.pages.charts.reliability import reliability
from krisis.pages.charts.spec import FigureSpec
from krisis.pages.figure import Figure
from krisis.pages.style import MOST_RUNS, Style, style_of
from krisis.results.base import BenchmarkResult
from krisis.results.matching import refuse_other_data
from krisis.results.run_items import items_of_result, source_of
from krisis.verbs.decide.chart import cost, net_benefit
from krisis.verbs.decide.curve import CurveOptions, DecisionCurve, decision_curve
from krisis.verbs.decide.policies import DecideOptions, Decision, decide_run

KINDS = ("risk-coverage", "reliability", "forest", "deferral", "decision-curve", "cost")


@dataclass(frozen=True, slots=True)
class FigureOptions:
    """What is drawn and how; ``width`` is in millimetres, for print; ``metrics`` for a forest."""

    kind: str = "risk-coverage"
    style: str = "screen"
    width: float | None = None
    title: str = ""
    metrics: Sequence[str] = ()

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise UnknownName.among("kind of figure", self.kind, KINDS)
        if self.metrics and self.kind != "forest":
            raise InvalidValue(f"--metric chooses the panels of a forest, not of {self.kind}")
        style_of(self.style, self.width)


def runs_figure(
    runs: Mapping[str, BenchmarkResult], options: FigureOptions | None = None
) -> Figure:
    """Draw runs on the same cases as one figure; the names of the mapping are shown.

    A run that cannot be drawn is named in the figure with the reason.
    """
    chosen = options or FigureOptions()
    if not 1 <= len(runs) <= MOST_RUNS:
        raise InvalidValue(f"a figure has 1 to {MOST_RUNS} runs, not {len(runs)}; name fewer runs")
    refuse_other_data(runs)
    runs = {_reader_name(name, run): run for name, run in runs.items()}
    empty = [name for name, run in runs.items() if not run.rows]
    if empty and chosen.kind != "forest":
        raise InvalidFile(
            f"{', '.join(empty)} has scores but no rows, which --kind {chosen.kind} needs; name "
            "the run or the full result, or draw --kind forest"
        )
    style = style_of(chosen.style, chosen.width)
    spec = _spec(runs, chosen, style)
    if not spec.table:
        why = "; ".join(f"{name}: {reason}" for name, reason in spec.reasons.items())
        raise InvalidValue(f"no run can be drawn as {chosen.kind} ({why}); choose another --kind")
    return spec.figure(style, about=[about_runs(runs)], title=chosen.title)


def _spec(runs: Mapping[str, BenchmarkResult], options: FigureOptions, style: Style) -> FigureSpec:
    if options.kind == "risk-coverage":
        curves, reasons = run_curves(runs)
        return risk_coverage(curves, style, reasons=reasons)
    if options.kind == "reliability":
        return reliability(runs, style)
    if options.kind == "forest":
        return forest(runs, style, options.metrics)
    if options.kind == "deferral":
        return deferral(runs, style)
    drawn, reasons = dict[str, DecisionCurve | Decision](), dict[str, str]()
    first: Costs | None = None
    for name, run in runs.items():
        try:
            items = items_of_result(run, source_of(run))
            costs = items.table.answers.costs
            if options.kind == "cost" and not costs.same(first := first or costs):
                raise InvalidValue("it is judged by other costs")
            drawn[name] = _decided(items, options.kind)
        except UserError as error:
            reasons[name] = str(error).partition(";")[0]
    return replace(_of_decisions(drawn, style), reasons=reasons)


def _decided(run: RunItems, kind: str) -> DecisionCurve | Decision:
    # A figure is no judgement: it says how many cases were not evaluated.
    score = ScoreOptions(max_not_evaluated=1.0)
    if kind == "decision-curve":
        return decision_curve(run, CurveOptions(score=score))
    return decide_run(run, DecideOptions(score=score))


def _of_decisions(drawn: Mapping[str, DecisionCurve | Decision], style: Style) -> FigureSpec:
    curves = {name: one for name, one in drawn.items() if isinstance(one, DecisionCurve)}
    prices = {name: one for name, one in drawn.items() if isinstance(one, Decision)}
    return net_benefit(curves, style) if curves else cost(prices, style)


def _reader_name(name: str, run: BenchmarkResult) -> str:
    """Return the name of a run; that of a reader says how many of the cases they read."""
    read = run.suite.read
    return f"{name} (read {read})" if read else name

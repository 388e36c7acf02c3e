"""The charts of a decision: costs over coverage, net benefit, and the errors of a team."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace

from krisis.json_values import JsonObject
from krisis.pages.charts.curves import MOST_OVERLAID, drawn_lines, plotted
from krisis.pages.charts.spec import FigureSpec, nothing_to_draw
from krisis.pages.figure import Chart, alt, data, percent_axis, unit_scale
from krisis.pages.numbers import Estimate, count, figure, given, share
from krisis.pages.palette import ABSTAINED, CORRECT, INK, REFERENCE, WRONG
from krisis.pages.style import Mark, Series, Style, series
from krisis.statistics.intervals import level_name
from krisis.verbs.decide.curve import ALL, DEFERRAL, MODEL, NONE, DecisionCurve, useful_ranges
from krisis.verbs.decide.policies import Decision, Policy
from krisis.verbs.decide.team import PER

_STRATEGIES = {
    ALL: Series(REFERENCE, (7, 3)),
    NONE: Series(WRONG, (2, 2)),
    MODEL: Series(CORRECT),
    DEFERRAL: Series(ABSTAINED, (9, 3, 2, 3)),
}
# Treating all costs without bound as the threshold nears 1: below this the chart is cut.
_LOWEST = 0.3


def net_benefit(curves: Mapping[str, DecisionCurve], style: Style) -> FigureSpec:
    """Draw the net benefit of every strategy of one run, or of the models of several runs."""
    lines: dict[str, list[JsonObject]] = {}
    first = next(iter(curves.values()))
    alone = len(curves) == 1
    for name, curve in curves.items():
        for strategy, points in curve.curves.items():
            shared = strategy in (ALL, NONE)
            if (shared and strategy in lines) or not (alone or shared or strategy == curve.last):
                continue  # all runs share the cases, so they share both constant strategies
            banded = not shared and len(curves) <= MOST_OVERLAID
            lines[strategy if alone or shared else name] = [
                {
                    "strategy": strategy if alone or shared else name,
                    "threshold": point.threshold,
                    "net benefit": point.net_benefit,
                    "low": point.low if banded else None,
                    "high": point.high if banded else None,
                    "standardized": point.standardized,
                }
                for point in points
            ]
    own = series(name for name in lines if name not in (ALL, NONE))
    marks = {name: _STRATEGIES.get(name) or own[name] for name in lines}
    lowest = -_LOWEST * first.prevalence
    percent = level_name(one.options.level for one in curves.values())

    def draw(width: float) -> Chart:
        ends = alt.Scale(domain=[lowest, first.prevalence * 1.05], nice=False)
        return plotted(
            drawn_lines(lines, marks, style, "threshold", "net benefit"),
            alt.X(scale=unit_scale(), axis=alt.Axis(title="threshold probability")),
            alt.Y(scale=ends, axis=alt.Axis(title="net benefit")),
            width,
        )

    return FigureSpec(
        name="decision_curve",
        title=_benefit_finding(curves),
        reading=(
            "At a threshold of 0.2 four false alarms weigh as much as one case found; further "
            "right, false alarms weigh more. The highest line is the best strategy there; bands "
            f"are {percent} intervals at one threshold at a time."
        ),
        draw=draw,
        table=[row for rows in lines.values() for row in rows],
        key=[Mark("line", marks[name], name) for name in lines],
        notes=[f"Bands: {percent} intervals at each threshold, by patient."],
        needs_key=True,
    )


def _benefit_finding(curves: Mapping[str, DecisionCurve]) -> str:
    found = {
        name: " and ".join(
            given(low) if low == high else f"{given(low)} to {given(high)}"
            for low, high in useful_ranges(one)
        )
        for name, one in curves.items()
    }
    better = "better than treating all and none"
    if len(found) > 1:
        names = [name for name, where in found.items() if where]
        return f"Shown to be {better} at some threshold: {', '.join(names) or 'no model'}"
    (where,) = found.values()
    return f"Shown to be {better} at thresholds {where}" if where else f"Not shown to be {better}"


def cost(decisions: Mapping[str, Decision], style: Style) -> FigureSpec:
    """Draw what every threshold costs: of one run also the other policies, as points."""
    if not decisions:
        return nothing_to_draw("costs", "No run can be priced")
    first, alone = next(iter(decisions.values())), len(decisions) == 1
    lines = {
        name: [
            _cost_point(p, "threshold" if alone else name, banded=len(decisions) <= MOST_OVERLAID)
            for p in one.curve
        ]
        for name, one in decisions.items()
    }
    marks = series(lines)
    policies = [one for one in first.policies if not one.reason] if alone else []
    points = [_cost_point(policy, policy.name) for policy in policies]
    looks = {
        policy.name: replace(one, tone=REFERENCE if policy.kind == "baseline" else INK)
        for policy, one in zip(
            policies, series(map(str, range(len(policies)))).values(), strict=True
        )
    }
    percent = level_name(one.options.level for one in decisions.values())

    def draw(width: float) -> Chart:
        places = {"x": alt.X("coverage:Q"), "y": alt.Y("cost:Q")}
        single = [
            alt.Chart(data([row])).mark_point(**style.point(looks[row["policy"]])).encode(**places)
            for row in points
        ]
        drawn = drawn_lines(lines, marks, style, "coverage", "cost")
        return plotted(
            [*drawn, *single], coverage_axis(), alt.Y(axis=alt.Axis(title="mean cost")), width
        )

    threshold = "a threshold on the confidence"
    return FigureSpec(
        name="costs",
        title=_cost_finding(decisions),
        reading=(
            "From left to right less confident answers are accepted; low is good. Bands are the "
            f"{percent} intervals at each threshold"
            + ("; points are single policies and baselines." if alone else ".")
        ),
        draw=draw,
        table=[*(row for rows in lines.values() for row in rows), *points],
        key=[
            *(Mark("line", one, threshold if alone else name) for name, one in marks.items()),
            *(Mark("dot", one, name) for name, one in looks.items()),
        ],
        notes=[f"Bands: {percent} intervals at each threshold, by patient."],
        needs_key=True,
    )


def coverage_axis() -> Chart:
    """Return the axis of coverage, from nothing to all."""
    return alt.X(scale=unit_scale(), axis=percent_axis(title="coverage"))


def _cost_finding(decisions: Mapping[str, Decision]) -> str:
    """Name the cheapest policy; of several runs, the cheapest that each may choose."""
    found = [
        (policy.cost, policy, name, one.options.level)
        for name, one in decisions.items()
        for policy in one.policies
        if not policy.reason
        if len(decisions) == 1 or policy.kind != "baseline"
    ]
    if not found:
        return "No policy can be priced"
    _, best, name, level = min(found, key=lambda one: one[0])
    estimate = Estimate(best.cost, best.low, best.high, level)
    whose = best.name if len(decisions) == 1 else f"{name}, {best.name}"
    return f"Lowest cost: {whose}, {figure(estimate)} per case"


def _cost_point(policy: Policy, name: str, *, banded: bool = True) -> JsonObject:
    known = banded and not math.isnan(policy.low)
    return {
        "policy": name,
        "threshold": policy.threshold,
        "coverage": policy.coverage,
        "cost": policy.cost,
        "low": policy.low if known else None,
        "high": policy.high if known else None,
        "effective_rows": policy.effective_rows,
    }


def team_errors(decision: Decision, style: Style) -> FigureSpec:
    """Draw the wrong final answers of model and readers together over coverage."""
    rows: list[JsonObject] = [
        {
            "threshold": point.threshold,
            "coverage": point.coverage,
            "wrong": work.wrong,
            "low": work.wrong_low,
            "high": work.wrong_high,
            "missed": work.missed if not math.isnan(work.missed) else None,
            "read": work.read,
        }
        for point in decision.curve
        if (work := point.workload) is not None
    ]
    per = f"per {count(PER)} {decision.run.words[1]}s"
    best = min(rows, key=lambda row: row["wrong"], default=None)
    title = "Model and readers together"
    if best is not None:
        fewest = f"{figure(Estimate(best['wrong']))} wrong {per}"
        where = f"{share(Estimate(best['coverage']))} coverage"
        title = f"Model and readers: fewest errors at {where}, {fewest}"

    def draw(width: float) -> Chart:
        layers = drawn_lines({"": rows}, {"": Series(WRONG)}, style, "coverage", "wrong")
        return plotted(layers, coverage_axis(), alt.Y(axis=alt.Axis(title=f"wrong {per}")), width)

    percent = level_name([decision.options.level])
    return FigureSpec(
        name="team",
        title=title,
        reading=(
            "From left to right less confident answers are accepted and fewer cases are read. The "
            f"line counts wrong final answers, with the {percent} interval at each threshold."
        ),
        draw=draw,
        table=rows,
        key=[Mark("line", Series(WRONG), "wrong final answers")],
    )

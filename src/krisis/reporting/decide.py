"""A decision in a report: cost over coverage with its band, all policies, and the team's work."""

from __future__ import annotations

import math
from collections.abc import Sequence

from krisis.decisions.costs import PER
from krisis.decisions.decide import Decision, Policy
from krisis.decisions.decide_text import (
    assumptions,
    best_lines,
    decide_opening,
    exact,
    number,
    shown_points,
)
from krisis.json_values import JsonObject
from krisis.pages.figure import Chart, Figure, alt, data, unit_scale
from krisis.pages.palette import CORRECT, INK, REFERENCE, WRONG
from krisis.reporting.report import Section

_SHAPES = ("circle", "square", "cross", "diamond", "triangle-up", "triangle-down")
_READING = (
    "From left to right less confident answers are accepted. The band is the interval at each "
    "threshold; points are single policies and baselines. Low is good."
)
_TEAM_READING = (
    "From left to right less confident answers are accepted and fewer cases are read. Wrong final "
    "answers of model and readers together, with the interval at each threshold."
)


def decide_section(decision: Decision) -> Section:
    """Return the section of a report that shows what a run costs."""
    figures = [cost_figure(decision)]
    tables = {
        "Policies": [_row(p, decision.options.level) for p in decision.policies],
        "What follows": [{"": line} for line in best_lines(decision)],
    }
    if decision.options.team is not None:
        figures.append(team_figure(decision))
        tables[f"Model and readers, per {PER:,} {decision.run.words[1]}s"] = [
            _team_row(p) for p in shown_points(decision.curve)
        ]
    tables["Assumptions"] = [{"": line} for line in assumptions(decision)]
    return Section(
        "costs",
        "Costs",
        figures,
        "No row was answered or abstained on.",
        words=" ".join(decide_opening(decision)),
        tables=tables,
    )


def _row(policy: Policy, level: float) -> JsonObject:
    interval = f"{number(policy.low)} to {number(policy.high)}"
    return {
        "policy": policy.name,
        "answered": f"{policy.n_answered} of {policy.n_rows}" if policy.n_rows else "",
        "effective rows": f"{policy.effective_rows:.1f}" if policy.n_rows else "",
        "coverage": "" if math.isnan(policy.coverage) else f"{100 * policy.coverage:.1f} %",
        f"cost per {PER:,}": number(policy.cost),
        f"{100 * level:g} % interval": policy.reason or interval,
    }


def _team_row(point: Policy) -> JsonObject:
    work = point.workload
    if work is None:
        return {}
    return {
        "threshold": "defer all" if point.threshold is None else f"≥ {exact(point.threshold)}",
        "coverage": f"{100 * point.coverage:.1f} %",
        "wrong": f"{number(work.wrong)} ({number(work.wrong_low)} to {number(work.wrong_high)})",
        "missed": number(work.missed),
        "read": number(work.read),
    }


def cost_figure(decision: Decision) -> Figure:
    """Draw cost over coverage with the band, the policies and the baselines."""
    unit = decision.options.costs.unit
    curve = [_point(policy, "threshold") for policy in decision.curve]
    points = [_point(policy, policy.name) for policy in decision.policies if not policy.reason]
    x = alt.X("coverage:Q", title="coverage", scale=unit_scale())
    title = f"{unit} per {PER:,} {decision.run.words[1]}s"
    y = alt.Y("cost:Q", title=title)
    names = [point["policy"] for point in points]
    tones = [str(REFERENCE if name.startswith("baseline") else INK) for name in names]
    shapes = [_SHAPES[index % len(_SHAPES)] for index in range(len(names))]
    legend = alt.Legend(orient="bottom", columns=2, columnPadding=40, labelLimit=240)
    shown = {"title": None, "legend": legend}
    shape = alt.Shape("policy:N", scale=alt.Scale(domain=names, range=shapes), **shown)
    tone = alt.Color("policy:N", scale=alt.Scale(domain=names, range=tones), **shown)
    drawn = alt.Chart(data(points)).mark_point(filled=True, size=90)
    chart = alt.layer(
        *_line_with_band(curve, x, "cost", title), drawn.encode(x=x, y=y, shape=shape, color=tone)
    )
    name = "Expected cost over coverage"
    properties = chart.properties(title=name, width=420, height=260)
    return Figure("costs", name, _READING, properties, [*curve, *points])


def _point(policy: Policy, name: str) -> JsonObject:
    return {
        "policy": name,
        "threshold": policy.threshold,
        "coverage": policy.coverage,
        "cost": policy.cost,
        "low": policy.low,
        "high": policy.high,
        "effective_rows": policy.effective_rows,
    }


def _line_with_band(rows: Sequence[JsonObject], x: Chart, name: str, title: str) -> list[Chart]:
    drawn, tone = alt.Chart(data(rows)), str(WRONG if name == "wrong" else CORRECT)
    low, y = alt.Y("low:Q", title=title), alt.Y(f"{name}:Q", title=title)
    return [
        drawn.mark_area(opacity=0.18, color=tone).encode(x=x, y=low, y2="high:Q"),
        drawn.mark_line(strokeWidth=2, color=tone).encode(x=x, y=y),
    ]


def team_figure(decision: Decision) -> Figure:
    """Draw the wrong final answers over coverage."""
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
    x = alt.X("coverage:Q", title="coverage", scale=unit_scale())
    per = f"per {PER:,} {decision.run.words[1]}s"
    title = "Model and readers together"
    chart = alt.layer(*_line_with_band(rows, x, "wrong", f"wrong {per}"))
    properties = chart.properties(title=title, width=420, height=160)
    return Figure("team", title, _TEAM_READING, properties, rows)

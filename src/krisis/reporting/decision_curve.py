"""A decision curve in a report: the net benefit of every strategy over threshold probabilities."""

from __future__ import annotations

from krisis.decisions.decision_curve import (
    ALL,
    DEFERRAL,
    MODEL,
    NONE,
    DecisionCurve,
)
from krisis.json_values import JsonObject
from krisis.pages.figure import Figure, alt, data, unit_scale
from krisis.pages.palette import ABSTAINED, CORRECT, REFERENCE, WRONG
from krisis.reporting.report import Section, tables_of

_READING = (
    "From left to right more false alarms are too many: at a threshold of 0.2, four false alarms "
    "weigh as much as one case found. The highest line is the best strategy there; the bands are "
    "intervals at one threshold at a time."
)
_TONES = {ALL: REFERENCE, NONE: WRONG, MODEL: CORRECT, DEFERRAL: ABSTAINED}
# Treating all costs without bound as the threshold nears 1: below this the chart is cut.
_LOWEST = 0.3


def decision_curve_section(curve: DecisionCurve) -> Section:
    """Return the section of a report that shows a decision curve."""
    document = curve.document()
    return Section(
        "decision-curve",
        "Decision curve",
        [decision_curve_figure(curve)],
        "There is no curve.",
        words=" ".join(document.lead),
        tables=tables_of(document),
    )


def decision_curve_figure(curve: DecisionCurve) -> Figure:
    """Draw net benefit over the threshold probability, with bands for the model."""
    points: list[JsonObject] = [
        {
            "strategy": name,
            "threshold": point.threshold,
            "net benefit": point.net_benefit,
            "low": point.low,
            "high": point.high,
            "standardized": point.standardized,
        }
        for name, strategy in curve.curves.items()
        for point in strategy
    ]
    lowest = -_LOWEST * curve.prevalence
    names = list(curve.curves)
    colour = alt.Color(
        "strategy:N",
        title=None,
        legend=alt.Legend(orient="bottom", symbolType="stroke", symbolOpacity=1),
        scale=alt.Scale(domain=names, range=[str(_TONES[name]) for name in names]),
    )
    x = alt.X("threshold:Q", title="threshold probability", scale=unit_scale())
    ends = alt.Scale(domain=[lowest, curve.prevalence * 1.05], clamp=True, nice=False)
    y = alt.Y("net benefit:Q", title="net benefit", scale=ends)
    banded = [point for point in points if point["strategy"] in (MODEL, DEFERRAL)]
    bands = alt.Chart(data(banded)).mark_area(opacity=0.15)
    lines = alt.Chart(data([p for p in points if p["net benefit"] >= lowest]))
    chart = alt.layer(
        bands.encode(x=x, y=alt.Y("low:Q", scale=ends), y2="high:Q", color=colour),
        lines.mark_line(strokeWidth=2).encode(x=x, y=y, color=colour),
    )
    title = "Net benefit of treating by the model, all and none"
    shown = chart.properties(title=title, width=420, height=260)
    return Figure("decision-curve", title, _READING, shown, points)

"""Charts of selective prediction: risk and generalized risk over coverage, with their bands."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from krisis.json_values import JsonObject
from krisis.metrics.curve_form import curve_of, optimal_of
from krisis.metrics.risk_band import BandPoint, risk_band
from krisis.metrics.risk_coverage import RiskCoverageCurve, spread_evenly
from krisis.metrics.table import IntArray, Loss, Table
from krisis.pages.figure import Chart, Figure, alt, data, unit_scale
from krisis.pages.palette import CORRECT, MUTED, REFERENCE, WRONG
from krisis.statistics.bootstrap import BootstrapOptions

# Enough points for a smooth line; every working point beyond would be under the pen's width.
_MOST_POINTS = 400
_READING = (
    "From left to right less confident answers are accepted. Low is good; the line of the optimum "
    "ranks every answer by its loss; the vertical rule is Cmax, where all answers are accepted."
)


@dataclass(frozen=True, slots=True)
class NamedCurve:
    """A curve with its name, the best possible curve and the intervals along it."""

    name: str
    curve: RiskCoverageCurve
    optimal: RiskCoverageCurve
    band: Sequence[BandPoint] = ()


def named_curve(
    name: str, table: Table, loss: Loss, *, options: BootstrapOptions | None
) -> NamedCurve:
    """Return the curve of a table; without options, or with a single patient, it has no band."""
    curve, best = (
        whole.thinned(thinned(whole.n_accepted.size))
        for whole in (curve_of(table, loss), optimal_of(table, loss))
    )
    if options is None or table.patients.n < 2:
        return NamedCurve(name, curve, best)
    return NamedCurve(name, curve, best, risk_band(table, loss=loss, options=options))


def risk_coverage_figure(curves: Sequence[NamedCurve]) -> Figure:
    """Draw selective and generalized risk of one or more curves side by side."""
    table = [row for curve in curves for row in _points(curve)]
    bands = [row for curve in curves for row in _band(curve)]
    panels = [
        _panel(table, bands, curves, measure) for measure in ("selective risk", "generalized risk")
    ]
    chart = alt.hconcat(*panels, spacing=28).resolve_scale(color="shared")
    title = "Risk and coverage"
    return Figure("risk_coverage", title, _READING, chart.properties(title=title), table)


def _points(named: NamedCurve) -> list[JsonObject]:
    rows = []
    for kind, whole in (("confidence", named.curve), ("optimal", named.optimal)):
        if whole.n_accepted.size == 0:
            continue
        curve = whole.thinned(thinned(whole.n_accepted.size))
        start = {"coverage": 0.0, "selective risk": float(curve.selective_risk[0])}
        points = [{**start, "generalized risk": 0.0, "threshold": None, "working point": False}]
        points += [
            {
                "coverage": float(curve.coverage[index]),
                "selective risk": float(curve.selective_risk[index]),
                "generalized risk": float(curve.generalized_risk[index]),
                "threshold": float(curve.threshold[index]),
                "working point": kind == "confidence",
            }
            for index in range(curve.n_accepted.size)
        ]
        series = named.name if kind == "confidence" else "optimal"
        rows += [{"series": series, "curve": named.name, "kind": kind, **p} for p in points]
    return rows


def thinned(n_points: int) -> IntArray:
    """Return which working points are drawn: all, or evenly chosen ones of very many."""
    return spread_evenly(n_points, _MOST_POINTS)


def _band(named: NamedCurve) -> list[JsonObject]:
    rows = []
    for point in named.band:
        place = {"series": named.name, "coverage": point.coverage}
        for measure, ends in (
            ("selective risk", point.selective),
            ("generalized risk", point.generalized),
        ):
            rows.append({**place, "measure": measure, "low": ends.low, "high": ends.high})
    return rows


def _panel(
    table: Sequence[JsonObject],
    bands: Sequence[JsonObject],
    curves: Sequence[NamedCurve],
    measure: str,
) -> Chart:
    names = [curve.name for curve in curves]
    tones = [CORRECT, WRONG, REFERENCE]
    colour = alt.Color(
        "series:N",
        title=None,
        legend=alt.Legend(symbolType="stroke", symbolOpacity=1, symbolStrokeWidth=3),
        scale=alt.Scale(
            domain=[*names, "optimal"],
            range=[str(tones[i % len(tones)]) for i in range(len(names))] + [str(MUTED)],
        ),
    )
    x = alt.X("coverage:Q", title="coverage", scale=unit_scale())
    y = alt.Y(f"{measure}:Q", title=measure, scale=alt.Scale(zero=True))
    band = alt.Chart(data([row for row in bands if row["measure"] == measure]))
    lines = alt.Chart(data([row for row in table if row["kind"] == "confidence"]))
    best = alt.Chart(data([row for row in table if row["kind"] == "optimal"]))
    layers = [
        band.mark_area(opacity=0.16).encode(
            x=x, y=alt.Y("low:Q", title=measure), y2="high:Q", color=colour
        ),
        best.mark_line(strokeDash=[4, 3], strokeWidth=1.5).encode(
            x=x, y=y, color=colour, detail="curve:N"
        ),
        lines.mark_line(strokeWidth=2).encode(x=x, y=y, color=colour),
        *(_working_points(table, name, (x, y, colour)) for name in names),
        *_cmax_marks(curves, x),
    ]
    return alt.layer(*layers).properties(width=330, height=260)


def _working_points(
    table: Sequence[JsonObject], name: str, channels: tuple[Chart, Chart, Chart]
) -> Chart:
    """Mark the points where a threshold can stand; of very many only a hint of each."""
    x, y, colour = channels
    points = [row for row in table if row["series"] == name and row["working point"]]
    shown = ["series:N", "coverage:Q", "selective risk:Q", "generalized risk:Q", "threshold:Q"]
    mark = alt.Chart(data(points)).mark_point(filled=True, size=45 if len(points) <= 60 else 4)
    return mark.encode(x=x, y=y, color=colour, tooltip=shown)


def _cmax_marks(curves: Sequence[NamedCurve], x: Chart) -> list[Chart]:
    places = [{"coverage": cmax, "label": "Cmax"} for cmax in {c.curve.cmax for c in curves}]
    chart = alt.Chart(data(places))
    return [
        chart.mark_rule(strokeDash=[2, 2], color=str(MUTED)).encode(x=x),
        chart.mark_text(align="left", dx=4, y=8, color=str(MUTED)).encode(x=x, text="label:N"),
    ]

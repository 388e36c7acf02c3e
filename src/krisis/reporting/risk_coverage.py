"""Charts of selective prediction: risk and generalized risk over coverage, with their bands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from krisis.json_values import JsonObject
from krisis.metrics.risk_coverage import (
    RiskCoverageCurve,
    optimal_curve,
    risk_coverage_curve,
    spread_evenly,
)
from krisis.metrics.table import FloatArray, IntArray
from krisis.metrics.weighted_curve import CurveItems, curve_paths
from krisis.reporting.figure import Chart, Figure, alt, data, unit_scale
from krisis.reporting.palette import CORRECT, MUTED, REFERENCE, WRONG
from krisis.statistics.bootstrap import BootstrapOptions, resample_counts

# Enough points for a smooth line; every working point beyond would be under the pen's width.
_MOST_POINTS = 400
_N_BAND_POINTS = 40
_BAND_RESAMPLES = 1000
_READING = (
    "From left to right less confident answers are accepted. Low is good; the line of the optimum "
    "ranks every answer by its loss; the vertical rule is Cmax, where all answers are accepted."
)


@dataclass(frozen=True, slots=True)
class NamedCurve:
    """A curve with its name, the best possible curve and the band of its resamples."""

    name: str
    curve: RiskCoverageCurve
    optimal: RiskCoverageCurve
    band: Sequence[Mapping[str, float]] = ()


def named_curve(name: str, items: CurveItems) -> NamedCurve:
    """Return the curve of items with a 95 % band from resampled clusters."""
    n_items = int(items.items_per_cluster.sum())
    curve, best = (
        whole.thinned(thinned(whole.n_accepted.size))
        for whole in (
            risk_coverage_curve(items.losses, items.confidence, n_items),
            optimal_curve(items.losses, n_items),
        )
    )
    options = BootstrapOptions(n_resamples=_BAND_RESAMPLES)
    return NamedCurve(name, curve, best, risk_band(items, curve.cmax, options=options))


def risk_band(
    items: CurveItems, cmax: float, *, options: BootstrapOptions
) -> list[dict[str, float]]:
    """Return, over a grid of coverages, the middle 95 % of the resampled curves."""
    n_clusters = items.items_per_cluster.size
    if items.losses.size == 0 or n_clusters < 2:
        return []
    grid = np.linspace(cmax / _N_BAND_POINTS, cmax, _N_BAND_POINTS)
    drawn = _coarsened(items)
    parts = []
    for counts in resample_counts(n_clusters, options):
        accepted, lost = curve_paths(drawn, counts)
        n_items = items.items_per_cluster @ counts
        paths = zip(accepted.T, lost.T, n_items, strict=True)
        parts.append([_risk_on(grid, *path) for path in paths])
    risks = np.concatenate(parts)
    rows = []
    for index, coverage in enumerate(grid.tolist()):
        valid = risks[~np.isnan(risks[:, index]), index]
        # A band of the few resamples that reach so far would be one of lucky ones.
        if valid.size >= 0.5 * len(risks):
            low, high = np.quantile(valid, [0.025, 0.975])
            rows.append({"coverage": coverage, "low": float(low), "high": float(high)})
    return rows


def _risk_on(
    grid: FloatArray, accepted: FloatArray, lost: FloatArray, n_items: float
) -> FloatArray:
    """Return one resample's selective risk on a grid of coverages; NaN beyond its Cmax."""
    known = accepted > 0
    if not known.any():
        return np.full(grid.size, np.nan)
    coverage = accepted[known] / n_items
    return np.interp(grid, coverage, lost[known] / accepted[known], right=np.nan)


def _coarsened(items: CurveItems) -> CurveItems:
    """Group many confidences into few levels: no eye tells the bands apart."""
    if np.unique(items.confidence).size <= _MOST_POINTS:
        return items
    edges = np.quantile(items.confidence, np.linspace(0, 1, _MOST_POINTS + 1)[1:-1])
    level = np.searchsorted(edges, items.confidence).astype(np.float64)
    return replace(items, confidence=level)


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
    for row in named.band:
        for measure, factor in (("selective risk", 1.0), ("generalized risk", row["coverage"])):
            ends = {"low": row["low"] * factor, "high": row["high"] * factor}
            place = {"series": named.name, "measure": measure, "coverage": row["coverage"]}
            rows.append({**place, **ends})
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

"""Risk against coverage for the report: what deferring the least sure answers would gain."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from krisis.json_values import JsonObject
from krisis.metrics.curve_form import curve_of, optimal_of
from krisis.metrics.risk_band import BandPoint, evenly_covering, risk_band
from krisis.metrics.risk_coverage import RiskCoverageCurve
from krisis.metrics.table import IntArray, Table
from krisis.pages.figure import Chart, Figure, Mark, alt, data, percent_axis, unit_scale
from krisis.pages.palette import INK, MUTED, REFERENCE, SURFACE, WRONG, Tone
from krisis.statistics.bootstrap import BootstrapOptions
from krisis.statistics.intervals import DEFAULT_LEVEL, level_name

N_POINTS = 300
MODEL, BEST = "this model", "best possible ranking"
KEPT_ERRORS = "errors among the answers kept"


def run_curve(table: Table) -> RiskCoverageCurve | None:
    """Return the curve of a run; None where nothing was answered or a confidence is missing."""
    answered = table.answered
    if not answered.any() or np.isnan(table.confidence[answered]).any():
        return None
    return curve_of(table, "error")


def curve_points(curve: RiskCoverageCurve) -> list[dict[str, float]]:
    """Return the working points, thinned out evenly in coverage where there are very many."""
    return points_at(curve, evenly_covering(curve, N_POINTS))


def points_at(curve: RiskCoverageCurve, kept: IntArray) -> list[dict[str, float]]:
    """Return some working points of a curve."""
    names = ("coverage", "selective_risk", "generalized_risk", "threshold")
    columns = [getattr(curve, name)[kept].tolist() for name in names]
    return [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]


def band_rows(band: Sequence[BandPoint]) -> list[dict[str, float]]:
    """Return the ends of both risks as rows of a chart."""
    return [
        {
            "coverage": point.coverage,
            "selective_low": point.selective.low,
            "selective_high": point.selective.high,
            "generalized_low": point.generalized.low,
            "generalized_high": point.generalized.high,
        }
        for point in band
    ]


def risk_figures(table: Table, level: float = DEFAULT_LEVEL) -> list[Figure]:
    """Draw selective and generalized risk against coverage, with band, optimum and Cmax."""
    curve = run_curve(table)
    if curve is None:
        return []
    best = optimal_of(table, "error")
    band = band_rows(risk_band(table, options=BootstrapOptions(level=level)))
    return [
        _figure("selective", curve, best, band=band, level=level),
        _figure("generalized", curve, best, band=band, level=level),
    ]


_WORDS = {
    "selective": (
        "Risk–coverage: is it wrong less often when surer?",
        KEPT_ERRORS,
        (
            "Keep only the answers above a confidence: coverage is what is left, risk the share of "
            "errors in it. If confidence is useful, risk falls to the left. The dashed line is the "
            "same answers in the best order, the band the {percent} interval at each threshold; at "
            "Cmax ({cmax}) every answer is kept. AURC {area:.4f}, of which {excess:.4f} could be "
            "avoided by ranking."
        ),
    ),
    "generalized": (
        "Generalized risk: errors per case seen",
        "errors among all cases",
        (
            "The same thresholds with errors counted against all cases, so that a handful of "
            "answers cannot look dangerous or safe by itself. The longer it stays flat, the "
            "better; the dashed line puts every error last. Cmax is {cmax}. AUGRC {area:.4f}, of "
            "which {excess:.4f} could be avoided by ranking."
        ),
    ),
}


_ONE_LEVEL = " All answers state one confidence: the curve is one point, and nothing can be ranked."
_AREA_AND_TONE = {
    "selective": (RiskCoverageCurve.aurc, WRONG),
    "generalized": (RiskCoverageCurve.augrc, REFERENCE),
}


def _figure(
    kind: str,
    curve: RiskCoverageCurve,
    best: RiskCoverageCurve,
    *,
    band: list[dict[str, float]],
    level: float,
) -> Figure:
    percent = level_name([level])
    title, axis, reading = _WORDS[kind]
    area_of, tone = _AREA_AND_TONE[kind]
    area, least = area_of(curve), area_of(best)
    risk = f"{kind}_risk"
    points = curve_points(curve)
    top = max(row[risk] for row in points)
    top = max(top, *(row[f"{kind}_high"] for row in band)) if band else top
    layers = [
        _band_layer(band, kind, str(tone)),
        _line(
            [{**point, "kind": "optimal"} for point in curve_points(best)],
            risk,
            BEST,
            str(MUTED),
            dash=[5, 4],
        ),
        _end_mark(points[-1], risk),
        _line(points, risk, MODEL, str(tone)),
    ]
    chart = alt.layer(*layers).encode(
        x=alt.X(scale=unit_scale(), axis=percent_axis()),
        y=alt.Y(
            scale=alt.Scale(domain=[0, min(1.0, max(0.05, top * 1.08))], nice=False),
            axis=percent_axis(title=axis),
        ),
    )
    words = reading.format(
        cmax=f"{curve.cmax:.1%}", area=area, excess=area - least, percent=percent
    )
    words += _ONE_LEVEL if len(points) == 1 else ""
    drawn = chart.properties(width=420, height=280)
    return Figure(
        f"{kind}_risk",
        title,
        words,
        drawn,
        points,
        key=_key(tone, percent, one_level=len(points) == 1),
    )


def _key(tone: Tone, percent: str, *, one_level: bool) -> list[Mark]:
    model = f"{MODEL}: all answers state one confidence, so there is one point"
    return [
        Mark("dot", tone, model) if one_level else Mark("line", tone, MODEL),
        Mark("dashes", MUTED, f"{BEST} of the same answers"),
        Mark("box", tone, f"{percent} interval at each threshold"),
        *([] if one_level else [Mark("dot", INK, "Cmax: every answer is kept")]),
    ]


def _band_layer(band: list[dict[str, float]], kind: str, tone: str) -> Chart:
    return area_or_bar(band, tone, opacity=0.18).encode(
        x=alt.X("coverage:Q", title="coverage"),
        y=alt.Y(f"{kind}_low:Q"),
        y2=alt.Y2(f"{kind}_high:Q"),
    )


def area_or_bar(
    band: Sequence[JsonObject], tone: str, *, opacity: float, clip: bool = False
) -> Chart:
    """Return the mark of a band: an area between points, of a single one a bar."""
    base = alt.Chart(data(band))
    if len(band) > 1:
        return base.mark_area(color=tone, opacity=opacity, clip=clip)
    return base.mark_rule(color=tone, opacity=2 * opacity, strokeWidth=12, clip=clip)


def _line(
    points: Sequence[JsonObject], risk: str, name: str, tone: str, dash: list[int] | None = None
) -> Chart:
    few = name == MODEL and len(points) <= 40
    size = 28 if len(points) > 1 else 120
    marks = {"point": {"color": tone, "size": size, "filled": True}} if few else {}
    return (
        alt.Chart(data(points))
        .mark_line(color=tone, strokeWidth=2, strokeDash=dash or [1, 0], **marks)
        .encode(x=alt.X("coverage:Q"), y=alt.Y(f"{risk}:Q"))
    )


def _end_mark(point: dict[str, float], risk: str) -> Chart:
    base = alt.Chart(data([{**point, "label": f"Cmax {point['coverage']:.0%}"}]))
    left = point["coverage"] > 0.85
    dot = base.mark_circle(color=str(INK), size=70, opacity=1, stroke=str(SURFACE))
    words = base.mark_text(align="right" if left else "left", dx=-9 if left else 9, dy=-10)
    where = {"x": alt.X("coverage:Q"), "y": alt.Y(f"{risk}:Q")}
    return dot.encode(**where) + words.encode(text=alt.Text("label:N"), **where)

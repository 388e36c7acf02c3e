"""Lines with bands: risk over coverage, net benefit over the threshold, cost over coverage."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from krisis.decisions.sample import Sample
from krisis.json_values import JsonObject
from krisis.metrics.curve_form import curve_of, optimal_of
from krisis.metrics.explanations import reason_words
from krisis.metrics.risk_band import BandPoint, evenly_covering, risk_band
from krisis.metrics.risk_coverage import RiskCoverageCurve, spread_evenly
from krisis.metrics.selective_prediction import WITHOUT_CONFIDENCE
from krisis.metrics.table import IntArray, Loss, Table
from krisis.pages.charts.spec import FigureSpec, grid, level_of, n_columns, panel_titles
from krisis.pages.figure import Chart, alt, data, percent_axis, unit_scale
from krisis.pages.numbers import Estimate, count, figure, level, share
from krisis.pages.palette import CORRECT, GRID, INK, MUTED, WRONG
from krisis.pages.style import Mark, Series, Style, series
from krisis.results.base import BenchmarkResult
from krisis.statistics.bootstrap import BootstrapOptions
from krisis.statistics.intervals import level_name

Measure = Literal["selective", "generalized"]
MOST_OVERLAID = 4  # with more, bands hide each other
_MOST_POINTS = 300
_FEW = 40  # points of a line that are drawn one by one
_BAND = 0.15
_FIRST_SHARE = 0.05  # of the first few answers the risk jumps: it does not set the scale
_BEST = Series(MUTED, (5, 4))


# --- Risk over coverage ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class Curve:
    """A named curve: its working points, with the limits of their band where there are any.

    ``best`` are the points of the same answers in the best order; ``areas`` the area of each
    measure and how much of it a better order would avoid.
    """

    name: str
    points: Sequence[JsonObject]
    best: Sequence[JsonObject] = ()
    level: float | None = None
    loss: Loss = "error"
    counts: str = ""
    areas: Mapping[Measure, tuple[float, float]] = field(default_factory=dict)

    @classmethod
    def of(
        cls, name: str, table: Table, *, loss: Loss = "error", options: BootstrapOptions | None
    ) -> Curve:
        """Return the curve of a table; without options, or with a single patient, without band."""
        whole, best = curve_of(table, loss), optimal_of(table, loss)
        has_band = options is not None and table.patients.n > 1
        band = risk_band(table, loss=loss, options=options) if has_band else []
        places = evenly_covering(whole, _MOST_POINTS)
        if band:  # a point of the band is a point of the line
            places = np.union1d(places, evenly_covering(whole, len(band)))
        return cls(
            name=name,
            points=_points(name, whole, places, band),
            best=[
                {**row, "threshold": None}  # no confidence ranks answers in this order
                for row in _points(name, best, evenly_covering(best, _MOST_POINTS))
            ],
            level=options.level if options is not None and band else None,
            loss=loss,
            counts=f"{count(int(table.answered.sum()))} of {count(table.n_scored)} answered",
            areas={
                "selective": (whole.aurc(), whole.aurc() - best.aurc()),
                "generalized": (whole.augrc(), whole.augrc() - best.augrc()),
            },
        )

    @classmethod
    def alone(cls, curve: RiskCoverageCurve) -> Curve:
        """Return a curve of which nothing else is known: no band, no best order, any loss."""
        return cls(
            name="the curve",
            points=_points("the curve", curve, evenly_covering(curve, _MOST_POINTS)),
            loss="abs",
        )

    @property
    def one_point(self) -> bool:
        """Tell whether all answers state one confidence, so that nothing can be ranked."""
        return len(self.points) == 1

    def risk_at(self, coverage: float) -> float:
        """Return the selective risk of the first working point that covers as much."""
        reached = (p["selective_risk"] for p in self.points if p["coverage"] >= coverage - 1e-9)
        return float(next(reached, self.points[-1]["selective_risk"]))


def _points(
    name: str, curve: RiskCoverageCurve, places: IntArray, band: Sequence[BandPoint] = ()
) -> list[JsonObject]:
    """Return working points of a curve, each with its limits where the band has it."""
    limits = {point.threshold: point for point in band}
    names = ("coverage", "selective_risk", "generalized_risk", "threshold")
    columns = [getattr(curve, column)[places].tolist() for column in names]
    found = []
    for values in zip(*columns, strict=True):
        row: JsonObject = {"run": name, **dict(zip(names, values, strict=True))}
        ends = limits.get(row["threshold"])
        for measure in ("selective", "generalized"):
            interval = getattr(ends, measure) if ends is not None else None
            known = interval is not None and interval.defined
            row |= {f"{measure}_{end}": getattr(interval, end) if known else None for end in ENDS}
        found.append(row)
    return found


ENDS = ("low", "high")


def run_curves(
    runs: Mapping[str, BenchmarkResult],
) -> tuple[dict[str, Curve], dict[str, str]]:
    """Return the curves of runs at the level of their scores, and why others have none."""
    tables = {name: run.rows.table for name, run in runs.items()}
    reasons = {name: why for name, table in tables.items() if (why := not_drawable(table))}
    curves = {
        name: Curve.of(
            name, table, options=BootstrapOptions(level=level_of(runs[name].metric_scores))
        )
        for name, table in tables.items()
        if name not in reasons
    }
    return curves, reasons


def risk_coverage_of_runs(runs: Mapping[str, BenchmarkResult], style: Style) -> FigureSpec:
    """Draw the curves of runs, and say why others have none."""
    curves, reasons = run_curves(runs)
    return risk_coverage(curves, style, reasons=reasons)


def not_drawable(table: Table) -> str:
    """Return why a run has no chart of its confidence, or nothing."""
    if not table.answered.any():
        return reason_words("no_answered_rows")
    stated = ~np.isnan(table.confidence[table.answered])
    if not stated.any():
        return reason_words("no_rows_with_confidence")
    return "" if stated.all() else reason_words(WITHOUT_CONFIDENCE)


def risk_coverage(
    curves: Mapping[str, Curve],
    style: Style,
    *,
    measures: Sequence[Measure] = ("selective",),
    reasons: Mapping[str, str] | None = None,
) -> FigureSpec:
    """Draw the curves of runs: together, or each before the others where there are many.

    Several measures of risk are drawn one under the other; the title is about the first.
    """
    percent = level_name(one.level for one in curves.values() if one.level is not None)
    drawn = [CurvePanels(curves, style, one) for one in measures]
    overlaid = len(curves) <= MOST_OVERLAID

    def draw(width: float) -> Chart:
        panels = [one.together(width) if overlaid else one.apart(width) for one in drawn]
        return panels[0] if len(panels) == 1 else alt.vconcat(*panels, spacing=2 * style.font)

    return FigureSpec(
        name="risk_coverage" if measures[0] == "selective" else "generalized_risk",
        title=_risk_finding(list(curves.values()), measures[0]),
        reading=" ".join(_risk_reading(list(curves.values()), one, percent) for one in measures),
        draw=draw,
        table=[row for curve in curves.values() for row in curve.points],
        key=drawn[0].key(percent) if overlaid else (),
        reasons=reasons or {},
        notes=[*_risk_notes(list(curves.values()), percent)],
        needs_key=overlaid and len(curves) > 1,
    )


_AREAS = {"selective": "AURC", "generalized": "AUGRC"}
_KEPT = {
    "selective": (
        "Keep only the answers above a confidence: coverage is the share of cases that is "
        "answered, risk the share of errors in these answers."
    ),
    "generalized": (
        "The same thresholds with errors counted against all cases, so that a handful of answers "
        "cannot look dangerous or safe by itself."
    ),
}


def _risk_reading(curves: Sequence[Curve], measure: Measure, percent: str) -> str:
    parts = [_KEPT[measure]]
    if percent:
        parts.append(f"Bands are {percent} intervals at each threshold.")
    if len(curves) == 1:
        (curve,) = curves
        if curve.best:
            parts.append("The dashed line is the same answers in the best order.")
        area, excess = curve.areas.get(measure, (math.nan, math.nan))
        if not math.isnan(area):
            avoidable = f", of which a better order would avoid {figure(Estimate(excess))}"
            written = f"{_AREAS[measure]} {figure(Estimate(area))}"
            parts.append(f"{written}{'' if curve.one_point else avoidable}.")
    else:
        parts.append(
            "Each curve ends in its mark, where every answer is kept; compare curves at the same "
            "coverage."
        )
    return " ".join(parts)


def _risk_notes(curves: Sequence[Curve], percent: str) -> list[str]:
    bands = f" Bands: {percent} intervals at each threshold, by patient." if percent else ""
    found = [f"Risk: errors among the answers kept.{bands} Mark: every answer is kept."]
    if any(curve.loss != "error" for curve in curves):
        found = [f"Risk: mean loss of the answers kept.{bands} Mark: every answer is kept."]
    if names := [curve.name for curve in curves if curve.one_point]:
        found.append(
            f"All answers state one confidence, so there is one point: {', '.join(names)}."
        )
    return found


def _risk_finding(curves: Sequence[Curve], measure: Measure) -> str:
    """Say what the curves show, in figures of the curves themselves."""
    if not curves:
        return "No curve"

    def written(value: float, curve: Curve) -> str:
        return share(Estimate(value)) if curve.loss == "error" else figure(Estimate(value))

    if len(curves) == 1:
        (curve,) = curves
        last = curve.points[-1]
        lost = "wrong in" if curve.loss == "error" else "mean loss"
        if measure == "generalized":
            value = written(last["generalized_risk"], curve)
            return f"{lost.capitalize()} {value} of all cases when every answer is kept"
        every = f"{lost.capitalize()} {written(last['selective_risk'], curve)} of all answers"
        if curve.one_point:
            return f"{every}; one confidence for all, so nothing can be ranked"
        half = next(p for p in curve.points if p["coverage"] >= last["coverage"] / 2 - 1e-9)
        if half is last:
            return f"{every}; half of them or more state one confidence"
        part = share(Estimate(half["coverage"] / last["coverage"]))
        return f"{every}, {written(half['selective_risk'], curve)} of the most confident {part}"
    coverage = min(0.5, *(curve.points[-1]["coverage"] for curve in curves))
    risks = sorted((curve.risk_at(coverage), curve.name, curve) for curve in curves)
    shown = risks if len(risks) <= 3 else [risks[0], risks[-1]]
    said = [f"{name} {written(risk, curve)}" for risk, name, curve in shown]
    glue = ", " if len(risks) <= 3 else " to "
    return f"Risk at {share(Estimate(coverage))} coverage: {glue.join(said)}"


class CurvePanels:
    """The curves of runs, overlaid or in panels of their own."""

    def __init__(
        self,
        curves: Mapping[str, Curve],
        style: Style,
        measure: Measure,
        *,
        behind: Sequence[JsonObject] | None = None,
        bound: float | None = None,
        chosen: Sequence[JsonObject] = (),
    ) -> None:
        self.curves, self.style, self.behind = curves, style, behind
        self.bound, self.chosen = bound, chosen
        self.y, self.low, self.high = (f"{measure}_{end}" for end in ("risk", "low", "high"))
        self.marks = series(curves)
        losses = {curve.loss for curve in curves.values()}
        self.is_share = losses <= {"error"}
        kept = "errors" if self.is_share else "mean loss"
        among = "all cases" if measure == "generalized" else "the answers kept"
        self.y_title = f"{kept} among {among}"
        # One best order is drawn, where all curves have the same answers to put in order.
        orders = {tuple(p["generalized_risk"] for p in one.best) for one in curves.values()}
        self.best = next(iter(curves.values())).best if len(orders) == 1 else ()

    def key(self, percent: str) -> list[Mark]:
        """Return what the marks mean."""
        if len(self.curves) != 1:
            return [
                Mark("series", self.marks[name], f"{name} ({curve.counts})")
                for name, curve in self.curves.items()
            ]
        ((name, curve),) = self.curves.items()
        one = self.marks[name]
        model = f"{name}: all answers state one confidence, so there is one point"
        return [
            Mark("dot", one, model) if curve.one_point else Mark("line", one, name),
            *([Mark("line", _BEST, "the same answers in the best order")] if self.best else []),
            *([Mark("box", one, f"{percent} interval at each threshold")] if percent else []),
            *([] if curve.one_point else [Mark("dot", Series(INK), "every answer is kept")]),
        ]

    def together(self, width: float) -> Chart:
        """Draw all curves into one panel."""
        layers = [layer for name in self.curves for layer in self._layers(name)]
        if self.best:
            layers.insert(0, _line(self.best, _BEST, self.style, "coverage", self.y, thin=True))
        return self._panel(layers, width, width * 0.62)

    def apart(self, width: float) -> Chart:
        """Draw a panel for every run, the curves of the others behind it in grey."""
        columns = n_columns(self.style, len(self.curves))
        each = width / columns
        titles = {
            name: [*self.style.broken(name, each), *([one.counts] if one.counts else [])]
            for name, one in self.curves.items()
        }
        panels = []
        for name, title in panel_titles(titles, self.style).items():
            drawn = self._panel([self._others(name), *self._layers(name)], each, each * 0.8)
            panels.append(drawn.properties(title=title))
        return grid(panels, self.style)

    def _panel(self, layers: Sequence[Chart], width: float, height: float) -> Chart:
        axis = percent_axis if self.is_share else alt.Axis
        title = self.y_title if width >= 20 * self.style.font else "risk"
        return (
            alt.layer(*layers, *self._limits())
            .encode(
                x=alt.X(scale=unit_scale(), axis=percent_axis(title="coverage")),
                y=alt.Y(scale=self._scale(), axis=axis(title=title)),
            )
            .properties(width=width, height=height)
        )

    def _scale(self) -> Chart:
        rows = [row for curve in self.curves.values() for row in curve.points]
        shown = [row for row in rows if row["coverage"] >= _FIRST_SHARE] or rows
        ends = [row.get(name) for row in shown for name in (self.y, self.high)]
        ends += [*(row[self.y] for row in self.chosen), 1.2 * (self.bound or 0.0), 0.05]
        top = 1.05 * max(end for end in ends if end is not None)
        return alt.Scale(domain=[0, min(1.0, top) if self.is_share else top], nice=False)

    def _layers(self, name: str) -> list[Chart]:
        rows, one = self.curves[name].points, self.marks[name]
        layers = [
            *_band(rows, one, "coverage", self.low, self.high),
            _line(rows, one, self.style, "coverage", self.y, with_points=len(self.curves) == 1),
        ]
        chosen = [row for row in self.chosen if row["run"] == name]
        if self.bound is not None:
            return [*layers, *self._chosen(chosen, one)]
        end = one if len(self.curves) > 1 or len(rows) == 1 else Series(INK)
        last = alt.Chart(data([rows[-1]])).mark_point(**self.style.point(end))
        return [*layers, last.encode(**self._places())]

    def _places(self) -> dict[str, Chart]:
        return {"x": alt.X("coverage:Q"), "y": alt.Y(f"{self.y}:Q")}

    def _chosen(self, rows: Sequence[JsonObject], one: Series) -> list[Chart]:
        """Return the thresholds as large points; those that are only explored are dark."""
        kinds = {True: one, False: Series(INK)}
        found = {kind: [row for row in rows if row["certified"] is kind] for kind in kinds}
        return [
            alt.Chart(data(found[kind]))
            .mark_point(**self.style.point(mark) | {"size": 140})
            .encode(**self._places())
            for kind, mark in kinds.items()
            if found[kind]
        ]

    def _limits(self) -> list[Chart]:
        if self.bound is None:
            return []
        rule = alt.Chart(data([{self.y: self.bound}])).mark_rule(
            strokeDash=[4, 3], color=str(WRONG), strokeWidth=self.style.stroke * 0.75
        )
        return [rule.encode(y=alt.Y(f"{self.y}:Q"))]

    def _others(self, name: str) -> Chart:
        rows = self.behind
        if rows is None:
            others = (one for other, one in self.curves.items() if other != name)
            rows = [row for one in others for row in one.points]
        line = {"color": str(GRID if self.behind is None else MUTED), "clip": True}
        line |= {"strokeWidth": self.style.stroke * (1 if self.behind is None else 0.5)}
        return alt.Chart(data(rows)).mark_line(**line).encode(**self._places(), detail="run:N")


def _band(
    rows: Sequence[JsonObject], one: Series, x: str, low: str = "low", high: str = "high"
) -> list[Chart]:
    """Return a band: an area between points, of a single one a bar."""
    known = [row for row in rows if row.get(low) is not None]
    if not known:
        return []
    base, tone = alt.Chart(data(known)), str(one.tone)
    mark = (
        base.mark_area(color=tone, opacity=_BAND, clip=True)
        if len(known) > 1
        else base.mark_rule(color=tone, opacity=2 * _BAND, strokeWidth=12, clip=True)
    )
    return [mark.encode(x=alt.X(f"{x}:Q"), y=alt.Y(f"{low}:Q"), y2=alt.Y2(f"{high}:Q"))]


def drawn_lines(
    lines: Mapping[str, Sequence[JsonObject]],
    marks: Mapping[str, Series],
    style: Style,
    x: str,
    y: str,
) -> list[Chart]:
    """Return named lines above all of their bands."""
    bands = [band for name, rows in lines.items() for band in _band(rows, marks[name], x)]
    return [*bands, *(_line(rows, marks[name], style, x, y) for name, rows in lines.items())]


def plotted(layers: Sequence[Chart], x: Chart, y: Chart, width: float) -> Chart:
    """Lay drawings over each other on common axes."""
    return alt.layer(*layers).encode(x=x, y=y).properties(width=width, height=width * 0.62)


def _line(
    rows: Sequence[JsonObject],
    one: Series,
    style: Style,
    x: str,
    y: str,
    *,
    thin: bool = False,
    with_points: bool = False,
) -> Chart:
    """Return a line; one of few points may show them."""
    tone = str(one.tone)
    settings: JsonObject = {"color": tone, "strokeDash": list(one.dash), "clip": True}
    settings["strokeWidth"] = style.stroke * (0.75 if thin else 1)
    if with_points and len(rows) <= _FEW:
        size = style.font**2 * (0.2 if len(rows) > 1 else 0.8)
        settings["point"] = {"color": tone, "size": size, "filled": True}
    line = alt.Chart(data(rows)).mark_line(**settings)
    return line.encode(x=alt.X(f"{x}:Q"), y=alt.Y(f"{y}:Q"))


# --- The certified threshold, and the groups of an audit -------------------------------------


def certified(
    risk: float,
    parts: Mapping[str, tuple[Sample, float | None]],
    style: Style,
    *,
    band: Sequence[BandPoint] = (),
    explored: float | None = None,
) -> FigureSpec:
    """Draw the bound on the risk and the certified threshold on the curve of every group.

    Of a single group the ``band`` of the risk can be drawn, and a threshold that is ``explored``.
    """
    curves, chosen = {}, list[JsonObject]()
    for name, (sample, threshold) in parts.items():
        curves[name] = Curve(name=name, points=_sample_points(name, sample, band))
        chosen += _chosen_point(name, sample, threshold, certified=True)
    found = _certified_finding(risk, chosen, len(parts))
    if explored is not None:
        ((name, (sample, _)),) = parts.items()
        chosen += _chosen_point(name, sample, explored, certified=False)
    drawn = CurvePanels(curves, style, "selective", bound=risk, chosen=chosen)
    bound = f"the bound on the risk, {level(risk)}"
    marks = [Mark("series", one, name) for name, one in drawn.marks.items()]
    percent = level_name(one.selective.level for one in band)
    return FigureSpec(
        name="certificate",
        title=found,
        reading=(
            "From left to right less confident answers are accepted. The dashed rule is the bound "
            "on the risk; a large point is a certified threshold."
            + " A dark point is the threshold that is explored." * (explored is not None)
            + f" The band is the {percent} interval at each threshold." * bool(band)
        ),
        draw=drawn.together,
        table=[*(row for one in curves.values() for row in one.points), *chosen],
        key=[
            *(marks if len(parts) > 1 else []),
            Mark("line", Series(WRONG, (4, 3)), bound),
            Mark("dot", Series(CORRECT), "the certified threshold"),
            *([Mark("dot", Series(INK), "the explored threshold")] if explored is not None else []),
        ],
        needs_key=len(parts) > 1,
    )


def _chosen_point(
    name: str, sample: Sample, threshold: float | None, *, certified: bool
) -> list[JsonObject]:
    """Return the place of a threshold on the curve; none where it accepts nothing."""
    accepted = sample.accepts(threshold)
    if not accepted.any():
        return []
    place = {"run": name, "threshold": threshold, "coverage": float(accepted.mean())}
    risk = float(sample.loss[accepted].mean())
    return [{**place, "selective_risk": risk, "certified": certified}]


def _sample_points(name: str, sample: Sample, band: Sequence[BandPoint]) -> list[JsonObject]:
    curve = sample.candidates
    limits = {
        point.threshold: {
            "selective_low": point.selective.low,
            "selective_high": point.selective.high,
        }
        for point in band
        if point.selective.defined
    }
    places = spread_evenly(curve.threshold.size, _MOST_POINTS)
    if limits:  # a point of the band is a point of the line
        places = np.union1d(places, np.flatnonzero(np.isin(curve.threshold, list(limits))))
    return [
        {
            "run": name,
            "threshold": (threshold := float(curve.threshold[at])),
            "coverage": int(curve.n_accepted[at]) / sample.n_rows,
            "selective_risk": curve.risk(at),
            "certified": False,
            **limits.get(threshold, {}),
        }
        for at in places.tolist()
    ]


def _certified_finding(risk: float, chosen: Sequence[JsonObject], n_parts: int) -> str:
    bound = level(risk)
    if not chosen:
        return f"No threshold is certified at a risk of {bound}"
    if n_parts == 1:
        answered = share(Estimate(chosen[0]["coverage"]))
        return f"Certified at a risk of {bound}: {answered} of cases are answered"
    return f"{len(chosen)} of {n_parts} groups have a threshold certified at a risk of {bound}"

"""Figures of confidence for several runs: risk against coverage, and reliability."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from krisis.json_values import JsonObject
from krisis.metrics.calibration import ExpectedCalibrationError
from krisis.metrics.explanations import reason_words
from krisis.metrics.risk_band import risk_band
from krisis.metrics.selective_prediction import WITHOUT_CONFIDENCE
from krisis.metrics.table import Table
from krisis.pages.figure import Chart, alt, data, percent_axis, unit_scale
from krisis.pages.palette import GRID, MUTED
from krisis.reporting.confidence_charts import reliability_table
from krisis.reporting.panels import Drawing, grid, n_columns, panel_titles, point_of
from krisis.reporting.risk_curves import area_or_bar, band_rows, curve_points, run_curve
from krisis.reporting.scored_as import ScoredAs
from krisis.reporting.style import Look, Series
from krisis.results.base import BenchmarkResult
from krisis.statistics.bootstrap import BootstrapOptions
from krisis.statistics.intervals import level_name

MOST_OVERLAID = 4  # with more, bands hide each other
_BAND = 0.14
_FIRST_SHARE = 0.05


def not_drawable(table: Table) -> str:
    """Return why a run has no chart of its confidence, or nothing."""
    if not table.answered.any():
        return reason_words("no_answered_rows")
    stated = ~np.isnan(table.confidence[table.answered])
    if not stated.any():
        return reason_words("no_rows_with_confidence")
    return "" if stated.all() else reason_words(WITHOUT_CONFIDENCE)


def risk_coverage_drawing(
    runs: Mapping[str, BenchmarkResult], marks: Mapping[str, Series], look: Look
) -> Drawing:
    """Draw the curves of all runs: together, or each before the others where there are many."""
    tables = {name: run.rows.table for name, run in runs.items()}
    levels = {name: ScoredAs.of(run.metric_scores).level for name, run in runs.items()}
    percent = level_name(levels.values())
    reasons = {name: why for name, table in tables.items() if (why := not_drawable(table))}
    points: dict[str, list[JsonObject]] = {}
    bands: dict[str, list[JsonObject]] = {}
    for name, table in tables.items():
        curve = None if name in reasons else run_curve(table)
        if curve is not None:
            points[name] = [{"run": name, **point} for point in curve_points(curve)]
            bands[name] = [{"run": name, **row} for row in _band_of(table, levels[name])]
    ends = [row["selective_risk"] for rows in points.values() for row in rows if _shown(row)]
    ends += [row["selective_high"] for rows in bands.values() for row in rows if _shown(row)]
    top = max(*ends, 0.05) if ends else 1.0
    scale = alt.Scale(domain=[0, min(1.0, top * 1.05)], nice=False)
    whole = _Curves(points, bands, marks, look, scale, {n: _counts(t) for n, t in tables.items()})
    overlaid = len(points) <= MOST_OVERLAID
    return Drawing(
        "Risk against coverage",
        (
            "Keep only the answers above a confidence: coverage is what is left, risk the share of "
            "errors in it. Each curve ends in its mark, where every answer is kept; bands are "
            f"{percent} intervals by patient, threshold by threshold."
        ),
        whole.together if overlaid else whole.apart,
        [row for name in points for row in (*points[name], *bands[name])],
        reasons,
        [
            (
                f"Risk: errors among the answers kept. Bands: {percent} intervals at each "
                "threshold, by patient. Mark: every answer is kept."
            ),
            *_one_point(points),
        ],
        overlaid,
    )


def _band_of(table: Table, level: float) -> list[dict[str, float]]:
    return band_rows(risk_band(table, options=BootstrapOptions(level=level)))


def _one_point(points: Mapping[str, Sequence[JsonObject]]) -> list[str]:
    names = [name for name, rows in points.items() if len(rows) == 1]
    return [f"All answers state one confidence, so there is one point: {', '.join(names)}."] * bool(
        names
    )


def _shown(row: JsonObject) -> bool:
    """Tell whether a point decides how far the scale goes: the first few answers may not."""
    return bool(row["coverage"] >= _FIRST_SHARE)


def _counts(table: Table) -> str:
    return f"{int(table.answered.sum()):,} of {table.n_scored:,} answered"


class _Curves:
    """The curves of runs, overlaid or in panels of their own."""

    def __init__(
        self,
        points: Mapping[str, Sequence[JsonObject]],
        bands: Mapping[str, Sequence[JsonObject]],
        marks: Mapping[str, Series],
        look: Look,
        scale: Chart,
        counts: Mapping[str, str],
    ) -> None:
        self.points, self.bands, self.marks = points, bands, marks
        self.look, self.scale, self.counts = look, scale, counts

    def together(self, width: float) -> Chart:
        """Draw all curves into one panel."""
        layers = [layer for name in self.points for layer in self._layers(name)]
        return self._panel(layers, width, width * 0.62)

    def apart(self, width: float) -> Chart:
        """Draw a panel for every run, the curves of the others behind it in grey."""
        columns = n_columns(self.look, len(self.points))
        each = width / columns
        titles = {name: [*self.look.broken(name, each), self.counts[name]] for name in self.points}
        panels = []
        for name, title in panel_titles(titles, self.look).items():
            drawn = self._panel([self._others(name), *self._layers(name)], each, each * 0.8)
            panels.append(drawn.properties(title=title))
        return grid(panels, self.look)

    def _panel(self, layers: Sequence[Chart], width: float, height: float) -> Chart:
        return (
            alt.layer(*layers)
            .encode(
                x=alt.X(scale=unit_scale(), axis=percent_axis(title="coverage")),
                y=alt.Y(scale=self.scale, axis=percent_axis(title="risk")),
            )
            .properties(width=width, height=height)
        )

    def _layers(self, name: str) -> list[Chart]:
        one = self.marks[name]
        band = area_or_bar(self.bands[name], str(one.tone), opacity=_BAND, clip=True)
        places = {"y": alt.Y("selective_low:Q"), "y2": alt.Y2("selective_high:Q")}
        end = alt.Chart(data([self.points[name][-1]])).mark_point(**point_of(one, self.look))
        risk = {"x": alt.X("coverage:Q"), "y": alt.Y("selective_risk:Q")}
        return [
            band.encode(x=alt.X("coverage:Q"), **places),
            self._line(name, str(one.tone), one.dash),
            end.encode(**risk),
        ]

    def _others(self, name: str) -> Chart:
        rows = [row for other, found in self.points.items() if other != name for row in found]
        line = {"color": str(GRID), "strokeWidth": self.look.stroke, "clip": True}
        places = {"x": alt.X("coverage:Q"), "y": alt.Y("selective_risk:Q")}
        return alt.Chart(data(rows)).mark_line(**line).encode(**places, detail="run:N")

    def _line(self, name: str, colour: str, dash: Sequence[int]) -> Chart:
        line = {
            "color": colour,
            "strokeDash": list(dash),
            "strokeWidth": self.look.stroke,
            "clip": True,
        }
        return (
            alt.Chart(data(self.points[name]))
            .mark_line(**line)
            .encode(x=alt.X("coverage:Q"), y=alt.Y("selective_risk:Q"))
        )


def reliability_drawing(
    runs: Mapping[str, BenchmarkResult], marks: Mapping[str, Series], look: Look
) -> Drawing:
    """Draw a reliability diagram for every run, with the bins of its calibration error."""
    tables = {name: run.rows.table for name, run in runs.items()}
    scored = {name: ScoredAs.of(run.metric_scores) for name, run in runs.items()}
    percent = level_name(one.level for one in scored.values())
    found = {
        name: reliability_table(table, n_bins=scored[name].n_bins, level=scored[name].level)
        for name, table in tables.items()
    }
    reasons = {
        name: not_drawable(tables[name]) or reason_words("no_rows_with_confidence")
        for name, rows in found.items()
        if not rows
    }
    drawn = {name: rows for name, rows in found.items() if rows}

    def draw(width: float) -> Chart:
        columns = n_columns(look, len(drawn))
        each = width / columns
        titles = {
            name: [*look.broken(name, each), _error_words(tables[name], scored[name])]
            for name in drawn
        }
        size = min(each, 30 * look.font)
        panels = [
            _diagram(drawn[name], marks[name], look, size).properties(title=title)
            for name, title in panel_titles(titles, look).items()
        ]
        return grid(panels, look)

    return Drawing(
        "Reliability",
        (
            f"Accuracy in bins of stated confidence, with {percent} intervals by patient. Shaded "
            f"boxes hold {percent} of the accuracies of a perfectly calibrated model with these "
            "counts; on the diagonal confidence can be believed."
        ),
        draw,
        [{"run": name, **row} for name, rows in drawn.items() for row in rows],
        reasons,
        [f"Bars: {percent} intervals by patient. Boxes: {percent} of perfectly calibrated models."],
    )


def _error_words(table: Table, scored: ScoredAs) -> str:
    score = scored.calibration_error
    if score is None:
        score, _ = ExpectedCalibrationError(scored.n_bins).scored(table)
    return f"ECE {score.value:.3f}, n = {score.n_evaluated:,}"


def _diagram(rows: Sequence[JsonObject], one: Series, look: Look, size: float) -> Chart:
    base = alt.Chart(data(rows))
    x_axis = percent_axis(title="stated confidence")
    y_axis = percent_axis(title="accuracy")
    x = alt.X("mean_confidence:Q", scale=unit_scale(), axis=x_axis)
    box = base.mark_rect(color=str(MUTED), opacity=0.22).encode(
        x=alt.X("low:Q", scale=unit_scale(), axis=x_axis),
        x2=alt.X2("high:Q"),
        y=alt.Y("band_low:Q", scale=unit_scale(), axis=y_axis),
        y2=alt.Y2("band_high:Q"),
    )
    ends = alt.Chart(data([{"c": 0, "a": 0}, {"c": 1, "a": 1}]))
    diagonal = ends.mark_line(color=str(MUTED), strokeDash=[4, 4], strokeWidth=look.stroke / 2)
    bars = base.mark_rule(color=str(one.tone), strokeWidth=look.stroke * 0.75)
    points = base.mark_point(**point_of(one, look))
    return alt.layer(
        box,
        diagonal.encode(x=alt.X("c:Q", axis=x_axis), y=alt.Y("a:Q", axis=y_axis)),
        bars.encode(x=x, y=alt.Y("accuracy_low:Q", axis=y_axis), y2=alt.Y2("accuracy_high:Q")),
        points.encode(x=x, y=alt.Y("accuracy:Q", scale=unit_scale(), axis=y_axis)),
    ).properties(width=size, height=size)

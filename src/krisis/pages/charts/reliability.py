"""Charts of confidence: does it mean what it says, and how sure was the model of what?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from krisis.json_values import JsonObject, JsonValue
from krisis.metrics.base import MetricScore
from krisis.metrics.calibration import ExpectedCalibrationError, GapSum, confidence_bin
from krisis.metrics.explanations import reason_words
from krisis.metrics.forms import Share, prior_icc
from krisis.metrics.table import Table
from krisis.pages.charts.curves import not_drawable
from krisis.pages.charts.spec import (
    FigureSpec,
    grid,
    level_of,
    n_columns,
    nothing_to_draw,
    panel_titles,
)
from krisis.pages.figure import Chart, alt, data, percent_axis, unit_scale
from krisis.pages.numbers import Estimate, count, difference, figure
from krisis.pages.palette import ABSTAINED, CORRECT, INK, MUTED, NO_ANSWER, SURFACE, WRONG
from krisis.pages.style import Mark, Series, Style, series
from krisis.results.base import BenchmarkResult
from krisis.statistics.bootstrap import BootstrapOptions
from krisis.statistics.calibrated_bins import consistency_band
from krisis.statistics.intervals import DEFAULT_LEVEL, level_name

N_HISTOGRAM_BINS = 20
_N_REDRAWS = 1000
_SURE = 0.9  # an error above this confidence would be believed
_DEFAULT_BINS = ExpectedCalibrationError().n_bins
_OUTCOMES = {
    "correct": CORRECT,
    "wrong": WRONG,
    "abstained": ABSTAINED,
    "no answer": NO_ANSWER,
}


def _redrawn(level: float) -> BootstrapOptions:
    return BootstrapOptions(n_resamples=_N_REDRAWS, level=level)


# --- Bins ------------------------------------------------------------------------------------


def reliability(runs: Mapping[str, BenchmarkResult], style: Style) -> FigureSpec:
    """Draw a reliability diagram for every run, with the bins of its calibration error."""
    tables = {name: run.rows.table for name, run in runs.items()}
    levels = {name: level_of(run.metric_scores) for name, run in runs.items()}
    scores = {name: _calibration_error(run) for name, run in runs.items()}
    found = {
        name: reliability_table(table, n_bins=n_bins_of(scores[name]), level=levels[name])
        for name, table in tables.items()
    }
    reasons = {
        name: not_drawable(tables[name]) or reason_words("no_rows_with_confidence")
        for name, rows in found.items()
        if not rows
    }
    drawn = {name: rows for name, rows in found.items() if rows}
    marks, percent = series(runs), level_name(levels[name] for name in drawn)

    def draw(width: float) -> Chart:
        each = width / n_columns(style, len(drawn))
        size = min(each, 30 * style.font)
        if len(drawn) == 1:
            ((name, rows),) = drawn.items()
            return _with_counts(_diagram(rows, marks[name], style, size), rows, style, size)
        titles = {name: [*style.broken(name, each), _error_words(scores[name])] for name in drawn}
        panels = [
            _diagram(drawn[name], marks[name], style, size).properties(title=title)
            for name, title in panel_titles(titles, style).items()
        ]
        return grid(panels, style)

    outside = {name: sum(map(_is_outside, rows)) for name, rows in drawn.items()}
    return FigureSpec(
        name="reliability",
        title=_reliability_finding({name: tables[name] for name in drawn}),
        reading=(
            "Points on the diagonal are confidences that can be believed; below it the model is "
            f"overconfident, above it too modest. Bars are {percent} intervals by patient. Shaded "
            f"boxes hold {percent} of the accuracies that a perfectly calibrated model with these "
            f"counts would show: outside are {_outside_words(outside, drawn)}."
        ),
        draw=draw,
        table=[{"run": name, **row} for name, rows in drawn.items() for row in rows],
        key=[
            Mark(
                "dot",
                marks[next(iter(drawn), next(iter(runs)))],
                f"accuracy in a bin of confidence, with its {percent} interval",
            ),
            Mark("box", Series(MUTED), f"where {percent} of perfectly calibrated models would be"),
            Mark("line", Series(MUTED, (4, 4)), "confidence that can be believed"),
        ]
        if len(drawn) == 1
        else [],
        reasons=reasons,
        notes=[
            *(_error_words(scores[name]) for name in drawn if len(drawn) == 1),
            f"Bars: {percent} intervals by patient. Boxes: {percent} of calibrated models.",
        ],
    )


def _calibration_error(run: BenchmarkResult) -> MetricScore:
    """Return the calibration error that the diagram illustrates."""
    errors = [s for s in run.metric_scores.values() if s.key == ExpectedCalibrationError.key]
    return errors[0] if errors else ExpectedCalibrationError().scored(run.rows.table)[0]


def n_bins_of(score: MetricScore) -> int:
    """Return how many bins a calibration error has."""
    return int(score.parameters.get("n_bins", _DEFAULT_BINS))


def _error_words(score: MetricScore) -> str:
    return f"ECE {figure(Estimate(score.value))}, n = {count(score.n_evaluated)}"


def _is_outside(row: JsonObject) -> bool:
    return not row["band_low"] <= row["accuracy"] <= row["band_high"]


def _outside_words(outside: Mapping[str, int], drawn: Mapping[str, Sequence[JsonObject]]) -> str:
    found = [f"{n} of {len(drawn[name])} bins" for name, n in outside.items()]
    if len(found) == 1:
        return found[0]
    return ", ".join(f"{words} ({name})" for words, name in zip(found, outside, strict=True))


def _reliability_finding(tables: Mapping[str, Table]) -> str:
    """Say how far mean confidence is from accuracy."""
    gaps = {}
    for name, table in tables.items():
        usable = table.usable
        gaps[name] = float(table.confidence[usable].mean() - table.correct[usable].mean())
    if not gaps:
        return "No confidence was stated"
    if len(gaps) > 1:
        ordered = sorted(gaps, key=lambda name: gaps[name])
        shown = ordered if len(ordered) <= 3 else [ordered[0], ordered[-1]]
        said = [f"{name} {difference(Estimate(gaps[name]))}" for name in shown]
        return (
            f"Mean confidence minus accuracy: {(', ' if shown is ordered else ' to ').join(said)}"
        )
    (gap,) = gaps.values()
    size = difference(Estimate(abs(gap))).lstrip("+")
    return f"Confidence is {size} too {'high' if gap >= 0 else 'low'} on average"


def reliability_table(
    table: Table, *, n_bins: int = _DEFAULT_BINS, level: float = DEFAULT_LEVEL
) -> list[JsonObject]:
    """Return the filled bins with accuracy, its interval and the band of a calibrated model.

    The bins are those of the calibration error. The consistency band is where the accuracy of the
    bin would fall in a share ``level`` of repetitions if every stated confidence were the true
    probability of being right, rows of one patient being as alike as they are here.
    """
    form = ExpectedCalibrationError(n_bins).form(table)
    if not isinstance(form, GapSum):
        return []
    low, high = consistency_band(
        form.answers(table), options=_redrawn(level), prior_icc=prior_icc(table)
    )
    found: list[JsonObject] = []
    for position, b in enumerate(form.filled.tolist()):
        inside = np.zeros(table.n_scored, dtype=np.bool_)
        inside[np.flatnonzero(form.among)[form.index == position]] = True
        share = Share(table.correct, among=inside)
        interval = share.uncertainty(table, BootstrapOptions(level=level)).interval
        found.append(
            {
                "low": b / n_bins,
                "high": (b + 1) / n_bins,
                "n": share.n_evaluated,
                "n_patients": int(np.unique(table.patients.code[inside]).size),
                "n_correct": share.n_hits,
                "mean_confidence": float(table.confidence[inside].mean()),
                "accuracy": share.value(),
                "accuracy_low": interval.low,
                "accuracy_high": interval.high,
                "band_low": float(low[position]),
                "band_high": float(high[position]),
            }
        )
    return found


def _diagram(rows: Sequence[JsonObject], one: Series, style: Style, size: float) -> Chart:
    base = alt.Chart(data(rows))
    axes = percent_axis(title="stated confidence"), percent_axis(title="accuracy")
    x = alt.X("mean_confidence:Q", scale=unit_scale(), axis=axes[0])
    box = base.mark_rect(color=str(MUTED), opacity=0.22).encode(
        x=alt.X("low:Q", scale=unit_scale(), axis=axes[0]),
        x2=alt.X2("high:Q"),
        y=alt.Y("band_low:Q", scale=unit_scale(), axis=axes[1]),
        y2=alt.Y2("band_high:Q"),
    )
    bars = base.mark_rule(color=str(one.tone), strokeWidth=style.stroke * 0.75)
    points = base.mark_point(**style.point(one))
    return alt.layer(
        box,
        _diagonal(axes, style),
        bars.encode(x=x, y=alt.Y("accuracy_low:Q", axis=axes[1]), y2=alt.Y2("accuracy_high:Q")),
        points.encode(x=x, y=alt.Y("accuracy:Q", scale=unit_scale(), axis=axes[1])),
    ).properties(width=size, height=size * 0.8 if style.name == "page" else size)


def _diagonal(axes: tuple[JsonValue, JsonValue], style: Style) -> Chart:
    ends = alt.Chart(data([{"c": 0, "a": 0}, {"c": 1, "a": 1}]))
    line = ends.mark_line(color=str(MUTED), strokeDash=[4, 4], strokeWidth=style.stroke / 2)
    return line.encode(x=alt.X("c:Q", axis=axes[0]), y=alt.Y("a:Q", axis=axes[1]))


def _with_counts(diagram: Chart, rows: Sequence[JsonObject], style: Style, size: float) -> Chart:
    """Put the number of answers in every bin under a diagram."""
    base = alt.Chart(data(rows))
    x = alt.X("low:Q", scale=unit_scale(), axis=None)
    top = max(row["n"] for row in rows) * 1.35
    y_axis = alt.Axis(title="n", labels=False, grid=False, ticks=False)
    y = alt.Y("n:Q", scale=alt.Scale(domain=[0, top]), axis=y_axis)
    bars = base.mark_rect(color=str(MUTED), opacity=0.4, stroke=str(SURFACE)).encode(
        x=x, x2=alt.X2("high:Q"), y=y, y2=alt.datum(0)
    )
    numbers = (
        base.transform_calculate(middle="(datum.low + datum.high) / 2")
        .mark_text(dy=-style.font * 0.6, fontSize=style.font * 0.9, color=str(INK))
        .encode(
            x=alt.X("middle:Q", scale=unit_scale(), axis=None),
            y=alt.Y("n:Q"),
            text=alt.Text("n:Q", format=","),
        )
    )
    counts = (bars + numbers).properties(width=size, height=style.font * 4)
    return alt.vconcat(diagram, counts, spacing=style.font * 0.6)


# --- How sure was the model? -----------------------------------------------------------------


def confidence_histogram(run: BenchmarkResult, style: Style) -> FigureSpec:
    """Draw one strip of stated confidence per outcome."""
    table = run.rows.table
    rows = histogram_table(table)
    if not any(row["n"] for row in rows):
        return nothing_to_draw("confidence_histogram", "No confidence was stated")
    shown = list(dict.fromkeys(row["outcome"] for row in rows))
    wrong = table.answered & ~table.correct
    sure = int((wrong & (np.nan_to_num(table.confidence) >= _SURE)).sum())
    n_silent = int(np.count_nonzero(np.isnan(table.confidence)))
    silent = f" {count(n_silent)} cases without a confidence are not drawn." if n_silent else ""

    def draw(width: float) -> Chart:
        strips = [
            _strip(
                [row for row in rows if row["outcome"] == one], style, width, last=one == shown[-1]
            )
            for one in shown
        ]
        return alt.vconcat(*strips, spacing=style.font * 0.8).resolve_scale(x="shared")

    n_wrong = int(wrong.sum())
    said = f"{count(sure)} of {count(n_wrong)} wrong answers state a confidence of 90 % or more"
    return FigureSpec(
        name="confidence_histogram",
        title=said if n_wrong else "No answer is wrong",
        reading=(
            "A model that knows its limits is sure where it is right and unsure where it is wrong: "
            f"bars at the right of the wrong answers are confident errors. Each strip has its own "
            f"scale.{silent}"
        ),
        draw=draw,
        table=[row for row in rows if row["n"]],
    )


def histogram_table(table: Table, *, n_bins: int = N_HISTOGRAM_BINS) -> list[JsonObject]:
    """Count the rows of each outcome in equal bins of stated confidence."""
    stated = ~np.isnan(table.confidence)
    masks = {
        "correct": table.correct,
        "wrong": table.answered & ~table.correct,
        "abstained": table.abstained,
        **({"no answer": table.no_answer} if (table.no_answer & stated).any() else {}),
    }
    found = []
    for outcome, mask in masks.items():
        index = confidence_bin(table.confidence[mask & stated], n_bins)
        counts = np.bincount(index, minlength=n_bins)
        found += [
            {"outcome": outcome, "low": b / n_bins, "high": (b + 1) / n_bins, "n": int(n)}
            for b, n in enumerate(counts)
        ]
    return found


def _strip(rows: Sequence[JsonObject], style: Style, width: float, *, last: bool) -> Chart:
    outcome, total = rows[0]["outcome"], sum(row["n"] for row in rows)
    base = alt.Chart(data(rows))
    title = "stated confidence" if last else None
    axis = percent_axis(title=title, labels=last, ticks=last, grid=False)
    x = alt.X("low:Q", scale=alt.Scale(domain=[0, 1], nice=False), axis=axis)
    top = max(1, *(row["n"] for row in rows))
    y_axis = alt.Axis(title=None, tickCount=2, values=[0, top], format=",d")
    y = alt.Y("n:Q", scale=alt.Scale(domain=[0, top * 1.15], nice=False), axis=y_axis)
    bars = base.mark_rect(color=str(_OUTCOMES[outcome]), stroke=str(SURFACE)).encode(
        x=x, x2=alt.X2("high:Q"), y=y, y2=alt.datum(0)
    )
    label = {"c": 0.0, "label": f"{outcome}: {count(total)}"}
    name = (
        alt.Chart(data([label]))
        .mark_text(align="left", baseline="top", dx=6, color=str(INK))
        .encode(x=alt.X("c:Q"), y=alt.value(0), text=alt.Text("label:N"))
    )
    return (bars + name).properties(width=width, height=style.font * 6)

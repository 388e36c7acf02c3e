"""The charts of confidence: the reliability diagrams, and how sure the model was of what."""

from __future__ import annotations

import numpy as np

from krisis.json_values import JsonObject, JsonValue
from krisis.metrics.calibration import ExpectedCalibrationError, confidence_bin
from krisis.metrics.clinical_calibration import outcomes_of
from krisis.metrics.forms import Share, Undefined, prior_icc
from krisis.metrics.gap_form import GapSum
from krisis.metrics.level_form import MOST_LEVELS, Outcomes
from krisis.metrics.table import Table
from krisis.pages.figure import Chart, Figure, Mark, alt, data, percent_axis, unit_scale
from krisis.pages.palette import (
    ABSTAINED,
    CORRECT,
    INK,
    MUTED,
    NO_ANSWER,
    REFERENCE,
    SURFACE,
    WRONG,
)
from krisis.statistics.bootstrap import BootstrapOptions
from krisis.statistics.calibrated_bins import consistency_band
from krisis.statistics.corp import decomposition, isotonic_band, recalibrated
from krisis.statistics.intervals import DEFAULT_LEVEL, level_name

N_HISTOGRAM_BINS = 20
_N_REDRAWS = 1000


def _redrawn(level: float) -> BootstrapOptions:
    return BootstrapOptions(n_resamples=_N_REDRAWS, level=level)


def reliability_table(
    table: Table, *, n_bins: int = 15, level: float = DEFAULT_LEVEL
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


def reliability_figure(
    columns: Table, *, n_bins: int = 15, level: float = DEFAULT_LEVEL
) -> Figure | None:
    """Draw the diagram, or return None where no answered row states a confidence."""
    table, percent = reliability_table(columns, n_bins=n_bins, level=level), level_name([level])
    if not table:
        return None
    chart = alt.vconcat(_diagram(table), _counts(table), spacing=8).resolve_scale(x="shared")
    n_outside = sum(not row["band_low"] <= row["accuracy"] <= row["band_high"] for row in table)
    return Figure(
        "reliability",
        "Reliability: does confidence mean what it says?",
        (
            "Points on the diagonal are confidences that can be believed; below it the model is "
            f"overconfident, above it too modest. The shaded boxes hold {percent} of the "
            "accuracies that chance alone would give a perfectly calibrated model with these "
            f"counts: {n_outside} of {len(table)} bins are outside. Bars are {percent} intervals "
            "by patient; small counts prove little."
        ),
        chart,
        table,
        [
            Mark("dot", CORRECT, f"accuracy in a bin of confidence, with its {percent} interval"),
            Mark("box", REFERENCE, f"where {percent} of perfectly calibrated models would be"),
            Mark("dashes", MUTED, "confidence that can be believed"),
        ],
    )


def _diagram(table: list[JsonObject]) -> Chart:
    base = alt.Chart(data(table), width=420, height=300)
    x_axis = percent_axis(title=None, labels=False, ticks=False)
    y_axis = percent_axis(title="accuracy of the answers")
    y = alt.Y("accuracy:Q", scale=unit_scale(), axis=y_axis)
    x = alt.X("mean_confidence:Q", scale=unit_scale(), axis=x_axis)
    band = base.mark_rect(color=str(REFERENCE), opacity=0.2).encode(
        x=alt.X("low:Q", scale=unit_scale(), axis=x_axis),
        x2=alt.X2("high:Q"),
        y=alt.Y("band_low:Q"),
        y2=alt.Y2("band_high:Q"),
    )
    diagonal = _diagonal(x_axis, y_axis)
    bars = base.mark_rule(color=str(CORRECT), strokeWidth=1.5).encode(
        x=x, y=alt.Y("accuracy_low:Q", axis=y_axis), y2=alt.Y2("accuracy_high:Q")
    )
    points = base.mark_circle(color=str(CORRECT), opacity=1, stroke=str(SURFACE)).encode(
        x=x,
        y=y,
        size=alt.Size("n:Q", scale=alt.Scale(type="sqrt", range=[40, 260]), legend=None),
    )
    return band + diagonal + bars + points


def _counts(table: list[JsonObject], title: str = "stated confidence") -> Chart:
    base = alt.Chart(data(table), width=420, height=64)
    axis = percent_axis(title=title, grid=False)
    x = alt.X("low:Q", scale=unit_scale(), axis=axis)
    top = max(row["n"] for row in table) * 1.35
    y = alt.Y(
        "n:Q",
        scale=alt.Scale(domain=[0, top]),
        axis=alt.Axis(title="rows", labels=False, grid=False),
    )
    bars = base.mark_rect(color=str(CORRECT), opacity=0.55, stroke=str(SURFACE)).encode(
        x=x, x2=alt.X2("high:Q"), y=y, y2=alt.datum(0)
    )
    numbers = (
        base.transform_calculate(middle="(datum.low + datum.high) / 2")
        .mark_text(dy=-7, fontSize=11, color=str(INK))
        .encode(
            x=alt.X("middle:Q", scale=unit_scale()),
            y=alt.Y("n:Q"),
            text=alt.Text("n:Q", format=","),
        )
    )
    return bars + numbers


def corp_table(
    table: Table, of: str = "correct", *, level: float = DEFAULT_LEVEL
) -> list[JsonObject]:
    """Return the isotonic share of outcomes at every stated probability, with a consistency band.

    In the band the isotonic share would lie in a share ``level`` of repetitions, point by point,
    if every probability were true. More than 200 different probabilities are grouped.
    """
    found = outcomes_of(table, of)
    if isinstance(found, Undefined):
        return []
    outcomes = found.grouped(MOST_LEVELS)
    rows, hits = outcomes.rows, outcomes.hits
    fit = recalibrated(rows, hits)[:, 0]
    low, high = isotonic_band(
        outcomes.answers(table), options=_redrawn(level), prior_icc=prior_icc(table)
    )
    columns = zip(outcomes.level, rows[:, 0], hits[:, 0], fit, low, high, strict=True)
    return [
        {
            "probability": float(stated),
            "n": int(n),
            "n_true": int(n_true),
            "recalibrated": float(share),
            "band_low": float(band_low),
            "band_high": float(band_high),
        }
        for stated, n, n_true, share, band_low, band_high in columns
    ]


def corp_figure(
    columns: Table, of: str = "correct", *, level: float = DEFAULT_LEVEL
) -> Figure | None:
    """Draw the diagram of isotonic recalibration, or return None where there is none."""
    table, percent = corp_table(columns, of, level=level), level_name([level])
    if not table:
        return None
    outcomes = outcomes_of(columns, of)
    assert isinstance(outcomes, Outcomes)
    parts = decomposition(outcomes.level, outcomes.rows, outcomes.hits)
    mcb, dsc, unc = (float(part[0]) for part in parts)
    n = sum(row["n"] for row in table)
    n_outside = sum(
        row["n"] for row in table if not row["band_low"] <= row["recalibrated"] <= row["band_high"]
    )
    meant = "the answer is right" if of == "correct" else "the positive answer is true"
    index = confidence_bin(outcomes.probability, N_HISTOGRAM_BINS)
    counts = [
        {"low": b / N_HISTOGRAM_BINS, "high": (b + 1) / N_HISTOGRAM_BINS, "n": int(count)}
        for b, count in enumerate(np.bincount(index, minlength=N_HISTOGRAM_BINS))
        if count
    ]
    title = "stated confidence" if of == "correct" else "probability of the positive answer"
    return Figure(
        f"corp_{of}",
        "CORP reliability: recalibrated in order, without bins"
        + ("" if of == "correct" else " (positive answer)"),
        (
            f"The line is how often {meant}, fitted to rise with the stated probability (isotonic "
            "regression); on the diagonal probabilities can be believed. The shaded band holds the "
            f"line in {percent} of repetitions, point by point, if they can: "
            f"{n_outside} of {n} rows lie where it leaves the band. Brier score "
            f"{mcb - dsc + unc:.4f} = miscalibration {mcb:.4f} − discrimination {dsc:.4f} + "
            f"uncertainty {unc:.4f}."
        ),
        alt.vconcat(_corp_diagram(table, meant), _counts(counts, title), spacing=8).resolve_scale(
            x="shared"
        ),
        table,
        _corp_key(meant, percent),
    )


def _corp_key(meant: str, percent: str) -> list[Mark]:
    return [
        Mark("line", CORRECT, f"how often {meant}, fitted to rise with the probability"),
        Mark(
            "box", REFERENCE, f"where the line of a calibrated model lies, {percent} point by point"
        ),
        Mark("dashes", MUTED, "probabilities that can be believed"),
    ]


def _corp_diagram(table: list[JsonObject], meant: str) -> Chart:
    base = alt.Chart(data(table), width=420, height=300)
    x_axis = percent_axis(title=None, labels=False, ticks=False)
    y_axis = percent_axis(title=f"how often {meant}")
    x = alt.X("probability:Q", scale=unit_scale(), axis=x_axis)
    # An area between levels; of a single level a bar.
    wide = base.mark_area(color=str(REFERENCE), opacity=0.2)
    bar = base.mark_rule(color=str(REFERENCE), opacity=0.4, strokeWidth=12)
    band = (wide if len(table) > 1 else bar).encode(
        x=x,
        y=alt.Y("band_low:Q", scale=unit_scale(), axis=y_axis),
        y2=alt.Y2("band_high:Q"),
    )
    diagonal = _diagonal(x_axis, y_axis)
    y = alt.Y("recalibrated:Q", scale=unit_scale(), axis=y_axis)
    line = base.mark_line(color=str(CORRECT), strokeWidth=2).encode(x=x, y=y)
    points = base.mark_circle(color=str(CORRECT), opacity=1).encode(
        x=x, y=y, size=alt.Size("n:Q", scale=alt.Scale(type="sqrt", range=[12, 90]), legend=None)
    )
    return band + diagonal + line + points


def _diagonal(x_axis: JsonValue, y_axis: JsonValue) -> Chart:
    return (
        alt.Chart(data([{"c": 0, "a": 0}, {"c": 1, "a": 1}]))
        .mark_line(color=str(MUTED), strokeDash=[4, 4], strokeWidth=1)
        .encode(x=alt.X("c:Q", axis=x_axis), y=alt.Y("a:Q", axis=y_axis))
    )


def histogram_table(columns: Table, *, n_bins: int = N_HISTOGRAM_BINS) -> list[JsonObject]:
    """Count the rows of each outcome in equal bins of stated confidence."""
    stated = ~np.isnan(columns.confidence)
    masks = {
        "correct": columns.correct,
        "wrong": columns.answered & ~columns.correct,
        "abstained": columns.abstained,
        **({"no answer": columns.no_answer} if (columns.no_answer & stated).any() else {}),
    }
    table = []
    for outcome, mask in masks.items():
        index = confidence_bin(columns.confidence[mask & stated], n_bins)
        counts = np.bincount(index, minlength=n_bins)
        table += [
            {"outcome": outcome, "low": b / n_bins, "high": (b + 1) / n_bins, "n": int(n)}
            for b, n in enumerate(counts)
        ]
    return table


def histogram_figure(columns: Table) -> Figure | None:
    """Draw one strip per outcome, or return None where no row states a confidence."""
    table = histogram_table(columns)
    if not any(row["n"] for row in table):
        return None
    tones = {"correct": CORRECT, "wrong": WRONG, "abstained": ABSTAINED, "no answer": NO_ANSWER}
    drawn = list(dict.fromkeys(row["outcome"] for row in table))
    strips = [
        _strip(
            [row for row in table if row["outcome"] == outcome],
            str(tones[outcome]),
            last=outcome == drawn[-1],
        )
        for outcome in drawn
    ]
    n_silent = int(np.count_nonzero(np.isnan(columns.confidence)))
    return Figure(
        "confidence_histogram",
        "How sure was the model, and was it right to be?",
        (
            "A model that knows its limits is sure where it is right (top) and unsure where it is "
            "wrong (middle). Mass at the right of the middle strip is confident error. Each strip "
            f"has its own scale; {n_silent} rows stated no confidence and are not drawn."
        ),
        alt.vconcat(*strips, spacing=10).resolve_scale(x="shared"),
        [row for row in table if row["n"]],
    )


def _strip(rows: list[JsonObject], tone: str, *, last: bool) -> Chart:
    outcome, total = rows[0]["outcome"], sum(row["n"] for row in rows)
    base = alt.Chart(data(rows), width=420, height=74)
    title = "stated confidence" if last else None
    axis = percent_axis(title=title, labels=last, ticks=last, grid=False)
    x = alt.X("low:Q", scale=alt.Scale(domain=[0, 1], nice=False), axis=axis)
    top = max(1, *(row["n"] for row in rows))
    y_axis = alt.Axis(title=None, tickCount=2, values=[0, top], format=",d")
    y = alt.Y("n:Q", scale=alt.Scale(domain=[0, top * 1.15], nice=False), axis=y_axis)
    bars = base.mark_rect(color=tone, stroke=str(SURFACE)).encode(
        x=x, x2=alt.X2("high:Q"), y=y, y2=alt.datum(0)
    )
    name = (
        alt.Chart(data([{"c": 0.0, "label": f"{outcome} · {total:,} rows"}]))
        .mark_text(align="left", baseline="top", dx=6, fontSize=12, fontWeight=600, color=str(INK))
        .encode(x=alt.X("c:Q"), y=alt.value(0), text=alt.Text("label:N"))
    )
    return bars + name

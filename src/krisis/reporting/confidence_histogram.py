"""The confidence histogram: how sure the model was when right, when wrong and when it abstained."""

from __future__ import annotations

import numpy as np

from krisis.json_values import JsonObject
from krisis.metrics.calibration import confidence_bin
from krisis.metrics.table import BoolArray, Table
from krisis.reporting.figure import Chart, Figure, alt, data, percent_axis
from krisis.reporting.palette import ABSTAINED, CORRECT, INK, SURFACE, WRONG

N_BINS = 20


def outcome_masks(columns: Table) -> dict[str, BoolArray]:
    """Return which scored rows were answered rightly, answered wrongly and abstained."""
    return {
        "correct": columns.correct,
        "wrong": columns.answered & ~columns.correct,
        "abstained": columns.abstained,
    }


def histogram_table(columns: Table, *, n_bins: int = N_BINS) -> list[JsonObject]:
    """Count the rows of each outcome in equal bins of stated confidence."""
    stated = ~np.isnan(columns.confidence)
    table = []
    for outcome, mask in outcome_masks(columns).items():
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
    tones = {"correct": CORRECT, "wrong": WRONG, "abstained": ABSTAINED}
    strips = [
        _strip([row for row in table if row["outcome"] == outcome], str(tone), last=i == 2)
        for i, (outcome, tone) in enumerate(tones.items())
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

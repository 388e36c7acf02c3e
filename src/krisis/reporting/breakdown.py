"""Groups of patients side by side: shares with intervals, and no figure for a handful of rows."""

from __future__ import annotations

import math

import numpy as np

from krisis.decisions.groups_by_column import LARGEST_NUMBER_OF_GROUPS
from krisis.json_values import JsonObject
from krisis.metrics.base import EvaluationResult, Rows
from krisis.metrics.forms import Share
from krisis.metrics.table import Answers, BoolArray, Table
from krisis.pages.figure import Chart, Figure, Mark, alt, data, unit_scale
from krisis.pages.palette import ABSTAINED, CORRECT, MUTED, REFERENCE
from krisis.statistics.bootstrap import BootstrapOptions
from krisis.statistics.group_gaps import SMALLEST_GROUP
from krisis.statistics.intervals import DEFAULT_LEVEL, level_name

_GENERAL = ("sex", "age_band", "item", "site")
_AGE_BANDS = ((0, 18), (18, 40), (40, 60), (60, 75), (75, 200))


def group_columns(rows: Rows) -> dict[str, list[str]]:
    """Return the group of every scored row under each heading that the metadata support.

    The headings are the groups of the task, and what any suite may state in its metadata.
    """
    scored = rows.table.rows
    labels = {
        heading: [group_label(row, heading, key) for row in scored]
        for heading, key in group_headings(rows.answers).items()
    }
    return {heading: groups for heading, groups in labels.items() if len(set(groups)) > 1}


def group_headings(answers: Answers | None) -> dict[str, str]:
    """Return every heading that rows may be grouped under, with its metadata key."""
    groups = (answers or Answers()).groups
    found = {**groups, **{name: name for name in _GENERAL if name not in groups}}
    return {**{name.replace("_", " "): key for name, key in found.items()}, "source": "synthetic"}


def group_label(row: EvaluationResult, heading: str, key: str) -> str:
    """Return the group of a row under a heading."""
    if heading == "source":
        return _source(row) or "not stated"
    if key == "age_band":
        return _age_band(row) or "not stated"
    return group_of(row, heading.replace(" ", "_"), key) or "not stated"


def group_of(row: EvaluationResult, name: str, key: str) -> str:
    """Return the group that the metadata of a row give under a key, or under its name."""
    value = row.metadata.get(key, row.metadata.get(name))
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return str(value).strip()


def _source(row: EvaluationResult) -> str:
    synthetic = row.metadata.get("synthetic")
    return {True: "synthetic", False: "real"}.get(synthetic, "") if synthetic is not None else ""


def _age_band(row: EvaluationResult) -> str:
    band = group_of(row, "age_band", "age_band")
    age = row.metadata.get("age")
    if band or isinstance(age, bool) or not isinstance(age, int | float) or not 0 <= age < 200:
        return band
    low, high = next(pair for pair in _AGE_BANDS if pair[0] <= age < pair[1])
    return f"{low}+" if high == 200 else f"{low}–{high - 1}"


def breakdown_table(rows: Rows, level: float = DEFAULT_LEVEL) -> list[JsonObject]:
    """Return accuracy, abstention and alignment of every group that is large enough to show."""
    columns = rows.table
    table: list[JsonObject] = []
    for heading, labels in group_columns(rows).items():
        names, codes = np.unique(np.array(labels), return_inverse=True)
        for code, name in enumerate(names[:LARGEST_NUMBER_OF_GROUPS]):
            found = _group_rows(columns, codes == code, level)
            table += [{"by": heading, "group": str(name), **row} for row in found]
    return table


def _group_rows(columns: Table, inside: BoolArray, level: float) -> list[JsonObject]:
    labelled = columns.should_abstain >= 0
    aligned = np.where(columns.should_abstain == 1, columns.abstained, columns.answered)
    shares = {
        "accuracy": (columns.correct, inside),
        "selective accuracy": (columns.correct, inside & columns.answered),
        "abstention rate": (columns.abstained, inside),
        "deferral alignment": (aligned, inside & labelled),
    }
    return [
        {"metric": metric, **_share(columns, hits, kept, level)}
        for metric, (hits, kept) in shares.items()
    ]


def _share(columns: Table, hits: BoolArray, kept: BoolArray, level: float) -> JsonObject:
    n_rows, n_patients = int(np.count_nonzero(kept)), np.unique(columns.patients.code[kept]).size
    if n_patients < SMALLEST_GROUP:
        hidden = {"n": None if n_rows else 0, "value": None, "low": None, "high": None}
        return {**hidden, "note": f"fewer than {SMALLEST_GROUP} patients"}
    share = Share(hits, among=kept)
    interval = share.uncertainty(columns, BootstrapOptions(level=level)).interval
    return {
        "n": n_rows,
        "value": share.value(),
        "low": interval.low,
        "high": interval.high,
        "note": "",
    }


def breakdown_figures(rows: Rows, level: float = DEFAULT_LEVEL) -> list[Figure]:
    """Draw one figure per heading: a row for each group, a panel for each share."""
    table = breakdown_table(rows, level)
    headings = list(dict.fromkeys(row["by"] for row in table))
    return [
        _figure(heading, [row for row in table if row["by"] == heading], level)
        for heading in headings
    ]


def _figure(heading: str, table: list[JsonObject], level: float) -> Figure:
    percent = level_name([level])
    tones = {
        "accuracy": CORRECT,
        "selective accuracy": CORRECT,
        "abstention rate": ABSTAINED,
        "deferral alignment": REFERENCE,
    }
    panels = [
        _panel([row for row in table if row["metric"] == metric], str(tone), first=i == 0)
        for i, (metric, tone) in enumerate(tones.items())
    ]
    return Figure(
        f"breakdown_{heading.replace(' ', '_')}",
        f"By {heading}",
        (
            f"Points are shares, bars {percent} intervals, wider where patients have several "
            "alike rows; its number of rows is beside each name. A group with fewer than "
            f"{SMALLEST_GROUP} patients is named but not shown. Overlapping bars "
            "do not prove that groups are alike."
        ),
        alt.hconcat(*panels, spacing=14),
        table,
        [
            Mark(
                "dot",
                CORRECT,
                f"share of the rows of a group, with its {percent} interval by patient",
            )
        ],
    )


def _panel(rows: list[JsonObject], tone: str, *, first: bool) -> Chart:
    y = alt.Y(
        "label:N",
        sort=None,
        axis=alt.Axis(
            title=None,
            labels=first,
            ticks=False,
            domain=False,
            labelLimit=150,
            minExtent=110 if first else 0,
        ),
    )
    axis = alt.Axis(title=None, format=".0%", values=[0, 0.5, 1])
    shown = [
        {**row, "label": f"{row['group']}  ·  {row['n']:,}" if row["n"] else row["group"]}
        for row in rows
    ]
    base = alt.Chart(data(shown), width=190, height=max(2, len(rows)) * 24, title=rows[0]["metric"])
    bars = base.mark_rule(color=tone, strokeWidth=2).encode(
        x=alt.X("low:Q", scale=unit_scale(), axis=axis), x2=alt.X2("high:Q"), y=y
    )
    points = base.mark_circle(color=tone, size=64, opacity=1).encode(
        x=alt.X("value:Q", axis=axis), y=y
    )
    notes = (
        base.transform_filter("datum.value === null")
        .mark_text(align="left", dx=3, fontSize=11, color=str(MUTED))
        .encode(x=alt.datum(0), y=y, text=alt.Text("note:N"))
    )
    return bars + points + notes

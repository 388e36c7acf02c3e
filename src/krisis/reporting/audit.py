"""An audit in a report: risk over coverage of every group, and the gaps of all figures."""

from __future__ import annotations

import math
from collections.abc import Sequence

from krisis.decisions.audit import Audit
from krisis.decisions.audit_groups import audit_groups
from krisis.decisions.group_findings import (
    HEADINGS,
    Group,
    GroupAudit,
)
from krisis.json_values import JsonObject
from krisis.metrics.items import RunItems
from krisis.pages.figure import Chart, Figure, alt, data, percent_axis, unit_scale
from krisis.pages.palette import CORRECT, MUTED, WRONG
from krisis.reporting.report import Section, tables_of

_CURVES = (
    "From left to right less confident answers are accepted, at thresholds that all groups share. "
    "The thick line is the group at its own coverage, the thin one all rows. A group whose line "
    "climbs to the left is answered worse when the model is surer. Points with fewer than 20 "
    "patients are not drawn."
)
_FOREST = (
    "A point is the figure of a group less that of all other rows, a bar its interval, which hold "
    "for all groups together. Orange points are flagged: their risk is higher, or rises as "
    "coverage falls, in tests that flag anything in at most 5 % of audits without a difference."
)


def audit_section(run: RunItems) -> Section:
    """Return the section of a report that audits the groups of the task."""
    audit = audit_groups(run)
    shown = [group for group in audit.groups if group.measures]
    figures = [curve_figure(audit, column) for column in dict.fromkeys(g.column for g in shown)]
    figures = [figure for figure in figures if figure.table]
    figures += [forest(shown)] if gap_rows(shown) else []
    return Section(
        "audit", "Audit", figures, "No group.", wide=True, tables=tables_of(Audit(audit).document())
    )


def curve_figure(audit: GroupAudit, column: str) -> Figure:
    """Draw risk over coverage: a panel for every group, all rows behind it."""
    whole = [point for point in audit.curve if not point["column"]]
    points = [point for point in audit.curve if point["column"] == column]
    drawn = {point["group"] for point in points}
    names = [g.name for g in audit.groups if g.column == column and g.name in drawn]
    top = max((point["risk"] for point in [*points, *whole]), default=0.0)
    x = alt.X("coverage:Q", scale=unit_scale(), axis=percent_axis(title="coverage"))
    scale = alt.Scale(domain=[0, min(1.0, max(0.05, top * 1.08))], nice=False)
    y = alt.Y("risk:Q", scale=scale, axis=percent_axis(title="risk of the answered"))
    behind = alt.Chart(data(whole)).mark_line(color=str(MUTED), strokeWidth=1)
    panels = []
    for name in names:
        own = alt.Chart(data([p for p in points if p["group"] == name]))
        line = own.mark_line(
            color=str(CORRECT), strokeWidth=3, point={"size": 24, "color": str(CORRECT)}
        )
        layers = alt.layer(behind.encode(x=x, y=y), line.encode(x=x, y=y))
        panels.append(layers.properties(title=name, width=200, height=150))
    lines = [alt.hconcat(*panels[i : i + 4]) for i in range(0, len(panels), 4)]
    title = f"Risk and coverage by {column}"
    return Figure(f"audit_curves_{column}", title, _CURVES, alt.vconcat(*lines), points)


def gap_rows(groups: Sequence[Group]) -> list[JsonObject]:
    """Return the gap of every group in every figure that has one."""
    return [
        {
            "group": group.name,
            "measure": heading,
            "gap": group.measures[measure].gap,
            "low": group.measures[measure].gap_low,
            "high": group.measures[measure].gap_high,
            "p_adjusted": group.measures[measure].p_adjusted,
            "flagged": measure == "risk" and bool(group.flags),
        }
        for measure, heading in HEADINGS.items()
        for group in groups
        if not math.isnan(group.measures[measure].gap)
    ]


def forest(groups: Sequence[Group]) -> Figure:
    """Draw the gaps: a row for each group, a panel for each figure."""
    table = gap_rows(groups)
    order = [group.name for group in groups]
    found = dict.fromkeys(row["measure"] for row in table)
    panels = [
        _panel([row for row in table if row["measure"] == measure], order, first=i == 0)
        for i, measure in enumerate(found)
    ]
    chart = alt.hconcat(*panels, spacing=12)
    return Figure("audit_gaps", "Gaps of the groups to the rest", _FOREST, chart, table)


def _panel(rows: list[JsonObject], order: list[str], *, first: bool) -> Chart:
    axis = alt.Axis(title=None, labels=first, ticks=False, domain=False, labelLimit=150)
    y = alt.Y("group:N", sort=order, scale=alt.Scale(domain=order), axis=axis)
    end = 1.05 * max(max(abs(row["low"]), abs(row["high"])) for row in rows)
    scale = alt.Scale(domain=[-end, end])
    x = alt.X("gap:Q", scale=scale, axis=alt.Axis(title=None, format="+.2f", tickCount=3))
    base = alt.Chart(
        data(rows), width=150, height=max(2, len(order)) * 22, title=rows[0]["measure"]
    )
    tone = alt.condition("datum.flagged", alt.value(str(WRONG)), alt.value(str(CORRECT)))
    zero = alt.Chart(data([{"gap": 0}])).mark_rule(color=str(MUTED), strokeDash=[3, 3]).encode(x=x)
    bars = base.mark_rule(strokeWidth=2).encode(
        x=alt.X("low:Q", scale=scale), x2=alt.X2("high:Q"), y=y, color=tone
    )
    points = base.mark_circle(size=64, opacity=1).encode(x=x, y=y, color=tone)
    return zero + bars + points

"""The charts of an audit: a curve per group, and the gaps between groups."""

from __future__ import annotations

import math

from krisis.pages.charts.curves import Curve, CurvePanels
from krisis.pages.charts.forest import Panel, panel_columns, panel_row
from krisis.pages.charts.spec import FigureSpec
from krisis.pages.numbers import Estimate, share
from krisis.pages.palette import CORRECT, WRONG
from krisis.pages.style import Mark, Series, Style
from krisis.verbs.audit.groups import HEADINGS, GroupAudit


def group_curves(audit: GroupAudit, column: str, style: Style) -> FigureSpec:
    """Draw risk over coverage: a panel for every group of a column, all rows behind it."""
    points = [{**row, "run": row["group"], "selective_risk": row["risk"]} for row in audit.curve]
    whole = [row for row in points if not row["column"]]
    names = [group.name for group in audit.groups if group.column == column]
    inside = {
        name: [p for p in points if p["column"] == column and p["run"] == name] for name in names
    }
    curves = {name: Curve(name=name, points=rows) for name, rows in inside.items() if rows}
    last = {name: one.points[-1]["selective_risk"] for name, one in curves.items()}
    title = f"Risk by {column}"
    if last:
        worst, least = max(last, key=lambda n: last[n]), min(last, key=lambda n: last[n])
        ends = (
            f"{share(Estimate(last[least]))} ({least}) to {share(Estimate(last[worst]))} ({worst})"
        )
        title = f"Risk of all answers by {column}: {ends}"
    return FigureSpec(
        name=f"audit_curves_{column}",
        title=title,
        reading=(
            "From left to right less confident answers are accepted, at thresholds that all groups "
            "share. The thick line is the group at its own coverage, the thin one all cases. A "
            "line that climbs to the left is a group that is answered worse when the model is more "
            "confident. Points with fewer than 20 patients are not drawn."
        ),
        draw=CurvePanels(curves, style, "selective", behind=whole).apart,
        table=[
            {
                name: row[name]
                for name in ("column", "group", "threshold", "coverage", "risk")
                if name in row
            }
            for one in curves.values()
            for row in one.points
        ],
    )


def gap_forest(audit: GroupAudit, style: Style) -> FigureSpec:
    """Draw how far the figures of each audited group are from those of all other cases."""
    groups = [group for group in audit.groups if group.measures]
    order = [group.name for group in groups]
    panels = []
    for measure, heading in HEADINGS.items():
        found = {group.name: (group, group.measures[measure]) for group in groups}
        rows = [
            {
                **panel_row(
                    heading, name, Estimate(one.gap, one.gap_low, one.gap_high), one.n_rows
                ),
                "p_adjusted": one.p_adjusted,
                "flagged": measure == "risk" and bool(group.flags),
            }
            for name, (group, one) in found.items()
            if not math.isnan(one.gap)
        ]
        if rows:
            panels.append(Panel(heading, rows, reference=0.0))
    flagged = [group.name for group in groups if group.flags]
    return FigureSpec(
        name="audit_gaps",
        title=f"Flagged: {', '.join(flagged)}" if flagged else "No group is flagged",
        reading=(
            "A point is the figure of a group minus that of all other cases, a bar its interval; "
            "the intervals hold for all groups together. Orange points are flagged: their risk is "
            "higher, or rises as coverage falls, in tests that flag anything in at most 5 % of "
            "audits without a difference."
        ),
        draw=lambda width: panel_columns(panels, order, style, width),
        table=[
            {
                "group": row["run"],
                "measure": row["panel"],
                "gap": row["value"],
                **{name: row[name] for name in ("low", "high", "p_adjusted", "flagged")},
            }
            for panel in panels
            for row in panel.rows
        ],
        key=[
            Mark("dot", Series(CORRECT), "gap of a group, with its interval"),
            Mark("dot", Series(WRONG), "flagged"),
        ],
    )

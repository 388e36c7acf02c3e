"""The chart of a threshold in use: the evidence after every patient."""

from __future__ import annotations

import numpy as np

from krisis.json_values import JsonObject
from krisis.metrics.risk_coverage import spread_evenly
from krisis.pages.charts.curves import drawn_lines, plotted
from krisis.pages.charts.spec import FigureSpec
from krisis.pages.figure import Chart, alt, data
from krisis.pages.groups import spaced
from krisis.pages.numbers import given
from krisis.pages.palette import WRONG
from krisis.pages.style import Mark, Series, Style, series
from krisis.verbs.monitor.evidence import Monitoring

_MOST_PATIENTS = 400  # of a line of evidence


_EVIDENCE = {
    "broken": "The evidence that the risk is above its bound is decisive",
    "holds": "The risk holds",
    "cannot tell": "The evidence that the risk is above its bound is not decisive",
}


def evidence(found: Monitoring, style: Style) -> FigureSpec:
    """Draw the evidence that the risk is broken over the patients, with what is decisive."""
    lines: dict[str, list[JsonObject]] = {}
    for part in found.parts:
        name, factors = spaced(part.group) or "all patients", part.evidence_broken
        lines[name] = [
            {
                "group": name,
                "patients": place + 1,
                "evidence": float(np.exp(np.clip(factors[place], -14.0, 14.0))),
            }
            for place in (
                spread_evenly(factors.size, _MOST_PATIENTS).tolist() if factors.size else []
            )
        ]
    marks, decisive = series(lines), max(1 / part.level for part in found.parts)
    table = [row for rows in lines.values() for row in rows]
    seen = [row["evidence"] for row in table]
    # What is decisive is always on the axis.
    scale = {"type": "log", "domain": [min([0.1, *seen]), max([5 * decisive, *seen])]}

    def draw(width: float) -> Chart:
        powers = alt.Axis(
            title="evidence for a broken bound",
            values=[10.0**power for power in range(-6, 7, 2)],
            format="~r",
        )
        rule = alt.Chart(data([{"evidence": decisive}])).mark_rule(
            strokeDash=[4, 3], color=str(WRONG), strokeWidth=style.stroke * 0.75
        )
        return plotted(
            [
                rule.encode(y=alt.Y("evidence:Q")),
                *drawn_lines(lines, marks, style, "patients", "evidence"),
            ],
            alt.X(axis=alt.Axis(title="patients in order of arrival", tickCount=6)),
            alt.Y(scale=alt.Scale(**scale), axis=powers),
            width,
        ).properties(height=width * 0.4)

    return FigureSpec(
        name="monitor",
        title=_EVIDENCE[found.state],
        reading=(
            "Each new patient multiplies the evidence. It starts at 1 and is decisive from "
            f"{given(decisive)} on (dashed). A line that falls speaks for the bound."
        ),
        draw=draw,
        table=table,
        key=[
            *(Mark("line", one, name) for name, one in marks.items() if len(marks) > 1),
            Mark("line", Series(WRONG, (4, 3)), f"decisive: {given(decisive)}"),
        ],
        needs_key=len(marks) > 1,
    )

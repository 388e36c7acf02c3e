"""The audit of a run as a section of its report."""

from __future__ import annotations

import numpy as np

from krisis.api.sections import SectionRequest
from krisis.pages.charts.spec import page_chart
from krisis.pages.document import Section
from krisis.pages.embedded import parts_of
from krisis.verbs.audit.chart import gap_forest, group_curves
from krisis.verbs.audit.groups import GroupAudit, audit_groups
from krisis.verbs.audit.result import Audit


def audit_of_report(asked: SectionRequest) -> Section:
    """Audit the groups of the task."""
    return audit_section(audit_groups(asked.items))


def audit_section(audit: GroupAudit) -> Section:
    """Show how the figures of every group differ from the rest."""
    shown = [group for group in audit.groups if group.measures]
    drawn = {point["column"] for point in audit.curve if point["column"]}
    charts = [
        page_chart(
            f"audit_curves_{column}",
            lambda style, column=column: group_curves(audit, column, style),  # type: ignore[misc]
            wide=True,
        )
        for column in dict.fromkeys(group.column for group in shown)
        if column in drawn
    ]
    if any(np.isfinite(m.gap) for group in shown for m in group.measures.values()):
        charts.append(page_chart("audit_gaps", lambda style: gap_forest(audit, style), wide=True))
    return Section(key="audit", title="Audit", parts=parts_of(Audit(audit).document(), charts))

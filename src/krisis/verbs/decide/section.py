"""What answering costs and gains as sections of a report."""

from __future__ import annotations

from krisis.pages.charts.spec import page_chart
from krisis.pages.document import Section
from krisis.pages.embedded import parts_of
from krisis.verbs.decide.chart import cost, net_benefit, team_errors
from krisis.verbs.decide.curve import DecisionCurve
from krisis.verbs.decide.policies import Decision


def cost_section(decision: Decision) -> Section:
    """Show what a run costs by every policy."""
    charts = [page_chart("costs", lambda style: cost({"this run": decision}, style))]
    if decision.options.team is not None:
        charts.append(page_chart("team", lambda style: team_errors(decision, style)))
    return Section(key="costs", title="Costs", parts=parts_of(decision.document(), charts))


def benefit_section(curve: DecisionCurve) -> Section:
    """Show the decision curve of a run."""
    chart = page_chart("decision_curve", lambda style: net_benefit({"this run": curve}, style))
    parts = parts_of(curve.document(), [chart])
    return Section(key="decision-curve", title="Decision curve", parts=parts)

"""What answering costs and gains as sections of a report."""

from __future__ import annotations

from krisis.api.sections import SectionRequest
from krisis.decisions.threshold_in_force import threshold_of_run
from krisis.pages.charts.spec import page_chart
from krisis.pages.document import Section
from krisis.pages.embedded import parts_of
from krisis.verbs.decide import baselines_of
from krisis.verbs.decide.chart import cost, net_benefit, team_errors
from krisis.verbs.decide.curve import CurveOptions, DecisionCurve, decision_curve
from krisis.verbs.decide.policies import DecideOptions, Decision, decide_run
from krisis.verbs.decide.population import Prevalence


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


def costs_of_report(asked: SectionRequest) -> Section:
    """Show what every policy costs."""
    options = DecideOptions(
        certificate=asked.certificate, score=asked.score, prevalence=_population(asked)
    )
    baselines = baselines_of(asked.run, asked.against)
    return cost_section(decide_run(asked.items, options, baselines=baselines))


def curve_of_report(asked: SectionRequest) -> Section:
    """Draw the decision curve, answering from the threshold in force."""
    in_force = threshold_of_run(asked.items, score=asked.score, certificate=asked.certificate)
    options = CurveOptions(
        score=asked.score, answer_from=in_force.threshold, prevalence=_population(asked)
    )
    return benefit_section(decision_curve(asked.items, options))


def _population(asked: SectionRequest) -> Prevalence | None:
    return Prevalence.from_text(asked.prevalence) if asked.prevalence else None

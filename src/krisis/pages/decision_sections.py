"""What a report of a run adds on request: a certificate, costs, a decision curve, an audit."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache

import numpy as np

from krisis.confidence.calibrators import Calibrator
from krisis.decisions.certificate import Certificate
from krisis.decisions.costs import PER
from krisis.decisions.decide import Decision, Policy
from krisis.decisions.decide_text import assumptions, best_lines, decide_opening, shown_points
from krisis.decisions.decision_curve import DecisionCurve, curve_lines
from krisis.decisions.group_findings import (
    HEADINGS,
    GroupAudit,
    Measure,
    group_assumptions,
    verdict_lines,
)
from krisis.decisions.run_sample import groups_of, rows_hash, sample_of
from krisis.decisions.verify import score_options, verify_run
from krisis.metrics.items import RunItems
from krisis.pages.charts.curves import certified, cost, group_curves, net_benefit, team_errors
from krisis.pages.charts.forest import gap_forest
from krisis.pages.charts.spec import FigureSpec
from krisis.pages.document import Cell, Chart, Column, Content, Section, Sentences, Table
from krisis.pages.numbers import Estimate
from krisis.pages.style import Style

_PAGE = Style()


def _chart(key: str, build: Callable[[Style], FigureSpec], *, wide: bool = False) -> Chart:
    """Return a chart that is drawn when it is asked for, and then once."""
    style = _PAGE.whole_width if wide else _PAGE
    return Chart(key=key, draw=cache(lambda: build(style).figure(style)), wide=wide)


def _sentences(lines: Sequence[str]) -> Sentences:
    return Sentences([line.strip(" -") for line in lines if line.strip()])


def certificate_section(
    certificate: Certificate, run: RunItems, *, calibrator: Calibrator | None = None
) -> Section:
    """Show a certificate on the curve of a run; on new patients also whether it holds.

    A run that is neither the calibration run nor of new patients of the same kind is refused.
    """
    sample = sample_of(run, score_options(certificate, calibrator))
    groups = groups_of(run, certificate.by) if certificate.by else {"": np.ones(run.n_items, bool)}
    thresholds = {part.group: part.threshold for part in certificate.parts}
    parts = {
        name or "all": (sample.part(rows), thresholds.get(name)) for name, rows in groups.items()
    }
    found: list[Content] = [
        Sentences(certificate.document().sentences()),
        _chart("certificate", lambda style: certified(certificate, parts, style)),
    ]
    if rows_hash(run, sample) != certificate.calibration_rows_hash:
        verification = verify_run(certificate, run, calibrator=calibrator)
        found.append(
            Sentences(["On the patients of this run:", *verification.document().sentences()])
        )
    return Section(key="certificate", title="Certified threshold", parts=found)


def cost_section(decision: Decision) -> Section:
    """Show what a run costs by every policy."""
    level = decision.options.level
    columns = (
        Column("name", "policy"),
        Column("count", "answered"),
        Column("count", "cases"),
        Column("share", "coverage"),
        Column("figure", f"cost per {PER:,}"),
    )
    rows: list[list[Cell]] = [
        [
            policy.name,
            policy.n_answered,
            policy.n_rows,
            policy.coverage,
            policy.reason or Estimate(policy.cost, policy.low, policy.high, level),
        ]
        for policy in decision.policies
    ]
    parts: list[Content] = [
        _sentences(decide_opening(decision)),
        _chart("costs", lambda style: cost({"this run": decision}, style)),
    ]
    if decision.options.team is not None:
        parts.append(_chart("team", lambda style: team_errors(decision, style)))
    parts.append(Table(columns=columns, rows=rows, title="Policies"))
    parts.append(_sentences(best_lines(decision)))
    if decision.options.team is not None:
        parts.append(_team(decision))
    parts.append(_sentences(["Assumptions:", *assumptions(decision)]))
    return Section(key="costs", title="Costs", parts=parts)


def _team(decision: Decision) -> Table:
    columns = (
        Column("name", "threshold"),
        Column("share", "coverage"),
        Column("figure", "wrong"),
        Column("figure", "missed"),
        Column("figure", "read"),
    )
    title = f"Model and readers, per {PER:,} {decision.run.words[1]}s"
    shown = [row for point in shown_points(decision.curve) if (row := _team_row(point))]
    return Table(columns=columns, rows=shown, title=title)


def _team_row(point: Policy) -> list[Cell]:
    work = point.workload
    if work is None:
        return []
    at = "defer all" if point.threshold is None else Column("threshold", "").write(point.threshold)
    wrong = Estimate(work.wrong, work.wrong_low, work.wrong_high)
    return [at, point.coverage, wrong, work.missed, work.read]


def benefit_section(curve: DecisionCurve) -> Section:
    """Show the decision curve of a run."""
    lines = [line.strip(" -") for line in curve_lines(curve)]
    first, last = lines.index(""), len(lines) - lines[::-1].index("")
    parts: list[Content] = [
        _sentences(lines[:first]),
        _chart("decision_curve", lambda style: net_benefit({"this run": curve}, style)),
        _sentences(lines[last:]),
    ]
    return Section(key="decision-curve", title="Decision curve", parts=parts)


def audit_section(audit: GroupAudit) -> Section:
    """Show how the figures of every group differ from the rest."""
    shown = [group for group in audit.groups if group.measures]
    drawn = {point["column"] for point in audit.curve if point["column"]}
    parts: list[Content] = [_sentences(verdict_lines(audit))]
    parts += [
        _chart(
            f"audit_curves_{column}",
            lambda style, column=column: group_curves(audit, column, style),  # type: ignore[misc]
            wide=True,
        )
        for column in dict.fromkeys(group.column for group in shown)
        if column in drawn
    ]
    if any(np.isfinite(m.gap) for group in shown for m in group.measures.values()):
        parts.append(_chart("audit_gaps", lambda style: gap_forest(audit, style), wide=True))
    columns = (
        Column("name", "group"),
        Column("count", "patients"),
        Column("count", "cases"),
        *(Column("share", heading) for heading in HEADINGS.values()),
    )
    rows: list[list[Cell]] = [
        ["all", audit.n_patients, audit.n_rows, *map(_measure, _measures(audit.overall))],
        *(
            [g.name, g.n_patients, g.n_rows, *map(_measure, _measures(g.measures))]
            for g in audit.groups
        ),
    ]
    parts.append(Table(columns=columns, rows=rows))
    parts.append(_sentences(["Assumptions:", *group_assumptions(audit)]))
    return Section(key="audit", title="Audit", parts=parts)


def _measures(found: Mapping[str, Measure]) -> list[Measure | None]:
    return [found.get(name) for name in HEADINGS]


def _measure(one: Measure | None) -> Cell:
    if one is None:
        return ""
    return one.reason or Estimate(one.value, one.low, one.high)

"""What a report of a run adds on request: a certificate, costs, a decision curve, an audit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from krisis.confidence.calibrators import Calibrator
from krisis.decisions.certify import Certificate
from krisis.decisions.run_sample import groups_of, rows_hash, sample_of
from krisis.decisions.verify import score_options, verify_run
from krisis.metrics.items import RunItems
from krisis.pages.charts.curves import certified
from krisis.pages.charts.spec import page_chart
from krisis.pages.document import Chart, Content, Document, Facts, Section, Sentences, Table
from krisis.verbs.audit.chart import gap_forest, group_curves
from krisis.verbs.audit.groups import GroupAudit
from krisis.verbs.audit.result import Audit
from krisis.verbs.decide.chart import cost, net_benefit, team_errors
from krisis.verbs.decide.curve import DecisionCurve
from krisis.verbs.decide.policies import Decision


def _parts(document: Document, charts: Sequence[Chart] = ()) -> list[Content]:
    """Return a document as the parts of one section: its answer, its charts, then its evidence."""
    found: list[Content] = [Sentences(document.lead)] if document.lead else []
    if document.verdict is not None:
        said = [
            (line.question, ": ".join(filter(None, (line.answer, line.sentence()))))
            for line in document.verdict.lines
        ]
        found.append(Facts(said))
    found += charts
    for section in document.sections:
        first = next((part for part in section.parts if isinstance(part, Table)), None)
        for part in section.parts:
            if isinstance(part, Table) and part is first and not part.title:
                found.append(replace(part, title=section.title))
            elif isinstance(part, Sentences):
                found.append(Sentences([f"{section.title}:", *part.lines]))
            else:
                found.append(part)
    return found


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
    chart = page_chart("certificate", lambda style: certified(certificate.risk, parts, style))
    found = _parts(certificate.document(), [chart])
    if rows_hash(run, sample) != certificate.calibration_rows_hash:
        verification = verify_run(certificate, run, calibrator=calibrator)
        found += [Sentences(["On the patients of this run:"]), *_parts(verification.document())]
    return Section(key="certificate", title="Certified threshold", parts=found)


def cost_section(decision: Decision) -> Section:
    """Show what a run costs by every policy."""
    charts = [page_chart("costs", lambda style: cost({"this run": decision}, style))]
    if decision.options.team is not None:
        charts.append(page_chart("team", lambda style: team_errors(decision, style)))
    return Section(key="costs", title="Costs", parts=_parts(decision.document(), charts))


def benefit_section(curve: DecisionCurve) -> Section:
    """Show the decision curve of a run."""
    chart = page_chart("decision_curve", lambda style: net_benefit({"this run": curve}, style))
    parts = _parts(curve.document(), [chart])
    return Section(key="decision-curve", title="Decision curve", parts=parts)


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
    return Section(key="audit", title="Audit", parts=_parts(Audit(audit).document(), charts))

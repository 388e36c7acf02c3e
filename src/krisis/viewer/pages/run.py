"""The page of one run: its report, live while the run goes on."""

from __future__ import annotations

from krisis.json_values import JsonObject
from krisis.reporting.report import RunReport
from krisis.viewer.case_links import CaseLinks
from krisis.viewer.catalogue import Catalogue
from krisis.viewer.page import Page
from krisis.viewer.pages.runs import progress_page


def page(catalogue: Catalogue, name: str) -> Page:
    """Show the report of a run, as far as the run has come."""
    run = catalogue.load(name)
    progress = progress_page(catalogue, name).content
    report = run.report
    content = {"name": name, "progress": progress, **_facts(report)}
    content["metric_scores"] = run.remembered(
        "scores", lambda: run.result.to_dict(include_results=False)["metric_scores"]
    )
    context = {"report": report, "links": CaseLinks(run)}
    return Page("run.html", f"{report.heading} · {name}", content, context)


def _facts(report: RunReport) -> JsonObject:
    return {
        "heading": report.heading,
        "suite": report.eyebrow,
        "attrition": str(report.attrition),
        "failures": report.attrition.to_dict().get("failures", {}),
        "damage": report.damage,
        "imported": report.imported,
        "mixture": report.mixture,
        "stopping": report.stopping,
        "verdict": None if report.verdict is None else report.verdict.to_dict(),
        "partition": None if report.partition is None else report.partition.to_dict(),
        "charts": {figure.name: list(figure.table) for figure in report.figures},
        "tables": {name: rows for part in report.sections for name, rows in part.tables.items()},
        "execution": dict(report.execution),
        "data": dict(report.data),
        "prompts": dict(report.prompts),
    }

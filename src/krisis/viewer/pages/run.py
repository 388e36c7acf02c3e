"""The page of one run: its document, live while the run goes on."""

from __future__ import annotations

from krisis.json_values import JsonObject, plain
from krisis.metrics.partition import Partition
from krisis.pages.document import Document, Facts, Table
from krisis.pages.html import contents_html, opening_html, sections_html
from krisis.pages.tabs import Page, case_address
from krisis.viewer.catalogue import Catalogue
from krisis.viewer.pages.cases import PRESETS
from krisis.viewer.pages.runs import progress_page


def page(catalogue: Catalogue, name: str) -> Page:
    """Show the document of a run, as far as the run has come."""
    run = catalogue.load(name)
    progress = progress_page(catalogue, name).content
    document, address = run.document, case_address(run)
    content = {"name": name, "progress": progress, **_facts(document)}
    content["failures"] = run.result.attrition.to_dict().get("failures", {})
    content["partition"] = (
        Partition.of(run.result.rows.table).to_dict() if run.result.rows else None
    )
    content["metric_scores"] = run.remembered(
        "scores", lambda: run.result.to_dict(include_results=False)["metric_scores"]
    )
    context = {
        "opening": opening_html(document),
        "body": contents_html(document)
        + run.remembered("page", lambda: sections_html(document, address)),
        "presets": [
            (words, address(wanted), n)
            for words, wanted in PRESETS.items()
            if (n := run.count(wanted))
        ],
    }
    title = f"{document.title} · {name}"
    return Page("run.html", title, content, context, document=document)


def _facts(document: Document) -> JsonObject:
    """Return what the page shows, for its twin: numbers in full, and no sentence twice."""
    tables: JsonObject = {}
    facts: JsonObject = {}
    for section in document.sections:
        for part in section.parts:
            if isinstance(part, Table):
                named = f"{section.key}: {part.title or part.name}".rstrip(": ")
                headings = [column.heading for column in part.columns]
                tables[named] = [dict(zip(headings, row, strict=True)) for row in part.rows]
            elif isinstance(part, Facts):
                facts |= dict(part.pairs)
    return {
        "title": document.title,
        "lead": list(document.lead),
        "verdict": None if document.verdict is None else document.verdict.to_dict(),
        "charts": {chart.key: list(chart.draw().table) for chart in document.charts()},
        "tables": plain(tables),
        "facts": facts,
    }

"""The report of one run: everything that its page shows, and the page as one file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from krisis import __version__
from krisis.json_values import JsonMapping, JsonObject
from krisis.metrics import default_benchmark_metrics
from krisis.metrics.base import Rows
from krisis.reporting import pages, provenance, wording
from krisis.reporting.costliest import CostlyRows, costliest_rows, shortened
from krisis.reporting.figure import Figure
from krisis.reporting.metric_lines import MetricLine, metric_lines
from krisis.reporting.reference_policies import (
    ReferenceScores,
    reference_policies,
    stored_baselines,
)
from krisis.reporting.sections import Section, chart_sections
from krisis.results.base import BenchmarkResult, FailureClass


@dataclass(frozen=True, slots=True)
class RunReport:
    """What the page of a run shows, ready for the template."""

    heading: str
    eyebrow: str
    attrition_line: str
    headline: str
    damage: str
    failures: Mapping[str, FailureClass]
    n_failed: int
    n_rows: int
    n_rows_stored: int
    segments: list[JsonObject]
    metric_lines: list[MetricLine]
    yardsticks: Sequence[ReferenceScores]
    sections: list[Section]
    costliest: list[JsonObject]
    execution: list[tuple[str, Any]]
    data: list[tuple[str, Any]]
    prompts: list[tuple[str, str]]
    n_prompts_left_out: int
    configuration: str
    reproduce: str
    contents: list[tuple[str, str]] = field(default_factory=list)

    @property
    def figures(self) -> list[Figure]:
        """Return every chart of the page in order."""
        return [figure for section in self.sections for figure in section.figures]


def build_report(
    result: BenchmarkResult,
    *,
    baselines: Mapping[str, BenchmarkResult] | None = None,
    reproduce: str = "",
) -> RunReport:
    """Work out the whole page of a run; ``baselines`` are other runs to read it against."""
    rows = result.rows
    yardsticks = [
        *(stored_baselines(result) or reference_policies(rows, default_benchmark_metrics())),
        *_runs_as_yardsticks(baselines or {}),
    ]
    attrition = result.attrition
    sections = chart_sections(rows, result.metric_scores)
    prompts = provenance.prompt_templates(result)
    return RunReport(
        heading=result.backend_name or "unnamed model",
        eyebrow=_suite_words(result),
        attrition_line=str(attrition),
        headline=wording.headline(result.metric_scores, attrition),
        damage=result.damage,
        failures=attrition.failures,
        n_failed=attrition.n_failed,
        n_rows=attrition.n_sent,
        n_rows_stored=len(rows),
        segments=_segments(rows),
        metric_lines=metric_lines(result.metric_scores, yardsticks),
        yardsticks=yardsticks,
        sections=sections,
        costliest=[_shown(kind) for kind in costliest_rows(rows)],
        execution=provenance.execution_facts(result),
        data=provenance.data_facts(result.suite_description),
        prompts=prompts[: provenance.N_PROMPTS_SHOWN],
        n_prompts_left_out=max(0, len(prompts) - provenance.N_PROMPTS_SHOWN),
        configuration=provenance.configuration_text(result),
        reproduce=reproduce
        or "krisis score RESULT.json   # the metrics again, from the stored rows",
        contents=_contents(sections, has_rows=bool(rows)),
    )


def _suite_words(result: BenchmarkResult) -> str:
    made = result.provenance
    parts = [part for part in (made.suite, made.task, made.features) if part]
    return " · ".join(parts) or "unnamed suite"


def _runs_as_yardsticks(baselines: Mapping[str, BenchmarkResult]) -> list[ReferenceScores]:
    return [
        ReferenceScores(name, f"a saved run of {run.backend_name}", dict(run.metric_scores))
        for name, run in baselines.items()
    ]


def _segments(rows: Rows) -> list[JsonObject]:
    if not rows:
        return []
    columns = rows.table
    n_correct, n_abstained = int(columns.correct.sum()), columns.n_abstained
    counts = {
        "correct": n_correct,
        "wrong": columns.n_scored - n_abstained - n_correct,
        "abstained": n_abstained,
        "failed": columns.n_failed,
    }
    start, segments = 0.0, []
    for tone, n_rows in counts.items():
        name = f"answered, {tone}" if tone in ("correct", "wrong") else tone
        share = n_rows / len(rows)
        segments.append({"name": name, "tone": tone, "n": n_rows, "share": share, "start": start})
        start += share
    return segments


def _shown(kind: CostlyRows) -> JsonObject:
    lines = [
        {
            "index": index,
            "record_id": row.record_id or f"row {index}",
            "answer": "abstained"
            if row.abstained
            else ("none" if row.prediction is None else row.prediction),
            "truth": row.ground_truth,
            "confidence": row.confidence,
            "reasons": reasons_of(row.metadata),
            "reply": shortened(row.raw_response),
        }
        for index, row in kind.rows
    ]
    return {
        "key": kind.key,
        "title": kind.title,
        "meaning": kind.meaning,
        "n_rows": kind.n_rows,
        "rows": lines,
    }


def reasons_of(metadata: JsonMapping) -> str:
    """Return why a case asked for deferral, as its metadata say."""
    reasons = metadata.get("abstain_reasons") or metadata.get("abstain_reason") or ""
    if isinstance(reasons, list | tuple):
        reasons = ", ".join(map(str, reasons))
    return str(reasons).replace("_", " ")


def _contents(sections: Sequence[Section], *, has_rows: bool) -> list[tuple[str, str]]:
    middle = [(section.anchor, section.title) for section in sections]
    rows = [("costliest", "Costliest rows")] if has_rows else []
    return [("metrics", "Metrics"), *middle, *rows, ("provenance", "How it was made")]


def report_html(report: RunReport) -> str:
    """Return the page as one self-contained file that runs no script and fetches nothing."""
    return pages.render(
        "report.html",
        report=report,
        title=f"{report.heading} on {report.eyebrow}",
        heading=report.heading,
        eyebrow=report.eyebrow,
        style=pages.style_sheet(),
        style_hash=pages.style_hash(),
        version=__version__,
    )


def save_figures(report: RunReport, folder: Path) -> list[Path]:
    """Write every chart as SVG, PNG and CSV."""
    return [path for figure in report.figures for path in figure.save(folder)]

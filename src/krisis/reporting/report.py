"""The report of one run: everything that its page shows, and the page as one file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from krisis.json_values import JsonMapping, JsonObject
from krisis.metrics import BootstrapOptions, default_classification_metrics
from krisis.metrics.abstention import DeferralAlignment
from krisis.metrics.base import EvaluationResult, MetricScore, Rows
from krisis.metrics.partition import Partition
from krisis.metrics.scoring import score_all
from krisis.pages.document import Verdict
from krisis.pages.figure import Figure
from krisis.pages.verdict import verdict_of
from krisis.reporting import pages, provenance
from krisis.reporting.breakdown import breakdown_figures
from krisis.reporting.confidence_charts import corp_figure, histogram_figure, reliability_figure
from krisis.reporting.costliest import CostlyRows, costliest_rows, shortened
from krisis.reporting.deferral import confusion_figure
from krisis.reporting.metric_lines import (
    MetricTable,
    metric_tables,
)
from krisis.reporting.risk_curves import risk_figures
from krisis.reporting.scored_as import ScoredAs
from krisis.results.base import Attrition, BenchmarkResult, rows_by_source
from krisis.results.ids import ShownIds
from krisis.results.report_tables import (
    deferral_table,
    deferral_words,
    disease_table,
    disease_words,
    matrix_table,
    mixture,
    reason_table,
    rule_table,
    rule_words,
    stopping_lines,
)


@dataclass(frozen=True, slots=True)
class Section:
    """Charts under one heading; ``absent`` is said in place of charts that have no data."""

    anchor: str
    title: str
    figures: Sequence[Figure]
    absent: str
    wide: bool = False
    words: str = ""
    tables: Mapping[str, Sequence[JsonObject]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RunReport:
    """What the page of a run shows, ready for the template."""

    heading: str
    eyebrow: str
    attrition: Attrition
    damage: str
    imported: str
    mixture: str
    stopping: list[str]
    verdict: Verdict | None
    partition: Partition | None
    metric_tables: list[MetricTable]
    sections: list[Section]
    costliest: list[tuple[CostlyRows, list[JsonObject]]]
    execution: list[tuple[str, Any]]
    data: list[tuple[str, Any]]
    prompts: list[tuple[str, str]]
    n_prompts_left_out: int
    configuration: str
    reproduce: str

    @property
    def figures(self) -> list[Figure]:
        """Return every chart of the page in order."""
        return [figure for section in self.sections for figure in section.figures]

    @property
    def contents(self) -> list[tuple[str, str]]:
        """Return the anchor and the title of every section of the page."""
        middle = [(section.anchor, section.title) for section in self.sections]
        rows = [("costliest", "Costliest rows")] if self.costliest else []
        return [("metrics", "Metrics"), *middle, *rows, ("provenance", "How it was made")]


def build_report(
    result: BenchmarkResult,
    *,
    baselines: Mapping[str, BenchmarkResult] | None = None,
    reproduce: str = "",
    sections: Sequence[Section] = (),
    ids: ShownIds | None = None,
) -> RunReport:
    """Work out the whole page of a run; ``baselines`` are other runs to read it against.

    ``sections`` come after those that every run has; ``ids`` are the names under which records are
    shown, numbers for real patients unless others are given.
    """
    rows, names = result.rows, ids or ShownIds.of(result)
    shown = [_signed(section, result) for section in (*chart_sections(result), *sections)]
    prompts = provenance.prompt_templates(result)
    return RunReport(
        heading=result.backend_name or "unnamed model",
        eyebrow=_eyebrow(result),
        attrition=result.attrition,
        damage=result.damage,
        imported=str(result.provenance.imported or ""),
        mixture=mixture(result),
        stopping=stopping_lines(result),
        verdict=verdict_of(result) if rows and not result.attrition.says_nothing else None,
        partition=Partition.of(rows.table) if rows else None,
        metric_tables=metric_tables(result, baselines or {}),
        sections=shown,
        costliest=[(kind, _lines(kind, names)) for kind in costliest_rows(rows)] if rows else [],
        execution=provenance.execution_facts(result),
        data=provenance.data_facts(result.suite_description),
        prompts=prompts[: provenance.N_PROMPTS_SHOWN],
        n_prompts_left_out=max(0, len(prompts) - provenance.N_PROMPTS_SHOWN),
        configuration=provenance.configuration_text(result),
        reproduce=reproduce
        or "krisis show RESULT.json --metric default   # the metrics again, from the stored rows",
    )


def _eyebrow(result: BenchmarkResult) -> str:
    made = result.provenance
    return " · ".join(filter(None, (made.suite, made.task, made.features))) or "unnamed suite"


def _signed(section: Section, result: BenchmarkResult) -> Section:
    """Write on every chart whose it is, of how many rows and of which day."""
    counts, day = result.attrition, (result.provenance.started_at or "")[:10]
    n_rows = f"n = {counts.n_evaluated:,} cases"
    about = (
        f"{result.backend_name or 'unnamed model'} · {_eyebrow(result)}",
        f"{n_rows} ({', '.join(counts.parts())})" + (f" · {day}" if day else ""),
    )
    return replace(section, figures=[replace(one, about=about) for one in section.figures])


def _clinical_sections(result: BenchmarkResult) -> list[Section]:
    """Return the figures of the disease and of deferral, for each kind of patients apart."""
    parts = {f" of {source} patients": part for source, part in rows_by_source(result.rows).items()}
    shown = parts if len(parts) > 1 else {"": result.rows}
    return [_disease_section(result, shown), _deferral_section(result, shown)]


def _disease_section(result: BenchmarkResult, parts: Mapping[str, Rows]) -> Section:
    task, metrics = result.provenance.task_facts, default_classification_metrics()
    options = BootstrapOptions(level=ScoredAs.of(result.metric_scores).level)
    tables, words = {}, ""
    for whose, rows in parts.items():
        scores = score_all(metrics, rows, intervals=options)
        tables[f"Figures of the disease{whose}"] = disease_table(scores)
        tables[f"Truth against answer{whose}"] = matrix_table(scores, task)
        words = words or disease_words(scores, task)
    return Section("disease", "Disease", [], "No row could be scored.", words=words, tables=tables)


def _deferral_section(result: BenchmarkResult, parts: Mapping[str, Rows]) -> Section:
    tables, words, figures = {}, "", []
    for whose, rows in parts.items():
        score = DeferralAlignment().compute(rows)
        tables[f"Deferral by kind{whose}"] = deferral_table(score)
        tables[f"Reasons for deferral{whose}"] = reason_table(score)
        tables[f"Rules, a checklist{whose}"] = rule_table(score)
        words = words or " ".join(filter(None, (deferral_words(score), rule_words(score))))
        figures += _drawn(confusion_figure(score, whose))
    return Section(
        "deferral",
        "Deferral",
        figures,
        "No row says whether deferral was due.",
        words=" ".join(filter(None, (result.suite.deferral, words))),
        tables=tables,
    )


def chart_sections(result: BenchmarkResult) -> list[Section]:
    """Draw every chart that the rows allow; of a metrics-only file, none."""
    rows, scores = result.rows, result.metric_scores
    if not rows:
        return []
    columns, scored = rows.table, ScoredAs.of(scores)
    return [
        Section(
            "confidence",
            "Confidence",
            _drawn(
                reliability_figure(columns, n_bins=scored.n_bins, level=scored.level),
                histogram_figure(columns),
                *(corp_figure(columns, of, level=scored.level) for of in _corp_outcomes(scores)),
            ),
            "No answered row states a confidence, so there is nothing to calibrate.",
        ),
        Section(
            "risk",
            "Risk and coverage",
            risk_figures(columns, scored.level),
            "There is no curve: no row was answered, or an answer states no confidence.",
        ),
        *_clinical_sections(result),
        Section(
            "groups",
            "Groups",
            breakdown_figures(rows, scored.level),
            "The metadata name no group of the task, sex, age, item or site that divides the rows.",
            wide=True,
        ),
    ]


def _corp_outcomes(scores: Mapping[str, MetricScore]) -> list[str]:
    """Return the outcomes of whose probabilities the run was scored with a part of CORP."""
    corp = [score for score in scores.values() if score.key.startswith("corp_")]
    return sorted({str(score.parameters.get("of", "correct")) for score in corp})


def _drawn(*figures: Figure | None) -> list[Figure]:
    return [figure for figure in figures if figure is not None]


def _lines(kind: CostlyRows, names: ShownIds) -> list[JsonObject]:
    return [
        {
            "index": index,
            "record_id": names.record(row.record_id) or f"row {index}",
            "answer": _answer_words(row),
            "truth": row.ground_truth,
            "confidence": row.confidence,
            "reasons": reasons_of(row.metadata),
            "reply": shortened(row.raw_response),
        }
        for index, row in kind.rows
    ]


def _answer_words(row: EvaluationResult) -> str:
    """Return what a row says in place of, or as, its answer."""
    if row.outcome == "abstained":
        return "abstained"
    said = "none" if row.prediction is None else str(row.prediction)
    return said if row.outcome == "answered" else f"{said} ({row.failure_class})"


def reasons_of(metadata: JsonMapping) -> str:
    """Return why a case asked for deferral, as its metadata say."""
    reasons = metadata.get("abstain_reasons") or metadata.get("abstain_reason") or ""
    if isinstance(reasons, list | tuple):
        reasons = ", ".join(map(str, reasons))
    return str(reasons).replace("_", " ")


def report_html(report: RunReport) -> str:
    """Return the page as one self-contained file that runs no script and fetches nothing."""
    return pages.render(
        "report.html",
        report=report,
        title=f"{report.heading} on {report.eyebrow}",
        heading=report.heading,
        eyebrow=report.eyebrow,
    )


def save_figures(report: RunReport, folder: Path) -> list[Path]:
    """Write every chart as SVG, PNG and CSV."""
    return [path for figure in report.figures for path in figure.save(folder)]

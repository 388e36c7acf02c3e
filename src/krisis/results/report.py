"""Reports for people and programs: compact text, full JSON, metrics-only JSON.

The seeds' path to them. It is the one module of its stage that sees what is shown: the text is
that of the run's document.
"""

from __future__ import annotations

from dataclasses import replace

from krisis.pages.document import Content, Facts
from krisis.pages.run import run_document
from krisis.pages.terminal import terminal_text
from krisis.results.base import BenchmarkResult


def format_report(result: BenchmarkResult) -> str:
    """Return the text report: what became of the records, the verdict, then every figure.

    How the run went is told under the names of the JSON reports, as the seeds have it.
    """
    document = run_document(result)
    sections = [
        replace(section, parts=list(map(_by_key, section.parts))) for section in document.sections
    ]
    return terminal_text(replace(document, sections=sections))


def _by_key(part: Content) -> Content:
    if not isinstance(part, Facts) or not part.keys:
        return part
    return Facts([(key, said) for key, (_, said) in zip(part.keys, part.pairs, strict=True)])


def format_json_report(result: BenchmarkResult) -> str:
    """Return the full result as strict JSON."""
    return result.to_json()


def format_metrics_json_report(result: BenchmarkResult) -> str:
    """Return the scores with backend, suite and execution as strict JSON."""
    return result.metrics_to_json()

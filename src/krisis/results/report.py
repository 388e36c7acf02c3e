"""Reports for people and programs: compact text, full JSON, metrics-only JSON.

The seeds' path to them. It is the one module of its stage that sees what is shown: the text is
that of the run's document.
"""

from __future__ import annotations

from dataclasses import replace

from krisis.pages.document import Facts, Section
from krisis.pages.run import brief_document, execution_facts
from krisis.pages.terminal import terminal_text
from krisis.results.account import EXECUTION_FIELDS
from krisis.results.base import BenchmarkResult


def format_report(result: BenchmarkResult) -> str:
    """Return the first screen, then how the run went under the names of the JSON reports."""
    facts = execution_facts(result)
    told = [
        (key, said)
        for key, (_, said) in zip(facts.keys, facts.pairs, strict=True)
        if key in EXECUTION_FIELDS
    ]
    screen = brief_document(result)
    block = Section(key="execution", title="Execution", parts=[Facts(told)])
    first = (*(screen.first or ()), block.key)
    shown = replace(screen, sections=[*screen.sections, block], first=first, commands=())
    return terminal_text(shown, verbose=False)


def format_json_report(result: BenchmarkResult) -> str:
    """Return the full result as strict JSON."""
    return result.to_json()


def format_metrics_json_report(result: BenchmarkResult) -> str:
    """Return the scores with backend, suite and execution as strict JSON."""
    return result.metrics_to_json()

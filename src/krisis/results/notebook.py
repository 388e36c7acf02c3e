"""A result as a notebook shows it: what became of the records, the scores and the baselines."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from krisis.display import html_line, html_table
from krisis.metrics.base import MetricScore
from krisis.metrics.scores_table import scores_html
from krisis.results.report import NOTHING_ANSWERED, baseline_table, failure_lines, heading_lines
from krisis.results.report_tables import headline_words, mixture, shown_name, stopping_lines

if TYPE_CHECKING:
    from krisis.results.base import BenchmarkResult


def result_html(result: BenchmarkResult) -> str:
    """Return the parts of the text report that a reader needs first, in its order.

    Where no reply came, no figure is shown: it would be read as the model's.
    """
    counts = result.attrition
    lines = [*stopping_lines(result), *failure_lines(counts), *heading_lines(result)]
    parts = [html_line(result.damage)] if result.damage else []
    parts += [html_line(counts, strong=True), *map(html_line, lines)]
    if counts.says_nothing:
        return "".join([*parts, html_line(NOTHING_ANSWERED)])
    leading = headline_words(result)
    parts += [html_line(f"Headline: {leading}")] if leading else []
    return "".join([*parts, *_scores(result), *_baselines(result)])


def _scores(result: BenchmarkResult) -> list[str]:
    task = result.provenance.task_facts

    def table(scores: Mapping[str, MetricScore], caption: str = "") -> str:
        return scores_html(scores, name=lambda score: shown_name(score, task), caption=caption)

    if not result.scores_by_source:
        return [table(result.metric_scores)] if result.metric_scores else []
    parts = [
        table(scores, f"{source.capitalize()} patients")
        for source, scores in result.scores_by_source.items()
    ]
    return [html_line(mixture(result)), *parts]


def _baselines(result: BenchmarkResult) -> list[str]:
    shown = baseline_table(result)
    if not shown:
        return []
    (title, head), *lines = shown.items()
    return [html_table([title, *head], [(name, *cells) for name, cells in lines])]

"""Scores of real and of synthetic patients apart, wherever one run holds both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from krisis.metrics.base import BaseMetric, EvaluationResult, score_all
from krisis.results.beside import plain_scores

KEY = "scores_by_source"


def scores_by_source(
    metrics: Sequence[BaseMetric], rows: Sequence[EvaluationResult]
) -> dict[str, Any]:
    """Return the entry for a run's extras; nothing where all rows are of one source."""
    parts = {
        "real": [row for row in rows if row.metadata.get("synthetic") is False],
        "synthetic": [row for row in rows if row.metadata.get("synthetic") is True],
    }
    if not all(parts.values()):
        return {}
    return {KEY: {name: plain_scores(score_all(metrics, part)) for name, part in parts.items()}}


def source_lines(extras: Mapping[str, Any]) -> list[str]:
    """Return the block of the text report: each score for real and for synthetic patients."""
    by_source = extras.get(KEY)
    if not by_source:
        return []
    sources = list(by_source)
    names = list(by_source[sources[0]])
    width = max(map(len, names))
    lines = [f"{'Metric'.ljust(width)}  " + "  ".join(source.ljust(18) for source in sources)]
    for name in names:
        cells = [_cell(by_source[source].get(name, {})) for source in sources]
        lines.append(f"{name.ljust(width)}  " + "  ".join(cell.ljust(18) for cell in cells))
    return ["The table above mixes real and synthetic patients; read them apart:", *lines]


def _cell(score: Mapping[str, Any]) -> str:
    value = score.get("value")
    figure = "undefined" if value is None else f"{value:.4f}"
    return f"{figure} (n {score.get('n_evaluated', 0)})"

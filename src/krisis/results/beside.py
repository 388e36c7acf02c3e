"""The scores of baselines beside those of a run: what the result is to be read against."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from krisis.metrics.base import MetricScore
from krisis.results.result import BenchmarkResult

KEY = "baselines"
_COLUMNS = {
    "Accuracy": "Accuracy",
    "Selective Accuracy (answered only)": "Selective",
    "Answer Rate (Coverage)": "Coverage",
    "Deferral Alignment": "Deferral",
    "Expected Calibration Error": "Calibration",
}


def plain_scores(scores: Mapping[str, MetricScore]) -> dict[str, dict[str, Any]]:
    """Return values and denominators as JSON can hold them."""
    return {
        name: {
            "value": None if math.isnan(score.value) else score.value,
            "n_evaluated": score.n_evaluated,
        }
        for name, score in scores.items()
    }


def baseline_lines(result: BenchmarkResult) -> list[str]:
    """Return the block of the text report: the run first, then every baseline."""
    baselines = result.extras.get(KEY)
    if not baselines:
        return []
    own = plain_scores(result.metric_scores)
    table = {f"this run: {result.backend_name}": own, **baselines}
    names = [name for name in _COLUMNS if name in own]
    title = "Baselines on the same records"
    width = max(len(title), *map(len, table))
    lines = [title.ljust(width) + "".join(_COLUMNS[name].rjust(13) for name in names)]
    for backend, scores in table.items():
        cells = "".join(_figure(scores.get(name, {})).rjust(13) for name in names)
        lines.append(f"{backend.ljust(width)}{cells}")
    return lines


def _figure(score: Mapping[str, Any]) -> str:
    value = score.get("value")
    return "undefined" if value is None else f"{value:.4f}"

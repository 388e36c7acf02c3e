"""Runs as they were when areas were scored without being asked for."""

from __future__ import annotations

from krisis.metrics import BootstrapOptions, default_selective_metrics, usual_metrics
from krisis.results.result import BenchmarkResult


def with_areas(result: BenchmarkResult, n_resamples: int = 500) -> BenchmarkResult:
    """Return a run scored with the usual metrics and the areas, which are scored on request."""
    metrics = [*usual_metrics(), *default_selective_metrics()]
    return result.scored(metrics, BootstrapOptions(n_resamples=n_resamples))

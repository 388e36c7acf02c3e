"""A run by its path, whatever form it was saved in: a run directory or a result file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from krisis.errors import InvalidFile, InvalidValue
from krisis.metrics import BootstrapOptions, default_benchmark_metrics
from krisis.metrics.base import Rows, score_all
from krisis.results.result import BenchmarkResult
from krisis.results.store import load_run, read_manifest

# Enough for a look at a run that has not ended; the run itself scores with more.
_N_RESAMPLES = 2000


def load_result(path: Path) -> BenchmarkResult:
    """Read a run directory or a saved result; a run that has not ended is scored as it stands."""
    if not path.exists():
        raise InvalidFile(f"{path} does not exist; name a run directory or a saved result")
    if not path.is_dir():
        return BenchmarkResult.load(path)
    result, manifest = load_run(path), read_manifest(path)
    known: dict[str, Any] = {
        "run_id": manifest.run_id,
        "config": manifest.config,
        "git_commit": manifest.git_commit,
        "versions": manifest.versions,
    }
    result = replace(result, extras={**known, **result.extras})
    if result.evaluation_results and not result.metric_scores:
        options = BootstrapOptions(n_resamples=_N_RESAMPLES)
        rows = Rows(result.evaluation_results)
        scores = score_all(default_benchmark_metrics(), rows, intervals=options)
        result = replace(result, metric_scores=scores)
    return result


def load_results(paths: Sequence[Path]) -> dict[str, BenchmarkResult]:
    """Read several runs under short names: the model, with the file where models repeat."""
    if len({path.resolve() for path in paths}) < len(paths):
        raise InvalidValue("the same run is named twice; name different runs")
    results = [load_result(path) for path in paths]
    models = [result.backend_name or "unnamed model" for result in results]
    repeated = Counter(models)
    stems = [path.resolve().name.removesuffix(".json") for path in paths]
    unclear = len(set(stems)) < len(stems)
    names = [
        model if repeated[model] == 1 else f"{model} ({path if unclear else stem})"
        for model, stem, path in zip(models, stems, paths, strict=True)
    ]
    return dict(zip(names, results, strict=True))


def reproduce_command(path: Path) -> str:
    """Return the commands that repeat a run, or its scoring where only the result was saved."""
    if path.is_dir():
        return f"krisis run --config {path.name}/manifest.json   # the same run again"
    return f"krisis score {path.name}   # the metrics again, from the stored rows"

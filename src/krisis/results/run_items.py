"""Any run as items: a PHQ-8 run file, a krisis result or a krisis run directory."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from krisis.errors import InvalidFile, InvalidValue
from krisis.metrics.base import EvaluationResult
from krisis.metrics.columns import canonical_label
from krisis.metrics.items import ItemTable, Source
from krisis.results.phq8_run import experiment_of, is_phq8_run
from krisis.results.result import BenchmarkResult
from krisis.results.strict_json import read_object


def read_items(path: str | Path, mode: str | None = None) -> ItemTable:
    """Read the items of a run, whichever of the three kinds it is."""
    path = Path(path)
    if path.is_dir():
        return items_of(load_run(path).evaluation_results, Source(str(path), path.name, None, mode))
    content = read_object(path)
    if is_phq8_run(content):
        return experiment_of(content, mode, place=str(path)).items()
    if "kind" not in content:
        raise InvalidFile(
            f"{path} is neither a PHQ-8 run file (no experiments) nor a krisis result (no kind); "
            "name a run"
        )
    result = BenchmarkResult.from_dict(content, place=str(path))
    if not result.evaluation_results:
        raise InvalidFile(f"{path} holds scores but no rows; name the full result")
    run_id = result.extras.get("run_id")
    return items_of(result.evaluation_results, Source(str(path), run_id, None, mode))

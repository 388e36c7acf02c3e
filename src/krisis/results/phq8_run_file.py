"""Write PHQ-8 runs as one run file: experiments by mode, participants, items and their signals."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from krisis import __version__
from krisis.errors import InvalidValue
from krisis.metrics.base import EvaluationResult
from krisis.metrics.repeats import collapse_repeats
from krisis.results.strict_json import dumps, write_text

SCHEMA_VERSION = "1"
# What a model wrote is in the run directory; the run file holds figures.
_TEXTS = frozenset({"evidence_quotes", "quotes_not_found"})


@dataclass(frozen=True, slots=True)
class Experiment:
    """The rows of one mode, with what is known about how they came to be."""

    mode: str
    rows: Sequence[EvaluationResult]
    provenance: Mapping[str, Any] = field(default_factory=dict)


def run_file_content(
    run_id: str, experiments: Sequence[Experiment], *, metadata: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return the run file as plain values; repeats of an item become one answer."""
    modes = [experiment.mode for experiment in experiments]
    if not modes or len(set(modes)) != len(modes):
        raise InvalidValue(f"a run file needs one experiment for each mode, not {modes}")
    return {
        "run_metadata": {
            "schema_version": SCHEMA_VERSION,
            "run_id": run_id,
            "git_commit": None,
            "krisis_version": __version__,
            **(metadata or {}),
        },
        "experiments": [_experiment(experiment) for experiment in experiments],
    }


def write_run_file(path: Path, content: Mapping[str, Any], *, overwrite: bool = False) -> None:
    """Write the file whole or not at all."""
    write_text(path, dumps(content) + "\n", overwrite=overwrite)


def _experiment(experiment: Experiment) -> dict[str, Any]:
    participants: dict[str, list[EvaluationResult]] = {}
    for row in collapse_repeats(experiment.rows):
        participants.setdefault(row.cluster_id, []).append(row)
    results = [_participant(name, rows) for name, rows in participants.items()]
    return {
        "provenance": {**experiment.provenance, "mode": experiment.mode},
        "results": {
            "mode": experiment.mode,
            "n_participants": len(results),
            "n_failed": sum(not result["success"] for result in results),
            "results": results,
        },
    }


def _participant(participant_id: str, rows: Sequence[EvaluationResult]) -> dict[str, Any]:
    """Return one participant; a single item that could not be asked fails the participant."""
    errors = [f"{_item(row)}: {row.error}" for row in rows if row.error is not None]
    return {
        "participant_id": participant_id,
        "success": not errors,
        "error": _one_line(errors) if errors else None,
        "ground_truth_items": {_item(row): row.ground_truth for row in rows},
        "predicted_items": {
            _item(row): None if row.abstained or row.error else row.prediction for row in rows
        },
        "item_signals": {_item(row): _signals(row) for row in rows if row.error is None},
    }


def _signals(row: EvaluationResult) -> dict[str, Any]:
    kept = {name: value for name, value in row.signals.items() if name not in _TEXTS}
    return {**kept, "stated_confidence": row.confidence}


def _item(row: EvaluationResult) -> str:
    item = row.metadata.get("item")
    if not isinstance(item, str) or not item:
        raise InvalidValue(
            f"row {row.record_id!r} names no item; only runs of the phq8 suite make a run file"
        )
    return item


def _one_line(errors: Sequence[str]) -> str:
    more = f" (and {len(errors) - 1} more items)" if len(errors) > 1 else ""
    return re.sub(r"\s+", " ", errors[0])[:500] + more

"""Write PHQ-8 runs as one run file: experiments by mode, participants, items and their signals."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from krisis import __version__
from krisis.errors import InvalidValue
from krisis.json_values import dumps, write_text
from krisis.metrics.base import EvaluationResult
from krisis.metrics.repeats import collapse_repeats
from krisis.results.store import Manifest, load_run, read_manifest

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


def run_file_of(directories: Sequence[Path]) -> dict[str, Any]:
    """Return the run file of run directories of the phq8 suite, one for each mode."""
    manifests = [read_manifest(directory) for directory in directories]
    experiments = [
        Experiment(_mode(manifest, directory), load_run(directory).evaluation_results, provenance)
        for manifest, directory in zip(manifests, directories, strict=True)
        for provenance in [_provenance(manifest, directory)]
    ]
    first = manifests[0]
    metadata = {
        "git_commit": first.git_commit,
        "created_at": first.created_at,
        "krisis_version": first.versions.get("krisis", __version__),
        "backend": first.backend_name,
    }
    return run_file_content(first.run_id, experiments, metadata=metadata)


def _mode(manifest: Manifest, directory: Path) -> str:
    mode = manifest.suite_description.get("mode")
    if manifest.suite_description.get("suite") != "phq8" or not isinstance(mode, str):
        raise InvalidValue(
            f"{directory} is a run of {manifest.suite_description.get('suite')!r}; only runs of "
            "the phq8 suite make a run file"
        )
    return mode


def _provenance(manifest: Manifest, directory: Path) -> dict[str, Any]:
    return {
        "run_id": manifest.run_id,
        "run_directory": directory.name,
        "created_at": manifest.created_at,
        "backend": manifest.backend_name,
        "n_items_planned": manifest.n_cases // manifest.identity.repeats,
        "repeats": manifest.identity.repeats,
        "suite": manifest.suite_description,
    }


def _experiment(experiment: Experiment) -> dict[str, Any]:
    participants: dict[str, list[EvaluationResult]] = {}
    items: dict[str, None] = {}
    for row in collapse_repeats(experiment.rows):
        participants.setdefault(row.cluster_id, []).append(row)
        items[_item(row)] = None
    results = [_participant(name, rows, list(items)) for name, rows in participants.items()]
    return {
        "provenance": {**experiment.provenance, "mode": experiment.mode},
        "results": {
            "mode": experiment.mode,
            "n_participants": len(results),
            "n_failed": sum(not result["success"] for result in results),
            "results": results,
        },
    }


def _participant(
    participant_id: str, rows: Sequence[EvaluationResult], items: Sequence[str]
) -> dict[str, Any]:
    """Return one participant; a single item that could not be asked fails the participant."""
    by_item = {_item(row): row for row in rows}
    errors = [
        f"{_item(row)}: {row.failure_class or 'failed'}: {row.error}"
        for row in rows
        if row.error is not None
    ]
    errors += [f"{item}: not asked, the run ended early" for item in items if item not in by_item]
    ordered = [by_item[item] for item in items if item in by_item]
    return {
        "participant_id": participant_id,
        "success": not errors,
        "error": _one_line(errors) if errors else None,
        "ground_truth_items": {_item(row): row.ground_truth for row in ordered},
        "predicted_items": {
            _item(row): None if row.abstained or row.error else row.prediction for row in ordered
        },
        "item_signals": {_item(row): _signals(row) for row in ordered if row.error is None},
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

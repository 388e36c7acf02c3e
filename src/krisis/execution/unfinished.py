"""Finding the run that was cut short."""

from __future__ import annotations

from pathlib import Path

from krisis.errors import InvalidFile
from krisis.execution.config import RunConfig
from krisis.results.store import Manifest, RunDirectory, list_runs, read_journal, read_manifest


def newest_unfinished(config: RunConfig) -> Path | None:
    """Return the newest run of this suite and model that lacks rows, or nothing."""
    for path in list_runs(config.out):
        try:
            manifest = read_manifest(path)
        except InvalidFile:
            continue
        if _same_subject(manifest, config) and not is_complete(path, manifest):
            return path
    return None


def is_complete(path: Path, manifest: Manifest) -> bool:
    """Say whether every case of a run has a row."""
    rows = RunDirectory(path).rows
    return rows.exists() and len(read_journal(rows).rows) == manifest.n_cases


def _same_subject(manifest: Manifest, config: RunConfig) -> bool:
    stored = manifest.config
    return all(stored.get(name) == getattr(config, name) for name in ("suite", "model", "mode"))

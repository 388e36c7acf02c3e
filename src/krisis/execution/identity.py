"""What makes two runs the same: data, question, model and sampling, as one comparable object."""

from __future__ import annotations

import platform
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from krisis import __version__
from krisis.backends.base import BaseBackend
from krisis.backends.chat import ChatBackend, PromptMode
from krisis.data.base import BaseDataSuite, PatientRecord, content_hash, records_hash
from krisis.errors import RunConflict
from krisis.execution.batches import Batch

IDENTITY_VERSION = 1


def identity_of(
    suite: BaseDataSuite,
    backend: BaseBackend,
    *,
    records: Sequence[PatientRecord],
    first_batch: Batch,
    batch_size: int,
    repeats: int,
) -> dict[str, Any]:
    """Return everything that can change an answer; no key, no path, no date."""
    return {
        "version": IDENTITY_VERSION,
        "suite": suite.name,
        "task": suite.task.name,
        "features": suite.config.features.value,
        "seed": suite.config.seed,
        "data": records_hash(records),
        "n_records": len(records),
        "repeats": repeats,
        "batch_size": batch_size,
        "backend": backend.identity(),
        "prompts": prompt_hashes(backend, first_batch),
    }


def prompt_hashes(backend: BaseBackend, first_batch: Batch) -> dict[str, str]:
    """Hash the templates, schemas and parameters of the first call in either mode."""
    if not isinstance(backend, ChatBackend):
        return {}
    modes: dict[PromptMode, Batch] = {"single": first_batch[:1]}
    if len(first_batch) > 1:
        modes["batch"] = first_batch
    hashes: dict[str, str] = {}
    for mode, cases in modes.items():
        request = backend.build(
            [case.record.features for case in cases], mode=mode, context=cases[0].record.context
        )
        hashes[mode] = content_hash([request.template, request.schema, request.parameters])
    return hashes


def refuse_other_run(place: str, stored: Mapping[str, Any], present: Mapping[str, Any]) -> None:
    """Raise when a run is to be continued under another identity, naming every difference."""
    differences = list(_differences(stored, present))
    if differences:
        raise RunConflict(
            f"{place} is another run: {'; '.join(differences)}. Start a new run, or go back to "
            "what it was made with"
        )


def _differences(stored: Any, present: Any, path: str = "") -> list[str]:
    if isinstance(stored, Mapping) and isinstance(present, Mapping):
        return [
            difference
            for key in sorted(stored.keys() | present.keys())
            for difference in _differences(
                stored.get(key), present.get(key), f"{path}.{key}" if path else str(key)
            )
        ]
    return [] if stored == present else [f"{path} was {stored!r} and is {present!r}"]


def versions() -> dict[str, str]:
    """Return the versions of everything that has a say in the numbers."""
    found = {"krisis": __version__, "python": platform.python_version()}
    for package in ("numpy", "scipy", "pydantic", "openai", "anthropic", "google-genai"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found


def git_commit() -> str | None:
    """Return the commit that is checked out where the run was started, if there is one."""
    git = shutil.which("git")
    if git is None:
        return None
    done = subprocess.run(  # noqa: S603 - fixed words, no input
        [git, "rev-parse", "HEAD"], capture_output=True, text=True, check=False, timeout=10
    )
    return done.stdout.strip() or None if done.returncode == 0 else None

"""What makes two runs the same: data, question, model and sampling, as one comparable object."""

from __future__ import annotations

import platform
import shutil
import subprocess
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version

from krisis import __version__
from krisis.errors import RunConflict
from krisis.json_values import JsonValue
from krisis.results.store import Identity


def refuse_other_run(place: str, stored: Identity, present: Identity) -> None:
    """Raise when a run is to be continued under another identity, naming every difference."""
    differences = _differences(stored.model_dump(), present.model_dump())
    if differences:
        raise RunConflict(
            f"{place} is another run: {'; '.join(differences)}. Start a new run, or go back to "
            "what it was made with"
        )


def _differences(stored: JsonValue, present: JsonValue, path: str = "") -> list[str]:
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

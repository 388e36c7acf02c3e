"""Where the texts of runs are kept to be searched, and when they go: with their run.

The viewer builds a full-text index of a run in the user's cache when it is first searched. It holds
what patients were told of, so it may not outlive the run, nor a state of it that has changed.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import time
from collections.abc import Iterable
from contextlib import closing, suppress
from pathlib import Path

import platformdirs

from krisis.errors import KrisisError
from krisis.runs.read import state_of
from krisis.sqlite_edge import address

# An index that is being built is a file of its own, left behind where the process is killed.
_LONGEST_BUILD_SECONDS = 3600


def viewer_cache() -> Path:
    """Return the folder in which the viewer keeps what it knows of folders of runs."""
    return platformdirs.user_cache_path("krisis") / "viewer"


def index_file(folder: Path, run: Path) -> Path:
    """Return where the index of a run is kept, below what the viewer knows of its folder."""
    return folder / "texts" / f"{_name(run)}.sqlite"


def is_index_of(place: Path, run: Path, state: tuple[int, ...]) -> bool:
    """Say whether an index was made of this state of a run."""
    return _made_of(place) == (os.fsencode(run), json.dumps(state))


def remove_outlived_indices(folders: Iterable[Path] = ()) -> None:
    """Remove the indices of runs that are gone or have changed: in some folders, or in all."""
    for folder in folders or [one for one in _listed(viewer_cache()) if one.is_dir()]:
        for file in _listed(folder / "texts"):
            if file.suffix != ".sqlite":
                with suppress(OSError):
                    if time.time() - file.stat().st_mtime < _LONGEST_BUILD_SECONDS:
                        continue
            elif (held := _made_of(file)) is not None:
                run, state = Path(os.fsdecode(held[0])), held[1]
                if run.is_file() and json.dumps(state_of(run)) == state:
                    continue
            with suppress(OSError):
                file.unlink()


def remove_index(run: Path) -> None:
    """Remove every index of a run, whichever folder it was looked at in."""
    name = _name(run.parent.resolve() / run.name)
    for folder in _listed(viewer_cache()):
        for file in _listed(folder / "texts"):
            if file.name.startswith(f"{name}."):
                file.unlink(missing_ok=True)


def _name(run: Path) -> str:
    return hashlib.sha256(os.fsencode(run)).hexdigest()[:24]


def _listed(folder: Path) -> list[Path]:
    with suppress(OSError):
        return sorted(folder.iterdir())
    return []


def _made_of(place: Path) -> tuple[bytes, str] | None:
    """Return the run and the state that an index was made of; None where it does not say so."""
    with (
        suppress(KrisisError, sqlite3.Error, OSError, TypeError),
        closing(sqlite3.connect(address(place, "ro"), uri=True)) as connection,
    ):
        run, state = connection.execute("SELECT run, state FROM made_of").fetchone()
        return run, state
    return None

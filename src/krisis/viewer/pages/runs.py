"""The list of runs, with live progress of the one that is running."""

from __future__ import annotations

from krisis.json_values import JsonObject
from krisis.viewer.catalogue import Catalogue, Progress
from krisis.viewer.page import Page


def page(catalogue: Catalogue) -> Page:
    """List the runs of the folder."""
    runs = [_line(name, catalogue.progress(name)) for name in catalogue.paths()]
    return Page("runs.html", "Runs", {"folder": catalogue.folder.name, "runs": runs})


def progress_page(catalogue: Catalogue, name: str) -> Page:
    """Say how far one run has come."""
    return Page("progress.html", name, _line(name, catalogue.progress(name)))


def _line(name: str, progress: Progress) -> JsonObject:
    return {
        "name": name,
        "state": progress.state,
        "backend_name": progress.backend_name,
        "suite": progress.suite,
        "created_at": progress.created_at,
        "n_cases": progress.n_cases,
        "n_done": progress.n_done,
        "counts": dict(progress.counts),
        "problem": progress.problem,
        "damage": progress.damage,
    }

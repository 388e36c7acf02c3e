"""The list of runs, with live progress of the one that is running."""

from __future__ import annotations

from krisis.json_values import JsonObject
from krisis.viewer.catalogue import Catalogue
from krisis.viewer.entries import Entry
from krisis.viewer.page import Page


def page(catalogue: Catalogue) -> Page:
    """List the runs of the folder."""
    runs = [_line(entry) for entry in catalogue.entries()]
    return Page("runs.html", "Runs", {"folder": catalogue.folder.name, "runs": runs})


def progress_page(catalogue: Catalogue, name: str) -> Page:
    """Say how far one run has come."""
    return Page("progress.html", name, _line(catalogue.entry(name)))


def _line(entry: Entry) -> JsonObject:
    words = (entry.suite, entry.task, "imported" * entry.imported)
    return {
        "name": entry.name,
        "state": entry.state,
        "backend_name": entry.model,
        "suite": " · ".join(filter(None, words)),
        "created_at": entry.created_at,
        "n_cases": entry.n_cases,
        "n_done": entry.n_done,
        "counts": dict(entry.counts),
        "problem": entry.problem,
        "damage": entry.damage,
    }

"""The list of runs, with live progress of the one that is running."""

from __future__ import annotations

from krisis.json_values import JsonObject
from krisis.results.journal_reading import SoFar
from krisis.viewer.catalogue import Catalogue, Progress
from krisis.viewer.page import Page


def page(catalogue: Catalogue) -> Page:
    """List the runs of the folder."""
    runs = [_line(name, catalogue.progress(name)) for name in catalogue.paths()]
    return Page("runs.html", "Runs", {"folder": catalogue.folder.name, "runs": runs})


def progress_page(catalogue: Catalogue, name: str) -> Page:
    """Say how far one run has come, and what it took so far."""
    progress = catalogue.progress(name)
    content = _line(name, progress)
    if progress.so_far is not None:
        content |= _took(progress.so_far, progress.n_cases - progress.n_done)
    return Page("progress.html", f"Progress · {name}", content)


def _took(so_far: SoFar, n_left: int) -> JsonObject:
    spent, rate = so_far.spent, so_far.per_minute
    n_input, n_output = spent.paid_tokens
    return {
        "failures": dict(so_far.failures),
        "per_minute": rate,
        "seconds_left": n_left / rate * 60 if rate else None,
        "n_calls": spent.n_calls,
        "n_retries": spent.n_retries,
        "n_cache_hits": spent.n_cache_hits,
        "input_tokens": n_input,
        "output_tokens": n_output,
        "cost": so_far.cost,
        "cost_is_bound": so_far.cost_is_bound,
    }


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

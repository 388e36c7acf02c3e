"""What a figure says of its runs: what was asked, of how many cases, by whom and when."""

from __future__ import annotations

from collections.abc import Mapping

from krisis.pages.numbers import count
from krisis.results.base import BenchmarkResult

_MOST_GAPS = 3  # runs whose missing cases are named one by one


def about_runs(runs: Mapping[str, BenchmarkResult]) -> str:
    """Say what was asked, of how many cases, by how many runs; of one run also by whom and when."""
    first = next(iter(runs.values()))
    made = first.provenance
    counts = [run.attrition.n_evaluated for run in runs.values()]
    n = " to ".join(map(count, dict.fromkeys((min(counts), max(counts)))))
    asked = [part for part in (made.suite, made.task, made.features) if part]
    if len(runs) == 1:
        asked.insert(0, first.backend_name or "unnamed model")
        counted = f"n = {n} cases ({', '.join(first.attrition.parts())})"
        return " · ".join(filter(None, (*asked, counted, (made.started_at or "")[:10])))
    missing = {name: run.attrition.n_not_evaluated for name, run in runs.items()}
    gaps = [f"{name}: {count(n)} not evaluated" for name, n in missing.items() if n]
    if len(set(missing.values())) == 1 and gaps:
        gaps = [f"{count(next(iter(missing.values())))} not evaluated each"]
    elif len(gaps) > _MOST_GAPS:
        least, most = (count(pick(missing.values())) for pick in (min, max))
        gaps = [f"{least} to {most} not evaluated per run"]
    return " · ".join([*asked, f"n = {n} cases, {len(runs)} runs", *gaps])

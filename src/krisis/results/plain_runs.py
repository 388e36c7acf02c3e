"""Runs in another file format, such as Parquet or the PHQ-8 run file, as results."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from krisis.file_formats import format_named, format_of
from krisis.json_values import JsonMapping
from krisis.metrics.base import EvaluationResult
from krisis.metrics.items import ELICITED, STATED
from krisis.plain_run import PlainRow, PlainRun
from krisis.results.account import Provenance, RunFacts
from krisis.results.attrition import Attrition
from krisis.results.base import BenchmarkResult


def run_of_format(
    path: Path, mode: str | None, content: JsonMapping | None = None
) -> PlainRun | BenchmarkResult | None:
    """Load a finished run of another program or a suite's own format; None of any other file."""
    name = format_of(path, content, can="load")
    if not name or not path.is_file():
        return None
    found: PlainRun | BenchmarkResult = format_named(name, "load").load(path, content, mode)
    return found


def result_of_plain_run(run: PlainRun) -> BenchmarkResult:
    """Return the rows of a run file with what the file says of the run."""
    made, task = run.provenance, run.task
    said = made.get("suite")
    known = {"suite": run.suite, "task": task.name, "mode": run.mode}
    n_planned = made.get("n_items_planned")
    return BenchmarkResult(
        [plain_row(row) for row in run.rows],
        {},
        {**known, **said} if isinstance(said, Mapping) else known,
        str(made.get("backend") or ""),
        facts=RunFacts(
            provenance=Provenance(
                task_facts=task,
                run_id=run.run_id,
                git_commit=run.git_commit,
                started_at=_text(made.get("created_at")),
                krisis_version=_text(made.get("krisis_version")),
            ),
            attrition=Attrition(n_loaded=n_planned if isinstance(n_planned, int) else 0),
        ),
    )


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def plain_row(row: PlainRow) -> EvaluationResult:
    """Return a row of such a run as a row of a result."""
    asked = [row.signals[name] for name in (*ELICITED, STATED) if name in row.signals]
    stated = asked[0] if asked else None
    number = isinstance(stated, int | float) and not isinstance(stated, bool)
    confidence = float(stated) if number and stated is not None and 0 <= stated <= 1 else None
    return EvaluationResult(
        row.prediction,
        "" if row.truth is None else row.truth,
        row.prediction is None and row.failed is None,
        confidence,
        metadata={"item": row.item},
        record_id=f"{row.cluster_id}/{row.item}",
        cluster_id=str(row.cluster_id),
        signals=row.signals,
        error=row.failed,
        failure_class=row.failure_class,
    )

"""Any run as items: a file of a suite's own format, a krisis result or a krisis run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from krisis.errors import InvalidFile, InvalidValue
from krisis.metrics import BootstrapOptions
from krisis.metrics.base import EvaluationResult, Rows
from krisis.metrics.columns import in_patient_order
from krisis.metrics.items import RunItems, Source
from krisis.metrics.labels import Answers
from krisis.metrics.repeats import collapse_repeats
from krisis.plain_run import PlainRun
from krisis.results.base import BenchmarkResult
from krisis.results.loading import (
    is_run,
    load_result,
    metrics_asked,
    stored_run,
    with_rows,
)
from krisis.results.plain_runs import plain_row
from krisis.runs.load import load_run, read_description
from krisis.task_facts import TaskFacts


def read_items(path: str | Path, mode: str | None = None) -> RunItems:
    """Read the items of a run, whichever of the three kinds it is."""
    path = Path(path)
    if is_run(path):
        return _of_run(path, mode)
    found = stored_run(path, mode)
    if isinstance(found, PlainRun):
        return _of_plain_run(found, path)
    result = with_rows(found, path)
    return items_of_result(result, _source(result, mode, path))


def items_of(run: str | Path | BenchmarkResult, mode: str | None = None) -> RunItems:
    """Return the items of a run, by its path or of a result in memory."""
    if not isinstance(run, BenchmarkResult):
        return read_items(run, mode)
    place = Path(run.provenance.run_file or run.backend_name or "the result")
    if not run.rows:
        raise InvalidValue(f"{place} holds scores and no rows; give the whole result")
    return items_of_result(run, _source(run, mode, place))


def read_result(path: str | Path, mode: str | None = None) -> BenchmarkResult:
    """Read a run as a result, whichever of the three kinds it is; scored, if it is not yet."""
    path = Path(path)
    result = load_result(path, mode)
    _source(result, mode, path)
    if result.rows and not result.metric_scores:
        return result.scored(metrics_asked(result), BootstrapOptions())
    return result


def _of_run(path: Path, mode: str | None) -> RunItems:
    described, result = read_description(path), load_run(path)
    n_owed = max(0, described.n_cases - len(result.evaluation_results))
    source = replace(
        _source(result, mode, path), run_id=described.run_id, git_commit=described.git_commit
    )
    n_not_asked = math.ceil(n_owed / (result.provenance.repeats or 1))
    return replace(items_of_result(result, source), n_not_asked=n_not_asked)


def _source(result: BenchmarkResult, asked: str | None, path: Path) -> Source:
    """Say where a result comes from; asking for a mode that it was not made in is an error."""
    known = result.provenance
    if asked is not None and asked != known.mode:
        made_in = f"was made in mode {known.mode!r}" if known.mode else "has no modes"
        raise InvalidFile(f"{path} {made_in}, not {asked!r}; omit --mode or name another run")
    return source_of(result, str(path))


def source_of(result: BenchmarkResult, path: str = "this run") -> Source:
    """Say where a result comes from, as artifacts name it."""
    known = result.provenance
    return Source(
        path,
        known.run_id,
        known.git_commit,
        known.mode or None,
        known.suite,
        known.model,
        known.task,
        known.features,
        known.case_hash,
    )


def items_of_result(result: BenchmarkResult, source: Source) -> RunItems:
    """Return the rows of a result as items: one per record, the patient as participant.

    Repeats of a record become its modal answer with consistency signals.
    """
    task = result.provenance.task_facts or TaskFacts("")
    rows = result.rows.with_answers(Answers.of(task))
    everyone = np.arange(len(rows))
    if rows.columns.repeats_records(everyone) or rows.columns.has_nameless_patients:
        return _items(Rows(_one_per_record(rows), rows.answers, as_given=True), task, source)
    return _items(rows, task, source)


def _one_per_record(rows: Sequence[EvaluationResult]) -> list[EvaluationResult]:
    found = collapse_repeats(in_patient_order(rows))
    return [replace(row, cluster_id=row.cluster_id or f"row {i}") for i, row in enumerate(found)]


def _of_plain_run(run: PlainRun, path: Path) -> RunItems:
    named = {"suite": run.suite, "model": str(run.provenance.get("backend") or "")}
    source = Source(str(path), run.run_id, run.git_commit, run.mode, **named)
    rows = Rows((plain_row(row) for row in run.rows), Answers.of(run.task))
    return _items(rows, run.task, source)


def _items(rows: Rows, task: TaskFacts, source: Source) -> RunItems:
    return RunItems(
        rows.table,
        source,
        default_confidence=task.default_confidence or "stated",
        failed=rows.table.missing_patients,
        words=(task.person, task.unit),
        told=task.told,
    )

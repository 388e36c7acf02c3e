"""Runs of invented patients with everything in them that a report must show."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import TypeAdapter

from krisis import __version__
from krisis.metrics import BootstrapOptions, score_all, usual_metrics
from krisis.metrics.base import EvaluationResult, Rows
from krisis.metrics.labels import Answers
from krisis.outcomes import NOT_ALLOWED
from krisis.results.call_totals import CallTotals
from krisis.results.result import BenchmarkResult
from krisis.runs.description import Identity, RunDescription
from krisis.runs.load import list_runs, read_description, stored_parts
from krisis.runs.read import open_run
from krisis.runs.schema import TABLES, Checksums, copy_settings, insert
from krisis.runs.write import RowPlace, RunWriter, StoredCase
from krisis.task_facts import TaskFacts

TASK = {
    "name": "detection",
    "answers": [[0, "the disease is absent"], [1, "the disease is present"]],
    "positive": 1,
    "groups": {"stage": "ckd_stage"},
}


def task_facts(content: Mapping[str, Any]) -> TaskFacts:
    """Return a task from the JSON in which a run keeps it."""
    return TypeAdapter(TaskFacts).validate_python(content)


ANSWERS = Answers.of(task_facts(TASK))


def invented_rows(n_rows: int = 160, *, seed: int = 0, skill: float = 1.0) -> Rows:
    """Return rows of a model that is right more often the surer it is."""
    generator = np.random.default_rng(seed)
    return Rows((_invented_row(i, generator, skill) for i in range(n_rows)), ANSWERS)


def _invented_row(i: int, generator: np.random.Generator, skill: float) -> EvaluationResult:
    due, truth = bool(generator.random() < 0.25), int(generator.random() < 0.6)
    stated = round(float(np.clip(generator.beta(5, 2), 0.02, 0.99)), 2)
    abstained = bool(generator.random() < (0.45 if due else 0.08))
    right = generator.random() < (0.35 + 0.55 * stated) * skill
    failed = bool(generator.random() < 0.02)
    metadata = {
        "ckd_stage": int(generator.integers(1, 6)),
        "sex": ("female", "male")[int(generator.integers(2))],
        "age": int(generator.integers(19, 90)),
        "should_abstain": due,
        "abstain_reasons": ["egfr_near_threshold"] if due else [],
    }
    return EvaluationResult(
        None if abstained or failed else (truth if right else 1 - truth),
        truth,
        abstained and not failed,
        None if failed else stated,
        "" if failed else f'{{"prediction": {truth}, "confidence": {stated}}}',
        prompt="A patient is described by {features}. Does the patient have the disease?",
        prompt_mode="batch",
        metadata=metadata,
        record_id=f"case-{i:06d}",
        cluster_id=f"patient-{i // 2:06d}",
        input_tokens=220,
        output_tokens=31,
        total_tokens=251,
        error="no answer in 60 s" if failed else None,
        failure_class="timeout" if failed else "",
    )


def rows_of_every_outcome(seed: int = 0, skill: float = 1.0) -> Rows:
    """Return rows of every outcome: some replies are no answers, some calls were lost."""
    found = []
    for i, row in enumerate(invented_rows(160, seed=seed, skill=skill)):
        if i % 9 == 4:
            error = {"error": "'perhaps' is not one of the allowed answers (0, 1)"}
            error |= {"failure_class": NOT_ALLOWED, "prediction": "perhaps"}
            found.append(replace(row, abstained=False, **error))
        elif i % 40 == 7:
            lost = {"error": "no reply in 60 s", "failure_class": "timeout", "confidence": None}
            found.append(replace(row, abstained=False, prediction=None, **lost))
        else:
            found.append(row)
    return Rows(found, ANSWERS)


def result_of(rows: Rows, name: str = "openai/some-model") -> BenchmarkResult:
    """Score rows and wrap them as a saved run would be."""
    return BenchmarkResult(
        rows,
        score_all(usual_metrics(), rows, intervals=BootstrapOptions(n_resamples=500)),
        {
            "suite": "ckd",
            "task": "detection",
            "features": "reduced",
            "content_hash": "ab" * 32,
            "provenance": {"licence": "CC0"},
        },
        name,
        {"batch_size": 8, "elapsed_seconds": 12.5, "token_total": 40160, "seed": 42}
        | {"krisis_version": "0.0.0", "task_facts": TASK},
    )


def write_run(
    place: Path,
    result: BenchmarkResult,
    *,
    features: Mapping[str, Any] | None = None,
    n_cases: int | None = None,
) -> Path:
    """Write a run ``PLACE.krisis`` as a real run does; with ``n_cases`` it has not ended."""
    writer = begin_run(place, result, features=features, n_cases=n_cases)
    if n_cases is None:
        facts, scores = stored_parts(result)
        writer.finish(facts=facts, scores=scores, version=__version__)
    writer.close()
    return writer.path


def begin_run(
    place: Path,
    result: BenchmarkResult,
    *,
    features: Mapping[str, Any] | None = None,
    n_cases: int | None = None,
) -> RunWriter:
    """Write the rows of a run that goes on; its writer has to be closed."""
    path = place.with_name(f"{place.name}.krisis")
    rows = result.evaluation_results
    described = RunDescription(
        run_id=place.name,
        created_at="2026-01-02T03:04:05Z",
        backend_name=result.backend_name,
        n_cases=n_cases or len(rows),
        identity=Identity(n_records=n_cases or len(rows)),
        task=result.provenance.task_facts,
        suite_description=result.suite_description,
        stores_features=features is not None,
    )
    cases = [
        StoredCase(
            record_id=row.record_id,
            cluster_id=row.cluster_id,
            label=row.ground_truth,
            metadata=row.metadata,
            features=features,
        )
        for row in rows
    ]
    writer = RunWriter.create(path, described, cases)
    writer.begin_session({})
    if rows:
        writer.append([RowPlace(i, i) for i in range(len(rows))], rows, CallTotals())
        writer.flush()
    return writer


def edit_run(path: Path, sql: str, *values: object) -> None:
    """Change a run behind its back: checksums stay as they were."""
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(sql, values)
        connection.commit()


def forge_run(path: Path, table: str, where: str = "1", **changes: object) -> None:
    """Change lines of a run and give them checksums that are right again, as a stranger can."""
    names = [*TABLES[table]]
    with closing(sqlite3.connect(path)) as connection:
        held = connection.execute("SELECT value FROM run WHERE key = 'run_id'").fetchone()[0]
        checksums = Checksums(json.loads(held))
        sql = f"SELECT {', '.join(names)} FROM {table} WHERE {where}"
        for line in connection.execute(sql).fetchall():
            forged = tuple((dict(zip(names, line, strict=True)) | changes).values())
            connection.execute(f"DELETE FROM {table} WHERE {names[0]} = ?", (line[0],))
            connection.execute(insert(table, replace=True), checksums.sealed(table, *forged))
        copy_settings(connection)
        connection.commit()


def forge_description(path: Path, **changes: object) -> None:
    """Change what a run says of itself, with checksums that are right again.

    Settings in ``config`` are added to those that are there; another id is that of all lines.
    """
    described = read_description(path).model_dump(mode="json")
    if isinstance(changes.get("config"), dict):
        changes["config"] = described["config"] | changes["config"]
    checksums = Checksums(str(changes.get("run_id", described["run_id"])))
    with closing(sqlite3.connect(path)) as connection:
        for key, value in changes.items():
            connection.execute("UPDATE run SET value = ? WHERE key = ?", (json.dumps(value), key))
        for table, names in TABLES.items():
            lines = connection.execute(f"SELECT {', '.join(names)} FROM {table}").fetchall()
            sealed = [checksums.sealed(table, *line) for line in lines]
            connection.executemany(insert(table, replace=True), sealed)
        copy_settings(connection)
        connection.commit()


def only_run(out: Path) -> Path:
    """Return the one run of a folder."""
    (path,) = list_runs(out)
    return path


def rows_in(path: Path) -> dict[int, EvaluationResult]:
    """Return the rows of a run by their position."""
    with open_run(path) as run:
        return run.contents().rows

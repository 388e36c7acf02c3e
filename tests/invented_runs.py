"""Runs of invented patients with everything in them that a report must show."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from krisis.data.base import PatientRecord
from krisis.execution.batches import Case
from krisis.metrics import BootstrapOptions, default_benchmark_metrics, score_all
from krisis.metrics.base import EvaluationResult, Rows
from krisis.outcomes import NOT_ALLOWED
from krisis.results.account import TaskFacts
from krisis.results.cases import Cases
from krisis.results.journal import Journal, CallTotals
from krisis.results.journal_lines import sealed
from krisis.results.result import BenchmarkResult
from krisis.results.store import Manifest, RunDirectory, metrics_text

TASK = {
    "name": "detection",
    "answers": [[0, "the disease is absent"], [1, "the disease is present"]],
    "positive": 1,
    "groups": {"stage": "ckd_stage"},
}
ANSWERS = TaskFacts.of(TASK).answers_to_score()


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
        score_all(default_benchmark_metrics(), rows, intervals=BootstrapOptions(n_resamples=500)),
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


def edited_line(line: str | bytes, **changes: Any) -> bytes:
    """Return a line of a journal with other entries and a checksum that is right again."""
    content = json.loads(line)
    del content["check"]
    return sealed(content | changes)


def write_run(
    folder: Path,
    result: BenchmarkResult,
    *,
    features: Mapping[str, Any] | None = None,
    n_cases: int | None = None,
) -> Path:
    """Write a run directory with the journal of a real run; with ``n_cases`` it has not ended."""
    folder.mkdir(parents=True)
    rows = result.evaluation_results
    stored = Cases.of((row.record_id, row.cluster_id, row.ground_truth) for row in rows)
    manifest = Manifest(
        run_id=folder.name,
        created_at="2026-01-02T03:04:05Z",
        backend_name=result.backend_name,
        n_cases=n_cases or len(rows),
        cases_hash=stored.content_hash,
        identity={},
        suite_description=result.suite_description,
        stores_features=features is not None,
    )
    directory = RunDirectory(folder)
    directory.cases.write_text(stored.text, encoding="ascii")
    directory.manifest.write_text(manifest.model_dump_json(), encoding="utf-8")
    journal = Journal(directory.rows, stores_features=features is not None)
    cases = [
        Case(i, PatientRecord(features or {}, row.ground_truth, record_id=row.record_id or str(i)))
        for i, row in enumerate(result.evaluation_results)
    ]
    if cases:
        journal.append(cases, result.evaluation_results, CallTotals())
    journal.close()
    if n_cases is None:
        n_bytes = directory.rows.stat().st_size
        directory.metrics.write_text(metrics_text(result, n_bytes), encoding="utf-8")
    return folder

"""Runs in the file format of their suite, such as the PHQ-8 run file."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import typer

from krisis import registry
from krisis.errors import InvalidValue
from krisis.json_values import JsonObject, dumps, read_object, write_text
from krisis.metrics.base import EvaluationResult
from krisis.metrics.items import STATED
from krisis.metrics.repeats import collapse_repeats, ties_of
from krisis.pages.ties import ties_sentence
from krisis.plain_run import PlainRow, PlainRun
from krisis.results.suite_facts import SuiteFacts
from krisis.runs.load import load_run, read_description
from krisis.runs.places import is_run_file
from krisis.task_facts import TaskFacts


def write_beside(runs: list[Path], output: Path | None = None, *, overwrite: bool = False) -> Path:
    """Write the run file, beside the first run unless another path is given."""
    path = output or runs[0].with_suffix(".json")
    write_text(path, dumps(run_file_of(runs)) + "\n", overwrite=overwrite)
    return path


def tell_ties(path: Path) -> None:
    """Say of each mode in a run file how many repeated answers tied, where any did."""
    for experiment in read_object(path)["experiments"]:
        made = experiment["provenance"]
        if made.get("ties") and made["ties"]["n_tied"]:
            typer.echo(f"{made['mode']}: {ties_sentence(made['ties'])}", err=True)


def run_file_of(paths: list[Path]) -> JsonObject:
    """Return runs in the file format of their suite; repeats of an item become one answer."""
    runs = [plain_run(path) for path in paths]
    forms = [run_format(run.suite) for run in runs]
    if len({run.suite for run in runs}) > 1 or not forms[0]:
        named = ", ".join(sorted({repr(run.suite) for run in runs}))
        offered = ", ".join(name for name in registry.names("suites") if run_format(name))
        raise InvalidValue(
            f"{paths[0]}: there is no run file for runs of the suite {named}; only runs of "
            f"one suite make a run file, and of these suites: {offered}"
        )
    content: JsonObject = registry.find("formats", forms[0]).content(runs)
    return content


def run_format(suite: str) -> str:
    """Return the name of the file format that runs of a suite are written in, or nothing."""
    known = suite in registry.table("suites")
    return str(registry.find("suites", suite).run_format) if known else ""


def plain_run(run: Path) -> PlainRun:
    """Return a finished run in plain values, each record once."""
    described = read_description(run)
    suite = SuiteFacts.of(described.suite_description)
    repeats = described.identity.repeats
    rows = collapse_repeats(load_run(run).evaluation_results)
    ties = ties_of(row.signals for row in rows)
    return PlainRun(
        suite=suite.suite,
        task=TaskFacts(suite.task),
        rows=[plain_row(row) for row in rows],
        run_id=described.run_id,
        git_commit=described.git_commit,
        mode=suite.mode or None,
        provenance={
            "run_id": described.run_id,
            "run": run.name,
            "created_at": described.created_at,
            "backend": described.backend_name,
            "krisis_version": described.versions.get("krisis"),
            "n_items_planned": described.n_cases // repeats,
            "repeats": repeats,
            **({"ties": asdict(ties)} if ties else {}),
            "suite": described.suite_description,
        },
    )


def plain_row(row: EvaluationResult) -> PlainRow:
    """Return a row in plain values; the stated confidence is one of its signals."""
    return PlainRow(
        cluster_id=row.cluster_id,
        item=str(row.metadata.get("item") or ""),
        truth=row.ground_truth,
        prediction=row.prediction if row.outcome == "answered" else None,
        signals={STATED: row.confidence, **row.signals},
        failed=row.error,
        failure_class=row.failure_class,
    )


def companions(run: Path, suite: str) -> list[Path]:
    """Return the other runs in the run file beside this one, which a rewrite must not drop."""
    path = run.with_suffix(".json")
    if not path.exists():
        return []
    names = registry.find("formats", run_format(suite)).run_names(read_object(path))
    others = [run.parent / name for name in names]
    return [other for other in others if other.name != run.name and is_run_file(other)]

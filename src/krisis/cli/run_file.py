"""Runs in the file format of their suite, such as the PHQ-8 run file."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import typer

from krisis import registry
from krisis.data.base import PlainRow, PlainRun, Task
from krisis.errors import InvalidValue
from krisis.json_values import JsonObject, dumps, read_object, write_text
from krisis.metrics.base import EvaluationResult
from krisis.metrics.items import STATED
from krisis.metrics.repeats import Ties, collapse_repeats, ties_of
from krisis.results.store import load_run, read_manifest


def write_beside(runs: list[Path], output: Path | None = None, *, overwrite: bool = False) -> Path:
    """Write the run file, beside the first run directory unless another path is given."""
    path = output or runs[0].parent / f"{runs[0].name}.json"
    write_text(path, dumps(run_file_of(runs)) + "\n", overwrite=overwrite)
    return path


def tell_ties(path: Path) -> None:
    """Say of each mode in a run file how many repeated answers tied, where any did."""
    for experiment in read_object(path)["experiments"]:
        made = experiment["provenance"]
        if made.get("ties") and made["ties"]["n_tied"]:
            typer.echo(f"{made['mode']}: {Ties(**made['ties'])}", err=True)


def run_file_of(directories: list[Path]) -> JsonObject:
    """Return runs in the file format of their suite; repeats of an item become one answer."""
    runs = [plain_run(directory) for directory in directories]
    forms = [run_format(run.suite) for run in runs]
    if len({run.suite for run in runs}) > 1 or not forms[0]:
        named = ", ".join(sorted({repr(run.suite) for run in runs}))
        offered = ", ".join(name for name in registry.names("suites") if run_format(name))
        raise InvalidValue(
            f"{directories[0]}: there is no run file for runs of the suite {named}; only runs of "
            f"one suite make a run file, and of these suites: {offered}"
        )
    content: JsonObject = registry.find("formats", forms[0]).content(runs)
    return content


def run_format(suite: str) -> str:
    """Return the name of the file format that runs of a suite are written in, or nothing."""
    known = suite in registry.table("suites")
    return str(registry.find("suites", suite).run_format) if known else ""


def plain_run(directory: Path) -> PlainRun:
    """Return a finished run in plain values, each record once."""
    manifest = read_manifest(directory)
    suite = manifest.suite_description
    mode, repeats = suite.get("mode"), manifest.identity.repeats
    rows = collapse_repeats(load_run(directory).evaluation_results)
    ties = ties_of(row.signals for row in rows)
    return PlainRun(
        suite=str(suite.get("suite", "")),
        task=Task(str(suite.get("task", ""))),
        rows=[plain_row(row) for row in rows],
        run_id=manifest.run_id,
        git_commit=manifest.git_commit,
        mode=None if mode is None else str(mode),
        provenance={
            "run_id": manifest.run_id,
            "run_directory": directory.name,
            "created_at": manifest.created_at,
            "backend": manifest.backend_name,
            "krisis_version": manifest.versions.get("krisis"),
            "n_items_planned": manifest.n_plain // repeats,
            "repeats": repeats,
            **({"ties": asdict(ties)} if ties else {}),
            "suite": suite,
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
    path = run.parent / f"{run.name}.json"
    if not path.exists():
        return []
    names = registry.find("formats", run_format(suite)).run_directories(read_object(path))
    others = [run.parent / name for name in names]
    return [other for other in others if other.name != run.name and other.is_dir()]

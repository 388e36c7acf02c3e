"""`krisis doctor`: say what is damaged in a run directory, and mend it."""

from __future__ import annotations

from itertools import count
from pathlib import Path

import typer

from krisis.cli.help import command, new_app
from krisis.results.journal_reading import damaged_lines, mend
from krisis.results.lock import RunLock
from krisis.results.store import StoredRun, read_run

app = new_app()

_N_LINES_SHOWN = 20


@command(
    app,
    "krisis doctor runs/RUN",
    "krisis doctor runs/RUN --mend",
)
def doctor(
    run: Path = typer.Argument(..., help="A run directory."),
    wants_mending: bool = typer.Option(False, "--mend"),
) -> None:
    """Check every line of a run against its checksum and its suite; exit 1 if one is damaged."""
    if not wants_mending:
        findings = _findings(read_run(run))
        typer.echo("\n".join([*findings, *_conclusion(run, findings)]))
        raise typer.Exit(1 if len(findings) > 1 else 0)
    read_run(run)  # says what is wrong with the path before a lock is left in it
    lock = RunLock(run)
    try:
        typer.echo("\n".join(_mended(read_run(run))))
    finally:
        lock.release()


def _findings(run: StoredRun) -> list[str]:
    """Return how many records have a row, and then everything that is wrong; no row is quoted."""
    n_rows, damage = len(run.journal.rows), run.journal.damage
    lines = [f"{run.directory.path}: {n_rows} of {run.manifest.n_cases} records have an intact row"]
    lines += [f"rows.jsonl, line {one.line}: {one.reason}" for one in damage[:_N_LINES_SHOWN]]
    if len(damage) > _N_LINES_SHOWN:
        lines.append(f"rows.jsonl: {len(damage) - _N_LINES_SHOWN} further damaged lines")
    if not run.has_cases:
        lines.append("cases.txt is missing or damaged; a resume writes it again from the suite")
    if not run.scores_fit:
        lines.append("metrics.json cannot be read, or holds the scores of other rows")
    return lines


def _conclusion(run: Path, findings: list[str]) -> list[str]:
    if len(findings) == 1:
        return ["Nothing is damaged"]
    return [f"Nothing was changed; to mend it, type: krisis doctor {run} --mend"]


def _mended(run: StoredRun) -> list[str]:
    """Set damaged lines and scores that no longer fit aside, and say so."""
    directory, damage = run.directory, run.journal.damage
    findings = _findings(run)
    if len(findings) == 1:
        return [*findings, "Nothing is damaged"]
    done = []
    if damage:
        mend(directory.rows, damage, directory.damaged)
        done.append(f"{damaged_lines(len(damage))} set aside in {directory.damaged.name}")
    if not run.scores_fit:
        done.append(f"{directory.metrics.name} set aside as {_set_aside(directory.metrics).name}")
    return [
        *findings,
        *done,
        "To have rows that were lost, import the file again"
        if run.manifest.imported
        else f"To ask records without a row again, type: krisis resume {run.directory.path}",
    ]


def _set_aside(path: Path) -> Path:
    """Rename a file to a name that is free: nothing is overwritten."""
    names = (path.with_name(f"{path.stem}.stale{n or ''}{path.suffix}") for n in count())
    free = next(name for name in names if not name.exists())
    return path.rename(free)

"""`krisis doctor`: check a run for damage, and save what is whole into a new file."""

from __future__ import annotations

from pathlib import Path

import typer

from krisis.cli.console import print_document
from krisis.cli.help import command, new_app
from krisis.errors import InvalidFile
from krisis.pages.document import Column, Content, Document, Section, Sentences, Table
from krisis.pages.numbers import count
from krisis.runs.read import RunFile, open_run
from krisis.runs.schema import SUFFIX, TABLES
from krisis.verbs.maintain.repair import repair

app = new_app()


@command(
    app,
    "krisis doctor runs/RUN.krisis",
    "krisis doctor runs/RUN.krisis --repair",
)
def doctor(
    run: Path = typer.Argument(..., help="A run."),
    wants_repair: bool = typer.Option(
        False,
        "--repair",
        help="Save what is whole into a new file; the damaged one stays as it is.",
    ),
    output: Path | None = typer.Option(
        None, "--output", "-o", help="With --repair: the new file; else named after the run."
    ),
) -> None:
    """Check every line of a run against its checksum; exit 1 if one is damaged."""
    if wants_repair:
        _repair(run, output or run.with_name(f"{run.name.removesuffix(SUFFIX)}.repaired{SUFFIX}"))
        return
    with open_run(run) as opened:
        found = _findings(opened)
    print_document(found, verbose=True)
    raise typer.Exit(1 if found.urgent else 0)


def _findings(run: RunFile) -> Document:
    """Return how many records have a row, and then everything that is wrong; no row is quoted."""
    n_rows = len(run.contents().rows)
    for table in TABLES:
        if table != "run":
            sum(1 for _ in run.believed(table))
    damaged = [(table, n) for table, n in sorted(run.left_out.items()) if n]
    n_cases = run.description.n_cases
    lead = [f"{run.path}: {count(n_rows)} of {count(n_cases)} records have an intact row"]
    if not damaged and not run.is_broken:
        return Document(title="Nothing is damaged", lead=lead)
    parts: list[Content] = []
    if run.is_broken:
        parts.append(Sentences(["The structure of the file is damaged."]))
    if damaged:
        columns = (Column("name", "table"), Column("count", "damaged"))
        parts.append(Table(columns=columns, rows=damaged))
    return Document(
        title="This run is damaged; nothing was changed",
        lead=lead,
        urgent=True,
        sections=[Section(key="damage", title="Damage", parts=parts)],
        commands=[f"To save what is whole into a new file: krisis doctor {run.path} --repair"],
    )


def _repair(run: Path, target: Path) -> None:
    if not run.is_file():
        raise InvalidFile(f"{run} is not a file; name a run such as runs/NAME{SUFFIX}")
    found = repair(run, target)
    n_cases, n_missing = found.description.n_cases, found.n_missing
    if not n_missing:
        rest = "none is lost"
    elif found.has_ended:
        rest = f"{count(n_missing)} {'is' if n_missing == 1 else 'are'} lost"
    else:
        rest = f"the other {count(n_missing)} are lost or were never asked"
    typer.echo(
        f"Saved {count(found.n_rows)} of {count(n_cases)} rows into {target}; {rest}; {run} was "
        "not changed"
    )
    if found.n_without_case:
        typer.echo(
            f"{count(found.n_without_case)} of them cannot be shown, because the records they "
            "belong to are lost"
        )
    if found.description.imported and (n_missing or found.n_without_case):
        typer.echo("To have what was lost, import the file again")
    elif n_missing:
        typer.echo(f"To ask only the records without a row, type: krisis resume {target}")
    elif found.n_without_case:
        typer.echo(f"To restore these records without a call, type: krisis resume {target}")

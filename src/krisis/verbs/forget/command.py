"""`krisis forget`: remove a patient from runs, and from what krisis keeps elsewhere about them."""

from __future__ import annotations

from pathlib import Path

import typer

from krisis.cli.help import command, new_app
from krisis.verbs.forget import forget as forget_patient

app = new_app()


@command(
    app,
    "krisis forget runs/RUN.krisis --patient 4711",
    "krisis forget runs/*.krisis --patient 4711",
)
def forget(
    runs: list[Path] = typer.Argument(..., help="Run files."),
    patient: str = typer.Option(..., "--patient", metavar="ID"),
    cache_path: Path | None = typer.Option(None, "--cache-path"),
) -> None:
    """Remove a patient from runs, their notes, the reply cache and the search index.

    Copies, exports, reports and certificates elsewhere cannot be found: delete them yourself.
    """
    found = forget_patient(runs, patient=patient, cache_path=cache_path)
    for one in found:
        typer.echo(str(one), err=bool(one.problem))
    if any(one.problem for one in found):
        raise typer.Exit(2)

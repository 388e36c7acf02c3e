"""`krisis read`: a person reads the cases of a suite in a browser; the answers are a run."""

from __future__ import annotations

import secrets
from contextlib import suppress
from pathlib import Path

import typer

from krisis.api.scoring import load
from krisis.cli.console import print_document
from krisis.cli.help import command, new_app
from krisis.execution.assembly import suite_of
from krisis.execution.config import RunConfig
from krisis.json_values import JsonObject
from krisis.verbs.read.desk import ReadingDesk
from krisis.verbs.read.site import create_reading_app
from krisis.viewer.serving import serve

app = new_app()


@command(
    app,
    "krisis read ckd --reader dr-a --limit 20",
    "krisis read clinic.yaml --reader dr-b --task triage",
    "krisis read ckd --reader dr-a --limit 20 --with runs/RUN",
)
def read(
    suite: str = typer.Argument(..., help="A suite by its name, or the YAML file of a table."),
    reader: str = typer.Option(..., "--reader", metavar="NAME"),
    task: str = typer.Option("", "--task"),
    seed: int | None = typer.Option(None, "--seed"),
    limit: int | None = typer.Option(
        None, "--limit", min=1, metavar="NUMBER", help="Only the first N records."
    ),
    with_run: Path | None = typer.Option(None, "--with"),
    output: Path = typer.Option(Path("runs"), "--output", "-o", metavar="FOLDER"),
    port: int = typer.Option(8322, "--port", min=0, max=65535),
    browser: bool = typer.Option(True, "--browser/--no-browser"),
) -> None:
    """Show a reader the cases of a suite one by one, and keep the answers as a run.

    The same command goes on where the reader stopped. Nothing about the truth or a model is
    shown; with --with, the model's answer after the reader's own is stored.
    """
    chosen: JsonObject = {"task": task or None, "seed": seed}
    settings = {name: value for name, value in chosen.items() if value is not None}
    made = suite_of(RunConfig(suite=suite, model="reader", **settings))
    desk = ReadingDesk(made, reader, out=output, limit=limit, with_run=with_run)
    try:
        if made.notice:
            typer.echo(made.notice, err=True)
        typer.echo(f"{desk.n_read} of {len(desk.cases)} cases read so far")
        token = secrets.token_urlsafe(32)
        site = create_reading_app(desk, token=token)
        with suppress(KeyboardInterrupt):  # the usual end: what was read is scored and shown
            serve(site, "krisis read", port=port, token=token, browser=browser)
    finally:
        desk.close()
    for path in desk.paths:
        print_document(load(path).document())
        typer.echo(f"Run: {path}")

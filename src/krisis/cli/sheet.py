"""`krisis sheet`: what a paper about a run must say, with what the run can say of it."""

from __future__ import annotations

from pathlib import Path

import typer

from krisis.cli.console import warn_of_damage
from krisis.cli.help import command, new_app
from krisis.cli.streams import echo_json
from krisis.json_values import dumps, write_text
from krisis.reporting.sheet import build_sheet
from krisis.reporting.sheet_markdown import sheet_markdown
from krisis.reporting.sheet_run import read_run_for_sheet

app = new_app()


@command(
    app,
    "krisis sheet runs/RUN -o sheet.md",
    "krisis sheet result.json --json",
)
def sheet(
    run: Path = typer.Argument(..., help="A run, a saved result or a run file."),
    mode: str | None = typer.Option(None, "--mode"),
    output: Path | None = typer.Option(None, "--output", "-o"),
    as_json: bool = typer.Option(False, "--json"),
) -> None:
    """Write the items of TRIPOD-LLM, the flow of records, a model card and a data sheet."""
    read = read_run_for_sheet(run, mode)
    warn_of_damage([read.result])
    made = build_sheet(read)
    text = dumps(made.to_dict()) if as_json else sheet_markdown(made).removesuffix("\n")
    if output is not None:
        write_text(output, text + "\n", private=False)
        typer.echo(f"wrote {output}")
    elif as_json:
        echo_json(text)
    else:
        typer.echo(text)

"""`krisis sheet`: what a paper about a run must say, and what the run says of it."""

from __future__ import annotations

from pathlib import Path

import typer

from krisis.cli.console import warn_of_damage
from krisis.cli.formats import Format, Output, chosen_format, give
from krisis.cli.help import command, new_app
from krisis.json_values import write_text
from krisis.verbs.sheet.page import answers_draft, build_sheet, read_answers

app = new_app()


@command(
    app,
    "krisis sheet runs/RUN -o sheet.md --author answers.yaml",
    "krisis sheet result.json --format json",
)
def sheet(
    run: Path = typer.Argument(..., help="A run, a saved result or a run file."),
    author: Path | None = typer.Option(None, "--author"),
    mode: str | None = typer.Option(None, "--mode"),
    output_format: Format = "",
    output: Output = None,
) -> None:
    """Write the items of TRIPOD-LLM, the flow of records, a model card and a data sheet."""
    chosen = chosen_format(output_format, output)
    answers = read_answers(author) if author is not None and author.exists() else None
    made = build_sheet(run, mode, answers=answers)
    warn_of_damage([made.result])
    if author is not None and answers is None:
        write_text(author, answers_draft(made), private=False)
        typer.echo(f"wrote {author}: fill it in and run this command again", err=True)
    give(made, made.to_dict, chosen, output=output, verbose=True)

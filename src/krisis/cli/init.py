"""`krisis init`: write a first YAML file for a table of one's own."""

from __future__ import annotations

from pathlib import Path

import typer

from krisis.cli.help import command, new_app
from krisis.data.table.draft import draft, n_todo
from krisis.json_values import write_text

app = new_app()


@command(app, "krisis init patients.csv", "krisis init patients.csv -o clinic.yaml")
def init(
    file: Path = typer.Argument(..., help="A table: CSV, TSV, JSON, JSON lines or Parquet."),
    out: Path | None = typer.Option(
        None,
        "-o",
        "--out",
        metavar="FILE",
        help="The YAML file to write; by default beside the table.",
    ),
) -> None:
    """Write a commented YAML file that describes a table, with TODO where only you know.

    Nothing is asked and no file is replaced. Of the values, only rounded ranges and the names of
    frequent categories are written.
    """
    out = out or file.with_suffix(".yaml")
    text = draft(file, out)
    write_text(out, text, private=False)
    typer.echo(f"Wrote {out} with {n_todo(text)} lines marked TODO; edit them, then type:")
    typer.echo(f"krisis data check {out}")

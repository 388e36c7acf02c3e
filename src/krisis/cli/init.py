"""`krisis init`: write a first YAML file for a table of one's own."""

from __future__ import annotations

from pathlib import Path

import typer

from krisis.data.table.draft import draft, n_todo
from krisis.json_values import write_text

app = typer.Typer(add_completion=False)


@app.command()
def init(
    file: Path = typer.Argument(..., help="a table: CSV, TSV, JSON, JSON lines or Parquet"),
    out: Path | None = typer.Option(
        None, "-o", "--out", help="the YAML file to write; by default beside the table"
    ),
) -> None:
    """Write a commented YAML file that describes a table, with TODO where only you know.

    Nothing is asked and no file is replaced. Of the values, only rounded ranges and the names of
    frequent categories are written.

    Example:  krisis init patients.csv
    """
    out = out or file.with_suffix(".yaml")
    text = draft(file, out)
    write_text(out, text)
    typer.echo(f"Wrote {out} with {n_todo(text)} lines marked TODO; edit them, then type:")
    typer.echo(f"krisis data check {out}")

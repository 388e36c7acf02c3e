"""`krisis init`: write a first YAML file for a table of one's own."""

from __future__ import annotations

from pathlib import Path

import typer

from krisis.cli.help import command, new_app
from krisis.cli.streams import echo_lines
from krisis.data.table.check import problem_lines
from krisis.data.table.draft import draft
from krisis.json_values import write_text

app = new_app()


@command(
    app,
    "krisis init patients.csv",
    "krisis init patients.csv -o clinic.yaml",
    "krisis init icu.db --table stays",
)
def init(
    file: Path = typer.Argument(
        ..., help="A table (CSV, TSV, JSON, JSON lines, Parquet) or a database (SQLite, DuckDB)."
    ),
    table: str | None = typer.Option(None, "--table", metavar="NAME"),
    out: Path | None = typer.Option(
        None,
        "-o",
        "--output",
        metavar="FILE",
    ),
) -> None:
    """Write a commented YAML file that describes a table, and check it.

    Outcome, patient, text and other columns are found by their names and values, and what gives
    the outcome away is left out. Nothing is asked and no file is replaced. Of the values, only the
    answers and the names of frequent categories are written.
    """
    out = out or (file.with_suffix(".yaml") if file.name else Path("table.yaml"))
    made = draft(file, out, table=table)
    write_text(out, made.text, private=False)
    typer.echo(f"Wrote {out}")
    echo_lines(f"  {remark}" for remark in made.remarks)
    if made.checked.problems:
        echo_lines(problem_lines(made.checked.problems, out))
    is_near = file.resolve().is_relative_to(out.resolve().parent)
    typer.echo("Read the file, correct it, then type:")
    typer.echo(f"krisis data check {out}" + ("" if is_near else f" --data-path {file}"))

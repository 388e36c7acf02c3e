"""`krisis figure`: draw one or several runs as a figure for a paper."""

from __future__ import annotations

from pathlib import Path

import typer

from krisis.cli.console import warn_of_damage
from krisis.cli.help import command, new_app
from krisis.pages.charts.files import check_figure_file
from krisis.results.loading import load_results
from krisis.verbs import report as verbs

app = new_app()


@command(
    app,
    "krisis figure runs/A runs/B --kind risk-coverage -o curves.pdf",
    "krisis figure a.json b.json --kind forest -m accuracy -o forest.svg",
    "krisis figure runs/A --kind reliability --style print --width 85 -o fig.pdf",
)
def figure(
    runs: list[Path] = typer.Argument(..., help="One to twelve runs or saved results."),
    kind: str = typer.Option(..., "--kind"),
    output: Path = typer.Option(..., "--output", "-o"),
    metric: list[str] = typer.Option([], "--metric", "-m"),
    style: str = typer.Option("screen", "--style"),
    width: float | None = typer.Option(None, "--width"),
    title: str = typer.Option("", "--title"),
) -> None:
    """Draw runs as one figure: title, model names, task, n, key and intervals are inside it."""
    check_figure_file(output)
    warn_of_damage(load_results(runs).values())
    verbs.figure(runs, output, kind=kind, metrics=metric, style=style, width=width, title=title)
    typer.echo(f"wrote {output}")

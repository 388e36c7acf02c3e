"""`krisis figure`: draw one or several runs as a figure for a paper."""

from __future__ import annotations

from pathlib import Path

import typer

from krisis.cli.console import warn_of_damage
from krisis.cli.help import command, new_app
from krisis.errors import InvalidFile
from krisis.reporting.run_figures import (
    FigureOptions,
    check_figure_file,
    figure_file,
    runs_figure,
)
from krisis.results.loading import load_results

app = new_app()


@command(
    app,
    "krisis figure runs/A runs/B --kind risk-coverage -o curves.pdf",
    "krisis figure a.json b.json --kind forest -m accuracy --style print --width 85 -o forest.pdf",
)
def figure(
    runs: list[Path] = typer.Argument(..., help="One to twelve runs or saved results."),
    kind: str = typer.Option(..., "--kind", help="risk-coverage, reliability, forest or deferral."),
    output: Path = typer.Option(..., "--output", "-o", help="The new file: .pdf, .svg or .png."),
    metric: list[str] = typer.Option(
        [], "--metric", "-m", help="Metric of the forest, by its key; repeatable."
    ),
    style: str = typer.Option(
        "screen", "--style", help="screen, or print: white, small letters, sizes in millimetres."
    ),
    width: float | None = typer.Option(
        None, "--width", help="Width in millimetres for print: 85 for a column, 170 for a page."
    ),
    title: str = typer.Option("", "--title", help="A title of your own."),
) -> None:
    """Draw runs as one figure: title, model names, task, n, key and intervals are inside it."""
    options = FigureOptions(kind, style, width, title, metric)
    check_figure_file(output)
    loaded = load_results(runs)
    warn_of_damage(loaded.values())
    drawn = figure_file(runs_figure(loaded, options), output.suffix.lower(), style)
    try:
        output.parent.mkdir(parents=True, exist_ok=True)
        output.write_bytes(drawn)
    except OSError as error:
        raise InvalidFile(f"{output} cannot be written: {error.strerror}") from None
    typer.echo(f"wrote {output}")

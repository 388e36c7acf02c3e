"""`krisis show`: print the report of a saved result."""

from __future__ import annotations

from pathlib import Path

import typer

from krisis.cli.help import command, new_app
from krisis.cli.streams import echo_json
from krisis.results.loading import load_result
from krisis.results.report import format_metrics_json_report, format_report

app = new_app()


@command(
    app,
    "krisis show runs/RUN",
    "krisis show result.json --json",
)
def show(
    results: Path = typer.Argument(
        ..., metavar="RUN", help="A run directory, a saved result or a metrics-only file (JSON)."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print metrics-only JSON, not text."),
) -> None:
    """Print the report of a saved result."""
    result = load_result(results)
    if as_json:
        echo_json(format_metrics_json_report(result))
    else:
        typer.echo(format_report(result))

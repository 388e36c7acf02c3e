"""`krisis show`: print the report of a saved result."""

from __future__ import annotations

from pathlib import Path

import typer

from krisis.cli.formats import Answer, AsJson, Format, Output, chosen_format
from krisis.cli.help import command, new_app
from krisis.reporting.run_tables import score_tables
from krisis.results.loading import load_result
from krisis.results.report import format_metrics_json_report, format_report

app = new_app()


@command(
    app,
    "krisis show runs/RUN",
    "krisis show result.json --format markdown",
)
def show(
    results: Path = typer.Argument(
        ..., metavar="RUN", help="A run directory, a saved result or a metrics-only file (JSON)."
    ),
    output_format: Format = "",
    as_json: AsJson = False,
    output: Output = None,
) -> None:
    """Print the report of a saved result."""
    chosen = chosen_format(output_format, as_json, output)
    result = load_result(results)
    Answer(
        text=lambda: format_report(result),
        tables=lambda: score_tables(result),
        json=lambda: format_metrics_json_report(result),
    ).give(chosen, output)

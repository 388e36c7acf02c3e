"""`krisis show`: print the report of a run, with its own metrics or with others."""

from __future__ import annotations

import json
from pathlib import Path

import typer

from krisis.api import scoring as verbs
from krisis.cli.formats import Format, Output, Verbose, chosen_format, give
from krisis.cli.help import command, new_app
from krisis.json_values import dumps, write_text
from krisis.results.base import BenchmarkResult
from krisis.results.loading import with_rows
from krisis.results.report import format_metrics_json_report
from krisis.runs.places import copy_warning

app = new_app()


@command(
    app,
    "krisis show runs/RUN",
    "krisis show result.json --format markdown",
    "krisis show rows.parquet --metric accuracy --metric brier_score --format csv",
    "krisis show runs/RUN --metric binary --save rescored.json",
)
def show(
    run: Path = typer.Argument(
        ...,
        metavar="RUN",
        help="A run, a saved result or a metrics-only file (JSON), or rows in Parquet.",
    ),
    metric: list[str] = typer.Option(
        [],
        "--metric",
        "-m",
    ),
    output_format: Format = "",
    output: Output = None,
    verbose: Verbose = False,
    save: Path | None = typer.Option(None, "--save"),
    costs: Path | None = typer.Option(None, "--costs"),
    price: float | None = typer.Option(None, "--price"),
) -> None:
    """Print the report of a run; with --metric, score its rows again without asking any model.

    --costs and --price ask what if answers or deferrals cost something else.
    """
    chosen = chosen_format(output_format, output)
    result = verbs.score(run, metrics=metric, costs=costs, price=price)
    if warning := copy_warning(run):
        typer.echo(warning, err=True)
    if save is not None:
        write_text(save, with_rows(result, run).to_json() + "\n")
    give(
        result,
        lambda: _as_json(result),
        chosen,
        output=output,
        verbose=verbose or bool(metric),
    )


def _as_json(result: BenchmarkResult) -> str:
    """Return the scores as JSON, with the verdict where there are rows to judge."""
    content = json.loads(format_metrics_json_report(result))
    verdict = result.document().verdict if result.rows else None
    return dumps(content | ({"verdict": verdict.to_dict()} if verdict else {}), indent=2)

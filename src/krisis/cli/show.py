"""`krisis show`: print the report of a run, with its own metrics or with others."""

from __future__ import annotations

import json
from pathlib import Path

import typer

from krisis.cli.formats import AsJson, Format, Output, Verbose, chosen_format, give
from krisis.cli.help import command, new_app
from krisis.errors import UnknownName
from krisis.json_values import dumps, write_text
from krisis.metrics import BootstrapOptions
from krisis.results.base import BenchmarkResult
from krisis.results.loading import metrics_asked, with_rows
from krisis.results.report import format_metrics_json_report
from krisis.results.seed_deferral import scored_by_flags
from krisis.runs.places import copy_warning
from krisis.verbs import scoring as verbs

app = new_app()


@command(
    app,
    "krisis show runs/RUN",
    "krisis show result.json --format markdown",
    "krisis show rows.parquet --metric accuracy --metric brier_score --format csv",
    "krisis show runs/RUN --metric binary --save rescored.json",
    "krisis show runs/RUN --deferral seed",
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
    deferral: str = typer.Option(
        "",
        "--deferral",
    ),
    output_format: Format = "",
    as_json: AsJson = False,
    output: Output = None,
    verbose: Verbose = False,
    save: Path | None = typer.Option(None, "--save"),
) -> None:
    """Print the report of a run; with --metric, score its rows again without asking any model."""
    chosen = chosen_format(output_format, as_json, output)
    result = _by_flags(run, metric, deferral) if deferral else verbs.score(run, metrics=metric)
    if warning := copy_warning(run):
        typer.echo(warning, err=True)
    if save is not None:
        write_text(save, with_rows(result, run).to_json() + "\n")
    give(
        result,
        lambda: _as_json(result),
        chosen,
        output=output,
        verbose=verbose or bool(metric or deferral),
    )


def _as_json(result: BenchmarkResult) -> str:
    """Return the scores as JSON, with the verdict where there are rows to judge."""
    content = json.loads(format_metrics_json_report(result))
    verdict = result.document().verdict if result.rows else None
    return dumps(content | ({"verdict": verdict.to_dict()} if verdict else {}), indent=2)


def _by_flags(run: Path, names: list[str], label: str) -> BenchmarkResult:
    if label != "seed":
        raise UnknownName.among("deferral label", label, ["seed"])
    stored = with_rows(verbs.load(run), run)
    metrics = verbs.chosen_metrics(names) or metrics_asked(stored)
    return scored_by_flags(stored, metrics, BootstrapOptions())

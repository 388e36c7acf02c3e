"""`krisis show`: print the report of a run, with its own metrics or with others."""

from __future__ import annotations

from pathlib import Path

import typer

from krisis.cli.console import has_colour
from krisis.cli.formats import Answer, AsJson, Format, Output, chosen_format
from krisis.cli.help import command, new_app
from krisis.errors import InvalidValue, UnknownName
from krisis.json_values import write_text
from krisis.metrics import BootstrapOptions, default_benchmark_metrics
from krisis.metrics.scoring import metrics_from_names
from krisis.pages.terminal import terminal_text
from krisis.reporting.run_tables import score_tables
from krisis.results.base import BenchmarkResult
from krisis.results.column_rows import ColumnRows
from krisis.results.loading import load_result, with_rows
from krisis.results.parquet import is_parquet, load_parquet
from krisis.results.report import format_metrics_json_report
from krisis.results.seed_deferral import scored_by_flags

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
        help="Score the stored rows again with this metric or bundle; repeatable.",
    ),
    deferral: str = typer.Option(
        "",
        "--deferral",
        metavar="LABEL",
        help="seed: score by the three flags of the first version instead of the suite's label.",
    ),
    output_format: Format = "",
    as_json: AsJson = False,
    output: Output = None,
    verbose: bool = typer.Option(
        False,
        "--verbose",
        "-v",
        help="Print every figure, not only the verdict; with --metric this is the default.",
    ),
    save: Path | None = typer.Option(
        None, "--save", help="Save rows and scores to this new file, a result that can be named."
    ),
) -> None:
    """Print the report of a run; with --metric, score its rows again without asking any model."""
    chosen = chosen_format(output_format, as_json, output)
    colour = output is None and has_colour()
    if deferral:
        result = _by_flags(run, metric, deferral)
    else:
        result = _scored_again(run, metric) if metric else load_result(run)
    if save is not None:
        _save(with_rows(result, run), run, save)
    Answer(
        text=lambda: terminal_text(
            result.document(), verbose=verbose or bool(metric or deferral), colour=colour
        ),
        tables=lambda: score_tables(result),
        json=lambda: format_metrics_json_report(result),
    ).give(chosen, output)


def _scored_again(run: Path, names: list[str]) -> BenchmarkResult:
    metrics = metrics_from_names(names)
    # A large Parquet file is scored by columns, and only once.
    by_columns = run.is_file() and is_parquet(run)
    stored = load_parquet(run) if by_columns else load_result(run)
    return with_rows(stored, run).scored(metrics, BootstrapOptions())


def _by_flags(run: Path, names: list[str], label: str) -> BenchmarkResult:
    if label != "seed":
        raise UnknownName.among("deferral label", label, ["seed"])
    stored = with_rows(load_result(run), run)
    task = stored.provenance.task_facts
    metrics = (
        metrics_from_names(names)
        if names
        else default_benchmark_metrics(task.metrics if task else ())
    )
    return scored_by_flags(stored, metrics, BootstrapOptions())


def _save(result: BenchmarkResult, run: Path, path: Path) -> None:
    if isinstance(result.rows, ColumnRows):
        raise InvalidValue(
            f"{run} has {len(result.rows):,} rows, which no file can list; leave out --save and "
            "keep what --json prints"
        )
    write_text(path, result.to_json() + "\n")

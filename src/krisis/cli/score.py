"""`krisis score`: recompute metrics from stored rows, without any model."""

from __future__ import annotations

from pathlib import Path

import typer

from krisis.cli.formats import Answer, AsJson, Format, chosen_format
from krisis.cli.help import command, new_app
from krisis.errors import InvalidValue
from krisis.json_values import write_text
from krisis.metrics import BootstrapOptions
from krisis.metrics.scoring import metrics_from_names
from krisis.reporting.run_tables import score_tables
from krisis.results.column_rows import ColumnRows
from krisis.results.loading import load_result, metrics_asked, with_rows
from krisis.results.parquet import is_parquet, load_parquet
from krisis.results.report import format_metrics_json_report, format_report

app = new_app()


@command(
    app,
    "krisis score result.json",
    "krisis score result.json -m accuracy -m brier_score --format csv",
    "krisis score result.json -o rescored.json",
)
def score(
    results: Path = typer.Argument(
        ..., metavar="RUN", help="A run directory, a saved result (JSON) or rows in Parquet."
    ),
    metric: list[str] = typer.Option(
        [], "--metric", "-m", help="Only this metric or bundle; repeatable."
    ),
    output_format: Format = "",
    as_json: AsJson = False,
    output: Path | None = typer.Option(
        None, "--output", "-o", help="Also save the rescored result to this new file."
    ),
) -> None:
    """Recompute the metrics of a saved result, without any model."""
    chosen_form = chosen_format(output_format, as_json)
    by_columns = results.is_file() and is_parquet(results)
    result = load_parquet(results) if by_columns else load_result(results)
    with_rows(result, results)
    if output is not None and isinstance(result.rows, ColumnRows):
        raise InvalidValue(
            f"{results} has {len(result.rows):,} rows, which no file can list; leave out --output "
            "and save what --json prints"
        )
    chosen = metrics_from_names(metric)
    rescored = result.scored(chosen or metrics_asked(result), BootstrapOptions())
    if output is not None:
        write_text(output, rescored.to_json() + "\n")
    Answer(
        text=lambda: format_report(rescored),
        tables=lambda: score_tables(rescored),
        json=lambda: format_metrics_json_report(rescored),
    ).give(chosen_form)

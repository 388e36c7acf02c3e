"""`krisis compare`: paired differences between runs on the same cases."""

from __future__ import annotations

from pathlib import Path

import typer
from rich.console import Console

from krisis.cli.console import wide_console
from krisis.json_values import dumps, write_text
from krisis.reporting.comparison import comparison_html
from krisis.results.compare import CompareOptions, compare_runs
from krisis.results.comparison_text import comparison_parts
from krisis.results.loading import load_results
from krisis.results.weighted_scores import METRICS

app = typer.Typer(help="Compare runs on the same cases, pair by pair.", add_completion=False)


@app.command(
    epilog="Examples:  krisis compare runs/A runs/B  |  krisis compare a.json b.json c.json "
    "--html comparison.html  |  krisis compare runs/A runs/B --metric accuracy --margin 0.05",
)
def compare(
    runs: list[Path] = typer.Argument(..., help="Two or more run directories or saved results."),
    metric: list[str] = typer.Option(
        [], "--metric", "-m", help="Only this metric; repeatable. Fewer tests, sharper p-values."
    ),
    margin: float | None = typer.Option(
        None, "--margin", help="Ask whether the second is not worse by more than this."
    ),
    resamples: int = typer.Option(
        10_000, "--resamples", min=100, help="Resamples and permutations."
    ),
    seed: int = typer.Option(42, "--seed", help="Seed of the resamples."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON, not tables."),
    html: Path | None = typer.Option(None, "--html", help="Write the comparison as a page."),
) -> None:
    """Compare runs on the same cases, pair by pair, with one draw of patients for everything."""
    options = CompareOptions(tuple(metric or METRICS), resamples, seed, margin=margin)
    loaded = load_results(runs)
    console = Console(stderr=True)
    with console.status("resampling patients …"):
        comparison = compare_runs(loaded, options)
    if as_json:
        typer.echo(dumps(comparison.to_dict()))
    else:
        output = wide_console()
        for part in comparison_parts(comparison, width=output.width):
            output.print(part, markup=False) if isinstance(part, str) else output.print(part)
    if html is not None:
        write_text(html, comparison_html(comparison))
        typer.echo(f"wrote {html}", err=True)

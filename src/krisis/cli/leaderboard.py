"""`krisis leaderboard`: runs side by side, one table per suite and task."""

from __future__ import annotations

import math
from pathlib import Path

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from krisis.cli.console import warn_of_damage, wide_console
from krisis.cli.streams import echo_json
from krisis.errors import InvalidFile
from krisis.json_values import dumps
from krisis.results.leaderboard import Cell, Leaderboard, leaderboards
from krisis.results.loading import load_results
from krisis.results.report import failure_lines
from krisis.results.store import is_run, list_runs

app = typer.Typer(add_completion=False)


@app.command(
    epilog="Examples:  krisis leaderboard runs  |  krisis leaderboard runs/A runs/B b.json "
    "--sort deferral_alignment  |  krisis leaderboard runs --sort accuracy --sort answer_rate",
)
def leaderboard(
    runs: list[Path] = typer.Argument(..., help="Runs, saved results, or a folder of runs."),
    sort: list[str] = typer.Option(
        [], "--sort", help="Column to rank by; with several, the mean rank decides."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print JSON, not tables."),
) -> None:
    """Show runs side by side with intervals, ranked by the task's headline or what you choose."""
    loaded = load_results(_expanded(runs))
    warn_of_damage(loaded.values())
    tables = leaderboards(loaded, sort=sort)
    if as_json:
        echo_json(dumps([table.to_dict() for table in tables]))
        return
    console = wide_console()
    for table in tables:
        console.print(_drawn(table))
        for entry in table.entries:
            for line in failure_lines(entry.attrition, entry.name):
                console.print(line, markup=False, soft_wrap=True)
        if len(table.hashes) > 1:
            console.print(
                f"The runs above did not all see the same cases ({len(table.hashes)} different "
                "content hashes): do not rank them against each other.",
                style="bold",
            )
    unranked = [table for table in tables if not table.sorted_by]
    if unranked:
        keys = dict.fromkeys(column.key for table in unranked for column in table.columns)
        console.print(f"Not ranked. Choose with --sort: {', '.join(keys)}.", markup=False)


def _expanded(paths: list[Path]) -> list[Path]:
    found: list[Path] = []
    for path in paths:
        inside = list_runs(path) if path.is_dir() and not is_run(path) else [path]
        if not inside:
            raise InvalidFile(f"{path} contains no runs; name runs, saved results or their folder")
        found += inside
    return found


def _drawn(table: Leaderboard) -> Table:
    title = Text(f"{table.suite} · {table.task}" if table.task else table.suite, style="bold")
    drawn = Table(title=title, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    if table.sorted_by:
        drawn.add_column("rank", justify="right")
    drawn.add_column("Model", overflow="fold")
    for column in table.columns:
        chosen = {column.key, column.name} & set(table.sorted_by)
        drawn.add_column(f"{column.heading} *" if chosen else column.heading, justify="right")
    for entry in table.entries:
        place = "not comparable" if entry.rank is None else f"{entry.rank:g}"
        rank = [place] if table.sorted_by else []
        name = Text("\n".join([entry.name, *entry.warnings]))
        figures = [_words(c.key, entry.cells[c.name]) for c in table.columns]
        drawn.add_row(*rank, name, *figures)
    return drawn


def _words(column: str, cell: Cell) -> str:
    if math.isnan(cell.value):
        return "–"
    if column == "token_total":
        return f"{cell.value:,.0f}"
    if column == "cost":
        return f"{cell.value:,.4f}"
    if column == "elapsed_seconds":
        return f"{cell.value:,.1f}"
    interval = cell.interval
    if interval is None or math.isnan(interval.low):
        return f"{cell.value:.3f}"
    return f"{cell.value:.3f}\n{interval.low:.2f}–{interval.high:.2f}"

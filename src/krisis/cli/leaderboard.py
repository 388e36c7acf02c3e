"""`krisis leaderboard`: runs side by side, one table per suite and task."""

from __future__ import annotations

import math
from pathlib import Path

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from krisis.cli.console import warn_of_damage, wide_console
from krisis.cli.help import command, new_app
from krisis.cli.streams import echo_json
from krisis.json_values import dumps
from krisis.results.leaderboard import Cell, Column, Leaderboard, leaderboards
from krisis.results.loading import expanded, load_results
from krisis.results.report import failure_lines

app = new_app()
_ANY_WIDTH = 100_000


@command(
    app,
    "krisis leaderboard runs",
    "krisis leaderboard runs/A runs/B b.json --sort deferral_alignment",
    "krisis leaderboard runs --sort accuracy --sort answer_rate",
)
def leaderboard(
    runs: list[Path] = typer.Argument(..., help="Runs, saved results, or a folder of runs."),
    sort: list[str] = typer.Option(
        [], "--sort", help="Column to rank by; with several, the mean rank decides."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print JSON, not tables."),
) -> None:
    """Show runs side by side with intervals, ranked by the task's headline or what you choose."""
    loaded = load_results(expanded(runs))
    warn_of_damage(loaded.values())
    tables = leaderboards(loaded, sort=sort)
    if as_json:
        echo_json(dumps([table.to_dict() for table in tables]))
        return
    print_tables(tables)


def print_tables(tables: list[Leaderboard]) -> None:
    """Print tables of runs, with what must be read beside them."""
    console = wide_console()
    for table in tables:
        console.print(_drawn(table, console))
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


def _drawn(table: Leaderboard, console: Console) -> Table:
    """Return one line per run, or one per figure where that is wider than the console."""
    names = ["\n".join([entry.name, *entry.warnings]) for entry in table.entries]
    ranks = ["not comparable" if e.rank is None else f"{e.rank:g}" for e in table.entries]
    figures = {"rank": ranks} if table.sorted_by else {}
    for column in table.columns:
        cells = [_words(column.key, entry.cells[column.name]) for entry in table.entries]
        figures[_heading(table, column)] = cells
    by_run = _empty(table)
    for heading in ("Model", *figures):
        by_run.add_column(Text(heading), justify="left" if heading == "Model" else "right")
    for name, *cells in zip(names, *figures.values(), strict=True):
        by_run.add_row(Text(name), *cells)
    unbound = console.options.update(max_width=_ANY_WIDTH)
    if Measurement.get(console, unbound, by_run).maximum <= console.width:
        return by_run
    by_figure = _empty(table)
    by_figure.add_column("Model")
    for name in names:
        by_figure.add_column(Text(name), justify="right", overflow="fold")
    for heading, cells in figures.items():
        by_figure.add_row(Text(heading), *cells)
    return by_figure


def _empty(table: Leaderboard) -> Table:
    title = Text(f"{table.suite} · {table.task}" if table.task else table.suite, style="bold")
    return Table(title=title, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))


def _heading(table: Leaderboard, column: Column) -> str:
    chosen = {column.key, column.name} & set(table.sorted_by)
    return f"{column.heading} *" if chosen else column.heading


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
    between = "–" if interval.low >= 0 else " to "
    return f"{cell.value:.3f}\n{interval.low:.2f}{between}{interval.high:.2f}"

"""`krisis leaderboard`: runs side by side, one table per suite and task."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

import typer
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from krisis.cli.console import drawn, warn_of_damage, wide_console
from krisis.cli.formats import Answer, AsJson, Format, Output, chosen_format
from krisis.cli.help import command, new_app
from krisis.json_values import dumps
from krisis.reporting.run_tables import leaderboard_table
from krisis.results.leaderboard import Cell, Column, Leaderboard, leaderboards
from krisis.results.loading import expanded, load_results
from krisis.results.report import failure_lines

app = new_app()
_ANY_WIDTH = 100_000
_NARROW = 14  # of the headings where several blocks of runs are needed


@command(
    app,
    "krisis leaderboard runs",
    "krisis leaderboard runs/A runs/B b.json --sort deferral_alignment",
    "krisis leaderboard runs --format latex -o table.tex",
)
def leaderboard(
    runs: list[Path] = typer.Argument(..., help="Runs, saved results, or a folder of runs."),
    sort: list[str] = typer.Option(
        [], "--sort", help="Column to rank by; with several, the mean rank decides."
    ),
    output_format: Format = "",
    as_json: AsJson = False,
    output: Output = None,
) -> None:
    """Show runs side by side with intervals, ranked by the task's headline or what you choose."""
    chosen = chosen_format(output_format, as_json, output)
    loaded = load_results(expanded(runs))
    warn_of_damage(loaded.values())
    boards = leaderboards(loaded, sort=sort)
    Answer(
        text=lambda: drawn(
            lambda console: draw_tables(boards, console), to_file=output is not None
        ),
        tables=lambda: [leaderboard_table(board) for board in boards],
        json=lambda: dumps([board.to_dict() for board in boards]),
    ).give(chosen, output)


def print_tables(tables: list[Leaderboard]) -> None:
    """Print tables of runs, with what must be read beside them."""
    draw_tables(tables, wide_console())


def draw_tables(tables: list[Leaderboard], console: Console) -> None:
    """Draw tables of runs on a console, with what must be read beside them."""
    for table in tables:
        for part in _parts(table, console):
            console.print(part)
        for entry in table.entries:
            for line in failure_lines(entry.attrition, entry.name):
                console.print(line, soft_wrap=True)
        if len(table.hashes) > 1:
            console.print(
                f"The runs above did not all see the same cases ({len(table.hashes)} different "
                "content hashes): do not rank them against each other.",
                style="bold",
            )
    unranked = [table for table in tables if not table.sorted_by]
    if unranked:
        keys = dict.fromkeys(column.key for table in unranked for column in table.columns)
        console.print(f"Not ranked. Choose with --sort: {', '.join(keys)}.")


def _parts(board: Leaderboard, console: Console) -> list[Table | Text]:
    """Return one line per run; or one per figure; or, with the names apart, blocks of runs."""
    names = ["\n".join([entry.name, *entry.warnings]) for entry in board.entries]
    ranks = ["not\ncomparable" if e.rank is None else f"{e.rank:g}" for e in board.entries]
    figures = {"rank": ranks} if board.sorted_by else {}
    for column in board.columns:
        cells = [_words(column.key, entry.cells[column.name]) for entry in board.entries]
        figures[_heading(board, column)] = cells
    by_run = _empty(_title(board))
    for heading in ("Model", *figures):
        by_run.add_column(Text(heading), justify="left" if heading == "Model" else "right")
    for name, *cells in zip(names, *figures.values(), strict=True):
        by_run.add_row(Text(name), *cells)
    if _width(by_run, console) <= console.width:
        return [by_run]
    by_figure = _by_figure(_title(board), names, figures)
    if _width(by_figure, console) <= console.width:
        return [by_figure]
    numbers = [str(place) for place in range(1, len(names) + 1)]
    legend = [
        Text(f"{number:>3}  {', '.join(name.splitlines())}", overflow="fold")
        for number, name in zip(numbers, names, strict=True)
    ]
    return [_title(board), *legend, *_blocks(numbers, figures, console)]


def _by_figure(
    title: Text | None, names: Sequence[str], figures: Mapping[str, Sequence[str]]
) -> Table:
    table = _empty(title)
    # The interval takes a second line, so a heading may.
    table.add_column("Model", max_width=None if title else _NARROW, overflow="fold")
    for name in names:
        table.add_column(Text(name), justify="right")
    for heading, cells in figures.items():
        table.add_row(Text(heading), *cells)
    return table


def _blocks(
    numbers: Sequence[str], figures: Mapping[str, Sequence[str]], console: Console
) -> list[Table]:
    """Return tables of as many runs beside each other as the console has room for."""
    blocks: list[Table] = []
    start = 0
    while start < len(numbers):
        for stop in range(len(numbers), start, -1):
            cells = {heading: found[start:stop] for heading, found in figures.items()}
            block = _by_figure(None, numbers[start:stop], cells)
            if stop == start + 1 or _width(block, console) <= console.width:
                break
        blocks.append(block)
        start = stop
    return blocks


def _width(table: Table, console: Console) -> int:
    unbound = console.options.update(max_width=_ANY_WIDTH)
    return Measurement.get(console, unbound, table).maximum


def _title(board: Leaderboard) -> Text:
    return Text(f"{board.suite} · {board.task}" if board.task else board.suite, style="bold")


def _empty(title: Text | None) -> Table:
    padding = (0, 1 if title else 0, 0, 0)
    return Table(title=title, title_justify="left", box=SIMPLE_HEAD, padding=padding)


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

"""Where tables are printed: as wide as the terminal, or wide enough for a file."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import typer
from rich.console import Console

from krisis.results.base import BenchmarkResult

_FILE_WIDTH = 140


def wide_console() -> Console:
    """Return a console that does not break tables when its output goes to a file."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=_FILE_WIDTH)


def drawn(draw: Callable[[Console], None], *, to_file: bool = False) -> str:
    """Return what is drawn on a console: for the terminal, or plain and wide for a file."""
    plain = Console(highlight=False, width=_FILE_WIDTH, no_color=True, force_terminal=False)
    console = plain if to_file else wide_console()
    with console.capture() as found:
        draw(console)
    return found.get().rstrip("\n")


def warn_of_damage(results: Iterable[BenchmarkResult]) -> None:
    """Say, apart from the output, which runs lack rows that were damaged."""
    for result in results:
        if result.damage:
            typer.echo(result.damage, err=True)

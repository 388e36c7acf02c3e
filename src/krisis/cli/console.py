"""Where tables are printed: as wide as the terminal, or wide enough for a file."""

from __future__ import annotations

from collections.abc import Iterable

import typer
from rich.console import Console

from krisis.results.base import BenchmarkResult

_FILE_WIDTH = 140


def wide_console() -> Console:
    """Return a console that does not break tables when its output goes to a file."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=_FILE_WIDTH)


def warn_of_damage(results: Iterable[BenchmarkResult]) -> None:
    """Say, apart from the output, which runs lack rows that were damaged."""
    for result in results:
        if result.damage:
            typer.echo(result.damage, err=True)

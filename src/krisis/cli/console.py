"""Where tables are printed: as wide as the terminal, or wide enough for a file."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import typer
from rich.console import Console

from krisis.pages.document import Document
from krisis.pages.terminal import terminal_text
from krisis.results.base import BenchmarkResult

_FILE_WIDTH = 140


def wide_console() -> Console:
    """Return a console that does not break tables when its output goes to a file.

    Without markup, names keep their brackets, as in `Expected Calibration Error [n_bins=3]`.
    """
    console = Console(highlight=False, markup=False)
    return console if console.is_terminal else _plain()


def _plain(**options: bool) -> Console:
    return Console(highlight=False, markup=False, width=_FILE_WIDTH, **options)  # type: ignore[arg-type]


def drawn(draw: Callable[[Console], None], *, to_file: bool = False) -> str:
    """Return what is drawn on a console: for the terminal, or plain and wide for a file."""
    console = _plain(no_color=True, force_terminal=False) if to_file else wide_console()
    with console.capture() as found:
        draw(console)
    return found.get().rstrip("\n")


def print_document(document: Document, *, verbose: bool = False) -> None:
    """Print a document, in its short form unless ``verbose``, in colour where there is any."""
    typer.echo(terminal_text(document, verbose=verbose, colour=has_colour()))


def has_colour() -> bool:
    """Tell whether the terminal that is printed to shows colours."""
    return Console().color_system is not None


def warn_of_damage(results: Iterable[BenchmarkResult]) -> None:
    """Say, apart from the output, which runs lack rows that were damaged."""
    for result in results:
        if result.damage:
            typer.echo(result.damage, err=True)

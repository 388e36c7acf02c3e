"""Printing documents, and warnings apart from them."""

from __future__ import annotations

from collections.abc import Iterable

import typer
from rich.console import Console

from krisis.cli.streams import echo_styled
from krisis.pages.document import Document
from krisis.pages.terminal import terminal_text
from krisis.results.base import BenchmarkResult


def print_document(document: Document, *, verbose: bool = False) -> None:
    """Print a document, in its short form unless ``verbose``, in colour where there is any."""
    echo_styled(terminal_text(document, verbose=verbose, colour=has_colour()))


def has_colour() -> bool:
    """Tell whether the terminal that is printed to shows colours."""
    return Console().color_system is not None


def warn_of_damage(results: Iterable[BenchmarkResult]) -> None:
    """Say, apart from the output, which runs lack rows that were damaged."""
    for result in results:
        if result.damage:
            typer.echo(result.damage, err=True)

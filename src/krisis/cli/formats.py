"""In which format a command prints what it found, and whether into a file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from krisis.cli.console import has_colour
from krisis.cli.streams import echo_data, echo_json, echo_styled
from krisis.display import Documented
from krisis.errors import InvalidFile, UnknownName
from krisis.json_values import JsonMapping, dumps, write_text
from krisis.pages.terminal import terminal_text

_OF_SUFFIX = {".csv": "csv", ".md": "markdown", ".tex": "latex", ".json": "json"}
FORMATS = ("table", "csv", "markdown", "latex", "json")

Format = Annotated[
    str,
    typer.Option("--format"),
]
Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
    ),
]
Verbose = Annotated[bool, typer.Option("--verbose", "-v")]


def chosen_format(name: str, output: Path | None = None) -> str:
    """Return the format that was asked for, by name or by the ending of the file."""
    if output is not None and output.exists():
        raise InvalidFile(f"{output} exists already; choose another name or remove it first")
    if name and name not in FORMATS:
        raise UnknownName.among("format", name, FORMATS)
    if name:
        return name
    return _OF_SUFFIX.get(output.suffix.lower(), "table") if output is not None else "table"


def give(
    found: Documented,
    json: Callable[[], str | JsonMapping],
    format: str = "table",  # noqa: A002 - as the option is called
    *,
    output: Path | None = None,
    verbose: bool = False,
) -> None:
    """Print a result in a format, or write it to a file; ``json`` is the result with its keys."""
    if format == "json":
        facts = json()
        text = facts if isinstance(facts, str) else dumps(facts)
    elif format == "table":
        colour = output is None and has_colour()
        text = terminal_text(found.document(brief=not verbose), verbose=verbose, colour=colour)
    else:
        text = found.written(format)
    if output is not None:
        write_text(output, f"{text}\n", private=format == "json")
        typer.echo(f"wrote {output}", err=True)
    elif format == "json":
        echo_json(text)
    elif format == "table":
        echo_styled(text)
    else:
        echo_data(text)

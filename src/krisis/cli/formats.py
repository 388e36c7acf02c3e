"""In which format a command prints its numbers, and whether into a file."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from krisis.cli.streams import echo_json
from krisis.errors import InvalidFile, InvalidValue, UnknownName
from krisis.json_values import write_text
from krisis.reporting.tables import EstimateTable, written

FORMATS = ("table", "csv", "markdown", "latex")
_OF_SUFFIX = {".csv": "csv", ".md": "markdown", ".tex": "latex", ".json": "json"}

Format = Annotated[
    str,
    typer.Option("--format"),
]
AsJson = Annotated[bool, typer.Option("--json")]
Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
    ),
]


def chosen_format(name: str, as_json: bool, output: Path | None = None) -> str:
    """Return the format that was asked for, by name, by --json or by the ending of the file."""
    if output is not None and output.exists():
        raise InvalidFile(f"{output} exists already; choose another name or remove it first")
    if name and name not in FORMATS:
        raise UnknownName.among("format", name, FORMATS)
    if as_json and name:
        raise InvalidValue(f"--json and --format {name} contradict each other; give one of them")
    if as_json or name:
        return "json" if as_json else name
    return _OF_SUFFIX.get(output.suffix.lower(), "table") if output is not None else "table"


@dataclass(frozen=True, slots=True)
class Answer:
    """What a command found, in every form; each is made only where it is wanted."""

    text: Callable[[], str]
    tables: Callable[[], Sequence[EstimateTable]]
    json: Callable[[], str]

    def written(self, name: str) -> str:
        """Return the answer in a format."""
        if name == "table":
            return self.text()
        return self.json() if name == "json" else written(self.tables(), name).rstrip("\n")

    def give(self, name: str, output: Path | None = None) -> None:
        """Print the answer in a format, or write it to a file."""
        if output is not None:
            write_text(output, self.written(name) + "\n", private=name == "json")
            typer.echo(f"wrote {output}", err=True)
        elif name == "json":
            echo_json(self.json())
        else:
            typer.echo(self.written(name))

"""`krisis list`: the suites, backends, metrics or bundles that can be named in other commands."""

from __future__ import annotations

import inspect
from typing import Literal

import typer
from rich.console import Console
from rich.table import Table

from krisis import registry
from krisis.cli.help import command, new_app
from krisis.errors import MissingExtra, PlugInFault

app = new_app()


Listable = Literal["suites", "backends", "metrics", "bundles"]


@command(
    app,
    "krisis list metrics",
    "krisis list backends",
)
def list_names(
    kind: Listable = typer.Argument(
        ..., help="What to list: suites, backends, metrics or bundles."
    ),
) -> None:
    """List the suites, backends, metrics or bundles of metrics that are installed."""
    table = Table(box=None, pad_edge=False)
    table.add_column("name", style="bold", no_wrap=True)
    table.add_column("what it is")
    for name in registry.names(kind):
        table.add_row(name, _summary(kind, name))
    Console().print(table)


def _summary(kind: Listable, name: str) -> str:
    try:
        found = registry.find(kind, name)
    except (MissingExtra, PlugInFault) as error:
        return str(error)
    direction = getattr(found, "direction", "")
    summary = (inspect.getdoc(found) or "").split("\n")[0].replace("``", "`")
    return f"{summary} ({direction} is better)" if direction in ("higher", "lower") else summary

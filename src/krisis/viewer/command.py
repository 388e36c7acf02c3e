"""`krisis view`: look at saved runs in a browser, on this machine only."""

from __future__ import annotations

import secrets
from pathlib import Path

import typer

from krisis.cli.help import command, new_app
from krisis.execution.prompts import shown_again
from krisis.viewer.app import create_app
from krisis.viewer.serving import serve

app = new_app()


@command(
    app,
    "krisis view",
    "krisis view study/runs --port 9000",
    "krisis view runs/RUN --no-browser --port 0",
    "krisis view --no-token",
)
def view(
    folder: Path = typer.Argument(Path("runs"), help="The folder of runs, or one run."),
    port: int = typer.Option(8321, "--port", min=0, max=65535),
    browser: bool = typer.Option(True, "--browser/--no-browser"),
    token: bool = typer.Option(
        True,
        "--token/--no-token",
    ),
) -> None:
    """Serve the pages of saved runs on 127.0.0.1 until Ctrl-C."""
    secret = secrets.token_urlsafe(32) if token else None
    site = create_app(folder, token=secret, shown_again=shown_again)
    serve(site, "krisis view", port=port, token=secret, browser=browser)

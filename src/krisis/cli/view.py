"""`krisis view`: look at saved runs in a browser, on this machine only."""

from __future__ import annotations

import secrets
import socket
import webbrowser
from pathlib import Path

import typer

from krisis.cli.help import command, new_app
from krisis.errors import InvalidValue, MissingExtra
from krisis.execution.prompts import shown_again
from krisis.viewer.app import create_app

app = new_app()
_GRACE_SECONDS = 2


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
    try:
        import uvicorn
    except ImportError:
        raise MissingExtra.named("viewer", "the viewer") from None
    try:
        # Listening at once: a browser that is faster than the server waits instead of failing.
        listening = socket.create_server(("127.0.0.1", port))
    except OSError as error:
        raise InvalidValue(f"port {port} cannot be used ({error.strerror}); try --port 0") from None
    address = f"http://127.0.0.1:{listening.getsockname()[1]}/"
    if secret is not None:
        address += f"?token={secret}"
    typer.echo(f"krisis view: {address}  (Ctrl-C ends it)")
    if browser:
        webbrowser.open(address)
    # No access log: it would hold the token of the address.
    # Ctrl-C waits no longer than this for a page that is being worked out.
    configuration = uvicorn.Config(
        site,
        log_level="warning",
        access_log=False,
        lifespan="off",
        timeout_graceful_shutdown=_GRACE_SECONDS,
    )
    uvicorn.Server(configuration).run(sockets=[listening])

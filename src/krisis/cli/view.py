"""`krisis view`: look at saved runs in a browser, on this machine only."""

from __future__ import annotations

import socket
import webbrowser
from pathlib import Path

import typer

from krisis.errors import InvalidValue, MissingExtra
from krisis.execution.prompts import shown_again
from krisis.viewer.app import create_app

app = typer.Typer(add_completion=False)


@app.command(epilog="Examples:  krisis view  |  krisis view runs --port 9000 --no-browser")
def view(
    folder: Path = typer.Argument(Path("runs"), help="The folder of runs, or one run."),
    port: int = typer.Option(
        8321, "--port", min=0, max=65535, help="The port on 127.0.0.1; 0 chooses a free one."
    ),
    browser: bool = typer.Option(True, "--browser/--no-browser", help="Open a browser."),
) -> None:
    """Serve the pages of saved runs on 127.0.0.1 until Ctrl-C."""
    site = create_app(folder, shown_again=shown_again)
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
    typer.echo(f"krisis view: {address}  (Ctrl-C ends it)")
    if browser:
        webbrowser.open(address)
    configuration = uvicorn.Config(site, log_level="warning", lifespan="off")
    uvicorn.Server(configuration).run(sockets=[listening])

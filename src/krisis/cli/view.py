"""`krisis view`: look at saved runs in a browser, on this machine only."""

from __future__ import annotations

import webbrowser
from pathlib import Path

import typer

from krisis.errors import InvalidValue, MissingExtra
from krisis.viewer.app import create_app

app = typer.Typer(
    help="Look at saved runs in a browser, on this machine only.", add_completion=False
)


@app.command(epilog="Examples:  krisis view  |  krisis view runs --port 9000 --no-browser")
def view(
    folder: Path = typer.Argument(Path("runs"), help="The folder of runs, or one run."),
    port: int = typer.Option(8321, "--port", help="The port on 127.0.0.1; 0 chooses a free one."),
    browser: bool = typer.Option(True, "--browser/--no-browser", help="Open a browser."),
) -> None:
    """Serve the pages of saved runs on 127.0.0.1 until Ctrl-C."""
    site = create_app(folder)
    try:
        import uvicorn
    except ImportError:
        raise MissingExtra.named("viewer", "the viewer") from None
    configuration = uvicorn.Config(site, host="127.0.0.1", port=port, log_level="warning")
    try:
        socket = configuration.bind_socket()
    except (OSError, SystemExit):
        raise InvalidValue(f"port {port} is taken; choose another with --port") from None
    socket.listen()  # a browser that is faster than the server waits instead of failing
    address = f"http://127.0.0.1:{socket.getsockname()[1]}/"
    typer.echo(f"krisis view: {address}  (Ctrl-C ends it)")
    if browser:
        webbrowser.open(address)
    uvicorn.Server(configuration).run(sockets=[socket])

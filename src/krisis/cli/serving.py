"""Serve pages on this machine until Ctrl-C."""

from __future__ import annotations

import socket
import webbrowser
from typing import Any

import typer

from krisis.errors import InvalidValue, MissingExtra

_GRACE_SECONDS = 2


def serve(site: Any, name: str, *, port: int, token: str | None, browser: bool) -> None:
    """Serve an application on 127.0.0.1, and print the address that opens it."""
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
    if token is not None:
        address += f"?token={token}"
    typer.echo(f"{name}: {address}  (Ctrl-C ends it)")
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

"""Serve pages on this machine until Ctrl-C."""

from __future__ import annotations

import asyncio
import socket
import webbrowser
from importlib.util import find_spec
from typing import Any

import typer

from krisis.errors import InvalidValue, MissingExtra

_GRACE_SECONDS = 2
# A browser on this machine sends a whole request at once.
_REQUEST_SECONDS = 10.0


def serve(site: Any, name: str, *, port: int, token: str | None, browser: bool) -> None:
    """Serve an application on 127.0.0.1, and print the address that opens it."""
    if find_spec("uvicorn") is None:
        raise MissingExtra.named("viewer", "the viewer")
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
    server_of(site).run(sockets=[listening])


def server_of(site: Any) -> Any:
    """Return a server that waits for the rest of a request only so long."""
    import uvicorn

    # No access log: it would hold the token of the address.
    # Ctrl-C waits no longer than this for a page that is being worked out.
    configuration = uvicorn.Config(
        site,
        http=_bounded_protocol(),
        log_level="warning",
        access_log=False,
        lifespan="off",
        timeout_graceful_shutdown=_GRACE_SECONDS,
    )
    return uvicorn.Server(configuration)


def _bounded_protocol() -> Any:
    """Return the protocol of uvicorn, which alone would wait for ever, with a clock."""
    import h11
    from uvicorn.protocols.http.h11_impl import H11Protocol

    class BoundedProtocol(H11Protocol):
        """Closes a connection whose request, headers or body, is not complete in time."""

        _clock: asyncio.TimerHandle | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._watch()

        def data_received(self, data: bytes) -> None:
            super().data_received(data)
            self._watch()

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            self._stop_clock()

        def _watch(self) -> None:
            if self.conn.their_state not in (h11.IDLE, h11.SEND_BODY):
                self._stop_clock()  # the request is here; its page may take as long as it takes
            elif self._clock is None:
                self._clock = self.loop.call_later(_REQUEST_SECONDS, self.transport.close)

        def _stop_clock(self) -> None:
            if self._clock is not None:
                self._clock.cancel()
                self._clock = None

    return BoundedProtocol

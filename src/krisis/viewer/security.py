"""The guard before every page: this machine only, this site only, reading only."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
    "cache-control": "no-store",
}
LOCAL_NAMES = ("127.0.0.1", "localhost", "[::1]")


class Guard:
    """Refuses foreign hosts (against DNS rebinding), foreign origins and anything but reading."""

    def __init__(self, app: Any, *, host_names: Iterable[str] = LOCAL_NAMES) -> None:
        self.app = app
        self.host_names = frozenset(host_names)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a refused request here and hand every other on, with the headers added."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return
        refusal = self._refusal(scope)
        if refusal is not None:
            await _refuse(send, *refusal)
            return

        async def send_guarded(message: Any) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *_encoded(HEADERS)]
            await send(message)

        await self.app(scope, receive, send_guarded)

    def _refusal(self, scope: Any) -> tuple[int, str] | None:
        headers = {
            name.decode("latin-1").lower(): value.decode("latin-1")
            for name, value in scope["headers"]
        }
        if scope["method"] not in ("GET", "HEAD"):
            return 405, f"{scope['method']} is not possible: the viewer only reads"
        host = headers.get("host", "")
        if _name(host) not in self.host_names:
            return 403, "this host name is not the viewer's; open http://127.0.0.1 instead"
        origin = headers.get("origin")
        if origin is not None and origin != f"http://{host}":
            return 403, "requests from other sites are refused"
        if (
            headers.get("sec-fetch-site") == "cross-site"
            and headers.get("sec-fetch-mode") != "navigate"
        ):
            return 403, "requests from other sites are refused"
        return None


def _name(host: str) -> str:
    name, separator, port = host.rpartition(":")
    return name if separator and port.isdigit() else host


def _encoded(headers: dict[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.encode(), value.encode()) for name, value in headers.items()]


async def _refuse(send: Any, status: int, sentence: str) -> None:
    body = sentence.encode()
    plain = {"content-type": "text/plain; charset=utf-8", "content-length": str(len(body))}
    headers = _encoded({**plain, **HEADERS})
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})

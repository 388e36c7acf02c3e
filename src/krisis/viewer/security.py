"""The guard before every page: this machine, this site, the holder of the token.

Pages are read. The few addresses that write are named when the guard is made; they take a small
form from a page of this very site (its Origin), sent by the holder of the token.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from collections.abc import Callable, Iterable
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    # Not no-referrer: then a browser hides the origin of a form from this very site.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), microphone=(), geolocation=()",
    "cache-control": "no-store",
}
LOCAL_NAMES = ("127.0.0.1", "localhost", "[::1]")
FORM = "application/x-www-form-urlencoded"
LONGEST_FORM = 64_000
STRANGER = (
    "this page opens only with its token, so that other users of this machine cannot read your "
    "runs; open the whole address that the terminal shows, or start the command again"
)

# What answers a request that is refused: its scope, the status and a sentence → an ASGI response.
Refuse = Callable[[Any, int, str], Any]


class Guard:
    """Refuses foreign hosts (against DNS rebinding), foreign origins, strangers and writing.

    A stranger is who shows the ``token`` neither in the address, where a browser gets a cookie in
    exchange, nor in that cookie, nor in the header ``Authorization``. Without a token all may read
    and nobody may write. ``writes`` matches the paths that take a POST.
    """

    def __init__(
        self,
        app: Any,
        refuse: Refuse,
        *,
        host_names: Iterable[str] = LOCAL_NAMES,
        token: str | None = None,
        writes: re.Pattern[str] | None = None,
    ) -> None:
        self.app = app
        self.refuse = refuse
        self.host_names = frozenset(host_names)
        self.token = token
        self.writes = writes

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a refused request here and hand every other on, with the headers added."""
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return
        headers = {
            name.decode("latin-1").lower(): value.decode("latin-1")
            for name, value in scope["headers"]
        }
        added = dict(HEADERS)

        async def send_guarded(message: Any) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *_encoded(added)]
            await send(message)

        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        shown = next((value for name, value in query if name == "token"), None)
        # No page and no log ever sees the token of the address.
        rest = urlencode([pair for pair in query if pair[0] != "token"])
        if shown is not None:
            scope = {**scope, "query_string": rest.encode()}
        refusal = self._refusal(scope, headers) or self._stranger(scope, headers, shown)
        if refusal is not None:
            await self.refuse(scope, *refusal)(scope, receive, send_guarded)
        elif shown is not None and not wants_json(scope):
            if self._is_token(shown):
                added["set-cookie"] = self._cookie(headers)
            await _redirect(scope["path"], rest, send_guarded)
        else:
            await self.app(scope, receive, send_guarded)

    def _refusal(self, scope: Any, headers: dict[str, str]) -> tuple[int, str] | None:
        is_write = scope["method"] not in ("GET", "HEAD")
        if is_write and not self._may_write(scope):
            return 405, f"{scope['method']} is not possible at this address"
        host = headers.get("host", "")
        if _split(host)[0] not in self.host_names:
            return 403, "this host name is not the viewer's; open http://127.0.0.1 instead"
        origin = headers.get("origin")
        if origin is None and is_write:
            return 403, "a form must be sent from a page of this site"
        if origin is not None and origin != f"http://{host}":
            return 403, "requests from other sites are refused"
        if is_write:
            return _bad_form(headers)
        if (
            headers.get("sec-fetch-site") == "cross-site"
            and headers.get("sec-fetch-mode") != "navigate"
        ):
            return 403, "requests from other sites are refused"
        return None

    def _may_write(self, scope: Any) -> bool:
        """Tell whether an address takes a form; where there is no token, none does."""
        if scope["method"] != "POST" or self.writes is None or self.token is None:
            return False
        return self.writes.fullmatch(scope["path"]) is not None

    def _stranger(
        self, scope: Any, headers: dict[str, str], shown: str | None
    ) -> tuple[int, str] | None:
        """Refuse who does not show the token; the style sheet and scripts tell nothing."""
        if self.token is None or scope["path"].startswith("/static/"):
            return None
        kind, _, given = headers.get("authorization", "").partition(" ")
        if kind.lower() in ("bearer", "token") and self._is_token(given.strip()):
            return None
        if shown is not None and self._is_token(shown):
            return None
        name, _, value = self._cookie(headers).partition(";")[0].partition("=")
        for pair in headers.get("cookie", "").split(";"):
            known, _, held = pair.strip().partition("=")
            if known == name and hmac.compare_digest(held.encode(), value.encode()):
                return None
        return 403, STRANGER

    def _is_token(self, given: str) -> bool:
        return self.token is not None and hmac.compare_digest(given.encode(), self.token.encode())

    def _cookie(self, headers: dict[str, str]) -> str:
        """Return the cookie of this viewer; browsers share cookies between ports, names do not.

        It is not the token itself, which so stays between the terminal and the first visit.
        """
        value = hashlib.sha256(f"krisis view cookie {self.token}".encode()).hexdigest()
        port = _split(headers.get("host", ""))[1]
        return f"krisis-view-{port or 80}={value}; Path=/; HttpOnly; SameSite=Strict"


def _bad_form(headers: dict[str, str]) -> tuple[int, str] | None:
    """Refuse what no form of these pages sends."""
    site = headers.get("sec-fetch-site", "same-origin")
    if site != "same-origin":
        return 403, "requests from other sites are refused"
    if headers.get("content-type", "").partition(";")[0].strip().lower() != FORM:
        return 403, f"a form is sent as {FORM}"
    length = headers.get("content-length", "")
    if not length.isdigit() or int(length) > LONGEST_FORM:
        return 403, f"a form has at most {LONGEST_FORM:,} bytes"
    return None


async def form_of(request: Any) -> dict[str, str]:
    """Return the fields of a form that the guard let through."""
    from starlette.exceptions import HTTPException
    from starlette.requests import ClientDisconnect

    try:
        body = (await request.body())[:LONGEST_FORM]
    except ClientDisconnect:  # sent by halves: nobody waits for the answer
        raise HTTPException(408) from None
    return dict(parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True))


def wants_json(scope: Any) -> bool:
    """Say whether a request asks for JSON: by its address, or as the only text it accepts."""
    if scope["path"].endswith(".json"):
        return True
    accepted = b",".join(value for name, value in scope["headers"] if name.lower() == b"accept")
    return b"application/json" in accepted and b"text/html" not in accepted


def _split(host: str) -> tuple[str, str]:
    name, separator, port = host.rpartition(":")
    return (name, port) if separator and port.isdigit() else (host, "")


def _encoded(headers: dict[str, str]) -> list[tuple[bytes, bytes]]:
    return [(name.encode(), value.encode()) for name, value in headers.items()]


async def _redirect(path: str, query: str, send: Any) -> None:
    """Send a browser to the same page without the token; never to another site."""
    place = "/" + quote(path.lstrip("/"), safe="/") + (f"?{query}" if query else "")
    headers = _encoded({"location": place, "content-length": "0"})
    await send({"type": "http.response.start", "status": 303, "headers": headers})
    await send({"type": "http.response.body", "body": b""})

"""What a stranger sends: code that leaves a canary, a server that counts, edited manifests."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

_PAYLOAD = """
from pathlib import Path
from krisis.metrics import Accuracy
Path({canary!r}).write_text("executed")
class X(Accuracy):
    key = {key!r}
"""


def write_payload(folder: Path, canary: Path) -> str:
    """Write code that leaves a canary once it is executed, and return its place."""
    file = folder / f"payload_{abs(hash(str(folder)))}.py"  # a module is imported once a process
    place = f"{file}:X"
    file.write_text(_PAYLOAD.format(canary=str(canary), key=place))
    return place


def edit_json(path: Path, **changes: Any) -> None:
    """Write other values into a JSON file; those of ``config`` are merged into it."""
    content = json.loads(path.read_text())
    for name, value in changes.items():
        merge = isinstance(content.get(name), dict) and isinstance(value, dict)
        content[name] = {**content[name], **value} if merge else value
    path.write_text(json.dumps(content))


class Counting:
    """The address of a server, and the headers and bodies of what it was sent."""

    def __init__(self, port: int) -> None:
        self.address = f"http://127.0.0.1:{port}/v1"
        self.requests: list[str] = []


@contextmanager
def counting_server() -> Iterator[Counting]:
    """Serve errors on loopback and count the requests."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers.get("content-length") or 0))
            counting.requests.append(f"{self.path}\n{self.headers}\n{body!r}")
            self.send_response(401)
            self.end_headers()

        do_GET = do_POST  # noqa: N815

        def log_message(self, *arguments: Any) -> None:
            return

    server = HTTPServer(("127.0.0.1", 0), Handler)
    counting = Counting(server.server_port)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        yield counting
    finally:
        server.shutdown()
        server.server_close()

"""What a stranger sends: code that leaves a canary, a server that counts, manifests, journals.

Runs are edited and sealed again by `forge_run` and `forge_description` of `tests.invented_runs`.
"""

from __future__ import annotations

import json
import struct
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


_JOURNAL_MAGIC = bytes.fromhex("d9d505f920a163d7")


def write_journal(path: Path, super_journal: str = "") -> Path:
    """Write a rollback journal of one page that SQLite applies when it opens a run for writing.

    After that, it deletes the file that the journal names as its super-journal.
    https://www.sqlite.org/fileformat2.html#the_rollback_journal
    """
    content = path.read_bytes()
    size, nonce, sector = int.from_bytes(content[16:18], "big"), 7, 512
    first = content[:size]
    checksum = (nonce + sum(first[at] for at in range(size - 200, 0, -200))) % 2**32
    header = _JOURNAL_MAGIC + struct.pack(">5I", 1, nonce, len(content) // size, sector, size)
    written = header.ljust(sector, b"\0") + struct.pack(">I", 1) + first
    written += struct.pack(">I", checksum)
    if super_journal:
        name = super_journal.encode()
        lock_page = 2**30 // size + 1
        facts = struct.pack(">II", len(name), sum(name) % 2**32)
        written += struct.pack(">I", lock_page) + name + facts + _JOURNAL_MAGIC
    journal = path.with_name(f"{path.name}-journal")
    journal.write_bytes(written)
    return journal


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

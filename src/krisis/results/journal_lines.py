"""The lines of a journal: each carries a checksum, so that no damaged line is ever believed.

A line is one JSON object whose last entry, ``check``, is a hash of everything before it. What does
not verify is damaged, whatever it may look like; an intact line is found even where the end of the
line before it was lost.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from krisis.json_values import JsonObject

_START = b'{"kind": "'
_CHECK = b', "check": "'
_END = re.compile(rb', "check": "[0-9a-f]{16}"\}')
_N_END = len(_CHECK) + 16 + len(b'"}')
# A nested object may end like a line does, so more than the first possible end is tried.
_N_ENDS_TRIED = 4


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of a journal: an intact line with its content, or damage without."""

    number: int
    start: int
    text: bytes
    content: JsonObject | None

    @property
    def end(self) -> int:
        """Return the place of the first byte after it."""
        return self.start + len(self.text)


def sealed(line: JsonObject) -> bytes:
    """Write a line with its checksum.

    ASCII only, so that half a surrogate pair in what a model wrote cannot stop the journal.

    >>> sealed({"kind": "calls"})
    b'{"kind": "calls", "check": "8bf34a50f541b130"}\\n'
    """
    body = json.dumps(line, allow_nan=False).encode("ascii")[:-1]
    return body + _CHECK + _digest(body) + b'"}\n'


def pieces(path: Path, start: int = 0) -> Iterator[Piece]:
    """Yield the lines from a place on, damage apart; number 1 is the first of them."""
    with path.open("rb") as file:
        file.seek(start)
        for number, line in enumerate(file, start=1):
            content = opened(line.removesuffix(b"\n"))
            if content is not None:
                yield Piece(number, start, line, content)
            else:
                yield from _rescued(number, start, line)
            start += len(line)


def _digest(body: bytes) -> bytes:
    return hashlib.sha256(body).hexdigest()[:16].encode("ascii")


def opened(line: bytes) -> JsonObject | None:
    """Return the content of an intact line."""
    body, end = line[:-_N_END], line[-_N_END:]
    if end != _CHECK + _digest(body) + b'"}':
        return None
    try:
        content: JsonObject = json.loads(body + b"}")
    except (ValueError, RecursionError):  # a checksum says nothing about what it is of
        return None
    return content


def _rescued(number: int, start: int, line: bytes) -> Iterator[Piece]:
    """Yield the intact lines inside a damaged stretch, and what is left between them."""
    done = 0
    ends = [match.end() for match in _END.finditer(line)]
    for match in re.finditer(re.escape(_START), line):
        begin = match.start()
        if begin < done:
            continue
        for end in [end for end in ends if end > begin][:_N_ENDS_TRIED]:
            content = opened(line[begin:end])
            if content is not None:
                if begin > done:
                    yield Piece(number, start + done, line[done:begin], None)
                yield Piece(number, start + begin, line[begin:end], content)
                done = end
                break
    if line[done:].strip(b"\n"):
        yield Piece(number, start + done, line[done:], None)

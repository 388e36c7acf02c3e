"""Keys: held in a type that never prints, found in the environment or in a `.env` file."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from urllib.parse import parse_qsl, urlsplit

from dotenv import dotenv_values

from krisis.errors import MissingKey

# A key as error messages quote it: its head, stars or dots, its tail.
_MASKED = re.compile(r"([\w-]*)(?:\*{2,}|\.{3,}|…)([\w-]*)")
_TELLING = 3


class Secret:
    """A text that shows itself only when asked to by name.

    >>> Secret("sk-123")
    Secret('…')
    >>> f"{Secret('sk-123')}"
    '…'
    """

    __slots__ = ("_text",)

    def __init__(self, text: str) -> None:
        self._text = text

    def reveal(self) -> str:
        """Return the text itself, for the client that must send it."""
        return self._text

    def removed_from(self, text: str) -> str:
        """Return a text without the secret, also where only its head or tail is quoted."""
        if not self._text:
            return text
        return _MASKED.sub(self._blanked, text.replace(self._text, "…"))

    def _blanked(self, match: re.Match[str]) -> str:
        head, tail = match[1], match[2]
        quotes_head = len(head) >= _TELLING and self._text.startswith(head)
        quotes_tail = len(tail) >= _TELLING and self._text.endswith(tail)
        return "…" if quotes_head or quotes_tail else match[0]

    def __repr__(self) -> str:
        return "Secret('…')"

    def __str__(self) -> str:
        return "…"

    def __reduce__(self) -> str:
        raise TypeError("a secret is not written to files; read it again from the environment")


def holds_secret(address: str) -> bool:
    """Say whether an address carries a login, or a parameter that looks like a key."""
    parts = urlsplit(address)
    words = ("key", "token", "secret", "password", "credential", "sig")
    names = [name.lower() for name, _ in parse_qsl(parts.query, keep_blank_values=True)]
    return parts.username is not None or any(word in name for name in names for word in words)


def find_key(variables: Sequence[str], provider: str) -> Secret:
    """Return the first key that the environment or the `.env` of this folder holds."""
    written = {**_dotenv(Path(".env")), **os.environ}
    for variable in variables:
        if value := (written.get(variable) or "").strip():
            return Secret(value)
    raise MissingKey(
        f"no key for {provider}: {' or '.join(variables)} is not set; "
        f"type: export {variables[0]}=… (or write that line into a file .env here)"
    )


def _dotenv(path: Path) -> dict[str, str | None]:
    try:
        return dotenv_values(path, interpolate=False)  # a key may hold a dollar sign
    except (OSError, UnicodeDecodeError):
        return {}

"""Keys: held in a type that never prints, found in the environment or in a `.env` file."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from krisis.errors import MissingKey


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
        return text.replace(self._text, "…")

    def __repr__(self) -> str:
        return "Secret('…')"

    def __str__(self) -> str:
        return "…"

    def __reduce__(self) -> str:
        raise TypeError("a secret is not written to files; read it again from the environment")


def find_key(variables: Sequence[str], provider: str) -> Secret:
    """Return the first key that the environment or the `.env` of this folder holds."""
    written = {**_dotenv(Path(".env")), **os.environ}
    for variable in variables:
        if value := written.get(variable, "").strip():
            return Secret(value)
    raise MissingKey(
        f"no key for {provider}: {' or '.join(variables)} is not set; "
        f"type: export {variables[0]}=… (or write that line into a file .env here)"
    )


def _dotenv(path: Path) -> dict[str, str]:
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return {}
    pairs = (line.strip().removeprefix("export ").partition("=") for line in lines)
    return {
        name.strip(): value.strip().strip("'\"")
        for name, sign, value in pairs
        if sign and not name.startswith("#")
    }

"""Where tables are printed: as wide as the terminal, or wide enough for a file."""

from __future__ import annotations

from rich.console import Console

_FILE_WIDTH = 140


def wide_console() -> Console:
    """Return a console that does not break tables when its output goes to a file."""
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=_FILE_WIDTH)

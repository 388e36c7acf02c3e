"""Where text leaves for the terminal: the one place that keeps it from steering one.

Names, errors and replies come from files and servers of strangers. Whatever a command prints, its
errors, warnings, logs and tracebacks included, is written to a `TerminalEdge`.
"""

from __future__ import annotations

import errno
import os
import sys
from typing import TYPE_CHECKING, Any, TextIO

from krisis.display import spelled_out

if TYPE_CHECKING:
    from rich.console import Console


class TerminalEdge:
    """A standard stream that spells out hidden characters, and outlives its terminal.

    ``unescaped`` is the same stream for text whose every word was escaped before colours or moves
    of the cursor were added, and for data that go to a file or another program.
    """

    def __init__(self, stream: TextIO, *, escapes: bool = True) -> None:
        self._stream = stream
        self._escapes = escapes
        self._was_terminal = stream.isatty()  # one that is closed says no
        self.unescaped = TerminalEdge(stream, escapes=False) if escapes else self

    def write(self, text: str) -> int:
        """Write text in which nothing steers a terminal."""
        try:
            return self._stream.write(spelled_out(text) if self._escapes else text)
        except OSError as error:
            self._let_go(error)
            return len(text)

    def writelines(self, lines: Any) -> None:
        """Write lines one by one."""
        for line in lines:
            self.write(line)

    def flush(self) -> None:
        """Send what was written."""
        try:
            self._stream.flush()
        except OSError as error:
            self._let_go(error)

    def _let_go(self, error: OSError) -> None:
        """Send what is said to a terminal that was closed nowhere: the work goes on without it."""
        if not self._was_terminal or error.errno != errno.EIO:
            raise error
        with open(os.devnull, "wb") as nowhere:
            os.dup2(nowhere.fileno(), self._stream.fileno())

    def __getattr__(self, name: str) -> Any:
        if name == "buffer":  # click would write around the edge
            raise AttributeError(name)
        return getattr(self._stream, name)


def guard_streams() -> None:
    """Put the edge before standard output and standard error, once."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is not None and not isinstance(stream, TerminalEdge):
            setattr(sys, name, TerminalEdge(stream))


def unescaped(stream: TextIO) -> TextIO:
    """Return a stream without its edge, for text that was escaped or goes to no terminal."""
    return stream.unescaped if isinstance(stream, TerminalEdge) else stream  # type: ignore[return-value]


def live_console() -> Console:
    """Return a console for live lines on standard error; what is printed between them is escaped.

    While lines are live, rich takes over both streams and hands what is written to ``print``.
    """
    from rich.console import Console
    from rich.text import Text

    class LiveConsole(Console):
        def print(self, *objects: Any, **options: Any) -> None:
            plain = (one.plain if isinstance(one, Text) else one for one in objects)
            shown = (Text(spelled_out(one)) if isinstance(one, str) else one for one in plain)
            super().print(*shown, **options)

    return LiveConsole(file=unescaped(sys.stderr))

"""A real terminal for the tests: a pseudo-terminal that a command believes in."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from pathlib import Path

# Makes the terminal on standard input the one that ends the process when it is closed.
_WITH_TERMINAL = (
    "import fcntl, os, signal, sys, termios; signal.signal(signal.SIGHUP, signal.SIG_DFL); "
    "os.setsid(); fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
    "os.execv(sys.executable, [sys.executable, '-m', 'krisis', *sys.argv[1:]])"
)


class Terminal:
    """A terminal in which one command of krisis runs."""

    def __init__(self, *words: str, cwd: Path, **variables: str) -> None:
        import pty

        self._ours, theirs = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-c", _WITH_TERMINAL, *words],
            cwd=cwd,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "100", **variables},
        )
        os.close(theirs)

    def read(self) -> str:
        """Return all that the command shows until it ends."""
        shown = b""
        with contextlib.suppress(OSError):  # the other end was closed
            while part := os.read(self._ours, 65_536):
                shown += part
        self.process.wait(60)
        self.close()
        return shown.decode()

    def close(self) -> None:
        """Close the window, as a user does."""
        os.close(self._ours)

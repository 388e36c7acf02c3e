"""A real terminal for the tests: a pseudo-terminal that a command believes in."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

# Runs several commands as the forks of one process, which has loaded what they need.
_EACH = """
import json, os, sys
from krisis.cli.app import COMMANDS, import_module, main
every = json.loads(sys.argv[1])
for words in every.values():
    import_module(COMMANDS[words[0]][0])
for name, words in every.items():
    sys.stdout.flush()
    child = os.fork()
    if not child:
        sys.argv = ["krisis", *words]
        main()
        os._exit(0)
    os.waitpid(child, 0)
    print(f"=== {name} ===", flush=True)
"""
# Makes the terminal on standard input the one that ends the process when it is closed.
_WITH_TERMINAL = (
    "import fcntl, os, signal, sys, termios; signal.signal(signal.SIGHUP, signal.SIG_DFL); "
    "os.setsid(); fcntl.ioctl(0, termios.TIOCSCTTY, 0); "
    "os.execv(sys.executable, [sys.executable, *sys.argv[1:]])"
)


class Terminal:
    """A terminal in which one command of krisis runs, or another program of Python."""

    def __init__(
        self, *words: str, cwd: Path, program: Sequence[str] = ("-m", "krisis"), **variables: str
    ) -> None:
        import pty

        self._ours, theirs = pty.openpty()
        self.process = subprocess.Popen(
            [sys.executable, "-c", _WITH_TERMINAL, *program, *words],
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


def shown_by(commands: Mapping[str, Sequence[str]], cwd: Path) -> dict[str, str]:
    """Return what each of some commands shows in a terminal."""
    rest = Terminal(json.dumps(commands), cwd=cwd, program=("-c", _EACH)).read()
    found = {}
    for name in commands:
        found[name], _, rest = rest.partition(f"=== {name} ===")
    return found

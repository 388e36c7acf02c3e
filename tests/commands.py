"""A command of krisis, run in the process of the tests to save the time of starting one."""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Iterable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple, TypeVar

from krisis.cli.app import GROUPS, main

COMMANDS = {name for group in GROUPS.values() for name in group}
Line = TypeVar("Line", bound=Sequence[str])


def offered(lines: Iterable[Line]) -> list[Line]:
    """Return the command lines whose command there is: a verb leaves with its folder."""
    return [words for words in lines if words[0] in COMMANDS]


class Done(NamedTuple):
    """What a command left."""

    returncode: int
    stdout: str
    stderr: str


def krisis(*words: str, cwd: Path) -> Done:
    """Run a command as a shell in that folder would."""
    arguments, sys.argv = sys.argv, ["krisis", *words]
    out, err, code = io.StringIO(), io.StringIO(), 0
    try:
        with contextlib.chdir(cwd), redirect_stdout(out), redirect_stderr(err):
            main()
    except SystemExit as end:
        code = int(end.code or 0)
    finally:
        sys.argv = arguments
    return Done(code, out.getvalue(), err.getvalue())

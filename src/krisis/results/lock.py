"""The lock of a run directory: one process writes, on every operating system."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

from filelock import FileLock, Timeout

from krisis.errors import RunConflict
from krisis.json_values import write_text
from krisis.results.store import RunDirectory


class RunLock:
    """Holds a run for this process; the operating system releases it however the process ends."""

    def __init__(self, path: Path) -> None:
        directory = RunDirectory(path)
        directory.refuse_links()
        self._writer = directory.writer
        self._lock = FileLock(directory.lock, mode=0o600)
        try:
            self._lock.acquire(blocking=False)
        except Timeout:
            raise RunConflict(
                f"{path} is being written by another process{_named(self._writer)}; "
                "wait for it to end, or stop it, then resume"
            ) from None
        # Beside the lock, not in it: on Windows nobody else can read a file that is locked.
        write_text(self._writer, f"pid {os.getpid()}\n", overwrite=True)

    def release(self) -> None:
        """Release the run."""
        self._writer.unlink(missing_ok=True)
        self._lock.release()


def _named(writer: Path) -> str:
    with suppress(OSError, UnicodeDecodeError):
        return f" ({writer.read_text(encoding='ascii').strip()})"
    return ""
